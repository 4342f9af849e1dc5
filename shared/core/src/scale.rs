use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::directory::{Directory, refusal};
use crate::growth::{NoGrowth, check_growth};
use crate::lease::settle_time;
use crate::ports::{Clock, Entropy, MetadataStore, StoreError};
use crate::retry::Attempts;
use crate::{Code, CollectionMetadata, Deadline, Error, Phase};

/// Creates collections ahead of their first item, and changes their shard counts.
pub struct Scaler<M, C, E> {
    directory: Directory<M, C, E>,
}

impl<M: MetadataStore, C: Clock, E: Entropy> Scaler<M, C, E> {
    /// A scaler over this directory.
    pub fn new(directory: Directory<M, C, E>) -> Self {
        Self { directory }
    }

    /// What the scaler knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Creates a collection with `requested` shards, rounded as its placement needs. The count
    /// stays the floor of automatic shrinking.
    pub async fn create_collection(
        &self,
        partition: &PartitionKey,
        placement: Option<Placement>,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let placement = placement.unwrap_or(self.directory.settings().placement);
        let count = self.allowed(placement, requested)?;
        let mut attempts =
            Attempts::new(self.directory.clock(), self.directory.entropy(), deadline);
        loop {
            let now_secs = self.directory.clock().now().epoch_secs();
            let metadata =
                CollectionMetadata::pre_sharded(partition.clone(), placement, count, now_secs);
            match self.directory.create(metadata, deadline).await {
                Ok(known) => return Ok(CollectionMetadata::clone(&known.metadata)),
                Err(StoreError::ConditionFailed { .. }) => {
                    let why = "the collection exists already";
                    return Err(Error::new(Code::CollectionExists, why));
                }
                Err(error) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Asks for another shard count of an existing collection, and returns its metadata as the
    /// request left it. An operator waits for no cooldown, only for leases to end.
    pub async fn request_count(
        &self,
        partition: &PartitionKey,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let Some(known) = self.directory.read_now(partition, deadline).await? else {
            let why = "no item was ever written under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        };
        let metadata = &known.metadata;
        let target = self.allowed(metadata.placement, requested)?;
        let now_secs = self.directory.clock().now().epoch_secs();
        let settle = settle_time(self.directory.settings().lease_term);
        if target == metadata.number_of_shards && metadata.phase == Phase::Stable {
            return Ok(CollectionMetadata::clone(metadata));
        }
        if let Err(reason) = check_growth(metadata, target, now_secs, settle) {
            return Err(refused(metadata, target, reason));
        }
        let next = metadata.with_growth_begun(target, now_secs);
        match self.directory.update(metadata, next, deadline).await {
            Ok(known) => Ok(CollectionMetadata::clone(&known.metadata)),
            Err(StoreError::ConditionFailed { .. }) => {
                let why = "the collection's metadata changed while it was read; ask again";
                Err(Error::new(Code::ReshardRunning, why))
            }
            Err(error) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }

    fn allowed(&self, placement: Placement, requested: ShardCount) -> Result<ShardCount, Error> {
        let count = placement.round(requested);
        let max = self.directory.settings().max_shards;
        if count > max {
            return Err(Error::new(
                Code::BadShardCount,
                format!(
                    "{requested} shards under {placement} make {count}; the stack allows {max}"
                ),
            ));
        }
        Ok(count)
    }
}

/// Why a count is not changed to `target`, for the operator who asked for it.
fn refused(metadata: &CollectionMetadata, target: ShardCount, reason: NoGrowth) -> Error {
    let CollectionMetadata { number_of_shards: has, placement, phase, .. } = metadata;
    match (reason, phase) {
        (NoGrowth::Running, Phase::Forward { from, to } | Phase::Move { from, to }) => Error::new(
            Code::ReshardRunning,
            format!("the collection is being changed from {from} to {to} shards"),
        ),
        (NoGrowth::TooSoon { until_secs }, _) => Error::new(
            Code::ReshardTooSoon,
            format!("the collection changed a moment ago; ask again at epoch second {until_secs}"),
        ),
        _ => Error::new(
            Code::ReshardUnavailable,
            format!(
                "the collection has {has} shards under {placement}, and this version cannot change \
                 that to {target}; pre-shard a collection with PUT /collection before its first item"
            ),
        ),
    }
}
