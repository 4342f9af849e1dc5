//! What a collection was asked for over time, and what its shards took: from its ledgers and its history. Pure.

use std::collections::BTreeMap;
use std::str::FromStr;

use dynashard_core::{
    CollectionMetadata, Ledger, Measures, PartitionLimits, Span, ThrottleCounts, Usage,
};
use serde::Serialize;

/// How far back a chart goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Range {
    /// Five minutes, by the second.
    Live,
    /// Half an hour, by the minute.
    Minutes,
    /// A day, by the hour.
    Hours,
    /// Three days, by the hour: as long as the ledgers go back.
    Days,
}

impl Range {
    /// The buckets of the ledgers that it shows, the seconds of a step, and how many there are.
    fn grid(self) -> (Span, u64, u64) {
        match self {
            Self::Live => (Span::Second, 1, LIVE_SECS),
            Self::Minutes => (Span::Minute, 60, 30),
            Self::Hours => (Span::Hour, 3_600, 24),
            Self::Days => (Span::Hour, 3_600, 72),
        }
    }
}

impl FromStr for Range {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "live" => Ok(Self::Live),
            "minutes" => Ok(Self::Minutes),
            "hours" => Ok(Self::Hours),
            "days" => Ok(Self::Days),
            _ => Err(()),
        }
    }
}

/// The seconds that the console keeps of what it has seen by the second.
pub(crate) const LIVE_SECS: u64 = 300;

/// Units a second in equal steps of time, oldest first. What is not known is `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Series {
    /// When the first step begins, in epoch seconds.
    from: u64,
    /// The length of a step.
    step: u64,
    /// How many shards there were.
    shards: Vec<u64>,
    writes: Lines,
    reads: Lines,
}

#[derive(Debug, Clone, PartialEq, Serialize, Default)]
struct Lines {
    demand: Vec<Option<f64>>,
    absorbed: Vec<Option<f64>>,
    throttled: Vec<Option<f64>>,
    capacity: Vec<f64>,
}

impl Series {
    /// Nothing, on the grid of this range up to now.
    pub(crate) fn empty(range: Range, now_secs: u64) -> Self {
        let (_, step, steps) = range.grid();
        let points = usize::try_from(steps).unwrap_or(0);
        let lines = Lines {
            demand: vec![None; points],
            absorbed: vec![None; points],
            throttled: vec![None; points],
            capacity: vec![0.0; points],
        };
        Self {
            // The step that runs is not shown: it is not complete.
            from: (now_secs / step).saturating_sub(steps) * step,
            step,
            shards: vec![0; points],
            writes: lines.clone(),
            reads: lines,
        }
    }

    fn starts(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (from, step) = (self.from, self.step);
        (0..self.shards.len()).zip((0_u64..).map(move |place| from + place * step))
    }

    /// Adds what one collection was asked for and what its shards take.
    pub(crate) fn add(
        &mut self,
        metadata: Option<&CollectionMetadata>,
        live: &BTreeMap<u64, Measures>,
        load: &Ledger,
        limits: PartitionLimits,
        range: Range,
    ) {
        for (place, start) in self.starts() {
            let shards = shards_at(metadata, start);
            let counted = f64::from(shards);
            self.shards[place] += u64::from(shards);
            self.writes.capacity[place] += counted * f64::from(limits.write_units);
            self.reads.capacity[place] += counted * f64::from(limits.read_units);
            if range == Range::Live {
                let Some(seen) = live.get(&start) else { continue };
                let asked = seen.get_units + seen.query_units;
                self.writes.add_second(place, seen.write_units, seen.written_units);
                self.reads.add_second(place, asked, seen.read_units);
                continue;
            }
            let bucket = dynashard_core::Bucket { span: range.grid().0, start_secs: start };
            let secs = seconds(self.step);
            // Of a collection that has metadata everything is reported. Where nothing is, nobody asked.
            let seen = load.buckets.get(&bucket).copied();
            let is_reported = metadata.is_some_and(|of| begun(of).is_some_and(|at| at <= start));
            let Some(seen) = seen.or(is_reported.then(Measures::default)) else { continue };
            plus(&mut self.writes.demand[place], seen.write_units / secs);
            plus(&mut self.reads.demand[place], (seen.get_units + seen.query_units) / secs);
        }
    }

