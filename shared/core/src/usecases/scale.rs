//! What operators ask for: a collection's first shards, another count, and how far it is.

use std::time::Duration;

use dynashard_keys::{PartitionKey, Placement, ShardCount};

use crate::decide::next_step::{NextStep, Observation, next_step};
use crate::model::epochs::Extent;
use crate::model::error::{Code, Error};
use crate::model::grant::Grant;
use crate::model::lease::Deadline;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::policy::{Hindrance, check_change};
use crate::model::reshard::{Job, ServerTime};
use crate::model::version::Generation;
use crate::usecases::directory::{BeginOutcome, Changes, Directory, JobRevised, Known, PaceChange};
use crate::usecases::epochs;
use crate::usecases::main_table::fit_one_shard;

/// How long a request that comes too soon waits at least before it is made again.
const LEAST_REST: Duration = Duration::from_millis(200);

/// For how long a collection that was created may be announced once more, in seconds: a client asks again by then.
const RECENTLY_SECS: u64 = 60;

/// What a request that has waited needs to begin a change.
const TIME_TO_BEGIN: Duration = Duration::from_secs(2);

/// How far a collection is on the way to a count that was asked for, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingStatus {
    /// The collection.
    pub metadata: CollectionMetadata,
    /// The job of its last change, if that has not been cleared up.
    pub job: Option<Job>,
    /// How far it is.
    pub stage: Stage,
    /// Until when nothing may happen, by DynamoDB's clock, if that is what it waits for.
    pub waits_until: Option<ServerTime>,
    /// DynamoDB's time of the reading.
    pub now: ServerTime,
}

/// A change of a shard count that runs, or whose markers are being removed, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningChange {
    /// The collection.
    pub metadata: CollectionMetadata,
    /// How far its change is.
    pub job: Job,
    /// Until when nothing may happen, by DynamoDB's clock, if that is what it waits for.
    pub waits_until: Option<ServerTime>,
    /// DynamoDB's time of the reading.
    pub now: ServerTime,
}

/// How far a collection is on the way to a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has the count, and no reshard runs.
    Reached,
    /// It is on the way, perhaps by way of another count.
    UnderWay,
    /// It goes elsewhere: somebody has asked for another count since.
    Overtaken,
}

/// Gives collections their shards ahead of their first item, and changes their shard counts.
pub struct Scaler {
    directory: Directory,
    asks_for_size: bool,
}

impl Scaler {
    /// A scaler over this directory.
    pub fn new(directory: Directory) -> Self {
        Self { directory, asks_for_size: true }
    }

    /// This scaler, giving collections fewer shards also where a local secondary index may bound them: for an operator who
    /// knows that they fit.
    #[must_use]
    pub fn whatever_their_size(self) -> Self {
        Self { asks_for_size: false, ..self }
    }

    /// What the scaler knows about collections.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Gives a collection that was never changed `requested` shards, rounded as its placement needs,
    /// and waits until puts go to them, or the time is over. The count stays the floor of automatic
    /// shrinking.
    pub async fn create_collection(
        &self,
        partition: &PartitionKey,
        placement: Option<Placement>,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        self.create_collection_under(None, partition, placement, requested, deadline).await
    }

