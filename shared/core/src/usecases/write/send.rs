//! Sends one guarded write, again only if it was certainly refused.

use std::future::Future;
use std::time::Duration;

use async_lock::SemaphoreGuard;
use dynashard_keys::{PhysicalPartitionKey, Placement, ShardId};

use crate::model::error::{Code, Error};
use crate::model::guard::{Expected, Write};
use crate::model::lease::{Deadline, Lease};
use crate::model::throttle::Throttle;
use crate::model::version::Version;
use crate::ports::StoreError;
use crate::usecases::directory::Known;
use crate::usecases::retry::{refusal, within};
use crate::usecases::write::operation::{Interrupted, LEAST_WRITE_TIME, Operation};
use crate::usecases::write::pacing::Paced;

/// What became of one request that was answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    /// The guard held, but not what the operation expected.
    Unexpected {
        /// Of the item that lies there, if one does.
        version: Option<Version>,
    },
}

/// How long a write waits for its turn at a shard that is full. Who is more patient asks again.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// How long a write waits where its environment has the shard to itself, as where one client writes a lot: nobody else waits.
const LONGEST_ALONE: Duration = Duration::from_secs(1);

impl<'a> Operation<'a> {
    /// Sends one guarded write to its shard, waits for its answer until `answer_by`, and sorts out what
    /// that means.
    pub(super) async fn send(
        &mut self,
        write: &Write,
        shard: ShardId,
        known: &Known,
        answer_by: Deadline,
    ) -> Result<Sent, Interrupted> {
        let (at, items) = (&write.key.partition, self.context.items());
        let request = |_| items.write(write);
        let answer = self.request(at, (shard, None), answer_by, request).await?;
        let in_lease = write.lease.is_live(self.context.clock().now());
        match answer {
            Ok(consumed_wcu) => {
                self.was_done(consumed_wcu, in_lease, known).await?;
                Ok(Sent::Done)
            }
            Err(StoreError::ConditionFailed { existing }) => {
                if !write.condition.generation_holds(existing.as_deref()) {
                    Err(self.begin_again_fresh().await)
                } else if in_lease && write.condition.expected != Expected::Any {
                    let live = existing.filter(|item| item.is_live());
                    Ok(Sent::Unexpected { version: live.map(|item| item.version) })
                } else {
                    Err(self.begin_again_within_a_lease().await)
                }
            }
            Err(error) => Err(self.begin_again_after(refusal(error)?).await),
        }
    }

    /// Makes one request of this operation to its shard when it is its turn, and waits for the answer until `answer_by`. That there
    /// was none is an error, since its fate is unknown. One that stands on what is `known` has a lease that is fresh then.
    pub(super) async fn request<T, F: Future<Output = Result<T, StoreError>>>(
        &mut self,
        at: &PhysicalPartitionKey,
        (shard, known): (ShardId, Option<&Known>),
        answer_by: Deadline,
        make: impl FnOnce(Option<Lease>) -> F,
    ) -> Result<Result<T, StoreError>, Interrupted> {
        let context = self.context;
        let begun = self.begin().await?;
        let slot = loop {
            let asked = context.clock().now().boot;
            self.turn(at, Some(shard)).await?;
            let slot = self.slot().await?;
            // A batch waits for its slots, and what it has sent before may show meanwhile that the shard is full.
            if context.pacing.as_ref().is_none_or(|pacing| pacing.holds(at, asked)) {
                break slot;
            }
        };
        // The turn may have come late in the lease, or after it.
        let lease = match known {
            Some(known) => Some(self.renewed(known).await?),
            None => None,
        };
        let request = make(lease);
        let sent = context.clock().now().boot;
        let asked = context.held.ask(self.writes_of_request);
        let answer = within(context.clock(), answer_by, request).await;
        drop((asked, slot));
        if let Some(answer) = &answer {
            self.was_answered(at, answer.as_ref().err(), sent);
        }
        drop(begun);
        let Some(answer) = answer else {
            let why = "the write was not answered in time";
            return Err(Error::new(Code::OutcomeUnknown, why).into());
        };
        if let Err(StoreError::Throttled(throttle)) = &answer {
            self.was_throttled(shard, throttle.clone());
        }
        Ok(answer)
    }

    /// A lease on which an operation may begin that stands on this.
    async fn renewed(&self, known: &Known) -> Result<Lease, Interrupted> {
        let directory = &self.context.directory;
        if known.lease.is_fresh(directory.now()) {
            return Ok(known.lease);
        }
        let renewed = directory.find_for(self.key, self.deadline).await?;
        if renewed.metadata == known.metadata {
            Ok(renewed.lease)
        } else {
            Err(Interrupted::BeginAgain)
        }
    }

