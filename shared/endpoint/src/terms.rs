//! What a part of a batch or a transaction stands on.

use dynashard_core::Deadline;
use dynashard_core::ports::NativeTerms;
use dynashard_keys::{ItemKey, PartitionKey, SortKey, SortKeyType};

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// What a request on the item of this key carries, and the collection of which that is known. `None` where the key is none that
/// DynamoDB takes for this table: it says what is wrong.
pub(crate) async fn terms_of_key(
    table: &ManagedTable,
    key: &Members,
    deadline: Deadline,
) -> Result<Option<(PartitionKey, NativeTerms)>, Refusal> {
    let partition = table.partition_of(key)?;
    let Some((partition, sort)) = partition.zip(sort_key(table, key)) else { return Ok(None) };
    let key = ItemKey::new(partition, sort);
    match table.requests().terms_of_item(&key, deadline).await {
        Ok(Some(terms)) => Ok(Some((key.partition, terms))),
        Ok(None) => Err(Refusal::sharded(key.partition.as_str())),
        Err(error) => Err(Refusal::of(&error)),
    }
}

fn sort_key(table: &ManagedTable, key: &Members) -> Option<SortKey> {
    let of_type = table.requests().schema().sort_key_type;
    let member = match of_type {
        SortKeyType::String => "S",
        SortKeyType::Number => "N",
    };
    let text = key.get(table.sort_key_name())?.get(member)?.as_str()?;
    // DynamoDB takes numbers with spaces around them.
    let text = if of_type == SortKeyType::Number { text.trim() } else { text };
    SortKey::parse(text, of_type).ok()
}
