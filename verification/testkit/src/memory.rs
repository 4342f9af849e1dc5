use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use dynashard_core::ports::{
    Action, Arrival, BatchPage, Clock, CollectionCatalog, CollectionsPage, Consistency, Dated,
    ItemStore, MAX_KEYS_PER_BATCH_GET, MetadataStore, Metered, ShardPage, ShardQuery, SortRange,
    StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Addition, CollectionMetadata, DecisionHistory, DecisionsPage, DirectoryItem, Fields,
    Generation, Grant, Job, LaneKey, Ledger, LedgerKind, Owner, Pinned, StoredItem, TableSchema,
    Throttle,
};
use dynashard_keys::{
    Number, PartitionKey, PhysicalKey, PhysicalPartitionKey, SortKey, SortKeyType,
};

use crate::ManualClock;

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
struct State {
    shards: BTreeMap<PhysicalPartitionKey, BTreeMap<SortKey, StoredItem>>,
    directory: DirectoryItem,
    owner: Option<Owner>,
    locally_indexed_bytes: Option<u64>,
    metadata: BTreeMap<PartitionKey, CollectionMetadata>,
    jobs: BTreeMap<PartitionKey, Job>,
    lanes: BTreeMap<(PartitionKey, u32), u64>,
    ledgers: BTreeMap<(PartitionKey, LedgerKind), Ledger>,
    decisions: BTreeMap<PartitionKey, DecisionHistory>,
    /// What is counted to each grant, by the key of the grant.
    granted: BTreeMap<String, BTreeSet<u64>>,
    page_items: usize,
    page_bytes: usize,
    page_ends: VecDeque<usize>,
    unprocessed_keys: usize,
    requests: Requests,
}

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
    /// `GetItem` of the directory item.
    pub directory_gets: u64,
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
            directory_gets,
            metadata_gets,
            metadata_updates,
            metadata_transactions,
            jobs,
            metadata_queries,
            metadata_scans,
            ledger_updates,
            ledger_gets,
            decisions,
        } = self;
        let items = gets + writes + gets_of_both + transfers + batch_gets + queries;
        let metadata = directory_gets + metadata_gets + metadata_updates + metadata_queries;
        let heat = ledger_updates + ledger_gets + decisions;
        items + metadata + metadata_transactions + jobs + metadata_scans + heat
    }
}

impl MemoryStore {
    /// Empty tables. `clock` says which leases have run out, and dates the answers.
    pub fn new(clock: ManualClock, schema: TableSchema) -> Self {
        let state = State {
            shards: BTreeMap::new(),
            directory: DirectoryItem::default(),
            owner: None,
            locally_indexed_bytes: None,
            metadata: BTreeMap::new(),
            jobs: BTreeMap::new(),
            lanes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            decisions: BTreeMap::new(),
            granted: BTreeMap::new(),
            page_items: usize::MAX,
            page_bytes: PAGE_BYTES,
            page_ends: VecDeque::new(),
            unprocessed_keys: 0,
            requests: Requests::default(),
        };
        Self { clock, schema, state: Arc::new(Mutex::new(state)) }
    }

    /// Puts a ledger in place of what is there.
    pub fn place_ledger(&self, partition: &PartitionKey, kind: LedgerKind, ledger: Ledger) {
        self.lock().ledgers.insert((partition.clone(), kind), ledger);
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
        let mut state = self.lock();
        if !state.directory.lists(&metadata.partition) {
            let next = state.directory.with(&metadata.partition);
            state.directory = next.expect("room in the directory");
        }
        state.metadata.insert(metadata.partition.clone(), metadata);
    }

    /// Fills the directory with as many other collections as it can list.
    pub fn fill_directory(&self) {
        let hashes = (0..).take(DirectoryItem::MAX_COLLECTIONS).collect();
        let mut state = self.lock();
        let pinned = state.directory.pinned.take();
        state.directory = DirectoryItem::stored(1, hashes, pinned).unwrap_or_default();
    }

