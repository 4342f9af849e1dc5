//! A report of throttled keys: its window of time, its keys, and these by collection.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_keys::{PartitionKey, PhysicalPartitionKey, Separator, ShardId};

use crate::model::error::Error;

/// The seconds that one datapoint of a report stands for, unless the alarm looks more closely.
/// Contributor Insights gathers by the minute.
const REPORT_PERIOD_SECS: u32 = 60;

/// The longest time that one report covers. What was hot the day before does not make a collection grow
/// today.
const LONGEST_WINDOW_SECS: u64 = 86_400;

/// How many periods an alarm evaluated, where it does not say: as many as it may need at most to
/// notice a breach, by the template's own alarm.
const USUAL_EVALUATIONS: u32 = 5;

/// The time in which an alarm saw its metric breach, widened by what a report needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeatWindow {
    /// Where the report begins, in epoch seconds.
    pub from_secs: u64,
    /// Where it ends, in epoch seconds; after `from_secs`.
    pub to_secs: u64,
    /// The seconds of each datapoint, from 1 to 60.
    pub period_secs: u32,
}

impl HeatWindow {
    /// The window of an alarm that was raised at `at_secs` after it had `evaluated` that much time
    /// in periods of `period`. It goes on until now, since the heat may have begun after the first
    /// breach, and begins one datapoint early, since a datapoint bears the time of its beginning.
    pub fn of_alarm(
        at_secs: u64,
        evaluated: Option<Duration>,
        period: Duration,
        now_secs: u64,
    ) -> Self {
        let period_secs =
            u32::try_from(period.as_secs()).unwrap_or(u32::MAX).clamp(1, REPORT_PERIOD_SECS);
        let slack = u64::from(period_secs);
        let evaluated = evaluated.unwrap_or(period.saturating_mul(USUAL_EVALUATIONS)).max(period);
        // The alarm's clock may be ahead of this one.
        let to_secs = now_secs.max(slack);
        let begun = at_secs.min(to_secs).saturating_sub(evaluated.as_secs());
        let earliest = to_secs.saturating_sub(LONGEST_WINDOW_SECS);
        Self { from_secs: begun.saturating_sub(slack).max(earliest), to_secs, period_secs }
    }
}

/// A partition key as the main table has it, and how often requests for it were throttled.
#[derive(Debug, Clone, PartialEq)]
pub struct HotKey {
    /// The text of the physical partition key.
    pub partition: String,
    /// When it was throttled.
    pub throttles: Vec<Throttles>,
    /// How often requests for its most throttled sort key were, in the whole window; `None` where that is not
    /// reported.
    pub hottest_item: Option<f64>,
}

/// The throttles of one period of a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttles {
    /// When the period begins, in epoch seconds.
    pub at_secs: u64,
    /// How many there were. Contributor Insights counts approximately.
    pub count: f64,
}

/// What an alarm says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmStatus {
    /// Whether it is in ALARM.
    pub is_raised: bool,
    /// The seconds of each of its periods.
    pub period: Duration,
    /// How many periods it evaluates.
    pub evaluation_periods: u32,
}

/// The throttles of one item collection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HotCollection {
    pub(crate) partition: PartitionKey,
    /// The first shard, whose number depends on the placement, goes without one.
    pub(crate) shards: Vec<(Option<ShardId>, Vec<Throttles>)>,
    /// The throttles of the most throttled item, where they are reported.
    pub(crate) hottest_item: Option<f64>,
}

impl HotCollection {
    /// All throttles of all shards.
    pub(crate) fn total(&self) -> f64 {
        self.shards.iter().flat_map(|(_, throttles)| throttles).map(|t| t.count).sum()
    }
}

