//! Whether a collection is to have more shards, and how many: pure functions from evidence to a decision.

use std::time::Duration;

use dynashard_keys::{ShardCount, ShardId};

use crate::decide::evidence::{CAPACITY_IN_NEED, COMPLETE_AFTER, Heat, slope, units};
use crate::model::decision::{Bound, CountChange, Decision, Diagnosis, Figures};
use crate::model::epochs::Extent;
use crate::model::index_shards::IndexShards;
use crate::model::ledger::{Bucket, Ledger, Span};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Access, Hindrance, check_change};
use crate::model::reshard::Waits;
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
        Cause::Reported { access, per_second, hottest_share, shards } => {
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
                let refusals = Refusals { access, per_second, hottest_share, shards };
                return reported(evidence, refusals, settings, waits);
            }
            by_ledger
        }
        Cause::Time => ahead(evidence, settings, waits),
    }
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
    // Where no shard is calculated from a key, gets ask every shard, too.
    let asks_all = if metadata.placement.is_calculated() { heat.query_units } else { demand };
    if access != Access::Write && asks_all > demand / 2.0 {
        return of(Diagnosis::HotQueries);
    }
    let is_ramp = wanted(expected, limit)
        > wanted(demand, limit).max(2 * u64::from(metadata.number_of_shards.get()));
    let diagnosis = if is_ramp { Diagnosis::Ramp } else { Diagnosis::HotKey };
    grow(Decision { diagnosis, ..decision }, metadata, shards, now, waits, settings)
}

/// The refusals that Contributor Insights reports ([`Cause::Reported`]).
#[derive(Clone, Copy)]
struct Refusals<'a> {
    access: Access,
    per_second: f64,
    hottest_share: Option<f64>,
    shards: &'a [ShardId],
}

/// What Contributor Insights says of a collection of which no environment has reported anything: it
/// counts refusals, so how much is asked for remains unknown.
fn reported(
    evidence: Evidence<'_>,
    refusals: Refusals<'_>,
    settings: &Settings,
    waits: Waits,
) -> Decision {
    let Evidence { metadata, now, .. } = evidence;
    let Refusals { access, per_second, hottest_share, shards } = refusals;
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
pub(super) fn rises(load: &Ledger, now: Duration) -> bool {
    [Access::Write, Access::Get].iter().any(|access| ramp(&minutes(load, *access, now)).is_some())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of a quotient above zero"
)]
pub(super) fn ceil(value: f64) -> u64 {
    value.ceil().max(0.0) as u64
}

pub(super) fn count(wanted: u64) -> ShardCount {
    let wanted = wanted.clamp(1, u64::from(ShardCount::MAX));
    u32::try_from(wanted).ok().and_then(|n| ShardCount::new(n).ok()).unwrap_or(ShardCount::ONE)
}