    /// Pins settings, in place of what is pinned.
    pub fn pin(&self, pinned: Pinned) {
        let mut state = self.lock();
        state.directory = state.directory.with_pinned(pinned);
    }

    /// Whose the main table is.
    pub fn owned_by(&self) -> Option<Owner> {
        self.lock().owner.clone()
    }

    /// Makes another stack its owner.
    pub fn be_owned_by(&self, stack_id: &str) {
        let metadata_table = "of another stack".to_owned();
        self.lock().owner = Some(Owner { stack_id: stack_id.to_owned(), metadata_table });
    }

    /// Gives the main table local secondary indexes, with so many bytes in all.
    pub fn index_locally(&self, bytes: u64) {
        self.lock().locally_indexed_bytes = Some(bytes);
    }

    /// Removes the item that names its owner.
    pub fn be_owned_by_none(&self) {
        self.lock().owner = None;
    }

    /// Makes the metadata table an empty one.
    pub fn lose_metadata(&self) {
        let mut state = self.lock();
        state.directory = DirectoryItem::default();
        state.metadata.clear();
        state.jobs.clear();
    }

    /// Puts a metadata item that the directory does not list, as after a restore of one of the two alone.
    pub fn place_unlisted_metadata(&self, metadata: CollectionMetadata) {
        self.lock().metadata.insert(metadata.partition.clone(), metadata);
    }

    /// Takes a metadata item away, and leaves it in the list.
    pub fn remove_metadata(&self, partition: &PartitionKey) {
        self.lock().metadata.remove(partition);
    }

    /// The directory item.
    pub fn stored_directory(&self) -> DirectoryItem {
        self.lock().directory.clone()
    }

    /// The metadata item of a collection.
    pub fn stored_metadata(&self, partition: &PartitionKey) -> Option<CollectionMetadata> {
        self.lock().metadata.get(partition).cloned()
    }

    /// The job of a collection's reshard.
    pub fn stored_job(&self, partition: &PartitionKey) -> Option<Job> {
        self.lock().jobs.get(partition).cloned()
    }

    /// The call that a lane of a collection was last given, if it was not removed since.
    pub fn stored_lane(&self, partition: &PartitionKey, lane: u32) -> Option<u64> {
        self.lock().lanes.get(&(partition.clone(), lane)).copied()
    }

    /// Puts a job in place of what is there, or takes it away, as somebody would by hand.
    pub fn place_job(&self, partition: &PartitionKey, job: Option<Job>) {
        let jobs = &mut self.lock().jobs;
        match job {
            Some(job) => jobs.insert(partition.clone(), job),
            None => jobs.remove(partition),
        };
    }

