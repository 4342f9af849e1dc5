//! Metadata under leases: what may be believed without a request.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_keys::PartitionKey;
use futures_util::lock::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use lru::LruCache;
use xxhash_rust::xxh64::xxh64;

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::lease::{Deadline, Lease, Reading};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::pinned::Pinned;
use crate::model::reshard::Waits;
use crate::model::settings::Settings;
use crate::ports::{Clock, Dated, Entropy, ItemStore, MetadataStore, StoreError, World};
use crate::usecases::retry::{Attempts, refusal, within};

/// The collections whose metadata one execution environment keeps. An entry takes well under a
/// kilobyte, so the cache stays below the smallest function's memory.
const CACHED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What is known about collections, and for how long it may be believed.
///
/// The directory item and the metadata of the collections that it lists are read strongly and kept for
/// a lease; while the lease lives, a look-up costs no request. A collection that the item does not
/// list stands on the lease of the item itself.
pub struct Directory {
    world: World,
    settings: Settings,
    /// Whether it pins its settings if none are pinned, and claims a main table that belongs to nobody.
    pub(super) pins: bool,
    /// Whether it was seen that the main table belongs to no other stack. It is looked at once.
    owner_is_known: AtomicBool,
    item: Mutex<Option<(Arc<DirectoryItem>, Lease)>>,
    /// Why nobody may act, and until when of `CLOCK_BOOTTIME` that is answered without another look.
    refusal: Mutex<Option<(Error, Duration)>>,
    /// Whoever reads the directory item holds it, so that concurrent operations share one read.
    item_turn: AsyncMutex<()>,
    /// Whether it was tried to renew the present lease early.
    was_renewed_early: AtomicBool,
    cache: Mutex<LruCache<PartitionKey, Known>>,
    /// Whoever reads a collection's metadata holds its stripe, so that concurrent operations of one
    /// batch share one read when a lease runs out.
    stripes: [AsyncMutex<()>; STRIPES],
    /// Drawn, so that nobody can choose partition keys that share a stripe.
    stripe_seed: u64,
}

/// For how long an environment whose settings differ answers so without another look: soon after they were
/// put right it acts again, and until then a fleet that was deployed wrongly leaves the item to those that
/// are right.
const REFUSAL_TERM: Duration = Duration::from_secs(1);

/// How often an environment looks whether new shards are in force that may be. A thousand environments take a good
/// half of what the partition of the metadata gives.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Enough that two collections of one batch rarely wait for each other.
const STRIPES: usize = 64;

/// A collection's metadata with the right to act on it.
#[derive(Debug, Clone)]
pub struct Known {
    /// What was read.
    pub metadata: Arc<CollectionMetadata>,
    /// Until when it may be used.
    pub lease: Lease,
}

impl Directory {
    /// An empty directory.
    pub fn new(world: World, settings: Settings) -> Self {
        let cache = Mutex::new(LruCache::new(CACHED_COLLECTIONS));
        let stripe_seed = world.entropy.next_u64();
        Self {
            world,
            settings,
            pins: false,
            owner_is_known: AtomicBool::new(false),
            item: Mutex::default(),
            refusal: Mutex::default(),
            item_turn: AsyncMutex::new(()),
            was_renewed_early: AtomicBool::new(false),
            cache,
            stripes: std::array::from_fn(|_| AsyncMutex::new(())),
            stripe_seed,
        }
    }

    /// This directory, of a function that writes: it pins its settings if none are pinned.
    #[must_use]
    pub fn pinning(self) -> Self {
        Self { pins: true, ..self }
    }

    /// The collection's metadata, or what holds of a collection without any.
    pub async fn find(&self, partition: &PartitionKey, deadline: Deadline) -> Result<Known, Error> {
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        let (item, lease) = self.item(deadline).await?;
        if !item.lists(partition) {
            return Ok(self.cold(partition, lease));
        }
        let _turn = self.turn(partition).await;
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        self.read_with_retries(partition, deadline).await
    }

    /// The collection's metadata as it is now, whatever is cached.
    pub(crate) async fn read_now(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        // Whatever was listed once is listed for ever.
        let (item, lease) = if self.has_listed(partition) {
            self.item(deadline).await?
        } else {
            self.read_item_now(deadline).await?
        };
        if !item.lists(partition) {
            return Ok(self.cold(partition, lease));
        }
        let _turn = self.turn(partition).await;
        self.lock().pop(partition);
        self.read_with_retries(partition, deadline).await
    }

