//! DynamoDB in memory: what stores are compared with.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use dynashard_core::ports::{
    Action, Adjusted, Arrival, BatchPage, Change, Clock, CollectionCatalog, Consistency, Dated,
    ItemStore, List, ListPage, Listed, MAX_KEYS_PER_BATCH_GET, Metered, Record, RecordKey,
    RecordStore, ShardPage, ShardQuery, SortRange, StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Addition, Adjustment, CollectionMetadata, DirectoryItem, Fields, Group, Job, KeyHash, Lease,
    Ledger, LedgerKind, Owner, Pinned, Replica, SecondaryIndex, Segment, SegmentId, StoredItem,
    TableSchema, Throttle,
};
use dynashard_keys::{
    Number, PartitionKey, PhysicalKey, PhysicalPartitionKey, Separator, ShardId, SortKey,
    SortKeyType,
};

use crate::ManualClock;
use crate::records::Records;

/// DynamoDB ends a page before it passes this.
const PAGE_BYTES: usize = 1_024 * 1_024;

/// The largest item that DynamoDB takes.
const ITEM_BYTES: usize = 400 * 1_024;

/// DynamoDB's unit of reading.
const READ_UNIT_BYTES: usize = 4 * 1_024;

/// DynamoDB's unit of writing.
const WRITE_UNIT_BYTES: usize = 1_024;

/// Both tables in memory, with the semantics of DynamoDB. Clones share their contents.
///
/// Every request is answered when it is first polled, and refused where DynamoDB would refuse it as
/// invalid, so a use case that sends such a request fails here already. Eventually consistent reads
/// are as current as strong ones.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    clock: ManualClock,
    schema: TableSchema,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    shards: Shards,
    records: Records,
    owner: Option<Owner>,
    takes_every_date: bool,
    locally_indexed_bytes: Option<u64>,
    pub(crate) indexes: Vec<SecondaryIndex>,
    /// The shards of write-sharded indexes that items were written with.
    pub(crate) index_shards: BTreeMap<PhysicalKey, ShardId>,
    pub(crate) page_items: usize,
    page_bytes: usize,
    page_ends: VecDeque<usize>,
    unprocessed_keys: usize,
    /// What replicas show that lag behind.
    replicas: BTreeMap<Replica, Shards>,
    pub(crate) requests: Requests,
}

/// Items by their physical keys.
type Shards = BTreeMap<PhysicalPartitionKey, BTreeMap<SortKey, StoredItem>>;

/// How many requests a store has executed. One that it never received is not counted: a write whose
/// lease had run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// `GetItem` on the main table.
    pub gets: u64,
    /// `PutItem` and `DeleteItem` on the main table, those whose condition failed included.
    pub writes: u64,
    /// `TransactGetItems` of two items of the main table.
    pub gets_of_both: u64,
    /// `TransactWriteItems` on two items of the main table, cancelled ones included.
    pub transfers: u64,
    /// `BatchGetItem`.
    pub batch_gets: u64,
    /// `Query`.
    pub queries: u64,
    /// `Query` of a replica.
    pub replica_queries: u64,
    /// `GetItem` of the directory item.
    pub directory_gets: u64,
    /// `GetItem` of segments of the directory.
    pub segment_gets: u64,
    /// `GetItem` of metadata items.
    pub metadata_gets: u64,
    /// `UpdateItem` on the metadata table, those whose condition failed included.
    pub metadata_updates: u64,
    /// `TransactWriteItems` on the metadata table, cancelled ones included.
    pub metadata_transactions: u64,
    /// `GetItem` and `PutItem` on jobs, and what calls and removes their lanes.
    pub jobs: u64,
    /// `Query` on the index of the metadata table.
    pub metadata_queries: u64,
    /// `Scan` of the metadata table.
    pub metadata_scans: u64,
    /// `UpdateItem` on counters of the directory.
    pub raises: u64,
    /// `UpdateItem` on ledgers.
    pub ledger_updates: u64,
    /// `GetItem` of ledgers.
    pub ledger_gets: u64,
    /// `GetItem`, `PutItem` and `Query` of decisions.
    pub decisions: u64,
}

