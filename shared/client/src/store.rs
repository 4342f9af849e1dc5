//! What the client asks of whatever holds its items.

use std::fmt;
use std::future::Future;

use dynashard_core::Bounds;
use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{DEFAULT_LIMIT, Query, Strategy};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use serde_json::value::RawValue;

use crate::ClientError;

/// Where items are: the tables, or the API in front of them. Items are JSON objects, as the API has them.
pub trait Store: Send + Sync {
    /// Reads one item.
    fn get(
        &self,
        key: &ItemKey,
        consistency: Consistency,
    ) -> impl Future<Output = Result<Option<Found>, ClientError>> + Send;

    /// Stores `json`, an object, as the item of this key.
    fn put(
        &self,
        key: &ItemKey,
        json: &str,
        condition: &Condition,
    ) -> impl Future<Output = Result<ETag, ClientError>> + Send;

    /// Deletes an item. To delete what does not exist succeeds.
    fn delete(
        &self,
        key: &ItemKey,
        condition: &Condition,
    ) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// Reads one page of a collection.
    fn page(
        &self,
        query: &CollectionQuery,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<Page, ClientError>> + Send;

    /// Adds to a counter, and makes it where there is none: between these bounds, if any are given. `counter_limit` where the add would
    /// pass one of them.
    fn add_to_counter(
        &self,
        key: &ItemKey,
        amount: i64,
        bounds: Bounds,
    ) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// What a counter comes to, by strongly consistent reads of its cells.
    fn counter(
        &self,
        key: &ItemKey,
    ) -> impl Future<Output = Result<Option<i128>, ClientError>> + Send;

    /// Spreads a collection that was never changed over so many shards. `collection_exists` if it was.
    fn create_collection(
        &self,
        partition: &PartitionKey,
        placement: Placement,
        count: ShardCount,
    ) -> impl Future<Output = Result<(), ClientError>> + Send;
}

/// An item, with the version that it has.
#[derive(Debug, Clone)]
pub struct Found {
    /// The item with its key, which has the table's own names.
    pub json: Box<RawValue>,
    /// Its version.
    pub etag: ETag,
}

/// A page of a collection.
#[derive(Debug, Clone)]
pub struct Page {
    /// The items, in the order of the query.
    pub items: Vec<Box<RawValue>>,
    /// Where the next page begins; `None` at the end.
    pub cursor: Option<String>,
}

/// The version of an item: opaque, and another one after each write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// A tag as the API writes it, quotation marks included.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The tag as the API writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What must hold for a write to happen; `precondition_failed` if it does not. Collections under the placement
/// `random` take none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// The item does not exist.
    Absent,
    /// The item has this version.
    Version(ETag),
}

/// A query of one collection. Each answer has to be asked for by the page; [`Client`](crate::Client) does that.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionQuery {
    index: Option<String>,
    partition: PartitionKey,
    range: SortRange,
    ascending: bool,
    page_items: u32,
    strategy: Strategy,
    consistency: Consistency,
}

impl CollectionQuery {
    /// Everything in a collection, in the order of its sort keys.
    pub const fn of(partition: PartitionKey) -> Self {
        Self {
            index: None,
            partition,
            range: SortRange::All,
            ascending: true,
            page_items: DEFAULT_LIMIT,
            strategy: Strategy::Ordered,
            consistency: Consistency::Eventual,
        }
    }

    /// Of this secondary index, in the order of its sort key: `partition` is a value of its partition key, a number as text, and
    /// ranges are of its sort key.
    #[must_use]
    pub fn in_index(self, name: impl Into<String>) -> Self {
        Self { index: Some(name.into()), ..self }
    }

    /// Only these sort keys.
    #[must_use]
    pub fn in_range(self, range: SortRange) -> Self {
        Self { range, ..self }
    }

    /// Only string sort keys that begin so.
    #[must_use]
    pub fn begins_with(self, prefix: impl Into<String>) -> Self {
        self.in_range(SortRange::BeginsWith(prefix.into()))
    }

    /// Only sort keys between the two, both included.
    #[must_use]
    pub fn between(self, from: SortKey, to: SortKey) -> Self {
        self.in_range(SortRange::Between(from, to))
    }

    /// In the opposite order.
    #[must_use]
    pub fn descending(self) -> Self {
        Self { ascending: false, ..self }
    }

    /// So many items in a page at most: 1 to 1,000, and 100 if nothing is said.
    #[must_use]
    pub fn pages_of(self, page_items: u32) -> Self {
        Self { page_items, ..self }
    }

    /// With another strategy, where the order does not matter (docs/QUERIES.md).
    #[must_use]
    pub fn by(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// With strong consistency, at twice the price.
    #[must_use]
    pub fn consistent(self) -> Self {
        Self { consistency: Consistency::Strong, ..self }
    }

    /// The index that it is of, if it is of one.
    pub(crate) fn index(&self) -> Option<&str> {
        self.index.as_deref()
    }

    /// The query of the page behind this cursor.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Query {
        Query {
            partition: self.partition.clone(),
            range: self.range.clone(),
            ascending: self.ascending,
            limit: self.page_items,
            strategy: self.strategy,
            fields: None,
            consistency: self.consistency,
            cursor: cursor.map(str::to_owned),
            start: None,
        }
    }
}