    /// The metadata item of a collection as it is now, when the directory is known to list it: strong
    /// reads may see the one half of the transaction that enlists it before the other. `None` where it has
    /// none.
    ///
    /// Who waits for leases to end counts from here (protocol: "The directory").
    pub(crate) async fn read_enlisted(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<Known>, Error> {
        let mut attempts = self.attempts(deadline);
        let mut first_seen = None;
        loop {
            let began = self.clock().now();
            let known = self.read_now(partition, deadline).await?;
            if known.metadata.is_enlisted() {
                return Ok(Some(known));
            }
            // No transaction shows in part for longer (protocol: "Assumptions"). The metadata may have shown at any time
            // before that was answered, and only a read of the directory that began after it counts.
            if first_seen.is_some_and(|seen| began.certainly_since(seen) > self.waits().settle) {
                let why = format!(
                    "the metadata item of {partition:?} exists, although the directory does not list it"
                );
                return Err(Error::new(Code::CorruptData, why));
            }
            let read =
                attempts.make(|| self.records().get(partition), METADATA_NOT_IN_TIME).await?;
            if read.value.is_none() {
                return Ok(None);
            }
            first_seen.get_or_insert_with(|| self.clock().now());
            let why = "the directory does not show yet that the collection has metadata";
            attempts.pause(Error::new(Code::Unavailable, why)).await?;
        }
    }

    /// Reads the directory item again if its lease is in the second half of its term, beside an operation
    /// that may begin on it still: the next one then has to wait for nothing. It is tried once for each
    /// lease, and may be dropped at any time. Trouble with it is the next one's.
    pub async fn renew_early(&self, deadline: Deadline) {
        let now = self.clock().now();
        let is_due = |lease: &Lease| lease.is_fresh(now) && !lease.is_young(now);
        if !self.lock_item().as_ref().is_some_and(|(_, lease)| is_due(lease)) {
            return;
        }
        if let Some(_turn) = self.item_turn.try_lock()
            && !self.was_renewed_early.swap(true, Ordering::Relaxed)
        {
            let _ = self.read_item_now(deadline).await;
        }
    }

    /// Drops what is cached about a collection: an item has shown that it is out of date. It may have been
    /// enlisted since.
    pub fn forget(&self, partition: &PartitionKey) {
        self.lock().pop(partition);
        if !self.has_listed(partition) {
            self.drop_item();
        }
    }

    /// The times to wait for, as they were pinned when the directory was read last (protocol: "Pinned
    /// settings").
    pub fn waits(&self) -> Waits {
        self.last_item().map_or_else(|| Waits::of(&self.settings), |item| self.waits_of(&item))
    }

    fn waits_of(&self, item: &DirectoryItem) -> Waits {
        item.pinned.as_ref().map_or_else(|| Waits::of(&self.settings), Pinned::waits)
    }

    /// The times to wait for, for a decision that changes metadata: it stands on a lease of the directory that lives now.
    pub(crate) async fn waits_now(&self, deadline: Deadline) -> Result<Waits, Error> {
        let (item, _) = self.item(deadline).await?;
        Ok(self.waits_of(&item))
    }

    /// The attributes by which items may expire: those that are pinned, and this stack's own.
    pub(crate) fn ttl_attributes(&self) -> BTreeSet<String> {
        let item = self.last_item();
        let pinned = item.iter().filter_map(|item| item.pinned.as_ref());
        let pinned = pinned.flat_map(|pinned| &pinned.ttl_attributes);
        pinned.chain(&self.settings.ttl_attribute).cloned().collect()
    }

    /// Whether the lease of the directory lives.
    pub(super) fn is_held(&self, now: Reading) -> bool {
        self.lock_item().as_ref().is_some_and(|(_, lease)| lease.is_fresh(now))
    }

    /// Reads the directory, unless its lease lives: whoever is called by a schedule pins the settings of a
    /// new stack, and finds out that its own differ.
    pub async fn hold(&self, deadline: Deadline) -> Result<(), Error> {
        self.item(deadline).await.map(|_| ())
    }

    /// The settings of the stack.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time, for the deadlines of requests.
    pub fn now(&self) -> Reading {
        self.clock().now()
    }

    /// The epoch second by DynamoDB's clock, as far as the directory's last read tells it: metadata says in that time when it
    /// changed, whoever changed it, and a machine whose clock is a day ahead bars no change for a day.
    pub(crate) fn epoch_secs(&self) -> u64 {
        let now = self.clock().now();
        let read = self.lock_item().as_ref().map(|(_, lease)| lease.since());
        let read = read.and_then(|since| Some((since.boot, since.server_secs?)));
        read.map_or(now.epoch_secs(), |(boot, secs)| secs + now.boot.saturating_sub(boot).as_secs())
    }

    /// What the use cases on this directory need from outside.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Time, for whoever stands on this directory.
    pub fn clock(&self) -> &dyn Clock {
        &*self.world.clock
    }

    /// Chance, for the use cases that stand on this directory.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.world.entropy
    }