impl Requests {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self {
            gets,
            writes,
            gets_of_both,
            transfers,
            batch_gets,
            queries,
            replica_queries,
            directory_gets,
            segment_gets,
            metadata_gets,
            metadata_updates,
            metadata_transactions,
            jobs,
            metadata_queries,
            metadata_scans,
            raises,
            ledger_updates,
            ledger_gets,
            decisions,
        } = self;
        let queries = queries + replica_queries;
        let items = gets + writes + gets_of_both + transfers + batch_gets + queries;
        let directory = directory_gets + segment_gets + raises;
        let metadata = metadata_gets + metadata_updates + metadata_queries;
        let heat = ledger_updates + ledger_gets + decisions;
        items + directory + metadata + metadata_transactions + jobs + metadata_scans + heat
    }
}

impl Requests {
    fn of_read(&mut self, key: &RecordKey) -> &mut u64 {
        match key {
            RecordKey::Directory => &mut self.directory_gets,
            RecordKey::Segment(_) => &mut self.segment_gets,
            RecordKey::Collection(_) | RecordKey::Grant(_) => &mut self.metadata_gets,
            RecordKey::Job(_) | RecordKey::Lane(..) => &mut self.jobs,
            RecordKey::Ledger(..) => &mut self.ledger_gets,
            RecordKey::Decisions(_) => &mut self.decisions,
        }
    }

    fn of_commit(&mut self, changes: &[Change]) -> &mut u64 {
        match changes {
            [Change { key: RecordKey::Job(_) | RecordKey::Lane(..), .. }] => &mut self.jobs,
            [Change { key: RecordKey::Decisions(_), .. }] => &mut self.decisions,
            [_] => &mut self.metadata_updates,
            _ => &mut self.metadata_transactions,
        }
    }
}

impl MemoryStore {
    /// Empty tables. `clock` says which leases have run out, and dates the answers.
    pub fn new(clock: ManualClock, schema: TableSchema) -> Self {
        let state = State {
            shards: BTreeMap::new(),
            records: Records::default(),
            owner: None,
            takes_every_date: false,
            locally_indexed_bytes: None,
            indexes: Vec::new(),
            index_shards: BTreeMap::new(),
            page_items: usize::MAX,
            page_bytes: PAGE_BYTES,
            page_ends: VecDeque::new(),
            unprocessed_keys: 0,
            replicas: BTreeMap::new(),
            requests: Requests::default(),
        };
        Self { clock, schema, state: Arc::new(Mutex::new(state)) }
    }

    /// From now on a replica shows what the table holds now, until it catches up.
    pub fn hold_back(&self, replica: Replica) {
        let mut state = self.lock();
        let shards = state.shards.clone();
        state.replicas.insert(replica, shards);
    }

    /// Ends [`MemoryStore::hold_back`].
    pub fn catch_up(&self, replica: Replica) {
        self.lock().replicas.remove(&replica);
    }

    /// Puts a ledger in place of what is there.
    pub fn place_ledger(&self, partition: &PartitionKey, kind: LedgerKind, ledger: Ledger) {
        let key = RecordKey::Ledger(partition.clone(), kind);
        self.lock().records.place(key, Some(Record::Ledger(ledger)));
    }

    /// Ends the pages of queries earlier than DynamoDB does: after so many items, or before so many
    /// bytes. A page holds one item at least.
    pub fn split_pages(&self, items: usize, bytes: usize) {
        let mut state = self.lock();
        state.page_items = items.max(1);
        state.page_bytes = bytes;
    }

    /// Ends each of the coming pages by itself after so many items, as pages of unequal items do.
    pub fn end_pages_after(&self, items: impl IntoIterator<Item = usize>) {
        self.lock().page_ends.extend(items);
    }

    /// Every batch read leaves so many of its keys unprocessed, the last ones. Where that is all of
    /// them it is throttled, as by DynamoDB.
    pub fn leave_unprocessed(&self, keys: usize) {
        self.lock().unprocessed_keys = keys;
    }

    /// Puts an item anywhere: a marker, one that is not at home, one of another generation.
    pub fn place(&self, key: &PhysicalKey, item: StoredItem) {
        let mut state = self.lock();
        state.shards.entry(key.partition.clone()).or_default().insert(key.sort.clone(), item);
    }

    /// Takes away what is there.
    pub fn remove(&self, key: &PhysicalKey) {
        if let Some(shard) = self.lock().shards.get_mut(&key.partition) {
            shard.remove(&key.sort);
        }
    }

    /// What lies under a key.
    pub fn stored(&self, key: &PhysicalKey) -> Option<StoredItem> {
        self.lock().stored(key).cloned()
    }

