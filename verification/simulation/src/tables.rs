//! What lies at the server: both tables, and what one request does to them at one moment.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use dynashard_core::ports::{
    Action, Arrival, BatchPage, CollectionsPage, Condition, MAX_KEYS_PER_BATCH_GET, ShardPage,
    ShardQuery, StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    CollectionMetadata, DecisionHistory, DirectoryItem, Generation, Grant, Job, Ledger, LedgerKind,
    Owner, Phase, PinnedTime, StoredItem,
};
use dynashard_keys::{PartitionKey, PhysicalKey, PhysicalPartitionKey, SortKey};

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    shards: BTreeMap<PhysicalPartitionKey, BTreeMap<SortKey, Cell>>,
    directory: DirectoryItem,
    pub(crate) owner: Option<Owner>,
    /// The last transaction that has enlisted a collection, while reads may see it in part.
    enlisting: Vec<Enlisting>,
    pub(crate) metadata: BTreeMap<PartitionKey, CollectionMetadata>,
    pub(crate) jobs: BTreeMap<PartitionKey, Job>,
    index: BTreeMap<PartitionKey, bool>,
    /// Changes of the index that are not visible yet.
    index_lag: VecDeque<(Duration, PartitionKey, bool)>,
    /// When each reshard was closed.
    pub(crate) closed: BTreeMap<(PartitionKey, Generation), Duration>,
    /// Collections whose metadata or job changed since the last look, or one of whose lanes was called:
    /// each with that lane, or 0.
    pub(crate) changed: Vec<(PartitionKey, u32)>,
    /// The items by which rebalancers are called to collections beside those of their jobs.
    lanes: BTreeSet<(PartitionKey, u32)>,
    pub(crate) ledgers: BTreeMap<(PartitionKey, LedgerKind), Ledger>,
    pub(crate) decisions: BTreeMap<PartitionKey, DecisionHistory>,
    /// What is counted to each grant, by the key of the grant.
    granted: BTreeMap<String, BTreeSet<u64>>,
    /// When the request that is being executed is answered, if ever: strong reads see what it did from then on (A3).
    pub(crate) answered_at: Option<Duration>,
    /// Requests that DynamoDB would have refused as wrong.
    pub(crate) wrong_requests: Vec<String>,
}

/// A transaction that has enlisted a collection.
#[derive(Debug)]
struct Enlisting {
    partition: PartitionKey,
    /// When strong reads see the metadata.
    metadata_visible: Duration,
    /// When they see the collection listed.
    list_visible: Duration,
    before: DirectoryItem,
}

impl Enlisting {
    fn is_over(&self) -> Duration {
        self.metadata_visible.max(self.list_visible)
    }
}

/// What lies under one key.
#[derive(Debug, Clone, Default)]
struct Cell {
    committed: Option<StoredItem>,
    written_at: Duration,
    /// What reads saw before, oldest first, each until when. Reads still see the last for a while where a transaction is
    /// half visible.
    past: Vec<(Option<StoredItem>, Duration)>,
    /// A transaction is not over for this item before this moment.
    in_flight_until: Duration,
}

impl Cell {
    /// What a strong read saw at this moment, and what a replica shows that lags behind to it.
    fn visible(&self, at: Duration) -> Option<&StoredItem> {
        let seen_then = self.past.iter().find(|(_, until)| at < *until);
        seen_then.map_or(self.committed.as_ref(), |(past, _)| past.as_ref())
    }

    /// Reads see what is there until this moment, and then `next`.
    fn change(&mut self, next: Option<StoredItem>, visible: Duration) {
        let before = std::mem::replace(&mut self.committed, next);
        self.past.push((before, visible));
    }

    fn is_in_flight(&self, now: Duration) -> bool {
        now < self.in_flight_until
    }
}

impl Tables {
    fn cell(&self, key: &PhysicalKey) -> Option<&Cell> {
        self.shards.get(&key.partition)?.get(&key.sort)
    }

