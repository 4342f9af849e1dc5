//! Whether a collection is to have fewer shards, and when that is looked at: pure functions from evidence to a decision.

use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardCount};

use crate::decide::evidence::{busiest, units};
use crate::decide::pace::{LEAST_MOVE, most_moves_per_sec};
use crate::decide::shard_count::{Evidence, ceil, count, nothing, rises};
use crate::model::decision::{CountChange, Decision, Diagnosis, Figures, Payback};
use crate::model::ledger::{Bucket, Ledger, Measures, Span};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Access, Hindrance, check_change};
use crate::model::segment::KeyHash;
use crate::model::settings::Settings;

/// The part of what fewer shards take below which they are enough.
const COOL: f64 = 0.35;
/// The write units that removing the marker of an item that has moved takes.
const MARKER_WCU: f64 = 1.0;
/// How long moving the items of a shrink may take: as long as its close waits anyway, by default, for requests that may
/// still be executed. Until it has closed, no shards are added for a load that comes back.
const LONGEST_MOVE: Duration = Duration::from_mins(16);
/// The read units that a query takes of each shard at least.
const SHARD_RCU: f64 = 0.5;

/// Decides whether a collection is to have fewer shards. As many items as its last change has moved tell how many it has, with each
/// write since as another one.
pub fn decide_shrink(evidence: Evidence<'_>, settings: &Settings) -> Decision {
    let Evidence { metadata, load, now, .. } = evidence;
    // What was written before the window lies there, too.
    let written = load.of(Span::Hour, now).map(|(_, measures)| measures.writes).sum::<f64>();
    decide_shrink_of(metadata.estimated_items() + written, evidence, settings)
}

/// Decides on a collection of so many items as [`decide_shrink`] does.
pub(crate) fn decide_shrink_of(
    items: f64,
    evidence: Evidence<'_>,
    settings: &Settings,
) -> Decision {
    let Evidence { metadata, load, now, .. } = evidence;
    let policy = settings.shrink;
    let cold = nothing(metadata, Access::Write, settings);
    let in_use = Decision { diagnosis: Diagnosis::InUse, ..cold.clone() };
    let window = policy.after;
    let since = now.saturating_sub(window).as_secs();
    if !covers(load, window, now) || load.damaged > 0 || load.of_the_future(now) > 0 {
        return Decision { diagnosis: Diagnosis::TooLittleEvidence, ..cold };
    }
    // An hour's mean hides its peak, of which the looks in it have seen most.
    let peak_of = |access: Access| {
        let of = |span: Span, factor: f64| {
            let recent = load.of(span, now).filter(|(bucket, _)| bucket.end_secs() >= since);
            let a_second = |m: &Measures| {
                let mean = units(m, access) / span.secs_f64();
                (mean * factor).max(busiest(m, access) / Span::Minute.secs_f64())
            };
            recent.map(|(_, m)| a_second(m)).fold(0.0, f64::max)
        };
        of(Span::Minute, 1.0).max(of(Span::Hour, 1.5))
    };
    let (writes, reads) = (peak_of(Access::Write), peak_of(Access::Get));
    let limit = |access| settings.partition.of(access);
    let wanted = (writes / limit(Access::Write)).max(reads / limit(Access::Get)) / COOL;
    let wanted = ceil(wanted);
    let target = metadata.placement.round(count(wanted).max(metadata.min_shards));
    let by_reads = reads / limit(Access::Get) > writes / limit(Access::Write);
    let access = if by_reads { Access::Get } else { Access::Write };
    let figures = Figures {
        demand: if by_reads { reads } else { writes },
        capacity: f64::from(metadata.number_of_shards.get()) * limit(access),
        seconds: window.as_secs(),
        wanted,
        ..Figures::default()
    };
    let decision = Decision { access, figures, ..in_use };
    if target.get() > metadata.number_of_shards.get() / 2 || rises(load, now) {
        return decision;
    }
    let payback = payback(items, evidence, target, since);
    let hindrance = if !settings.grow_keys.allow(&metadata.partition) {
        Some(Hindrance::NotAllowed)
    } else if metadata.phase != Phase::Stable || metadata.cleanup_pending {
        Some(Hindrance::Running)
    } else {
        let pause = window.max(settings.scaling.cooldown);
        let too_dear = policy.payback.is_some_and(|within| !pays_back(payback, within));
        let too_dear = too_dear.then_some(Hindrance::TooDear);
        let present = metadata.number_of_shards.get();
        let per_sec = most_moves_per_sec(settings, present, target.get(), writes);
        let moved = payback.items * units_of_item(load, now);
        let too_long = moved / per_sec > LONGEST_MOVE.as_secs_f64();
        let too_long = too_long.then_some(Hindrance::TooLong);
        check_change(metadata, now.as_secs(), pause).err().or(too_dear).or(too_long)
    };
    Decision {
        diagnosis: Diagnosis::CooledDown,
        action: if hindrance.is_none() { CountChange::Shrink(target) } else { CountChange::None },
        hindrance,
        figures: Figures { payback: Some(payback), ..figures },
        ..decision
    }
}

