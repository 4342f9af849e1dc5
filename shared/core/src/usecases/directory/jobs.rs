//! The jobs of changes, and turning a change round.

use dynashard_keys::{PartitionKey, ShardCount};

use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::reshard::{Job, ServerTime};
use crate::ports::{Dated, StoreError};
use crate::usecases::directory::leased::Directory;
use crate::usecases::retry::{refusal, within};

/// What became of a request to turn a reshard round, or to take that back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnedRound {
    /// The job says so now.
    Now,
    /// It said so before.
    Before,
    /// The metadata or the job is not as seen any more.
    Overtaken,
}

impl Directory {
    /// The job of a collection, and DynamoDB's time when it was read.
    pub(crate) async fn job(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(Option<Job>, ServerTime), Error> {
        let mut attempts = self.attempts(deadline);
        let why_late = "the job of the reshard could not be read in time";
        attempts.make(|| self.read_job(partition), why_late).await
    }

    async fn read_job(
        &self,
        partition: &PartitionKey,
    ) -> Result<(Option<Job>, ServerTime), StoreError> {
        let Dated { value, server_secs } = self.records().job(partition).await?;
        // Another clock in its place could end a wait early (protocol: "Phases").
        let undated = || StoreError::Unavailable("the answer has no Date header".to_owned());
        let now = ServerTime(server_secs.ok_or_else(undated)?);
        if let Some(job) = &value
            && let Err(contradiction) = job.check(self.settings().schema.sort_key_type)
        {
            return Err(StoreError::Corrupt(job.damaged(&contradiction)));
        }
        Ok((value, now))
    }

    /// Changes a job from `seen` to `next`, whose `rev` is raised.
    pub(crate) async fn save_job(
        &self,
        seen: &Job,
        mut next: Job,
        deadline: Deadline,
    ) -> Result<Job, StoreError> {
        next.rev = seen.rev + 1;
        let answer = within(self.clock(), deadline, self.records().save_job(seen, &next)).await;
        let answer = answer.unwrap_or_else(|| {
            let why = "the change of the job was not answered in time";
            Err(StoreError::OutcomeUnknown(why.to_owned()))
        });
        answer.map(|_| next)
    }

    /// Writes into the job of a running reshard what is to follow it.
    pub(crate) async fn turn_round(
        &self,
        metadata: &CollectionMetadata,
        then: Option<ShardCount>,
        deadline: Deadline,
    ) -> Result<TurnedRound, Error> {
        let mut attempts = self.attempts(deadline);
        loop {
            let (job, _) = self.job(&metadata.partition, deadline).await?;
            let Some(job) = job.filter(|job| job.generation == metadata.generation) else {
                return Ok(TurnedRound::Overtaken);
            };
            if job.then == then {
                return Ok(TurnedRound::Before);
            }
            let next = Job { then, ..job.clone() };
            match self.save_job(&job, next, deadline).await {
                Ok(_) => return Ok(TurnedRound::Now),
                // The mover has noted how far it is, or this request may have been carried out.
                Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => {
                    let why = "the job of the reshard kept changing; ask again";
                    attempts.pause(Error::new(Code::Contended, why)).await?;
                }
                Err(error) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Has the stream call a rebalancer to the collection, by this lane.
    pub(crate) async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let call = self.entropy().next_u64();
        let mut attempts = self.attempts(deadline);
        let why_late = "another rebalancer could not be called in time";
        let request = || repeatable(self.records().call_lane(partition, lane, call));
        attempts.make(request, why_late).await
    }

    /// Removes the item by which a lane is called.
    pub(crate) async fn remove_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut attempts = self.attempts(deadline);
        let why_late = "the item of a lane could not be removed in time";
        attempts.make(|| repeatable(self.records().remove_lane(partition, lane)), why_late).await
    }
}

/// A write that is sent again whatever became of it: once or twice is the same.
async fn repeatable(write: impl Future<Output = Result<(), StoreError>>) -> Result<(), StoreError> {
    write.await.map_err(|error| match error {
        StoreError::OutcomeUnknown(why) => StoreError::Unavailable(why),
        error => error,
    })
}