    fn cell_mut(&mut self, key: &PhysicalKey) -> &mut Cell {
        let shard = self.shards.entry(key.partition.clone()).or_default();
        shard.entry(key.sort.clone()).or_default()
    }

    fn committed(&self, key: &PhysicalKey) -> Option<&StoredItem> {
        self.cell(key)?.committed.as_ref()
    }

    fn is_in_flight(&self, key: &PhysicalKey, now: Duration) -> bool {
        self.cell(key).is_some_and(|cell| cell.is_in_flight(now))
    }

    /// Everything in the main table, and when it was written.
    pub(crate) fn contents(&self) -> Vec<(PhysicalKey, StoredItem, Duration)> {
        let cells = self.shards.iter().flat_map(|(partition, shard)| {
            shard.iter().filter_map(|(sort, cell)| {
                let key = PhysicalKey { partition: partition.clone(), sort: sort.clone() };
                Some((key, cell.committed.clone()?, cell.written_at))
            })
        });
        cells.collect()
    }

    /// Items that have an attribute, wherever they lie, if no transaction is under way for any home of them. DynamoDB
    /// promises no moment at which it deletes an item that has expired, so it may as well wait for those.
    pub(crate) fn expiring(&self, attribute: &str, now: Duration) -> Vec<PhysicalKey> {
        let is_moving = |sort: &SortKey| {
            let mut cells = self.shards.values().filter_map(|shard| shard.get(sort));
            cells.any(|cell| cell.is_in_flight(now))
        };
        let contents = self.contents().into_iter();
        let expiring = contents.filter(|(key, item, _)| {
            item.is_live() && item.attributes.contains_key(attribute) && !is_moving(&key.sort)
        });
        expiring.map(|(key, ..)| key).collect()
    }

    /// DynamoDB deletes an item that has expired, on no condition.
    pub(crate) fn expire(&mut self, key: &PhysicalKey, now: Duration) -> Option<StoredItem> {
        let cell = self.cell_mut(key);
        let expired = cell.committed.clone();
        cell.written_at = now;
        cell.change(None, now);
        expired
    }

    /// Whether the directory pins an attribute by which items expire.
    pub(crate) fn pins_expiry(&self) -> bool {
        let pinned = self.directory.pinned.as_ref();
        pinned.is_some_and(|pinned| !pinned.ttl_attributes.is_empty())
    }

    pub(crate) fn get(&self, key: &PhysicalKey, now: Duration) -> Option<StoredItem> {
        self.cell(key)?.visible(now).cloned()
    }

    pub(crate) fn write(&mut self, write: &Write, now: Duration) -> Result<f64, StoreError> {
        let key = &write.key;
        if self.is_in_flight(key, now) {
            return Err(StoreError::Conflict);
        }
        let existing = self.committed(key);
        if !write.condition.holds(existing) {
            let existing = existing.cloned().map(Box::new);
            return Err(StoreError::ConditionFailed { existing });
        }
        let cell = self.cell_mut(key);
        cell.written_at = now;
        let next = match &write.action {
            Action::Put(item) => Some(StoredItem::clone(item)),
            Action::Delete => None,
        };
        cell.change(next, now);
        Ok(1.0)
    }

    pub(crate) fn get_both(
        &self,
        keys: &[PhysicalKey; 2],
        now: Duration,
    ) -> Result<[Option<StoredItem>; 2], StoreError> {
        if keys.iter().any(|key| self.is_in_flight(key, now)) {
            return Err(StoreError::Conflict);
        }
        Ok([0, 1].map(|at| self.committed(&keys[at]).cloned()))
    }