    /// As [`Scaler::create_collection`], for a caller of whom this grant bounds what the directory is to list.
    pub async fn create_collection_under(
        &self,
        grant: Option<&Grant>,
        partition: &PartitionKey,
        placement: Option<Placement>,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let placement = placement.unwrap_or(self.directory.settings().placement);
        let count = self.allowed(placement, requested, ShardCount::ONE)?;
        let mut attempts = self.directory.attempts(deadline);
        loop {
            let known = self.directory.read_now(partition, deadline).await?;
            if known.metadata.is_enlisted() {
                self.announce_again(&known.metadata, deadline).await;
                let why = "the collection was created or changed before";
                return Err(Error::new(Code::CollectionExists, why));
            }
            let cold = CollectionMetadata::cold(partition.clone(), placement);
            let cold = CollectionMetadata { min_shards: count, ..cold };
            let begun = match Changes::of(&self.directory)
                .count_enlisting(partition, grant, deadline)
                .await
            {
                Err(error) => Err(error),
                Ok(()) if count == ShardCount::ONE => {
                    let now_secs = self.directory.lease().epoch_secs();
                    Changes::of(&self.directory)
                        .enlist(cold.enlisted(now_secs), None, deadline)
                        .await
                }
                Ok(()) => {
                    Changes::of(&self.directory)
                        .begin(&cold, (&Extent::Newest, count), None, deadline)
                        .await
                }
            };
            match begun {
                Ok(BeginOutcome::Begun(known)) => {
                    // A rebalancer announces what has a job. And what has none is created all the same.
                    if count == ShardCount::ONE {
                        drop(
                            Changes::of(&self.directory).announce(&known.metadata, deadline).await,
                        );
                    }
                    return self.when_in_force(known, deadline).await;
                }
                // This collection was enlisted meanwhile, or another one by the same item.
                Ok(_) => attempts.pause(changed_meanwhile()).await?,
                Err(error) if error.is_passing() => attempts.pause(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Announces a collection of one shard that was just created, once more: whoever did that may have died before others
    /// could know of it.
    async fn announce_again(&self, metadata: &CollectionMetadata, deadline: Deadline) {
        let made_ago =
            self.directory.lease().epoch_secs().saturating_sub(metadata.last_updated_secs);
        if metadata.generation == Generation::default() && made_ago < RECENTLY_SECS {
            drop(Changes::of(&self.directory).announce(metadata, deadline).await);
        }
    }

    /// The metadata when puts go to all shards that were asked for, or as it is when the time is over.
    async fn when_in_force(
        &self,
        mut known: Known,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let clock = self.directory.clock();
        while matches!(known.metadata.phase, Phase::Forward { .. })
            && deadline.earlier_by(TIME_TO_BEGIN).remaining(clock.now()) > LEAST_REST
        {
            clock.sleep(LEAST_REST).await;
            match self.directory.read_now(&known.metadata.partition, deadline).await {
                // Half of the transaction may not show yet.
                Ok(now) if !now.metadata.is_enlisted() => {}
                Ok(now) => known = now,
                // It is created all the same.
                Err(_) => break,
            }
        }
        Ok(CollectionMetadata::clone(&known.metadata))
    }

    /// Asks for another shard count of an existing collection, and returns its metadata as the
    /// request left it. An operator waits for no cooldown, only for leases on the last change to end:
    /// here, if the deadline allows it.
    ///
    /// A reshard that runs goes on to its end: only its own old count may be asked for meanwhile,
    /// which turns it round when it has closed, and its own new count, which takes that back.
    pub async fn request_count(
        &self,
        partition: &PartitionKey,
        requested: ShardCount,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        self.request_change(None, partition, (&Extent::Newest, requested), deadline).await
    }

    /// As [`Scaler::request_count`], of this extent of the collection, and for a caller of whom a grant bounds what the directory is
    /// to list.
    pub async fn request_change(
        &self,
        grant: Option<&Grant>,
        partition: &PartitionKey,
        change: (&Extent, ShardCount),
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let mut attempts = self.directory.attempts(deadline);
        loop {
            match self.try_request(grant, partition, change, deadline).await? {
                RequestOutcome::Accepted(metadata) => return Ok(metadata),
                // A rebalancer that clears up behind the last change has noted how far it is.
                RequestOutcome::Overtaken => attempts.pause(changed_meanwhile()).await?,
                RequestOutcome::TooSoon { until_secs } => {
                    self.rest_until(until_secs, deadline).await?;
                }
            }
        }
    }

    /// Waits for a moment at which leases on the last change have ended.
    async fn rest_until(&self, until_secs: u64, deadline: Deadline) -> Result<(), Error> {
        let clock = self.directory.clock();
        let now = clock.now();
        let wait =
            Duration::from_secs(until_secs.saturating_sub(self.directory.lease().epoch_secs()));
        // Two clocks may be asked, this one and DynamoDB's, and they may differ.
        let wait = wait.max(LEAST_REST);
        if wait >= deadline.earlier_by(TIME_TO_BEGIN).remaining(now) {
            let why = format!(
                "the collection changed a moment ago; ask again at epoch second {until_secs}"
            );
            return Err(Error::new(Code::ReshardTooSoon, why));
        }
        clock.sleep(wait).await;
        Ok(())
    }

    async fn try_request(
        &self,
        grant: Option<&Grant>,
        partition: &PartitionKey,
        (extent, requested): (&Extent, ShardCount),
        deadline: Deadline,
    ) -> Result<RequestOutcome, Error> {
        let known = self.directory.read_now(partition, deadline).await?;
        let metadata = &known.metadata;
        let has = metadata.phase.most_shards(metadata.number_of_shards);
        let target = self.allowed(metadata.placement, requested, has)?;
        let extent = &self.resolved(metadata, extent, target, deadline).await?;
        let merges = *extent == Extent::Whole && !metadata.epochs.is_one();
        if target == metadata.number_of_shards && metadata.phase == Phase::Stable && !merges {
            // Where an older epoch is to turn round, that is not about this one.
            if metadata.cleanup_pending && metadata.epochs.changing.is_none() {
                // To turn round may be what its job is to do next.
                return self.turn_round(metadata, None, deadline).await;
            }
            return Ok(RequestOutcome::accepted(metadata));
        }
        if let (Extent::Whole, Some(reshard)) = (extent, metadata.reshard())
            && reshard.to == target
        {
            // One of its steps runs.
            return Ok(RequestOutcome::accepted(metadata));
        }
        if target < metadata.widest() {
            self.check_size(deadline).await?;
        }
        if let Some(reshard) = metadata.reshard()
            && *extent == metadata.epochs.changing.map_or(Extent::Newest, Extent::Older)
            && (target == reshard.from || target == reshard.to)
        {
            let then = (target == reshard.from).then_some(target);
            return self.turn_round(metadata, then, deadline).await;
        }
        if let (Phase::Forward { to, .. }, None) = (metadata.phase, metadata.reshard())
            && to == target
        {
            // A growth that moves nothing, which is on its way there.
            return Ok(RequestOutcome::accepted(metadata));
        }
        let now_secs = self.directory.lease().epoch_secs();
        match check_change(metadata, now_secs, self.directory.lease().waits().leases_end) {
            Ok(()) => {}
            Err(Hindrance::TooSoon { until_secs }) => {
                return Ok(RequestOutcome::TooSoon { until_secs });
            }
            Err(_) => return Err(running(metadata)),
        }
        if !metadata.is_enlisted() {
            Changes::of(&self.directory).count_enlisting(partition, grant, deadline).await?;
        }
        match Changes::of(&self.directory).begin(metadata, (extent, target), None, deadline).await?
        {
            BeginOutcome::Begun(known) => Ok(RequestOutcome::accepted(&known.metadata)),
            BeginOutcome::TooSoon { until_secs } => Ok(RequestOutcome::TooSoon { until_secs }),
            BeginOutcome::Overtaken => Ok(RequestOutcome::Overtaken),
            BeginOutcome::Running => {
                let (job, _) = self.directory.records().job(partition, deadline).await?;
                if job.and_then(|job| job.then) == Some(target) {
                    // What is asked for is what is about to begin.
                    return Ok(RequestOutcome::accepted(metadata));
                }
                Err(running(metadata))
            }
        }
    }

    /// What a request for an extent is about, as the collection is: one that begins where the newest epoch does is about that.
    async fn resolved(
        &self,
        metadata: &CollectionMetadata,
        extent: &Extent,
        target: ShardCount,
        deadline: Deadline,
    ) -> Result<Extent, Error> {
        let is_one = metadata.epochs.is_one();
        let Extent::Behind { boundary, .. } = extent else {
            let is_all = *extent == Extent::Whole && is_one;
            return Ok(if is_all { Extent::Newest } else { extent.clone() });
        };
        let newest = metadata.epochs.older.last().map(|last| &last.boundary);
        // A key of an older epoch is refused below, whatever the count.
        let is_of_newest = newest.is_none_or(|last| metadata.epochs.is_newer(boundary, last));
        let has_count = is_of_newest && target == metadata.number_of_shards;
        if newest == Some(boundary) || has_count {
            return Ok(Extent::Newest);
        }
        epochs::check(&self.directory, metadata, boundary, deadline).await?;
        Ok(extent.clone())
    }

    /// Refuses fewer shards where they might not hold the items.
    async fn check_size(&self, deadline: Deadline) -> Result<(), Error> {
        if self.asks_for_size && !fit_one_shard(self.directory.context(), deadline).await? {
            let why = "the table has local secondary indexes, which bound a shard to 10 GB, and more than 5 GB in all, so that \
                       fewer shards might not hold the collection; if they do, `dynashard scale --whatever-their-size` changes \
                       the count";
            return Err(Error::new(Code::ShardsTooLarge, why));
        }
        Ok(())
    }

    /// How far a collection is on the way to `target`, whatever is cached.
    pub async fn status(
        &self,
        partition: &PartitionKey,
        target: ShardCount,
        deadline: Deadline,
    ) -> Result<ScalingStatus, Error> {
        let known = self.directory.read_now(partition, deadline).await?;
        let (job, now) = self.directory.records().job(partition, deadline).await?;
        let waits_until = job.as_ref().and_then(|job| self.waits_until(&known.metadata, job, now));
        Ok(ScalingStatus {
            stage: stage(&known.metadata, job.as_ref(), target),
            metadata: CollectionMetadata::clone(&known.metadata),
            job,
            waits_until,
            now,
        })
    }

    /// How far the change of a collection is, whatever is cached; `None` where none runs.
    pub async fn running(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<Option<RunningChange>, Error> {
        let known = self.directory.read_now(partition, deadline).await?;
        let (job, now) = self.directory.records().job(partition, deadline).await?;
        let metadata = CollectionMetadata::clone(&known.metadata);
        let job = job.filter(|_| metadata.needs_rebalancing());
        Ok(job.map(|job| RunningChange {
            waits_until: self.waits_until(&metadata, &job, now),
            metadata,
            job,
            now,
        }))
    }

    /// Changes how fast the change of a collection goes: whoever works on it knows with its next note, within seconds. Returns
    /// whether one runs.
    pub async fn set_pace(
        &self,
        partition: &PartitionKey,
        pace: PaceChange,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        let mut attempts = self.directory.attempts(deadline);
        loop {
            let known = self.directory.read_now(partition, deadline).await?;
            if !known.metadata.needs_rebalancing() {
                return Ok(false);
            }
            match Changes::of(&self.directory).set_pace(&known.metadata, pace, deadline).await? {
                JobRevised::Now | JobRevised::Before => return Ok(true),
                JobRevised::Overtaken => attempts.pause(changed_meanwhile()).await?,
            }
        }
    }

    /// Until when nothing may happen. An operator's command sees as much as a rebalancer that has just begun.
    fn waits_until(
        &self,
        metadata: &CollectionMetadata,
        job: &Job,
        now: ServerTime,
    ) -> Option<ServerTime> {
        let observed = Observation { now, unchanged_for: Duration::ZERO };
        match next_step(metadata, job, observed, self.directory.lease().waits()) {
            NextStep::Wait { until, .. } => Some(until),
            _ => None,
        }
    }

    async fn turn_round(
        &self,
        metadata: &CollectionMetadata,
        then: Option<ShardCount>,
        deadline: Deadline,
    ) -> Result<RequestOutcome, Error> {
        Ok(match Changes::of(&self.directory).turn_round(metadata, then, deadline).await? {
            JobRevised::Now | JobRevised::Before => RequestOutcome::accepted(metadata),
            JobRevised::Overtaken => RequestOutcome::Overtaken,
        })
    }

    /// The count that is asked for, of a collection that `has` so many shards: the stack may have allowed more once.
    fn allowed(
        &self,
        placement: Placement,
        requested: ShardCount,
        has: ShardCount,
    ) -> Result<ShardCount, Error> {
        let count = placement.round(requested);
        let max = self.directory.settings().max_shards.max(has);
        if count > max {
            return Err(Error::new(
                Code::BadShardCount,
                format!(
                    "{requested} shards under {placement} make {count}; the stack allows {max}"
                ),
            ));
        }
        Ok(count)
    }
}

/// How far a collection is on the way to `target`. Metadata and job were read one after the other.
fn stage(metadata: &CollectionMetadata, job: Option<&Job>, target: ShardCount) -> Stage {
    let destination = match metadata.phase {
        // The reshard back begins when the one before it was seen closed T' ago.
        Phase::Stable => match job.and_then(|job| job.then) {
            None if metadata.number_of_shards == target => return Stage::Reached,
            then => then,
        },
        Phase::Forward { to, .. } | Phase::Move { to, .. } => {
            let job = job.filter(|job| job.generation == metadata.generation);
            Some(job.and_then(|job| job.then).unwrap_or(to))
        }
    };
    let has_changed = job.is_some_and(|job| job.generation > metadata.generation);
    if has_changed || destination == Some(target) { Stage::UnderWay } else { Stage::Overtaken }
}

/// What became of one request for another count.
enum RequestOutcome {
    /// The collection has the count, or is on its way to it. This is its metadata.
    Accepted(CollectionMetadata),
    /// The metadata or the job changed between the read and the request.
    Overtaken,
    /// Somebody may still act on what was before the last change, until this epoch second.
    TooSoon { until_secs: u64 },
}

impl RequestOutcome {
    fn accepted(metadata: &CollectionMetadata) -> Self {
        Self::Accepted(metadata.clone())
    }
}

/// What is changing the count already, for the operator who asked for another.
fn running(metadata: &CollectionMetadata) -> Error {
    let why = match metadata.phase {
        Phase::Forward { from, to } | Phase::Move { from, to } => {
            let change = format!("the collection is being changed from {from} to {to} shards");
            match metadata.reshard() {
                Some(_) if metadata.epochs.changing.is_some() => format!(
                    "{change} in an older epoch; ask again when that has closed, or turn it round by `dynashard cancel`"
                ),
                Some(_) => format!(
                    "{change}; until that has closed only {from} may be asked for, which turns it \
                     round"
                ),
                None => format!("{change}; ask again when it has them"),
            }
        }
        Phase::Stable => "another change of the shard count was asked for and is about to begin; ask \
                          again when that has closed, or take it back by asking for the present count"
            .to_owned(),
    };
    Error::new(Code::ReshardRunning, why)
}

fn changed_meanwhile() -> Error {
    Error::new(Code::Contended, "the collection's metadata kept changing; ask again")
}