    /// Everything in the main table.
    pub fn contents(&self) -> Vec<(PhysicalKey, StoredItem)> {
        let state = self.lock();
        let items = state.shards.iter().flat_map(|(partition, shard)| {
            shard.iter().map(|(sort, item)| {
                (PhysicalKey { partition: partition.clone(), sort: sort.clone() }, item.clone())
            })
        });
        items.collect()
    }

    /// Puts a metadata item in place of what is there, as a reshard would. The directory lists it.
    ///
    /// # Panics
    ///
    /// If the directory is full.
    pub fn place_metadata(&self, metadata: CollectionMetadata) {
        let directory = self.stored_directory();
        if directory.groups().is_some() {
            let hash = KeyHash::of(&metadata.partition);
            self.place_in_segment(hash.segment(), &Segment::of([hash]));
            let raised = [hash.segment().group(), hash.metadata_group()];
            self.lock().records.raise(&raised).expect("a root");
        } else if !directory.lists(&metadata.partition) {
            self.place_directory(directory.with(&metadata.partition).expect("room"));
        }
        self.place_unlisted_metadata(metadata);
    }

    /// Leaves no room in the directory for this collection.
    pub fn fill_directory(&self, partition: &PartitionKey) {
        let directory = self.stored_directory();
        if directory.groups().is_none() {
            let hashes = (0..).take(DirectoryItem::MAX_COLLECTIONS).collect();
            let full = DirectoryItem::stored(1, hashes, None, directory.pinned);
            return self.place_directory(full.unwrap_or_default());
        }
        let hash = KeyHash::of(partition);
        let full = Segment::of(hashes_beside(hash).take(Segment::MAX_COLLECTIONS));
        self.place_listed(hash.segment(), &full);
    }

    /// Has a segment list more collections, as the root tells.
    ///
    /// # Panics
    ///
    /// If the directory has no segments.
    pub fn place_listed(&self, of: SegmentId, more: &Segment) {
        self.place_in_segment(of, more);
        self.lock().records.raise(&[of.group()]).expect("a root");
    }

    fn place_in_segment(&self, of: SegmentId, more: &Segment) {
        let segment = self.stored_segment(of).with(more);
        self.lock().records.place(RecordKey::Segment(of), Some(Record::Segment(segment)));
    }

    /// Pins settings, in place of what is pinned.
    pub fn pin(&self, pinned: Pinned) {
        self.place_directory(self.stored_directory().with_pinned(pinned));
    }

    fn place_directory(&self, directory: DirectoryItem) {
        self.lock().records.place(RecordKey::Directory, Some(Record::Directory(directory)));
    }

    /// Whose the main table is.
    pub fn owned_by(&self) -> Option<Owner> {
        self.lock().owner.clone()
    }

    /// Makes another stack its owner.
    pub fn be_owned_by(&self, stack_id: &str) {
        let metadata_table = "of another stack".to_owned();
        let stack_id = stack_id.to_owned();
        self.lock().owner = Some(Owner { stack_id, metadata_table, is_of_this_table: true });
    }

    /// Has writes be taken however long ago they are dated, or not any more.
    pub fn take_every_date(&self, takes: bool) {
        self.lock().takes_every_date = takes;
    }

    /// Gives the main table local secondary indexes, with so many bytes in all.
    pub fn index_locally(&self, bytes: u64) {
        self.lock().locally_indexed_bytes = Some(bytes);
    }

    /// Gives the main table these secondary indexes, in place of those that it has.
    pub fn be_indexed_by(&self, indexes: impl IntoIterator<Item = SecondaryIndex>) {
        self.lock().indexes = indexes.into_iter().collect();
    }

    /// Removes the item that names its owner.
    pub fn be_owned_by_none(&self) {
        self.lock().owner = None;
    }

    /// Makes the metadata table an empty one.
    pub fn lose_metadata(&self) {
        self.lock().records = Records::default();
    }

    /// Puts a metadata item that the directory does not list, as after a restore of one of the two alone.
    pub fn place_unlisted_metadata(&self, metadata: CollectionMetadata) {
        let key = RecordKey::Collection(metadata.partition.clone());
        self.lock().records.place(key, Some(Record::Collection(metadata)));
    }

