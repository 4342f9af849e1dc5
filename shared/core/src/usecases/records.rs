//! The records of the metadata table as the use cases read and change them: until a deadline, and each on condition of
//! what was read.

use dynashard_keys::PartitionKey;

use crate::model::error::{Code, Error};
use crate::model::history::DecisionHistory;
use crate::model::lease::Deadline;
use crate::model::ledger::{Addition, Ledger, LedgerKind};
use crate::model::reshard::{Job, ServerTime};
use crate::model::segment::{Group, Segment, SegmentId};
use crate::ports::{
    Change, CollectionCatalog, Dated, List, ListPage, Listed, ReadRecords, StoreError, Stored,
};
use crate::usecases::context::Context;
use crate::usecases::retry::{once, refusal, within};

/// The records of a stack.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    context: &'a Context,
}

/// What a look at a record leads to, with what is to be told of it.
pub(crate) enum Revision<T> {
    /// It stays as it is.
    Keep(T),
    /// It is changed.
    Commit(Box<Change>, T),
}

const NOT_IN_TIME: &str = "the metadata table did not answer in time";

fn undated() -> StoreError {
    StoreError::Unavailable("the answer has no Date header".to_owned())
}

impl<T> Revision<T> {
    pub(crate) fn commit(change: Change, told: T) -> Self {
        Self::Commit(Box::new(change), told)
    }
}

impl<'a> Records<'a> {
    pub(crate) fn of(context: &'a Context) -> Self {
        Self { context }
    }

    /// A ledger as it is now.
    pub async fn ledger(
        self,
        partition: &PartitionKey,
        kind: LedgerKind,
        deadline: Deadline,
    ) -> Result<Ledger, Error> {
        self.read_once::<Ledger>(&(partition.clone(), kind), deadline).await
    }

