//! Takes one step of a change after another, as far as the time of a call goes.

use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId};
use futures_util::future::join_all;

use crate::decide::next_step::{NextStep, Observation, next_step};
use crate::decide::turn::{Turn, Worker};
use crate::decide::work::Work;
use crate::model::epochs::Extent;
use crate::model::error::{Code, Error, Kind};
use crate::model::lease::{Deadline, Moment};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::reshard::{Job, ServerTime};
use crate::model::transitions::Next;
use crate::ports::StoreError;
use crate::usecases::directory::{BeginOutcome, Changes, Known};
use crate::usecases::rebalance::rebalancer::{
    Advance, RESERVE, Rebalancer, ReshardSlice, Slice, StepOutcome, of_conditional, save_job,
};
use crate::usecases::rebalance::round::Mover;
use crate::usecases::rebalance::slice_state::{Place, SliceState};
use crate::usecases::retry::within;

/// For how long a slice goes through items, whatever time it has. Meanwhile the collections whose
/// records are behind it in the stream wait, and one that is to get its new shards should not for
/// long.
const SCAN_SLICE: Duration = Duration::from_secs(10);

/// When the next call is due that tries again to move what could not be moved. The sweep makes it.
const TRY_AGAIN_SECS: u64 = 60;

/// How long others are waited for to be called: meanwhile nothing moves.
const CALLING: Duration = Duration::from_secs(1);

/// How far a call carries a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until items are to be moved.
    InMove,
    /// To its end.
    Ended,
}

impl Rebalancer {
    /// Carries the change of one collection on, to its end or as far as the time allows. `lane` is that of
    /// the item whose record has called, or 0.
    pub async fn advance(&self, partition: &PartitionKey, lane: u32, deadline: Deadline) -> Slice {
        self.slice(partition, lane, Until::Ended, None, deadline).await
    }

    /// As [`Self::advance`], until the new shards take writes. Whoever else is called moves the items: many collections that begin
    /// to grow at once are brought so far side by side, and none of them waits for the moves of others.
    pub async fn relieve(&self, partition: &PartitionKey, deadline: Deadline) -> Slice {
        self.slice(partition, 0, Until::InMove, None, deadline).await
    }

    pub(super) async fn slice(
        &self,
        partition: &PartitionKey,
        lane: u32,
        until: Until,
        place: Option<Place<'_>>,
        deadline: Deadline,
    ) -> Slice {
        let worker = Worker { id: self.directory.context().entropy().next_u64(), lane };
        let (paces, now) = (self.take_paces(partition), self.directory.now());
        let mut state = SliceState::new(worker, paces, place, now);
        let advance = Box::pin(self.steps(partition, until, &mut state, deadline)).await;
        let SliceState { moved: items_moved, reshard, paces, .. } = state;
        self.keep_paces(partition, paces.into_inner());
        let reshard = reshard.map(|seen| ReshardSlice { items_moved, ..seen });
        Slice { advance, reshard }
    }

