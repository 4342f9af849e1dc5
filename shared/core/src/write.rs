use std::future::Future;
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_lock::{Semaphore, SemaphoreGuard};
use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, Placement, ShardId};
use futures_util::stream::{self, StreamExt};
use twox_hash::XxHash64;

use crate::directory::{Directory, Known};
use crate::fan_out::FAN_OUT;
use crate::item::take_key;
use crate::ports::{
    Action, Clock, Condition, Consistency, Entropy, Expected, ItemStore, MetadataStore, StoreError,
    Write,
};
use crate::read::is_marker_of;
use crate::reshard::{Homes, OldHome, Unsettled, settle, settle_live};
use crate::retry::{Attempts, refusal, within};
use crate::{
    Attributes, Code, Deadline, Error, Kind, NewItem, ScalingMode, StoredItem, Throttle, Version,
    merge_patch,
};

/// Puts, patches and deletes single items.
///
/// Every write is one guarded request to the item's home (protocol: "The guard on every write").
/// What DynamoDB definitely refused is sent again, with full jitter, until the deadline; a write
/// whose fate is unknown never is.
pub struct Writer<I, M, C, E> {
    items: I,
    directory: Directory<M, C, E>,
    backoff_seed: u64,
    /// Held by each request of a write while it is under way, and not while it waits to be tried again.
    slots: Semaphore,
}

/// How many requests of one environment's writes are under way at once, reads of what is to be
/// written included. `BatchWriteItem` cannot carry the guard, so a batch is single writes side by
/// side.
const REQUESTS_IN_FLIGHT: usize = 64;

/// No write begins with less time than this before its deadline: one that is cut off has an unknown
/// outcome, and one that was never sent has not.
const LEAST_WRITE_TIME: Duration = Duration::from_secs(1);

/// What the client asked about the item that is there (RFC 9110, 13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// `If-None-Match: *`: there is no item.
    Absent,
    /// `If-Match: *`: there is an item.
    Exists,
    /// `If-Match: "<etag>"`: there is this version of it.
    Version(Version),
    /// `If-Match` with entity tags that no item ever had. It is refused where the others are checked:
    /// a request that is wrong for another reason is told that one.
    Never,
}

/// Where a write landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The item's shard.
    pub shard: ShardId,
    /// The version that the write gave it.
    pub version: Version,
}

/// What became of one request that was answered in time.
enum Step {
    Done,
    /// The guard held, but not what the operation expected.
    Unexpected,
    /// Nothing happened, and the operation begins again.
    Again,
}

/// What a delete is to delete.
enum Target {
    /// There is no item.
    Nothing,
    /// The item in this shard, if it is as expected.
    Item(ShardId, Expected),
}

/// What became of the removal of an item that may be in any shard.
enum Everywhere {
    Deleted,
    /// Items may have passed from a shard not yet visited to one that was: begin again.
    LayoutChanged,
}

