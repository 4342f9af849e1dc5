//! A store that fails as it is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    Adjusted, Arrival, BatchPage, Change, Clock, CollectionCatalog, Consistency, Dated, ItemStore,
    List, ListPage, Listed, Metered, Record, RecordKey, RecordStore, ShardPage, ShardQuery,
    StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Addition, Adjustment, Fields, Group, Lease, Ledger, LedgerKind, Owner, Replica, StoredItem,
    Throttle,
};
use dynashard_keys::{PartitionKey, PhysicalKey, PhysicalPartitionKey};

use crate::ManualClock;

/// A store that fails as it is told. Clones follow the same script.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    store: S,
    state: Arc<Mutex<State>>,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// [`ItemStore::get`]
    Get,
    /// [`ItemStore::write`]
    Write,
    /// [`ItemStore::get_both`]
    GetBoth,
    /// [`ItemStore::transfer`]
    Transfer,
    /// [`ItemStore::batch_get`]
    BatchGet,
    /// [`ItemStore::query`]
    Query,
    /// [`RecordStore::read`] of metadata
    MetadataGet,
    /// [`RecordStore::read`] of the directory
    DirectoryGet,
    /// [`RecordStore::read`] of a grant
    GrantGet,
    /// [`RecordStore::read`] of a job
    JobGet,
    /// [`RecordStore::read`] of a ledger
    LedgerGet,
    /// [`RecordStore::read`] of decisions
    Decisions,
    /// [`RecordStore::commit`] of the directory
    DirectorySave,
    /// [`RecordStore::commit`] of a collection that is enlisted
    Enlist,
    /// [`RecordStore::commit`] of a grant
    GrantSave,
    /// [`RecordStore::commit`] of metadata
    MetadataUpdate,
    /// [`RecordStore::commit`] of metadata and a new job
    Begin,
    /// [`RecordStore::commit`] of metadata and the removal of a job
    Finish,
    /// [`RecordStore::commit`] of a job
    JobSave,
    /// [`RecordStore::commit`] of a call by a lane
    LaneCall,
    /// [`RecordStore::commit`] of the removal of one
    LaneRemoval,
    /// [`RecordStore::read`] of a segment of the directory
    SegmentGet,
    /// [`RecordStore::raise`]
    Raise,
    /// [`RecordStore::commit`] of decisions
    DecisionsSave,
    /// [`RecordStore::add`]
    LedgerUpdate,
    /// [`RecordStore::list`]
    MetadataQuery,
    /// [`CollectionCatalog::collections`]
    MetadataScan,
    /// [`ItemStore::owner`]
    OwnerGet,
    /// [`ItemStore::claim`]
    Claim,
    /// [`ItemStore::takes_date`]
    DateProbe,
    /// [`ItemStore::locally_indexed_bytes`]
    SizeGet,
}

impl Operation {
    fn of_read(key: &RecordKey) -> Self {
        match key {
            RecordKey::Directory => Self::DirectoryGet,
            RecordKey::Segment(_) => Self::SegmentGet,
            RecordKey::Collection(_) => Self::MetadataGet,
            RecordKey::Job(_) | RecordKey::Lane(..) => Self::JobGet,
            RecordKey::Ledger(..) => Self::LedgerGet,
            RecordKey::Decisions(_) => Self::Decisions,
            RecordKey::Grant(_) => Self::GrantGet,
        }
    }

    fn of_commit(changes: &[Change]) -> Self {
        match changes {
            [Change { key, next, .. }] => match key {
                RecordKey::Directory | RecordKey::Segment(_) => Self::DirectorySave,
                RecordKey::Collection(_) | RecordKey::Ledger(..) => Self::MetadataUpdate,
                RecordKey::Job(_) => Self::JobSave,
                RecordKey::Lane(..) if next.is_none() => Self::LaneRemoval,
                RecordKey::Lane(..) => Self::LaneCall,
                RecordKey::Decisions(_) => Self::DecisionsSave,
                RecordKey::Grant(_) => Self::GrantSave,
            },
            _ if changes.iter().any(|change| change.key.is_of_directory()) => Self::Enlist,
            _ if changes.iter().any(|change| change.next.is_none()) => Self::Finish,
            _ => Self::Begin,
        }
    }
}

/// What happens to one request.
pub enum Fault {
    /// It is not executed, and answered with this error.
    Refuse(StoreError),
    /// It is executed, and answered with this error all the same.
    ExecuteThen(StoreError),
    /// It is not executed, and never answered.
    Lose,
    /// It is executed, and never answered.
    ExecuteUnanswered,
    /// This happens before it is executed: a competing write, or time that passes.
    Before(Box<dyn FnOnce() + Send>),
    /// This happens after it was executed, and before its answer arrives.
    After(Box<dyn FnOnce() + Send>),
}

