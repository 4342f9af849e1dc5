//! What the page is told, from what is known. Pure.

use std::cmp::Reverse;
use std::time::Duration;

use dynashard_api::view::{CollectionView, DecisionView};
use dynashard_core::{
    Bucket, CollectionMetadata, DecisionRecord, Measures, PartitionLimits, Phase, Rates, Settings,
    Span, Waits,
};
use dynashard_keys::{PartitionKey, ShardCount};
use serde_json::{Value, json};

use crate::change::share_moved;
use crate::cost::{MOVE_WCU, Prices, last_hour};
use crate::known::{Collection, Known, Trouble};
use crate::series::{Range, Series, reported_secs, tenths, throttles};

/// What the views need beside what is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) waits: Waits,
    pub(crate) prices: Option<Prices>,
    pub(crate) moves_are_known: bool,
    /// The read units a second that may be consumed while something happens.
    pub(crate) read_units: f64,
    /// What people have asked for has taken, in read units.
    pub(crate) asked_rcu: f64,
    /// Since the epoch, and since boot.
    pub(crate) now: Duration,
    pub(crate) boot: Duration,
}

/// The decisions that the overview is told: it shows those that are of one change as one.
const LAST_DECISIONS: usize = 30;

/// The collections of which it shows how they go on.
const HOTTEST: usize = 4;

/// For how many seconds a minute tells of now.
const RECENT_MINUTE: u64 = 130;

/// For how long after its change a collection is shown among the hottest, until minutes tell of it.
const RECENT_CHANGE: u64 = 300;

/// Over how many seconds what clients did not get is a mean.
const UNMET_SECS: u32 = 4;

/// What the overview shows beside the rows of the collections.
pub(crate) fn overview(known: &Known, frame: Frame<'_>, range: Range) -> Value {
    let now = frame.now.as_secs();
    let limits = frame.settings.partition;
    let series = |range| {
        let mut series = Series::empty(range, limits, now);
        known
            .collections
            .values()
            .filter(|of| of.read_secs.is_some())
            .for_each(|of| series.add(of));
        series.measure(&known.usage, known.usage_until);
        series.finish()
    };
    let live = series(Range::Live);
    let at_once = live.now(&known.usage, known.usage_until);
    let series = if range == Range::Live { live } else { series(range) };
    let changing = known.collections.iter();
    let changing = changing.filter_map(|(partition, of)| reshard(partition, of, frame));
    let throttles = [300, 3_600].map(|back| throttles(&known.usage, now.saturating_sub(back)));
    let troubles = known.troubles.iter().map(|(about, Trouble { code, detail })| {
        json!({ "about": about, "code": code, "detail": detail })
    });
    json!({
        "now": now,
        "collections": known.collections.values().filter(|of| !of.is_nowhere()).count(),
        "left_out": known.left_out,
        // Whatever range is shown.
        "at_once": at_once,
        "series": series,
        "hottest": hottest(known, frame, range),
        // Of the last five minutes, and of the last hour.
        "throttles": throttles,
        "counts_throttles": known.usage.period_secs > 0,
        "reshards": changing.collect::<Vec<_>>(),
        "decisions": decisions(known, frame, |_, _| true, LAST_DECISIONS),
        "last_hour": last_hour(&known.usage, frame.moves_are_known, frame.prices, now),
        // What the console consumes itself, and what it may while something happens.
        "reads": {
            "per_sec": (known.spent_per_sec(frame.boot) * 100.0).round() / 100.0,
            "most_per_sec": frame.read_units,
            "total": tenths(known.total_rcu + frame.asked_rcu),
        },
        "troubles": troubles.collect::<Vec<_>>(),
        "damaged": known.damaged().collect::<Vec<_>>(),
    })
}

