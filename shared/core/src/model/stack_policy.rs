//! What a stack decides by that is not pinned.

use std::time::Duration;

use dynashard_keys::{Placement, ShardCount};

use crate::model::grow_keys::GrowKeys;
use crate::model::policy::{PartitionLimits, ScalingPolicy};
use crate::model::settings::Settings;

/// What a stack decides by that is not pinned, as its functions are set to it. The directory item holds it, for whoever decides
/// without their variables. Safety does not hang on it: a count that was decided by an old one is a count like others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackPolicy {
    /// The placement of collections whose count was never changed.
    pub placement: Placement,
    /// No collection has more shards than this.
    pub max_shards: ShardCount,
    /// Which collections may get another shard count.
    pub grow_keys: GrowKeys,
    /// Whether and when shard counts change by themselves.
    pub scaling: ScalingPolicy,
    /// What one partition takes.
    pub partition: PartitionLimits,
}

impl StackPolicy {
    /// That of a function with these settings.
    pub fn of(settings: &Settings) -> Self {
        let Settings { placement, max_shards, grow_keys, scaling, partition, .. } = settings;
        let (placement, max_shards, grow_keys) = (*placement, *max_shards, grow_keys.clone());
        Self { placement, max_shards, grow_keys, scaling: *scaling, partition: *partition }
    }

    /// These settings with this policy.
    #[must_use]
    pub fn applied_to(self, settings: Settings) -> Settings {
        let Self { placement, max_shards, grow_keys, scaling, partition } = self;
        Settings { placement, max_shards, grow_keys, scaling, partition, ..settings }
    }
}

/// What the directory item tells whoever works on a stack's tables without the variables of its functions, while the stack is deployed
/// with other ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackTold {
    /// What it decides by, if a function has told.
    pub policy: Option<StackPolicy>,
    /// T: the newest that is accepted.
    pub lease_term: Duration,
}
