//! Answers that more than one function gives.

use dynashard_core::{CollectionMetadata, Job, Progress, ServerTime, Waits};
use dynashard_keys::{ItemKey, ShardCount};
use serde::Serialize;

use crate::json::SortKeyJson;

/// A collection's metadata for clients.
#[derive(Debug, Serialize)]
pub struct CollectionView<'a> {
    pk: &'a str,
    number_of_shards: u32,
    generation: u64,
    state: &'static str,
    placement: &'static str,
    /// `null` where nothing was ever changed.
    last_updated: Option<u64>,
    shard_history: Vec<HistoryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reshard: Option<ReshardView>,
}

/// A reshard that moves items, and how far it is.
#[derive(Debug, Serialize)]
struct ReshardView {
    from: u32,
    to: u32,
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
}

#[derive(Debug, Serialize)]
struct HistoryView {
    at: u64,
    count: u32,
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
        job: Option<&Job>,
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
            ReshardView {
                from: reshard.from.get(),
                to: reshard.to.get(),
                then: job.then.map(ShardCount::get),
                items_moved: job.items_moved,
                source_shards,
                source_shards_done,
                percent_done,
                closing: job.closing,
                started: job.started_secs,
                closes_not_before: closes_not_before.map(|at| at.0),
                eta_secs,
            }
        });
        Self { reshard, ..Self::from(metadata) }
    }
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
