//! What a part of a batch or a transaction stands on.

use dynashard_core::ports::NativeTerms;
use dynashard_core::{Among, Code, Deadline, Error};
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
    each(keys, among, deadline).map_err(|untold| untold.refusal).try_collect().await
}

/// As [`terms_of_keys`], where each key may fail by itself.
pub(crate) async fn terms_of_each_key(
    keys: Vec<(&ManagedTable, Option<&Members>)>,
    among: Among,
    deadline: Deadline,
) -> Vec<Result<Terms, Untold>> {
    each(keys, among, deadline).collect().await
}

/// Why nothing is told of a key.
pub(crate) struct Untold {
    pub(crate) refusal: Refusal,
    /// Whether that concerns the item alone, and may pass.
    pub(crate) is_passing: bool,
}

impl From<Refusal> for Untold {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, is_passing: false }
    }
}

impl From<Error> for Untold {
    fn from(error: Error) -> Self {
        const PASSING: [Code; 4] =
            [Code::Throttled, Code::Contended, Code::DeadlineExceeded, Code::Unavailable];
        Self { refusal: Refusal::of(&error), is_passing: PASSING.contains(&error.code()) }
    }
}

fn each<'a>(
    keys: Vec<(&'a ManagedTable, Option<&'a Members>)>,
    among: Among,
    deadline: Deadline,
) -> impl Stream<Item = Result<Terms, Untold>> + Send + 'a {
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
) -> Result<Terms, Untold> {
    let Some(key) = table.key_of(key)? else { return Ok(None) };
    let terms = table.requests().terms_of_item(&key, among, deadline).await;
    Ok(Some((key.partition, terms?)))
}
