//! What a scan has found in a table: counts and an example of each kind, whatever the table's size.

use std::collections::BTreeMap;

use dynashard_core::{
    AttributeValue, Attributes, GrowKeys, INDEX_SHARD, MAX_ITEM_BYTES, TableSchema, check_values,
    item_bytes,
};
use dynashard_keys::{
    KeyError, PartitionKey, PhysicalPartitionKey, RESERVED_PREFIX, Separator, SortKey,
};
use serde::{Deserialize, Serialize};

/// The attributes that the system gives to items, and the one that makes an item a marker.
pub(super) const VERSION: &str = "_ds_v";
pub(super) const GENERATION: &str = "_ds_g";
pub(super) const FORWARDED: &str = "_ds_fwd";

/// A kind of item that the application could not serve as it is. The names stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Oddity {
    /// Dynashard has written it: it has a version, a generation, or is a marker.
    DynashardItem,
    /// Its partition key begins with `_ds_`.
    ReservedKey,
    /// Its partition key is longer than a client may use.
    KeyLength,
    /// Its sort key is longer than a client may use.
    SortKeyLength,
    /// It is too large to be moved.
    ItemSize,
    /// It has other attributes that begin with `_ds_`.
    ReservedAttribute,
    /// A value or an inner name that a put would be refused for.
    Value,
}

/// The key of an item, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::operator) struct Example {
    pub(in crate::operator) pk: String,
    pub(in crate::operator) sk: String,
}

/// How many items are of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) count: u64,
    /// Those of collections that may be changed.
    pub(super) growing: u64,
    /// The first of those, else the first of all.
    pub(super) example: Option<Example>,
}

/// What a survey has to know of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lens<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) grow_keys: &'a GrowKeys,
    /// How many local secondary indexes may hold an entry of each item.
    pub(super) local_indexes: usize,
    /// Whether the stack that was named uses the table already, so that what it has written is its own.
    pub(super) is_in_use: bool,
}

/// What the items of a table have shown. Its size is that of a few keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Survey {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) consumed_rcu: f64,
    /// The items whose partition key ends in a separator and a number, by the separator.
    suffixes: BTreeMap<String, Tally>,
    oddities: BTreeMap<Oddity, Tally>,
}

impl Survey {
    /// Takes note of an item, with its key among the attributes.
    pub(super) fn observe(&mut self, item: &Attributes, lens: Lens<'_>) {
        let schema = lens.schema;
        let stored = item_bytes(item);
        self.items += 1;
        self.bytes += u64::try_from(stored).unwrap_or(u64::MAX);
        let example = example(item, schema);
        let own = own_key(item, &example, lens);
        let key = Example {
            pk: own.as_ref().map_or(example.pk.as_str(), PartitionKey::as_str).to_owned(),
            sk: example.sk.clone(),
        };
        let bytes = match &own {
            Some(_) => stored - system_bytes(item) - (example.pk.len() - key.pk.len()),
            None => stored,
        };
        // An entry holds the whole item at most (AWS, "Item size for tables with local secondary indexes").
        let bytes = bytes.saturating_mul(1 + lens.local_indexes);
        let is_growing = lens.grow_keys.match_text(&key.pk);
        for separator in Separator::ALL {
            let is_own = own.is_some() && separator == schema.separator;
            if !is_own && PhysicalPartitionKey::has_suffix(&example.pk, separator) {
                let tally = self.suffixes.entry(separator.to_string()).or_default();
                tally.note(&example, is_growing);
            }
        }
        for oddity in oddities(item, &key, bytes, schema) {
            self.oddities.entry(oddity).or_default().note(&example, is_growing);
        }
    }

    /// The items whose partition key ends in this separator and a number.
    pub(super) fn suffixed(&self, separator: Separator) -> Tally {
        self.suffixes.get(separator.as_str()).cloned().unwrap_or_default()
    }

    /// The items of a kind.
    pub(super) fn odd(&self, oddity: Oddity) -> Tally {
        self.oddities.get(&oddity).cloned().unwrap_or_default()
    }

    /// The separator to choose: the first that no partition key ends in, before a number.
    pub(super) fn free_separator(&self) -> Option<Separator> {
        Separator::ALL.into_iter().find(|separator| self.suffixed(*separator).count == 0)
    }
}

impl Tally {
    /// Counts an item.
    pub(super) fn note(&mut self, example: &Example, is_growing: bool) {
        if self.example.is_none() || (is_growing && self.growing == 0) {
            self.example = Some(example.clone());
        }
        self.count += 1;
        self.growing += u64::from(is_growing);
    }
}

/// The key of an item. What is not there, or of another type, is empty: the scan's own table always has
/// it.
pub(in crate::operator) fn example(item: &Attributes, schema: &TableSchema) -> Example {
    let text = |name: &str| match item.get(name) {
        Some(AttributeValue::String(text)) => text.clone(),
        Some(AttributeValue::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    Example { pk: text(&schema.partition_key_name), sk: text(&schema.sort_key_name) }
}

/// Whether dynashard has given an item one of its attributes.
pub(super) fn is_dynashards(item: &Attributes) -> bool {
    item.contains_key(FORWARDED)
        || [VERSION, GENERATION].iter().any(|name| item.get(*name).is_some_and(is_unsigned))
}

/// The key that a client knows an item by which the stack itself has written; nothing if others have.
fn own_key(item: &Attributes, key: &Example, lens: Lens<'_>) -> Option<PartitionKey> {
    if !lens.is_in_use || !is_dynashards(item) {
        return None;
    }
    PhysicalPartitionKey::parse(&key.pk, lens.schema.separator).ok().map(|(key, _)| key)
}

/// What the system's own attributes take.
fn system_bytes(item: &Attributes) -> usize {
    let own = [VERSION, GENERATION, FORWARDED, INDEX_SHARD]
        .into_iter()
        .filter_map(|name| item.get(name).map(|value| (name.to_owned(), value.clone())));
    item_bytes(&own.collect())
}

fn oddities(
    item: &Attributes,
    key: &Example,
    bytes: usize,
    schema: &TableSchema,
) -> impl Iterator<Item = Oddity> {
    let is_foreign = |(name, value): (&String, &AttributeValue)| match name.as_str() {
        FORWARDED => false,
        VERSION | GENERATION | INDEX_SHARD => !is_unsigned(value),
        name => name.starts_with(RESERVED_PREFIX),
    };
    let partition = PartitionKey::new(&key.pk);
    let has_long_sort_key = matches!(
        item.get(&schema.sort_key_name),
        Some(AttributeValue::String(text)) if text.len() > SortKey::MAX_BYTES
    );
    let found = [
        (Oddity::DynashardItem, is_dynashards(item)),
        (Oddity::ReservedKey, matches!(partition, Err(KeyError::ReservedPartitionKey { .. }))),
        (Oddity::KeyLength, matches!(partition, Err(KeyError::PartitionKeyTooLong { .. }))),
        (Oddity::SortKeyLength, has_long_sort_key),
        (Oddity::ItemSize, bytes > MAX_ITEM_BYTES),
        (Oddity::ReservedAttribute, item.iter().any(is_foreign)),
        (Oddity::Value, check_values(item).is_err()),
    ];
    found.into_iter().filter_map(|(oddity, is_found)| is_found.then_some(oddity))
}

fn is_unsigned(value: &AttributeValue) -> bool {
    matches!(value, AttributeValue::Number(number) if number.to_string().parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests;
