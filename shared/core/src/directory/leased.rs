use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dynashard_keys::PartitionKey;
use futures_util::lock::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use lru::LruCache;
use xxhash_rust::xxh64::xxh64;

use crate::ports::{Clock, Dated, Entropy, MetadataStore, StoreError};
use crate::retry::{Attempts, refusal, within};
use crate::{Code, CollectionMetadata, Deadline, Error, Lease, Reading, Settings};

/// The collections whose metadata one execution environment keeps. An entry takes well under a
/// kilobyte, so the cache stays below the smallest function's memory.
const CACHED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What is known about collections, and for how long it may be believed.
///
/// Metadata is read strongly and kept for a lease; while the lease lives, a look-up costs no
/// request. That a collection does not exist is never kept: a writer that believed it would create
/// what another has grown.
pub struct Directory<M, C, E> {
    pub(super) store: M,
    clock: C,
    entropy: E,
    settings: Settings,
    cache: Mutex<LruCache<PartitionKey, Known>>,
    /// Whoever reads a collection's metadata holds its stripe, so that concurrent operations of one
    /// batch share one read when a lease runs out.
    stripes: [AsyncMutex<()>; STRIPES],
    /// Drawn, so that nobody can choose partition keys that share a stripe.
    stripe_seed: u64,
}

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

impl<M: MetadataStore, C: Clock, E: Entropy> Directory<M, C, E> {
    /// An empty directory.
    pub fn new(store: M, clock: C, entropy: E, settings: Settings) -> Self {
        let cache = Mutex::new(LruCache::new(CACHED_COLLECTIONS));
        let stripe_seed = entropy.next_u64();
        Self {
            store,
            clock,
            entropy,
            settings,
            cache,
            stripes: std::array::from_fn(|_| AsyncMutex::new(())),
            stripe_seed,
        }
    }

    /// The collection's metadata, or `None` where no item was ever written to it.
    pub async fn find(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<Known>, Error> {
        if let Some(known) = self.cached(partition) {
            return Ok(Some(known));
        }
        let _turn = self.turn(partition).await;
        if let Some(known) = self.cached(partition) {
            return Ok(Some(known));
        }
        self.read_with_retries(partition, deadline).await
    }

    /// The collection's metadata; a collection that does not exist is created with one shard.
    pub async fn find_or_create(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        let _turn = self.turn(partition).await;
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        let mut attempts = self.attempts(deadline);
        loop {
            if let Some(known) = self.read_with_retries(partition, deadline).await? {
                return Ok(known);
            }
            let now_secs = self.clock.now().epoch_secs();
            let placement = self.settings.placement;
            let metadata = CollectionMetadata::first_write(partition.clone(), placement, now_secs);
            match self.create(metadata, deadline).await {
                Ok(known) => return Ok(known),
                // Another writer was first: read what it created.
                Err(StoreError::ConditionFailed { .. }) => {}
                // A creation that may still arrive is harmless: it is conditional.
                Err(StoreError::OutcomeUnknown(why)) => {
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                }
                Err(error) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Creates a collection, unless it exists: then [`StoreError::ConditionFailed`].
    pub(crate) async fn create(
        &self,
        metadata: CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let before = self.clock.now();
        let answer = within(&self.clock, deadline, self.store.create(&metadata)).await;
        let Dated { server_secs, .. } = answer.unwrap_or_else(|| {
            let why = "the creation of the collection was not answered in time";
            Err(StoreError::OutcomeUnknown(why.to_owned()))
        })?;
        Ok(self.keep(metadata, Lease::new(before, server_secs, self.settings.lease_term)))
    }

    /// Metadata as it is now, whatever is cached.
    pub(crate) async fn read_now(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<Known>, Error> {
        let _turn = self.turn(partition).await;
        self.forget(partition);
        self.read_with_retries(partition, deadline).await
    }

    /// Drops what is cached about a collection: an item has shown that it is out of date.
    pub fn forget(&self, partition: &PartitionKey) {
        self.lock().pop(partition);
    }

    /// The settings of the stack.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time, for the deadlines of requests.
    pub fn now(&self) -> Reading {
        self.clock.now()
    }

    /// Time, for whoever stands on this directory.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Chance, for the use cases that stand on this directory.
    pub(crate) fn entropy(&self) -> &E {
        &self.entropy
    }

    /// A series of attempts until `deadline`.
    pub(crate) fn attempts(&self, deadline: Deadline) -> Attempts<'_, C, E> {
        Attempts::new(&self.clock, &self.entropy, deadline)
    }

    /// What is cached about a collection, if an operation may begin on it.
    pub(crate) fn cached(&self, partition: &PartitionKey) -> Option<Known> {
        let now = self.clock.now();
        let mut cache = self.lock();
        let known = cache.get(partition)?;
        if known.lease.is_fresh(now) {
            return Some(known.clone());
        }
        cache.pop(partition);
        None
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
    ) -> Result<Option<Known>, Error> {
        let mut attempts = self.attempts(deadline);
        attempts.make(|| self.read(partition), "the metadata could not be read in time").await
    }

    async fn read(&self, partition: &PartitionKey) -> Result<Option<Known>, StoreError> {
        let before = self.clock.now();
        let Dated { value, server_secs } = self.store.get(partition).await?;
        if let Some(Err(contradiction)) = value.as_ref().map(CollectionMetadata::check) {
            let what = format!("the metadata item of {partition:?} is damaged: {contradiction}");
            return Err(StoreError::Corrupt(what));
        }
        let lease = Lease::new(before, server_secs, self.settings.lease_term);
        Ok(value.map(|metadata| self.keep(metadata, lease)))
    }

    /// Keeps metadata that was read or published.
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