    /// Takes a metadata item away, and leaves it in the list.
    pub fn remove_metadata(&self, partition: &PartitionKey) {
        self.lock().records.place(RecordKey::Collection(partition.clone()), None);
    }

    /// The directory item.
    pub fn stored_directory(&self) -> DirectoryItem {
        self.lock().records.get(&()).unwrap_or_default()
    }

    /// Whether a collection is listed.
    pub fn lists(&self, partition: &PartitionKey) -> bool {
        let hash = KeyHash::of(partition);
        self.stored_directory().lists(partition) || self.stored_segment(hash.segment()).lists(hash)
    }

    /// As [`MemoryStore::place_metadata`], of which the root does not tell.
    pub fn place_unannounced_metadata(&self, metadata: CollectionMetadata) {
        let hash = KeyHash::of(&metadata.partition);
        self.place_in_segment(hash.segment(), &Segment::of([hash]));
        self.place_unlisted_metadata(metadata);
    }

    /// What a segment of the directory lists.
    pub fn stored_segment(&self, of: SegmentId) -> Segment {
        self.lock().records.get(&of).unwrap_or_default()
    }

    /// How often the segments of a collection's group have changed, as the root counts.
    pub fn count_of(&self, partition: &PartitionKey) -> Option<u64> {
        let directory = self.stored_directory();
        let group = KeyHash::of(partition).segment().group();
        Some(directory.groups()?.get(&group).copied().unwrap_or_default())
    }

    /// The metadata item of a collection.
    pub fn stored_metadata(&self, partition: &PartitionKey) -> Option<CollectionMetadata> {
        self.lock().records.get(partition)
    }

    /// The job of a collection's reshard.
    pub fn stored_job(&self, partition: &PartitionKey) -> Option<Job> {
        self.lock().records.get(partition)
    }

    /// The call that a lane of a collection was last given, if it was not removed since.
    pub fn stored_lane(&self, partition: &PartitionKey, lane: u32) -> Option<u64> {
        match self.lock().records.read(&RecordKey::Lane(partition.clone(), lane)) {
            Some(Record::Call(call)) => Some(*call),
            _ => None,
        }
    }

    /// Puts a job in place of what is there, or takes it away, as somebody would by hand.
    pub fn place_job(&self, partition: &PartitionKey, job: Option<Job>) {
        self.lock().records.place(RecordKey::Job(partition.clone()), job.map(Record::Job));
    }

    /// The requests since the store was made.
    pub fn requests(&self) -> Requests {
        self.lock().requests
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_sort_key(&self, key: &SortKey) -> Result<(), StoreError> {
        if key.is(self.schema.sort_key_type) { Ok(()) } else { reject("a key of the wrong type") }
    }

    fn check_query(&self, query: &ShardQuery) -> Result<(), StoreError> {
        if query.limit == 0 {
            return reject("a limit of 0");
        }
        if query.replica.is_some() && query.consistency == Consistency::Strong {
            return reject("a strong read of an index");
        }
        match &query.range {
            SortRange::BeginsWith(_) if self.schema.sort_key_type == SortKeyType::Number => {
                return reject("begins_with on a number");
            }
            SortRange::BeginsWith(prefix) if prefix.is_empty() => {
                return reject("an empty prefix of a key");
            }
            SortRange::Between(from, to) if from > to => {
                return reject("BETWEEN with bounds in the wrong order");
            }
            SortRange::Between(from, to) => {
                self.check_sort_key(from)?;
                self.check_sort_key(to)?;
            }
            SortRange::From(key) | SortRange::To(key) => self.check_sort_key(key)?,
            SortRange::All | SortRange::BeginsWith(_) => {}
        }
        if let Some(after) = &query.after {
            self.check_sort_key(after)?;
            if !query.range.contains(after) {
                return reject("a starting key outside the boundaries of the query");
            }
        }
        Ok(())
    }

    /// What a strong read of a key takes, of whatever is there.
    fn price_of(&self, key: &PhysicalKey, item: Option<&StoredItem>) -> f64 {
        read_units(item.map_or(0, |item| self.stored_bytes(&key.partition, &key.sort, item)))
    }

    /// AWS, "DynamoDB item sizes and formats".
    fn stored_bytes(
        &self,
        partition: &PhysicalPartitionKey,
        sort: &SortKey,
        item: &StoredItem,
    ) -> usize {
        const GENERATION_AND_VERSION_NAMES: usize = 5 + 5;
        const MARKER_NAME_AND_VALUE: usize = 7 + 1;
        let sort_bytes = match sort {
            SortKey::String(text) => text.len(),
            SortKey::Number(number) => number.stored_bytes(),
        };
        let attributes =
            item.attributes.iter().map(|(name, value)| name.len() + value.stored_bytes());
        self.schema.partition_key_name.len()
            + partition.as_str().len()
            + self.schema.sort_key_name.len()
            + sort_bytes
            + attributes.sum::<usize>()
            + GENERATION_AND_VERSION_NAMES
            + Number::from(item.generation.get()).stored_bytes()
            + Number::from(item.version.get()).stored_bytes()
            + if item.forwarded { MARKER_NAME_AND_VALUE } else { 0 }
    }
}

impl State {
    /// Puts an item, with its shard of write-sharded indexes if it is written with one.
    fn put(&mut self, key: &PhysicalKey, item: StoredItem, lease: &Lease, separator: Separator) {
        let shards = lease.index_shards().filter(|_| !item.forwarded);
        let partition = key.partition.as_str();
        match shards.and_then(|shards| shards.shard_at(partition, &key.sort, separator)) {
            Some(shard) => self.index_shards.insert(key.clone(), shard),
            None => self.index_shards.remove(key),
        };
        self.shards.entry(key.partition.clone()).or_default().insert(key.sort.clone(), item);
    }

