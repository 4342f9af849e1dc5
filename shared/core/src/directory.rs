use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardCount, ShardId};
use futures_util::lock::Mutex as AsyncMutex;
use lru::LruCache;
use xxhash_rust::xxh64::xxh64;

use crate::growth::{Growth, NoGrowth, decide_growth};
use crate::lease::settle_time;
use crate::metadata::Contradiction;
use crate::ports::{
    CatalogPage, Clock, CollectionCatalog, Dated, Entropy, MetadataStore, ReshardingPage,
    StoreError,
};
use crate::reshard::{Job, ServerTime};
use crate::retry::{Attempts, refusal, within};
use crate::telemetry::{Telemetry, WriterGrowths};
use crate::{Code, CollectionMetadata, Deadline, Error, Lease, Reading, ScalingMode, Settings};

/// The collections whose metadata one execution environment keeps. An entry takes well under a
/// kilobyte, so the cache stays below the smallest function's memory.
const CACHED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What is known about collections, and for how long it may be believed.
///
/// Metadata is read strongly and kept for a lease; while the lease lives, a look-up costs no
/// request. That a collection does not exist is never kept: a writer that believed it would create
/// what another has grown.
pub struct Directory<M, C, E> {
    store: M,
    clock: C,
    entropy: E,
    settings: Settings,
    cache: Mutex<LruCache<PartitionKey, Known>>,
    /// Whoever reads a collection's metadata holds its stripe, so that concurrent operations of one
    /// batch share one read when a lease runs out.
    reading: [AsyncMutex<()>; STRIPES],
    /// Drawn, so that nobody can choose partition keys that share a stripe.
    stripe_seed: u64,
    writer_growths: WriterGrowths,
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
            reading: std::array::from_fn(|_| AsyncMutex::new(())),
            stripe_seed,
            writer_growths: WriterGrowths::new(None),
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
        let _reading = self.stripe(partition).lock().await;
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
        let _reading = self.stripe(partition).lock().await;
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        let mut attempts = Attempts::new(&self.clock, &self.entropy, deadline);
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

    /// Tells `telemetry` what writers that use this directory do about throttles.
    #[must_use]
    pub fn with_telemetry(self, telemetry: Arc<dyn Telemetry>) -> Self {
        Self { writer_growths: WriterGrowths::new(Some(telemetry)), ..self }
    }

    /// Begins the growth of a collection that a writer found throttled in this shard, if it may grow
    /// now. Telemetry is told what comes of it.
    pub(crate) async fn grow(
        &self,
        partition: &PartitionKey,
        throttled: ShardId,
        backoff: impl Fn(u64) -> Duration,
        deadline: Deadline,
    ) {
        let _reading = self.stripe(partition).lock().await;
        let Some(known) = self.cached(partition) else {
            // The writer's next attempt reads it, and if it is throttled again asks again.
            return;
        };
        let backoff = backoff(known.metadata.last_updated_secs);
        let pause = self.settings.scaling.cooldown + backoff;
        match self.begin_growth(&known.metadata, &[throttled], pause, deadline).await {
            Ok(growth) => self.writer_growths.tell(&known.metadata, growth),
            Err(error) => self.writer_growths.tell_failed(&known.metadata, &error),
        }
    }