    /// The main table.
    pub(crate) fn items(&self) -> &dyn ItemStore {
        &*self.world.items
    }

    /// The metadata table.
    pub(super) fn records(&self) -> &dyn MetadataStore {
        &*self.world.records
    }

    /// A series of attempts until `deadline`.
    pub(crate) fn attempts(&self, deadline: Deadline) -> Attempts<'_> {
        Attempts::new(self.clock(), self.entropy(), deadline)
    }

    /// What is cached about a collection, if an operation may begin on it.
    pub(crate) fn cached(&self, partition: &PartitionKey) -> Option<Known> {
        let now = self.clock().now();
        // Whoever differs from what is pinned stops within T, whatever it stands on (protocol: "Pinned
        // settings").
        let (item, lease) = self.lock_item().clone().filter(|(_, lease)| lease.is_fresh(now))?;
        {
            let mut cache = self.lock();
            if let Some(known) = cache.get(partition) {
                if known.lease.is_fresh(now) && !self.is_move_due(known, now) {
                    return Some(known.clone());
                }
                cache.pop(partition);
                return None;
            }
        }
        (!item.lists(partition)).then(|| self.cold(partition, lease))
    }

    /// Whether the new shards of a growth may be in force, of which the metadata says that they will be. Without
    /// another look an environment would keep its writes away from them for most of a lease.
    fn is_move_due(&self, known: &Known, now: Reading) -> bool {
        if !matches!(known.metadata.phase, Phase::Forward { .. }) {
            return false;
        }
        let published = Duration::from_secs(known.metadata.last_updated_secs);
        let due = published + self.waits().settle;
        let read = known.lease.since().wall;
        // The longer it has been due, the less a further look is likely to show it.
        let pause = (read.saturating_sub(due) / 2).max(LOOK_AGAIN);
        now.wall >= due.max(read + pause)
    }

    fn cold(&self, partition: &PartitionKey, lease: Lease) -> Known {
        let metadata = CollectionMetadata::cold(partition.clone(), self.settings.placement);
        Known { metadata: Arc::new(metadata), lease }
    }

    /// The directory item under a lease.
    async fn item(&self, deadline: Deadline) -> Result<(Arc<DirectoryItem>, Lease), Error> {
        let fresh = || {
            let now = self.clock().now();
            self.lock_item().clone().filter(|(_, lease)| lease.is_fresh(now))
        };
        if let Some(fresh) = fresh() {
            return Ok(fresh);
        }
        let _turn = self.item_turn.lock().await;
        if let Some(fresh) = fresh() {
            return Ok(fresh);
        }
        let refused = self.lock_refusal().clone();
        match refused.filter(|(_, until)| self.clock().now().boot < *until) {
            Some((error, _)) => Err(error),
            None => self.read_item_now(deadline).await,
        }
    }

    /// The directory item as it is now.
    pub(super) async fn read_item_now(
        &self,
        deadline: Deadline,
    ) -> Result<(Arc<DirectoryItem>, Lease), Error> {
        loop {
            let mut attempts = self.attempts(deadline);
            let read = async || {
                let before = self.clock().now();
                let Dated { value, server_secs } = self.records().directory().await?;
                let lease = Lease::new(before, server_secs, self.settings.lease_term);
                Ok((value.unwrap_or_default(), lease))
            };
            let (item, lease) =
                attempts.make(read, "the directory could not be read in time").await?;
            if let Some(pinned) = &item.pinned {
                pinned.check(&self.settings).inspect_err(|error| self.refuse_all(error))?;
            }
            if self.pins
                && let Some(to_pin) = self.to_pin(item.pinned.as_ref())
            {
                self.pin(&item, to_pin, deadline).await?;
                continue;
            }
            if !self.owner_is_known.load(Ordering::Relaxed) {
                // On the heap: every future that stands on this one would carry what is needed once.
                let compared = Box::pin(self.compare_owner(item.pinned.as_ref(), deadline)).await;
                compared.inspect_err(|error| {
                    if error.code() == Code::SettingsMismatch {
                        self.refuse_all(error);
                    }
                })?;
                self.owner_is_known.store(true, Ordering::Relaxed);
            }
            return Ok(self.keep_item(item, lease));
        }
    }

    /// What is to be pinned in place of this, if it lacks anything.
    fn to_pin(&self, pinned: Option<&Pinned>) -> Option<Pinned> {
        if let Some(pinned) = pinned {
            return pinned.completed(&self.settings, || self.drawn_id());
        }
        let stack_id = Some(self.drawn_id());
        Some(Pinned { stack_id, ..Pinned::of(&self.settings) })
    }

    /// Pins settings, unless another is quicker. What is pinned then is read again.
    async fn pin(
        &self,
        seen: &DirectoryItem,
        pinned: Pinned,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let next = seen.with_pinned(pinned);
        let mut attempts = self.attempts(deadline);
        let save = async || match self.records().save_directory(seen, &next).await {
            // Of unknown outcome is what took effect, or did not: the next read shows it.
            Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => Ok(()),
            saved => saved.map(|_| ()),
        };
        attempts.make(save, "the settings could not be pinned in time").await
    }

    /// Answers everything so for a while: this environment may not act.
    fn refuse_all(&self, error: &Error) {
        self.drop_item();
        let again = self.clock().now().boot + REFUSAL_TERM;
        *self.lock_refusal() = Some((error.clone(), again));
    }

    fn drop_item(&self) {
        *self.lock_item() = None;
    }

    fn keep_item(&self, item: DirectoryItem, lease: Lease) -> (Arc<DirectoryItem>, Lease) {
        let read = (Arc::new(item), lease);
        self.was_renewed_early.store(false, Ordering::Relaxed);
        *self.lock_item() = Some(read.clone());
        read
    }

    /// Whether the directory item was ever seen to list the collection.
    fn has_listed(&self, partition: &PartitionKey) -> bool {
        self.last_item().is_some_and(|item| item.lists(partition))
    }

    /// The directory item as it was read last, whatever has become of its lease.
    pub(super) fn last_item(&self) -> Option<Arc<DirectoryItem>> {
        self.lock_item().as_ref().map(|(item, _)| Arc::clone(item))
    }

    fn lock_refusal(&self) -> MutexGuard<'_, Option<(Error, Duration)>> {
        // Nothing panics while the lock is held.
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_item(&self) -> MutexGuard<'_, Option<(Arc<DirectoryItem>, Lease)>> {
        // Nothing panics while the lock is held.
        self.item.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else in this environment reads the collection's metadata.
    async fn turn(&self, partition: &PartitionKey) -> AsyncMutexGuard<'_, ()> {
        let hash = xxh64(partition.as_str().as_bytes(), self.stripe_seed);
        let stripes = u64::try_from(STRIPES).unwrap_or(1);
        self.stripes[usize::try_from(hash % stripes).unwrap_or(0)].lock().await
    }

    async fn read_with_retries(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        let mut attempts = self.attempts(deadline);
        loop {
            self.hold(deadline).await?;
            // A lease of metadata is taken only while that of the directory lives (protocol: "Pinned
            // settings"). One reading of the clock decides both: a process may be suspended between two.
            let before = self.clock().now();
            if !self.is_held(before) {
                continue;
            }
            match within(self.clock(), deadline, self.read(partition, before)).await {
                Some(Ok(known)) => return Ok(known),
                Some(Err(error)) => attempts.pause(refusal(error)?).await?,
                None => return Err(Error::new(Code::Unavailable, METADATA_NOT_IN_TIME)),
            }
        }
    }

    /// What a listed collection has for metadata, under a lease from `before` on. One that has none is cold under
    /// the lease of this read: another key has the same hash, or the transaction that enlists it shows in part.
    async fn read(&self, partition: &PartitionKey, before: Reading) -> Result<Known, StoreError> {
        let Dated { value, server_secs } = self.records().get(partition).await?;
        if let Some(Err(contradiction)) = value.as_ref().map(CollectionMetadata::check) {
            let what = format!("the metadata item of {partition:?} is damaged: {contradiction}");
            return Err(StoreError::Corrupt(what));
        }
        let lease = Lease::new(before, server_secs, self.settings.lease_term);
        let cold = || CollectionMetadata::cold(partition.clone(), self.settings.placement);
        Ok(self.keep(value.unwrap_or_else(cold), lease))
    }

    /// Keeps metadata that was read, or published, while the lease of the directory lived.
    pub(super) fn keep(&self, metadata: CollectionMetadata, lease: Lease) -> Known {
        let known = Known { metadata: Arc::new(metadata), lease };
        self.lock().put(known.metadata.partition.clone(), known.clone());
        known
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<PartitionKey, Known>> {
        // Nothing panics while the lock is held, and the cache is sound in any case.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const METADATA_NOT_IN_TIME: &str = "the metadata could not be read in time";
