use dynashard_keys::PartitionKey;

use crate::directory::{Directory, Known, refusal};
use crate::lease::settle_time;
use crate::ports::{Clock, Entropy, MetadataStore, StoreError};
use crate::{Code, CollectionMetadata, Deadline, Error};

/// Carries running changes of shard counts to their end.
///
/// What starts it is a hint: metadata is always read again, so a record of the stream may repeat,
/// come late or be lost, and two rebalancers may work on one collection.
pub struct Rebalancer<M, C, E> {
    directory: Directory<M, C, E>,
}

/// What became of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// No change is running that this version carries out.
    Nothing,
    /// The change is finished, and this is the new metadata.
    Finished(CollectionMetadata),
}

impl<M: MetadataStore, C: Clock, E: Entropy> Rebalancer<M, C, E> {
    /// A rebalancer over this directory.
    pub fn new(directory: Directory<M, C, E>) -> Self {
        Self { directory }
    }

    /// What the rebalancer knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Carries the change of one collection to its end (protocol: "Random growth"): when the new
    /// count was readable for as long as any lease on the old one may live, writers get it too.
    pub async fn advance(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        loop {
            let Some(seen) = self.directory.read_now(partition, deadline).await? else {
                return Ok(Advance::Nothing);
            };
            if seen.metadata.with_growth_finished(0).is_none() {
                return Ok(Advance::Nothing);
            }
            self.outlast_leases(deadline).await?;
            if let Some(finished) = self.finish(&seen, deadline).await? {
                return Ok(Advance::Finished(finished));
            }
        }
    }

    /// Carries all running changes to their end, whatever the stream has said of them. Returns how
    /// many were finished.
    pub async fn sweep(&self, deadline: Deadline) -> Result<usize, Error> {
        let mut finished = 0;
        let mut after = None;
        loop {
            let page = self.directory.resharding(after.as_ref(), deadline).await?;
            for partition in &page.partitions {
                if let Advance::Finished(_) = self.advance(partition, deadline).await? {
                    finished += 1;
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(finished);
            }
        }
    }

    /// Waits until what was just read has been in force for T', by the clock that advanced least.
    async fn outlast_leases(&self, deadline: Deadline) -> Result<(), Error> {
        let clock = self.directory.clock();
        let wait = settle_time(self.directory.settings().lease_term);
        let since = clock.now();
        loop {
            let left = wait.saturating_sub(clock.now().certainly_since(since));
            if left.is_zero() {
                return Ok(());
            }
            if left >= deadline.remaining(clock.now()) {
                let why = "leases on the old shard count outlast the time of this invocation";
                return Err(Error::new(Code::DeadlineExceeded, why));
            }
            clock.sleep(left).await;
        }
    }

    /// Puts the new count in force for writers, unless the metadata is not as seen any more.
    async fn finish(
        &self,
        seen: &Known,
        deadline: Deadline,
    ) -> Result<Option<CollectionMetadata>, Error> {
        let now_secs = self.directory.clock().now().epoch_secs();
        let Some(next) = seen.metadata.with_growth_finished(now_secs) else {
            return Ok(None);
        };
        match self.directory.update(&seen.metadata, next, deadline).await {
            Ok(known) => Ok(Some(CollectionMetadata::clone(&known.metadata))),
            // Another rebalancer was first, or this one was and did not hear of it: read again.
            Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => Ok(None),
            Err(error) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }
}
