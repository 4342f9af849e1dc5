//! What a collection was asked for over time, and what its shards took: from its ledgers and its history. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use dynashard_core::{
    Bucket, CollectionMetadata, Ledger, MAX_HISTORY_ENTRIES, Measures, PartitionLimits, Span,
    ThrottleCounts, Usage, tells_of_all,
};
use serde::Serialize;

use crate::cost::MOVE_WCU;
use crate::known::{Collection, LIVE_SECS};

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

/// Environments report a second within so many seconds of its end, and a minute.
const SECOND_REPORTED: u64 = 2;
const MINUTE_REPORTED: u64 = 10;

/// What a minute has brought may be late; that of the one before is shown for so long.
const MINUTE_HELD: u64 = 120;

/// What is told as of now is the mean of so many seconds, of which the last is not older than this.
const NOW_SECS: usize = 10;
const NOW_AGE: usize = 10;

/// Units a second in equal steps of time, oldest first. What is not known is `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Series {
    /// When the first step begins, in epoch seconds.
    from: u64,
    /// The length of a step.
    step: u64,
    /// When the last one ends. An hour that runs ends now.
    until: u64,
    /// Since when there were how many shards.
    shards: Vec<(u64, i64)>,
    writes: Lines,
    reads: Lines,
    #[serde(skip)]
    range: Range,
    /// By how many shards it became more at which second.
    #[serde(skip)]
    grown: BTreeMap<u64, i64>,
    /// Until when the newest minute goes.
    #[serde(skip)]
    minute_ends: Option<u64>,
    /// The steps of which a few saw a part, and not all.
    #[serde(skip)]
    partial: BTreeSet<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Default)]
struct Lines {
    /// What a shard takes a second.
    per_shard: u32,
    /// What clients want, which is never less than what they were granted.
    demand: Vec<Option<f64>>,
    /// What clients were granted.
    absorbed: Vec<Option<f64>>,
    /// What clients want in the mean of a minute, where seconds are shown.
    mean: Vec<Option<f64>>,
    /// What moving items takes.
    moved: Vec<Option<f64>>,
    /// Requests that were refused, each as often as it was tried.
    refused: Vec<Option<f64>>,
}

impl Series {
    /// Nothing, on the grid of this range up to now.
    pub(crate) fn empty(range: Range, limits: PartitionLimits, now_secs: u64) -> Self {
        let (_, step, steps) = range.grid();
        let points = usize::try_from(steps).unwrap_or(0);
        // A second or a minute that runs is not complete. An hour is long enough to show how it goes.
        let ends = match range {
            Range::Live => now_secs.saturating_sub(SECOND_REPORTED),
            Range::Minutes => now_secs / step * step,
            Range::Hours | Range::Days => (now_secs / step + 1) * step,
        };
        let lines = |per_shard| Lines {
            per_shard,
            demand: vec![None; points],
            absorbed: vec![None; points],
            mean: if range == Range::Live { vec![None; points] } else { Vec::new() },
            moved: vec![None; points],
            refused: vec![None; points],
        };
        Self {
            from: ends.saturating_sub(steps * step),
            step,
            until: ends.min(now_secs),
            shards: Vec::new(),
            writes: lines(limits.write_units),
            reads: lines(limits.read_units),
            range,
            grown: BTreeMap::new(),
            minute_ends: None,
            partial: BTreeSet::new(),
        }
    }

    fn starts(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (from, step) = (self.from, self.step);
        (0..self.writes.demand.len()).zip((0_u64..).map(move |place| from + place * step))
    }

    fn place(&self, start: u64) -> usize {
        usize::try_from((start - self.from) / self.step).unwrap_or(usize::MAX)
    }