/// A change that runs.
fn reshard(partition: &PartitionKey, collection: &Collection, frame: Frame<'_>) -> Option<Value> {
    let metadata = collection.metadata.as_ref()?;
    let (Phase::Forward { from, to } | Phase::Move { from, to }) = metadata.phase else {
        return None;
    };
    let (job, now) = (collection.job.as_ref(), frame.now.as_secs());
    let course = &collection.course;
    Some(json!({
        "pk": partition.as_str(),
        "stage": course.stage,
        "from": from.get(),
        "to": to.get(),
        "then": job.and_then(|job| job.then).map(ShardCount::get),
        "percent": course.percent,
        "items_moved": job.map(|job| job.items_moved),
        "items_per_sec": course.pace(now).map(tenths),
        "started": job.map(|job| job.started_secs),
        // In seconds, at least and at most.
        "left": course.left(now),
    }))
}

/// The series of the hottest collections, each of the access of which it has more. Those follow that have changed of late and
/// are not reported since.
fn hottest(known: &Known, frame: Frame<'_>, range: Range) -> Vec<Value> {
    let now = frame.now.as_secs();
    let heat = |of: &Collection| {
        let shards = of.metadata.as_ref().map_or(1, |of| of.number_of_shards.get());
        // What has not been reported for long is not hot.
        let is_recent = |of: &Rates| of.as_of_secs + RECENT_MINUTE >= now;
        let Some(rates) = rates(of, frame.settings.partition, frame.now).0.filter(is_recent) else {
            let last = of.metadata.as_ref().and_then(|of| of.shard_history.last());
            return last.filter(|of| of.at_secs + RECENT_CHANGE >= now).map(|_| (0.0, "writes"));
        };
        let limits = frame.settings.partition;
        let share = |units: f64, each: u32| units / (f64::from(shards) * f64::from(each).max(1.0));
        let writes = share(rates.write_units, limits.write_units);
        let reads = share(rates.get_units + rates.query_units, limits.read_units);
        Some(if reads > writes { (reads, "reads") } else { (writes, "writes") })
    };
    let read = known.collections.iter().filter(|(_, of)| of.read_secs.is_some());
    let mut all = read.filter_map(|(pk, of)| Some((heat(of)?, pk, of))).collect::<Vec<_>>();
    all.sort_by(|((one, _), ..), ((other, _), ..)| other.total_cmp(one));
    let hottest = all.into_iter().take(HOTTEST).map(|((_, access), partition, collection)| {
        let mut series = Series::empty(range, frame.settings.partition, now);
        series.add(collection);
        let mut series = json!(series.finish());
        let lines = series[access].take();
        json!({
            "pk": partition.as_str(), "access": access, "lines": lines, "shards": series["shards"].take(),
        })
    });
    hottest.collect()
}

/// The rows of the collections that were read.
pub(crate) fn rows<'a>(known: &'a Known, frame: Frame<'a>) -> impl Iterator<Item = Value> {
    known.collections.iter().filter_map(move |(partition, collection)| {
        let newest = newest(known, partition);
        // Until it was read there is nothing to show but its name.
        (collection.read_secs.is_some()).then(|| row(partition, collection, newest, frame))
    })
}

/// The newest decision that says more than that a change is at work already.
fn newest<'a>(known: &'a Known, partition: &PartitionKey) -> Option<&'a DecisionRecord> {
    let says_more =
        |of: &&DecisionRecord| !matches!(of.hindrance.as_deref(), Some("running" | "cooldown"));
    let records = known.histories.get(partition)?.records.iter();
    let telling = records.clone().filter(says_more).max_by_key(|record| record.last_secs);
    telling.or_else(|| records.max_by_key(|record| record.last_secs))
}

