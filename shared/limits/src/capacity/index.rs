//! What a write costs in secondary indexes.

use std::collections::BTreeSet;

use dynashard_keys::Number;
use serde_json::Value;

use super::price::write_units;
use super::size::{attribute_bytes, typed};
use crate::units::Units;

/// A secondary index, as far as it decides what a write to its table costs.
///
/// A global index pays from its own capacity and its own partitions. A local one pays from its
/// table's, in the partition of the item (Developer Guide: "Using Global Secondary Indexes in
/// DynamoDB" and "Local Secondary Indexes", "Write capacity units").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The attributes of the index's partition key: one to four.
    pub partition_key: Vec<String>,
    /// The attributes of the index's sort key: none to four.
    pub sort_key: Vec<String>,
    /// The key attributes of the table, which every index carries.
    pub table_key: Vec<String>,
    /// What else the index carries.
    pub projection: Projection,
}

/// The attributes that are copied into an index beside the keys of table and index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projection {
    /// `KEYS_ONLY`
    KeysOnly,
    /// `INCLUDE`, with its `NonKeyAttributes`.
    Include(Vec<String>),
    /// `ALL`
    All,
}

/// One write to an index, caused by a write to its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexWrite {
    /// The partition key in the index, as [`key_text`] gives it; several attributes are joined by
    /// commas.
    pub partition_key: String,
    /// What the write consumes of the index.
    pub units: Units,
}

impl Index {
    /// The writes to the index that changing an item from `before` to `after` causes; `None` is an
    /// item that is not there.
    ///
    /// - An item that enters the index costs one put, and one that leaves it one delete.
    /// - A change of an index key costs both, each in the partition of its key.
    /// - A change of other attributes that the index carries costs one update, by the larger of the
    ///   entries before and after.
    /// - A change of nothing that the index carries costs nothing.
    ///
    /// Transactions do not double these: the guide says that their changes reach indexes after the
    /// transaction has ended, which makes them plain writes.
    pub fn writes(&self, before: Option<&Value>, after: Option<&Value>) -> Vec<IndexWrite> {
        let holds = |item: &&Value| self.key_names().all(|name| item.get(name).is_some());
        let (before, after) = (before.filter(holds), after.filter(holds));
        let write = |item: &Value, other: Option<&Value>| {
            let bytes = |item: &Value| {
                let carried = self.carried(item);
                carried.map(|(name, value)| attribute_bytes(name, value)).sum()
            };
            let values = self.partition_key.iter().filter_map(|name| item.get(name));
            let texts: Vec<_> = values.filter_map(key_text).collect();
            let units = write_units(other.map_or(0, bytes), bytes(item));
            IndexWrite { partition_key: texts.join(","), units }
        };
        match (before, after) {
            (None, None) => Vec::new(),
            (None, Some(item)) | (Some(item), None) => vec![write(item, None)],
            (Some(before), Some(after)) => {
                let has_same_key = self.key_names().all(|name| same(&before[name], &after[name]));
                if !has_same_key {
                    vec![write(before, None), write(after, None)]
                } else if self.carries_same(before, after) {
                    Vec::new()
                } else {
                    vec![write(after, Some(before))]
                }
            }
        }
    }

    fn key_names(&self) -> impl Iterator<Item = &String> {
        self.partition_key.iter().chain(&self.sort_key)
    }

    /// The attributes of an item that the index carries.
    fn carried<'a>(&self, item: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
        item.as_object().into_iter().flatten().filter(|(name, _)| self.carries(name))
    }

    fn carries_same(&self, one: &Value, other: &Value) -> bool {
        self.carried(one).count() == self.carried(other).count()
            && self
                .carried(one)
                .all(|(name, value)| other.get(name).is_some_and(|new| same(value, new)))
    }

    fn carries(&self, name: &String) -> bool {
        let is_key = self.table_key.contains(name) || self.key_names().any(|key| key == name);
        is_key
            || match &self.projection {
                Projection::KeysOnly => false,
                Projection::Include(names) => names.contains(name),
                Projection::All => true,
            }
    }
}

/// The text of a key attribute's value: a string as it is, a number in its one canonical form, so
/// that `1` and `1.0` are one key, and a binary in Base64. `None` for a value that cannot be a key.
pub fn key_text(value: &Value) -> Option<String> {
    let (r#type, content) = typed(value)?;
    let text = content.as_str()?;
    match r#type {
        "S" | "B" => Some(text.to_owned()),
        "N" => text.parse::<Number>().ok().map(|number| number.to_string()),
        _ => None,
    }
}

/// Whether two attribute values are equal to DynamoDB, which compares numbers by value and sets
/// without an order.
fn same(one: &Value, other: &Value) -> bool {
    let (Some((one_type, one)), Some((other_type, other))) = (typed(one), typed(other)) else {
        return one == other;
    };
    if one_type != other_type {
        return false;
    }
    match (one_type, one, other) {
        ("N", Value::String(one), Value::String(other)) => canonical(one) == canonical(other),
        ("L", Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        ("M", Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|new| same(value, new)))
        }
        ("SS" | "BS", Value::Array(one), Value::Array(other)) => {
            set(one, str::to_owned) == set(other, str::to_owned)
        }
        ("NS", Value::Array(one), Value::Array(other)) => {
            set(one, canonical) == set(other, canonical)
        }
        _ => one == other,
    }
}

fn set(elements: &[Value], text: impl Fn(&str) -> String) -> BTreeSet<String> {
    elements.iter().filter_map(Value::as_str).map(text).collect()
}

/// One text for all ways to write a number. Any other text stays as it is.
fn canonical(text: &str) -> String {
    text.parse::<Number>().map_or_else(|_| text.to_owned(), |number| number.to_string())
}