    /// `visible` says when plain reads see the old and the new home change.
    pub(crate) fn transfer(
        &mut self,
        transfer: &Transfer,
        visible: [Duration; 2],
        now: Duration,
    ) -> Result<Transferred, StoreError> {
        let Transfer { old, new, arrival, .. } = transfer;
        if old == new {
            return self.refuse("an item twice in one transaction");
        }
        if self.is_in_flight(old, now) || self.is_in_flight(new, now) {
            return Err(StoreError::Conflict);
        }
        let holds = |condition: Condition, at: Option<&StoredItem>| condition.holds(at);
        let at_new = self.committed(new);
        if !holds(transfer.new_condition(), at_new) {
            return Ok(Transferred::Refused { at_new: at_new.cloned().map(Box::new) });
        }
        if !holds(transfer.old_condition(), self.committed(old)) {
            return Ok(Transferred::Refused { at_new: None });
        }
        let [old_visible, new_visible] = self.by_the_answer(visible);
        // Each item refuses other writes until it shows its own half, and not until both do (A3).
        let mut change = |key: &PhysicalKey, to: Option<StoredItem>, visible: Duration| {
            let cell = self.cell_mut(key);
            cell.change(to, visible);
            cell.written_at = now;
            cell.in_flight_until = visible;
        };
        change(old, Some(transfer.marker()), old_visible);
        match arrival {
            Arrival::Copy(item) => change(new, Some(item.clone()), new_visible),
            // A condition check changes nothing, but the transaction holds the item.
            Arrival::Present(_) => self.cell_mut(new).in_flight_until = new_visible,
        }
        Ok(Transferred::Done { consumed_wcu: 4.0 })
    }

    /// When strong reads see the halves of a transaction, at the latest when it is answered.
    fn by_the_answer(&self, visible: [Duration; 2]) -> [Duration; 2] {
        visible.map(|half| self.answered_at.map_or(half, |answered| half.min(answered)))
    }

    pub(crate) fn batch_get(
        &mut self,
        keys: &[PhysicalKey],
        processed: usize,
        now: Duration,
    ) -> Result<BatchPage, StoreError> {
        if keys.is_empty() || keys.len() > MAX_KEYS_PER_BATCH_GET {
            return self.refuse("a batch of no keys or of more than 100");
        }
        if keys.iter().collect::<HashSet<_>>().len() < keys.len() {
            return self.refuse("a key twice in one batch");
        }
        let (processed, unprocessed) = keys.split_at(processed.min(keys.len()));
        let items = processed.iter().filter_map(|key| Some((key.clone(), self.get(key, now)?)));
        let items = items.collect();
        let unprocessed = unprocessed.to_vec();
        Ok(BatchPage { items, unprocessed, consumed_rcu: 1.0, ..BatchPage::default() })
    }

    /// A page that ends after `most` items, if not before, as it was at this moment.
    pub(crate) fn query(
        &mut self,
        query: &ShardQuery,
        most: usize,
        at: Duration,
    ) -> Result<ShardPage, StoreError> {
        if query.limit == 0 {
            return self.refuse("a limit of 0");
        }
        if query.after.as_ref().is_some_and(|after| !query.range.contains(after)) {
            return self.refuse("a starting key outside the boundaries of the query");
        }
        let passed = |sort: &SortKey| match &query.after {
            None => false,
            Some(after) if query.ascending => sort <= after,
            Some(after) => sort >= after,
        };
        let mut matching = self.shards.get(&query.partition).map_or_else(Vec::new, |shard| {
            let matching = shard
                .iter()
                .filter(|(sort, _)| query.range.contains(sort) && !passed(sort))
                .filter_map(|(sort, cell)| Some((sort.clone(), cell.visible(at)?.clone())));
            matching.collect::<Vec<_>>()
        });
        if !query.ascending {
            matching.reverse();
        }
        let most = usize::try_from(query.limit).unwrap_or(usize::MAX).min(most);
        // Where it ends for the limit, DynamoDB does not look whether anything follows.
        let next = matching.get(most - 1).map(|(sort, _)| sort.clone());
        matching.truncate(most);
        Ok(ShardPage {
            items_read: u64::try_from(matching.len()).unwrap_or(u64::MAX),
            items: matching,
            next,
            consumed_rcu: 1.0,
        })
    }

