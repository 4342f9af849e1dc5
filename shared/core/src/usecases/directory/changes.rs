//! Publishes changes of metadata, each on condition of what was read.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardCount};

use crate::model::contradiction::Contradiction;
use crate::model::directory_item::DirectoryItem;
use crate::model::epochs::Extent;
use crate::model::error::{Code, Error};
use crate::model::grant::{Counted, Grant};
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::reshard::{Job, ServerTime};
use crate::model::segment::{KeyHash, Segment};
use crate::model::transitions::Next;
use crate::model::version::Generation;
use crate::ports::{Change, Dated, StoreError};
use crate::usecases::directory::cache::{Directory, Known, lease_under};
use crate::usecases::records::Revision;

/// What became of a change of a shard count that was to begin.
#[derive(Debug, Clone)]
pub(crate) enum BeginOutcome {
    /// `forward` is published.
    Begun(Known),
    /// An operator has asked already for the change that follows the last one.
    Running,
    /// Leases on what was before the last change may live until this epoch second.
    TooSoon {
        /// By DynamoDB's clock.
        until_secs: u64,
    },
    /// The collection is not as seen any more.
    Overtaken,
}

/// What is to change about how fast a running change goes. What is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceChange {
    /// Whether it is paused.
    pub paused: Option<bool>,
    /// The write units a second that it may take, at least one, or `None` for what all changes may.
    pub mover_wcu: Option<Option<u32>>,
}

/// What became of a request to change the job of a running change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobRevised {
    /// The job says so now.
    Now,
    /// It said so before.
    Before,
    /// The metadata or the job is not as seen any more.
    Overtaken,
}

/// Changes of what a directory knows. What they publish it keeps.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'a> {
    directory: &'a Directory,
}

impl<'a> Changes<'a> {
    pub(crate) fn of(directory: &'a Directory) -> Self {
        Self { directory }
    }

    /// Publishes `forward` to `target` of this extent, with the job of the change. Whether the collection may change
    /// at all was decided before.
    ///
    /// Beginning waits until the last change was seen closed T' ago: by DynamoDB's clock, as its job
    /// tells, or by that of the controller that has removed the job (protocol: "Phases"). Where the
    /// decision came from `planned`, the job must still be as it was then.
    pub(crate) async fn begin(
        self,
        seen: &CollectionMetadata,
        (extent, target): (&Extent, ShardCount),
        planned: Option<&Job>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        if seen.phase != Phase::Stable {
            return Ok(BeginOutcome::Running);
        }
        // What a controller continues was decided before. And what has grown may always become plain again.
        let newest = seen.number_of_shards;
        let least = match extent {
            Extent::Newest | Extent::Behind { .. } => newest,
            Extent::Older(at) => seen.counts().nth(*at).unwrap_or(newest),
            Extent::Whole => seen.counts().min().unwrap_or(newest),
        };
        if planned.is_none() && target > least {
            self.check_allowed(&seen.partition)?;
        }
        let now_secs = self.directory.lease().epoch_secs();
        if !seen.is_enlisted() {
            let begun = Next::after(&seen.enlisted(now_secs), now_secs).begun(extent, target);
            let Some(next) = begun else { return Ok(BeginOutcome::Overtaken) };
            let job = Job::new(&next, None, now_secs);
            return self.enlist(next, job, deadline).await;
        }
        let Some(next) = Next::after(seen, now_secs).begun(extent, target) else {
            return Ok(BeginOutcome::Overtaken);
        };
        let (before, now) = self.directory.records().job(&seen.partition, deadline).await?;
        if planned.is_some() && planned != before.as_ref() {
            return Ok(BeginOutcome::Overtaken);
        }
        if let Some(before) = before.as_ref().filter(|job| job.generation == seen.generation) {
            if before.closed_seen.is_none() && !seen.needs_rebalancing() {
                let why =
                    "is missing, although the metadata says that nothing is left of the change";
                let damage = before.damaged(&Contradiction::new("closed_seen", why));
                return Err(Error::new(Code::CorruptData, damage));
            }
            if planned.is_none() && before.then.is_some() {
                return Ok(BeginOutcome::Running);
            }
            let waits = self.directory.lease().waits_now(deadline).await?;
            let until = before.closed_seen.unwrap_or(now).plus(waits.leases_end);
            if now < until {
                return Ok(BeginOutcome::TooSoon { until_secs: until.0 });
            }
        }
        let Some(job) = Job::new(&next, before.as_ref(), now_secs) else {
            return Ok(BeginOutcome::Overtaken);
        };
        let sent = self.sending();
        let changes = [
            Change::of_metadata(Some(seen), next.clone()),
            Change::of_job(&seen.partition, before.as_ref(), Some(job)),
        ];
        let answer = self.directory.records().commit(&changes, deadline).await;
        let published = self.published(next, sent, answer);
        self.outcome_of(published, deadline).await
    }

