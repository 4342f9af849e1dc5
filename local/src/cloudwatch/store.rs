//! The metrics that were put: by `PutMetricData`, and by the functions in what they log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use dynashard_limits::partition::Partitions;
use parking_lot::Mutex;

use super::statistics::{MetricSource, StatisticSet};
use crate::plan::MetricId;

/// How long values are kept, in seconds, and for how long a metric is listed after its last one: as
/// long as `CloudWatch` keeps what it has by the second (`CloudWatch` API: `GetMetricStatistics`).
pub(crate) const HISTORY_SECS: u64 = Partitions::COUNT_HISTORY_SECS;

/// How far ahead of the clock a value may be, in seconds (`CloudWatch` API: `PutMetricData`).
pub(crate) const MAX_AHEAD_SECS: u64 = 2 * 60 * 60;

/// Metrics by the second, whatever their storage resolution.
///
/// Memory is bounded: values are kept for [`HISTORY_SECS`], of at most [`MetricStore::MAX_METRICS`]
/// metrics.
#[derive(Debug, Default)]
pub(crate) struct MetricStore {
    metrics: Mutex<BTreeMap<MetricId, Seconds>>,
}

/// The values of one metric, by the epoch second.
type Seconds = BTreeMap<u64, StatisticSet>;

/// There are as many metrics as the store can hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the local stack keeps at most {} metrics", MetricStore::MAX_METRICS)]
pub(crate) struct StoreFull;

impl MetricStore {
    /// How many metrics are kept at a time.
    pub(crate) const MAX_METRICS: usize = 5_000;

    /// Adds values of `metric` in the epoch second `second`; `now` is the one that runs.
    ///
    /// Values that are older than the history, or too far ahead of the clock, are let go.
    pub(crate) fn put(
        &self,
        now: u64,
        metric: MetricId,
        second: u64,
        values: StatisticSet,
    ) -> Result<(), StoreFull> {
        let first = now.saturating_sub(HISTORY_SECS);
        if !(first..=now.saturating_add(MAX_AHEAD_SECS)).contains(&second) {
            return Ok(());
        }
        let mut metrics = self.metrics.lock();
        if metrics.len() >= Self::MAX_METRICS && !metrics.contains_key(&metric) {
            metrics.retain(|_, seconds| {
                seconds.last_key_value().is_some_and(|(latest, _)| *latest >= first)
            });
            if metrics.len() >= Self::MAX_METRICS {
                return Err(StoreFull);
            }
        }
        let seconds = metrics.entry(metric).or_default();
        if seconds.first_key_value().is_some_and(|(oldest, _)| *oldest < first) {
            *seconds = seconds.split_off(&first);
        }
        let known = seconds.get(&second).copied();
        seconds.insert(second, known.map_or(values, |known| known.merge(values)));
        Ok(())
    }

    /// The metrics that had a value within the history.
    pub(crate) fn list(&self, now: u64) -> BTreeSet<MetricId> {
        let first = now.saturating_sub(HISTORY_SECS);
        let metrics = self.metrics.lock();
        let recent = metrics.iter().filter(|(_, seconds)| seconds.range(first..).next().is_some());
        recent.map(|(metric, _)| metric.clone()).collect()
    }
}

impl MetricSource for MetricStore {
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        let metrics = self.metrics.lock();
        let values = metrics.get(metric)?;
        let range = seconds.start..seconds.end.max(seconds.start);
        StatisticSet::merge_all(values.range(range).map(|(_, set)| *set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Statistic;

    const NOW: u64 = 1_795_000_000;

    fn metric(name: &str) -> MetricId {
        MetricId {
            namespace: "Test".to_owned(),
            name: name.to_owned(),
            dimensions: BTreeMap::new(),
        }
    }

    fn put(store: &MetricStore, now: u64, second: u64, value: f64) {
        store.put(now, metric("m"), second, StatisticSet::of(value, 1.0)).expect("there is room");
    }

    #[test]
    fn values_of_a_period_are_added_up_at_any_resolution() {
        let store = MetricStore::default();
        for (second, value) in [(NOW, 4.0), (NOW, 2.0), (NOW + 1, 12.0), (NOW + 60, 1.0)] {
            put(&store, NOW, second, value);
        }
        let all = |seconds| {
            let set = store.statistics(&metric("m"), seconds).expect("values");
            let all = Statistic::NAMES.iter();
            all.map(|(_, statistic)| set.get(*statistic).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(all(NOW..NOW + 60), ["3", "6", "18", "2", "12"]);
        assert_eq!(all(NOW..NOW + 1), ["2", "3", "6", "2", "4"]);
        assert_eq!(store.statistics(&metric("m"), NOW + 2..NOW + 60), None);
        assert_eq!(store.statistics(&metric("other"), NOW..NOW + 60), None);
    }

    #[test]
    fn a_period_that_ends_before_it_begins_has_no_values() {
        let store = MetricStore::default();
        put(&store, NOW, NOW, 1.0);
        #[expect(clippy::reversed_empty_ranges, reason = "this is what is tested")]
        let set = store.statistics(&metric("m"), NOW + 1..NOW);
        assert_eq!(set, None);
    }

    #[test]
    fn values_older_than_the_history_or_far_ahead_are_dropped() {
        let store = MetricStore::default();
        put(&store, NOW, NOW - HISTORY_SECS - 1, 1.0);
        put(&store, NOW, NOW + MAX_AHEAD_SECS + 1, 1.0);
        assert!(store.list(NOW).is_empty());
        put(&store, NOW, NOW - HISTORY_SECS, 1.0);
        put(&store, NOW, NOW + MAX_AHEAD_SECS, 1.0);
        assert_eq!(store.list(NOW).len(), 1);
        put(&store, NOW + 1, NOW, 1.0);
        assert_eq!(store.statistics(&metric("m"), 0..NOW), None, "its time is over");
    }

    #[test]
    fn old_metrics_make_room_for_new_ones_and_young_ones_do_not() {
        let store = MetricStore::default();
        let set = StatisticSet::of(1.0, 1.0);
        for number in 0..MetricStore::MAX_METRICS {
            store.put(NOW, metric(&number.to_string()), NOW, set).expect("there is room");
        }
        let more = |now| store.put(now, metric("more"), now, set);
        assert_eq!(more(NOW + 1), Err(StoreFull));
        assert_eq!(store.put(NOW + 1, metric("0"), NOW, set), Ok(()), "it is there already");
        assert_eq!(more(NOW + HISTORY_SECS + 1), Ok(()));
        assert_eq!(store.list(NOW + HISTORY_SECS + 1).len(), 1);
    }
}