    /// The metadata that a strong read sees.
    pub(crate) fn metadata_of(
        &self,
        partition: &PartitionKey,
        now: Duration,
    ) -> Option<CollectionMetadata> {
        let hides = |enlisting: &&Enlisting| {
            enlisting.partition == *partition && now < enlisting.metadata_visible
        };
        if self.enlisting.iter().any(|enlisting| hides(&enlisting)) {
            return None;
        }
        self.metadata.get(partition).cloned()
    }

    /// The job that a strong read sees.
    pub(crate) fn job_of(&self, partition: &PartitionKey, now: Duration) -> Option<Job> {
        self.metadata_of(partition, now)?;
        self.jobs.get(partition).cloned()
    }

    /// The directory item that a strong read sees.
    pub(crate) fn directory(&self, now: Duration) -> Option<DirectoryItem> {
        let hides = |enlisting: &&Enlisting| now < enlisting.list_visible;
        let before = self.enlisting.iter().find(hides).map(|enlisting| enlisting.before.clone());
        Some(before.unwrap_or_else(|| self.directory.clone())).filter(|item| item.rev > 0)
    }

    /// Whether a transaction that enlists a collection is not over for its metadata.
    fn is_being_enlisted(&self, partition: &PartitionKey, now: Duration) -> bool {
        let holds = |enlisting: &Enlisting| enlisting.partition == *partition;
        self.enlisting.iter().any(|enlisting| holds(enlisting) && now < enlisting.is_over())
    }

    /// What is pinned of T.
    pub(crate) fn pinned_term(&self) -> Option<PinnedTime> {
        self.directory.pinned.as_ref().map(|pinned| pinned.lease_term)
    }