    fn stored(&self, key: &PhysicalKey) -> Option<&StoredItem> {
        self.shards.get(&key.partition)?.get(&key.sort)
    }
}

#[async_trait]
impl ItemStore for MemoryStore {
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        let mut state = self.lock();
        state.requests.gets += 1;
        self.check_sort_key(&key.sort)?;
        let stored = state.stored(key);
        let consumed_rcu = self.price_of(key, stored) * price(consistency);
        Ok(Metered { value: stored.cloned().map(|item| projected(item, fields)), consumed_rcu })
    }

    async fn write(&self, write: &Write) -> Result<f64, StoreError> {
        if !write.lease.is_live(self.clock.now()) {
            return Err(StoreError::LeaseExpired);
        }
        let mut state = self.lock();
        state.requests.writes += 1;
        let key = &write.key;
        self.check_sort_key(&key.sort)?;
        let existing = state.stored(key);
        if !write.condition.holds(existing) {
            let existing = existing.cloned().map(Box::new);
            return Err(StoreError::ConditionFailed { existing });
        }
        let before = existing.map_or(0, |item| self.stored_bytes(&key.partition, &key.sort, item));
        let mut after = 0;
        match &write.action {
            Action::Put(item) => {
                after = self.stored_bytes(&key.partition, &key.sort, item);
                if after > ITEM_BYTES {
                    return reject("an item of more than 400 KB");
                }
                state.put(key, StoredItem::clone(item), &write.lease, self.schema.separator);
            }
            Action::Delete => {
                if let Some(shard) = state.shards.get_mut(&key.partition) {
                    shard.remove(&key.sort);
                }
            }
        }
        Ok(write_units(before.max(after)))
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        let mut state = self.lock();
        state.requests.gets_of_both += 1;
        for key in keys {
            self.check_sort_key(&key.sort)?;
        }
        let found = keys.map(|key| state.stored(key));
        let prices = keys.iter().zip(found).map(|(key, item)| self.price_of(key, item));
        // A transaction takes twice what a strong read takes.
        let consumed_rcu = 2.0 * prices.sum::<f64>();
        let value = found.map(|item| item.cloned().map(|item| projected(item, fields)));
        Ok(Metered { value, consumed_rcu })
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError> {
        if !transfer.lease.is_live(self.clock.now()) {
            return Err(StoreError::LeaseExpired);
        }
        let mut state = self.lock();
        state.requests.transfers += 1;
        let Transfer { old, new, arrival, .. } = transfer;
        if old == new {
            return reject("an item twice in one transaction");
        }
        let at_new = state.stored(new);
        if !transfer.new_condition().holds(at_new) {
            return Ok(Transferred::Refused { at_new: at_new.cloned().map(Box::new) });
        }
        if !transfer.old_condition().holds(state.stored(old)) {
            return Ok(Transferred::Refused { at_new: None });
        }
        let bytes_of = |key: &PhysicalKey, item: Option<&StoredItem>| {
            item.map_or(0, |item| self.stored_bytes(&key.partition, &key.sort, item))
        };
        let written_at_new = match arrival {
            Arrival::Copy(item) => bytes_of(new, Some(item)),
            Arrival::Present(_) => 0,
        };
        let units = [
            write_units(bytes_of(new, at_new).max(written_at_new)),
            write_units(bytes_of(old, state.stored(old))),
        ];
        let mut put = |key: &PhysicalKey, item: StoredItem| {
            state.put(key, item, &transfer.lease, self.schema.separator);
        };
        if let Arrival::Copy(item) = arrival {
            if written_at_new > ITEM_BYTES {
                return reject("an item of more than 400 KB");
            }
            put(new, item.clone());
        }
        put(old, transfer.marker());
        // A transaction takes twice what the single writes take.
        Ok(Transferred::Done { consumed_wcu: 2.0 * units.iter().sum::<f64>() })
    }

    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError> {
        if !lease.is_live(self.clock.now()) {
            return Err(StoreError::LeaseExpired);
        }
        let mut state = self.lock();
        let is_single = adjustments.len() == 1;
        *if is_single { &mut state.requests.writes } else { &mut state.requests.transfers } += 1;
        let mut after = Vec::new();
        for adjustment in adjustments {
            self.check_sort_key(&adjustment.key.sort)?;
            let existing = state.stored(&adjustment.key);
            let Some(item) = adjustment.carried_out(existing) else {
                let existing = existing.filter(|_| is_single).cloned().map(Box::new);
                return Err(StoreError::ConditionFailed { existing });
            };
            after.push((adjustment.key.clone(), item));
        }
        let item = after.first().filter(|_| is_single).map(|(_, item)| item.clone());
        let consumed_wcu = if is_single { 1.0 } else { 4.0 };
        for (key, item) in after {
            state.shards.entry(key.partition).or_default().insert(key.sort, item);
        }
        Ok(Adjusted { item, consumed_wcu })
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        let mut state = self.lock();
        state.requests.batch_gets += 1;
        if keys.is_empty() || keys.len() > MAX_KEYS_PER_BATCH_GET {
            return reject("a batch of no keys or of more than 100");
        }
        if keys.iter().collect::<HashSet<_>>().len() < keys.len() {
            return reject("a key twice in one batch");
        }
        keys.iter().try_for_each(|key| self.check_sort_key(&key.sort))?;
        let processed = keys.len().saturating_sub(state.unprocessed_keys);
        if processed == 0 {
            return Err(StoreError::Throttled(Throttle::unknown()));
        }
        let (processed, unprocessed) = keys.split_at(processed);
        let found = processed.iter().filter_map(|key| Some((key.clone(), state.stored(key)?)));
        let prices = processed.iter().map(|key| self.price_of(key, state.stored(key)));
        Ok(BatchPage {
            items: found.map(|(key, item)| (key, projected(item.clone(), fields))).collect(),
            unprocessed: unprocessed.to_vec(),
            consumed_rcu: prices.sum::<f64>() * price(consistency),
            ..BatchPage::default()
        })
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let mut state = self.lock();
        match query.replica {
            None => state.requests.queries += 1,
            Some(_) => state.requests.replica_queries += 1,
        }
        self.check_query(query)?;
        let end = state.page_ends.pop_front().unwrap_or(usize::MAX).max(1);
        let after = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let lagging = query.replica.and_then(|replica| state.replicas.get(&replica));
        let shard = lagging.unwrap_or(&state.shards).get(&query.partition).into_iter();
        let (up, down) = if query.ascending {
            (Some(shard.flat_map(|shard| shard.range((after, Bound::Unbounded)))), None)
        } else {
            let down = shard.flat_map(|shard| shard.range((Bound::Unbounded, after)).rev());
            (None, Some(down))
        };
        let all = up.into_iter().flatten().chain(down.into_iter().flatten());
        let matching = all.filter(|(sort, _)| query.range.contains(sort));

        let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let most = most.min(state.page_items).min(end);
        let mut items = Vec::new();
        let mut bytes = 0;
        let mut ended_early = false;
        for (sort, item) in matching {
            let item_bytes = self.stored_bytes(&query.partition, sort, item);
            if !items.is_empty() && bytes + item_bytes > state.page_bytes {
                ended_early = true;
                break;
            }
            bytes += item_bytes;
            items.push((sort.clone(), projected(item.clone(), query.fields.as_ref())));
            if items.len() == most {
                // DynamoDB does not look whether anything follows.
                ended_early = true;
                break;
            }
        }
        Ok(ShardPage {
            next: items.last().filter(|_| ended_early).map(|(sort, _)| sort.clone()),
            items_read: u64::try_from(items.len()).unwrap_or(u64::MAX),
            items,
            consumed_rcu: read_units(bytes) * price(query.consistency),
        })
    }

    // None of them is counted: they come once for each environment.
    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        Ok(self.lock().owner.clone())
    }

