//! What more than one function answers.

use dynashard_core::CollectionMetadata;
use dynashard_keys::ItemKey;
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
    last_updated: u64,
    shard_history: Vec<HistoryView>,
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
            last_updated: metadata.last_updated_secs,
            shard_history: history.collect(),
        }
    }
}

/// A key of a batch that was not dealt with, and why.
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
