//! Segments of the directory as they were read: which collections have metadata.

use std::collections::HashMap;

use dynashard_keys::PartitionKey;
use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;

use crate::model::directory_item::DirectoryItem;
use crate::model::error::Error;
use crate::model::lease::Deadline;
use crate::model::segment::{KeyHash, Segment, SegmentId};
use crate::ports::ReadRecords;
use crate::usecases::context::Context;
use crate::usecases::directory::item::DirectoryLease;

/// The segments that one environment has read. All of them take 16 MB with a million collections.
///
/// What was read of a segment holds under every root that does not count more than the one that was read before it, since
/// counters only rise (protocol: "The directory"). That a segment lists a collection holds for ever.
pub(super) struct Segments {
    context: Context,
    held: Mutex<HashMap<SegmentId, Held>>,
    /// Whoever reads a segment holds its stripe, so that concurrent operations share one read.
    stripes: Box<[AsyncMutex<()>]>,
}

/// What was read of a segment.
#[derive(Debug, Clone)]
struct Held {
    segment: Segment,
    /// The counter of a root that was read before it. `None` where an item has shown since that it lists more.
    read_under: Option<u64>,
}

/// Whether a collection has metadata, as far as it is known under the root in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has none under the lease of the root.
    Cold,
    /// It is listed, so its metadata tells.
    Listed,
    /// Its segment has to be read.
    Unread,
}

/// Enough that two segments are rarely read after each other.
const STRIPES: usize = 64;

impl Segments {
    pub(super) fn new(context: Context) -> Self {
        let stripes = (0..STRIPES).map(|_| AsyncMutex::new(()));
        Self { context, held: Mutex::default(), stripes: stripes.collect() }
    }

    /// Whether the collection has metadata, under this root.
    pub(super) fn standing(&self, root: &DirectoryItem, partition: &PartitionKey) -> Standing {
        // What is the system's own is never listed.
        if partition.is_reserved() {
            return Standing::Cold;
        }
        let Some(groups) = root.groups() else {
            return if root.lists(partition) { Standing::Listed } else { Standing::Cold };
        };
        let held = self.held.lock();
        // Many stacks have no sharded key yet: the hash of a key need not be known there.
        if groups.is_empty() && held.is_empty() {
            return Standing::Cold;
        }
        let hash = KeyHash::of(partition);
        let counter = root.count_of(hash.segment().group()).unwrap_or_default();
        match held.get(&hash.segment()) {
            Some(held) if held.segment.lists(hash) => Standing::Listed,
            Some(held) if held.read_under.is_some_and(|at| at >= counter) => Standing::Cold,
            // What was never changed lists nothing.
            None if counter == 0 => Standing::Cold,
            _ => Standing::Unread,
        }
    }

    /// Reads the segment of a collection, unless another operation has done so meanwhile.
    pub(super) async fn read(
        &self,
        partition: &PartitionKey,
        lease: &DirectoryLease,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let hash = KeyHash::of(partition);
        let _turn = self.context.turn(self.stripe(hash), deadline).await?;
        let (root, _) = lease.item(deadline).await?;
        if self.standing(&root, partition) == Standing::Unread {
            self.read_under(&root, hash, deadline).await?;
        }
        Ok(())
    }

    /// Whether its segment lists a collection now.
    pub(super) async fn list_now(
        &self,
        root: &DirectoryItem,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        if self.have_listed(partition) {
            return Ok(true);
        }
        let hash = KeyHash::of(partition);
        let _turn = self.context.turn(self.stripe(hash), deadline).await?;
        self.read_under(root, hash, deadline).await?;
        Ok(self.have_listed(partition))
    }

    /// Whether its segment can list the collection, as far as it is known.
    pub(super) fn have_room_for(&self, partition: &PartitionKey) -> bool {
        let hash = KeyHash::of(partition);
        self.held.lock().get(&hash.segment()).is_none_or(|held| held.segment.has_room_for(hash))
    }

    /// Has the segment of a collection be read again, unless it lists the collection.
    pub(super) fn doubt(&self, partition: &PartitionKey) {
        let hash = KeyHash::of(partition);
        let unread = Held { segment: Segment::default(), read_under: None };
        let mut all = self.held.lock();
        let held = all.entry(hash.segment()).or_insert(unread);
        if !held.segment.lists(hash) {
            held.read_under = None;
        }
    }

    /// Whether its segment was seen to list a collection.
    pub(super) fn have_listed(&self, partition: &PartitionKey) -> bool {
        let hash = KeyHash::of(partition);
        self.held.lock().get(&hash.segment()).is_some_and(|held| held.segment.lists(hash))
    }

    /// Held by whoever reads the segment.
    fn stripe(&self, hash: KeyHash) -> &AsyncMutex<()> {
        &self.stripes[hash.segment().index() % STRIPES]
    }

    /// Reads a segment after this root, whose counter renews it.
    async fn read_under(
        &self,
        root: &DirectoryItem,
        hash: KeyHash,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let of = hash.segment();
        let counter = root.count_of(of.group());
        let read = || self.context.record_store().get::<Segment>(&of);
        let why = "a segment of the directory could not be read in time";
        let segment = self.context.attempts(deadline).make(read, why).await?.value;
        let read_under = Some(counter.unwrap_or_default());
        self.held.lock().insert(of, Held { segment: segment.unwrap_or_default(), read_under });
        Ok(())
    }
}
