//! Secondary indexes of the main table in memory, which are as current as the table.

use async_trait::async_trait;
use dynashard_core::ports::{IndexEntry, IndexPart, IndexPlace, IndexRead, IndexStore, StoreError};
use dynashard_core::{AttributeValue, Generation, SecondaryIndex, StoredItem, Version};
use dynashard_keys::{PhysicalKey, SortKey};

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
        let items = self.contents().into_iter();
        let entries = items.filter_map(|(key, item)| entry(&read.index, &key, item));
        let mut entries = entries
            .filter(|(partition, IndexEntry { place, .. })| {
                let is_in_range = |value| read.range.contains(value);
                *partition == read.partition && place.value.as_ref().is_none_or(is_in_range)
            })
            .map(|(_, entry)| entry)
            .collect::<Vec<_>>();
        // Each entry has a place of its own.
        entries.sort_by(|one, other| order(&one.place).cmp(&order(&other.place)));
        if !read.ascending {
            entries.reverse();
        }
        if let Some(after) = &read.after {
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
    let partition = value(&index.partition_key.first()?.name)?;
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
    let place = IndexPlace { value, at, sort: key.sort.clone() };
    Some((partition, IndexEntry { place, item }))
}