    /// Adds what one collection was asked for and what its shards take.
    pub(crate) fn add(&mut self, collection: &Collection) {
        let metadata = collection.metadata.as_ref();
        let mut before = shards_at(metadata, self.from);
        *self.grown.entry(self.from).or_default() += i64::from(before);
        for entry in metadata.iter().flat_map(|of| &of.shard_history) {
            if entry.at_secs > self.from && entry.at_secs <= self.until {
                let count = entry.count.get();
                *self.grown.entry(entry.at_secs).or_default() +=
                    i64::from(count) - i64::from(before);
                before = count;
            }
        }
        if self.range == Range::Live {
            self.add_minutes(collection);
            self.add_seconds(collection);
        } else {
            self.add_buckets(collection);
        }
    }

    /// Whether what was reported of this second is about all that the collection was asked for.
    fn tells_of_all(&self, collection: &Collection, start: u64, seen: &Measures) -> bool {
        let shards = shards_at(collection.metadata.as_ref(), start);
        let limits = PartitionLimits {
            write_units: self.writes.per_shard,
            read_units: self.reads.per_shard,
        };
        tells_of_all(seen, shards, limits)
    }

    fn add_seconds(&mut self, collection: &Collection) {
        for (start, seen) in collection.live.range(self.from..self.until) {
            let place = self.place(*start);
            if !self.tells_of_all(collection, *start, seen) {
                self.partial.insert(place);
            }
            self.writes.add_second(place, seen.write_units, seen.written_units);
            self.reads.add_second(place, seen.get_units + seen.query_units, seen.read_units);
        }
        for (start, items) in collection.course.moves(self.from..self.until) {
            let place = self.place(start);
            plus(&mut self.writes.moved[place], items * MOVE_WCU);
        }
    }

    /// Adds the means of minutes to the seconds of which nothing was reported.
    fn add_minutes(&mut self, collection: &Collection) {
        let first = Bucket { span: Span::Minute, start_secs: self.from.saturating_sub(240) };
        let minutes = collection.load.buckets.range(first..);
        let minutes = minutes.filter(|(bucket, _)| bucket.span == Span::Minute);
        let minutes = minutes.filter(|(bucket, _)| bucket.end_secs() <= self.until);
        let minutes = minutes.collect::<Vec<_>>();
        let metadata = collection.metadata.as_ref();
        let told = collection.live.range(self.from..self.until);
        let told = told.filter(|(second, seen)| self.tells_of_all(collection, **second, seen));
        let told = told.map(|(second, _)| *second).collect::<BTreeSet<_>>();
        for (at, (bucket, seen)) in minutes.iter().enumerate() {
            let secs = metadata.map_or(60, |of| reported_secs(of, **bucket));
            // What has only just ended some environments have yet to report.
            let is_fresh = bucket.end_secs() + 60 > self.until;
            if is_fresh && at > 0 {
                continue;
            }
            let next = minutes.get(at + 1).filter(|(next, _)| next.end_secs() + 60 <= self.until);
            let held = bucket.end_secs() + MINUTE_HELD;
            let ends = next.map_or(held, |(next, _)| held.min(next.start_secs)).min(self.until);
            for second in (bucket.end_secs() - secs).max(self.from)..ends {
                if !told.contains(&second) {
                    let place = self.place(second);
                    plus(&mut self.writes.mean[place], seen.write_units / seconds(secs));
                    let reads = seen.get_units + seen.query_units;
                    plus(&mut self.reads.mean[place], reads / seconds(secs));
                }
            }
            self.minute_ends = self.minute_ends.max(Some(bucket.end_secs()));
        }
    }

