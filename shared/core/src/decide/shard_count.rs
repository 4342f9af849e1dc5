//! How many shards a collection is to have: pure functions from evidence to a decision.

use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardCount, ShardId};

use crate::decide::evidence::{CAPACITY_IN_NEED, COMPLETE_AFTER, Heat, busiest, slope, units};
use crate::decide::pace::{LEAST_MOVE, most_moves_per_sec};
use crate::model::decision::{Bound, CountChange, Decision, Diagnosis, Figures, Payback};
use crate::model::epochs::Extent;
use crate::model::index_shards::IndexShards;
use crate::model::ledger::{Bucket, Ledger, Measures, Span};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Access, Hindrance, check_change};
use crate::model::reshard::Waits;
use crate::model::segment::KeyHash;
use crate::model::settings::Settings;
use crate::model::throttle::{Throttle, ThrottleLimit};

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The collection's state.
    pub metadata: &'a CollectionMetadata,
    /// What was seen in the last seconds.
    pub heat: &'a Ledger,
    /// What was seen in the last minutes and hours.
    pub load: &'a Ledger,
    /// What led here.
    pub cause: Cause<'a>,
    /// The time by DynamoDB's clock, since the epoch.
    pub now: Duration,
}

/// What leads to a decision.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// A request was refused.
    Throttled {
        /// What it was to do.
        access: Access,
        /// Which limit refused it.
        throttle: &'a Throttle,
        /// Where; none where that is not known.
        shards: &'a [ShardId],
    },
    /// Contributor Insights reports refusals.
    Reported {
        /// What was refused.
        access: Access,
        /// Refusals a second, attempts included.
        per_second: f64,
        /// The part of them that was for one sort key, where that is reported.
        hottest_share: Option<f64>,
        /// The shards that refused.
        shards: &'a [ShardId],
    },
    /// Time has passed.
    Time,
}

/// The part of what its shards take that a collection is to be asked for when it has grown.
const TARGET: f64 = 0.7;
/// The part of what fewer shards take below which they are enough.
const COOL: f64 = 0.35;
/// How many times as many shards a collection gets at once, at most.
const STEP: u32 = 16;
/// How many times as many shards a collection gets at least whose clients wait for what is refused. What they would ask for
/// shows only when they need not wait.
const CENSORED: u64 = 4;
/// From which part of the demand on the hottest item decides.
const HOT_ITEM: f64 = 0.5;
/// How much more than now is expected at most.
const MOST_EXPECTED: f64 = 2.0;
/// From which part of its capacity on a collection grows ahead of a ramp.
const AHEAD: f64 = 0.8;
/// How long after the beginning of a change its new shards take writes, beside the wait for leases.
const IN_FORCE_AFTER: Duration = Duration::from_secs(1);
/// What was reported so long ago may still be what an alarm is about.
const REPORTED_WITHIN: Duration = Duration::from_mins(10);
/// A key with fewer refusals a second, as a part of what a partition takes, is beside a hot one.
const FEW_REFUSALS: f64 = 0.05;
/// The write units that removing the marker of an item that has moved takes.
const MARKER_WCU: f64 = 1.0;
/// How long moving the items of a shrink may take: as long as its close waits anyway, by default, for requests that may
/// still be executed. Until it has closed, no shards are added for a load that comes back.
const LONGEST_MOVE: Duration = Duration::from_mins(16);
/// The read units that a query takes of each shard at least.
const SHARD_RCU: f64 = 0.5;

/// Decides what is to be done about a collection that is throttled, or may soon be.
pub fn decide(evidence: Evidence<'_>, settings: &Settings, waits: Waits) -> Decision {
    let Evidence { metadata, cause, .. } = evidence;
    match cause {
        Cause::Throttled { access, throttle, .. } if !throttle.is_of_a_partition() => {
            Decision { diagnosis: of_limit(throttle), ..nothing(metadata, access, settings) }
        }
        Cause::Throttled { access, shards, .. } => {
            throttled(evidence, access, shards, settings, waits)
        }
        Cause::Reported { access, shards, .. } => {
            let by_ledger = throttled(evidence, access, shards, settings, waits);
            // Where anybody reports, what clients ask for is known in a moment, and need not be guessed.
            // A report of refusals comes minutes late, and does not tell writes from reads.
            let is_recent = |bucket: &Bucket| {
                let end = Duration::from_secs(bucket.end_secs());
                end.saturating_add(REPORTED_WITHIN) > evidence.now
            };
            let mut buckets = evidence.heat.buckets.iter().chain(&evidence.load.buckets);
            // Who only looks whether it may shrink stands for no environment.
            let is_reported = buckets.any(|(bucket, measures)| {
                bucket.span != Span::Hour && measures.environments > 0.0 && is_recent(bucket)
            });
            if by_ledger.diagnosis == Diagnosis::TooLittleEvidence && !is_reported {
                return reported(evidence, settings, waits);
            }
            by_ledger
        }
        Cause::Time => ahead(evidence, settings, waits),
    }
}

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