    async fn claim(&self, owner: &Owner) -> Result<(), StoreError> {
        let existing = &mut self.lock().owner;
        if existing.as_ref().is_some_and(|existing| existing.stack_id != owner.stack_id) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        *existing = Some(owner.clone());
        Ok(())
    }

    async fn takes_date(&self, _: u64) -> Result<bool, StoreError> {
        Ok(self.lock().takes_every_date)
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.lock().locally_indexed_bytes)
    }
}

#[async_trait]
impl RecordStore for MemoryStore {
    fn table(&self) -> &'static str {
        "metadata"
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        let mut state = self.lock();
        *state.requests.of_read(key) += 1;
        let value = state.records.read(key).cloned();
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        *state.requests.of_commit(changes) += 1;
        state.records.commit(changes)?;
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let mut state = self.lock();
        state.requests.ledger_updates += 1;
        let value = state.records.add(partition, kind, addition);
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.raises += 1;
        state.records.raise(groups)?;
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        let mut state = self.lock();
        match list {
            List::Resharding | List::Grown => state.requests.metadata_queries += 1,
            List::Decisions => state.requests.decisions += 1,
        }
        let listed = state.records.listed(list);
        Ok(page(listed, |listed| listed.partition.to_string(), after, state.page_items))
    }
}

#[async_trait]
impl CollectionCatalog for MemoryStore {
    async fn collections(&self, after: Option<&str>) -> Result<ListPage<PartitionKey>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_scans += 1;
        // Jobs and lanes lie in the same table, and a page may hold or end with one.
        let mut keys = state.records.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        keys.sort_by_key(ToString::to_string);
        let ListPage { entries, damaged, next } =
            page(keys.into_iter(), ToString::to_string, after, state.page_items);
        let collections = entries.into_iter().filter_map(|key| match key {
            RecordKey::Collection(partition) => Some(partition),
            _ => None,
        });
        Ok(ListPage { entries: collections.collect(), damaged, next })
    }
}

