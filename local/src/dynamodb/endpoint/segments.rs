//! Where a page of a parallel scan begins: DynamoDB refuses a key of another segment, which the engine takes.

use dynoxide::AttributeValue;
use dynoxide::storage::{compute_hash_prefix, hash_in_segment};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::tables::Tables;

/// What of a scan says where a page of it begins.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Scan {
    table_name: String,
    index_name: Option<String>,
    exclusive_start_key: Map<String, Value>,
    segment: u32,
    total_segments: u32,
}

/// The refusal of a page of a table that would begin outside of its segment. What is wrong with it otherwise the engine says.
pub(super) fn check(operation: &str, body: &[u8], tables: &Tables) -> Result<(), Refusal> {
    if operation != "Scan" {
        return Ok(());
    }
    let Ok(scan) = serde_json::from_slice::<Scan>(body) else { return Ok(()) };
    let Scan { segment, total_segments: total, .. } = scan;
    if scan.index_name.is_some() || segment >= total || total > MAX_SEGMENTS {
        return Ok(());
    }
    let table = tables.get(scan.table_name.rsplit('/').next().unwrap_or_default());
    let key = table.and_then(|table| scan.exclusive_start_key.get(&table.partition_key).cloned());
    let key = key.and_then(|key| serde_json::from_value::<AttributeValue>(key).ok());
    let is_outside =
        |key: AttributeValue| !hash_in_segment(&compute_hash_prefix(&key), segment, total);
    if key.is_some_and(is_outside) {
        return Err(Refusal::invalid(format!(
            "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. \
             TotalSegments: {total} Segment: {segment}"
        )));
    }
    Ok(())
}

/// The most segments of a scan (DynamoDB API: `Scan`).
const MAX_SEGMENTS: u32 = 1_000_000;
