//! The secondary indexes of the main table.

use std::sync::Arc;

use async_trait::async_trait;
use dynashard_keys::{ShardId, SortKey};

use crate::model::fields::Fields;
use crate::model::index::SecondaryIndex;
use crate::model::item::{AttributeValue, StoredItem};
use crate::ports::errors::StoreError;
use crate::ports::items::{Consistency, SortRange};

/// The secondary indexes of the main table.
#[async_trait]
pub trait IndexStore: Send + Sync {
    /// `DescribeTable`: all of them.
    async fn indexes(&self) -> Result<Vec<SecondaryIndex>, StoreError>;

    /// `Query`: one page of one partition of an index.
    async fn query_index(&self, read: &IndexRead) -> Result<IndexPart, StoreError>;
}

/// One page of one partition of an index, in the order of its sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexRead {
    /// The index, whose partition key and sort key are one attribute each, but for the shard of one that is write-sharded.
    pub index: Arc<SecondaryIndex>,
    /// The value of its partition key, a string or a number.
    pub partition: AttributeValue,
    /// The shard of that value, in an index that is write-sharded.
    pub shard: Option<ShardId>,
    /// Which values of its sort key.
    pub range: SortRange,
    /// Ascending, or descending.
    pub ascending: bool,
    /// Where the page begins.
    pub start: IndexStart,
    /// At most so many entries are read.
    pub limit: u32,
    /// What to return of each item beside the keys; everything that the index has where nothing is named.
    pub fields: Option<Fields>,
    /// How current.
    pub consistency: Consistency,
}

/// Where a page of a partition of an index begins, in the direction of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexStart {
    /// Where the range begins.
    Range,
    /// Behind this entry of the partition, which need not exist.
    Behind(IndexPlace),
    /// At the first entry of this value of the sort key, or behind the last one. DynamoDB takes one condition on a sort key, so the
    /// page may go on beyond the range.
    At {
        /// The value, which lies in the range.
        value: SortKey,
        /// Whether entries of this value are read.
        included: bool,
    },
}

/// Where an entry lies in its partition of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPlace {
    /// The value of the index's sort key, if it has one.
    pub value: Option<SortKey>,
    /// The shard of its value, in an index that is write-sharded.
    pub shard: Option<ShardId>,
    /// The partition key that the table has the item under.
    pub at: String,
    /// The sort key of the item.
    pub sort: SortKey,
}

/// An entry of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexEntry {
    /// Where it lies.
    pub place: IndexPlace,
    /// What the index has of the item. Without what the index does not project of the system's own it looks like one of
    /// generation 0.
    pub item: StoredItem,
}

/// What one page of a partition of an index held, markers included.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexPart {
    /// In the order of the query.
    pub entries: Vec<IndexEntry>,
    /// Where the next page begins, or `None` at the end.
    pub next: Option<IndexPlace>,
    /// The entries that were read and paid for.
    pub items_read: u64,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}