    /// What was decided about a collection.
    pub async fn decisions(
        self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<DecisionHistory, Error> {
        self.read_once(partition, deadline).await
    }

    /// One page of a list. What is being resharded is asked for until it comes; the others can wait for the next time.
    pub async fn list(
        self,
        list: List,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<ListPage<Listed>, Error> {
        let request = || self.context.record_store().list(list, after);
        match list {
            List::Resharding => self.context.attempts(deadline).make(request, NOT_IN_TIME).await,
            List::Grown | List::Decisions => {
                once(self.context.clock(), deadline, request(), NOT_IN_TIME).await
            }
        }
    }

    /// One page of all collections.
    pub(crate) async fn all(
        self,
        catalog: &dyn CollectionCatalog,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<ListPage<PartitionKey>, Error> {
        self.context.attempts(deadline).make(|| catalog.collections(after), NOT_IN_TIME).await
    }

    /// Adds to a ledger by one request, which is not sent again: others report, too.
    pub(crate) async fn add(
        self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
        deadline: Deadline,
    ) -> Result<Dated<Ledger>, Error> {
        let request = self.context.record_store().add(partition, kind, addition);
        once(self.context.clock(), deadline, request, NOT_IN_TIME).await
    }

    /// The job of a collection, and DynamoDB's time when it was read.
    pub(crate) async fn job(
        self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(Option<Job>, ServerTime), Error> {
        let read = async || {
            let Dated { value, server_secs } =
                self.context.record_store().get::<Job>(partition).await?;
            // Another clock in its place could end a wait early (protocol: "Phases").
            let now = ServerTime(server_secs.ok_or_else(undated)?);
            value.as_ref().map_or(Ok(()), |job| self.check(job))?;
            Ok((value, now))
        };
        let why_late = "the job of the reshard could not be read in time";
        self.context.attempts(deadline).make(read, why_late).await
    }

    /// Refuses a job that contradicts itself: somebody has edited it.
    pub(crate) fn check(self, job: &Job) -> Result<(), StoreError> {
        let contradiction = job.check(self.context.settings().schema.sort_key_type);
        contradiction.map_err(|contradiction| StoreError::Corrupt(job.damaged(&contradiction)))
    }

    /// Changes a job from `seen` to `next`, whose `rev` is raised.
    pub(crate) async fn save_job(
        self,
        seen: &Job,
        mut next: Job,
        deadline: Deadline,
    ) -> Result<Job, StoreError> {
        next.rev = seen.rev + 1;
        let change = Change::of_job(&seen.partition, Some(seen), Some(next.clone()));
        self.commit(&[change], deadline).await.map(|_| next)
    }

    /// Has the stream call a rebalancer to the collection, by this lane.
    pub(crate) async fn call_lane(
        self,
        partition: &PartitionKey,
        lane: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let call = self.context.entropy().next_u64();
        self.repeat(&Change::of_lane(partition, lane, Some(call)), deadline).await
    }

    /// Removes the record by which a lane is called.
    pub(crate) async fn remove_lane(
        self,
        partition: &PartitionKey,
        lane: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.repeat(&Change::of_lane(partition, lane, None), deadline).await
    }

    /// Has a segment list these collections, beside those that it lists.
    pub(crate) async fn list_in(
        self,
        of: SegmentId,
        segment: Segment,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.repeat(&Change::of_segment(of, segment), deadline).await
    }

    /// Raises the counters of these groups, and returns DynamoDB's time when that was answered: `None` where the directory
    /// item lists collections itself. More often than once is the same.
    pub(crate) async fn raise(
        self,
        groups: &[Group],
        deadline: Deadline,
    ) -> Result<Option<ServerTime>, Error> {
        let raise = async || match self.context.raise(groups).await {
            Ok(Dated { server_secs, .. }) => Ok(Some(ServerTime(server_secs.ok_or_else(undated)?))),
            Err(StoreError::ConditionFailed { .. }) => Ok(None),
            // Whether it took effect matters to nobody.
            Err(StoreError::OutcomeUnknown(why)) => Err(StoreError::Unavailable(why)),
            Err(error) => Err(error),
        };
        self.context.attempts(deadline).make(raise, NOT_IN_TIME).await
    }

    /// Carries out changes of records, all or none.
    pub(crate) async fn commit(
        self,
        changes: &[Change],
        deadline: Deadline,
    ) -> Result<Dated<()>, StoreError> {
        let request = self.context.record_store().commit(changes);
        let answer = within(self.context.clock(), deadline, request).await;
        let why = "the change of the metadata was not answered in time";
        answer.unwrap_or_else(|| Err(StoreError::OutcomeUnknown(why.to_owned())))
    }

    /// Reads a record and changes it as `revision` says, again and again where others have changed it meanwhile, of which
    /// `contended` tells when the time is over, or where nobody knows what has become of the change.
    pub(crate) async fn revise<R: Stored, T>(
        self,
        of: &R::Of,
        revision: impl Fn(Option<R>) -> Result<Revision<T>, Error>,
        contended: &'static str,
        deadline: Deadline,
    ) -> Result<T, Error> {
        let mut attempts = self.context.attempts(deadline);
        loop {
            let read =
                attempts.make(|| self.context.record_store().get::<R>(of), NOT_IN_TIME).await?;
            let (change, told) = match revision(read.value)? {
                Revision::Keep(told) => return Ok(told),
                Revision::Commit(change, told) => (change, told),
            };
            match self.commit(&[*change], deadline).await {
                Ok(_) => return Ok(told),
                Err(StoreError::ConditionFailed { .. }) => {
                    attempts.pause(Error::new(Code::Contended, contended)).await?;
                }
                // The next read shows it.
                Err(StoreError::OutcomeUnknown(why)) => attempts.pause(Error::fault(why)).await?,
                Err(error) => attempts.pause(refusal(error)?).await?,
            }
        }
    }

    /// Reads a record once, or what stands for one that is not there.
    async fn read_once<R: Stored + Default>(
        self,
        of: &R::Of,
        deadline: Deadline,
    ) -> Result<R, Error> {
        let request = self.context.record_store().get::<R>(of);
        let read = once(self.context.clock(), deadline, request, NOT_IN_TIME).await?;
        Ok(read.value.unwrap_or_default())
    }

    /// Carries out a change that is sent again whatever became of it: once or twice is the same.
    async fn repeat(self, change: &Change, deadline: Deadline) -> Result<(), Error> {
        let request = async || {
            let answer = self.context.record_store().commit(std::slice::from_ref(change)).await;
            answer.map(|_| ()).map_err(|error| match error {
                StoreError::OutcomeUnknown(why) => StoreError::Unavailable(why),
                error => error,
            })
        };
        self.context.attempts(deadline).make(request, NOT_IN_TIME).await
    }
}
