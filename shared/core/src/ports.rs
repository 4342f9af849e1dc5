//! What the use cases need from the world, in the terms of the domain.
//!
//! One call of a store is one request to DynamoDB: a store never retries, never fans out and never
//! decides. Its errors are what any implementation could suffer.

use std::future::Future;
use std::time::Duration;

use dynashard_keys::{PartitionKey, PhysicalKey, PhysicalPartitionKey, SortKey};

pub use crate::guard::{Action, Arrival, Condition, Expected, Transfer, Transferred, Write};
use crate::{
    Access, Addition, AlarmStatus, CapacityMetrics, CapacityUnits, CollectionMetadata,
    DecisionHistory, DecisionsPage, DirectoryItem, Fields, Grant, HeatWindow, HotKey, Job, Ledger,
    LedgerKind, Owner, Reading, StoredItem, TableThroughput, Throttle, Usage,
};

/// Time, as three clocks tell it.
pub trait Clock: Send + Sync {
    /// Reads the clocks.
    fn now(&self) -> Reading;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Chance.
pub trait Entropy: Send + Sync {
    /// A uniformly random number. Versions are drawn from it, so two environments must never draw
    /// the same sequence.
    fn next_u64(&self) -> u64;
}

/// The main table.
pub trait ItemStore: Send + Sync {
    /// `GetItem`. Of what is there, these fields are returned, or all where none are named; the
    /// system's own attributes always are.
    fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> impl Future<Output = Result<Metered<Option<StoredItem>>, StoreError>> + Send;

    /// `PutItem` or `DeleteItem` under a condition and a lease. Returns the write units that DynamoDB
    /// reported.
    fn write(&self, write: &Write) -> impl Future<Output = Result<f64, StoreError>> + Send;

    /// `TransactGetItems` of two items: both as they were at one moment.
    fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> impl Future<Output = Result<Metered<[Option<StoredItem>; 2]>, StoreError>> + Send;

    /// `TransactWriteItems`: what a reshard does to both homes of an item at once.
    fn transfer(
        &self,
        transfer: &Transfer,
    ) -> impl Future<Output = Result<Transferred, StoreError>> + Send;

    /// `BatchGetItem`, of at most [`MAX_KEYS_PER_BATCH_GET`] distinct keys.
    fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> impl Future<Output = Result<BatchPage, StoreError>> + Send;

    /// `Query`: one page of one shard.
    fn query(
        &self,
        query: &ShardQuery,
    ) -> impl Future<Output = Result<ShardPage, StoreError>> + Send;
}

/// The metadata table.
pub trait MetadataStore: Send + Sync {
    /// A strongly consistent `GetItem`.
    fn get(
        &self,
        partition: &PartitionKey,
    ) -> impl Future<Output = Result<Dated<Option<CollectionMetadata>>, StoreError>> + Send;

    /// A strongly consistent `GetItem` of the directory item.
    fn directory(
        &self,
    ) -> impl Future<Output = Result<Dated<Option<DirectoryItem>>, StoreError>> + Send;

    /// `UpdateItem` that puts `next` in place of the directory item `seen`, or where there is none.
    /// [`StoreError::ConditionFailed`] where it is not as seen.
    fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// A strongly consistent `GetItem` of the item of the main table that names its owner.
    fn owner(&self) -> impl Future<Output = Result<Option<Owner>, StoreError>> + Send;

