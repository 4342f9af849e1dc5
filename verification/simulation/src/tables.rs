//! What lies at the server: both tables, and what one request does to them at one moment.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use dynashard_core::ports::{
    Action, Adjusted, Arrival, BatchPage, Change, Condition, List, ListPage, Listed,
    MAX_KEYS_PER_BATCH_GET, Record, RecordKey, Seen, ShardPage, ShardQuery, StoreError, Transfer,
    Transferred, Write,
};
use dynashard_core::{
    Adjustment, DirectoryItem, Generation, Owner, Phase, Pinned, PinnedTime, Settings, StoredItem,
};
use dynashard_keys::{PartitionKey, PhysicalKey, PhysicalPartitionKey, SortKey};
use dynashard_testkit::{Records, page};

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    shards: BTreeMap<PhysicalPartitionKey, BTreeMap<SortKey, Cell>>,
    pub(crate) records: Records,
    pub(crate) owner: Option<Owner>,
    /// The transactions that have enlisted collections, while reads may see them in part.
    enlisting: Vec<Enlisting>,
    /// Which collections the index lists, as far as it shows.
    index: BTreeMap<PartitionKey, bool>,
    /// Changes of the index that are not visible yet.
    index_lag: VecDeque<(Duration, PartitionKey, bool)>,
    /// When each reshard was closed.
    pub(crate) closed: BTreeMap<(PartitionKey, Generation), Duration>,
    /// Collections whose metadata or job changed since the last look, or one of whose lanes was called:
    /// each with that lane, or 0.
    pub(crate) changed: Vec<(PartitionKey, u32)>,
    /// When the request that is being executed is answered, if ever: strong reads see what it did from then on (A3).
    pub(crate) answered_at: Option<Duration>,
    /// Requests that DynamoDB would have refused as wrong.
    pub(crate) wrong_requests: Vec<String>,
}

/// A condition of a write does not hold of what is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionFailed;

/// A transaction that has enlisted a collection.
#[derive(Debug)]
struct Enlisting {
    partition: PartitionKey,
    /// When strong reads see the metadata, with the job.
    metadata_visible: Duration,
    /// When they see the collection listed.
    list_visible: Duration,
    /// Where it is listed, and what was there before.
    listed_in: RecordKey,
    before: Option<Record>,
}

impl Enlisting {
    /// When all of it shows.
    fn is_over_at(&self) -> Duration {
        self.metadata_visible.max(self.list_visible)
    }

    /// Whether the transaction holds a record, which refuses other changes until it shows its half.
    fn holds(&self, key: &RecordKey, now: Duration) -> bool {
        match key {
            RecordKey::Collection(partition) | RecordKey::Job(partition) => {
                *partition == self.partition && now < self.metadata_visible
            }
            key => *key == self.listed_in && now < self.list_visible,
        }
    }
}

/// What reads saw, oldest first, each until when.
type Past = Vec<(Option<StoredItem>, Duration)>;

/// What lies under one key.
#[derive(Debug, Clone, Default)]
struct Cell {
    committed: Option<StoredItem>,
    written_at: Duration,
    /// What reads saw before, oldest first, each until when. Reads still see the last for a while where a transaction is
    /// half visible.
    past: Past,
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

    /// What has lain under each key of the main table, one after the other, and lies there now: its stream tells of each change.
    pub(crate) fn lives(&self) -> Vec<(PhysicalKey, Vec<Option<StoredItem>>)> {
        let lives = self.pasts().into_iter();
        lives.map(|(key, past)| (key, past.into_iter().map(|(item, _)| item).collect())).collect()
    }