    /// Gives a collection its metadata item, with the job of its first change if it begins with one, and
    /// has the directory list it: all at once, or nothing.
    pub(crate) async fn enlist(
        self,
        metadata: CollectionMetadata,
        job: Option<Job>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        self.check_enlisting(&metadata.partition)?;
        let (seen, under) = self.directory.lease().item(deadline).await?;
        let listing = if seen.groups().is_some() {
            Change::listing(KeyHash::of(&metadata.partition))
        } else {
            let next = seen.with(&metadata.partition).ok_or_else(directory_is_full)?;
            Change::of_directory(&seen, next)
        };
        let mut changes = vec![Change::of_metadata(None, metadata.clone()), listing];
        let job = job.map(|job| Change::of_job(&metadata.partition, None, Some(job)));
        changes.extend(job);
        let sent = self.directory.now();
        let answer = self.directory.records().commit(&changes, deadline).await;
        // Nobody acts on it before strong reads show both: others would find items ahead of what they can
        // read. So it is not kept.
        self.directory.forget(&metadata.partition);
        let published = answer.map(|Dated { server_secs, .. }| Known {
            lease: lease_under(&under, self.directory, sent, server_secs),
            metadata: Arc::new(metadata),
        });
        self.outcome_of(published, deadline).await
    }

