//! Answers that more than one function gives.

use dynashard_core::{
    CollectionMetadata, DecisionRecord, Job, PartitionLimits, Progress, Rates, ServerTime, Waits,
};
use dynashard_keys::{ItemKey, PartitionKey, ShardCount};
use serde::Serialize;

use crate::json::SortKeyJson;

/// A collection's metadata for clients.
#[derive(Debug, Serialize)]
pub struct CollectionView<'a> {
    pk: &'a str,
    /// That of the newest epoch.
    number_of_shards: u32,
    /// Oldest first.
    epochs: Vec<EpochView<'a>>,
    /// Whether newer keys sort lower.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    descending: bool,
    generation: u64,
    state: &'static str,
    placement: &'static str,
    /// `null` where nothing was ever changed.
    last_updated: Option<u64>,
    shard_history: Vec<HistoryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reshard: Option<ReshardView<'a>>,
}

/// A part of the sort keys that has a count of its own.
#[derive(Debug, Serialize)]
struct EpochView<'a> {
    /// It lies behind this sort key; `null` for the oldest.
    from: Option<SortKeyJson<'a>>,
    number_of_shards: u32,
}

/// A reshard that moves items, and how far it is.
#[derive(Debug, Serialize)]
struct ReshardView<'a> {
    from: u32,
    to: u32,
    /// The sort keys whose items move lie above this one, where they are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<SortKeyJson<'a>>,
    /// They lie up to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<SortKeyJson<'a>>,
    /// The count that follows, if an operator has reversed the reshard.
    then: Option<u32>,
    items_moved: u64,
    source_shards: usize,
    source_shards_done: usize,
    percent_done: u32,
    /// Whether the last scan runs.
    closing: bool,
    started: u64,
    closes_not_before: Option<u64>,
    eta_secs: Option<u64>,
    /// Whether an operator has paused it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    /// What it may take, in write units a second, if an operator has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    mover_write_units: Option<u32>,
    /// The items that cannot be moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmovable: Vec<UnmovableView<'a>>,
}

/// An item that DynamoDB rejects in the shard that it is to move to.
#[derive(Debug, Serialize)]
struct UnmovableView<'a> {
    sk: SortKeyJson<'a>,
    shard: u32,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct HistoryView {
    at: u64,
    count: u32,
}

fn epochs(metadata: &CollectionMetadata) -> Vec<EpochView<'_>> {
    let older = &metadata.epochs.older;
    let begins = [None].into_iter().chain(older.iter().map(|epoch| Some(&epoch.boundary)));
    let epoch = |(from, count): (Option<_>, ShardCount)| EpochView {
        from: from.map(SortKeyJson),
        number_of_shards: count.get(),
    };
    begins.zip(metadata.counts()).map(epoch).collect()
}

impl<'a> From<&'a CollectionMetadata> for CollectionView<'a> {
    fn from(metadata: &'a CollectionMetadata) -> Self {
        let history = metadata
            .shard_history
            .iter()
            .map(|entry| HistoryView { at: entry.at_secs, count: entry.count.get() });
        Self {
            pk: metadata.partition.as_str(),
            number_of_shards: metadata.number_of_shards.get(),
            epochs: epochs(metadata),
            descending: metadata.epochs.descending,
            generation: metadata.generation.get(),
            state: metadata.phase.as_str(),
            placement: metadata.placement.as_str(),
            last_updated: metadata.is_enlisted().then_some(metadata.last_updated_secs),
            shard_history: history.collect(),
            reshard: None,
        }
    }
}

impl<'a> CollectionView<'a> {
    /// A collection's metadata, and how far its reshard is at this epoch second.
    pub fn with_progress(
        metadata: &'a CollectionMetadata,
        job: Option<&'a Job>,
        waits: Waits,
        now_secs: u64,
    ) -> Self {
        let reshard = metadata.reshard().zip(job).map(|(reshard, job)| {
            let Progress {
                source_shards,
                source_shards_done,
                percent_done,
                closes_not_before,
                eta_secs,
            } = job.progress(&reshard, waits, ServerTime(now_secs));
            let unmovable = job.unmovable.iter().map(|((shard, sort), reason)| UnmovableView {
                sk: SortKeyJson(sort),
                shard: shard.get(),
                reason,
            });
            ReshardView {
                from: reshard.from.get(),
                to: reshard.to.get(),
                after: job.within.after.as_ref().map(SortKeyJson),
                until: job.within.until.as_ref().map(SortKeyJson),
                then: job.then.map(ShardCount::get),
                items_moved: job.items_moved,
                source_shards,
                source_shards_done,
                percent_done,
                closing: job.closing,
                started: job.started_secs,
                closes_not_before: closes_not_before.map(|at| at.0),
                eta_secs,
                paused: job.paused,
                mover_write_units: job.mover_wcu,
                unmovable: unmovable.collect(),
            }
        });
        Self { reshard, ..Self::from(metadata) }
    }
}

