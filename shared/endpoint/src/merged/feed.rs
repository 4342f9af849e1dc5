//! What a shard of an index has, as it is read.

use dynashard_core::{NativeShards, Place};
use dynashard_keys::{PhysicalPartitionKey, SortKey};
use serde_json::Value;

use super::asked::{Asked, Sequence};
use crate::document::Members;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::value;

/// All shards, which go on behind the client's keys.
pub(super) type Feeds = dynashard_core::Feeds<Sequence, Members, Entry>;

/// An entry that was read and not yet returned.
pub(super) struct Entry {
    /// That of its item.
    pub(super) sort: SortKey,
    /// The client's key of it, to begin behind.
    pub(super) key: Members,
    pub(super) item: Members,
    pub(super) bytes: usize,
}

/// What may count of a page of a shard, by its places, and what it goes on behind.
type Read = (Vec<(Sequence, Entry)>, Option<(Members, Sequence)>);

/// Reads a page of the shard `at`, which went on behind what `feeds` have for it. What does not count is passed over.
pub(super) fn entries(
    table: &ManagedTable,
    asked: &Asked,
    shards: &NativeShards,
    (at, partition): (usize, &PhysicalPartitionKey),
    feeds: &Feeds,
    mut page: Members,
) -> Result<Read, NoPage> {
    let mut before = feeds.next(at).and_then(|key| asked.place(table, key));
    let items = page.get_mut("Items").and_then(Value::as_array_mut).map(std::mem::take);
    let mut entries = Vec::new();
    for item in items.into_iter().flatten() {
        let Value::Object(mut item) = item else { continue };
        let shown = table.shown(&mut item);
        if shown.generation > shards.generation().get() {
            table.requests().forget(&asked.partition);
            return Err(NoPage::Again);
        }
        let keys = asked.index.keys().into_iter();
        let key = keys.map(|name| Some((name.to_owned(), item.get(name)?.clone())));
        let key = key.collect::<Option<Members>>();
        let place = key.as_ref().and_then(|key| asked.place(table, key));
        let item_key = table.key_of(&item)?;
        // Without them the index is another one than it was.
        let (Some(key), Some(place), Some(item_key)) = (key, place, item_key) else {
            table.indexes().forget();
            return Err(NoPage::Again);
        };
        if before.is_some_and(|before| feeds.order(&before, &place).is_ge()) {
            return Err(Refusal::internal(
                "dynashard: index_order: the index has entries in another order than that of its sort key and the table's, so \
                 that those of several shards cannot be merged",
            )
            .into());
        }
        before = Some(place.clone());
        let lies = shards.place_of(&item_key, partition.as_str());
        if !shown.is_marker && lies != Place::Elsewhere {
            let bytes = value::bytes(&item);
            entries.push((place, Entry { sort: item_key.sort, key, item, bytes }));
        }
    }
    let next = page.get_mut("LastEvaluatedKey").and_then(Value::as_object_mut).map(|key| {
        table.name_logically(key);
        std::mem::take(key)
    });
    let Some(next) = next else { return Ok((entries, None)) };
    let Some(covered) = asked.place(table, &next) else {
        table.indexes().forget();
        return Err(NoPage::Again);
    };
    Ok((entries, Some((next, covered))))
}
