//! Secondary indexes of the main table in memory, which are as current as the table.

use std::cmp::Ordering;

use async_trait::async_trait;
use dynashard_core::ports::{
    IndexEntry, IndexPart, IndexPlace, IndexRead, IndexStart, IndexStore, StoreError,
};
use dynashard_core::{
    AttributeValue, Generation, INDEX_SHARD, SecondaryIndex, StoredItem, Version,
};
use dynashard_keys::{PhysicalKey, ShardId, SortKey};

use crate::MemoryStore;
use crate::memory::reject;

#[async_trait]
impl IndexStore for MemoryStore {
    async fn indexes(&self) -> Result<Vec<SecondaryIndex>, StoreError> {
        Ok(self.lock().indexes.clone())
    }

    async fn query_index(&self, read: &IndexRead) -> Result<IndexPart, StoreError> {
        let page_items = {
            let mut state = self.lock();
            state.requests.queries += 1;
            let is_there = |index: &SecondaryIndex| *index == *read.index && index.is_active;
            if !state.indexes.iter().any(is_there) {
                return reject("an index that is not there");
            }
            state.page_items
        };
        let shards = self.lock().index_shards.clone();
        let items = self.contents().into_iter();
        let entries = items.filter_map(|(key, item)| {
            let shard = shards.get(&key).copied();
            entry(&read.index, &key, shard, item)
        });
        let mut entries = entries
            .filter(|(partition, IndexEntry { place, .. })| {
                let is_in_range = |value: &SortKey| match &read.start {
                    IndexStart::At { value: at, included } => match value.cmp(at) {
                        Ordering::Equal => *included,
                        order => order.is_gt() == read.ascending,
                    },
                    _ => read.range.contains(value),
                };
                *partition == read.partition
                    && place.shard == read.shard
                    && place.value.as_ref().is_none_or(is_in_range)
            })
            .map(|(_, entry)| entry)
            .collect::<Vec<_>>();
        // Each entry has a place of its own.
        entries.sort_by(|one, other| order(&one.place).cmp(&order(&other.place)));
        if !read.ascending {
            entries.reverse();
        }
        if let IndexStart::Behind(after) = &read.start {
            entries.retain(|entry| {
                let order = order(&entry.place).cmp(&order(after));
                if read.ascending { order.is_gt() } else { order.is_lt() }
            });
        }
        let most = usize::try_from(read.limit).unwrap_or(usize::MAX).min(page_items);
        let ends_early = entries.len() >= most;
        entries.truncate(most);
        Ok(IndexPart {
            next: entries.last().filter(|_| ends_early).map(|entry| entry.place.clone()),
            items_read: u64::try_from(entries.len()).unwrap_or(u64::MAX),
            entries,
            consumed_rcu: 0.5,
        })
    }
}

fn order(place: &IndexPlace) -> (&Option<SortKey>, &str, &SortKey) {
    (&place.value, &place.at, &place.sort)
}

/// The entry of an item, with the value of the index's partition key, if it has one.
fn entry(
    index: &SecondaryIndex,
    key: &PhysicalKey,
    shard: Option<ShardId>,
    mut item: StoredItem,
) -> Option<(AttributeValue, IndexEntry)> {
    let [partition_key, sort_key] = &index.table_keys;
    let sort = AttributeValue::from(&key.sort);
    let value = |name: &String| match name {
        name if name == partition_key => {
            Some(AttributeValue::String(key.partition.as_str().to_owned()))
        }
        name if name == sort_key => Some(sort.clone()),
        name => item.attributes.get(name).cloned(),
    };
    // What was written without its shard is in no write-sharded index.
    let shard = if index.is_write_sharded() { Some(shard?) } else { None };
    let partition = index.partition_key.iter().find(|key| key.name != INDEX_SHARD)?;
    let partition = value(&partition.name)?;
    let value = match index.sort_key.first() {
        None => None,
        Some(attribute) => Some(match value(&attribute.name)? {
            AttributeValue::String(text) => SortKey::string(text).ok()?,
            AttributeValue::Number(number) => SortKey::Number(number),
            _ => return None,
        }),
    };
    item.attributes.retain(|name, _| index.projects(name));
    if !index.tells.generations {
        item.generation = Generation::new(0);
    }
    if !index.projects("_ds_v") {
        item.version = Version::new(0);
    }
    item.forwarded &= index.tells.markers;
    let at = key.partition.as_str().to_owned();
    let place = IndexPlace { value, shard, at, sort: key.sort.clone() };
    Some((partition, IndexEntry { place, item }))
}
