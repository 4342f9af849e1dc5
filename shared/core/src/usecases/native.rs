//! Requests in DynamoDB's own words: where they go, under which guard and for how long (protocol: "Updates in place").

use std::time::Duration;

use dynashard_keys::{PartitionKey, PhysicalPartitionKey, ShardCount};

use crate::model::error::Error;
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::schema::TableSchema;
use crate::model::version::{Generation, Version};
use crate::usecases::directory::Directory;

/// Says what a request in DynamoDB's own words has to carry. Its text is its sender's: whoever sends it puts the guard and the
/// version into it, and sends it only while the lease lives.
pub struct NativeRequests {
    directory: Directory,
}

/// Where the items of a collection of one shard lie, and what a request on them carries.
#[derive(Debug, Clone)]
pub struct NativeTerms {
    /// The partition key that DynamoDB holds them under.
    pub partition: PhysicalPartitionKey,
    /// No write happens to an item of a later generation, and no answer counts that shows one.
    pub generation: Generation,
    /// Nothing is sent once it has run out, and no read counts that was answered after it.
    pub lease: Lease,
}

impl NativeRequests {
    /// Requests by what this directory knows.
    pub fn new(directory: Directory) -> Self {
        Self { directory }
    }

    /// The keys of the main table.
    pub fn schema(&self) -> &TableSchema {
        &self.directory.settings().schema
    }

    /// The time, for deadlines and leases.
    pub fn now(&self) -> Moment {
        self.directory.now()
    }

    /// The epoch second by DynamoDB's clock, as far as it is known.
    pub fn epoch_secs(&self) -> u64 {
        self.directory.lease().epoch_secs()
    }

    /// What a request on this collection carries. `None` where it has several shards, is about to, or has markers left.
    pub async fn terms(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<NativeTerms>, Error> {
        let known = self.directory.find(partition, deadline).await?;
        let metadata = &known.metadata;
        let is_one_shard =
            !metadata.needs_rebalancing() && metadata.number_of_shards == ShardCount::ONE;
        Ok(is_one_shard.then(|| {
            let (placement, separator) = (metadata.placement, self.schema().separator);
            NativeTerms {
                partition: partition.at(placement.first(), placement, separator),
                generation: metadata.generation,
                lease: known.lease,
            }
        }))
    }

    /// The lease under which no collection has ever had a second shard, so that the table as a whole may be read as it is. `None`
    /// where one has, or may have.
    pub async fn terms_of_all(&self, deadline: Deadline) -> Result<Option<Lease>, Error> {
        self.directory.lease().if_nothing_is_listed(deadline).await
    }

    /// Waits before what was out of date is tried again.
    pub async fn wait(&self, time: Duration) {
        self.directory.clock().sleep(time).await;
    }

    /// A version for one write: no two writes may give an item the same (invariants I35 and I36).
    pub fn draw_version(&self) -> Version {
        Version::new(self.directory.context().entropy().next_u64())
    }

    /// Has what is known of all collections be read again: an item has shown that it is out of date.
    pub fn forget_all(&self) {
        self.directory.lease().drop();
    }

    /// Has what is known of a collection be read again: an item has shown that it is out of date.
    pub fn forget(&self, partition: &PartitionKey) {
        self.directory.forget(partition);
    }
}