/// Whether somebody has reported, or looked, in two thirds of the window. What was not watched may have been hot.
fn covers(load: &Ledger, window: Duration, now: Duration) -> bool {
    let since = now.saturating_sub(window).as_secs();
    let span = span_of(window);
    let watched = load.of(span, now).filter(|(bucket, _)| bucket.end_secs() > since).count();
    let in_all = (window.as_secs() / span.secs()).max(1);
    u64::try_from(watched).unwrap_or(u64::MAX) * 3 >= in_all * 2
}

fn of_limit(throttle: &Throttle) -> Diagnosis {
    match throttle.limit {
        _ if throttle.is_of_a_replica() => Diagnosis::Replica,
        _ if throttle.on_index => Diagnosis::Index,
        ThrottleLimit::Provisioned => Diagnosis::Table,
        ThrottleLimit::Account => Diagnosis::Account,
        ThrottleLimit::MaxOnDemand => Diagnosis::MaxOnDemand,
        ThrottleLimit::KeyRange | ThrottleLimit::Unknown => Diagnosis::UnknownLimit,
    }
}

/// When the last second was complete that anybody has reported by the second, if a report of refusals may be about it. Such a report
/// comes minutes late, and a burst is over by then: what was reported of it is kept until something else is.
fn last_burst(evidence: Evidence<'_>) -> Option<Duration> {
    let Evidence { metadata, heat, now, .. } = evidence;
    let seconds = heat.buckets.keys().filter(|bucket| bucket.span == Span::Second);
    let newest = seconds.max_by_key(|bucket| bucket.start_secs)?;
    let complete = Duration::from_secs(newest.end_secs()) + COMPLETE_AFTER;
    let is_recent = complete <= now && complete.saturating_add(REPORTED_WITHIN) > now;
    // What came before the last change tells nothing of the shards that there are.
    (is_recent && newest.start_secs > metadata.last_updated_secs).then_some(complete)
}

/// What the ledger says of a collection whose partitions refuse requests.
fn throttled(
    evidence: Evidence<'_>,
    access: Access,
    shards: &[ShardId],
    settings: &Settings,
    waits: Waits,
) -> Decision {
    let Evidence { metadata, heat: ledger, load, cause, now } = evidence;
    let mut heat = Heat::of(ledger, access, now);
    if let (0, Cause::Reported { .. }, Some(burst)) = (heat.seconds(), cause, last_burst(evidence))
    {
        heat = Heat::of(ledger, access, burst);
    }
    let nothing = nothing(metadata, access, settings);
    let demand = heat.demand();
    let in_force = waits.leases_end + IN_FORCE_AFTER;
    let expected = [
        heat.slope().map(|slope| demand + slope * in_force.as_secs_f64()),
        // The next growth begins when this one has closed.
        ramp(&minutes(load, access, now))
            .map(|slope| demand + slope / 60.0 * (in_force + waits.request_lifetime).as_secs_f64()),
    ];
    let expected =
        expected.into_iter().flatten().fold(demand, f64::max).min(MOST_EXPECTED * demand);
    let censored = (access == Access::Write).then(|| heat.censored(nothing.figures.capacity));
    let censored = censored.flatten();
    let at_most = (heat.at_most() / demand.max(f64::MIN_POSITIVE) * expected).max(expected);
    // What has grown was sized by what was seen of it. What waits now may be what piled up, of which each unit waits once, and
    // not clients that each ask for the next one when they have got it.
    let unhindered = censored.filter(|_| metadata.number_of_shards == ShardCount::ONE);
    let mut figures = Figures {
        demand,
        expected,
        sized_for: at_most.max(unhindered.unwrap_or_default()),
        is_censored: censored.is_some(),
        granted: heat.granted,
        seconds: u64::try_from(heat.seconds()).unwrap_or(u64::MAX),
        hottest_share: heat.hottest_share,
        ..nothing.figures
    };
    let limit = settings.partition.of(access);
    let hottest = heat.hottest_share.unwrap_or_default();
    let is_above = heat.is_above(figures.capacity);
    // What the hottest item asks for can go to no other shard, and the rest may have enough.
    let rest = demand * (1.0 - hottest);
    let fills_a_shard = hottest * demand >= TARGET * limit;
    let is_hot_item = (is_above || (heat.is_long() && fills_a_shard))
        && (hottest > HOT_ITEM || fills_a_shard)
        && rest < CAPACITY_IN_NEED * figures.capacity;
    if hottest > HOT_ITEM && !is_hot_item {
        // It has one shard, and the rest has the others.
        let with_rest = |units: f64| units * (1.0 - hottest) + TARGET * limit;
        figures.expected = with_rest(figures.expected);
        figures.sized_for = with_rest(figures.sized_for);
    }
    let decision = Decision { figures, ..nothing };
    let of = |diagnosis| Decision { diagnosis, ..decision.clone() };
    if is_above && !heat.is_at_rest {
        return decision;
    }
    if is_hot_item {
        return of(Diagnosis::HotItem);
    }
    if !is_above {
        // While items move, and until all know where they are, it is the move that throttles.
        let hindrance = match metadata.phase {
            Phase::Stable if metadata.cleanup_pending => Some(Hindrance::ClearingUp),
            Phase::Stable => None,
            Phase::Forward { .. } | Phase::Move { .. } => Some(Hindrance::Running),
        };
        // Beside a hot key it is refused although it is granted little.
        let is_neighbour = heat.is_long()
            && hindrance.is_none()
            && heat.full_seconds(figures.capacity).next().is_none();
        let diagnosis =
            if is_neighbour { Diagnosis::Neighbour } else { Diagnosis::TooLittleEvidence };
        return Decision { hindrance, ..of(diagnosis) };
    }
    if access != Access::Write && heat.query_units > demand / 2.0 {
        return of(Diagnosis::HotQueries);
    }
    let is_ramp = wanted(expected, limit)
        > wanted(demand, limit).max(2 * u64::from(metadata.number_of_shards.get()));
    let diagnosis = if is_ramp { Diagnosis::Ramp } else { Diagnosis::HotKey };
    grow(Decision { diagnosis, ..decision }, metadata, shards, now, waits, settings)
}

