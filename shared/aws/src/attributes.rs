//! DynamoDB's attribute values and the core's, and how a stored item is laid out.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue as Sdk;
use dynashard_core::ports::StoreError;
use dynashard_core::{
    AttributeValue, Attributes, CELL_PREFIX, Generation, INDEX_SHARD, Lease, StoredItem,
    TableSchema, Version,
};
use dynashard_keys::{Number, PhysicalKey, RESERVED_PREFIX, SortKey, SortKeyType};

/// `_ds_g`: the generation of an item's last write or move. Must be kept stable.
pub const GENERATION: &str = "_ds_g";
/// `_ds_v`: the version of an item's last write. Must be kept stable.
pub const VERSION: &str = "_ds_v";
/// `_ds_fwd`: tells a marker from an item. Must be kept stable.
pub const FORWARDED: &str = "_ds_fwd";

/// The version of an item without one.
pub(crate) const UNVERSIONED: Version = Version::new(0);

/// The key as DynamoDB takes it.
pub(crate) fn key(key: &PhysicalKey, schema: &TableSchema) -> HashMap<String, Sdk> {
    HashMap::from([
        (schema.partition_key_name.clone(), Sdk::S(key.partition.as_str().to_owned())),
        (schema.sort_key_name.clone(), sort_key(&key.sort)),
    ])
}

/// A sort key as DynamoDB takes it.
pub(crate) fn sort_key(key: &SortKey) -> Sdk {
    match key {
        SortKey::String(text) => Sdk::S(text.to_string()),
        SortKey::Number(number) => Sdk::N(number.to_string()),
    }
}

/// The sort key of an item from DynamoDB.
pub(crate) fn take_sort_key(
    item: &mut HashMap<String, Sdk>,
    schema: &TableSchema,
) -> Result<SortKey, StoreError> {
    sort_key_of(item.remove(&schema.sort_key_name), &schema.sort_key_name)
}

/// The value of an attribute that is a sort key.
pub(crate) fn sort_key_of(value: Option<Sdk>, name: &str) -> Result<SortKey, StoreError> {
    let wrong = |why: &str| StoreError::Corrupt(format!("the key {name:?} {why}"));
    let (text, r#type) = match value {
        Some(Sdk::S(text)) => (text, SortKeyType::String),
        Some(Sdk::N(text)) => (text, SortKeyType::Number),
        Some(_) => return Err(wrong("is neither a string nor a number")),
        None => return Err(wrong("is missing")),
    };
    SortKey::parse(&text, r#type).map_err(|e| wrong(&e.to_string()))
}

/// The partition key of an item from DynamoDB, as text.
pub(crate) fn take_partition_key(
    item: &mut HashMap<String, Sdk>,
    schema: &TableSchema,
) -> Result<String, StoreError> {
    let name = &schema.partition_key_name;
    let Some(Sdk::S(text)) = item.remove(name) else {
        return Err(StoreError::Corrupt(format!("the key {name:?} is missing or is not a string")));
    };
    Ok(text)
}

/// A whole item as DynamoDB takes it, written under this lease.
pub(crate) fn encode_item(
    at: &PhysicalKey,
    item: &StoredItem,
    lease: &Lease,
    schema: &TableSchema,
) -> HashMap<String, Sdk> {
    let mut encoded = key(at, schema);
    encoded.extend(encode_attributes(&item.attributes));
    // Nothing was ever moved in a collection of generation 0: its items lie as any client would put them.
    if item.generation > Generation::new(0) {
        encoded.insert(GENERATION.to_owned(), number(item.generation.get()));
    }
    // By its version a stream tells the marker of a delete from that of a move.
    if item.is_live() || item.version > Version::new(0) {
        encoded.insert(VERSION.to_owned(), number(item.version.get()));
    }
    if item.forwarded {
        encoded.insert(FORWARDED.to_owned(), Sdk::Bool(true));
    } else {
        // A marker has the value of no index, and so no shard of one.
        let shards = lease.index_shards();
        let partition = at.partition.as_str();
        let shard =
            shards.and_then(|shards| shards.shard_at(partition, &at.sort, schema.separator));
        encoded.extend(shard.map(|shard| (INDEX_SHARD.to_owned(), number(shard.get().into()))));
    }
    encoded
}

/// An item from DynamoDB whose key was taken out. An item without the system's attributes was written
/// by another program, and counts as of generation and version 0.
pub(crate) fn decode_item(
    mut item: HashMap<String, Sdk>,
    schema: &TableSchema,
) -> Result<StoredItem, StoreError> {
    item.remove(&schema.partition_key_name);
    item.remove(&schema.sort_key_name);
    let mut take_number = |name: &str| match item.remove(name) {
        None => Ok(0),
        Some(Sdk::N(text)) => text.parse::<u64>().map_err(|_| {
            StoreError::Corrupt(format!("{name} is {text:?}, which is not an unsigned number"))
        }),
        Some(_) => Err(StoreError::Corrupt(format!("{name} is not a number"))),
    };
    let generation = Generation::new(take_number(GENERATION)?);
    let version = Version::new(take_number(VERSION)?);
    let forwarded = item.remove(FORWARDED).is_some();
    // A later version of the system may add attributes of its own.
    let is_kept = |name: &str| !name.starts_with(RESERVED_PREFIX) || name.starts_with(CELL_PREFIX);
    let attributes = decode_attributes(item.into_iter().filter(|(name, _)| is_kept(name)))?;
    Ok(StoredItem { attributes, generation, version, forwarded })
}

/// Attributes as DynamoDB takes them.
pub fn encode_attributes(attributes: &Attributes) -> impl Iterator<Item = (String, Sdk)> + '_ {
    attributes.iter().map(|(name, value)| (name.clone(), encode(value)))
}