    fn add_buckets(&mut self, collection: &Collection) {
        let Collection { metadata, load, load_secs, .. } = collection;
        let begun = metadata.as_ref().and_then(|of| of.shard_history.first());
        let reported = load_secs.unwrap_or(0).saturating_sub(MINUTE_REPORTED) / 60 * 60;
        for (place, start) in self.starts() {
            let bucket = Bucket { span: self.range.grid().0, start_secs: start };
            let secs = reported.min(start + self.step).saturating_sub(start);
            // Of a collection that has metadata everything is reported. Where nothing is, nobody asked.
            let is_silent = secs == self.step && begun.is_some_and(|entry| entry.at_secs <= start);
            let seen = load.buckets.get(&bucket).copied();
            let Some(seen) = seen.or(is_silent.then(Measures::default)) else { continue };
            // The step in which it got metadata is reported from then on.
            let begun = metadata.as_ref().map_or(self.step, |of| reported_secs(of, bucket));
            let secs = seconds(secs.max(60).min(begun));
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
            let runs = start + step > self.until;
            // What is known in part would look idle. Of the hour that runs, the part that is known is shown.
            let from = if runs { start.max(*first) } else { start };
            let end = (start + step).min(until_secs);
            if from < *first || end <= from || (end < start + step && !runs) {
                continue;
            }
            let of_step = usage.periods.range(from..end);
            let (mut reads, mut writes, mut items) = ((0.0, 0.0), (0.0, 0.0), 0.0);
            for (_, of) in of_step {
                reads = (reads.0 + of.item_reads(), reads.1 + of.throttled_reads.total());
                writes = (writes.0 + of.main.writes, writes.1 + of.throttled_writes.total());
                items += of.items_moved;
            }
            let secs = seconds(end - from);
            // Of seconds the jobs tell: the mover counts what it has moved by whole calls.
            let moved = if self.range == Range::Live {
                self.writes.moved[place].unwrap_or_default()
            } else {
                items * MOVE_WCU / secs
            };
            let moved = moved.min(writes.0 / secs);
            self.writes.moved[place] = Some(moved);
            self.reads.measure(place, reads.0 / secs, reads.1 / secs);
            self.writes.measure(place, writes.0 / secs - moved, writes.1 / secs);
        }
    }

    /// The whole, when all was added. Rounds to tenths: samples are no more exact, and shorter to send.
    #[must_use]
    pub(crate) fn finish(mut self) -> Self {
        let mut shards = 0;
        for (at, more) in std::mem::take(&mut self.grown) {
            shards += more;
            if more != 0 {
                self.shards.push((at, shards));
            }
        }
        for lines in [&mut self.writes, &mut self.reads] {
            lines.forget(&self.partial);
            lines.complete();
        }
        self
    }

    /// What happens now, as far as a series of seconds, which is complete, and CloudWatch tell.
    pub(crate) fn now(&self, usage: &Usage, until_secs: u64) -> Now {
        let capacity = |lines: &Lines| {
            let shards = self.shards.last().map_or(0, |(_, shards)| *shards);
            i64::from(lines.per_shard) * shards
        };
        let period = u64::from(usage.period_secs);
        let newest = usage.periods.range(..until_secs).next_back().filter(|(at, _)| {
            period > 1 && **at + period <= until_secs && **at + 5 * period > self.until
        });
        let of = |lines: &Lines, counted: Option<(f64, f64)>| {
            let mut now = lines.now(self.until);
            if let Some(((granted, refused), (at, _))) = counted.zip(newest) {
                let a_second = |units: f64| tenths(units / seconds(period));
                now.absorbed = Some(a_second(granted));
                now.refused = Some(a_second(refused));
                now.counted_as_of = Some(at + period);
            }
            if now.by == Some("minute") {
                now.as_of = self.minute_ends;
            }
            now.demand = now.demand.map(|demand| demand.max(now.absorbed.unwrap_or_default()));
            NowOf { capacity: capacity(lines), ..now }
        };
        let writes = newest.map(|(_, of)| {
            let moved = (of.items_moved * MOVE_WCU).min(of.main.writes);
            (of.main.writes - moved, of.throttled_writes.total())
        });
        let reads = newest.map(|(_, of)| (of.item_reads(), of.throttled_reads.total()));
        Now { writes: of(&self.writes, writes), reads: of(&self.reads, reads) }
    }
}

/// What happens now, in units a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Now {
    writes: NowOf,
    reads: NowOf,
}

