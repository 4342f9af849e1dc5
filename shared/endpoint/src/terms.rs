//! What a part of a batch or a transaction stands on.

use dynashard_core::ports::NativeTerms;
use dynashard_core::{Among, Deadline};
use dynashard_keys::PartitionKey;
use futures_util::future::{self, FutureExt};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// What a request on an item carries, and the collection of which that is known. `None` where DynamoDB does not take its key for its
/// table: DynamoDB says what is wrong.
pub(crate) type Terms = Option<(PartitionKey, NativeTerms)>;

/// How many items of a request are settled at once. One after the other, many would outlast the leases of the first.
const SIDE_BY_SIDE: usize = 32;

/// What a request on the items of these keys carries, in their order.
pub(crate) async fn terms_of_keys(
    keys: Vec<(&ManagedTable, Option<&Members>)>,
    among: Among,
    deadline: Deadline,
) -> Result<Vec<Terms>, Refusal> {
    each(keys, among, deadline).try_collect().await
}

/// As [`terms_of_keys`], where each key may fail by itself.
pub(crate) async fn terms_of_each_key(
    keys: Vec<(&ManagedTable, Option<&Members>)>,
    among: Among,
    deadline: Deadline,
) -> Vec<Result<Terms, Refusal>> {
    each(keys, among, deadline).collect().await
}

fn each<'a>(
    keys: Vec<(&'a ManagedTable, Option<&'a Members>)>,
    among: Among,
    deadline: Deadline,
) -> impl Stream<Item = Result<Terms, Refusal>> + Send + 'a {
    let terms = keys.into_iter().map(|(table, key)| match key {
        Some(key) => terms_of_key(table, key, among, deadline).boxed(),
        None => future::ready(Ok(None)).boxed(),
    });
    let terms = terms.collect::<Vec<_>>();
    stream::iter(terms).buffered(SIDE_BY_SIDE)
}

async fn terms_of_key(
    table: &ManagedTable,
    key: &Members,
    among: Among,
    deadline: Deadline,
) -> Result<Terms, Refusal> {
    let Some(key) = table.key_of(key)? else { return Ok(None) };
    let terms = table.requests().terms_of_item(&key, among, deadline).await;
    terms.map(|terms| Some((key.partition, terms))).map_err(|error| Refusal::of(&error))
}