/// Attributes from DynamoDB.
pub fn decode_attributes(
    attributes: impl Iterator<Item = (String, Sdk)>,
) -> Result<Attributes, StoreError> {
    attributes.map(|(name, value)| decode(value).map(|value| (name, value))).collect()
}

/// A number as DynamoDB takes it.
pub(crate) fn number(value: u64) -> Sdk {
    Sdk::N(value.to_string())
}

pub(crate) fn encode(value: &AttributeValue) -> Sdk {
    match value {
        AttributeValue::String(text) => Sdk::S(text.clone()),
        AttributeValue::Number(number) => Sdk::N(compact(number)),
        AttributeValue::Binary(bytes) => Sdk::B(Blob::new(bytes.clone())),
        AttributeValue::Bool(value) => Sdk::Bool(*value),
        AttributeValue::Null => Sdk::Null(true),
        AttributeValue::List(values) => Sdk::L(values.iter().map(encode).collect()),
        AttributeValue::Map(entries) => Sdk::M(encode_attributes(entries).collect()),
        AttributeValue::StringSet(set) => Sdk::Ss(set.iter().cloned().collect()),
        AttributeValue::NumberSet(set) => Sdk::Ns(set.iter().map(compact).collect()),
        AttributeValue::BinarySet(set) => {
            Sdk::Bs(set.iter().map(|bytes| Blob::new(bytes.clone())).collect())
        }
    }
}

/// With all their zeros, the numbers of one item could exceed the 16 MB of a request.
fn compact(number: &Number) -> String {
    number.compact().to_string()
}

fn decode(value: Sdk) -> Result<AttributeValue, StoreError> {
    let number = |text: String| {
        text.parse::<Number>().map_err(|e| StoreError::Corrupt(format!("an attribute: {e}")))
    };
    Ok(match value {
        Sdk::S(text) => AttributeValue::String(text),
        Sdk::N(text) => AttributeValue::Number(number(text)?),
        Sdk::B(bytes) => AttributeValue::Binary(bytes.into_inner()),
        Sdk::Bool(value) => AttributeValue::Bool(value),
        Sdk::Null(_) => AttributeValue::Null,
        Sdk::L(values) => {
            AttributeValue::List(values.into_iter().map(decode).collect::<Result<_, _>>()?)
        }
        Sdk::M(entries) => AttributeValue::Map(decode_attributes(entries.into_iter())?),
        Sdk::Ss(set) => AttributeValue::StringSet(set.into_iter().collect()),
        Sdk::Ns(set) => {
            AttributeValue::NumberSet(set.into_iter().map(number).collect::<Result<_, _>>()?)
        }
        Sdk::Bs(set) => AttributeValue::BinarySet(set.into_iter().map(Blob::into_inner).collect()),
        _ => return Err(StoreError::Corrupt("an attribute of an unknown type".to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_numbers_of_two_bytes_took_a_hundred_and_twenty_six() {
        let number = || "1e125".parse::<Number>().expect("a number");
        let text = "1e125".to_owned();
        assert_eq!(encode(&AttributeValue::Number(number())), Sdk::N(text.clone()));
        assert_eq!(encode(&AttributeValue::NumberSet([number()].into())), Sdk::Ns(vec![text]));
        let plain = number().to_string();
        assert_eq!(sort_key(&SortKey::Number(number())), Sdk::N(plain), "keys stay canonical");
    }
}