#[derive(Debug, Default)]
struct State {
    script: BTreeMap<Operation, VecDeque<Fault>>,
    throttled: BTreeSet<PhysicalPartitionKey>,
    /// Partitions of the table or of one replica alone.
    throttled_at: BTreeSet<(Option<Replica>, PhysicalPartitionKey)>,
    /// Replicas that cannot be read.
    missing: BTreeSet<Replica>,
    unmovable: BTreeSet<PhysicalKey>,
    attempts: BTreeMap<Operation, u64>,
    way: Option<(ManualClock, Duration)>,
    undated_jobs: usize,
}

impl Fault {
    /// [`Fault::Before`]
    pub fn before(event: impl FnOnce() + Send + 'static) -> Self {
        Self::Before(Box::new(event))
    }

    /// [`Fault::After`]
    pub fn after(event: impl FnOnce() + Send + 'static) -> Self {
        Self::After(Box::new(event))
    }

    /// A refusal of which DynamoDB does not say the reason.
    pub fn throttle() -> Self {
        Self::Refuse(StoreError::Throttled(Throttle::unknown()))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(error) => f.debug_tuple("Refuse").field(error).finish(),
            Self::ExecuteThen(error) => f.debug_tuple("ExecuteThen").field(error).finish(),
            Self::Lose => f.write_str("Lose"),
            Self::ExecuteUnanswered => f.write_str("ExecuteUnanswered"),
            Self::Before(_) => f.write_str("Before(..)"),
            Self::After(_) => f.write_str("After(..)"),
        }
    }
}

impl<S> Faulty<S> {
    /// A store without faults yet.
    pub fn new(store: S) -> Self {
        Self { store, state: Arc::default() }
    }

    /// The coming requests of a kind suffer these faults, one each, in this order, after those that
    /// the script holds already.
    pub fn script(&self, operation: Operation, faults: impl IntoIterator<Item = Fault>) {
        self.lock().script.entry(operation).or_default().extend(faults);
    }

    /// The coming requests of a kind suffer none of the faults that the script still holds.
    pub fn clear(&self, operation: Operation) {
        self.lock().script.remove(&operation);
    }

    /// Refuses every request to this partition of the main table, as DynamoDB does with a hot one.
    /// A batch read leaves its keys unprocessed.
    pub fn throttle(&self, partition: PhysicalPartitionKey) {
        self.lock().throttled.insert(partition);
    }

    /// As [`Faulty::throttle`], of the table alone or of one replica, while the others answer.
    pub fn throttle_at(&self, source: Option<Replica>, partition: PhysicalPartitionKey) {
        self.lock().throttled_at.insert((source, partition));
    }

    /// Refuses every read of a replica, as DynamoDB does where the table has no such index.
    pub fn lose(&self, replica: Replica) {
        self.lock().missing.insert(replica);
    }

    /// Ends [`Faulty::throttle`].
    pub fn relieve(&self, partition: &PhysicalPartitionKey) {
        self.lock().throttled.remove(partition);
    }

    /// Rejects what would put an item there in a transaction, as DynamoDB does where an index does not take it or its item
    /// collection is full.
    pub fn reject_arrival(&self, at: PhysicalKey) {
        self.lock().unmovable.insert(at);
    }

    /// Ends [`Faulty::reject_arrival`].
    pub fn accept_arrival(&self, at: &PhysicalKey) {
        self.lock().unmovable.remove(at);
    }

    /// Every request takes so long to arrive, and those that are sent together arrive together.
    pub fn delay(&self, clock: &ManualClock, time: Duration) {
        self.lock().way = Some((clock.clone(), time));
    }

    /// The answers to so many of the coming reads of jobs have no `Date`.
    pub fn leave_dates_out(&self, reads_of_jobs: usize) {
        self.lock().undated_jobs = reads_of_jobs;
    }

    /// How many requests of a kind arrived here, whatever became of them.
    pub fn attempts(&self, operation: Operation) -> u64 {
        self.lock().attempts.get(&operation).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_throttled(&self, partition: &PhysicalPartitionKey) -> bool {
        self.lock().throttled.contains(partition)
    }

    fn refuse_at(
        &self,
        source: Option<Replica>,
        partition: &PhysicalPartitionKey,
    ) -> Result<(), StoreError> {
        if !self.lock().throttled_at.contains(&(source, partition.clone())) {
            return Ok(());
        }
        let Some(replica) = source else { return Err(StoreError::Throttled(hot_partition())) };
        let arn = format!("arn:aws:dynamodb:us-east-1:123456789012:table/Items/index/{replica}");
        let reason = "IndexReadKeyRangeThroughputExceeded";
        Err(StoreError::Throttled(Throttle::from_reason(reason, Some(arn))))
    }

    fn arrive(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.lock();
        *state.attempts.entry(operation).or_default() += 1;
        state.script.get_mut(&operation)?.pop_front()
    }

    async fn perform<T>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let way = self.lock().way.clone();
        if let Some((clock, time)) = way {
            clock.sleep(time).await;
        }
        match self.arrive(operation) {
            None => request.await,
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::ExecuteThen(error)) => {
                let _ = request.await;
                Err(error)
            }
            Some(Fault::Lose) => pending().await,
            Some(Fault::ExecuteUnanswered) => {
                let _ = request.await;
                pending().await
            }
            Some(Fault::Before(event)) => {
                event();
                request.await
            }
            Some(Fault::After(event)) => {
                let answer = request.await;
                event();
                answer
            }
        }
    }

    async fn perform_at_both<T>(
        &self,
        operation: Operation,
        [one, other]: [&PhysicalKey; 2],
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let request = async {
            if self.is_throttled(&one.partition) || self.is_throttled(&other.partition) {
                return Err(StoreError::Throttled(hot_partition()));
            }
            request.await
        };
        self.perform(operation, request).await
    }

    async fn perform_at<T>(
        &self,
        operation: Operation,
        partition: &PhysicalPartitionKey,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let request = async {
            if self.is_throttled(partition) {
                return Err(StoreError::Throttled(hot_partition()));
            }
            request.await
        };
        self.perform(operation, request).await
    }
}

