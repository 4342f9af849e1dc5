use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::directory::{Directory, refusal};
use crate::ports::{Clock, Entropy, MetadataStore, StoreError};
use crate::retry::Attempts;
use crate::{Code, CollectionMetadata, Deadline, Error};

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

    /// Asks for another shard count of an existing collection.
    pub async fn request_count(
        &self,
        partition: &PartitionKey,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let Some(known) = self.directory.find(partition, deadline).await? else {
            let why = "no item was ever written under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        };
        let placement = known.metadata.placement;
        let count = self.allowed(placement, requested)?;
        let has = known.metadata.number_of_shards;
        Err(Error::new(
            Code::ReshardUnavailable,
            format!(
                "the collection has {has} shards and this version cannot change that to {count}; \
                 pre-shard a collection with PUT /collection before its first item"
            ),
        ))
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