    /// Takes note of a write that DynamoDB says is done. If it says so after the lease, that counts where what was `known` is unchanged,
    /// and is in doubt otherwise (protocol: "Lease").
    pub(super) async fn was_done(
        &mut self,
        consumed_wcu: f64,
        in_lease: bool,
        known: &Known,
    ) -> Result<(), Error> {
        self.consumed_wcu += consumed_wcu;
        // The shards of a random collection come and go by rules of their own, for which this was not searched.
        let may_hold = known.metadata.placement != Placement::Random;
        let holds = known.holds(&self.context.directory, self.key, self.deadline);
        if in_lease || (may_hold && holds.await.unwrap_or(false)) {
            return Ok(());
        }
        let why = "the write was answered after its metadata lease had run out, and the metadata has changed or cannot be read";
        Err(Error::new(Code::OutcomeUnknown, why))
    }

    /// Has the operation begin again: it was refused, so it had no effect, but what that means was told after the lease.
    pub(super) async fn begin_again_within_a_lease(&mut self) -> Interrupted {
        let why = "the answer came after the metadata lease had run out";
        self.begin_again_after(Error::new(Code::Unavailable, why)).await
    }

    /// Waits for this environment's turn at a shard that is full. If that does not come while the operation may be tried,
    /// the shard would refuse it, and is not asked. `reported` is the shard where that counts as a throttle.
    pub(super) async fn turn(
        &mut self,
        at: &PhysicalPartitionKey,
        reported: Option<ShardId>,
    ) -> Result<(), Interrupted> {
        let Some(pacing) = &self.context.pacing else { return Ok(()) };
        let (clock, now) = (self.context.clock(), self.context.clock().now());
        let patience = self.attempts.patience(now);
        let hurry = patience.min(self.deadline.of_full().remaining(now));
        // Both are short, so that the lease which the write stands on is a fresh one.
        let alone = LONGEST_ALONE.min(self.context.directory.settings().lease_term / 4);
        let (shared, alone) = (hurry.min(LONGEST_WAIT), patience.min(alone));
        match pacing.turn(at, || self.rev(), shared, alone, now) {
            Paced::In(wait) if wait.is_zero() => Ok(()),
            Paced::In(wait) => {
                clock.sleep(wait).await;
                Ok(())
            }
            Paced::TooLate => {
                let throttle = Throttle::of_a_partition();
                if let Some(shard) = reported {
                    self.was_throttled(shard, throttle.clone());
                }
                let refusal = Error::throttled(throttle);
                if hurry > LONGEST_WAIT {
                    return Err(self.begin_again_after(refusal).await);
                }
                Err(refusal.into())
            }
        }
    }

    /// The revision of the metadata in hand.
    fn rev(&self) -> u64 {
        let known = self.context.directory.cached(&self.key.partition);
        known.map_or(0, |known| known.metadata.rev)
    }

    /// Takes note of how a shard has answered a write that was sent at this time.
    pub(super) fn was_answered(
        &self,
        at: &PhysicalPartitionKey,
        error: Option<&StoreError>,
        sent: Duration,
    ) {
        let (pacing, now) = (self.context.pacing.as_ref(), self.context.clock().now());
        match error {
            Some(StoreError::Throttled(throttle)) if throttle.is_of_a_partition() => {
                if let Some(pacing) = pacing {
                    pacing.refused(at, self.rev(), sent, now);
                }
            }
            None | Some(StoreError::ConditionFailed { .. }) => {
                if let Some(start) = self.start {
                    start.granted();
                }
                if let Some(pacing) = pacing {
                    pacing.granted(at, now);
                }
            }
            Some(_) => {}
        }
    }

    /// Waits until one more write of its batch may be under way.
    async fn begin(&self) -> Result<Option<SemaphoreGuard<'a>>, Error> {
        let Some(start) = self.start else { return Ok(None) };
        let begin_by = self.deadline.earlier_by(LEAST_WRITE_TIME);
        let begun = within(self.context.clock(), begin_by, start.begin()).await;
        begun.map(Some).ok_or_else(out_of_time)
    }

    /// Waits for a turn among the requests under way.
    pub(super) async fn slot(&self) -> Result<SemaphoreGuard<'a>, Error> {
        let begin_by = self.deadline.earlier_by(LEAST_WRITE_TIME);
        let turn = within(self.context.clock(), begin_by, self.context.slots.acquire());
        turn.await.ok_or_else(out_of_time)
    }
}

/// Nothing was sent, or nothing that a client could see, so there is no doubt about the outcome.
pub(super) fn out_of_time() -> Error {
    Error::new(Code::DeadlineExceeded, "the time ran out before the write was sent")
}