/// A collection in the list. Rates are units a second.
fn row(
    partition: &PartitionKey,
    collection: &Collection,
    newest: Option<&DecisionRecord>,
    frame: Frame<'_>,
) -> Value {
    let metadata = collection.metadata.as_ref();
    let shards = metadata.map_or(1, |of| of.number_of_shards.get());
    let (rates, by) = rates(collection, frame.settings.partition, frame.now);
    let limits = frame.settings.partition;
    let load = |demand: Option<f64>, units: u32| {
        let capacity = f64::from(shards) * f64::from(units);
        let demand = demand.map(tenths);
        let share = demand.unwrap_or_default() / capacity.max(1.0);
        (json!({ "demand": demand, "capacity": capacity }), share)
    };
    let (writes, share_of_writes) = load(rates.map(|rates| rates.write_units), limits.write_units);
    let reads = rates.map(|rates| rates.get_units + rates.query_units);
    let (reads, share_of_reads) = load(reads, limits.read_units);
    json!({
        "pk": partition.as_str(),
        "shards": shards,
        "state": metadata.map_or("stable", |of| of.phase.as_str()),
        "placement": metadata.map_or(frame.settings.placement, |of| of.placement).as_str(),
        "writes": writes,
        "reads": reads,
        // The larger part of what its shards take that it is asked for.
        "heat": (share_of_writes.max(share_of_reads) * 1_000.0).round() / 1_000.0,
        // Of what the rates are a mean: `second`, `minute`, or nothing.
        "by": by,
        "as_of": rates.map(|rates| rates.as_of_secs),
        // The units a second that were not granted of late, where that is known.
        "unmet": unmet(collection, frame.now.as_secs()),
        "diagnosis": newest.map(|record| record.diagnosis.as_str()),
        "outcome": newest.map(|record| record.outcome.as_str()),
        "changed": newest.filter(|of| of.outcome == "begun").map(|of| (of.from, of.to)),
        "decided": newest.map(|record| record.last_secs),
        "read_at": collection.read_secs,
    })
}

/// What clients want now. A minute that has more than seconds is nearer to all.
fn rates(
    collection: &Collection,
    limits: PartitionLimits,
    now: Duration,
) -> (Option<Rates>, Option<&'static str>) {
    let minute = Rates::of_minute(&collection.load, now).map(|rates| {
        let start_secs = rates.as_of_secs - rates.over_secs;
        let bucket = Bucket { span: Span::Minute, start_secs };
        let secs = collection.metadata.as_ref().map_or(60, |of| reported_secs(of, bucket));
        rates.over(secs)
    });
    let is_recent = |rates: &Rates| rates.as_of_secs + RECENT_MINUTE >= now.as_secs();
    let all = |rates: Rates| rates.write_units + rates.get_units + rates.query_units;
    let shards = collection.metadata.as_ref().map_or(ShardCount::ONE, |of| of.number_of_shards);
    match (Rates::of_seconds(&collection.heat, shards, limits, now), minute) {
        (Some(seconds), Some(minute)) if is_recent(&minute) && all(minute) > all(seconds) => {
            (Some(minute), Some("minute"))
        }
        (Some(seconds), _) => (Some(seconds), Some("second")),
        (None, minute) => (minute, minute.map(|_| "minute")),
    }
}

/// The units a second that clients did not get in the last seconds that are complete: few, so that a key which was relieved
/// does not look throttled for long. `None` where no second of the last ten was reported; beside others such a second was not
/// throttled.
fn unmet(collection: &Collection, now: u64) -> Option<f64> {
    let complete = now.saturating_sub(2);
    collection.live.range(complete.saturating_sub(10)..complete).next()?;
    let recent = collection.live.range(complete.saturating_sub(u64::from(UNMET_SECS))..complete);
    let unmet = |seen: &Measures| {
        let reads = seen.get_units + seen.query_units - seen.read_units;
        (seen.write_units - seen.written_units).max(0.0) + reads.max(0.0)
    };
    let sum = recent.map(|(_, seen)| unmet(seen)).sum::<f64>();
    Some(tenths(sum / f64::from(UNMET_SECS)))
}