    /// Puts what CloudWatch counted of the whole table in place of what was granted and refused, if it counts as
    /// finely as this. What happened after `until_secs` it may not have counted yet.
    pub(crate) fn measure(&mut self, usage: &Usage, until_secs: u64) {
        let (period, step) = (u64::from(usage.period_secs), self.step);
        let Some((first, _)) = usage.periods.first_key_value() else { return };
        if period == 0 || period > step {
            return;
        }
        for (place, start) in self.starts() {
            // What is known in part would look idle.
            if start < *first || start + step > until_secs {
                continue;
            }
            let of_step = usage.periods.range(start..start + step);
            let (mut reads, mut writes) = ((0.0, 0.0), (0.0, 0.0));
            for (_, of) in of_step {
                reads = (reads.0 + of.main.reads, reads.1 + of.throttled_reads.total());
                writes = (writes.0 + of.main.writes, writes.1 + of.throttled_writes.total());
            }
            let secs = seconds(step);
            self.reads.set(place, reads.0 / secs, reads.1 / secs);
            self.writes.set(place, writes.0 / secs, writes.1 / secs);
        }
    }

    /// Rounds to tenths: samples are no more exact, and shorter to send.
    #[must_use]
    pub(crate) fn rounded(mut self) -> Self {
        for lines in [&mut self.writes, &mut self.reads] {
            for line in [&mut lines.demand, &mut lines.absorbed, &mut lines.throttled] {
                for value in line.iter_mut().flatten() {
                    *value = tenths(*value);
                }
            }
        }
        self
    }
}

impl Lines {
    fn add_second(&mut self, place: usize, asked: f64, granted: f64) {
        plus(&mut self.demand[place], asked);
        plus(&mut self.absorbed[place], granted);
        plus(&mut self.throttled[place], (asked - granted).max(0.0));
    }

    fn set(&mut self, place: usize, absorbed: f64, throttled: f64) {
        self.absorbed[place] = Some(absorbed);
        self.throttled[place] = Some(throttled);
    }
}

/// Requests that were refused, by reason, for people who look for the largest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ThrottleRow {
    /// `write` or `read`.
    access: &'static str,
    /// The limit that was reached: `partition`, `provisioned`, `account` or `on_demand`.
    reason: &'static str,
    count: f64,
}

/// What was refused since this epoch second, most first.
pub(crate) fn throttles(usage: &Usage, since_secs: u64) -> Vec<ThrottleRow> {
    let sum = usage.since(since_secs);
    let rows = |access, counts: ThrottleCounts| {
        let ThrottleCounts { partition, provisioned, account, on_demand } = counts;
        [
            ("partition", partition),
            ("provisioned", provisioned),
            ("account", account),
            ("on_demand", on_demand),
        ]
        .map(|(reason, count)| ThrottleRow { access, reason, count })
    };
    let all = rows("write", sum.throttled_writes).into_iter();
    let all = all.chain(rows("read", sum.throttled_reads));
    let mut all = all.filter(|row| row.count > 0.0).collect::<Vec<_>>();
    all.sort_by(|one, other| other.count.total_cmp(&one.count));
    all
}

pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The count in force at this moment: one before the first change, and for what was never changed.
fn shards_at(metadata: Option<&CollectionMetadata>, at_secs: u64) -> u32 {
    let Some(metadata) = metadata else { return 1 };
    let in_force = metadata.shard_history.iter().rev().find(|entry| entry.at_secs <= at_secs);
    // Of what lies before the history, its oldest entry says most.
    let known = in_force.or(metadata
        .shard_history
        .first()
        .filter(|_| metadata.shard_history.len() >= dynashard_core::MAX_HISTORY_ENTRIES));
    known.map_or(1, |entry| entry.count.get())
}

fn begun(metadata: &CollectionMetadata) -> Option<u64> {
    metadata.shard_history.first().map(|entry| entry.at_secs)
}

fn plus(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or_default() + value);
}

#[expect(clippy::cast_precision_loss, reason = "an hour at most")]
fn seconds(secs: u64) -> f64 {
    secs as f64
}

#[cfg(test)]
mod tests {
    use dynashard_core::{Bucket, HistoryEntry, TableUnits, UsagePeriod};
    use dynashard_keys::{PartitionKey, Placement, ShardCount};

    use super::*;

    const NOW: u64 = 1_795_221_030;

