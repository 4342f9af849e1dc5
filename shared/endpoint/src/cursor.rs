//! Where a page begins: `ExclusiveStartKey` and `LastEvaluatedKey`.
//!
//! A key that DynamoDB holds under the partition key of its first shard is the client's own, with which it may begin anywhere. The
//! others say where they lie by names that only the system has.

use dynashard_keys::{PartitionKey, PhysicalPartitionKey, Placement, RESERVED_PREFIX, SortKey};
use serde_json::{Value, json};

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// Before the partition key under which DynamoDB holds an item of a shard behind the first.
const AT: &str = "_ds_at:";

/// Before the partition key of a listed collection that a scan is reading.
const WITHIN: &str = "_ds_scan:";

/// Before the key in the metadata table behind which the next listed collection is.
const BEHIND: &str = "_ds_scanned:";

/// The sort key of what has none, a text and a number.
const NO_SORT_KEY: &str = "0";

/// How far a scan has come with the collections that are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind this item of a collection.
    Within(PartitionKey, SortKey),
    /// Behind all collections up to this key of the metadata table, or before the first.
    Behind(Option<String>),
}

impl Position {
    /// The position that a scan begins at. `None` where it begins in the table.
    pub(crate) fn of(table: &ManagedTable, body: &Members) -> Result<Option<Self>, Refusal> {
        let Some(start) = body.get("ExclusiveStartKey").and_then(Value::as_object) else {
            return Ok(None);
        };
        let Some(text) = partition_key(table, start) else { return Ok(None) };
        if let Some(key) = text.strip_prefix(BEHIND) {
            return Ok(Some(Self::Behind((!key.is_empty()).then(|| key.to_owned()))));
        }
        let Some(partition) = text.strip_prefix(WITHIN) else { return Ok(None) };
        let partition = ManagedTable::partition(&json!({ "S": partition }))?;
        let sort = start.get(table.sort_key_name()).and_then(|sort| table.sort_key(sort));
        match partition.zip(sort) {
            Some((partition, sort)) => Ok(Some(Self::Within(partition, sort))),
            None => Err(Refusal::validation(
                "dynashard: ExclusiveStartKey is not where a page of this table has ended",
            )),
        }
    }

    /// As a `LastEvaluatedKey`.
    pub(crate) fn key(&self, table: &ManagedTable) -> Members {
        let sort_key_type = table.schema().sort_key_type;
        let (partition, sort) = match self {
            Self::Within(partition, sort) => {
                (format!("{WITHIN}{}", partition.as_str()), sort.to_string())
            }
            Self::Behind(key) => {
                (format!("{BEHIND}{}", key.as_deref().unwrap_or_default()), NO_SORT_KEY.to_owned())
            }
        };
        Members::from_iter([
            (table.partition_key_name().to_owned(), json!({ "S": partition })),
            (table.sort_key_name().to_owned(), json!({ sort_key_type.as_str(): sort })),
        ])
    }
}

/// Has a page begin where DynamoDB holds the key at which the page before it ended.
pub(crate) fn start_at(table: &ManagedTable, body: &mut Members) -> Result<(), Refusal> {
    let start = body.get_mut("ExclusiveStartKey").and_then(Value::as_object_mut);
    let Some(start) = start else { return Ok(()) };
    let at = match partition_key(table, start) {
        Some(text) => match text.strip_prefix(AT) {
            Some(at) => at.to_owned(),
            // The item that says whose the table is lies under its own key.
            None if text.starts_with(RESERVED_PREFIX) => return Ok(()),
            None => match table.partition_of(start)? {
                Some(partition) => first_shard(table, &partition),
                None => return Ok(()),
            },
        },
        None => return Ok(()),
    };
    start.insert(table.partition_key_name().to_owned(), json!({ "S": at }));
    Ok(())
}

/// Has the key at which a page ended, as DynamoDB holds it, be one at which [`start_at`] begins.
pub(crate) fn end_at(table: &ManagedTable, key: &mut Members) {
    let Some(text) = partition_key(table, key) else { return };
    if text.starts_with(RESERVED_PREFIX) {
        return;
    }
    let separator = table.schema().separator;
    let end = match PhysicalPartitionKey::parse(text, separator) {
        Ok((partition, None)) => partition.as_str().to_owned(),
        _ => format!("{AT}{text}"),
    };
    key.insert(table.partition_key_name().to_owned(), json!({ "S": end }));
}

/// The partition key of a collection's first shard, which is one whatever the placement is.
pub(crate) fn first_shard(table: &ManagedTable, partition: &PartitionKey) -> String {
    let (placement, separator) = (Placement::default(), table.schema().separator);
    partition.at(placement.first(), placement, separator).as_str().to_owned()
}

fn partition_key<'a>(table: &ManagedTable, key: &'a Members) -> Option<&'a str> {
    key.get(table.partition_key_name())?.get("S")?.as_str()
}