/// What Contributor Insights says of a collection of which no environment has reported anything: it
/// counts refusals, so how much is asked for remains unknown.
fn reported(evidence: Evidence<'_>, settings: &Settings, waits: Waits) -> Decision {
    let Evidence { metadata, cause, now, .. } = evidence;
    let Cause::Reported { access, per_second, hottest_share, shards } = cause else {
        return decide(evidence, settings, waits);
    };
    let nothing = nothing(metadata, access, settings);
    let figures = Figures { hottest_share, ..nothing.figures };
    let decision = Decision { figures, ..nothing };
    if metadata.phase != Phase::Stable {
        return Decision { hindrance: Some(Hindrance::Running), ..decision };
    }
    if access != Access::Write || per_second < FEW_REFUSALS * settings.partition.of(access) {
        // A report does not tell gets from queries.
        return decision;
    }
    if hottest_share.is_some_and(|share| share > HOT_ITEM) {
        return Decision { diagnosis: Diagnosis::HotItem, ..decision };
    }
    // More than its shards take, by nobody knows how much.
    let demand = decision.figures.capacity;
    let figures = Figures { demand, expected: demand, granted: demand, ..decision.figures };
    let decision = Decision { diagnosis: Diagnosis::HotKey, figures, ..decision };
    grow(decision, metadata, shards, now, waits, settings)
}

/// Whether a collection that nothing throttles will soon be throttled.
fn ahead(evidence: Evidence<'_>, settings: &Settings, waits: Waits) -> Decision {
    let Evidence { metadata, load, now, .. } = evidence;
    let access = Access::Write;
    let nothing = nothing(metadata, access, settings);
    let rates = minutes(load, access, now);
    let in_use = Decision { diagnosis: Diagnosis::InUse, ..nothing };
    let (Some(demand), Some(slope)) = (rates.first().copied(), ramp(&rates)) else {
        return in_use;
    };
    // The newest minute is over when it is reported, and its middle lies half a minute before that.
    let in_force = waits.leases_end + IN_FORCE_AFTER + Duration::from_secs(90);
    let by =
        |time: Duration| (demand + slope / 60.0 * time.as_secs_f64()).min(MOST_EXPECTED * demand);
    let figures = Figures { demand, expected: by(in_force), ..in_use.figures };
    if figures.expected < AHEAD * figures.capacity || demand < CAPACITY_IN_NEED * figures.capacity {
        return Decision { figures, ..in_use };
    }
    let expected = by(in_force + waits.request_lifetime);
    let figures = Figures { expected, ..figures };
    let decision = Decision { diagnosis: Diagnosis::Ramp, figures, ..in_use };
    grow(decision, metadata, &[], now, waits, settings)
}

