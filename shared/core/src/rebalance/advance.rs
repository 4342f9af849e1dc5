use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::PartitionKey;

use crate::directory::{BeginOutcome, Known};
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore, StoreError};
use crate::rebalance::rebalancer::{
    Advance, RESERVE, Rebalancer, ReshardSlice, Slice, StepOutcome, of_conditional,
};
use crate::rebalance::round::FailedShards;
use crate::reshard::{Job, NextStep, ServerTime, Sight, Waits, plan};
use crate::retry::refusal;
use crate::{Code, CollectionMetadata, Deadline, Error, Generation, Kind, Reading};

/// For how long a slice goes through items, whatever time it has. Meanwhile the collections whose
/// records are behind it in the stream wait, and one that is to get its new shards should not for
/// long.
const SCAN_SLICE: Duration = Duration::from_secs(10);

/// A slice that has gone through items for less and is out of time was held up by its pace alone.
const LEAST_SLICE: Duration = Duration::from_secs(1);

/// How long the job is watched for notes of another rebalancer: longer than a round of the scan takes
/// at full pace, which ends with one.
const WATCH: Duration = Duration::from_secs(3);

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
    /// Carries the change of one collection on, to its end or as far as the time allows.
    pub async fn advance(&self, partition: &PartitionKey, deadline: Deadline) -> Slice {
        let mut tracker = SliceTracker::default();
        let advance = Box::pin(self.steps(partition, &mut tracker, deadline)).await;
        Slice { advance, reshard: tracker.reshard }
    }

    async fn steps(
        &self,
        partition: &PartitionKey,
        tracker: &mut SliceTracker,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        let waits = Waits::of(self.directory.settings());
        let mut sighting = Sighting::default();
        let mut turn = Turn::default();
        let mut failed = FailedShards::default();
        let mut scanned = Duration::ZERO;
        let last_pause = deadline.earlier_by(RESERVE);
        let refusals_from_now = || self.directory.attempts(last_pause);
        let mut refusals = refusals_from_now();
        loop {
            let Some(seen) = self.directory.read_now(partition, deadline).await? else {
                return Ok(Advance::Nothing);
            };
            if !seen.metadata.needs_rebalancing() {
                return Ok(Advance::Nothing);
            }
            let unchanged_for = sighting.lasts(&seen, self.directory.now());
            let (job, now) = self.directory.job(partition, deadline).await?;
            let Some(job) = job else {
                let why = format!(
                    "the job item of {partition:?} is missing, although a change of the shard \
                     count runs or is to be cleared up"
                );
                let damage = Error::new(Code::CorruptData, why);
                self.unless_changed(&seen, damage, deadline).await?;
                continue;
            };
            tracker.enter(&seen.metadata, &job, now, waits);
            let step = plan(&seen.metadata, &job, Sight { now, unchanged_for }, waits);
            let scans = matches!(step, NextStep::Scan | NextStep::RemoveMarkers);
            if scans && scanned >= SCAN_SLICE {
                return self.yield_slice(partition, &failed, deadline).await;
            }
            let began = self.directory.now();
            let left = SCAN_SLICE.saturating_sub(scanned) + RESERVE;
            let until = if scans { deadline.min(Deadline::after(began, left)) } else { deadline };
            let outcome = if scans && turn.noted != Some(job.rev) {
                self.take_turn(&mut turn, &job, until).await
            } else {
                self.carry_out(step, &seen, &job, now, &mut failed, until).await
            };
            let outcome = match outcome {
                // The metadata table has throttled a note, say: what it said is found out again.
                Err(error) if error.is_passing() && error.code() != Code::MetadataBehind => {
                    match refusals.pause(error).await {
                        Ok(()) => StepOutcome::Retry,
                        Err(_) => StepOutcome::OutOfTime,
                    }
                }
                outcome => {
                    refusals = refusals_from_now();
                    outcome?
                }
            };
            if scans {
                scanned += self.directory.now().boot.saturating_sub(began.boot);
            }
            match outcome {
                StepOutcome::Noted { rev } => turn.noted = Some(rev),
                StepOutcome::Done | StepOutcome::Retry => {}
                StepOutcome::Finished(metadata) => {
                    return Ok(Advance::Finished(CollectionMetadata::clone(&metadata)));
                }
                StepOutcome::Lost => {
                    return failed.error().map_or(Ok(Advance::Elsewhere), Err);
                }
                StepOutcome::WaitsUntil(until) => {
                    return Ok(Advance::Waiting { until_secs: until.0 });
                }
                // What comes next takes more than a slice at this pace, and another would begin at
                // once and come no further. The sweep goes on, when more has been saved up.
                StepOutcome::OutOfTime
                    if scanned < LEAST_SLICE
                        && deadline.remaining(self.directory.now()) > SCAN_SLICE =>
                {
                    let waiting = Advance::Waiting { until_secs: now.0 + 1 };
                    return failed.error().map_or(Ok(waiting), Err);
                }
                StepOutcome::OutOfTime => {
                    return self.yield_slice(partition, &failed, deadline).await;
                }
            }
        }
    }

    async fn carry_out(
        &self,
        step: NextStep,
        seen: &Known,
        job: &Job,
        now: ServerTime,
        failed: &mut FailedShards,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let metadata = &seen.metadata;
        let now_secs = self.directory.clock().now().epoch_secs();
        match step {
            NextStep::NoteForward(at) => {
                self.save(job, Job { forward_seen: Some(at), ..job.clone() }, deadline).await
            }
            NextStep::Move => self.publish(metadata, metadata.with_move(now_secs), deadline).await,
            NextStep::NoteMove(at) => {
                self.save(job, Job { move_seen: Some(at), ..job.clone() }, deadline).await
            }
            NextStep::Scan => self.move_on(seen, job, failed, deadline).await,
            NextStep::BeginScan { closing } => {
                self.save(job, job.with_scan(closing, now), deadline).await
            }
            NextStep::NoteScanned(at) => {
                self.save(job, Job { scanned: Some(at), ..job.clone() }, deadline).await
            }
            NextStep::Close => {
                self.publish(metadata, metadata.with_close(now_secs), deadline).await
            }
            NextStep::NoteClosed(at) => {
                let next = Job { closed_seen: Some(at), ..job.with_scan(job.closing, at) };
                self.save(job, next, deadline).await
            }
            NextStep::RemoveMarkers => self.remove_markers(seen, job, failed, deadline).await,
            NextStep::Finish => match self.directory.finish(metadata, job, deadline).await {
                Ok(known) => Ok(StepOutcome::Finished(known.metadata)),
                Err(error) => of_conditional(error),
            },
            NextStep::TurnRound => self.turn_round(metadata, job, deadline).await,
            NextStep::Wait { until, at_most } => {
                let by_date = Duration::from_secs(until.0.saturating_sub(now.0));
                let wait = at_most.map_or(by_date, |at_most| at_most.min(by_date));
                Ok(self.wait(wait, until, deadline).await)
            }
            NextStep::Mismatch(contradiction) => {
                let damage = Error::new(Code::CorruptData, job.damaged(&contradiction));
                self.unless_changed(seen, damage, deadline).await?;
                Ok(StepOutcome::Retry)
            }
        }
    }

    /// Sees to it that one call works on a scan: two would move each item twice, at twice the budget.
    ///
    /// Whoever noted something in the job last is at work on it, unless the note says that its slice
    /// is over, or no other follows. That is a courtesy: nothing goes wrong where two work all the same.
    async fn take_turn(
        &self,
        turn: &mut Turn,
        job: &Job,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        if job.yielded || turn.watched == Some(job.rev) {
            return self.save(job, job.clone(), deadline).await;
        }
        if turn.watched.is_some() {
            return Ok(StepOutcome::Lost);
        }
        turn.watched = Some(job.rev);
        let clock = self.directory.clock();
        // A short slice, too, comes to its work.
        let spare = deadline.earlier_by(RESERVE).remaining(clock.now());
        clock.sleep(WATCH.min(spare / 2)).await;
        Ok(StepOutcome::Retry)
    }

    /// Waits in this slice, if it leaves the time for that; otherwise another goes on at `until`.
    async fn wait(&self, wait: Duration, until: ServerTime, deadline: Deadline) -> StepOutcome {
        let clock = self.directory.clock();
        if wait + RESERVE >= deadline.remaining(clock.now()) {
            return StepOutcome::WaitsUntil(until);
        }
        clock.sleep(wait).await;
        StepOutcome::Retry
    }

    /// Metadata and job are read one after the other, and another rebalancer may have gone on between:
    /// they only contradict each other if the metadata still is as seen.
    async fn unless_changed(
        &self,
        seen: &Known,
        damage: Error,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let now = self.directory.read_now(&seen.metadata.partition, deadline).await?;
        if now.is_some_and(|now| now.metadata == seen.metadata) { Err(damage) } else { Ok(()) }
    }

    /// Begins the reshard that an operator has asked for while the last one ran.
    async fn turn_round(
        &self,
        metadata: &CollectionMetadata,
        job: &Job,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let target = job.then.filter(|target| *target != metadata.number_of_shards);
        let Some(target) = target else {
            return self.save(job, Job { then: None, ..job.clone() }, deadline).await;
        };
        match self.directory.begin(metadata, target, Some(job), deadline).await {
            Ok(BeginOutcome::Begun(_)) => Ok(StepOutcome::Done),
            Ok(BeginOutcome::Running | BeginOutcome::TooSoon { .. } | BeginOutcome::Overtaken) => {
                Ok(StepOutcome::Retry)
            }
            // After a pause it is found out.
            Err(error) if error.kind() == Kind::OutcomeUnknown => {
                Err(Error::new(Code::Unavailable, error.message()))
            }
            Err(error) => Err(error),
        }
    }

    async fn publish(
        &self,
        seen: &CollectionMetadata,
        next: Option<CollectionMetadata>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let Some(next) = next else {
            return Ok(StepOutcome::Retry);
        };
        match self.directory.update(seen, next, deadline).await {
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) => of_conditional(error),
        }
    }

    /// Ends a slice that has not come to the end. Another that met the same failed at once would be
    /// of no use: that is for the retries of the record, and the sweep.
    async fn yield_slice(
        &self,
        partition: &PartitionKey,
        failed: &FailedShards,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        if let Some(error) = failed.error() {
            return Err(error);
        }
        self.ask_for_another_slice(partition, deadline).await?;
        Ok(Advance::Yielded)
    }

    /// Touches the job, so that its stream record starts the next slice.
    async fn ask_for_another_slice(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let (Some(job), _) = self.directory.job(partition, deadline).await? else {
            return Ok(());
        };
        let next = Job { yielded: true, ..job.clone() };
        match self.directory.save_job(&job, next, deadline).await {
            // Another rebalancer is at work, or the sweep will find the collection.
            Ok(_) | Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => {
                Ok(())
            }
            Err(error) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }
}