/// A collection with what it is asked for, what its shards take, and what was last decided about it.
#[derive(Debug, Serialize)]
pub struct CollectionDetails<'a> {
    #[serde(flatten)]
    collection: CollectionView<'a>,
    /// `null` where nothing was reported, or it could not be read.
    demand: Option<DemandView>,
    capacity: CapacityView,
    /// `null` where none was kept, or it could not be read.
    last_decision: Option<LastDecisionView<'a>>,
}

/// Units a second.
#[derive(Debug, Serialize)]
struct DemandView {
    write_units: f64,
    get_units: f64,
    query_units: f64,
    over_secs: u64,
    as_of: u64,
}

/// Units a second.
#[derive(Debug, Serialize)]
struct CapacityView {
    write_units: u64,
    read_units: u64,
}

#[derive(Debug, Serialize)]
struct LastDecisionView<'a> {
    /// When it was made first, and when last.
    at: u64,
    last: u64,
    diagnosis: &'a str,
    action: &'a str,
    from: u64,
    to: Option<u64>,
    outcome: &'a str,
    reason: &'a str,
}

impl<'a> CollectionDetails<'a> {
    /// A collection, each of whose shards takes what a partition takes.
    pub fn new(
        metadata: &'a CollectionMetadata,
        collection: CollectionView<'a>,
        partition: PartitionLimits,
        demand: Option<Rates>,
        last_decision: Option<&'a DecisionRecord>,
    ) -> Self {
        let shards = u64::from(metadata.number_of_shards.get());
        let capacity = CapacityView {
            write_units: shards * u64::from(partition.write_units),
            read_units: shards * u64::from(partition.read_units),
        };
        let demand = demand.map(|rates| DemandView {
            write_units: tenths(rates.write_units),
            get_units: tenths(rates.get_units),
            query_units: tenths(rates.query_units),
            over_secs: rates.over_secs,
            as_of: rates.as_of_secs,
        });
        let last_decision = last_decision.map(|record| LastDecisionView {
            at: record.at_secs,
            last: record.last_secs,
            diagnosis: &record.diagnosis,
            action: &record.action,
            from: record.from,
            to: record.to,
            outcome: &record.outcome,
            reason: &record.reason,
        });
        Self { collection, demand, capacity, last_decision }
    }
}

/// All that is kept of a decision.
#[derive(Debug, Serialize)]
pub struct DecisionView<'a> {
    pk: &'a str,
    at: u64,
    last: u64,
    times: u64,
    by: &'a str,
    diagnosis: &'a str,
    access: &'a str,
    action: &'a str,
    outcome: &'a str,
    hindrance: Option<&'a str>,
    bound: Option<&'a str>,
    from: u64,
    to: Option<u64>,
    demand: u64,
    granted: u64,
    capacity: u64,
    hottest_percent: Option<u64>,
    reason: &'a str,
}

impl<'a> DecisionView<'a> {
    /// A decision about this collection.
    pub fn new(partition: &'a PartitionKey, record: &'a DecisionRecord) -> Self {
        Self {
            pk: partition.as_str(),
            at: record.at_secs,
            last: record.last_secs,
            times: record.times,
            by: &record.by,
            diagnosis: &record.diagnosis,
            access: &record.access,
            action: &record.action,
            outcome: &record.outcome,
            hindrance: record.hindrance.as_deref(),
            bound: record.bound.as_deref(),
            from: record.from,
            to: record.to,
            demand: record.demand,
            granted: record.granted,
            capacity: record.capacity,
            hottest_percent: record.hottest_percent,
            reason: &record.reason,
        }
    }
}

/// A sample is no more exact than that.
fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// A key of a batch that was not processed, and why.
#[derive(Debug, Serialize)]
pub struct Unprocessed<'a> {
    pk: &'a str,
    sk: SortKeyJson<'a>,
    code: &'static str,
}

impl<'a> Unprocessed<'a> {
    /// The key with the stable code of the reason.
    pub fn new(key: &'a ItemKey, code: &'static str) -> Self {
        Self { pk: key.partition.as_str(), sk: SortKeyJson(&key.sort), code }
    }
}
