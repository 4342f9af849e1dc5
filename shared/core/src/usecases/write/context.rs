//! What all writes of an environment share.

use std::sync::Arc;

use async_lock::Semaphore;
use dynashard_keys::{ItemKey, PartitionKey};

use crate::model::history::DecidedBy;
use crate::model::policy::Access;
use crate::model::version::Version;
use crate::ports::{Clock, ItemStore};
use crate::usecases::directory::Directory;
use crate::usecases::meter::Incoming;
use crate::usecases::watch::Watch;
use crate::usecases::write::held::Held;
use crate::usecases::write::pacing::Pacing;

/// What all writes of an environment share.
pub(crate) struct WriteContext {
    pub(crate) directory: Arc<Directory>,
    pub(crate) watch: Watch,
    /// Held by each request of a write while it is under way, and not while it waits to be tried
    /// again.
    pub(super) slots: Semaphore,
    /// Held by each part of a delete in a random collection until it is done.
    pub(super) parts: Semaphore,
    /// What is held, in an environment that holds writes for its clients.
    pub(crate) held: Held,
    /// None if whoever calls paces itself.
    pub(crate) pacing: Option<Pacing>,
}

/// How many requests of one environment's writes are under way at once, reads of what is to be
/// written included. `BatchWriteItem` cannot carry the guard, so a batch is single writes side by
/// side.
const REQUESTS_IN_FLIGHT: usize = 64;

/// How many parts of deletes in random collections are under way at once. Each takes some 50 KB, so all parts of all
/// deletes of a batch would take more memory than there is.
const PARTS_IN_FLIGHT: usize = 256;

impl WriteContext {
    /// What the writes of an environment share that decides as this one.
    pub(crate) fn new(directory: Arc<Directory>, by: DecidedBy) -> Self {
        let partition = directory.settings().partition;
        Self {
            directory,
            watch: Watch::new(Some(by), partition),
            held: Held::default(),
            slots: Semaphore::new(REQUESTS_IN_FLIGHT),
            parts: Semaphore::new(PARTS_IN_FLIGHT),
            pacing: Some(Pacing::new(partition.of(Access::Write))),
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.directory.clock()
    }

    pub(super) fn items(&self) -> &dyn ItemStore {
        self.directory.context().items()
    }

    /// Takes note of an operation that comes in, and of the units that it asks for, if they are known.
    pub(super) fn arrived(&self, key: &ItemKey, units: Option<f64>) {
        let (partition, item) = (&key.partition, Some(key));
        let beside = self.index_ledger();
        let incoming = Incoming { partition, item, access: Access::Write, units, beside };
        self.watch.meter.arrived(incoming, self.clock().now());
    }

    /// The ledger of what is written to write-sharded indexes, if there are any.
    pub(super) fn index_ledger(&self) -> Option<&PartitionKey> {
        let root = self.directory.lease().last();
        root.and_then(|root| root.index_shards).map(|_| &self.watch.index_ledger)
    }

    pub(crate) fn draw_version(&self) -> Version {
        Version::new(self.directory.context().entropy().next_u64())
    }
}
