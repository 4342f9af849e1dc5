//! The metadata table.

use async_trait::async_trait;
use dynashard_keys::PartitionKey;

use crate::model::directory_item::DirectoryItem;
use crate::model::grant::Grant;
use crate::model::history::{DecisionHistory, DecisionsPage};
use crate::model::lease::Dated;
use crate::model::ledger::{Addition, Ledger, LedgerKind};
use crate::model::metadata::CollectionMetadata;
use crate::model::pinned::Owner;
use crate::model::reshard::Job;
use crate::ports::errors::StoreError;

/// The metadata table.
#[async_trait]
pub trait MetadataStore: Send + Sync {
    /// A strongly consistent `GetItem`.
    async fn get(
        &self,
        partition: &PartitionKey,
    ) -> Result<Dated<Option<CollectionMetadata>>, StoreError>;

    /// A strongly consistent `GetItem` of the directory item.
    async fn directory(&self) -> Result<Dated<Option<DirectoryItem>>, StoreError>;

    /// `UpdateItem` that puts `next` in place of the directory item `seen`, or where there is none.
    /// [`StoreError::ConditionFailed`] where it is not as seen.
    async fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> Result<Dated<()>, StoreError>;

    /// A strongly consistent `GetItem` of the item of the main table that names its owner.
    async fn owner(&self) -> Result<Option<Owner>, StoreError>;

    /// `PutItem` of this item, with the name of this metadata table, where there is none.
    /// [`StoreError::ConditionFailed`] where there is one.
    async fn claim(&self, stack_id: &str) -> Result<(), StoreError>;

    /// `DescribeTable` of the main table: the bytes of its items and of its local secondary indexes together, as DynamoDB
    /// counted them within the last six hours, or so. `None` where it has no such index.
    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError>;

    /// `TransactWriteItems` that gives a collection its metadata item, and its job if it begins with a
    /// change, where there are none, and puts `next` in place of the directory item `seen`, or where there
    /// is none. [`StoreError::ConditionFailed`] where any of that is not so.
    async fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> Result<Dated<()>, StoreError>;

    /// `UpdateItem` that counts a collection, by the hash that the directory knows it by, to those that are enlisted under
    /// a grant. One that is counted already is not counted again. [`StoreError::ConditionFailed`] where as many others
    /// are counted as the grant allows.
    async fn count_enlisting(&self, grant: &Grant, hash: u64) -> Result<(), StoreError>;

    /// `UpdateItem` from `seen` to `next`, on condition that `rev` and `last_updated` are as seen.
    /// [`StoreError::ConditionFailed`] if they are not.
    async fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> Result<Dated<()>, StoreError>;

    /// A strongly consistent `GetItem` of the job that belongs to a change of a collection's count.
    async fn job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError>;

    /// `TransactWriteItems` that publishes `forward` and puts its job: an update from `seen` to
    /// `next` as [`MetadataStore::update`] does it, and `job` in place of `seen_job`, or where there
    /// is none. [`StoreError::ConditionFailed`] where either is not as seen.
    async fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> Result<Dated<()>, StoreError>;

    /// `PutItem` of a job in place of `seen`, on condition that its generation and `rev` are as
    /// seen. [`StoreError::ConditionFailed`] where they are not.
    async fn save_job(&self, seen: &Job, next: &Job) -> Result<Dated<()>, StoreError>;

    /// `TransactWriteItems` that ends a change: an update from `seen` to `next` as
    /// [`MetadataStore::update`] does it, and the removal of its job, on the condition of
    /// [`MetadataStore::save_job`]. [`StoreError::ConditionFailed`] where either is not as seen.
    async fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> Result<Dated<()>, StoreError>;

    /// `PutItem` of an item whose stream record calls a rebalancer to the collection, by this lane. Each
    /// `call` makes it another item, since a put that changes nothing has no record.
    async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        call: u64,
    ) -> Result<(), StoreError>;

    /// `DeleteItem` of what [`MetadataStore::call_lane`] has put, if it is there.
    async fn remove_lane(&self, partition: &PartitionKey, lane: u32) -> Result<(), StoreError>;

    /// `Query` of the sparse index: one page of the collections whose count was changing, not long
    /// ago, or whose last change was to be cleared up, from behind the key where the page before has
    /// ended. The index lags behind, so each of them must be read again.
    async fn resharding(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError>;

    /// `Query` of the sparse index: one page of the collections that rest with more shards than their floor.
    async fn grown(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError>;

    /// A strongly consistent `GetItem` of a ledger; an empty one where there is none.
    async fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
    ) -> Result<Dated<Ledger>, StoreError>;

    /// `UpdateItem` that adds to a ledger, whoever else does at the same time. Returns the ledger with the
    /// addition.
    async fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError>;

    /// A strongly consistent `GetItem` of what was decided about a collection; an empty history where there is
    /// none.
    async fn decisions(&self, partition: &PartitionKey) -> Result<DecisionHistory, StoreError>;

    /// `PutItem` of a history in place of `seen`, on condition that its `rev` is as seen.
    /// [`StoreError::ConditionFailed`] where it is not.
    async fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
    ) -> Result<(), StoreError>;

    /// `Query` of the sparse index: one page of what was decided about all collections, from behind the key
    /// where the page before has ended. The index lags behind.
    async fn all_decisions(&self, after: Option<&str>) -> Result<DecisionsPage, StoreError>;
}

/// All collections there are. Only operators' commands ask for them: no function may scan the metadata
/// table, so [`MetadataStore`] lacks it.
#[async_trait]
pub trait CollectionCatalog: Send + Sync {
    /// A strongly consistent `Scan` of the metadata table: one page of its collections, in no order,
    /// from behind the key where the page before has ended.
    async fn collections(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError>;
}

/// A page of collections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectionsPage {
    /// The collections on this page. What else lies in the table is passed over.
    pub partitions: Vec<PartitionKey>,
    /// The entries that cannot be a collection's, each with its fault. Somebody has written them by hand.
    pub damaged: Vec<String>,
    /// The key in the table behind which the next page begins, a collection's or another, or `None`
    /// at the end.
    pub next: Option<String>,
}