/// Groups a report by item collection, hottest first. Keys that cannot be of this system come
/// second.
pub(crate) fn group(
    report: Vec<HotKey>,
    separator: Separator,
) -> (Vec<HotCollection>, Vec<String>) {
    let mut found = BTreeMap::<PartitionKey, HotCollection>::new();
    let mut of_no_collection = Vec::new();
    // A counter that is throttled gets cells by whoever adds to it.
    let report = report.into_iter().filter(|hot| !PartitionKey::is_of_cell(&hot.partition));
    for HotKey { partition, throttles, hottest_item } in report {
        match PhysicalPartitionKey::parse(&partition, separator) {
            Ok((logical, shard)) => {
                let collection = found.entry(logical.clone()).or_insert_with(|| HotCollection {
                    partition: logical,
                    shards: Vec::new(),
                    hottest_item: None,
                });
                collection.shards.push((shard, throttles));
                // None is less than any number.
                let hottest = collection.hottest_item;
                collection.hottest_item =
                    if hottest_item > hottest { hottest_item } else { hottest };
            }
            Err(_) => of_no_collection.push(partition),
        }
    }
    let mut collections = found.into_values().collect::<Vec<_>>();
    collections.sort_by(|a, b| b.total().total_cmp(&a.total()));
    (collections, of_no_collection)
}

/// Whether the alarm was set back, so that a further breach is a transition again and calls again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rearm {
    /// Nothing is left that a further call could do, or nothing may be changed in this mode.
    NotNeeded,
    /// It is set back.
    Done,
    /// It could not be set back. The schedule looks again.
    Failed(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(partition: &str, count: f64) -> HotKey {
        let throttles = vec![Throttles { at_secs: 0, count }];
        HotKey { partition: partition.to_owned(), throttles, hottest_item: None }
    }

    #[test]
    fn shards_are_summed_by_collection_and_the_hottest_comes_first() {
        let report = vec![
            hot("calm#~1", 8.0),
            hot("a#~1#~1", 7.0),
            hot("hot", 6.0),
            hot("hot#~2", 5.0),
            hot("cold", 9.0),
            hot("_ds_meta#~1", 99.0),
            hot("hot#~02", 99.0),
            hot("_ds_c#7f99762e7f9305cb#0#hot", 99.0),
        ];
        let (collections, of_no_collection) = group(report, Separator::HashTilde);
        let sums = collections.iter().map(|c| (c.partition.as_str(), c.total()));
        assert_eq!(
            sums.collect::<Vec<_>>(),
            [("hot", 11.0), ("cold", 9.0), ("calm", 8.0), ("a#~1", 7.0)]
        );
        assert_eq!(of_no_collection, ["_ds_meta#~1", "hot#~02"]);
    }

    #[test]
    fn a_window_covers_what_the_alarm_evaluated_and_goes_on_until_now() {
        let minute = Duration::from_mins(1);
        let window = |evaluated, period| {
            let HeatWindow { from_secs, to_secs, period_secs } =
                HeatWindow::of_alarm(100_000, evaluated, period, 100_030);
            (100_000 - from_secs, to_secs - 100_000, period_secs)
        };
        assert_eq!(window(Some(minute * 3), minute), (240, 30, 60));
        assert_eq!(window(None, minute), (360, 30, 60));
        assert_eq!(window(None, Duration::from_secs(2)), (12, 30, 2), "a stack under test");
        assert_eq!(window(Some(Duration::ZERO), minute), (120, 30, 60), "one period at least");
        assert_eq!(window(None, Duration::from_hours(24)), (86_370, 30, 60), "a day at most");
        assert_eq!(window(None, Duration::ZERO), (1, 30, 1), "an alarm without a period");
        assert_eq!(window(None, Duration::MAX), (86_370, 30, 60));
    }

    #[test]
    fn clocks_that_disagree_make_no_empty_window() {
        let minute = Duration::from_mins(1);
        for (at_secs, now_secs) in [(2_000, 1_000), (0, 0), (u64::MAX, 5), (0, u64::MAX)] {
            let window = HeatWindow::of_alarm(at_secs, None, minute, now_secs);
            assert!(window.from_secs < window.to_secs, "{window:?}");
        }
    }
}
