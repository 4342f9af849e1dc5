use dynashard_keys::PartitionKey;

use crate::directory::Directory;
use crate::ports::{Clock, Dated, Entropy, MetadataStore, StoreError};
use crate::reshard::{Job, ServerTime};
use crate::retry::within;
use crate::{Deadline, Error};

impl<M: MetadataStore, C: Clock, E: Entropy> Directory<M, C, E> {
    /// The job of a collection, and DynamoDB's time when it was read.
    pub(crate) async fn job(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(Option<Job>, ServerTime), Error> {
        let mut attempts = self.attempts(deadline);
        let why_late = "the job of the reshard could not be read in time";
        let Dated { value, server_secs } =
            attempts.make(|| self.read_job(partition), why_late).await?;
        let secs = server_secs.unwrap_or_else(|| self.clock().now().epoch_secs());
        Ok((value, ServerTime(secs)))
    }

    async fn read_job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        let read = self.store.job(partition).await?;
        if let Some(job) = &read.value
            && let Err(contradiction) = job.check(self.settings().schema.sort_key_type)
        {
            return Err(StoreError::Corrupt(job.damaged(&contradiction)));
        }
        Ok(read)
    }

    /// Changes a job from `seen` to `next`, whose `rev` is raised.
    pub(crate) async fn save_job(
        &self,
        seen: &Job,
        mut next: Job,
        deadline: Deadline,
    ) -> Result<Job, StoreError> {
        next.rev = seen.rev + 1;
        let answer = within(self.clock(), deadline, self.store.save_job(seen, &next)).await;
        let answer = answer.unwrap_or_else(|| {
            let why = "the change of the job was not answered in time";
            Err(StoreError::OutcomeUnknown(why.to_owned()))
        });
        answer.map(|_| next)
    }
}