#[async_trait]
impl<S: ItemStore> ItemStore for Faulty<S> {
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        let request = async {
            self.refuse_at(None, &key.partition)?;
            self.store.get(key, fields, consistency).await
        };
        self.perform_at(Operation::Get, &key.partition, request).await
    }

    async fn write(&self, write: &Write) -> Result<f64, StoreError> {
        self.perform_at(Operation::Write, &write.key.partition, self.store.write(write)).await
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        let request = self.store.get_both(keys, fields);
        self.perform_at_both(Operation::GetBoth, keys, request).await
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError> {
        let homes = [&transfer.old, &transfer.new];
        let request = async {
            let arrives = matches!(transfer.arrival, Arrival::Copy(_));
            if arrives && self.lock().unmovable.contains(&transfer.new) {
                return Err(StoreError::Rejected(
                    "ValidationError: Type mismatch for Index Key".to_owned(),
                ));
            }
            self.store.transfer(transfer).await
        };
        self.perform_at_both(Operation::Transfer, homes, request).await
    }

    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError> {
        let request = self.store.adjust(adjustments, lease);
        match adjustments {
            [one] => self.perform_at(Operation::Write, &one.key.partition, request).await,
            [one, other, ..] => {
                let keys = [&one.key, &other.key];
                self.perform_at_both(Operation::Transfer, keys, request).await
            }
            [] => request.await,
        }
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        let request = async {
            let (throttled, served): (Vec<_>, Vec<_>) =
                keys.iter().cloned().partition(|key| self.is_throttled(&key.partition));
            if served.is_empty() {
                return Err(StoreError::Throttled(hot_partition()));
            }
            let mut page = self.store.batch_get(&served, fields, consistency).await?;
            page.unprocessed.extend(throttled);
            Ok(page)
        };
        self.perform(Operation::BatchGet, request).await
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let request = async {
            if query.replica.is_some_and(|replica| self.lock().missing.contains(&replica)) {
                let why = "ValidationException: The table does not have the specified index";
                return Err(StoreError::Rejected(why.to_owned()));
            }
            self.refuse_at(query.replica, &query.partition)?;
            self.store.query(query).await
        };
        self.perform_at(Operation::Query, &query.partition, request).await
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        self.perform(Operation::OwnerGet, self.store.owner()).await
    }

    async fn claim(&self, owner: &Owner) -> Result<(), StoreError> {
        self.perform(Operation::Claim, self.store.claim(owner)).await
    }

    async fn takes_date(&self, date_secs: u64) -> Result<bool, StoreError> {
        self.perform(Operation::DateProbe, self.store.takes_date(date_secs)).await
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.perform(Operation::SizeGet, self.store.locally_indexed_bytes()).await
    }
}

#[async_trait]
impl<S: RecordStore> RecordStore for Faulty<S> {
    fn table(&self) -> &str {
        self.store.table()
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        let answer = self.perform(Operation::of_read(key), self.store.read(key)).await?;
        let undated = &mut self.lock().undated_jobs;
        if *undated == 0 || !matches!(key, RecordKey::Job(_)) {
            return Ok(answer);
        }
        *undated -= 1;
        Ok(Dated { server_secs: None, ..answer })
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        self.perform(Operation::of_commit(changes), self.store.commit(changes)).await
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let request = self.store.add(partition, kind, addition);
        self.perform(Operation::LedgerUpdate, request).await
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        self.perform(Operation::Raise, self.store.raise(groups)).await
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        self.perform(Operation::MetadataQuery, self.store.list(list, after)).await
    }
}

#[async_trait]
impl<S: CollectionCatalog> CollectionCatalog for Faulty<S> {
    async fn collections(&self, after: Option<&str>) -> Result<ListPage<PartitionKey>, StoreError> {
        self.perform(Operation::MetadataScan, self.store.collections(after)).await
    }
}

/// Why DynamoDB refuses what goes to a partition that is at its limit.
fn hot_partition() -> Throttle {
    Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None)
}
