//! What a collection is asked for and granted, for people.

use std::time::Duration;

use dynashard_keys::ShardCount;

use crate::model::ledger::{Bucket, Ledger, Measures, Span};
use crate::model::policy::{Access, PartitionLimits};

/// What clients ask a collection for a second, as its ledgers say. Operations count once, however often
/// they are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The write units.
    pub write_units: f64,
    /// The read units of gets.
    pub get_units: f64,
    /// The read units of queries.
    pub query_units: f64,
    /// Over how many seconds this is the mean.
    pub over_secs: u64,
    /// When the last of these seconds ended, in epoch seconds.
    pub as_of_secs: u64,
}

/// How far back seconds are recent.
const RECENT_SECS: u64 = 10;

/// How long after its end a second is shown: what environments report late is in it then. Decisions do not wait so long.
const COMPLETE_AFTER: Duration = Duration::from_millis(1_200);

/// From which part of what its shards take on all who use a collection are taken to see throttles.
const ALL_THROTTLED: f64 = 0.5;

/// Whether what was reported of a second is about all that there was. By the second those alone report who see throttles: all
/// do where the shards are asked for most of what they take, or refuse more than they grant. Elsewhere it is what a few saw.
pub fn tells_of_all(seen: &Measures, shards: u32, limits: PartitionLimits) -> bool {
    let reads = (seen.get_units + seen.query_units).max(seen.read_units);
    let writes = seen.write_units.max(seen.written_units);
    let is_near =
        |units: f64, access| units >= ALL_THROTTLED * f64::from(shards) * limits.of(access);
    is_near(writes, Access::Write)
        || is_near(reads, Access::Get)
        || seen.refused_units > seen.written_units + seen.read_units
}

impl Rates {
    /// The rates of the last whole seconds, from the ledger of those. `None` if nothing was reported of them that
    /// [`tells_of_all`]: a collection is reported by the second only while it is throttled.
    pub fn of_seconds(
        heat: &Ledger,
        shards: ShardCount,
        limits: PartitionLimits,
        now: Duration,
    ) -> Option<Self> {
        let before = now.saturating_sub(COMPLETE_AFTER).as_secs();
        let recent = before.saturating_sub(RECENT_SECS)..before;
        let (_, seconds) = heat.seconds(now);
        let seconds = seconds.into_iter().filter(|(bucket, measures)| {
            recent.contains(&bucket.start_secs) && asks_for_something(measures)
        });
        // As far back as all were throttled: what was before that is over.
        let seconds = seconds.collect::<Vec<_>>();
        let tells = |(_, seen): &(Bucket, Measures)| tells_of_all(seen, shards.get(), limits);
        let partial = seconds.iter().rposition(|second| !tells(second));
        let seconds = &seconds[partial.map_or(0, |last| last + 1)..];
        // What came first may have come in the middle of its second.
        let (_, whole) = seconds.split_first()?;
        let (last, _) = whole.last()?;
        let measures = whole.iter().map(|(_, measures)| *measures);
        // A second that nobody reported is not one without requests: it was not throttled.
        let over_secs = u64::try_from(whole.len()).unwrap_or(RECENT_SECS);
        Some(Self::mean(measures, over_secs, last.end_secs()))
    }

    /// The rates of the last complete minute, from the ledger of minutes. `None` if it has none.
    pub fn of_minute(load: &Ledger, now: Duration) -> Option<Self> {
        let minutes = load.of(Span::Minute, now);
        let over = minutes.filter(|(bucket, _)| bucket.end_secs() <= now.as_secs());
        let over = over.collect::<Vec<_>>();
        let newest = over.last()?;
        // What has only just ended, some environments have yet to report.
        let is_fresh = newest.0.end_secs() + Span::Minute.secs() > now.as_secs();
        let before = over.iter().rev().nth(1);
        let before = before.filter(|(bucket, _)| bucket.end_secs() == newest.0.start_secs);
        let (minute, measures) = before.filter(|_| is_fresh).unwrap_or(newest);
        Some(Self::mean(std::iter::once(**measures), Span::Minute.secs(), minute.end_secs()))
    }

    /// As the mean over so many of its last seconds, of which alone something can have been reported.
    #[must_use]
    pub fn over(self, secs: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a minute at most")]
        let times = self.over_secs as f64 / secs.max(1) as f64;
        let Self { write_units, get_units, query_units, .. } = self;
        Self {
            write_units: write_units * times,
            get_units: get_units * times,
            query_units: query_units * times,
            over_secs: secs.max(1),
            ..self
        }
    }

    fn mean(counted: impl Iterator<Item = Measures>, over_secs: u64, as_of_secs: u64) -> Self {
        let sum = counted.fold(Measures::default(), |mut sum, measures| {
            sum.add(&measures);
            sum
        });
        #[expect(clippy::cast_precision_loss, reason = "a minute at most")]
        let secs = over_secs as f64;
        Self {
            // Who was granted it wanted it, whatever was reported of the rest.
            write_units: sum.write_units.max(sum.written_units) / secs,
            get_units: sum.get_units / secs,
            query_units: sum.query_units / secs,
            over_secs,
            as_of_secs,
        }
    }
}