    pub(crate) fn claim(&mut self, stack_id: &str) -> Result<(), StoreError> {
        if self.owner.is_some() {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        let metadata_table = "metadata".to_owned();
        self.owner = Some(Owner { stack_id: stack_id.to_owned(), metadata_table });
        Ok(())
    }

    pub(crate) fn save_directory(
        &mut self,
        (seen, next): (u64, DirectoryItem),
        now: Duration,
    ) -> Result<(), StoreError> {
        if self.enlisting.iter().any(|enlisting| now < enlisting.is_over()) {
            return Err(StoreError::Conflict);
        }
        if self.directory.rev != seen {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        self.directory = next;
        Ok(())
    }

    pub(crate) fn count_enlisting(&mut self, grant: &Grant, hash: u64) -> Result<(), StoreError> {
        let counted = self.granted.entry(grant.key().to_owned()).or_default();
        let has_room = u32::try_from(counted.len()).is_ok_and(|count| count < grant.most());
        if !has_room && !counted.contains(&hash) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        counted.insert(hash);
        Ok(())
    }

    /// `visible` says when strong reads see the metadata, with the job, and the list change.
    pub(crate) fn enlist(
        &mut self,
        (seen, next): (u64, DirectoryItem),
        metadata: &CollectionMetadata,
        job: Option<&Job>,
        visible: [Duration; 2],
        indexed_at: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        self.enlisting.retain(|enlisting| now < enlisting.is_over());
        if !self.enlisting.is_empty() {
            return Err(StoreError::Conflict);
        }
        let partition = metadata.partition.clone();
        if self.directory.rev != seen || self.metadata.contains_key(&partition) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        let [metadata_visible, list_visible] = self.by_the_answer(visible);
        let before = std::mem::replace(&mut self.directory, next);
        let enlisting =
            Enlisting { partition: partition.clone(), metadata_visible, list_visible, before };
        self.enlisting.push(enlisting);
        self.jobs.extend(job.map(|job| (partition.clone(), job.clone())));
        self.publish(metadata, indexed_at);
        Ok(())
    }

    /// Seed 000's lock, as every store has to keep it.
    fn is_as_seen(&self, seen: &CollectionMetadata) -> bool {
        let lock = |metadata: &CollectionMetadata| (metadata.rev, metadata.last_updated_secs);
        self.metadata.get(&seen.partition).map(lock) == Some(lock(seen))
    }

    fn job_is_as_seen(&self, partition: &PartitionKey, seen: Option<&Job>) -> bool {
        let lock = |job: &Job| (job.generation, job.rev);
        self.jobs.get(partition).map(lock) == seen.map(lock)
    }

    pub(crate) fn update(
        &mut self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        indexed_at: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        if self.is_being_enlisted(&seen.partition, now) {
            return Err(StoreError::Conflict);
        }
        if !self.is_as_seen(seen) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        if matches!(seen.phase, Phase::Move { .. }) && next.phase == Phase::Stable {
            self.closed.insert((next.partition.clone(), next.generation), now);
        }
        self.publish(next, indexed_at);
        Ok(())
    }

    fn publish(&mut self, next: &CollectionMetadata, indexed_at: Duration) {
        self.metadata.insert(next.partition.clone(), next.clone());
        self.changed.push((next.partition.clone(), 0));
        let indexed_at =
            self.index_lag.back().map_or(indexed_at, |(last, ..)| indexed_at.max(*last));
        self.index_lag.push_back((indexed_at, next.partition.clone(), next.needs_rebalancing()));
    }

    pub(crate) fn begin(
        &mut self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
        indexed_at: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        if !self.job_is_as_seen(&seen.partition, seen_job) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        self.update(seen, next, indexed_at, now)?;
        self.jobs.insert(job.partition.clone(), job.clone());
        Ok(())
    }

    pub(crate) fn save_job(
        &mut self,
        seen: &Job,
        next: &Job,
        now: Duration,
    ) -> Result<(), StoreError> {
        if self.is_being_enlisted(&seen.partition, now) {
            return Err(StoreError::Conflict);
        }
        if !self.job_is_as_seen(&seen.partition, Some(seen)) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        if next.yielded {
            self.changed.push((next.partition.clone(), 0));
        }
        self.jobs.insert(next.partition.clone(), next.clone());
        Ok(())
    }

    pub(crate) fn call_lane(&mut self, partition: &PartitionKey, lane: u32) {
        self.lanes.insert((partition.clone(), lane));
        self.changed.push((partition.clone(), lane));
    }

    pub(crate) fn remove_lane(&mut self, partition: &PartitionKey, lane: u32) {
        self.lanes.remove(&(partition.clone(), lane));
    }

    pub(crate) fn finish(
        &mut self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
        indexed_at: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        if !self.job_is_as_seen(&seen.partition, Some(seen_job)) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        self.update(seen, next, indexed_at, now)?;
        self.jobs.remove(&seen.partition);
        Ok(())
    }

    /// The sparse index as it is visible now, in pages of `most`.
    pub(crate) fn resharding(
        &mut self,
        after: Option<&str>,
        most: usize,
        now: Duration,
    ) -> CollectionsPage {
        while let Some((_, partition, needs)) = self.index_lag.pop_front_if(|(at, ..)| *at <= now) {
            self.index.insert(partition, needs);
        }
        let needing =
            self.index.iter().filter(|(_, needs)| **needs).map(|(partition, _)| partition);
        let mut rest =
            needing.filter(|partition| after.is_none_or(|after| partition.as_str() > after));
        let partitions = rest.by_ref().take(most).cloned().collect::<Vec<_>>();
        let next = partitions.last().filter(|_| rest.next().is_some());
        let next = next.map(ToString::to_string);
        CollectionsPage { partitions, damaged: Vec::new(), next }
    }

    /// Whether nothing is left for the rebalancer to do.
    pub(crate) fn is_settled(&self) -> bool {
        let at_rest = |metadata: &CollectionMetadata| !metadata.needs_rebalancing();
        self.jobs.is_empty() && self.metadata.values().all(at_rest)
    }

    fn refuse<T>(&mut self, what: &str) -> Result<T, StoreError> {
        self.wrong_requests.push(what.to_owned());
        Err(StoreError::Rejected(what.to_owned()))
    }
}
