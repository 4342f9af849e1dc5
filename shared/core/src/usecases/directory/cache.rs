//! Metadata under leases: what may be believed without a request.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, Placement};
use futures_util::lock::Mutex as AsyncMutex;
use lru::LruCache;
use parking_lot::Mutex;
use xxhash_rust::xxh64::xxh64;

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::segment::{Group, KeyHash};
use crate::model::settings::Settings;
use crate::ports::{Clock, Dated, ReadRecords, StoreError, World};
use crate::usecases::context::Context;
use crate::usecases::directory::item::DirectoryLease;
use crate::usecases::directory::segments::{Segments, Standing};
use crate::usecases::directory::settings::PinnedSettings;
use crate::usecases::records::Records;
use crate::usecases::retry::{Attempts, refusal, within};

/// The collections whose metadata one execution environment keeps. An entry takes well under a
/// kilobyte, so the cache stays below the smallest function's memory.
const CACHED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What is known about collections, and for how long it may be believed.
///
/// The root of the directory and the metadata of the collections that are listed are read strongly and kept for a lease; while
/// the lease lives, a look-up costs no request. A collection that is not listed stands on the lease of the root, and so does the
/// metadata of one that rests, until the root counts a change (protocol: "The directory").
pub struct Directory {
    context: Context,
    lease: DirectoryLease,
    pub(super) segments: Segments,
    cache: Mutex<LruCache<PartitionKey, Held>>,
    /// Whoever reads a collection's metadata holds its stripe, so that concurrent operations of one
    /// batch share one read when a lease runs out.
    stripes: Stripes,
}

struct Stripes {
    locks: [AsyncMutex<()>; STRIPES],
    /// Drawn, so that nobody can choose partition keys that share a stripe.
    seed: u64,
}

/// How often an environment looks whether new shards are in force that may be. A thousand environments take a good
/// half of what the partition of the metadata gives.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// For how long metadata is renewed without a read. Nothing that dynashard changes needs the bound: it is for what somebody has
/// corrected by hand.
const RENEWED_FOR: Duration = Duration::from_mins(10);

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

/// Metadata as it was read, and what renews it.
struct Held {
    known: Known,
    /// Of metadata that rests: the group whose counter tells of a change, and what the root counted that was in hand before the
    /// metadata was read.
    read_under: Option<(Group, u64)>,
}

impl Directory {
    /// An empty directory.
    pub fn new(world: World, settings: Settings) -> Self {
        let context = Context::new(world, settings);
        let cache = Mutex::new(LruCache::new(CACHED_COLLECTIONS));
        Self {
            lease: DirectoryLease::new(context.clone()),
            segments: Segments::new(context.clone()),
            cache,
            stripes: Stripes {
                locks: std::array::from_fn(|_| AsyncMutex::new(())),
                seed: context.entropy().next_u64(),
            },
            context,
        }
    }

    /// This directory, of a function that writes: it pins its settings if none are pinned.
    #[must_use]
    pub fn pinning(self) -> Self {
        Self { lease: self.lease.pinning(), ..self }
    }

    /// What the use cases on this directory need from outside, and the settings.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The settings of the stack.
    pub fn settings(&self) -> &Settings {
        self.context.settings()
    }

    /// The time, for the deadlines of requests.
    pub fn now(&self) -> Moment {
        self.context.now()
    }

    /// Time, for whoever stands on this directory.
    pub fn clock(&self) -> &dyn Clock {
        self.context.clock()
    }