    /// The requests since the store was made.
    pub fn requests(&self) -> Requests {
        self.lock().requests
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_sort_key(&self, key: &SortKey) -> Result<(), StoreError> {
        if key.is(self.schema.sort_key_type) { Ok(()) } else { reject("a key of the wrong type") }
    }

    fn check_query(&self, query: &ShardQuery) -> Result<(), StoreError> {
        if query.limit == 0 {
            return reject("a limit of 0");
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
                let shard = state.shards.entry(key.partition.clone()).or_default();
                shard.insert(key.sort.clone(), StoredItem::clone(item));
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
            let shard = state.shards.entry(key.partition.clone()).or_default();
            shard.insert(key.sort.clone(), item);
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
        state.requests.queries += 1;
        self.check_query(query)?;
        let end = state.page_ends.pop_front().unwrap_or(usize::MAX).max(1);
        let after = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let shard = state.shards.get(&query.partition).into_iter();
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
}

#[async_trait]
impl MetadataStore for MemoryStore {
    async fn get(
        &self,
        partition: &PartitionKey,
    ) -> Result<Dated<Option<CollectionMetadata>>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_gets += 1;
        let value = state.metadata.get(partition).cloned();
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn directory(&self) -> Result<Dated<Option<DirectoryItem>>, StoreError> {
        let mut state = self.lock();
        state.requests.directory_gets += 1;
        let value = Some(state.directory.clone()).filter(|item| item.rev > 0);
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_updates += 1;
        if state.directory.rev != seen.rev {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        state.directory = next.clone();
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    // Neither is counted: they come once for each environment.
    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        Ok(self.lock().owner.clone())
    }

    async fn claim(&self, stack_id: &str) -> Result<(), StoreError> {
        let owner = &mut self.lock().owner;
        if owner.is_some() {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        *owner =
            Some(Owner { stack_id: stack_id.to_owned(), metadata_table: "metadata".to_owned() });
        Ok(())
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.lock().locally_indexed_bytes)
    }

    async fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_transactions += 1;
        let partition = &metadata.partition;
        let is_new = !state.metadata.contains_key(partition)
            && (job.is_none() || !state.jobs.contains_key(partition));
        if !is_new || state.directory.rev != seen.rev {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        state.directory = next.clone();
        state.metadata.insert(partition.clone(), metadata.clone());
        state.jobs.extend(job.map(|job| (partition.clone(), job.clone())));
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn count_enlisting(&self, grant: &Grant, hash: u64) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.requests.metadata_updates += 1;
        let counted = state.granted.entry(grant.key().to_owned()).or_default();
        let has_room = u32::try_from(counted.len()).is_ok_and(|count| count < grant.most());
        if !has_room && !counted.contains(&hash) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        counted.insert(hash);
        Ok(())
    }

    async fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_updates += 1;
        let existing = state.metadata.get_mut(&seen.partition);
        let Some(existing) = existing.filter(|existing| lock_of(existing) == lock_of(seen)) else {
            return Err(StoreError::ConditionFailed { existing: None });
        };
        existing.clone_from(next);
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        let mut state = self.lock();
        state.requests.jobs += 1;
        let value = state.jobs.get(partition).cloned();
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_transactions += 1;
        let partition = &seen.partition;
        let job_is_as_seen =
            state.jobs.get(partition).map(lock_of_job) == seen_job.map(lock_of_job);
        let existing = state.metadata.get_mut(partition);
        let existing = existing.filter(|existing| lock_of(existing) == lock_of(seen));
        let Some(existing) = existing.filter(|_| job_is_as_seen) else {
            return Err(StoreError::ConditionFailed { existing: None });
        };
        existing.clone_from(next);
        state.jobs.insert(partition.clone(), job.clone());
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn save_job(&self, seen: &Job, next: &Job) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.jobs += 1;
        let existing = state.jobs.get_mut(&seen.partition);
        let Some(existing) = existing.filter(|job| lock_of_job(job) == lock_of_job(seen)) else {
            return Err(StoreError::ConditionFailed { existing: None });
        };
        existing.clone_from(next);
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        call: u64,
    ) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.requests.jobs += 1;
        state.lanes.insert((partition.clone(), lane), call);
        Ok(())
    }

    async fn remove_lane(&self, partition: &PartitionKey, lane: u32) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.requests.jobs += 1;
        state.lanes.remove(&(partition.clone(), lane));
        Ok(())
    }

    async fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_transactions += 1;
        let partition = &seen.partition;
        let job_is_as_seen =
            state.jobs.get(partition).map(lock_of_job) == Some(lock_of_job(seen_job));
        let existing = state.metadata.get_mut(partition);
        let existing = existing.filter(|existing| lock_of(existing) == lock_of(seen));
        let Some(existing) = existing.filter(|_| job_is_as_seen) else {
            return Err(StoreError::ConditionFailed { existing: None });
        };
        existing.clone_from(next);
        state.jobs.remove(partition);
        Ok(Dated { value: (), server_secs: self.clock.now().server_secs })
    }

    async fn resharding(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_queries += 1;
        Ok(state.listed(CollectionMetadata::needs_rebalancing, after))
    }

    async fn grown(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_queries += 1;
        let is_listed =
            |metadata: &CollectionMetadata| metadata.may_shrink() && !metadata.needs_rebalancing();
        Ok(state.listed(is_listed, after))
    }