    /// `PutItem` of this item, with the name of this metadata table, where there is none.
    /// [`StoreError::ConditionFailed`] where there is one.
    fn claim(&self, stack_id: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// `DescribeTable` of the main table: the bytes of its items and of its local secondary indexes together, as DynamoDB
    /// counted them within the last six hours, or so. `None` where it has no such index.
    fn locally_indexed_bytes(&self)
    -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// `TransactWriteItems` that gives a collection its metadata item, and its job if it begins with a
    /// change, where there are none, and puts `next` in place of the directory item `seen`, or where there
    /// is none. [`StoreError::ConditionFailed`] where any of that is not so.
    fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// `UpdateItem` that counts a collection, by the hash that the directory knows it by, to those that are enlisted under
    /// a grant. One that is counted already is not counted again. [`StoreError::ConditionFailed`] where as many others
    /// are counted as the grant allows.
    fn count_enlisting(
        &self,
        grant: &Grant,
        hash: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// `UpdateItem` from `seen` to `next`, on condition that `rev` and `last_updated` are as seen.
    /// [`StoreError::ConditionFailed`] if they are not.
    fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// A strongly consistent `GetItem` of the job that belongs to a change of a collection's count.
    fn job(
        &self,
        partition: &PartitionKey,
    ) -> impl Future<Output = Result<Dated<Option<Job>>, StoreError>> + Send;

    /// `TransactWriteItems` that publishes `forward` and puts its job: an update from `seen` to
    /// `next` as [`MetadataStore::update`] does it, and `job` in place of `seen_job`, or where there
    /// is none. [`StoreError::ConditionFailed`] where either is not as seen.
    fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// `PutItem` of a job in place of `seen`, on condition that its generation and `rev` are as
    /// seen. [`StoreError::ConditionFailed`] where they are not.
    fn save_job(
        &self,
        seen: &Job,
        next: &Job,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// `TransactWriteItems` that ends a change: an update from `seen` to `next` as
    /// [`MetadataStore::update`] does it, and the removal of its job, on the condition of
    /// [`MetadataStore::save_job`]. [`StoreError::ConditionFailed`] where either is not as seen.
    fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> impl Future<Output = Result<Dated<()>, StoreError>> + Send;

    /// `PutItem` of an item whose stream record calls a rebalancer to the collection, by this lane. Each
    /// `call` makes it another item, since a put that changes nothing has no record.
    fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        call: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// `DeleteItem` of what [`MetadataStore::call_lane`] has put, if it is there.
    fn remove_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// `Query` of the sparse index: one page of the collections whose count was changing, not long
    /// ago, or whose last change was to be cleared up, from behind the key where the page before has
    /// ended. The index lags behind, so each of them must be read again.
    fn resharding(
        &self,
        after: Option<&str>,
    ) -> impl Future<Output = Result<CollectionsPage, StoreError>> + Send;

    /// The same of the collections that rest with more shards than their floor.
    fn grown(
        &self,
        after: Option<&str>,
    ) -> impl Future<Output = Result<CollectionsPage, StoreError>> + Send;

    /// A strongly consistent `GetItem` of a ledger; an empty one where there is none.
    fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
    ) -> impl Future<Output = Result<Dated<Ledger>, StoreError>> + Send;

    /// `UpdateItem` that adds to a ledger, whoever else does at the same time. Returns the ledger with the
    /// addition.
    fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> impl Future<Output = Result<Dated<Ledger>, StoreError>> + Send;

    /// A strongly consistent `GetItem` of what was decided about a collection; an empty history where there is
    /// none.
    fn decisions(
        &self,
        partition: &PartitionKey,
    ) -> impl Future<Output = Result<DecisionHistory, StoreError>> + Send;

    /// `PutItem` of a history in place of `seen`, on condition that its `rev` is as seen.
    /// [`StoreError::ConditionFailed`] where it is not.
    fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// `Query` of the sparse index: one page of what was decided about all collections, from behind the key
    /// where the page before has ended. The index lags behind.
    fn all_decisions(
        &self,
        after: Option<&str>,
    ) -> impl Future<Output = Result<DecisionsPage, StoreError>> + Send;
}

/// All collections there are. Only operators' commands ask for them: no function may scan the metadata
/// table, so [`MetadataStore`] lacks it.
pub trait CollectionCatalog: Send + Sync {
    /// A strongly consistent `Scan` of the metadata table: one page of its collections, in no order,
    /// from behind the key where the page before has ended.
    fn collections(
        &self,
        after: Option<&str>,
    ) -> impl Future<Output = Result<CollectionsPage, StoreError>> + Send;
}

/// Where it is known which keys of the main table were throttled. It only reads, so unlike a store
/// it may send several requests for one call, and send them again.
pub trait HeatSource: Send + Sync {
    /// The most throttled partition keys in a window, as the main table has them, with the throttles
    /// of each period. No key at all where nothing was throttled.
    fn throttled_keys(
        &self,
        window: HeatWindow,
    ) -> impl Future<Output = Result<Vec<HotKey>, StoreError>> + Send;
}

/// The alarms on throttles of the main table's partitions.
pub trait HeatAlarms: Send + Sync {
    /// The one on this access: reads have one for gets and queries together.
    fn alarm(&self, access: Access) -> impl AlarmControl;
}

/// An alarm, or several that are one to whoever acts on them.
pub trait AlarmControl: Send + Sync {
    /// How it stands.
    fn status(&self) -> impl Future<Output = Result<AlarmStatus, StoreError>> + Send;

    /// Sets it back, for this reason, so that a further breach raises it again. It calls nobody
    /// while it stays raised.
    fn rearm(&self, reason: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The capacity of the main table. Like [`HeatSource`] it may ask again by itself; what changes the
/// table is sent once.
pub trait TableCapacity: Send + Sync {
    /// `DescribeTable`: what the table is provisioned with.
    fn throughput(&self) -> impl Future<Output = Result<TableThroughput, StoreError>> + Send;

    /// What was consumed and throttled in each period of a window. A period in which nothing happened
    /// may be missing.
    fn metrics(
        &self,
        window: HeatWindow,
    ) -> impl Future<Output = Result<CapacityMetrics, StoreError>> + Send;

    /// `UpdateTable`, to these units a second. It takes no condition.
    fn update(
        &self,
        to: CapacityUnits,
    ) -> impl Future<Output = Result<CapacityUpdate, StoreError>> + Send;
}

/// What the tables have consumed and refused, as CloudWatch counts it. It only reads, so like
/// [`HeatSource`] it may ask again by itself.
pub trait UsageSource: Send + Sync {
    /// What happened in each period of a window. A period in which nothing happened may be missing.
    fn usage(&self, window: HeatWindow) -> impl Future<Output = Result<Usage, StoreError>> + Send;
}

/// What DynamoDB said to a change of the capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacityUpdate {
    /// It carries the change out.
    Accepted,
    /// The table is being changed already (`ResourceInUseException`).
    InUse,
    /// The table has this capacity already.
    NoChange,
    /// A limit on tables, on changes or on capacity is reached (`LimitExceededException`), as the text
    /// says.
    LimitExceeded(String),
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

/// An answer, and the epoch second that the server put into its `Date` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dated<T> {
    /// What was answered.
    pub value: T,
    /// When, by the server's clock; `None` where the answer had no such header.
    pub server_secs: Option<u64>,
}

/// What was read, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metered<T> {
    /// What was read.
    pub value: T,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// The most keys of one `BatchGetItem`.
pub const MAX_KEYS_PER_BATCH_GET: usize = 100;

/// How current a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// It sees every write that was answered before it began.
    Strong,
    /// At half the price, it may not.
    Eventual,
}

/// One page of one shard, in sort-key order.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardQuery {
    /// The shard.
    pub partition: PhysicalPartitionKey,
    /// Which sort keys.
    pub range: SortRange,
    /// Ascending, or descending.
    pub ascending: bool,
    /// Where to go on: exclusive, and in the direction of the query. It need not exist.
    pub after: Option<SortKey>,
    /// At most so many items are read.
    pub limit: u32,
    /// What to return of each item; everything where nothing is named.
    pub fields: Option<Fields>,
    /// How current.
    pub consistency: Consistency,
}

/// A condition on sort keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum SortRange {
    /// All of them.
    #[default]
    All,
    /// String keys that begin so.
    BeginsWith(String),
    /// At least this.
    From(SortKey),
    /// At most this.
    To(SortKey),
    /// Between the two, both included.
    Between(SortKey, SortKey),
}

impl SortRange {
    /// What of the range a query in this order comes to up to `last`, which is in the range. The start of
    /// strings cannot be bounded below, so it stays as it is there.
    #[must_use]
    pub(crate) fn up_to(&self, last: &SortKey, ascending: bool) -> Self {
        let last = last.clone();
        match (self.clone(), ascending) {
            (Self::All | Self::To(_), true) => Self::To(last),
            (Self::From(from) | Self::Between(from, _), true) => Self::Between(from, last),
            // What is between a prefix and a key that begins with it begins with it.
            (Self::BeginsWith(prefix), true) => match SortKey::string(&prefix) {
                Ok(from) => Self::Between(from, last),
                Err(_) => Self::BeginsWith(prefix),
            },
            (Self::All | Self::From(_), false) => Self::From(last),
            (Self::To(to) | Self::Between(_, to), false) => Self::Between(last, to),
            (Self::BeginsWith(prefix), false) => Self::BeginsWith(prefix),
        }
    }