/// The metadata as a controller saw it last, and since when it has.
///
/// A strong read that returned it proves that it was published by then, so every lease on what was
/// before began earlier.
#[derive(Default)]
struct Sighting(Option<(Arc<CollectionMetadata>, Reading)>);

impl Sighting {
    /// For how long the metadata certainly has been as it was just read.
    fn lasts(&mut self, seen: &Known, now: Reading) -> Duration {
        match &self.0 {
            Some((metadata, since)) if *metadata == seen.metadata => now.certainly_since(*since),
            _ => {
                self.0 = Some((Arc::clone(&seen.metadata), now));
                Duration::ZERO
            }
        }
    }
}

/// Whether a call works on the scan, by the `rev` of the job, which every note raises.
#[derive(Default)]
struct Turn {
    /// The last note of this call.
    noted: Option<u64>,
    /// The note of another that was the last one when this call began to watch.
    watched: Option<u64>,
}

/// What a call has seen of a reshard.
#[derive(Default)]
struct SliceTracker {
    /// The reshard that was seen last, and how many items it had moved by then.
    last: Option<(Generation, u64)>,
    reshard: Option<ReshardSlice>,
}

impl SliceTracker {
    fn enter(&mut self, metadata: &CollectionMetadata, job: &Job, now: ServerTime, waits: Waits) {
        let Some(reshard) = metadata.reshard() else {
            return;
        };
        let moved_since = match self.last.replace((job.generation, job.items_moved)) {
            None => 0,
            Some((generation, moved)) if generation == job.generation => {
                job.items_moved.saturating_sub(moved)
            }
            // It was turned round meanwhile.
            Some(_) => job.items_moved,
        };
        self.reshard = Some(ReshardSlice {
            items_moved: self.reshard.map_or(0, |before| before.items_moved) + moved_since,
            age_secs: now.0.saturating_sub(job.started_secs),
            progress: job.progress(&reshard, waits, now),
        });
    }
}
