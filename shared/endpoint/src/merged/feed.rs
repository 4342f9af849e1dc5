//! What a shard of an index has, as it is read.

use dynashard_core::{NativeShards, Place};
use dynashard_keys::{ItemKey, PhysicalPartitionKey, SortKey};
use serde_json::Value;
use serde_json::value::RawValue;

use super::asked::Asked;
use super::keys::{Keys, Sequence};
use super::shard_page::{ShardItem, ShardPage};
use crate::document::Members;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// All shards, which go on behind the client's keys.
pub(super) type Feeds = dynashard_core::Feeds<Sequence, Members, Entry>;

/// An entry that was read and not yet returned.
pub(super) struct Entry {
    /// That of its item.
    pub(super) sort: SortKey,
    /// The keys that all entries have in common.
    pub(super) common: Vec<Value>,
    pub(super) text: Box<RawValue>,
    pub(super) bytes: usize,
}

/// What may count of a page of a shard, by its places, and what it goes on behind.
type Read = (Vec<(Sequence, Entry)>, Option<(Members, Sequence)>);

/// What counts of a page of the shard `at`, which went on behind what `feeds` have for it.
pub(super) fn entries(
    table: &ManagedTable,
    asked: &Asked,
    shards: &NativeShards,
    (at, partition): (usize, &PhysicalPartitionKey),
    feeds: &Feeds,
    page: ShardPage,
) -> Result<Read, NoPage> {
    if page.items.iter().any(|item| item.generation > shards.generation().get()) {
        table.requests().forget(&asked.partition);
        return Err(NoPage::Again);
    }
    let is_another_index = || {
        table.indexes().forget();
        NoPage::Again
    };
    let places = page.items.iter().map(|item| Some(&item.keys.as_ref()?.place));
    let places = places.collect::<Option<Vec<_>>>().ok_or_else(is_another_index)?;
    let before = feeds.next(at).and_then(|key| asked.place(key));
    if !before.iter().chain(places).is_sorted_by(|one, other| feeds.order(one, other).is_lt()) {
        return Err(Refusal::internal(
            "dynashard: index_order: the index has entries in another order than that of its sort key and the table's, so \
             that those of several shards cannot be merged",
        )
        .into());
    }
    let mut entries = Vec::with_capacity(page.items.len());
    for ShardItem { keys, is_marker, text, bytes, .. } in page.items {
        let Keys { place, common } = keys.ok_or_else(is_another_index)?;
        let sort = place.last().and_then(|sort| sort.sort_key(table.schema().sort_key_type));
        let key = ItemKey::new(asked.partition.clone(), sort.ok_or_else(is_another_index)?);
        if !is_marker && shards.place_of(&key, partition.as_str()) != Place::Elsewhere {
            entries.push((place, Entry { sort: key.sort, common, text, bytes }));
        }
    }
    let next = page.next.map(|mut key| {
        table.name_logically(&mut key);
        key
    });
    let Some(next) = next else { return Ok((entries, None)) };
    let covered = asked.place(&next).ok_or_else(is_another_index)?;
    Ok((entries, Some((next, covered))))
}