fn asks_for_something(measures: &Measures) -> bool {
    measures.write_units + measures.get_units + measures.query_units > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_SECS: u64 = 1_795_221_030;

    fn ledger(span: Span, writes: impl IntoIterator<Item = (u64, f64)>) -> Ledger {
        let bucket = |(start_secs, write_units)| {
            (Bucket { span, start_secs }, Measures { write_units, ..Measures::default() })
        };
        Ledger { buckets: writes.into_iter().map(bucket).collect(), ..Ledger::default() }
    }

    /// Of a collection with one shard, which takes 100 units a second.
    fn seconds_of(heat: &Ledger, now: Duration) -> Option<Rates> {
        let limits = PartitionLimits { write_units: 100, read_units: 100 };
        Rates::of_seconds(heat, ShardCount::ONE, limits, now)
    }

    fn of_seconds(writes: impl IntoIterator<Item = (u64, f64)>) -> Option<(f64, u64, u64)> {
        let now = Duration::from_millis(NOW_SECS * 1_000 + 300);
        let rates = seconds_of(&ledger(Span::Second, writes), now)?;
        Some((rates.write_units, rates.over_secs, rates.as_of_secs))
    }

    #[test]
    fn seconds_are_complete_when_all_have_had_the_time_to_report_them() {
        let constant = (NOW_SECS - 15..=NOW_SECS).map(|at| (at, 800.0));
        assert_eq!(of_seconds(constant), Some((800.0, 9, NOW_SECS - 1)));
        let present = [(NOW_SECS - 1, 800.0), (NOW_SECS, 800.0)];
        assert_eq!(of_seconds(present), None);
    }

    #[test]
    fn the_first_second_may_not_be_whole_and_counts_for_nothing() {
        let begun = [(NOW_SECS - 4, 100.0), (NOW_SECS - 3, 600.0), (NOW_SECS - 2, 800.0)];
        assert_eq!(of_seconds(begun), Some((700.0, 2, NOW_SECS - 1)));
        assert_eq!(of_seconds([(NOW_SECS - 3, 100.0)]), None);
    }

    #[test]
    fn regression_a_second_that_nobody_reported_counted_as_one_without_requests() {
        let pause = [(NOW_SECS - 8, 100.0), (NOW_SECS - 7, 600.0), (NOW_SECS - 5, 600.0)];
        assert_eq!(of_seconds(pause), Some((600.0, 2, NOW_SECS - 4)));
    }

    #[test]
    fn regression_less_was_asked_for_than_was_granted() {
        let bucket = |start_secs| Bucket { span: Span::Second, start_secs };
        let measures = Measures { write_units: 100.0, written_units: 320.0, ..Measures::default() };
        let seconds = [NOW_SECS - 3, NOW_SECS - 2].map(|at| (bucket(at), measures));
        let heat = Ledger { buckets: seconds.into(), ..Ledger::default() };
        let rates = seconds_of(&heat, Duration::from_secs(NOW_SECS + 1)).expect("a second");
        assert_eq!(rates.write_units.to_bits(), 320.0_f64.to_bits());
    }

    #[test]
    fn regression_what_a_few_saw_after_a_growth_was_taken_for_all_that_there_was() {
        // Of 400 units a second that 16 shards are asked for, who saw a throttle of late tells of 90.
        let seen = Measures { write_units: 90.0, written_units: 90.0, ..Measures::default() };
        let limits = PartitionLimits { write_units: 100, read_units: 100 };
        assert!(!tells_of_all(&seen, 16, limits));
        assert!(tells_of_all(&seen, 1, limits), "all saw throttles then");
        let hot_item = Measures { refused_units: 300.0, ..seen };
        assert!(tells_of_all(&hot_item, 16, limits));
        let whole = [(NOW_SECS - 5, 800.0), (NOW_SECS - 4, 800.0)];
        assert_eq!(of_seconds(whole), Some((800.0, 1, NOW_SECS - 3)));
        let and_a_part = whole.into_iter().chain([(NOW_SECS - 3, 10.0)]);
        assert_eq!(of_seconds(and_a_part), None, "what was before that is over");
    }

    #[test]
    fn seconds_that_are_past_or_to_come_are_not_recent() {
        assert_eq!(of_seconds([(NOW_SECS - 12, 800.0), (NOW_SECS + 60, 800.0)]), None);
        assert_eq!(of_seconds([]), None);
    }

    #[test]
    fn reads_are_told_by_what_they_are() {
        let bucket = |start_secs| Bucket { span: Span::Second, start_secs };
        let measures = Measures { get_units: 30.0, query_units: 70.0, ..Measures::default() };
        let seconds = [NOW_SECS - 3, NOW_SECS - 2].map(|at| (bucket(at), measures));
        let heat = Ledger { buckets: seconds.into(), ..Ledger::default() };
        let rates = seconds_of(&heat, Duration::from_secs(NOW_SECS + 1)).expect("a second");
        assert_eq!((rates.write_units, rates.get_units, rates.query_units), (0.0, 30.0, 70.0));
    }

    #[test]
    fn the_last_complete_minute_is_that_which_all_have_reported() {
        let minute = |back: u64| NOW_SECS / 60 * 60 - back * 60;
        let now = Duration::from_secs(NOW_SECS);
        let of = |minutes: &[(u64, f64)]| {
            let minutes = minutes.iter().map(|(back, units)| (minute(*back), *units));
            let rates = Rates::of_minute(&ledger(Span::Minute, minutes), now)?;
            Some((rates.write_units, rates.over_secs, rates.as_of_secs))
        };
        assert_eq!(of(&[(0, 600.0)]), None, "it is not over");
        assert_eq!(of(&[(0, 60.0), (1, 600.0), (2, 6_000.0)]), Some((100.0, 60, minute(1))));
        assert_eq!(of(&[(0, 60.0), (1, 600.0)]), Some((10.0, 60, minute(0))), "it alone is over");
        assert_eq!(of(&[(1, 600.0), (9, 6_000.0)]), Some((10.0, 60, minute(0))));
        assert_eq!(of(&[(4, 600.0), (5, 6_000.0)]), Some((10.0, 60, minute(3))), "as of then");
        assert_eq!(of(&[]), None);
    }
}
