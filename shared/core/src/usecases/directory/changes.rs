//! Publishes changes of metadata, each on condition of what was read.

use std::sync::Arc;

use dynashard_keys::{PartitionKey, ShardCount};

use crate::model::directory_item::DirectoryItem;
use crate::model::error::{Code, Error};
use crate::model::grant::Grant;
use crate::model::lease::{Deadline, Lease, Reading};
use crate::model::metadata::{CollectionMetadata, Contradiction};
use crate::model::reshard::Job;
use crate::ports::{Dated, StoreError};
use crate::usecases::directory::leased::{Directory, Known};
use crate::usecases::retry::{refusal, within};

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

impl Directory {
    /// Publishes `forward` to `target`, with the job of the change. Whether the collection may change
    /// at all was decided before.
    ///
    /// Beginning waits until the last change was seen closed T' ago: by DynamoDB's clock, as its job
    /// tells, or by that of the controller that has removed the job (protocol: "Phases"). Where the
    /// decision came from `planned`, the job must still be as it was then.
    pub(crate) async fn begin(
        &self,
        seen: &CollectionMetadata,
        target: ShardCount,
        planned: Option<&Job>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        // What a controller continues was decided before. And what has grown may always become plain again.
        if planned.is_none() && target > seen.number_of_shards {
            self.check_allowed(&seen.partition)?;
        }
        let now_secs = self.epoch_secs();
        if !seen.is_enlisted() {
            let next = seen.enlisted(now_secs).with_forward(target, now_secs);
            let job = Job::new(&next, None, now_secs);
            return self.enlist(next, job.as_ref(), deadline).await;
        }
        let next = seen.with_forward(target, now_secs);
        let (before, now) = self.job(&seen.partition, deadline).await?;
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
            let settle = self.waits_now(deadline).await?.settle;
            let until = before.closed_seen.unwrap_or(now).plus(settle);
            if now < until {
                return Ok(BeginOutcome::TooSoon { until_secs: until.0 });
            }
        }
        let Some(job) = Job::new(&next, before.as_ref(), now_secs) else {
            return Ok(BeginOutcome::Overtaken);
        };
        let sent = self.sending();
        let request = self.records().begin(seen, &next, before.as_ref(), &job);
        let answer = within(self.clock(), deadline, request).await;
        let published = self.published(next, sent, answer);
        self.begun(published, deadline).await
    }

    /// Gives a collection its metadata item, with the job of its first change if it begins with one, and
    /// has the directory list it: all at once, or nothing.
    pub(crate) async fn enlist(
        &self,
        metadata: CollectionMetadata,
        job: Option<&Job>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        self.check_enlisting(&metadata.partition)?;
        let (seen, _) = self.read_item_now(deadline).await?;
        let next = seen.with(&metadata.partition).ok_or_else(directory_is_full)?;
        let sent = self.clock().now();
        let request = self.records().enlist(&seen, &next, &metadata, job);
        let answer = within(self.clock(), deadline, request).await;
        // Nobody acts on it before strong reads show both: others would find items ahead of what they can
        // read. So it is not kept.
        self.forget(&metadata.partition);
        let published = not_late(answer).map(|Dated { server_secs, .. }| Known {
            lease: Lease::new(sent, server_secs, self.settings().lease_term),
            metadata: Arc::new(metadata),
        });
        self.begun(published, deadline).await
    }

    /// Counts a collection that is about to be enlisted to those of the grant under which somebody asks for it. It comes
    /// before the enlisting, so that no crash leaves a collection that is listed and not counted. One that is counted and
    /// was not listed costs no more when it is asked for again.
    pub(crate) async fn count_enlisting(
        &self,
        partition: &PartitionKey,
        grant: Option<&Grant>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let Some(grant) = grant else { return Ok(()) };
        self.check_enlisting(partition)?;
        let request = self.records().count_enlisting(grant, DirectoryItem::hash_of(partition));
        let why = "the count of the grant was not answered in time".to_owned();
        let answer = within(self.clock(), deadline, request).await;
        match answer.unwrap_or(Err(StoreError::OutcomeUnknown(why))) {
            Ok(()) => Ok(()),
            Err(StoreError::ConditionFailed { .. }) => {
                let why = format!(
                    "{} collections were enlisted under the grant by which the caller may touch this one, as many as \
                     the parameter KeysPerGrant allows",
                    grant.most()
                );
                Err(Error::new(Code::GrantExhausted, why))
            }
            // Whether it was counted makes no difference to whoever sends the request again.
            Err(StoreError::OutcomeUnknown(why)) => Err(Error::new(Code::Unavailable, why)),
            Err(error) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }

    /// Refuses a collection that cannot be enlisted, as far as that is known without a request.
    fn check_enlisting(&self, partition: &PartitionKey) -> Result<(), Error> {
        self.check_allowed(partition)?;
        // Whoever has seen it full need not read it again: it never has more room.
        if self.last_item().is_some_and(|item| !item.has_room_for(partition)) {
            return Err(directory_is_full());
        }
        Ok(())
    }

    /// Refuses to change a collection that the operator does not let grow.
    fn check_allowed(&self, partition: &PartitionKey) -> Result<(), Error> {
        let grow_keys = &self.settings().grow_keys;
        if grow_keys.allow(partition) {
            return Ok(());
        }
        let why = format!(
            "the parameter GrowKeys, {grow_keys}, does not let this collection have another shard count"
        );
        Err(Error::new(Code::CollectionNotAllowed, why))
    }

    /// What the answer to the beginning of a change means.
    async fn begun(
        &self,
        published: Result<Known, StoreError>,
        deadline: Deadline,
    ) -> Result<BeginOutcome, Error> {
        match published {
            Ok(known) => Ok(BeginOutcome::Begun(known)),
            Err(StoreError::ConditionFailed { .. }) => Ok(BeginOutcome::Overtaken),
            // Another transaction holds the metadata or the job, most likely the same beginning. What
            // becomes of it shows a moment later.
            Err(StoreError::Conflict) => {
                let why = "another transaction was changing the collection";
                let _ = self.attempts(deadline).pause(Error::new(Code::Contended, why)).await;
                Ok(BeginOutcome::Overtaken)
            }
            Err(error) => Err(refusal(error).unwrap_or_else(|error| error)),
        }
    }

    /// Removes a job, and the note of it from the metadata, if both are as seen.
    pub(crate) async fn finish(
        &self,
        seen: &CollectionMetadata,
        job: &Job,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let next = seen.without_cleanup(job.items_moved, self.epoch_secs());
        let sent = self.sending();
        let answer = within(self.clock(), deadline, self.records().finish(seen, &next, job)).await;
        self.published(next, sent, answer)
    }

    /// Changes metadata from `seen` to `next`, if it still is as seen; otherwise
    /// [`StoreError::ConditionFailed`], and what is cached is dropped.
    pub(crate) async fn update(
        &self,
        seen: &CollectionMetadata,
        next: CollectionMetadata,
        deadline: Deadline,
    ) -> Result<Known, StoreError> {
        let sent = self.sending();
        let answer = within(self.clock(), deadline, self.records().update(seen, &next)).await;
        self.published(next, sent, answer)
    }

    /// Keeps what a change has published, and drops what is cached if it may not have, or if nobody may take
    /// a lease of it (protocol: "Pinned settings").
    fn published(
        &self,
        next: CollectionMetadata,
        sent: Sent,
        answer: Option<Result<Dated<()>, StoreError>>,
    ) -> Result<Known, StoreError> {
        let lease = not_late(answer).map(|Dated { server_secs, .. }| {
            Lease::new(sent.at, server_secs, self.settings().lease_term)
        });
        match lease {
            Ok(lease) if sent.was_held => Ok(self.keep(next, lease)),
            lease => {
                self.forget(&next.partition);
                lease.map(|lease| Known { metadata: Arc::new(next), lease })
            }
        }
    }

    fn sending(&self) -> Sent {
        let at = self.clock().now();
        Sent { at, was_held: self.is_held(at) }
    }
}

/// The sending of a change.
#[derive(Clone, Copy)]
struct Sent {
    at: Reading,
    /// Whether the lease of the directory lived.
    was_held: bool,
}

/// An answer that may not have come in time.
fn not_late<T>(answer: Option<Result<T, StoreError>>) -> Result<T, StoreError> {
    let why = "the change of the metadata was not answered in time";
    answer.unwrap_or_else(|| Err(StoreError::OutcomeUnknown(why.to_owned())))
}

fn directory_is_full() -> Error {
    let most = DirectoryItem::MAX_COLLECTIONS;
    let why = format!("the directory lists {most} collections, the most that it can");
    Error::new(Code::DirectoryFull, why)
}