#[derive(Debug, Clone, PartialEq, Serialize, Default)]
struct NowOf {
    demand: Option<f64>,
    absorbed: Option<f64>,
    refused: Option<f64>,
    capacity: i64,
    /// Of what this is the mean, `second` or `minute`, and when that ended.
    by: Option<&'static str>,
    as_of: Option<u64>,
    /// When what CloudWatch counted by the minute ended.
    counted_as_of: Option<u64>,
}

impl Lines {
    fn add_second(&mut self, place: usize, asked: f64, granted: f64) {
        plus(&mut self.demand[place], asked.max(granted));
        plus(&mut self.absorbed[place], granted);
    }

    fn measure(&mut self, place: usize, absorbed: f64, refused: f64) {
        let unmet = match (self.demand[place], self.absorbed[place]) {
            (Some(demand), Some(granted)) => Some(demand - granted),
            // Minutes and hours: who was not refused was granted what they wanted.
            (Some(demand), None) => Some((demand - absorbed).max(0.0)),
            _ => (refused == 0.0).then_some(0.0),
        };
        self.demand[place] = unmet.map(|unmet| absorbed + unmet);
        self.absorbed[place] = Some(absorbed);
        self.refused[place] = Some(refused);
    }

    /// Forgets what a few saw, where nobody has counted all.
    fn forget(&mut self, partial: &BTreeSet<usize>) {
        for place in partial.iter().filter(|place| self.refused[**place].is_none()) {
            (self.demand[*place], self.absorbed[*place]) = (None, None);
        }
    }

    fn complete(&mut self) {
        for (place, mean) in self.mean.iter().enumerate() {
            // What CloudWatch counted has everybody in it, and a sum of ledgers those alone that are throttled.
            let is_measured = self.refused[place].is_some();
            if let Some(mean) = mean.filter(|_| !is_measured && self.demand[place].is_some()) {
                plus(&mut self.demand[place], mean);
                plus(&mut self.absorbed[place], mean);
            }
        }
        let Self { demand, absorbed, mean, moved, refused, .. } = self;
        for line in [demand, absorbed, mean, moved, refused] {
            for value in line.iter_mut().flatten() {
                *value = tenths(*value);
            }
        }
    }

    fn now(&self, until: u64) -> NowOf {
        let known = |line: &[Option<f64>]| {
            let recent = &line[line.len().saturating_sub(NOW_SECS + NOW_AGE)..];
            let last = recent.iter().rposition(Option::is_some)?;
            let window = &recent[(last + 1).saturating_sub(NOW_SECS)..=last];
            let all = window.iter().flatten().copied().collect::<Vec<_>>();
            let count = u32::try_from(all.len()).map_or(1.0, f64::from);
            Some((tenths(all.iter().sum::<f64>() / count), recent.len() - 1 - last))
        };
        let of = |line| known(line).map(|(value, _)| value);
        let by_second = known(&self.absorbed).or(known(&self.demand));
        let mean = self.mean.last().copied().flatten();
        let by_minute = mean.filter(|_| by_second.is_none());
        NowOf {
            demand: of(&self.demand).or(by_minute),
            absorbed: of(&self.absorbed),
            refused: of(&self.refused),
            by: by_second.map(|_| "second").or(by_minute.map(|_| "minute")),
            as_of: by_second.map(|(_, age)| until.saturating_sub(u64::try_from(age).unwrap_or(0))),
            ..NowOf::default()
        }
    }
}

/// The writes since the last change, as many as there may have been: of the last minutes nothing may be reported yet.
pub(crate) fn written_since_change(
    metadata: &CollectionMetadata,
    load: &Ledger,
    now: Duration,
) -> f64 {
    let since = metadata.shard_history.last().map_or(0, |entry| entry.at_secs);
    let hours = load.of(Span::Hour, now).filter(|(bucket, _)| bucket.end_secs() > since);
    let written = hours.map(|(_, measures)| measures.writes).sum::<f64>();
    let newest = load.of(Span::Minute, now).last();
    let unreported = newest.map_or(0.0, |(bucket, seen)| {
        let secs = now.as_secs().saturating_sub(bucket.end_secs()).min(MINUTE_HELD);
        seen.writes / seconds(reported_secs(metadata, bucket)) * seconds(secs)
    });
    (written + unreported).round()
}