    fn grown(at_secs: u64, count: u32) -> CollectionMetadata {
        let count = ShardCount::new(count).expect("a count");
        let partition = PartitionKey::new("EWR").expect("a key");
        let one = CollectionMetadata::stable(partition, Placement::Xxh64, ShardCount::ONE, 0);
        let entry = HistoryEntry { at_secs, count };
        CollectionMetadata {
            shard_history: [one.shard_history.clone(), vec![entry]].concat(),
            number_of_shards: count,
            ..one
        }
    }

    #[test]
    fn the_capacity_steps_when_a_count_comes_into_force() {
        // A step has the count with which it begins.
        let metadata = grown(NOW - 150, 4);
        let mut series = Series::empty(Range::Minutes, NOW);
        let ledger = Ledger::default();
        let limits = PartitionLimits::default();
        series.add(Some(&metadata), &BTreeMap::new(), &ledger, limits, Range::Minutes);
        assert_eq!(series.shards.len(), 30);
        assert_eq!(series.shards[27..], [1, 4, 4]);
        assert_eq!(series.writes.capacity[27..], [1_000.0, 4_000.0, 4_000.0]);
        assert_eq!(series.writes.demand[29], Some(0.0), "nobody asked");
    }

    #[test]
    fn collections_come_together_on_one_grid_and_unknown_seconds_stay_unknown() {
        let second = |write_units, written_units| Measures {
            write_units,
            written_units,
            ..Measures::default()
        };
        let mut series = Series::empty(Range::Live, NOW);
        for (asked, granted) in [(800.0, 100.0), (200.0, 100.0)] {
            let live = BTreeMap::from([(NOW - 2, second(asked, granted))]);
            let limits = PartitionLimits { write_units: 100, read_units: 300 };
            series.add(None, &live, &Ledger::default(), limits, Range::Live);
        }
        assert_eq!(series.writes.demand[298], Some(1_000.0));
        assert_eq!(series.writes.absorbed[298], Some(200.0));
        assert_eq!(series.writes.throttled[298], Some(800.0));
        assert_eq!(series.writes.capacity[298].to_bits(), 200.0_f64.to_bits());
        assert_eq!(series.writes.demand[299], None);
    }

    #[test]
    fn hours_are_means_of_a_second() {
        let hour = NOW / 3_600 * 3_600 - 3_600;
        let bucket = Bucket { span: Span::Hour, start_secs: hour };
        let measures =
            Measures { write_units: 7_200.0, query_units: 3_600.0, ..Measures::default() };
        let load = Ledger { buckets: [(bucket, measures)].into(), ..Ledger::default() };
        let mut series = Series::empty(Range::Hours, NOW);
        let limits = PartitionLimits::default();
        series.add(Some(&grown(NOW - 10, 2)), &BTreeMap::new(), &load, limits, Range::Hours);
        assert_eq!(series.writes.demand[23], Some(2.0));
        assert_eq!(series.reads.demand[23], Some(1.0));
        assert_eq!(series.writes.absorbed[23], None, "nobody keeps what was granted");
    }

    #[test]
    fn what_cloudwatch_counts_is_shown_where_it_counts_finely_enough() {
        let period = UsagePeriod {
            main: TableUnits { writes: 600.0, reads: 60.0 },
            throttled_writes: ThrottleCounts { partition: 120.0, ..ThrottleCounts::default() },
            ..UsagePeriod::default()
        };
        let minute = NOW / 60 * 60 - 60;
        let usage =
            Usage { period_secs: 60, periods: [(minute - 60, period), (minute, period)].into() };
        let mut minutes = Series::empty(Range::Minutes, NOW);
        minutes.measure(&usage, minute + 60);
        assert_eq!(minutes.writes.absorbed[28..], [Some(10.0), Some(10.0)]);
        assert_eq!(minutes.writes.throttled[29], Some(2.0));
        assert_eq!(minutes.writes.absorbed[27], None, "before it began to count");
        let mut earlier = Series::empty(Range::Minutes, NOW);
        earlier.measure(&usage, minute + 59);
        assert_eq!(earlier.writes.absorbed[28..], [Some(10.0), None], "it may not be complete");
        let mut live = Series::empty(Range::Live, NOW);
        live.measure(&usage, NOW);
        assert!(live.writes.absorbed.iter().all(Option::is_none), "too coarse");
        let rows = throttles(&usage, minute);
        assert_eq!(rows, [ThrottleRow { access: "write", reason: "partition", count: 120.0 }]);
    }
}