/// Hashes that lie in the segment of this one.
pub fn hashes_beside(hash: KeyHash) -> impl Iterator<Item = KeyHash> {
    (0_u64..).map(move |n| {
        let mut bytes = hash.bytes();
        bytes[KeyHash::BYTES - 8..].copy_from_slice(&n.to_be_bytes());
        KeyHash::stored(bytes)
    })
}

/// A page of so many entries, in order, from behind a key.
pub fn page<T>(
    entries: impl Iterator<Item = T>,
    key: impl Fn(&T) -> String,
    after: Option<&str>,
    most: usize,
) -> ListPage<T> {
    let mut rest = entries.filter(|entry| after.is_none_or(|after| *key(entry) > *after));
    let entries = rest.by_ref().take(most).collect::<Vec<_>>();
    let next = entries.last().filter(|_| rest.next().is_some()).map(&key);
    ListPage { entries, damaged: Vec::new(), next }
}

/// What a read returns of an item.
fn projected(item: StoredItem, fields: Option<&Fields>) -> StoredItem {
    match fields {
        None => item,
        Some(fields) => fields.project(item),
    }
}

/// The units of a strong read of so many bytes. One that finds nothing takes one.
fn read_units(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes.div_ceil(READ_UNIT_BYTES).max(1)).unwrap_or(u32::MAX))
}

/// The units of a write between so many bytes before and after, whichever are more. One of nothing takes
/// one.
fn write_units(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes.div_ceil(WRITE_UNIT_BYTES).max(1)).unwrap_or(u32::MAX))
}

/// What a unit of reading takes, by consistency.
fn price(consistency: Consistency) -> f64 {
    match consistency {
        Consistency::Strong => 1.0,
        Consistency::Eventual => 0.5,
    }
}

pub(crate) fn reject<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::Rejected(format!("DynamoDB would refuse this request: {what}")))
}
