use async_lock::SemaphoreGuard;
use dynashard_keys::ShardId;

use crate::ports::{Clock, Entropy, Expected, ItemStore, MetadataStore, StoreError, Write};
use crate::retry::{refusal, within};
use crate::write::operation::{Interrupted, LEAST_WRITE_TIME, Operation};
use crate::{Code, Deadline, Error};

/// What became of one request that was answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    /// The guard held, but not what the operation expected.
    Unexpected {
        /// Whether an item lies there.
        live: bool,
    },
}

impl<'a, I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Operation<'a, I, M, C, E> {
    /// Sends one guarded write to its shard, waits for its answer until `answer_by`, and sorts out what
    /// that means.
    pub(super) async fn send(
        &mut self,
        write: &Write,
        shard: ShardId,
        answer_by: Deadline,
    ) -> Result<Sent, Interrupted> {
        let slot = self.slot().await?;
        let writer = self.writer;
        let answer = within(writer.clock(), answer_by, writer.items.write(write)).await;
        drop(slot);
        let in_lease = write.lease.is_live(writer.clock().now());
        match answer {
            Some(Ok(consumed_wcu)) => {
                self.consumed_wcu += consumed_wcu;
                if in_lease {
                    return Ok(Sent::Done);
                }
                let why = "the write was answered after its metadata lease had run out";
                Err(Error::new(Code::OutcomeUnknown, why).into())
            }
            None => {
                let why = "the write was not answered in time";
                Err(Error::new(Code::OutcomeUnknown, why).into())
            }
            Some(Err(StoreError::ConditionFailed { existing })) => {
                if !write.condition.generation_holds(existing.as_deref()) {
                    Err(self.begin_again_fresh().await)
                } else if in_lease && write.condition.expected != Expected::Any {
                    Ok(Sent::Unexpected { live: existing.is_some_and(|item| item.is_live()) })
                } else {
                    // It had no effect, so an answer after the lease is simply asked for again.
                    let why = "the answer came after the metadata lease had run out";
                    Err(self.begin_again_after(Error::new(Code::Unavailable, why)).await)
                }
            }
            Some(Err(error)) => {
                if let StoreError::Throttled(throttle) = &error {
                    self.was_throttled(shard, throttle.clone());
                }
                Err(self.begin_again_after(refusal(error)?).await)
            }
        }
    }

    /// Waits for a turn among the requests under way.
    pub(super) async fn slot(&self) -> Result<SemaphoreGuard<'a>, Error> {
        let begin_by = self.deadline.earlier_by(LEAST_WRITE_TIME);
        let turn = within(self.writer.clock(), begin_by, self.writer.slots.acquire());
        turn.await.ok_or_else(out_of_time)
    }
}

/// Nothing was sent, or nothing that a client could see, so there is no doubt about the outcome.
pub(super) fn out_of_time() -> Error {
    Error::new(Code::DeadlineExceeded, "the time ran out before the write was sent")
}
