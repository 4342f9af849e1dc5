//! Requests in DynamoDB's own words: the use cases say where they go and what they carry, their sender knows their text.

use std::collections::BTreeSet;

use async_trait::async_trait;
use dynashard_keys::PhysicalPartitionKey;

use crate::model::lease::Lease;
use crate::model::version::{Generation, Version};
use crate::ports::errors::StoreError;

/// Where the item of a request lies, and what the request stands on.
#[derive(Debug, Clone)]
pub struct NativeTerms {
    /// The partition key that DynamoDB holds it under.
    pub partition: PhysicalPartitionKey,
    /// No write happens to an item of a later generation, and no answer counts that shows one.
    pub generation: Generation,
    /// Nothing is sent once it has run out, and no answer counts that came after it unless nothing has changed.
    pub lease: Lease,
    /// Whether items are being moved, so that only a strongly consistent read is sure to see what has come.
    pub is_moving: bool,
}

impl NativeTerms {
    /// Whether these terms are those, under whichever lease: nothing has changed between them that a read can tell.
    pub fn agree_with(&self, others: &Self) -> bool {
        let own = (&self.partition, self.generation, self.is_moving);
        own == (&others.partition, others.generation, others.is_moving)
    }
}

/// What a write adds to its client's own condition, and the version that it gives its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeGuard {
    /// What has to be there.
    pub required: Required,
    /// No two writes give an item the same (invariants I35 and I36).
    pub version: Version,
}

/// What has to be there for a write to happen, beside what its client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// Anything, or nothing.
    Anything,
    /// Anything but a marker: the client's condition would be judged of it, and it counts as nothing (protocol: "Live").
    NoMarker,
    /// A live item.
    Live,
    /// The live item of this version.
    Version(Version),
    /// Nothing, not even a marker.
    Nothing,
}

/// What of a write says where it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeKind {
    /// It replaces whatever is there, and tells nobody what that was.
    Replace,
    /// It depends on what is there, or shows it.
    Depend,
    /// It removes what is there.
    Delete,
}

/// A write in DynamoDB's own words.
#[async_trait]
pub trait NativeWrite: Sync {
    /// What its client is answered.
    type Answer: Send;

    /// What of it says where it may go.
    fn kind(&self) -> NativeKind;

    /// How many writes its client's request has: more than one in a batch.
    fn writes_of_request(&self) -> usize {
        1
    }

    /// Whether it may leave an item that expires by one of these attributes.
    fn may_expire(&self, ttl_attributes: &BTreeSet<String>) -> bool;

    /// Sends it once, under these terms and this guard.
    async fn send(
        &self,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<NativeSent<Self::Answer>, StoreError>;
}

/// What became of a write that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum NativeSent<A> {
    /// It was carried out.
    Done {
        /// What its client is answered.
        answer: A,
        /// The write units that DynamoDB reported.
        consumed_wcu: f64,
    },
    /// A condition did not hold, and nothing was written.
    Refused {
        /// What its client is answered, if it was its own condition.
        answer: A,
        /// What was there.
        existing: Option<Existing>,
    },
    /// DynamoDB calls it wrong, and nothing was written.
    Invalid(A),
}

/// What lies at a place, as far as the protocol asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Existing {
    /// The generation that it was written or moved in.
    pub generation: Generation,
    /// Its version.
    pub version: Version,
    /// Whether it only says that an item has moved.
    pub is_marker: bool,
}

/// A read of one item in DynamoDB's own words.
#[async_trait]
pub trait NativeRead: Sync {
    /// What its client is answered.
    type Answer: Send;

    /// Whether its client asks for a strongly consistent one.
    fn is_strong(&self) -> bool;

    /// Sends it once, strongly consistent whatever its client asks for if that is `strong`.
    async fn send(
        &self,
        terms: &NativeTerms,
        strong: bool,
    ) -> Result<NativeGot<Self::Answer>, StoreError>;
}

/// What a read was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum NativeGot<A> {
    /// What lies there.
    Read {
        /// What its client is answered, if what lies there counts.
        answer: A,
        /// What lies there.
        existing: Option<Existing>,
        /// The read units that DynamoDB reported.
        consumed_rcu: f64,
    },
    /// DynamoDB calls it wrong.
    Invalid(A),
}
