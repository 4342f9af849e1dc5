use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dynashard_keys::PartitionKey;
use futures_util::stream::{self, StreamExt};

use crate::directory::{Directory, Known, NotBegun};
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore, StoreError};
use crate::reshard::{Job, NextStep, Pace, Progress, ServerTime, Sight, Trouble, Waits, plan};
use crate::retry::{Attempts, refusal};
use crate::{Code, CollectionMetadata, Deadline, Error, Generation, Reading};

/// Carries running changes of shard counts to their end, and moves items for them.
///
/// What starts it is a hint: metadata and job are always read again, so a record of the stream may
/// repeat, come late or be lost, and two rebalancers may work on one collection.
pub struct Rebalancer<I, M, C, E> {
    pub(crate) items: I,
    pub(crate) directory: Directory<M, C, E>,
    pub(crate) pace: Mutex<Pace>,
}

/// What one call did for a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// How it ended.
    pub advance: Result<Advance, Error>,
    /// How far it has brought the reshard that it found, if items are moved in that.
    pub reshard: Option<ReshardSlice>,
}

/// What one sweep did.
#[derive(Debug)]
pub struct Sweep {
    /// What became of each collection that was begun with.
    pub collections: Vec<(PartitionKey, Slice)>,
    /// How many others there was no time to begin with.
    pub left: usize,
    /// Whether the list of them was read to its end.
    pub listed: Result<(), Error>,
}

/// How far a reshard is after one call, as it saw it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReshardSlice {
    /// Items moved since the call began, by other rebalancers too.
    pub items_moved: u64,
    /// For how many seconds the reshard has been running.
    pub age_secs: u64,
    /// How far it is.
    pub progress: Progress,
}

/// What became of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// There is nothing to do, or nothing more.
    Nothing,
    /// This rebalancer made the last step of a change: nothing is left to do. Of all that work on
    /// one, a single one is told so at most.
    Finished(CollectionMetadata),
    /// The time of this slice is over, and a note in the job asks for the next one.
    Yielded,
    /// There is nothing to do before DynamoDB's clock shows this epoch second.
    Waiting {
        /// Epoch seconds.
        until_secs: u64,
    },
    /// Another rebalancer is at work on the collection.
    Elsewhere,
}

/// How many collections one sweep works on at a time.
const COLLECTIONS_AT_ONCE: usize = 8;

/// For how long a slice goes through items, whatever time it has. Meanwhile the collections whose
/// records are behind it in the stream wait, and one that is to get its new shards should not for
/// long.
const SCAN_SLICE: Duration = Duration::from_secs(10);

/// A slice that has gone through items for less and is out of time was held up by its pace alone.
const LEAST_SLICE: Duration = Duration::from_secs(1);

/// What a slice keeps of its time for its last requests: without the note that it is over, the next
/// one would not come.
pub(crate) const RESERVE: Duration = Duration::from_secs(2);