    /// As [`Tables::lives`], each until when reads saw it.
    pub(crate) fn pasts(&self) -> Vec<(PhysicalKey, Past)> {
        let cells = self.shards.iter().flat_map(|(partition, shard)| {
            shard.iter().map(|(sort, cell)| {
                let key = PhysicalKey { partition: partition.clone(), sort: sort.clone() };
                let now = (cell.committed.clone(), Duration::MAX);
                (key, cell.past.iter().cloned().chain([now]).collect())
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
        self.pinned().is_some_and(|pinned| !pinned.ttl_attributes.is_empty())
    }

    pub(crate) fn get(&self, key: &PhysicalKey, now: Duration) -> Option<StoredItem> {
        self.cell(key)?.visible(now).cloned()
    }

    pub(crate) fn write(&mut self, write: &Write, now: Duration) -> Result<f64, StoreError> {
        let key = &write.key;
        let (is_done, existing) = self.change(key, now, |existing| {
            if !write.condition.holds(existing) {
                return Err(ConditionFailed);
            }
            Ok(match &write.action {
                Action::Put(item) => Some(StoredItem::clone(item)),
                Action::Delete => None,
            })
        })?;
        if is_done {
            return Ok(1.0);
        }
        Err(StoreError::ConditionFailed { existing: existing.map(Box::new) })
    }

    /// A write of which `next` says what it leaves of what is there. Whether it was carried out, and what was there.
    pub(crate) fn change(
        &mut self,
        key: &PhysicalKey,
        now: Duration,
        next: impl FnOnce(Option<&StoredItem>) -> Result<Option<StoredItem>, ConditionFailed>,
    ) -> Result<(bool, Option<StoredItem>), StoreError> {
        if self.is_in_flight(key, now) {
            return Err(StoreError::Conflict);
        }
        let existing = self.committed(key).cloned();
        let next = next(existing.as_ref());
        let is_done = next.is_ok();
        if let Ok(next) = next {
            let cell = self.cell_mut(key);
            cell.written_at = now;
            cell.change(next, now);
        }
        Ok((is_done, existing))
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

    /// Changes of cells, which are seen at once where there is one, and of several as the halves of a transaction: the first, and the
    /// others.
    pub(crate) fn adjust(
        &mut self,
        adjustments: &[Adjustment],
        visible: [Duration; 2],
        now: Duration,
    ) -> Result<Adjusted, StoreError> {
        if adjustments.iter().any(|it| self.is_in_flight(&it.key, now)) {
            return Err(StoreError::Conflict);
        }
        let is_single = adjustments.len() == 1;
        let mut after = Vec::new();
        for adjustment in adjustments {
            let existing = self.committed(&adjustment.key);
            let Some(item) = adjustment.carried_out(existing) else {
                let existing = existing.filter(|_| is_single).cloned().map(Box::new);
                return Err(StoreError::ConditionFailed { existing });
            };
            after.push(item);
        }
        let item = after.first().filter(|_| is_single).cloned();
        let [first, others] = if is_single { [now; 2] } else { self.by_the_answer(visible) };
        let visible = std::iter::once(first).chain(std::iter::repeat(others));
        for ((adjustment, item), visible) in adjustments.iter().zip(after).zip(visible) {
            let cell = self.cell_mut(&adjustment.key);
            cell.change(Some(item), visible);
            cell.written_at = now;
            cell.in_flight_until = visible;
        }
        Ok(Adjusted { item, consumed_wcu: 1.0 })
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

    fn pinned(&self) -> Option<Pinned> {
        self.records.get::<DirectoryItem>(&())?.pinned
    }

    /// What is pinned of T.
    pub(crate) fn pinned_term(&self) -> Option<PinnedTime> {
        self.pinned().map(|pinned| pinned.lease_term)
    }

    pub(crate) fn claim(&mut self, owner: &Owner) -> Result<(), StoreError> {
        if self.owner.as_ref().is_some_and(|existing| existing.stack_id != owner.stack_id) {
            return Err(StoreError::ConditionFailed { existing: None });
        }
        self.owner = Some(owner.clone());
        Ok(())
    }

    /// The record that a strong read sees.
    pub(crate) fn record(&self, key: &RecordKey, now: Duration) -> Option<Record> {
        for enlisting in &self.enlisting {
            match key {
                key if *key == enlisting.listed_in && now < enlisting.list_visible => {
                    return enlisting.before.clone();
                }
                RecordKey::Collection(of) | RecordKey::Job(of)
                    if *of == enlisting.partition && now < enlisting.metadata_visible =>
                {
                    return None;
                }
                _ => {}
            }
        }
        self.records.read(key).cloned()
    }

    /// `visible` says when strong reads see the halves of what enlists a collection: the metadata, with the job, and the
    /// list.
    pub(crate) fn commit(
        &mut self,
        changes: &[Change],
        visible: [Duration; 2],
        indexed_at: Duration,
        now: Duration,
    ) -> Result<(), StoreError> {
        let is_held = |Change { key, .. }: &Change| {
            self.enlisting.iter().any(|enlisting| enlisting.holds(key, now))
        };
        if changes.iter().any(is_held) {
            return Err(StoreError::Conflict);
        }
        self.enlisting.retain(|enlisting| now < enlisting.is_over_at());
        let listing = changes.iter().find(|change| change.key.is_of_directory());
        let listing = listing.map(|change| &change.key);
        let listing = listing.map(|key| (key.clone(), self.records.read(key).cloned()));
        self.records.commit(changes)?;
        let [metadata_visible, list_visible] = self.by_the_answer(visible);
        for Change { key, seen, next } in changes {
            match (key, next) {
                (RecordKey::Collection(partition), Some(Record::Collection(next))) => {
                    let was_in_move = matches!(seen, Seen::Record(seen) if matches!(
                        &**seen, Record::Collection(seen) if matches!(seen.phase, Phase::Move { .. })
                    ));
                    if was_in_move && next.phase == Phase::Stable {
                        self.closed.insert((partition.clone(), next.generation), now);
                    }
                    if *seen == Seen::Nothing
                        && let Some((listed_in, before)) = listing.clone()
                    {
                        let partition = partition.clone();
                        self.enlisting.push(Enlisting {
                            partition,
                            metadata_visible,
                            list_visible,
                            listed_in,
                            before,
                        });
                    }
                    self.changed.push((partition.clone(), 0));
                    let last = self.index_lag.back().map(|(last, ..)| *last);
                    let indexed_at = last.map_or(indexed_at, |last| indexed_at.max(last));
                    let entry = (indexed_at, partition.clone(), next.needs_rebalancing());
                    self.index_lag.push_back(entry);
                }
                (RecordKey::Job(partition), Some(Record::Job(job))) if job.yielded => {
                    self.changed.push((partition.clone(), 0));
                }
                (RecordKey::Lane(partition, lane), Some(_)) => {
                    self.changed.push((partition.clone(), *lane));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A list as its index shows it now, in pages of `most`.
    pub(crate) fn list(
        &mut self,
        list: List,
        after: Option<&str>,
        most: usize,
        now: Duration,
    ) -> ListPage<Listed> {
        while let Some((_, partition, needs)) = self.index_lag.pop_front_if(|(at, ..)| *at <= now) {
            self.index.insert(partition, needs);
        }
        let key = |listed: &Listed| listed.partition.to_string();
        if list != List::Resharding {
            return page(self.records.listed(list), key, after, most);
        }
        let listed = self.index.iter().filter(|(_, needs)| **needs);
        let listed = listed.map(|(of, _)| Listed { partition: of.clone(), decisions: None });
        page(listed, key, after, most)
    }

    /// The keys of all collections that strong reads see now, in pages of `most`.
    pub(crate) fn collections(
        &self,
        after: Option<&str>,
        most: usize,
        now: Duration,
    ) -> ListPage<PartitionKey> {
        let collections = self.records.iter().filter_map(|(key, _)| match key {
            RecordKey::Collection(of) if self.record(key, now).is_some() => Some(of.clone()),
            _ => None,
        });
        page(collections, ToString::to_string, after, most)
    }

    /// Has one item list collections, as an earlier version has pinned it.
    pub(crate) fn begin_with_list(&mut self, settings: &Settings) {
        let pinned = Pinned { format: Pinned::LISTED, ..Pinned::of(settings) };
        let directory = DirectoryItem::default().with_pinned(pinned);
        self.records.place(RecordKey::Directory, Some(Record::Directory(directory)));
    }

    /// Whether nothing is left for the rebalancer to do.
    pub(crate) fn is_settled(&self) -> bool {
        self.records.iter().all(|(_, record)| match record {
            Record::Job(_) => false,
            Record::Collection(metadata) => !metadata.needs_rebalancing(),
            _ => true,
        })
    }

    fn refuse<T>(&mut self, what: &str) -> Result<T, StoreError> {
        self.wrong_requests.push(what.to_owned());
        Err(StoreError::Rejected(what.to_owned()))
    }
}