/// The seconds of a bucket of which something can have been reported: those since a collection has metadata.
pub(crate) fn reported_secs(metadata: &CollectionMetadata, bucket: Bucket) -> u64 {
    let begun = metadata.shard_history.first().map_or(0, |entry| entry.at_secs);
    bucket.end_secs().saturating_sub(begun.max(bucket.start_secs)).max(1)
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
        .filter(|_| metadata.shard_history.len() >= MAX_HISTORY_ENTRIES));
    known.map_or(1, |entry| entry.count.get())
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

    const LIMITS: PartitionLimits = PartitionLimits { write_units: 100, read_units: 300 };

    fn collection(metadata: Option<CollectionMetadata>) -> Collection {
        Collection { metadata, load_secs: Some(NOW), ..Collection::default() }
    }

    fn load(span: Span, buckets: &[(u64, f64)]) -> Ledger {
        let of = |(start_secs, write_units): &(u64, f64)| {
            let measures = Measures {
                write_units: *write_units,
                writes: *write_units,
                query_units: write_units / 2.0,
                ..Measures::default()
            };
            (Bucket { span, start_secs: *start_secs }, measures)
        };
        Ledger { buckets: buckets.iter().map(of).collect(), ..Ledger::default() }
    }

    fn second(write_units: f64, written_units: f64) -> Measures {
        Measures { write_units, written_units, ..Measures::default() }
    }

    fn shown(range: Range, collections: &[Collection]) -> Series {
        let mut series = Series::empty(range, LIMITS, NOW);
        for of in collections {
            series.add(of);
        }
        series
    }

    fn counted(periods: &[(u64, f64, f64, f64)], period_secs: u32) -> Usage {
        let of = |(at, writes, throttled, items): &(u64, f64, f64, f64)| {
            let throttled_writes =
                ThrottleCounts { partition: *throttled, ..ThrottleCounts::default() };
            let main = TableUnits { writes: *writes, reads: 0.0 };
            let items_moved = *items;
            (*at, UsagePeriod { main, throttled_writes, items_moved, ..UsagePeriod::default() })
        };
        Usage { period_secs, periods: periods.iter().map(of).collect() }
    }

    #[test]
    fn regression_the_capacity_grew_with_the_next_bucket_and_not_when_it_did() {
        let all = [collection(Some(grown(NOW - 150, 4))), collection(None)];
        for range in [Range::Minutes, Range::Days] {
            let series = shown(range, &all).finish();
            assert_eq!(series.shards, [(series.from, 2), (NOW - 150, 5)], "{range:?}");
        }
        let series = shown(Range::Minutes, &all[..1]);
        let minute = series.writes.demand.len() - 2;
        assert_eq!(series.writes.demand[minute], Some(0.0), "nobody asked");
    }

    #[test]
    fn regression_the_hour_that_runs_was_not_shown() {
        let hour = NOW / 3_600 * 3_600;
        let reported = (NOW - MINUTE_REPORTED) / 60 * 60 - hour;
        let buckets = [(hour - 3_600, 7_200.0), (hour, 5.0 * seconds(reported))];
        let of = Collection {
            load: load(Span::Hour, &buckets),
            ..collection(Some(grown(NOW - 90_000, 2)))
        };
        let series = shown(Range::Hours, &[of]).finish();
        assert_eq!(series.writes.demand[22..], [Some(2.0), Some(5.0)]);
        assert_eq!(series.reads.demand[22], Some(1.0));
        assert_eq!(series.writes.absorbed[22], None, "nobody keeps what was granted");
        assert_eq!(series.until, NOW);
    }

    #[test]
    fn collections_come_together_on_one_grid_and_unknown_seconds_stay_unknown() {
        let of = |asked, granted| Collection {
            live: [(NOW - 4, second(asked, granted))].into(),
            ..collection(None)
        };
        let series = shown(Range::Live, &[of(800.0, 100.0), of(200.0, 100.0)]).finish();
        assert_eq!(series.until, NOW - 2, "others may still report");
        assert_eq!(series.writes.demand[298..], [Some(1_000.0), None]);
        assert_eq!(series.writes.absorbed[298..], [Some(200.0), None]);
    }

    #[test]
    fn regression_what_a_few_saw_after_a_growth_was_shown_as_all_that_a_key_was_asked_for() {
        let live = [(NOW - 5, second(90.0, 90.0)), (NOW - 4, second(900.0, 800.0))].into();
        let of = Collection { live, ..collection(Some(grown(NOW - 600, 16))) };
        let series = shown(Range::Live, std::slice::from_ref(&of)).finish();
        assert_eq!(series.writes.demand[297..299], [None, Some(900.0)]);
        let mut series = shown(Range::Live, &[of]);
        series.measure(&counted(&[(NOW - 5, 560.0, 9.0, 0.0)], 1), NOW);
        assert_eq!(series.finish().writes.demand[297], Some(560.0), "all of it was counted");
    }

    #[test]
    fn regression_demand_was_drawn_under_what_clients_were_granted() {
        let live = [(NOW - 4, second(10.0, 40.0))].into();
        let of = Collection { live, ..collection(None) };
        assert_eq!(shown(Range::Live, &[of]).writes.demand[298], Some(40.0));
        // Of three keys one is throttled, and CloudWatch counts them all.
        let live = [(NOW - 4, second(90.0, 40.0))].into();
        let mut series = shown(Range::Live, &[Collection { live, ..collection(None) }]);
        let periods = [(NOW - 5, 560.0, 0.0, 0.0), (NOW - 4, 560.0, 9.0, 0.0)];
        series.measure(&counted(&periods, 1), NOW);
        let series = series.finish();
        assert_eq!(series.writes.demand[297..299], [Some(560.0), Some(610.0)]);
        assert_eq!(series.writes.refused[298], Some(9.0));

        let minute = NOW / 60 * 60 - 120;
        let load = load(Span::Minute, &[(minute, 213.0 * 60.0)]);
        let of = Collection { load, ..collection(Some(grown(minute - 600, 2))) };
        let mut series = shown(Range::Minutes, &[of]);
        series.measure(&counted(&[(minute, 579.0 * 60.0, 60.0, 0.0)], 60), NOW);
        assert_eq!(series.writes.demand[28], Some(579.0));
    }

    #[test]
    fn regression_what_moving_takes_was_drawn_as_granted_to_clients() {
        let minute = NOW / 60 * 60 - 60;
        let mut series = shown(Range::Minutes, &[]);
        series.measure(&counted(&[(minute, 6_000.0, 0.0, 600.0)], 60), NOW);
        assert_eq!(series.writes.absorbed[29], Some(50.0));
        assert_eq!(series.writes.moved[29], Some(50.0));
    }

    #[test]
    fn regression_a_minute_that_nobody_had_reported_was_drawn_as_one_without_requests() {
        let minute = NOW / 60 * 60 - 60;
        let of = |load_secs| Collection {
            load_secs: Some(load_secs),
            ..collection(Some(grown(NOW - 3_600, 2)))
        };
        let series = shown(Range::Minutes, &[of(minute + 65)]);
        assert_eq!(series.writes.demand[28..], [Some(0.0), None]);
        assert_eq!(shown(Range::Minutes, &[of(minute + 70)]).writes.demand[29], Some(0.0));
    }

    #[test]
    fn regression_a_key_that_is_not_throttled_looked_as_if_nobody_used_it() {
        let minute = NOW / 60 * 60 - 120;
        let load = load(Span::Minute, &[(minute, 320.0 * 60.0)]);
        let of = Collection { load, ..collection(Some(grown(NOW - 3_600, 2))) };
        let series = shown(Range::Live, &[of]).finish();
        assert_eq!(series.writes.mean[299], Some(320.0), "the last that is known");
        assert_eq!(series.writes.demand[299], None);
        let now = series.now(&Usage::default(), 0).writes;
        assert_eq!(
            (now.demand, now.by, now.as_of),
            (Some(320.0), Some("minute"), Some(minute + 60))
        );
        assert_eq!(now.capacity, 200);
        // In the minute in which it got metadata the first seconds were not reported.
        let begun = CollectionMetadata {
            shard_history: vec![HistoryEntry { at_secs: minute + 50, count: ShardCount::ONE }],
            ..grown(NOW - 3_600, 2)
        };
        let load = self::load(Span::Minute, &[(minute, 3_200.0)]);
        let series = shown(Range::Live, &[Collection { load, ..collection(Some(begun)) }]);
        let at = series.place(minute + 49);
        assert_eq!(series.writes.mean[at..at + 2], [None, Some(320.0)]);
    }

    #[test]
    fn what_happens_now_is_the_mean_of_seconds_or_what_was_counted_last() {
        let periods = (NOW - 30..NOW - 1).map(|at| (at, 500.0, 10.0, 0.0)).collect::<Vec<_>>();
        let mut series = shown(Range::Live, &[]);
        series.measure(&counted(&periods, 1), NOW);
        let now = series.finish().now(&counted(&periods, 1), NOW).writes;
        assert_eq!((now.absorbed, now.refused, now.by), (Some(500.0), Some(10.0), Some("second")));
        assert_eq!((now.as_of, now.counted_as_of), (Some(NOW - 2), None));
        let minute = NOW / 60 * 60 - 180;
        let usage = counted(&[(minute, 6_000.0, 60.0, 0.0)], 60);
        let now = shown(Range::Live, &[]).finish().now(&usage, NOW - 60).writes;
        assert_eq!((now.absorbed, now.refused), (Some(100.0), Some(1.0)));
        assert_eq!((now.by, now.counted_as_of), (None, Some(minute + 60)));
    }

    #[test]
    fn each_write_since_the_last_change_may_have_made_an_item() {
        let hour = NOW / 3_600 * 3_600;
        let mut all = load(Span::Hour, &[(hour - 7_200, 1e6), (hour, 15_000.0)]);
        let minute = NOW / 60 * 60 - 60;
        all.buckets.extend(load(Span::Minute, &[(minute, 600.0)]).buckets);
        let now = Duration::from_secs(NOW);
        let metadata = grown(hour + 60, 4);
        let unreported = 10.0 * seconds(NOW - minute - 60);
        let written = written_since_change(&metadata, &all, now);
        assert_eq!(written.to_bits(), (15_000.0 + unreported).to_bits());
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
        let mut minutes = shown(Range::Minutes, &[]);
        minutes.measure(&usage, minute + 60);
        assert_eq!(minutes.writes.absorbed[28..], [Some(10.0), Some(10.0)]);
        assert_eq!(minutes.writes.refused[29], Some(2.0));
        assert_eq!(minutes.writes.absorbed[27], None, "before it began to count");
        let mut earlier = shown(Range::Minutes, &[]);
        earlier.measure(&usage, minute + 59);
        assert_eq!(earlier.writes.absorbed[28..], [Some(10.0), None], "it may not be complete");
        let mut live = shown(Range::Live, &[]);
        live.measure(&usage, NOW);
        assert!(live.writes.absorbed.iter().all(Option::is_none), "too coarse");
        let mut hours = shown(Range::Hours, &[]);
        hours.measure(&usage, minute + 60);
        let hours = &hours.writes.absorbed[22..];
        assert_eq!(hours, [None, Some(10.0)], "regression: the first hour of a stack looked idle");
        let rows = throttles(&usage, minute);
        assert_eq!(rows, [ThrottleRow { access: "write", reason: "partition", count: 120.0 }]);
    }
}