    /// Begins the growth of a collection with these throttled shards, if it may grow when it rests for
    /// `pause` after a change. Of all who try at the same time, one succeeds: the change is conditional on `seen`.
    /// Unless the mode is on, nothing is changed.
    pub(crate) async fn begin_growth(
        &self,
        seen: &CollectionMetadata,
        throttled: &[ShardId],
        pause: Duration,
        deadline: Deadline,
    ) -> Result<Growth, Error> {
        let Settings { scaling, lease_term, max_shards, .. } = &self.settings;
        let now_secs = self.clock.now().epoch_secs();
        let settle = settle_time(*lease_term);
        let (from, to) = match decide_growth(seen, now_secs, settle, pause, *max_shards) {
            Ok(to) => (seen.number_of_shards, to),
            Err(reason) => return Ok(Growth::Refused(reason)),
        };
        if throttled.iter().all(|shard| seen.is_clearing_up(*shard)) {
            return Ok(Growth::Refused(NoGrowth::ClearingUp));
        }
        if scaling.mode != ScalingMode::On {
            return Ok(Growth::WouldBegin { from, to });
        }
        match self.begin(seen, to, None, deadline).await? {
            Ok(_) => Ok(Growth::Begun { from, to }),
            Err(NotBegun::No(reason)) => Ok(Growth::Refused(reason)),
            Err(NotBegun::Changed) => Ok(Growth::Overtaken),
            Err(NotBegun::Failed(error)) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }

    /// Publishes `forward` to `target`, with the job of the change. Whether the collection may change
    /// at all was decided before.
    ///
    /// Beginning waits until the last change was seen closed T' ago: by DynamoDB's clock, as its job
    /// tells, or by that of the controller that has removed the job (protocol: "Phases"). Where the
    /// decision came from `planned`, the job must still be as it was then.
    pub(crate) async fn begin(
        &self,
        seen: &CollectionMetadata,
        target: ShardCount,
        planned: Option<&Job>,
        deadline: Deadline,
    ) -> Result<Result<Known, NotBegun>, Error> {
        let now_secs = self.clock.now().epoch_secs();
        let next = seen.with_forward(target, now_secs);
        let (before, now) = self.job(&seen.partition, deadline).await?;
        if planned.is_some() && planned != before.as_ref() {
            return Ok(Err(NotBegun::Changed));
        }
        if let Some(before) = before.as_ref().filter(|job| job.generation == seen.generation) {
            if before.closed_seen.is_none() && !seen.needs_rebalancing() {
                let why =
                    "is missing, although the metadata says that nothing is left of the change";
                let damage = before.damaged(&Contradiction::new("closed_seen", why));
                return Ok(Err(NotBegun::Failed(StoreError::Corrupt(damage))));
            }
            if planned.is_none() && before.then.is_some() {
                return Ok(Err(NotBegun::No(NoGrowth::Running)));
            }
            let settle = settle_time(self.settings.lease_term);
            let until = before.closed_seen.unwrap_or(now).plus(settle);
            if now < until {
                return Ok(Err(NotBegun::No(NoGrowth::TooSoon { until_secs: until.0 })));
            }
        }
        let Some(job) = Job::new(&next, before.as_ref(), now_secs) else {
            return Ok(Err(NotBegun::Changed));
        };
        let sent = self.clock.now();
        let request = self.store.begin(seen, &next, before.as_ref(), &job);
        let answer = within(&self.clock, deadline, request).await;
        Ok(self.published(seen, next, sent, answer).map_err(NotBegun::from))
    }

    /// The job of a collection, and DynamoDB's time when it was read.
    pub(crate) async fn job(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(Option<Job>, ServerTime), Error> {
        let mut attempts = Attempts::new(&self.clock, &self.entropy, deadline);
        let why_late = "the job of the reshard could not be read in time";
        let Dated { value, server_secs } =
            attempts.make(|| self.read_job(partition), why_late).await?;
        let secs = server_secs.unwrap_or_else(|| self.clock.now().epoch_secs());
        Ok((value, ServerTime(secs)))
    }

    async fn read_job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        let read = self.store.job(partition).await?;
        if let Some(job) = &read.value
            && let Err(contradiction) = job.check(self.settings.schema.sort_key_type)
        {
            return Err(StoreError::Corrupt(job.damaged(&contradiction)));
        }
        Ok(read)
    }

    /// Changes a job from `seen` to `next`, whose `rev` is raised.
    pub(crate) async fn save_job(
        &self,
        seen: &Job,
        mut next: Job,
        deadline: Deadline,
    ) -> Result<Job, StoreError> {
        next.rev = seen.rev + 1;
        let answer = within(&self.clock, deadline, self.store.save_job(seen, &next)).await;
        let answer = answer.unwrap_or_else(|| {
            let why = "the change of the job was not answered in time";
            Err(StoreError::OutcomeUnknown(why.to_owned()))
        });
        answer.map(|_| next)
    }

    /// Removes a job, and the note of it from the metadata, if both are as seen.
    pub(crate) async fn finish(
        &self,
        seen: &CollectionMetadata,
        job: &Job,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let next = seen.without_cleanup(self.clock.now().epoch_secs());
        let sent = self.clock.now();
        let answer = within(&self.clock, deadline, self.store.finish(seen, &next, job)).await;
        self.published(seen, next, sent, answer)
    }

    /// Metadata as it is now, whatever is cached.
    pub(crate) async fn read_now(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<Known>, Error> {
        let _reading = self.stripe(partition).lock().await;
        self.forget(partition);
        self.read_with_retries(partition, deadline).await
    }

    /// Changes metadata from `seen` to `next`, if it still is as seen; otherwise
    /// [`StoreError::ConditionFailed`], and what is cached is dropped.
    pub(crate) async fn update(
        &self,
        seen: &CollectionMetadata,
        next: CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let sent = self.clock.now();
        let answer = within(&self.clock, deadline, self.store.update(seen, &next)).await;
        self.published(seen, next, sent, answer)
    }

    /// Keeps what a change has published, and drops what is cached if it may not have.
    fn published(
        &self,
        seen: &CollectionMetadata,
        next: CollectionMetadata,
        sent: Reading,
        answer: Option<Result<Dated<()>, StoreError>>,
    ) -> Result<Known, StoreError> {
        let answer = answer.unwrap_or_else(|| {
            let why = "the change of the metadata was not answered in time";
            Err(StoreError::OutcomeUnknown(why.to_owned()))
        });
        match answer {
            Ok(Dated { server_secs, .. }) => {
                Ok(self.keep(next, Lease::new(sent, server_secs, self.settings.lease_term)))
            }
            Err(error) => {
                self.forget(&seen.partition);
                Err(error)
            }
        }
    }

    /// One page of the collections in which a reshard seems to run.
    pub(crate) async fn resharding(
        &self,
        after: Option<&PartitionKey>,
        deadline: Deadline,
    ) -> Result<ReshardingPage, Error> {
        let mut attempts = Attempts::new(&self.clock, &self.entropy, deadline);
        attempts
            .make(
                || self.store.resharding(after),
                "the index of running reshards could not be read in time",
            )
            .await
    }

    /// One page of all collections.
    pub(crate) async fn collections(
        &self,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<CatalogPage, Error>
    where
        M: CollectionCatalog,
    {
        let mut attempts = Attempts::new(&self.clock, &self.entropy, deadline);
        attempts
            .make(|| self.store.collections(after), "the metadata table could not be read in time")
            .await
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

    /// Time, for the use cases that stand on this directory.
    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    /// Chance, for the use cases that stand on this directory.
    pub(crate) fn entropy(&self) -> &E {
        &self.entropy
    }

    fn cached(&self, partition: &PartitionKey) -> Option<Known> {
        let now = self.clock.now();
        let mut cache = self.lock();
        let known = cache.get(partition)?;
        if known.lease.is_fresh(now) {
            return Some(known.clone());
        }
        cache.pop(partition);
        None
    }

    fn stripe(&self, partition: &PartitionKey) -> &AsyncMutex<()> {
        let hash = xxh64(partition.as_str().as_bytes(), self.stripe_seed);
        let stripes = u64::try_from(STRIPES).unwrap_or(1);
        &self.reading[usize::try_from(hash % stripes).unwrap_or(0)]
    }

    async fn read_with_retries(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<Known>, Error> {
        let mut attempts = Attempts::new(&self.clock, &self.entropy, deadline);
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

    fn keep(&self, metadata: CollectionMetadata, lease: Lease) -> Known {
        let known = Known { metadata: Arc::new(metadata), lease };
        self.lock().put(known.metadata.partition.clone(), known.clone());
        known
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<PartitionKey, Known>> {
        // Nothing panics while the lock is held, and the cache is sound in any case.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a reshard was not begun.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotBegun {
    /// It may not begin now.
    No(NoGrowth),
    /// The collection is not as seen any more.
    Changed,
    /// The request failed.
    Failed(StoreError),
}

impl From<StoreError> for NotBegun {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::ConditionFailed { .. } => Self::Changed,
            error => Self::Failed(error),
        }
    }
}