/// So many items of the newest epoch may there be for a shrink, if nobody knows how much is written meanwhile.
pub(crate) fn most_moved(settings: &Settings, from: ShardCount, to: ShardCount) -> u64 {
    let per_sec = most_moves_per_sec(settings, from.get(), to.get(), 0.0);
    let (from, to) = (f64::from(from.get()), f64::from(to.get()));
    ceil(per_sec * LONGEST_MOVE.as_secs_f64() * from / (from - to).max(1.0))
}

/// Whether one of the minutes since the last pass is that in which it is looked whether a collection may shrink after such a
/// window. A look reads and writes its ledger, so there are as few as tell enough: nine in a window, and three in an hour. Which
/// minutes follows from the key.
pub(crate) fn is_look_due(
    partition: &PartitionKey,
    window: Duration,
    since_last_pass: Duration,
    now: Duration,
) -> bool {
    let every = look_every(window);
    let minutes_ago = (now.as_secs() / 60).wrapping_sub(KeyHash::of(partition).half()) % every;
    minutes_ago < (since_last_pass.as_secs() / 60).max(1)
}

/// Whether it is told how many items a collection has, by what its last change has moved and what was written since.
pub(crate) fn is_estimated(metadata: &CollectionMetadata, now: Duration) -> bool {
    let watched = Span::Hour.kept() * Span::Hour.secs();
    metadata.estimated_items() > 0.0
        && now.as_secs().saturating_sub(metadata.last_updated_secs) < watched
}

/// Whether the items of a collection are counted in this look: in one of nine, which is one in a window of up to three hours. To count
/// is dear, and each look would find too many again.
pub(crate) fn is_count_due(partition: &PartitionKey, window: Duration, now: Duration) -> bool {
    let minute = (now.as_secs() / 60).wrapping_sub(KeyHash::of(partition).half());
    span_of(window) == Span::Minute || (minute / look_every(window)).is_multiple_of(LOOKS)
}

/// How many minutes lie between two looks.
fn look_every(window: Duration) -> u64 {
    match span_of(window) {
        Span::Minute => 1,
        _ => (window.as_secs() / 60 / LOOKS).clamp(1, 20),
    }
}

/// How many looks there are in a window, but for a long one.
const LOOKS: u64 = 9;

/// By what a window is watched: minutes are kept for half an hour.
fn span_of(window: Duration) -> Span {
    if window <= Duration::from_mins(30) { Span::Minute } else { Span::Hour }
}

/// Whether somebody has reported, or looked, in two thirds of the window, and since its first third: of an hour some minutes may be all
/// that was watched. What was not watched may have been hot.
fn covers(load: &Ledger, window: Duration, now: Duration) -> bool {
    let since = now.saturating_sub(window).as_secs();
    let span = span_of(window);
    let watched = load.of(span, now).filter(|(bucket, _)| bucket.end_secs() > since);
    let starts = watched.map(|(bucket, _)| bucket.start_secs).collect::<Vec<_>>();
    let in_all = (window.as_secs() / span.secs()).max(1);
    let first_third = since + window.as_secs() / 3;
    starts.iter().any(|start| *start <= first_third)
        && u64::try_from(starts.len()).unwrap_or(u64::MAX) * 3 >= in_all * 2
}

/// The write units that an item takes, on average, as the writes of late tell.
fn units_of_item(load: &Ledger, now: Duration) -> f64 {
    let sum = load.of(Span::Hour, now).fold((0.0, 0.0), |(units, writes), (_, measures)| {
        (units + measures.write_units, writes + measures.writes)
    });
    if sum.1 > 0.0 { (sum.0 / sum.1).max(1.0) } else { 1.0 }
}

/// What it costs to go to `target` shards, and what that saves.
fn payback(items: f64, evidence: Evidence<'_>, target: ShardCount, since: u64) -> Payback {
    let Evidence { metadata, load, now, .. } = evidence;
    let first = Bucket::of(Span::Hour, Duration::from_secs(since)).start_secs;
    let hours = load.of(Span::Hour, now).filter(|(bucket, _)| bucket.start_secs >= first);
    let hours = hours.map(|(_, measures)| *measures).collect::<Vec<Measures>>();
    // The present hour is not over, and hours without traffic have no figures.
    let covered = now.saturating_sub(Duration::from_secs(first)).as_secs_f64() / 3_600.0;
    let queries = hours.iter().fold(0.0, |sum, measures| sum + measures.queries);
    let (present, target) = (f64::from(metadata.number_of_shards.get()), f64::from(target.get()));
    // What a new epoch has fewer shards for is yet to come.
    let moves = metadata.epochs.shrinks_in_place();
    let items = if moves { items * (1.0 - target / present) } else { 0.0 };
    Payback {
        items,
        cost_wcu: items * (units_of_item(load, now) * LEAST_MOVE.in_all + MARKER_WCU),
        saved_rcu_an_hour: queries / covered.max(1.0) * (present - target) * SHARD_RCU,
    }
}

/// Whether what is saved pays for the move within this time. On demand a write unit costs five times what a read
/// unit costs ([pricing](https://aws.amazon.com/dynamodb/pricing/on-demand/)).
fn pays_back(payback: Payback, within: Duration) -> bool {
    const READS_FOR_A_WRITE: f64 = 5.0;
    let hours = within.as_secs_f64() / 3_600.0;
    payback.saved_rcu_an_hour * hours >= payback.cost_wcu * READS_FOR_A_WRITE
}