    /// A series of attempts until `deadline`.
    pub(crate) fn attempts(&self, deadline: Deadline) -> Attempts<'_> {
        self.context.attempts(deadline)
    }

    /// The directory item under its lease.
    pub fn lease(&self) -> &DirectoryLease {
        &self.lease
    }

    /// The records of the metadata table.
    pub fn records(&self) -> Records<'_> {
        Records::of(&self.context)
    }

    /// The settings that are pinned.
    pub fn pinned(&self) -> PinnedSettings<'_> {
        PinnedSettings::of(&self.context)
    }

    /// The collection's metadata, or what holds of a collection without any.
    pub async fn find(&self, partition: &PartitionKey, deadline: Deadline) -> Result<Known, Error> {
        loop {
            if let Some(known) = self.cached(partition) {
                return Ok(known);
            }
            let (item, lease) = self.lease.item(deadline).await?;
            match self.segments.standing(&item, partition) {
                Standing::Cold => return Ok(Known::cold(partition, self.settings(), lease)),
                Standing::Listed => break,
                Standing::Unread => {
                    self.segments.read(partition, &self.lease, deadline).await?;
                }
            }
        }
        let _turn = self.context.turn(self.stripes.of(partition), deadline).await?;
        if let Some(known) = self.cached(partition) {
            return Ok(known);
        }
        self.read_with_retries(partition, deadline).await
    }

    /// What holds of one item: the metadata of its collection, as of the item's epoch.
    pub(crate) async fn find_for(&self, key: &ItemKey, deadline: Deadline) -> Result<Known, Error> {
        Ok(self.find(&key.partition, deadline).await?.at(key))
    }

    /// The collection's metadata as it is now, whatever is cached.
    pub(crate) async fn read_now(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        // What an item lists itself it lists for ever, and of segments the root in hand tells enough.
        let tells = |item: &DirectoryItem| item.groups().is_some() || item.lists(partition);
        let (item, lease) = if self.lease.last().is_some_and(|item| tells(&item)) {
            self.lease.item(deadline).await?
        } else {
            self.lease.read_now(deadline).await?
        };
        let is_listed = if item.groups().is_none() {
            item.lists(partition)
        } else {
            self.segments.list_now(&item, partition, deadline).await?
        };
        if !is_listed {
            return Ok(Known::cold(partition, self.settings(), lease));
        }
        let _turn = self.context.turn(self.stripes.of(partition), deadline).await?;
        self.cache.lock().pop(partition);
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
            let began = self.now();
            let known = self.read_now(partition, deadline).await?;
            if known.metadata.is_enlisted() {
                return Ok(Some(known));
            }
            // No transaction shows in part for longer (protocol: "Assumptions"). The metadata may have shown at any time
            // before that was answered, and only a read of the directory that began after it counts.
            if first_seen
                .is_some_and(|seen| began.certainly_since(seen) > self.lease.waits().visible())
            {
                let why = format!(
                    "the metadata item of {partition:?} exists, although the directory does not list it"
                );
                return Err(Error::new(Code::CorruptData, why));
            }
            let request = || self.context.record_store().get::<CollectionMetadata>(partition);
            if attempts.make(request, METADATA_NOT_IN_TIME).await?.value.is_none() {
                return Ok(None);
            }
            first_seen.get_or_insert_with(|| self.now());
            let why = "the directory does not show yet that the collection has metadata";
            attempts.pause(Error::new(Code::Unavailable, why)).await?;
        }
    }

    /// Drops what is cached about a collection: an item has shown that it is out of date. It may have been
    /// enlisted since.
    pub fn forget(&self, partition: &PartitionKey) {
        self.cache.lock().pop(partition);
        match self.lease.last() {
            Some(root) if root.groups().is_some() => self.segments.doubt(partition),
            Some(item) if item.lists(partition) => {}
            _ => self.lease.drop(),
        }
    }

    /// What is cached about a collection, if an operation may begin on it.
    pub(crate) fn cached(&self, partition: &PartitionKey) -> Option<Known> {
        let now = self.now();
        // Whoever differs from what is pinned stops within T, whatever it stands on (protocol: "Pinned
        // settings").
        let (item, lease) = self.lease.fresh(now)?;
        {
            let mut cache = self.cache.lock();
            if let Some(held) = cache.get(partition) {
                let known = held.under(&item, lease, now);
                let known =
                    known.filter(|it| !it.is_move_due(|| self.lease.waits().leases_end, now));
                if known.is_none() {
                    cache.pop(partition);
                }
                return known;
            }
        }
        let is_cold = self.segments.standing(&item, partition) == Standing::Cold;
        is_cold.then(|| Known::cold(partition, self.settings(), lease))
    }

    /// Keeps metadata that was read, or published, while the lease of the directory lived. `before` is what was in hand of that
    /// before.
    pub(super) fn keep(
        &self,
        metadata: CollectionMetadata,
        lease: Lease,
        before: &DirectoryItem,
    ) -> Known {
        let read_under = Some(KeyHash::of(&metadata.partition).metadata_group())
            .filter(|_| metadata.rests())
            .and_then(|group| Some((group, before.count_of(group)?)));
        let known = Known { metadata: Arc::new(metadata), lease };
        let held = Held { known: known.clone(), read_under };
        self.cache.lock().put(known.metadata.partition.clone(), held);
        known
    }

    async fn read_with_retries(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        let mut attempts = self.attempts(deadline);
        loop {
            self.lease.hold(deadline).await?;
            // A lease of metadata is taken only while that of the directory lives (protocol: "Pinned
            // settings"). One reading of the clock decides both: a process may be suspended between two.
            let before = self.now();
            let Some(under) = self.lease.fresh(before) else { continue };
            match within(self.clock(), deadline, self.read(partition, before, &under)).await {
                Some(Ok(known)) => return Ok(known),
                Some(Err(error)) => attempts.pause(refusal(error)?).await?,
                None => return Err(Error::new(Code::Unavailable, METADATA_NOT_IN_TIME)),
            }
        }
    }

    /// What a listed collection has for metadata, under a lease from `before` on. One that has none is cold under
    /// the lease of this read: another key has the same hash, or the transaction that enlists it shows in part.
    async fn read(
        &self,
        partition: &PartitionKey,
        before: Moment,
        (root, under): &(Arc<DirectoryItem>, Lease),
    ) -> Result<Known, StoreError> {
        let Dated { value, server_secs } =
            self.context.record_store().get::<CollectionMetadata>(partition).await?;
        if let Some(Err(contradiction)) =
            value.as_ref().map(|metadata| metadata.check(self.settings().schema.sort_key_type))
        {
            let what = format!("the metadata item of {partition:?} is damaged: {contradiction}");
            return Err(StoreError::Corrupt(what));
        }
        let lease = lease_under(under, self, before, server_secs);
        let cold = || CollectionMetadata::cold(partition.clone(), self.settings().placement);
        Ok(self.keep(value.unwrap_or_else(cold), lease, root))
    }
}