    /// Whether the range holds `key`.
    pub fn contains(&self, key: &SortKey) -> bool {
        match self {
            Self::All => true,
            Self::BeginsWith(prefix) => {
                matches!(key, SortKey::String(text) if text.starts_with(prefix.as_str()))
            }
            Self::From(from) => key >= from,
            Self::To(to) => key <= to,
            Self::Between(from, to) => (from..=to).contains(&key),
        }
    }
}

/// What one page of a shard held, markers included.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardPage {
    /// In the order of the query.
    pub items: Vec<(SortKey, StoredItem)>,
    /// Where the next page begins, or `None` at the end of the shard. DynamoDB may name one where
    /// nothing follows, and may end a page early.
    pub next: Option<SortKey>,
    /// The items that were read and paid for.
    pub items_read: u64,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// What a `BatchGetItem` returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchPage {
    /// The items that exist.
    pub items: Vec<(PhysicalKey, StoredItem)>,
    /// The keys that DynamoDB left for another request.
    pub unprocessed: Vec<PhysicalKey>,
    /// The keys of items that cannot be understood, and why not.
    pub damaged: Vec<(PhysicalKey, String)>,
    /// The read units that DynamoDB reported.
    pub consumed_rcu: f64,
}

/// What can go wrong with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreError {
    /// The condition did not hold, and nothing was written. What was there comes with it.
    ConditionFailed {
        /// What was there; `None` for nothing, and for metadata items.
        existing: Option<Box<StoredItem>>,
    },
    /// A limit was hit, and nothing was written.
    Throttled(Throttle),
    /// A transaction on the same item was running, and nothing was written.
    Conflict,
    /// The lease had run out when the request was about to be sent, so it was not.
    LeaseExpired,
    /// DynamoDB refused the request as wrong, and nothing was written.
    Rejected(String),
    /// It could not be answered, and it certainly wrote nothing: a read, or never sent.
    Unavailable(String),
    /// It may have been, or may yet be, carried out.
    OutcomeUnknown(String),
    /// What was read breaks a rule of the data model; it says which field of what.
    Corrupt(String),
    /// A missing table or permission: the stack is set up wrongly.
    Misconfigured(String),
}