/// The count for what is expected, and what keeps the collection from getting it.
fn grow(
    decision: Decision,
    metadata: &CollectionMetadata,
    shards: &[ShardId],
    now: Duration,
    waits: Waits,
    settings: &Settings,
) -> Decision {
    let limit = settings.partition.of(decision.access);
    let present = metadata.number_of_shards;
    let Figures { expected, sized_for, is_censored, .. } = decision.figures;
    let least = if is_censored { CENSORED } else { 2 };
    let wanted = wanted(sized_for.max(expected), limit).max(least * u64::from(present.get()));
    let step = count(u64::from(present.get()) * u64::from(STEP));
    let is_of_indexes = metadata.partition.is_reserved();
    let most = if is_of_indexes { count(IndexShards::MOST.into()) } else { settings.max_shards };
    let placement = metadata.placement;
    let rounded = placement.round(count(wanted));
    let bound = [(Bound::MaxShards, placement.round_down(most)), (Bound::Step, step)];
    let bound = bound.into_iter().filter(|(_, most)| *most < rounded).min_by_key(|(_, most)| *most);
    let to = bound.map_or(rounded, |(_, most)| placement.round_down(most));
    let figures = Figures { wanted: u64::from(rounded.get()), ..decision.figures };
    let bound = bound.map(|(bound, _)| bound);
    let decision = Decision { bound, figures, ..decision };
    let refused =
        |hindrance| Decision { hindrance: Some(hindrance), bound: None, ..decision.clone() };
    if !is_of_indexes && !settings.grow_keys.allow(&metadata.partition) {
        return refused(Hindrance::NotAllowed);
    }
    if let Phase::Forward { from, to } | Phase::Move { from, to } = metadata.phase
        && to < from
    {
        // The change to fewer shards was a mistake, or the load has come back.
        let left = f64::from(to.get()) * limit;
        if decision.figures.expected > TARGET * left && metadata.reshard().is_some() {
            return Decision { action: CountChange::TurnRound(from), bound: None, ..decision };
        }
    }
    if to <= present {
        return refused(Hindrance::NotLarger);
    }
    // Creation starts no cooldown.
    let cooldown = if metadata.has_changed() { settings.scaling.cooldown } else { Duration::ZERO };
    let pause = waits.leases_end.max(cooldown);
    if let Err(hindrance) = check_change(metadata, now.as_secs(), pause) {
        return refused(hindrance);
    }
    if !shards.is_empty() && shards.iter().all(|shard| metadata.is_clearing_up(*shard)) {
        return refused(Hindrance::ClearingUp);
    }
    Decision { action: CountChange::Grow(to), ..decision }
}

pub(super) fn nothing(
    metadata: &CollectionMetadata,
    access: Access,
    settings: &Settings,
) -> Decision {
    let is_write = access == Access::Write;
    let count = if is_write { metadata.takes_writes() } else { metadata.number_of_shards };
    let capacity = f64::from(count.get()) * settings.partition.of(access);
    Decision {
        extent: Extent::Newest,
        partition: metadata.partition.clone(),
        diagnosis: Diagnosis::TooLittleEvidence,
        access,
        count: metadata.number_of_shards,
        action: CountChange::None,
        hindrance: None,
        bound: None,
        figures: Figures { capacity, ..Figures::default() },
    }
}

fn wanted(demand: f64, limit: f64) -> u64 {
    ceil(demand / (TARGET * limit))
}

/// The units a second of each of the last complete minutes, newest first, from the first on that has any.
fn minutes(load: &Ledger, access: Access, now: Duration) -> Vec<f64> {
    const MINUTES: u64 = 30;
    let present = Bucket::of(Span::Minute, now);
    // Environments report a minute after its end, some of them late: the last one is not complete.
    let before = |minutes: u64| present.start_secs.checked_sub((minutes + 1) * 60);
    let of = |start_secs: u64| load.buckets.get(&Bucket { start_secs, ..present });
    let rates = (1..=MINUTES).map_while(before);
    let rates = rates.map(|start| of(start).map_or(0.0, |m| units(m, access) / 60.0));
    let mut rates = rates.collect::<Vec<_>>();
    // A minute in between in which nobody reported anything is one without traffic.
    let first = rates.iter().rposition(|rate| *rate > 0.0);
    rates.truncate(first.map_or(0, |at| at + 1));
    rates
}

/// How much these rates of minutes grow from one to the next. A steep ramp shows in a few of them, and a slow one,
/// which may double the load while a change runs, in more.
fn ramp(rates: &[f64]) -> Option<f64> {
    const WINDOWS: [usize; 3] = [5, 15, 30];
    let mut windows = WINDOWS.into_iter().map(|minutes| rates.len().min(minutes));
    windows.find_map(|minutes| slope(&rates[..minutes]))
}

/// Whether the load goes up, by its last minutes.
fn rises(load: &Ledger, now: Duration) -> bool {
    [Access::Write, Access::Get].iter().any(|access| ramp(&minutes(load, *access, now)).is_some())
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of a quotient above zero"
)]
fn ceil(value: f64) -> u64 {
    value.ceil().max(0.0) as u64
}

fn count(wanted: u64) -> ShardCount {
    let wanted = wanted.clamp(1, u64::from(ShardCount::MAX));
    u32::try_from(wanted).ok().and_then(|n| ShardCount::new(n).ok()).unwrap_or(ShardCount::ONE)
}