/// How long the job is watched for notes of another rebalancer: longer than a round of the scan takes
/// at full pace, which ends with one.
const WATCH: Duration = Duration::from_secs(3);

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
    /// A rebalancer over these stores.
    pub fn new(items: I, directory: Directory<M, C, E>) -> Self {
        let pace = Pace::new(directory.settings().mover_wcu, directory.now().boot);
        Self { items, directory, pace: Mutex::new(pace) }
    }

    /// What the rebalancer knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Carries the change of one collection on, to its end or as far as the time allows.
    pub async fn advance(&self, partition: &PartitionKey, deadline: Deadline) -> Slice {
        let mut account = Account::default();
        let advance = Box::pin(self.steps(partition, &mut account, deadline)).await;
        Slice { advance, reshard: account.reshard }
    }

    async fn steps(
        &self,
        partition: &PartitionKey,
        account: &mut Account,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        let waits = Waits::of(self.directory.settings());
        let mut sighting = Sighting::default();
        let mut turn = Turn::default();
        let mut trouble = Trouble::default();
        let mut scanned = Duration::ZERO;
        let last_pause = deadline.earlier_by(RESERVE);
        let refusals_from_now =
            || Attempts::new(self.directory.clock(), self.directory.entropy(), last_pause);
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
            account.enter(&seen.metadata, &job, now, waits);
            let step = plan(&seen.metadata, &job, Sight { now, unchanged_for }, waits);
            let scans = matches!(step, NextStep::Scan | NextStep::RemoveMarkers);
            if scans && scanned >= SCAN_SLICE {
                return self.yield_slice(partition, &trouble, deadline).await;
            }
            let began = self.directory.now();
            let left = SCAN_SLICE.saturating_sub(scanned) + RESERVE;
            let until = if scans { deadline.min(Deadline::after(began, left)) } else { deadline };
            let carried = if scans && turn.noted != Some(job.rev) {
                self.take_turn(&mut turn, &job, until).await
            } else {
                self.carry_out(step, &seen, &job, now, &mut trouble, until).await
            };
            let carried = match carried {
                // The metadata table has throttled a note, say: what it said is found out again.
                Err(error) if error.is_passing() && error.code() != Code::MetadataBehind => {
                    match refusals.pause(error).await {
                        Ok(()) => Carried::Again,
                        Err(_) => Carried::OutOfTime,
                    }
                }
                carried => {
                    refusals = refusals_from_now();
                    carried?
                }
            };
            if scans {
                scanned += self.directory.now().boot.saturating_sub(began.boot);
            }
            match carried {
                Carried::Noted { rev } => turn.noted = Some(rev),
                Carried::Out | Carried::Again => {}
                Carried::Finished(metadata) => {
                    return Ok(Advance::Finished(CollectionMetadata::clone(&metadata)));
                }
                Carried::Elsewhere => {
                    return trouble.error().map_or(Ok(Advance::Elsewhere), Err);
                }
                Carried::WaitsUntil(until) => {
                    return Ok(Advance::Waiting { until_secs: until.0 });
                }
                // What comes next takes more than a slice at this pace, and another would begin at
                // once and come no further. The sweep goes on, when more has been saved up.
                Carried::OutOfTime
                    if scanned < LEAST_SLICE
                        && deadline.remaining(self.directory.now()) > SCAN_SLICE =>
                {
                    let waiting = Advance::Waiting { until_secs: now.0 + 1 };
                    return trouble.error().map_or(Ok(waiting), Err);
                }
                Carried::OutOfTime => {
                    return self.yield_slice(partition, &trouble, deadline).await;
                }
            }
        }
    }

    /// Carries all running changes on, whatever the stream has said of them. One collection's trouble
    /// is not another's, and what there is no time for is left to the next sweep.
    pub async fn sweep(&self, deadline: Deadline) -> Sweep {
        let (mut partitions, listed) = self.listed(deadline).await;
        // In the order of the index the same ones would be left each time.
        partitions.sort_by_cached_key(|_| self.directory.entropy().next_u64());
        let last_begin = deadline.earlier_by(RESERVE);
        let advances = partitions.into_iter().map(|partition| async move {
            if last_begin.remaining(self.directory.now()).is_zero() {
                return None;
            }
            let slice = self.advance(&partition, deadline).await;
            Some((partition, slice))
        });
        let side_by_side =
            stream::iter(advances.collect::<Vec<_>>()).buffer_unordered(COLLECTIONS_AT_ONCE);
        let mut sweep = Sweep { collections: Vec::new(), left: 0, listed };
        for advanced in side_by_side.collect::<Vec<_>>().await {
            sweep.left += usize::from(advanced.is_none());
            sweep.collections.extend(advanced);
        }
        sweep
    }

    /// The collections in which a change seems to run, and why these may not be all.
    async fn listed(&self, deadline: Deadline) -> (Vec<PartitionKey>, Result<(), Error>) {
        let (mut partitions, mut after) = (Vec::new(), None);
        // A page that does not come leaves the time for those that have come.
        let now = self.directory.now();
        let deadline = deadline.min(Deadline::after(now, deadline.remaining(now) / 4));
        loop {
            match self.directory.resharding(after.as_ref(), deadline).await {
                Ok(page) => {
                    partitions.extend(page.partitions);
                    after = page.next;
                    if after.is_none() {
                        return (partitions, Ok(()));
                    }
                }
                Err(error) => return (partitions, Err(error)),
            }
        }
    }

    async fn carry_out(
        &self,
        step: NextStep,
        seen: &Known,
        job: &Job,
        now: ServerTime,
        trouble: &mut Trouble,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
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
            NextStep::Scan => self.move_on(seen, job, trouble, deadline).await,
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
            NextStep::RemoveMarkers => self.remove_markers(seen, job, trouble, deadline).await,
            NextStep::Finish => match self.directory.finish(metadata, job, deadline).await {
                Ok(known) => Ok(Carried::Finished(known.metadata)),
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
                Ok(Carried::Again)
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
    ) -> Result<Carried, Error> {
        if job.yielded || turn.watched == Some(job.rev) {
            return self.save(job, job.clone(), deadline).await;
        }
        if turn.watched.is_some() {
            return Ok(Carried::Elsewhere);
        }
        turn.watched = Some(job.rev);
        let clock = self.directory.clock();
        // A short slice, too, comes to its work.
        let spare = deadline.earlier_by(RESERVE).remaining(clock.now());
        clock.sleep(WATCH.min(spare / 2)).await;
        Ok(Carried::Again)
    }

    /// Waits in this slice, if it leaves the time for that; otherwise another goes on at `until`.
    async fn wait(&self, wait: Duration, until: ServerTime, deadline: Deadline) -> Carried {
        let clock = self.directory.clock();
        if wait + RESERVE >= deadline.remaining(clock.now()) {
            return Carried::WaitsUntil(until);
        }
        clock.sleep(wait).await;
        Carried::Again
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
    ) -> Result<Carried, Error> {
        let target = job.then.filter(|target| *target != metadata.number_of_shards);
        let Some(target) = target else {
            return self.save(job, Job { then: None, ..job.clone() }, deadline).await;
        };
        match self.directory.begin(metadata, target, Some(job), deadline).await? {
            Ok(_) => Ok(Carried::Out),
            Err(NotBegun::No(_) | NotBegun::Changed) => Ok(Carried::Again),
            Err(NotBegun::Failed(error)) => of_conditional(error),
        }
    }

    /// Writes into the job what was found out or done.
    pub(crate) async fn save(
        &self,
        seen: &Job,
        next: Job,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
        let next = Job { yielded: false, ..next };
        match self.directory.save_job(seen, next, deadline).await {
            Ok(saved) => Ok(Carried::Noted { rev: saved.rev }),
            Err(error) => of_conditional(error),
        }
    }

    async fn publish(
        &self,
        seen: &CollectionMetadata,
        next: Option<CollectionMetadata>,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
        let Some(next) = next else {
            return Ok(Carried::Again);
        };
        match self.directory.update(seen, next, deadline).await {
            Ok(_) => Ok(Carried::Out),
            Err(error) => of_conditional(error),
        }
    }

    /// Ends a slice that has not come to the end. Another that met the same trouble at once would be
    /// of no use: that is for the retries of the record, and the sweep.
    async fn yield_slice(
        &self,
        partition: &PartitionKey,
        trouble: &Trouble,
        deadline: Deadline,
    ) -> Result<Advance, Error> {
        if let Some(error) = trouble.error() {
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

    pub(crate) fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        // Nothing panics while the lock is held, and a pace is sound in any case.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
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
struct Account {
    /// The reshard that was seen last, and how many items it had moved by then.
    last: Option<(Generation, u64)>,
    reshard: Option<ReshardSlice>,
}

impl Account {
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

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It was done.
    Out,
    /// It was done, and noted in the job, which has this `rev` now.
    Noted {
        /// The new one.
        rev: u64,
    },
    /// It was done, and it was the last one: this is what the change has left.
    Finished(Arc<CollectionMetadata>),
    /// Something has changed, or nothing is known of it: look again.
    Again,
    /// Another rebalancer was faster.
    Elsewhere,
    /// The time did not suffice.
    OutOfTime,
    /// Nothing may happen before this time, and the slice does not last that long.
    WaitsUntil(ServerTime),
}

/// What the failure of a conditional change of metadata or job means.
fn of_conditional(error: StoreError) -> Result<Carried, Error> {
    match error {
        StoreError::ConditionFailed { .. } | StoreError::Conflict => Ok(Carried::Elsewhere),
        // After a pause it is found out: a table that fails may do so at once.
        StoreError::OutcomeUnknown(why) => Err(Error::new(Code::Unavailable, why)),
        error => Err(refusal(error).unwrap_or_else(|error| error)),
    }
}