    async fn steps(
        &self,
        partition: &PartitionKey,
        until: Until,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        let mut age = MetadataAge::default();
        let last_pause = deadline.earlier_by(RESERVE);
        let refusals_from_now = || self.directory.attempts(last_pause);
        let mut refusals = refusals_from_now();
        loop {
            let Some(seen) = self.directory.read_enlisted(partition, deadline).await? else {
                return Ok(Advance::Nothing);
            };
            if !seen.metadata.needs_rebalancing() {
                return Ok(Advance::Nothing);
            }
            let (job, now) = self.directory.records().job(partition, deadline).await?;
            state.looks_at(now, self.directory.now());
            let Some(job) = job else {
                let why = format!(
                    "the job item of {partition:?} is missing, although a change of the shard \
                     count runs or is to be cleared up"
                );
                let damage = Error::new(Code::CorruptData, why);
                self.unless_changed(&seen, damage, deadline).await?;
                continue;
            };
            let unchanged_for = age.lasts(&seen, &job, self.directory.now());
            let waits = self.directory.lease().waits_now(deadline).await?;
            state.finds(&seen.metadata, &job, waits);
            let step = next_step(&seen.metadata, &job, Observation { now, unchanged_for }, waits);
            let scans = matches!(step, NextStep::Scan | NextStep::RemoveMarkers);
            let is_in_move = matches!(seen.metadata.phase, Phase::Move { .. });
            if until == Until::InMove && (scans || is_in_move) {
                return Ok(Advance::Elsewhere);
            }
            if scans && state.scanned >= SCAN_SLICE {
                return self.end_slice(partition, state, now, deadline).await;
            }
            if scans || !job.unmovable.is_empty() {
                state.mover_wcu = self.budget.of(&job, &self.directory, deadline).await;
            }
            let outcome = match seen.metadata.reshard() {
                Some(reshard)
                    if reshard.is_in_move
                        && !job.paused
                        && !job.unmovable.is_empty()
                        && !std::mem::replace(&mut state.has_tried_again, true) =>
                {
                    let directory = &self.directory;
                    let work = Work::Move(reshard);
                    let mover = Mover { directory, seen: &seen, job: &job, work };
                    mover.try_again(state, deadline).await
                }
                _ => self.carry_out(step, &seen, &job, now, state, deadline).await,
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
            match outcome {
                StepOutcome::Done | StepOutcome::Retry => {}
                StepOutcome::Finished(metadata) => {
                    return Ok(Advance::Finished(CollectionMetadata::clone(&metadata)));
                }
                StepOutcome::Lost => {
                    return state.failed.error().map_or(Ok(Advance::Elsewhere), Err);
                }
                StepOutcome::WaitsUntil(until) => {
                    return Ok(Advance::Waiting { until_secs: until.0 });
                }
                StepOutcome::OutOfTime => {
                    return self.end_slice(partition, state, now, deadline).await;
                }
            }
        }
    }

    /// Refuses to begin the closing scan, and to close, where DynamoDB would execute what was signed just before the last lease on the old layout ended: H and
    /// the age do not belong together, so other requests from then may be on their way.
    async fn check_dates(&self, job: &Job, deadline: Deadline) -> Result<(), Error> {
        let waits = self.directory.lease().waits_now(deadline).await?;
        let Some(seen) = job.move_seen.filter(|_| !waits.signature_age.is_zero()) else {
            return Ok(());
        };
        let signed = seen.plus(waits.leases_end).0;
        let date_secs = signed.saturating_sub(waits.signature_age.as_secs());
        let items = self.directory.context().items();
        let why = "whether old requests are refused could not be found out in time";
        let mut attempts = self.directory.attempts(deadline);
        if !attempts.make(|| items.takes_date(date_secs), why).await? {
            return Ok(());
        }
        let (age, lifetime) = (waits.signature_age.as_secs(), waits.request_lifetime.as_secs());
        let why = format!(
            "DynamoDB takes requests that are dated longer ago than SignatureAgeSecs={age} and RequestLifetimeSecs={lifetime} allow \
             for, so nothing closes: run `dynashard doctor`, and set what it says by `dynashard settings`"
        );
        Err(Error::new(Code::SettingsMismatch, why))
    }

    async fn carry_out(
        &self,
        step: NextStep,
        seen: &Known,
        job: &Job,
        now: ServerTime,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let metadata = &seen.metadata;
        let now_secs = self.directory.lease().epoch_secs();
        match step {
            NextStep::NoteForward(at) => {
                let announced =
                    Changes::of(&self.directory).announce_seen(metadata, deadline).await?;
                let forward_seen = Some(announced.unwrap_or(at));
                save_job(&self.directory, job, Job { forward_seen, ..job.clone() }, deadline).await
            }
            NextStep::Move => {
                self.publish(metadata, Next::after(metadata, now_secs).moving(), deadline).await
            }
            NextStep::NoteMove(at, old_requests) => {
                let (move_seen, old_requests) = (Some(at), Some(old_requests));
                let noted = Job { move_seen, old_requests, ..job.clone() };
                save_job(&self.directory, job, noted, deadline).await
            }
            NextStep::Scan => match metadata.reshard() {
                Some(reshard) => {
                    let sources = reshard.sources().collect();
                    let directory = &self.directory;
                    let mover = Mover { directory, seen, job, work: Work::Move(reshard) };
                    self.scan(mover, sources, state, deadline).await
                }
                None => Ok(StepOutcome::Retry),
            },
            NextStep::BeginScan { closing } => {
                if closing {
                    self.check_dates(job, deadline).await?;
                }
                save_job(&self.directory, job, job.with_scan(closing, now), deadline).await
            }
            // Whoever resumes it has the stream call the next slice.
            NextStep::TryAgainLater | NextStep::Paused => {
                let until = ServerTime(now.0 + TRY_AGAIN_SECS);
                Ok(StepOutcome::WaitsUntil(until))
            }
            NextStep::NoteScanned(at) => {
                save_job(&self.directory, job, Job { scanned: Some(at), ..job.clone() }, deadline)
                    .await
            }
            NextStep::Close => {
                self.check_dates(job, deadline).await?;
                self.publish(
                    metadata,
                    Next::after(metadata, now_secs).closed(job.then.is_some()),
                    deadline,
                )
                .await
            }
            NextStep::NoteClosed(at) => {
                let next = Job { closed_seen: Some(at), ..job.with_scan(job.closing, at) };
                save_job(&self.directory, job, next, deadline).await
            }
            NextStep::RemoveMarkers => {
                let (directory, work) = (&self.directory, Work::RemoveMarkers(job.generation));
                let mover = Mover { directory, seen, job, work };
                self.scan(mover, job.marked_shards().collect(), state, deadline).await
            }
            NextStep::Finish => {
                for lane in 1..=job.last_lane {
                    self.directory.records().remove_lane(&job.partition, lane, deadline).await?;
                }
                match Changes::of(&self.directory).finish(metadata, job, deadline).await {
                    Ok(known) => Ok(StepOutcome::Finished(known.metadata)),
                    Err(error) => of_conditional(error),
                }
            }
            NextStep::TurnRound => self.turn_round(metadata, job, deadline).await,
            NextStep::Wait { until, at_most } => {
                let by_date = Duration::from_secs(until.0.saturating_sub(now.0));
                let wait = at_most.map_or(by_date, |at_most| at_most.min(by_date));
                Ok(self.wait(wait, until, state, deadline).await)
            }
            NextStep::Mismatch(contradiction) => {
                let damage = Error::new(Code::CorruptData, job.damaged(&contradiction));
                self.unless_changed(seen, damage, deadline).await?;
                Ok(StepOutcome::Retry)
            }
        }
    }

    /// Goes on with a scan, as far as others leave something to do: two that went through one shard would
    /// move each item twice, at twice the cost (protocol: "Taking turns").
    async fn scan(
        &self,
        mover: Mover<'_>,
        shards: Vec<ShardId>,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let job = mover.job;
        let (now, share) =
            (state.now(), state.share(self.directory.settings(), mover.work, job, &shards));
        match job.turn(state.worker, shards.into_iter(), state.failed.shards(), share, now) {
            Turn::Work(sources) => {
                let began = self.directory.now();
                let left = SCAN_SLICE.saturating_sub(state.scanned) + RESERVE;
                let until = deadline.min(Deadline::after(began, left));
                let outcome = mover.round(sources, state, until).await;
                state.scanned += self.directory.now().boot.saturating_sub(began.boot);
                outcome
            }
            Turn::Claim { job: next, lanes } => {
                if save_job(&self.directory, job, *next, deadline).await? == StepOutcome::Done {
                    state.has_waited = false;
                    let soon = Deadline::after(self.directory.now(), CALLING).min(deadline);
                    let call =
                        |lane| self.directory.records().call_lane(&job.partition, lane, soon);
                    // The next slice calls again whoever could not be called.
                    drop(join_all(lanes.into_iter().map(call)).await);
                }
                Ok(StepOutcome::Retry)
            }
            // Whoever is at work has renewed its claims by then.
            Turn::Wait(_) if state.has_waited => Ok(StepOutcome::Lost),
            Turn::Wait(until) => {
                state.has_waited = true;
                let wait = Duration::from_secs(until.0.saturating_sub(now.0) + 1);
                Ok(self.wait(wait, until, state, deadline).await)
            }
            Turn::Nothing => state.failed.error().map_or(Ok(StepOutcome::Retry), Err),
        }
    }

    /// Waits in this slice, if it leaves the time for that; otherwise another goes on at `until`.
    async fn wait(
        &self,
        wait: Duration,
        until: ServerTime,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> StepOutcome {
        let clock = self.directory.clock();
        if wait + RESERVE >= deadline.remaining(clock.now()) {
            return StepOutcome::WaitsUntil(until);
        }
        // Others of the sweep are worked on meanwhile: its place is given up here.
        let places = state.place.take().map(|place| place.places);
        clock.sleep(wait).await;
        if let Some(places) = places {
            let place = Place::in_one_of(places);
            state.place = within(clock, deadline.earlier_by(RESERVE), place).await;
            if state.place.is_none() {
                return StepOutcome::WaitsUntil(until);
            }
        }
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
        if now.metadata == seen.metadata { Err(damage) } else { Ok(()) }
    }

    /// Begins the reshard that an operator has asked for while the last one ran.
    async fn turn_round(
        &self,
        metadata: &CollectionMetadata,
        job: &Job,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let changed = metadata.epochs.changing;
        let present = metadata.epochs.count_of(changed, metadata.number_of_shards);
        // What this one changed may be merged by now, and the other count was not asked for its neighbours.
        let is_merged = changed.is_none() && job.within != metadata.epochs.interval(None);
        let target = job.then.filter(|target| *target != present && !is_merged);
        let Some(target) = target else {
            return save_job(&self.directory, job, Job { then: None, ..job.clone() }, deadline)
                .await;
        };
        let extent = changed.map_or(Extent::Newest, Extent::Older);
        let change = (&extent, target);
        match Changes::of(&self.directory).begin(metadata, change, Some(job), deadline).await {
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
        match Changes::of(&self.directory).update(seen, next, deadline).await {
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) => of_conditional(error),
        }
    }

    /// Ends a slice that has not come to the end: gives its sources free, and has the stream call the next
    /// one by the same lane.
    ///
    /// Where nothing could even be begun, since what comes next takes more than a slice at this pace, or
    /// where all that was met has failed, another would come no further. That is for the sweep.
    async fn end_slice(
        &self,
        partition: &PartitionKey,
        state: &SliceState<'_>,
        now: ServerTime,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        let goes_on = state.has_come_on || state.paces.lock().has_begun();
        let lane = state.worker.lane;
        loop {
            let (Some(job), _) = self.directory.records().job(partition, deadline).await? else {
                break;
            };
            let items_moved = job.items_moved + state.uncounted;
            let mut next = Job { yielded: goes_on && lane == 0, items_moved, ..job.clone() };
            next.release(state.worker);
            match self.directory.records().save_job(&job, next, deadline).await {
                // Another call has noted something.
                Err(StoreError::ConditionFailed { .. }) => {}
                // The sweep will find the collection, if nothing was written.
                Ok(_) | Err(StoreError::OutcomeUnknown(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if goes_on && lane > 0 {
            self.directory.records().call_lane(partition, lane, deadline).await?;
        }
        match state.failed.error() {
            // Whoever repeated this slice as well would have many where one is to come.
            failed if goes_on => Ok(Advance::Yielded { failed }),
            Some(error) => Err(error),
            None => Ok(Advance::Waiting { until_secs: now.0 + 1 }),
        }
    }
}

/// The metadata as a controller saw it last, and since when it has.
///
/// A strong read that returned it proves that it was published by then, so every lease on what was before began earlier. Of
/// `forward`, behind what others may renew, the announcement proves that.
#[derive(Default)]
struct MetadataAge(Option<(Arc<CollectionMetadata>, Option<ServerTime>, Moment)>);

impl MetadataAge {
    /// For how long the metadata certainly has been as it was just read, and everybody could know of it: what was cold before
    /// is announced between two reads that see the same (protocol: "The directory").
    fn lasts(&mut self, seen: &Known, job: &Job, now: Moment) -> Duration {
        match &self.0 {
            Some((metadata, announced, since))
                if *metadata == seen.metadata && *announced == job.forward_seen =>
            {
                now.certainly_since(*since)
            }
            _ => {
                self.0 = Some((Arc::clone(&seen.metadata), job.forward_seen, now));
                Duration::ZERO
            }
        }
    }
}