/// The newest decisions that are wanted, newest first, each with what it costs.
pub(crate) fn decisions(
    known: &Known,
    frame: Frame<'_>,
    wanted: impl Fn(&PartitionKey, &DecisionRecord) -> bool,
    limit: usize,
) -> Vec<Value> {
    let all = known.histories.iter().flat_map(|(partition, history)| {
        history.records.iter().enumerate().map(move |(place, record)| (partition, place, record))
    });
    let mut all =
        all.filter(|(partition, _, record)| wanted(partition, record)).collect::<Vec<_>>();
    all.sort_by_key(|(partition, place, record)| (Reverse((record.last_secs, *place)), *partition));
    let newest = all.into_iter().take(limit).map(|(partition, _, record)| {
        let metadata = known.collections.get(partition).and_then(|of| of.metadata.as_ref());
        let mut decision = json!(DecisionView::new(partition, record));
        // More shards of indexes move nothing.
        let cost = (!partition.is_reserved()).then(|| cost(record, metadata, frame)).flatten();
        decision["cost"] = json!(cost);
        decision
    });
    newest.collect()
}

/// What the change of a decision takes, where it changes something.
fn cost(
    record: &DecisionRecord,
    metadata: Option<&CollectionMetadata>,
    frame: Frame<'_>,
) -> Option<Value> {
    let count = |n: u64| u32::try_from(n).ok().and_then(|n| ShardCount::new(n).ok());
    let (from, to) = (count(record.from)?, count(record.to?)?);
    let placement = metadata.map_or(frame.settings.placement, |of| of.placement);
    let share_moved = share_moved(placement, from, to);
    // Of the last change its own items were counted.
    let last = metadata.filter(|of| {
        let counts = of.shard_history.iter().rev().map(|entry| entry.count).take(2);
        counts.eq([to, from]) && !of.cleanup_pending && of.phase == Phase::Stable
    });
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let counted = last.filter(|_| record.outcome == "begun").map(|of| of.items_moved as f64);
    // A change of a part of the sort keys moves next to nothing, or what nobody has counted.
    if counted.is_none() && metadata.is_some_and(|of| !of.epochs.is_one()) {
        return None;
    }
    let estimated = metadata.map(CollectionMetadata::estimated_items).filter(|items| *items > 0.0);
    let items_moved = counted.or(estimated.map(|items| (items * share_moved).round()));
    let items_moved = if share_moved > 0.0 { items_moved } else { Some(0.0) };
    let write_units = items_moved.map(|items| items * MOVE_WCU);
    Some(json!({
        // The part of the items that moves, from 0 to 1.
        "share_moved": share_moved,
        "items_moved": items_moved,
        "write_units": write_units,
        "usd": frame.prices.zip(write_units).map(|(prices, units)| prices.of_writes(units)),
        // Whether the items were counted, and not estimated.
        "is_counted": counted.is_some(),
        // The shards that each query reads more, below 0 less.
        "shards_more": i64::from(to.get()) - i64::from(from.get()),
    }))
}

/// The page of one collection.
pub(crate) fn details(
    known: &Known,
    partition: &PartitionKey,
    frame: Frame<'_>,
    range: Range,
) -> Value {
    let nothing = Collection::default();
    let collection = known.collections.get(partition).unwrap_or(&nothing);
    let Collection { metadata, job, trouble, read_secs, .. } = collection;
    let now = frame.now.as_secs();
    let mut series = Series::empty(range, frame.settings.partition, now);
    series.add(collection);
    let view = metadata
        .as_ref()
        .map(|metadata| CollectionView::with_progress(metadata, job.as_ref(), frame.waits, now));
    let more = metadata.as_ref().map(|metadata| {
        json!({
            "min_shards": metadata.min_shards.get(),
            "largest_count": metadata.largest_count.get(),
            "cleanup_pending": metadata.cleanup_pending,
            "items_moved": metadata.items_moved,
            "estimated_items": metadata.estimated_items().round(),
            "rev": metadata.rev,
            "is_enlisted": metadata.is_enlisted(),
        })
    });
    let all = decisions(known, frame, |of, _| of == partition, usize::MAX);
    json!({
        "now": now,
        "pk": partition.as_str(),
        "trouble": trouble,
        "read_at": read_secs,
        "collection": view,
        "more": more,
        "row": read_secs.map(|_| row(partition, collection, newest(known, partition), frame)),
        "is_nowhere": collection.is_nowhere(),
        "series": series.finish(),
        "decisions": all,
        "may_grow": frame.settings.grow_keys.allow(partition),
        "max_shards": frame.settings.max_shards.get(),
        "damaged_figures": collection.heat.damaged + collection.load.damaged,
    })
}

