//! The preconditions that a client may set, and where a write landed.

use dynashard_keys::{Placement, ShardId};

use crate::model::error::{Code, Error};
use crate::model::guard::Expected;
use crate::model::version::Version;

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
