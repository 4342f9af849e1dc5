use std::time::Duration;

use dynashard_core::ports::{Clock, Dated, MetadataStore, ReshardingPage, StoreError};
use dynashard_core::{CollectionMetadata, DirectoryItem, Job};
use dynashard_keys::PartitionKey;
use dynashard_testkit::{ManualClock, MemoryStore};

/// A metadata table whose answers take their time, so that requests can meet: all who ask at once have
/// read before any of them changes what it read.
pub(crate) struct Slow {
    memory: MemoryStore,
    clock: ManualClock,
}

impl Slow {
    const ANSWER: Duration = Duration::from_millis(10);

    pub(crate) fn new(memory: MemoryStore, clock: ManualClock) -> Self {
        Self { memory, clock }
    }
}

impl MetadataStore for Slow {
    async fn get(
        &self,
        partition: &PartitionKey,
    ) -> Result<Dated<Option<CollectionMetadata>>, StoreError> {
        let answer = MetadataStore::get(&self.memory, partition).await;
        self.clock.sleep(Self::ANSWER).await;
        answer
    }

    async fn directory(&self) -> Result<Dated<Option<DirectoryItem>>, StoreError> {
        let answer = self.memory.directory().await;
        self.clock.sleep(Self::ANSWER).await;
        answer
    }

    async fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> Result<Dated<()>, StoreError> {
        self.memory.save_directory(seen, next).await
    }

    async fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> Result<Dated<()>, StoreError> {
        self.memory.enlist(seen, next, metadata, job).await
    }

    async fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> Result<Dated<()>, StoreError> {
        let answer = self.memory.update(seen, next).await;
        self.clock.sleep(Self::ANSWER).await;
        answer
    }

    async fn job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        self.memory.job(partition).await
    }

    async fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        self.memory.begin(seen, next, seen_job, job).await
    }

    async fn save_job(&self, seen: &Job, next: &Job) -> Result<Dated<()>, StoreError> {
        self.memory.save_job(seen, next).await
    }

    async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        call: u64,
    ) -> Result<(), StoreError> {
        self.memory.call_lane(partition, lane, call).await
    }

    async fn remove_lane(&self, partition: &PartitionKey, lane: u32) -> Result<(), StoreError> {
        self.memory.remove_lane(partition, lane).await
    }

    async fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        self.memory.finish(seen, next, seen_job).await
    }

    async fn resharding(&self, after: Option<&str>) -> Result<ReshardingPage, StoreError> {
        let answer = self.memory.resharding(after).await;
        self.clock.sleep(Self::ANSWER).await;
        answer
    }
}
