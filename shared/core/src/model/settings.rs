//! What the operator set for the whole stack.

use std::num::NonZeroU32;
use std::time::Duration;

use dynashard_keys::{Placement, ShardCount};

use crate::model::grow_keys::GrowKeys;
use crate::model::policy::{PartitionLimits, ScalingPolicy, ShrinkPolicy};
use crate::model::schema::TableSchema;

/// What the operator set for the whole stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The main table's keys.
    pub schema: TableSchema,
    /// The placement of collections whose count was never changed.
    pub placement: Placement,
    /// T: how long metadata may be used after it was read (protocol: "Lease").
    pub lease_term: Duration,
    /// H: how long after its signing a request may still be executed (protocol: "Assumptions").
    pub request_lifetime: Duration,
    /// By how much writes are dated back by DynamoDB's time, so that H can be shorter than the time for which it takes
    /// signatures (protocol: "Dates of writes"). This and H are what a stack pins first; what is pinned then holds.
    pub signature_age: Duration,
    /// No collection has more shards than this.
    pub max_shards: ShardCount,
    /// Which collections may get another shard count.
    pub grow_keys: GrowKeys,
    /// The attribute by which the main table's items expire, if they do.
    pub ttl_attribute: Option<String>,
    /// The write units a second that moving the items of one collection may take, at most.
    pub mover_wcu: u32,
    /// The write units a second that all changes together may take for that, if they are bounded.
    pub all_movers_wcu: Option<NonZeroU32>,
    /// How many items a second one call of the rebalancer is reckoned to move: what more there is to
    /// move is left to others beside it.
    pub moves_per_call: u32,
    /// Whether and when shard counts change by themselves.
    pub scaling: ScalingPolicy,
    /// Whether and when they go back.
    pub shrink: ShrinkPolicy,
    /// What one partition takes.
    pub partition: PartitionLimits,
    /// How many read replicas the main table has.
    pub read_replicas: u32,
    /// Over how many shards each value of write-sharded indexes is spread at first, if there are such indexes.
    pub index_shards: Option<ShardCount>,
    /// What is kept of items that were read, if anything is.
    pub item_cache: Option<ItemCacheLimits>,
}

/// How long items that were read are kept for others who read them, and in how much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemCacheLimits {
    /// A read shows an item as it was so long before the read began, at most.
    pub term: Duration,
    /// The memory that they take, about.
    pub bytes: u64,
}

impl Default for Settings {
    /// The template's defaults.
    fn default() -> Self {
        Self {
            schema: TableSchema::default(),
            placement: Placement::default(),
            lease_term: Duration::from_secs(2),
            request_lifetime: Duration::from_mins(16),
            signature_age: Duration::ZERO,
            max_shards: ShardCount::new(256).unwrap_or(ShardCount::ONE),
            grow_keys: GrowKeys::default(),
            ttl_attribute: None,
            mover_wcu: 8_000,
            all_movers_wcu: None,
            moves_per_call: 800,
            scaling: ScalingPolicy::default(),
            shrink: ShrinkPolicy::default(),
            partition: PartitionLimits::default(),
            read_replicas: 0,
            index_shards: None,
            item_cache: None,
        }
    }
}