    async fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
    ) -> Result<Dated<Ledger>, StoreError> {
        let mut state = self.lock();
        state.requests.ledger_gets += 1;
        let value = state.ledgers.get(&(partition.clone(), kind)).cloned().unwrap_or_default();
        Ok(Dated { value, server_secs: self.clock.now().server_secs })
    }

    async fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let mut state = self.lock();
        state.requests.ledger_updates += 1;
        let ledger = state.ledgers.entry((partition.clone(), kind)).or_default();
        ledger.apply(addition);
        Ok(Dated { value: ledger.clone(), server_secs: self.clock.now().server_secs })
    }

    async fn decisions(&self, partition: &PartitionKey) -> Result<DecisionHistory, StoreError> {
        let mut state = self.lock();
        state.requests.decisions += 1;
        Ok(state.decisions.get(partition).cloned().unwrap_or_default())
    }

    async fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
    ) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.requests.decisions += 1;
        let history = state.decisions.entry(partition.clone()).or_default();
        if history.rev != seen.rev {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        history.clone_from(next);
        Ok(())
    }

    async fn all_decisions(&self, after: Option<&str>) -> Result<DecisionsPage, StoreError> {
        let mut state = self.lock();
        state.requests.decisions += 1;
        let mut rest = state
            .decisions
            .iter()
            .filter(|(partition, _)| after.is_none_or(|after| partition.as_str() > after));
        let histories = rest.by_ref().take(state.page_items);
        let histories = histories.map(|(of, history)| (of.clone(), history.clone()));
        let histories = histories.collect::<Vec<_>>();
        let next = histories.last().filter(|_| rest.next().is_some());
        let next = next.map(|(partition, _)| partition.to_string());
        Ok(DecisionsPage { histories, damaged: Vec::new(), next })
    }
}

impl State {
    /// A page of the collections of which this holds.
    fn listed(
        &self,
        is_listed: impl Fn(&CollectionMetadata) -> bool,
        after: Option<&str>,
    ) -> CollectionsPage {
        let listed = self.metadata.values().filter(|metadata| is_listed(metadata));
        let partitions = listed.map(|metadata| &metadata.partition);
        let mut rest = partitions.filter(|key| after.is_none_or(|after| key.as_str() > after));
        let partitions = rest.by_ref().take(self.page_items).cloned().collect::<Vec<_>>();
        let next = partitions.last().filter(|_| rest.next().is_some());
        let next = next.map(ToString::to_string);
        CollectionsPage { partitions, damaged: Vec::new(), next }
    }
}

#[async_trait]
impl CollectionCatalog for MemoryStore {
    async fn collections(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        let mut state = self.lock();
        state.requests.metadata_scans += 1;
        // Jobs and lanes lie in the same table, and a page may hold or end with one.
        let collections = state
            .metadata
            .keys()
            .map(|partition| (partition.as_str().to_owned(), Some(partition.clone())));
        let jobs = state.jobs.keys().map(|of| (format!("{}{of}", Job::KEY_PREFIX), None));
        let lanes = state.lanes.keys().map(|(partition, lane)| {
            (LaneKey { lane: *lane, partition: partition.as_str() }.to_string(), None)
        });
        let mut keys = collections.chain(jobs).chain(lanes).collect::<BTreeMap<_, _>>().into_iter();
        let mut rest = keys.by_ref().filter(|(key, _)| after.is_none_or(|after| **key > *after));
        let page = rest.by_ref().take(state.page_items).collect::<Vec<_>>();
        let next = page.last().filter(|_| rest.next().is_some()).map(|(key, _)| key.clone());
        Ok(CollectionsPage {
            partitions: page.into_iter().filter_map(|(_, partition)| partition).collect(),
            damaged: Vec::new(),
            next,
        })
    }
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

/// What must be as seen for a metadata item to be changed.
fn lock_of(metadata: &CollectionMetadata) -> (u64, u64) {
    (metadata.rev, metadata.last_updated_secs)
}

/// What must be as seen for a job to be changed.
fn lock_of_job(job: &Job) -> (Generation, u64) {
    (job.generation, job.rev)
}

fn reject<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::Rejected(format!("DynamoDB would refuse this request: {what}")))
}
