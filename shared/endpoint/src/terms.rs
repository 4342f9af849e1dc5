//! What a part of a batch or a transaction stands on.

use dynashard_core::Deadline;
use dynashard_core::ports::NativeTerms;
use dynashard_keys::PartitionKey;

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
    let Some(key) = table.key_of(key)? else { return Ok(None) };
    match table.requests().terms_of_item(&key, deadline).await {
        Ok(Some(terms)) => Ok(Some((key.partition, terms))),
        Ok(None) => Err(Refusal::sharded(key.partition.as_str())),
        Err(error) => Err(Refusal::of(&error)),
    }
}