/// A lease of what was just read or published by a request that was sent at `sent` under this lease of the directory, whose
/// dates it has: what is held of the directory may have been dropped meanwhile.
pub(super) fn lease_under(
    under: &Lease,
    directory: &Directory,
    sent: Moment,
    server_secs: Option<u64>,
) -> Lease {
    let lease = Lease::new(sent, server_secs, directory.settings().lease_term);
    lease.writing_as(under, directory.now())
}

impl Stripes {
    /// Held by whoever reads the collection's metadata.
    fn of(&self, partition: &PartitionKey) -> &AsyncMutex<()> {
        let hash = xxh64(partition.as_str().as_bytes(), self.seed);
        let stripes = u64::try_from(STRIPES).unwrap_or(1);
        &self.locks[usize::try_from(hash % stripes).unwrap_or(0)]
    }
}

impl Held {
    /// What may be acted on, if anything: on its own lease, or on this one of the root if that counts no change.
    fn under(&self, root: &DirectoryItem, lease: Lease, now: Moment) -> Option<Known> {
        if self.known.lease.is_fresh(now) {
            return Some(self.known.clone());
        }
        let (group, count) = self.read_under?;
        let is_renewed =
            root.count_of(group) == Some(count) && self.known.lease.age(now) < RENEWED_FOR;
        is_renewed.then(|| Known { lease, ..self.known.clone() })
    }
}

impl Known {
    /// What holds of one item of the collection.
    #[must_use]
    pub(crate) fn at(self, key: &ItemKey) -> Self {
        Self { metadata: self.metadata.at(&key.sort), ..self }
    }

    /// Whether an answer that has come now counts, of one who asked for this item by what is known here: under the lease, or since
    /// nothing has changed (protocol: "Lease").
    pub(crate) async fn holds(
        &self,
        directory: &Directory,
        key: &ItemKey,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        Ok(self.lease.is_live(directory.now())
            || directory.find_for(key, deadline).await?.metadata == self.metadata)
    }

    /// What holds of a collection that has no metadata.
    fn cold(partition: &PartitionKey, settings: &Settings, lease: Lease) -> Self {
        // What is the system's own lies in one place, which has to be known.
        let placement = if partition.is_reserved() { Placement::Xxh64 } else { settings.placement };
        let metadata = CollectionMetadata::cold(partition.clone(), placement);
        Self { metadata: Arc::new(metadata), lease }
    }

    /// Whether the new shards of a growth may be in force, of which the metadata says that they will be so long after
    /// it was published. Without another look an environment would keep its writes away from them for most of a lease.
    fn is_move_due(&self, leases_end: impl Fn() -> Duration, now: Moment) -> bool {
        if !matches!(self.metadata.phase, Phase::Forward { .. }) {
            return false;
        }
        let published = Duration::from_secs(self.metadata.last_updated_secs);
        let due = published + leases_end();
        let read = self.lease.since().wall;
        // A rebalancer that is late is likely to stay so: the pauses between looks grow with its delay.
        let pause = (read.saturating_sub(due) / 2).max(LOOK_AGAIN);
        now.wall >= due.max(read + pause)
    }
}

const METADATA_NOT_IN_TIME: &str = "the metadata could not be read in time";
