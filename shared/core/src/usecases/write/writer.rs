//! The writer, the preconditions that a client may set, and where a write landed.

use std::sync::Arc;

use async_lock::Semaphore;
use dynashard_keys::{ItemKey, Placement, ShardId};

use crate::model::error::{Code, Error};
use crate::model::guard::Expected;
use crate::model::policy::Access;
use crate::model::version::Version;
use crate::ports::{Clock, ItemStore};
use crate::usecases::directory::Directory;
use crate::usecases::meter::Arrival;
use crate::usecases::watch::{Telemetry, Watch};
use crate::usecases::write::pacing::Pacing;

/// Puts, patches and deletes single items.
///
/// Every write is one guarded request to the item's home (protocol: "The guard on every write").
/// What DynamoDB definitely refused is sent again, with full jitter, until the deadline; a write
/// whose fate is unknown never is.
pub struct Writer {
    pub(super) directory: Directory,
    pub(super) watch: Watch,
    /// Held by each request of a write while it is under way, and not while it waits to be tried
    /// again.
    pub(super) slots: Semaphore,
    /// Held by each part of a delete in a random collection until it is done.
    pub(super) parts: Semaphore,
    /// None if whoever calls paces itself.
    pub(super) pacing: Option<Pacing>,
}

/// How many requests of one environment's writes are under way at once, reads of what is to be
/// written included. `BatchWriteItem` cannot carry the guard, so a batch is single writes side by
/// side.
const REQUESTS_IN_FLIGHT: usize = 64;

/// How many parts of deletes in random collections are under way at once. Each takes some 50 KB, so all parts of all
/// deletes of a batch would take more memory than there is.
const PARTS_IN_FLIGHT: usize = 256;

/// What the client asked about the item that is there (RFC 9110, 13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// `If-None-Match: *`: the item does not exist.
    Absent,
    /// `If-Match: *`: there is an item.
    Exists,
    /// `If-Match: "<etag>"`: there is this version of it.
    Version(Version),
    /// `If-Match` with entity tags that no item ever had. It is refused where the others are checked,
    /// so that a request with another fault is told of that one.
    Never,
}

/// Where a write landed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    /// The item's shard.
    pub shard: ShardId,
    /// The version that the write gave it.
    pub version: Version,
    /// The write units that DynamoDB reported for the write and for what had to be settled before it.
    /// It reports none for requests that it refuses or whose answers are lost.
    pub consumed_wcu: f64,
    /// Whether the item lay there in this version already.
    pub was_there: bool,
}

impl Written {
    pub(super) fn new(shard: ShardId, version: Version, consumed_wcu: f64) -> Self {
        Self { shard, version, consumed_wcu, was_there: false }
    }
}

impl Writer {
    /// A writer over these stores.
    pub fn new(directory: Directory) -> Self {
        let partition = directory.settings().partition;
        Self {
            directory,
            watch: Watch::new(true, partition),
            slots: Semaphore::new(REQUESTS_IN_FLIGHT),
            parts: Semaphore::new(PARTS_IN_FLIGHT),
            pacing: Some(Pacing::new(partition.of(Access::Write))),
        }
    }

    /// This writer for a caller that paces itself: every write is sent, whatever its shard has refused.
    #[must_use]
    pub fn unpaced(self) -> Self {
        Self { pacing: None, ..self }
    }

    /// Reports to `telemetry` what this writer does about throttles.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.watch.report_to(telemetry);
        self
    }

    /// What the writer knows about collections.
    pub fn directory(&self) -> &Directory {
        &self.directory
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
        let arrival = Arrival { partition, item, access: Access::Write, units };
        self.watch.meter.arrived(arrival, self.clock().now());
    }

    pub(super) fn draw_version(&self) -> Version {
        Version::new(self.directory.context().entropy().next_u64())
    }
}

pub(super) fn refuse_random(placement: Placement, what_needs: &str) -> Result<(), Error> {
    if placement.is_calculated() {
        return Ok(());
    }
    Err(Error::new(
        Code::NotForPlacement,
        format!("{what_needs} to know an item's shard, and the collection's placement is random"),
    ))
}

pub(super) fn expected(precondition: Precondition) -> Result<Expected, Error> {
    match precondition {
        Precondition::None => Ok(Expected::Any),
        Precondition::Absent => Ok(Expected::Absent),
        Precondition::Exists => Ok(Expected::Live),
        Precondition::Version(version) => Ok(Expected::Version(version)),
        Precondition::Never => Err(precondition_failed()),
    }
}

pub(super) fn precondition_failed() -> Error {
    Error::new(Code::PreconditionFailed, "the item is not what If-Match or If-None-Match asks for")
}