/// What the removal of an item from one shard came upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InShard {
    /// Nothing, or nothing any more.
    Nothing,
    /// A marker of the running reshard.
    Marker,
    LayoutChanged,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// A writer over these stores.
    pub fn new(items: I, directory: Directory<M, C, E>) -> Self {
        let backoff_seed = directory.entropy().next_u64();
        Self { items, directory, backoff_seed, slots: Semaphore::new(REQUESTS_IN_FLIGHT) }
    }

    /// What the writer knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Stores an item in place of what is there.
    pub async fn put(
        &self,
        item: &NewItem,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        let key = item.key();
        let version = self.draw_version();
        let mut attempts = self.attempts(deadline);
        loop {
            let known = self.collection_to_put_into(key, precondition, deadline).await?;
            let expected = expected(precondition)?;
            let new_home = match precondition {
                Precondition::None => blind_home(key, &known),
                _ => None,
            };
            let shard = match new_home {
                Some(shard) => shard,
                None => match self.settled_shard(key, &known, deadline, &mut attempts).await? {
                    Some(shard) => shard,
                    None => continue,
                },
            };
            let item = StoredItem {
                attributes: item.attributes().clone(),
                generation: known.metadata.generation,
                version,
                forwarded: false,
            };
            let write = self.guarded(key, shard, Action::Put(item), expected, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(Written { shard, version }),
                Step::Unexpected => return Err(precondition_failed()),
                Step::Again => {}
            }
        }
    }

    /// The collection of a put. One that the put could not write to is not created: a refused put
    /// leaves nothing behind.
    async fn collection_to_put_into(
        &self,
        key: &ItemKey,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        let preconditions = "If-Match and If-None-Match need";
        match precondition {
            Precondition::None => {
                return self.directory.find_or_create(&key.partition, deadline).await;
            }
            Precondition::Absent => {}
            Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
                let known = self.directory.find(&key.partition, deadline).await?;
                let known = known.ok_or_else(precondition_failed)?;
                refuse_random(known.metadata.placement, preconditions)?;
                return Ok(known);
            }
        }
        if self.directory.find(&key.partition, deadline).await?.is_none() {
            refuse_random(self.directory.settings().placement, preconditions)?;
        }
        let known = self.directory.find_or_create(&key.partition, deadline).await?;
        refuse_random(known.metadata.placement, preconditions)?;
        Ok(known)
    }

    /// Removes an item. That there was none is success, unless the precondition asks for one.
    pub async fn delete(
        &self,
        key: &ItemKey,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut attempts = self.attempts(deadline);
        // Whether another write came between the look at an item and its delete: then a marker makes
        // sure that the next attempt needs nothing to stay as it was.
        let mut overtaken = false;
        loop {
            let Some(known) = self.directory.find(&key.partition, deadline).await? else {
                return match precondition {
                    Precondition::None | Precondition::Absent => Ok(()),
                    Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
                        Err(precondition_failed())
                    }
                };
            };
            if !known.metadata.placement.is_calculated() {
                if precondition != Precondition::None {
                    refuse_random(known.metadata.placement, "If-Match needs")?;
                }
                return self.delete_wherever_it_is(key, known, deadline).await;
            }
            let expected = expected(precondition)?;
            let blind = precondition == Precondition::None;
            let target = if blind && !overtaken {
                self.target_of_delete(key, &known, deadline, &mut attempts).await?
            } else {
                let shard = self.settled_shard(key, &known, deadline, &mut attempts).await?;
                shard.map(|shard| Target::Item(shard, expected))
            };
            let (shard, expected) = match target {
                None => continue,
                Some(Target::Nothing) => return Ok(()),
                Some(Target::Item(shard, expected)) => (shard, expected),
            };
            let write = self.guarded(key, shard, Action::Delete, expected, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(()),
                Step::Unexpected if blind => overtaken = true,
                Step::Unexpected => return Err(precondition_failed()),
                Step::Again => {}
            }
        }
    }

    /// Merges `patch` into an item (RFC 7396): a strong read, and a write on condition that the
    /// version read is still there.
    pub async fn patch(
        &self,
        key: &ItemKey,
        mut patch: Attributes,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        take_key(key, &mut patch)?;
        let mut attempts = self.attempts(deadline);
        loop {
            let Some(known) = self.directory.find(&key.partition, deadline).await? else {
                return Err(nothing_to_patch(precondition));
            };
            refuse_random(known.metadata.placement, "PATCH needs")?;
            let expected = expected(precondition)?;
            let Some(shard) = self.settled_shard(key, &known, deadline, &mut attempts).await?
            else {
                continue;
            };
            let Some(existing) =
                self.read_settled(key, shard, &known, deadline, &mut attempts).await?
            else {
                continue;
            };
            let Some(existing) = existing.filter(StoredItem::is_live) else {
                return Err(nothing_to_patch(precondition));
            };
            let found = Condition { generation: known.metadata.generation, expected };
            if !found.holds(Some(&existing)) {
                return Err(precondition_failed());
            }

            let seen = existing.version;
            let mut attributes = existing.attributes;
            merge_patch(&mut attributes, patch.clone());
            let item = NewItem::new(key.clone(), attributes, &self.directory.settings().schema)?;
            let version = self.draw_version();
            let item = StoredItem {
                attributes: item.attributes().clone(),
                generation: known.metadata.generation,
                version,
                forwarded: false,
            };
            let unchanged = Expected::Version(seen);
            let write = self.guarded(key, shard, Action::Put(item), unchanged, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(Written { shard, version }),
                Step::Unexpected if matches!(precondition, Precondition::Version(_)) => {
                    return Err(precondition_failed());
                }
                Step::Unexpected => {
                    let why = "other writes to the item came between its read and its write";
                    attempts.pause(Error::new(Code::Contended, why)).await?;
                }
                Step::Again => {}
            }
        }
    }

    /// A strong read of an item where [`Self::settled_shard`] says it is, or `None` to begin again.
    ///
    /// The transaction that brought it may be visible at its old home alone: that it is missing is
    /// only believed of a read that no transaction is under way for.
    async fn read_settled(
        &self,
        key: &ItemKey,
        shard: ShardId,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Option<StoredItem>>, Error> {
        let home = key.at(shard, self.directory.settings().schema.separator);
        let found = self.read_home(&home, known, key, deadline, attempts).await?;
        let is_live = |found: &Option<StoredItem>| found.as_ref().is_some_and(StoredItem::is_live);
        match (found, self.homes(key, known)) {
            (Some(found), Some((homes, _))) if !is_live(&found) => {
                let both = self.read_homes(&homes, known, key, deadline, attempts).await?;
                Ok(both.map(|[new, _]| new))
            }
            (found, _) => Ok(found),
        }
    }

    /// A strong read of an item's home, or `None` to begin again.
    async fn read_home(
        &self,
        physical: &PhysicalKey,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Option<StoredItem>>, Error> {
        let read = async { Ok([self.items.get(physical, None, Consistency::Strong).await?.value]) };
        let found = self.read(read, known, key, deadline, attempts).await?;
        Ok(found.map(|[item]| item))
    }

    /// What lies at the new home and at the old one at one moment, or `None` to begin again.
    async fn read_homes(
        &self,
        homes: &Homes,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<[Option<StoredItem>; 2]>, Error> {
        let both = self.items.get_both([&homes.new, &homes.old], None);
        self.read(async { Ok(both.await?.value) }, known, key, deadline, attempts).await
    }

    /// What a strong read found, or `None` to begin again.
    async fn read<const N: usize>(
        &self,
        read: impl Future<Output = Result<[Option<StoredItem>; N], StoreError>>,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<[Option<StoredItem>; N]>, Error> {
        let slot = self.slot(deadline).await?;
        let answer = within(self.clock(), deadline, read).await;
        drop(slot);
        match answer {
            Some(Ok(found)) => {
                if found.iter().flatten().any(|i| i.generation > known.metadata.generation) {
                    self.directory.forget(&key.partition);
                    attempts.refresh().await?;
                    return Ok(None);
                }
                if !known.lease.is_live(self.clock().now()) {
                    // What was read after the lease is thrown away (protocol: "Lease").
                    let why = "the item could not be read within a metadata lease";
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                    return Ok(None);
                }
                Ok(Some(found))
            }
            Some(Err(error)) => {
                attempts.pause(refusal(error)?).await?;
                Ok(None)
            }
            None => Err(Error::new(Code::Unavailable, "the item could not be read in time")),
        }
    }

    /// The shard that an item is written to. One that a reshard moves is settled there first, so
    /// that its write is the only thing left to happen to it. `None` to begin again: nothing that a
    /// client could see has happened.
    async fn settled_shard(
        &self,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<ShardId>, Error> {
        let Some((homes, new)) = self.homes(key, known) else {
            let metadata = &known.metadata;
            let draw = self.directory.entropy().next_u64();
            return Ok(Some(metadata.placement.place(key, metadata.layout().writable, draw)));
        };
        // A stable collection's writes need not carry this with them.
        let settling = Box::pin(settle(&self.items, &homes, known));
        let settled = self.settled(settling, key, known, deadline, attempts).await?;
        Ok(settled.map(|()| new))
    }

    /// What a delete without precondition is to delete, or `None` to begin again.
    ///
    /// In `move` no marker is put where nothing lies at the old home: a queue's deletes would write
    /// to the hot partition as often as its puts did. The item is deleted as it was seen beside that
    /// instead. So whatever a late request puts at the old home meanwhile has shown to nobody, hidden
    /// all the time by what is deleted (protocol: "Without precondition, in `move`").
    async fn target_of_delete(
        &self,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Target>, Error> {
        let (Some((homes, _)), Some(new)) = (self.homes(key, known), blind_home(key, known)) else {
            let shard = self.settled_shard(key, known, deadline, attempts).await?;
            return Ok(shard.map(|shard| Target::Item(shard, Expected::Any)));
        };
        let settling = Box::pin(settle_live(&self.items, &homes, known));
        match self.settled(settling, key, known, deadline, attempts).await? {
            None => return Ok(None),
            Some(OldHome::Marker) => return Ok(Some(Target::Item(new, Expected::Any))),
            Some(OldHome::Nothing) => {}
        }
        let both = self.read_homes(&homes, known, key, deadline, attempts).await?;
        let Some([at_new, at_old]) = both else {
            return Ok(None);
        };
        if at_old.is_some_and(|item| item.is_live() || is_marker_of(&item, known)) {
            let why = "the item was being moved by another operation";
            attempts.pause(Error::new(Code::Contended, why)).await?;
            return Ok(None);
        }
        Ok(Some(match at_new.filter(StoredItem::is_live) {
            Some(item) => Target::Item(new, Expected::Version(item.version)),
            None => Target::Nothing,
        }))
    }

    /// Both homes of an item that a reshard moves, and the shard that is its new one.
    fn homes(&self, key: &ItemKey, known: &Known) -> Option<(Homes, ShardId)> {
        let (old, new) = known.metadata.reshard()?.homes(key)?;
        let separator = self.directory.settings().schema.separator;
        Some((Homes { old: key.at(old, separator), new: key.at(new, separator) }, new))
    }

    /// What came of settling an item, or `None` to begin again.
    async fn settled<T>(
        &self,
        settling: impl Future<Output = Result<T, Unsettled>>,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<T>, Error> {
        let slot = self.slot(deadline).await?;
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        let settled = within(self.clock(), begin_by, settling).await;
        drop(slot);
        let refusal = match settled {
            Some(Ok(settled)) if known.lease.is_live(self.clock().now()) => {
                return Ok(Some(settled));
            }
            Some(Ok(_)) => {
                Error::new(Code::Unavailable, "the item could not be settled within a lease")
            }
            Some(Err(Unsettled::Behind)) => {
                self.directory.forget(&key.partition);
                attempts.refresh().await?;
                return Ok(None);
            }
            Some(Err(Unsettled::Changed)) => {
                Error::new(Code::Contended, "the item was being moved by another operation")
            }
            // Whatever becomes of it is conditional on what was seen, and no client's doing.
            Some(Err(Unsettled::Failed(StoreError::OutcomeUnknown(why)))) => {
                Error::new(Code::Unavailable, why)
            }
            Some(Err(Unsettled::Failed(error))) => refusal(error)?,
            None => return Err(out_of_time()),
        };
        attempts.pause(refusal).await?;
        Ok(None)
    }

    /// Removes an item of a random collection from wherever it is: only its write knew the shard.
    ///
    /// Once a part of it is done, or may be, no refusal of the rest means that nothing happened.
    async fn delete_wherever_it_is(
        &self,
        key: &ItemKey,
        mut known: Known,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let removed = AtomicBool::new(false);
        let unless_removed = |error: Error| match error.kind() {
            Kind::Throttled | Kind::Unavailable if removed.load(Ordering::Relaxed) => {
                Error::new(Code::OutcomeUnknown, error.message())
            }
            _ => error,
        };
        loop {
            let deleted = self.delete_everywhere(key, &known, &removed, deadline).await;
            if let Everywhere::Deleted = deleted.map_err(unless_removed)? {
                return Ok(());
            }
            let found = self.directory.find(&key.partition, deadline).await;
            let Some(changed) = found.map_err(unless_removed)? else {
                return Ok(());
            };
            known = changed;
        }
    }

    /// The same under one layout.
    ///
    /// While a shrinking collection is drained an item may change its shard, but only from those
    /// that are drained, so these are visited first (protocol: "Random shrinking").
    async fn delete_everywhere(
        &self,
        key: &ItemKey,
        known: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<Everywhere, Error> {
        let metadata = &known.metadata;
        let Some(reshard) = metadata.reshard() else {
            let shards = metadata.placement.shards(metadata.layout().readable);
            return Ok(
                match self.delete_from(key, shards, None, known, removed, deadline).await? {
                    Some(_) => Everywhere::Deleted,
                    None => Everywhere::LayoutChanged,
                },
            );
        };
        let drained =
            self.delete_from(key, reshard.sources(), None, known, removed, deadline).await?;
        let Some(found_marker) = drained else {
            return Ok(Everywhere::LayoutChanged);
        };
        // The other half of the transaction that left the marker may not be visible yet.
        let arrived = found_marker.then(|| reshard.new_home(key));
        let kept = self
            .delete_from(key, reshard.destinations(), arrived, known, removed, deadline)
            .await?;
        Ok(if kept.is_some() { Everywhere::Deleted } else { Everywhere::LayoutChanged })
    }

    /// Removes an item from each of these shards, from `certain` without a look whether it is there.
    /// Returns whether one of them held a marker of the running reshard, or `None` where the layout
    /// changed.
    async fn delete_from(
        &self,
        key: &ItemKey,
        shards: impl Iterator<Item = ShardId>,
        certain: Option<ShardId>,
        known: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<Option<bool>, Error> {
        let deletes = shards
            .map(|shard| async move {
                self.delete_in(key, shard, certain == Some(shard), known, removed, deadline).await
            })
            .collect::<Vec<_>>();
        // A failure ends none of the others: whether it did something is to be known of each.
        let found = stream::iter(deletes).buffer_unordered(FAN_OUT).collect::<Vec<_>>().await;
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        if found.contains(&InShard::LayoutChanged) {
            return Ok(None);
        }
        Ok(Some(found.contains(&InShard::Marker)))
    }

    async fn delete_in(
        &self,
        key: &ItemKey,
        shard: ShardId,
        certain: bool,
        began_with: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<InShard, Error> {
        let mut attempts = self.attempts(deadline);
        loop {
            let known = self.directory.find(&key.partition, deadline).await?;
            let Some(known) = known.filter(|known| known.metadata == began_with.metadata) else {
                return Ok(InShard::LayoutChanged);
            };
            let physical = key.at(shard, self.directory.settings().schema.separator);
            if !certain {
                // A read costs a half of what a delete of nothing does, and nearly every shard
                // holds nothing.
                match self.read_home(&physical, &known, key, deadline, &mut attempts).await? {
                    None => continue,
                    Some(None) => return Ok(InShard::Nothing),
                    Some(Some(item)) if item.is_live() => {}
                    Some(Some(marker)) if marker.generation < known.metadata.generation => {
                        return Ok(InShard::Nothing);
                    }
                    Some(Some(_)) => return Ok(InShard::Marker),
                }
            }
            let expected = if certain { Expected::Any } else { Expected::Live };
            let write = self.guarded(key, shard, Action::Delete, expected, &known);
            let sent = self.send(&write, shard, key, deadline, &mut attempts).await;
            if matches!(&sent, Err(error) if error.kind() == Kind::OutcomeUnknown) {
                removed.store(true, Ordering::Relaxed);
            }
            match sent? {
                Step::Done => {
                    removed.store(true, Ordering::Relaxed);
                    return Ok(InShard::Nothing);
                }
                Step::Unexpected | Step::Again => {}
            }
        }
    }

    /// Sends one guarded write to its shard and sorts out what its answer means.
    async fn send(
        &self,
        write: &Write,
        shard: ShardId,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Step, Error> {
        let slot = self.slot(deadline).await?;
        let answer = within(self.clock(), deadline, self.items.write(write)).await;
        drop(slot);
        let in_lease = write.lease.is_live(self.clock().now());
        match answer {
            Some(Ok(())) if in_lease => Ok(Step::Done),
            Some(Ok(())) => Err(Error::new(
                Code::OutcomeUnknown,
                "the write was answered after its metadata lease had run out",
            )),
            None => Err(Error::new(Code::OutcomeUnknown, "the write was not answered in time")),
            Some(Err(StoreError::ConditionFailed { existing })) => {
                if !write.condition.generation_holds(existing.as_deref()) {
                    self.directory.forget(&key.partition);
                    attempts.refresh().await?;
                    Ok(Step::Again)
                } else if in_lease && write.condition.expected != Expected::Any {
                    Ok(Step::Unexpected)
                } else {
                    // It had no effect, so an answer after the lease is simply asked for again.
                    let why = "the answer came after the metadata lease had run out";
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                    Ok(Step::Again)
                }
            }
            Some(Err(error)) => {
                if let StoreError::Throttled(throttle) = &error {
                    self.grow(&key.partition, shard, throttle, deadline).await;
                }
                attempts.pause(refusal(error)?).await?;
                Ok(Step::Again)
            }
        }
    }

    /// Waits for a turn among the requests under way.
    async fn slot(&self, deadline: Deadline) -> Result<SemaphoreGuard<'_>, Error> {
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        within(self.clock(), begin_by, self.slots.acquire()).await.ok_or_else(out_of_time)
    }

    /// Seed 000's writer rule: a throttle of the key's own partition begins a growth. Whatever comes
    /// of it, the write itself goes on being tried.
    async fn grow(
        &self,
        partition: &PartitionKey,
        shard: ShardId,
        throttle: &Throttle,
        deadline: Deadline,
    ) {
        let scaling = self.directory.settings().scaling;
        if !scaling.writers || scaling.mode == ScalingMode::Off || !throttle.is_of_a_partition() {
            return;
        }
        let backoff = |last_updated_secs| self.backoff(partition, last_updated_secs);
        self.directory.grow(partition, shard, backoff, deadline).await;
    }

    /// Between one and ten seconds (seed 000), and the same whenever this writer asks about the same
    /// change.
    fn backoff(&self, partition: &PartitionKey, last_updated_secs: u64) -> Duration {
        let mut hasher = XxHash64::with_seed(self.backoff_seed);
        hasher.write(partition.as_str().as_bytes());
        hasher.write(&last_updated_secs.to_be_bytes());
        Duration::from_secs(1) + Duration::from_millis(hasher.finish() % 9_001)
    }

    fn guarded(
        &self,
        key: &ItemKey,
        shard: ShardId,
        action: Action,
        expected: Expected,
        known: &Known,
    ) -> Write {
        Write {
            key: key.at(shard, self.directory.settings().schema.separator),
            action,
            condition: Condition { generation: known.metadata.generation, expected },
            lease: known.lease,
        }
    }

    fn draw_version(&self) -> Version {
        Version::new(self.directory.entropy().next_u64())
    }

    pub(crate) fn clock(&self) -> &C {
        self.directory.clock()
    }

    fn attempts(&self, deadline: Deadline) -> Attempts<'_, C, E> {
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        Attempts::new(self.clock(), self.directory.entropy(), begin_by)
    }
}

/// The new home of an item that moves, where `move` is in hand: a put without precondition goes
/// there whatever lies at the old home (protocol: "Without precondition, in `move`").
fn blind_home(key: &ItemKey, known: &Known) -> Option<ShardId> {
    let reshard = known.metadata.reshard().filter(|reshard| reshard.puts_skip_old_home)?;
    reshard.homes(key).map(|(_, new)| new)
}

/// Nothing was sent, or nothing that a client could see, so there is no doubt about the outcome.
fn out_of_time() -> Error {
    Error::new(Code::DeadlineExceeded, "the time ran out before the write was sent")
}

fn refuse_random(placement: Placement, what_needs: &str) -> Result<(), Error> {
    if placement.is_calculated() {
        return Ok(());
    }
    Err(Error::new(
        Code::NotForPlacement,
        format!("{what_needs} to know an item's shard, and the collection's placement is random"),
    ))
}

fn expected(precondition: Precondition) -> Result<Expected, Error> {
    match precondition {
        Precondition::None => Ok(Expected::Any),
        Precondition::Absent => Ok(Expected::Absent),
        Precondition::Exists => Ok(Expected::Live),
        Precondition::Version(version) => Ok(Expected::Version(version)),
        Precondition::Never => Err(precondition_failed()),
    }
}

fn precondition_failed() -> Error {
    Error::new(Code::PreconditionFailed, "the item is not what If-Match or If-None-Match asks for")
}

/// A failed `If-Match` comes before a missing item (RFC 9110, 13.2.2).
fn nothing_to_patch(precondition: Precondition) -> Error {
    match precondition {
        Precondition::None | Precondition::Absent => {
            Error::new(Code::ItemNotFound, "there is no such item")
        }
        Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
            precondition_failed()
        }
    }
}
