//! Verifies whole collections: that each item lies where it belongs, once, and what the collection holds.
//!
//! - [`Verifier`] walks all shards of a collection side by side, in sort-key order, so that what lies
//!   in several of them comes together. It keeps a page of each shard, without attributes.
//! - Whatever looks wrong is read again, under metadata that is the same before and after, so clients
//!   may go on and reshards may run. What a running reshard is about to move is not wrong, nor are
//!   the markers that it will remove.
//! - A repair does to an item what writers and the mover do (protocol: "Verification and repair").

mod examine;
mod repair;
mod walk;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId, SortKey};

use crate::decide::digest::Digest;
use crate::decide::judge::FindingKind;
use crate::model::error::Error;
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::version::Generation;
use crate::ports::{CollectionCatalog, ListPage};
use crate::usecases::directory::Directory;

/// Verifies collections, and repairs them.
pub struct Verifier {
    directory: Directory,
}

/// How a collection is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    /// What of it that is found is repaired.
    pub repair: Repair,
    /// The most read units a second that the walk takes. It begins with a quarter of them.
    pub read_units: Option<NonZeroU32>,
    /// How long a request that is refused is tried again before the collection is given up.
    pub patience: Duration,
}

/// What is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repair {
    /// Nothing.
    Nothing,
    /// What no client sees, or what would show again by itself.
    Certain,
    /// Misplaced items come home, too. One may be an item that was deleted, and was found in a table that was restored, or
    /// after a request that took effect later than any may: no rule tells it from one that was lost, and it lives again.
    Misplaced,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { repair: Repair::Nothing, read_units: None, patience: Duration::from_mins(1) }
    }
}

/// Something wrong, which was still there when it was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The sort key of the item.
    pub sort: SortKey,
    /// The shard that it lies in.
    pub shard: ShardId,
    /// The shard that it belongs in; `None` in a random collection.
    pub home: Option<ShardId>,
    /// Its generation.
    pub generation: Generation,
    /// Whether it was put right.
    pub repaired: bool,
}

/// Follows a verification, which keeps no findings itself.
pub trait VerifyObserver: Send {
    /// There is a finding, repaired or not.
    fn found(&mut self, finding: &Finding);

    /// The walk has come so far.
    fn progress(&mut self, so_far: &Verification);
}

/// What the verification of a collection came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Verification {
    /// The collection as it was at the end of the walk.
    pub metadata: CollectionMetadata,
    /// Live items, wherever they lie; one that is being moved counts once.
    pub items: u64,
    /// How many of them lie in each shard, those that lie in none left out.
    pub live_items: BTreeMap<ShardId, u64>,
    /// What they hold. It is comparable with another only if nothing was written in between.
    pub digest: Digest,
    /// Items that the running reshard is about to move.
    pub waiting_to_move: u64,
    /// Markers that are about to be removed.
    pub markers: u64,
    /// Findings of each kind.
    pub findings: BTreeMap<FindingKind, Tally>,
    /// Whether the metadata changed during the walk, which then went on under the new.
    pub layout_changed: bool,
    /// Items that the walk has read and paid for, markers included.
    pub items_read: u64,
    /// Read units that DynamoDB reported for the walk.
    pub consumed_rcu: f64,
}

/// Findings of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// All.
    pub found: u64,
    /// Those that were repaired.
    pub repaired: u64,
}

impl Verification {
    fn begun(metadata: CollectionMetadata) -> Self {
        Self {
            metadata,
            items: 0,
            live_items: BTreeMap::new(),
            digest: Digest::default(),
            waiting_to_move: 0,
            markers: 0,
            findings: BTreeMap::new(),
            layout_changed: false,
            items_read: 0,
            consumed_rcu: 0.0,
        }
    }

    /// All findings together.
    pub fn total(&self) -> Tally {
        self.findings.values().fold(Tally::default(), |sum, tally| Tally {
            found: sum.found + tally.found,
            repaired: sum.repaired + tally.repaired,
        })
    }

    /// Whether no findings remain.
    pub fn is_clean(&self) -> bool {
        let Tally { found, repaired } = self.total();
        found == repaired
    }
}

impl Verifier {
    /// A verifier over these stores.
    pub fn new(directory: Directory) -> Self {
        Self { directory }
    }

    /// What the verifier knows about collections.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// One page of all collections, from behind the key where the page before has ended.
    pub async fn collections(
        &self,
        catalog: &dyn CollectionCatalog,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<ListPage<PartitionKey>, Error> {
        self.directory.records().all(catalog, after, deadline).await
    }

    /// Walks a whole collection, tells `observer` of all that is wrong, and repairs it if asked to.
    pub async fn verify(
        &self,
        partition: &PartitionKey,
        options: VerifyOptions,
        observer: &mut dyn VerifyObserver,
    ) -> Result<Verification, Error> {
        self.walk(partition, options, observer).await
    }

    fn deadline(&self, options: VerifyOptions) -> Deadline {
        Deadline::after(self.directory.now(), options.patience)
    }
}
