//! What a part of a batch or a transaction stands on.

use dynashard_core::ports::NativeTerms;
use dynashard_core::{Among, Deadline};
use dynashard_keys::PartitionKey;

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// What a request on the item of this key carries, and the collection of which that is known. `None` where the key is none that
/// DynamoDB takes for this table: it says what is wrong.
pub(crate) async fn terms_of_key(
    table: &ManagedTable,
    key: &Members,
    among: Among,
    deadline: Deadline,
) -> Result<Option<(PartitionKey, NativeTerms)>, Refusal> {
    let Some(key) = table.key_of(key)? else { return Ok(None) };
    let terms = table.requests().terms_of_item(&key, among, deadline).await;
    terms.map(|terms| Some((key.partition, terms))).map_err(|error| Refusal::of(&error))
}
