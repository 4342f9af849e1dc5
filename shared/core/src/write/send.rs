//! One guarded write, and what its answer means.

use std::time::Duration;

use async_lock::SemaphoreGuard;
use dynashard_keys::{ItemKey, ShardId};

use crate::directory::Known;
use crate::ports::{
    Action, Clock, Condition, Entropy, Expected, ItemStore, MetadataStore, StoreError, Write,
};
use crate::retry::{Attempts, refusal, within};
use crate::write::Writer;
use crate::{Code, Deadline, Error};

/// What became of one request that was answered in time.
pub(super) enum Step {
    Done,
    /// The guard held, but not what the operation expected.
    Unexpected,
    /// Nothing happened, and the operation begins again.
    Again,
}

/// No write begins with less time than this before its deadline: one that is cut off has an unknown
/// outcome, and one that was never sent has not.
pub(super) const LEAST_WRITE_TIME: Duration = Duration::from_secs(1);

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// Sends one guarded write to its shard and sorts out what its answer means.
    pub(super) async fn send(
        &self,
        write: &Write,
        shard: ShardId,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Step, Error> {
        let slot = self.slot(deadline).await?;
        let answer = within(self.clock(), deadline, self.items.write(write)).await;
        drop(slot);
        let in_lease = write.lease.is_live(self.clock().now());
        match answer {
            Some(Ok(())) if in_lease => Ok(Step::Done),
            Some(Ok(())) => Err(Error::new(
                Code::OutcomeUnknown,
                "the write was answered after its metadata lease had run out",
            )),
            None => Err(Error::new(Code::OutcomeUnknown, "the write was not answered in time")),
            Some(Err(StoreError::ConditionFailed { existing })) => {
                if !write.condition.generation_holds(existing.as_deref()) {
                    self.directory.forget(&key.partition);
                    attempts.refresh().await?;
                    Ok(Step::Again)
                } else if in_lease && write.condition.expected != Expected::Any {
                    Ok(Step::Unexpected)
                } else {
                    // It had no effect, so an answer after the lease is simply asked for again.
                    let why = "the answer came after the metadata lease had run out";
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                    Ok(Step::Again)
                }
            }
            Some(Err(error)) => {
                if let StoreError::Throttled(throttle) = &error {
                    let growth = self.growths.after_throttle(
                        &self.directory,
                        &key.partition,
                        shard,
                        throttle,
                        deadline,
                    );
                    growth.await;
                }
                attempts.pause(refusal(error)?).await?;
                Ok(Step::Again)
            }
        }
    }

    pub(super) fn guarded(
        &self,
        key: &ItemKey,
        shard: ShardId,
        action: Action,
        expected: Expected,
        known: &Known,
    ) -> Write {
        Write {
            key: key.at(shard, self.directory.settings().schema.separator),
            action,
            condition: Condition { generation: known.metadata.generation, expected },
            lease: known.lease,
        }
    }

    /// Waits for a turn among the requests under way.
    pub(super) async fn slot(&self, deadline: Deadline) -> Result<SemaphoreGuard<'_>, Error> {
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        within(self.clock(), begin_by, self.slots.acquire()).await.ok_or_else(out_of_time)
    }

    pub(super) fn attempts(&self, deadline: Deadline) -> Attempts<'_, C, E> {
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        Attempts::new(self.clock(), self.directory.entropy(), begin_by)
    }
}

/// Nothing was sent, or nothing that a client could see, so there is no doubt about the outcome.
pub(super) fn out_of_time() -> Error {
    Error::new(Code::DeadlineExceeded, "the time ran out before the write was sent")
}