    /// Has everybody learn that a collection is listed, or that it rests no more, which was seen to be so: raises the counters that
    /// renew what others know of its segment and of its metadata. Returns the time from which on nobody takes a lease on what was
    /// before, or `None` where that is any time after it was seen (protocol: "The directory").
    pub(crate) async fn announce(
        self,
        metadata: &CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Option<ServerTime>, Error> {
        let hash = KeyHash::of(&metadata.partition);
        let (listed, known) = (hash.segment().group(), hash.metadata_group());
        // What was created with one shard rests before its first change, too.
        let groups: &[_] = match metadata.generation.cmp(&Generation::FIRST_CHANGE) {
            Ordering::Less => &[listed],
            Ordering::Equal => &[listed, known],
            Ordering::Greater => &[known],
        };
        self.directory.records().raise(groups, deadline).await
    }

    /// As [`Changes::announce`], for whoever counts a wait from then: the segment was seen to list the collection.
    pub(crate) async fn announce_seen(
        self,
        metadata: &CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Option<ServerTime>, Error> {
        let announced = self.announce(metadata, deadline).await?;
        // A list may be held that was converted since, and has listed another key of the same hash.
        if announced.is_some() && !self.directory.segments.have_listed(&metadata.partition) {
            self.directory.lease().drop();
            let why = "the segment of the directory was not seen yet to list the collection";
            return Err(Error::new(Code::Unavailable, why));
        }
        Ok(announced)
    }

    /// Counts a collection that is about to be enlisted to those of the grant under which somebody asks for it. It comes
    /// before the enlisting, so that no crash leaves a collection that is listed and not counted. One that is counted and
    /// was not listed costs no more when it is asked for again.
    pub(crate) async fn count_enlisting(
        self,
        partition: &PartitionKey,
        grant: Option<&Grant>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let Some(grant) = grant else { return Ok(()) };
        self.check_enlisting(partition)?;
        let count = |seen: Option<Counted>| {
            let before = seen.clone().unwrap_or_default();
            let next = before.with(KeyHash::of(partition).half(), grant);
            let next = next.ok_or_else(|| is_exhausted(grant))?;
            Ok(if next == before {
                Revision::Keep(())
            } else {
                Revision::commit(Change::of_grant(grant, seen.as_ref(), next), ())
            })
        };
        let contended = "the count of the grant kept changing; ask again";
        self.directory.records().revise(grant, count, contended, deadline).await
    }

    /// Refuses a collection that cannot be enlisted, as far as that is known without a request.
    fn check_enlisting(self, partition: &PartitionKey) -> Result<(), Error> {
        self.check_allowed(partition)?;
        // Whoever has seen it full need not read it again: it never has more room.
        let has_room =
            self.directory.lease().last().is_none_or(|root| root.has_room_for(partition));
        if !has_room || !self.directory.segments.have_room_for(partition) {
            return Err(directory_is_full());
        }
        Ok(())
    }

    /// Refuses to change a collection that the operator does not let grow.
    fn check_allowed(self, partition: &PartitionKey) -> Result<(), Error> {
        let grow_keys = &self.directory.settings().grow_keys;
        if grow_keys.allow(partition) {
            return Ok(());
        }
        let why = format!(
            "the parameter GrowKeys, {grow_keys}, does not let this collection have another shard count"
        );
        Err(Error::new(Code::CollectionNotAllowed, why))
    }

    /// What the answer to the beginning of a change means.
    async fn outcome_of(
        self,
        published: Result<Known, StoreError>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        match published {
            Ok(known) => Ok(BeginOutcome::Begun(known)),
            Err(StoreError::ConditionFailed { .. }) => Ok(BeginOutcome::Overtaken),
            // Another transaction holds the metadata, the job or the segment, most likely the same beginning. What
            // becomes of it shows a moment later.
            Err(StoreError::Conflict) => {
                let why = "another transaction was changing the collection";
                let _ =
                    self.directory.attempts(deadline).pause(Error::new(Code::Contended, why)).await;
                Ok(BeginOutcome::Overtaken)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a job, and the note of it from the metadata, if both are as seen.
    pub(crate) async fn finish(
        self,
        seen: &CollectionMetadata,
        job: &Job,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let next =
            Next::after(seen, self.directory.lease().epoch_secs()).cleared_up(job.items_moved);
        let removal = Change::of_job(&job.partition, Some(job), None);
        self.publish(seen, next, Some(removal), deadline).await
    }

    /// Changes metadata from `seen` to `next`, if it still is as seen; otherwise
    /// [`StoreError::ConditionFailed`], and what is cached is dropped.
    pub(crate) async fn update(
        self,
        seen: &CollectionMetadata,
        next: CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        self.publish(seen, next, None, deadline).await
    }

    async fn publish(
        self,
        seen: &CollectionMetadata,
        next: CollectionMetadata,
        with: Option<Change>,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let mut changes = vec![Change::of_metadata(Some(seen), next.clone())];
        changes.extend(with);
        let sent = self.sending();
        let answer = self.directory.records().commit(&changes, deadline).await;
        self.published(next, sent, answer)
    }

    /// Writes into the job of a running reshard what is to follow it.
    pub(crate) async fn turn_round(
        self,
        metadata: &CollectionMetadata,
        then: Option<ShardCount>,
        deadline: Deadline,
    ) -> Result<JobRevised, Error> {
        self.revise_job(metadata, |job| Job { then, ..job.clone() }, deadline).await
    }

    /// Writes into the job of a running change how fast it may go, and has the stream call the next slice of it.
    pub(crate) async fn set_pace(
        self,
        metadata: &CollectionMetadata,
        pace: PaceChange,
        deadline: Deadline,
    ) -> Result<JobRevised, Error> {
        let set = |job: &Job| {
            let paused = pace.paused.unwrap_or(job.paused);
            let mover_wcu = pace.mover_wcu.unwrap_or(job.mover_wcu);
            let differs = (paused, mover_wcu) != (job.paused, job.mover_wcu);
            Job { paused, mover_wcu, yielded: job.yielded || differs, ..job.clone() }
        };
        self.revise_job(metadata, set, deadline).await
    }

    /// Changes the job of a running change, if it still is that of this metadata.
    async fn revise_job(
        self,
        metadata: &CollectionMetadata,
        next: impl Fn(&Job) -> Job,
        deadline: Deadline,
    ) -> Result<JobRevised, Error> {
        let partition = &metadata.partition;
        let revise = |job: Option<Job>| {
            let checked = job.as_ref().map(|job| self.directory.records().check(job));
            checked.unwrap_or(Ok(())).map_err(Error::from)?;
            let Some(job) = job.filter(|job| job.generation == metadata.generation) else {
                return Ok(Revision::Keep(JobRevised::Overtaken));
            };
            let next = next(&job);
            if next == job {
                return Ok(Revision::Keep(JobRevised::Before));
            }
            let next = Job { rev: job.rev + 1, ..next };
            let change = Change::of_job(partition, Some(&job), Some(next));
            Ok(Revision::commit(change, JobRevised::Now))
        };
        // The mover notes how far it is.
        let contended = "the job of the reshard kept changing; ask again";
        self.directory.records().revise(partition, revise, contended, deadline).await
    }

    /// Keeps what a change has published, and drops what is cached if it may not have, or if nobody may take
    /// a lease of it (protocol: "Pinned settings").
    fn published(
        self,
        next: CollectionMetadata,
        sent: Sent,
        answer: Result<Dated<()>, StoreError>,
    ) -> Result<Known, StoreError> {
        match (answer, sent.under) {
            (Ok(Dated { server_secs, .. }), Some((root, under))) => {
                let lease = lease_under(&under, self.directory, sent.at, server_secs);
                Ok(self.directory.keep(next, lease, &root))
            }
            (answer, _) => {
                self.directory.forget(&next.partition);
                // One that has ended: nothing says how writes under it are to be dated.
                let lease = Lease::new(sent.at, None, Duration::ZERO);
                answer.map(|_| Known { metadata: Arc::new(next), lease })
            }
        }
    }

    fn sending(self) -> Sent {
        let at = self.directory.now();
        Sent { at, under: self.directory.lease().fresh(at) }
    }
}

/// The sending of a change.
struct Sent {
    at: Moment,
    /// The directory and its lease, if it lived.
    under: Option<(Arc<DirectoryItem>, Lease)>,
}

fn is_exhausted(grant: &Grant) -> Error {
    let why = format!(
        "{} collections were enlisted under the grant by which the caller may touch this one, as many as the parameter \
         KeysPerGrant allows",
        grant.most()
    );
    Error::new(Code::GrantExhausted, why)
}

fn directory_is_full() -> Error {
    let why = format!(
        "the part of the directory that is to list the collection is full: a segment lists {} collections, and the one \
         item of a stack that an earlier version has set up {}",
        Segment::MAX_COLLECTIONS,
        DirectoryItem::MAX_COLLECTIONS
    );
    Error::new(Code::DirectoryFull, why)
}