#[cfg(test)]
mod tests {
    use dynashard_core::{Epoch, Epochs, HistoryEntry};
    use dynashard_keys::{Placement, SortKey};

    use super::*;

    const NOW: u64 = 1_795_221_030;

    #[test]
    fn regression_a_key_looked_throttled_for_long_after_its_relief() {
        let full = Measures { write_units: 900.0, written_units: 100.0, ..Measures::default() };
        let relieved = Measures { write_units: 900.0, written_units: 900.0, ..full };
        let unmet = |live: &[(u64, Measures)]| {
            unmet(
                &Collection { live: live.iter().copied().collect(), ..Collection::default() },
                NOW,
            )
        };
        assert_eq!(unmet(&[(NOW - 4, full), (NOW - 3, relieved)]), Some(200.0));
        assert_eq!(unmet(&[(NOW - 7, full), (NOW - 3, relieved)]), Some(0.0));
        assert_eq!(unmet(&[(NOW - 7, full)]), Some(0.0), "not throttled since");
        assert_eq!(unmet(&[(NOW - 13, full), (NOW - 2, full)]), None, "old, and not complete");
    }

    fn frame(settings: &Settings) -> Frame<'_> {
        Frame {
            settings,
            waits: Waits::of(settings),
            prices: None,
            moves_are_known: true,
            read_units: 0.0,
            asked_rcu: 0.0,
            now: Duration::from_secs(NOW),
            boot: Duration::ZERO,
        }
    }

    #[test]
    fn regression_a_growth_behind_a_key_was_said_to_move_nearly_all() {
        let settings = Settings::default();
        let partition = PartitionKey::new("EWR").expect("a key");
        let count = |n| ShardCount::new(n).expect("a count");
        let record = DecisionRecord { from: 1, to: Some(16), ..DecisionRecord::default() };
        let stable = CollectionMetadata::stable(partition, Placement::Xxh64, count(16), 0);
        let says = |of: &CollectionMetadata| cost(&record, Some(of), frame(&settings)).is_some();
        assert!(says(&stable));
        let boundary = SortKey::string("m").expect("a sort key");
        let older = vec![Epoch { count: count(1), boundary }];
        let epochs = Epochs { older, ..Epochs::default() };
        assert!(!says(&CollectionMetadata { epochs, ..stable }));
    }

    #[test]
    fn regression_a_key_was_not_shown_from_its_growth_to_its_first_minute() {
        let settings = Settings::default();
        let frame = frame(&settings);
        let shown = |at_secs| {
            let partition = PartitionKey::new("EWR").expect("a key");
            let count = ShardCount::new(16).expect("a count");
            let stable = CollectionMetadata::stable(partition.clone(), Placement::Xxh64, count, 0);
            let shard_history = vec![HistoryEntry { at_secs, count }];
            let metadata = Some(CollectionMetadata { shard_history, ..stable });
            let mut known = Known::default();
            *known.collection(&partition) =
                Collection { metadata, read_secs: Some(NOW), ..Collection::default() };
            hottest(&known, frame, Range::Live).len()
        };
        assert_eq!((shown(NOW - 20), shown(NOW - 400)), (1, 0));
    }
}
