//! The rebalancer, and what one call of it did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId, SortKey};
use parking_lot::Mutex;

use crate::decide::pace::Paces;
use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::reshard::{Job, Progress, ServerTime};
use crate::ports::StoreError;
use crate::usecases::directory::Directory;
use crate::usecases::rebalance::budget::Budget;

/// Carries running changes of shard counts to their end, and moves items for them.
///
/// What starts it is a hint: metadata and job are always read again, so a record of the stream may
/// repeat, come late or be lost, and two rebalancers may work on one collection.
pub struct Rebalancer {
    pub(super) directory: Directory,
    /// What the last calls have spent, for the next ones: by the collection.
    paces: Mutex<BTreeMap<PartitionKey, Paces>>,
    /// Where the list of a sweep was cut off: the key behind which the next one begins.
    pub(super) list_position: Mutex<Option<String>>,
    pub(super) budget: Budget,
}

/// What one call did for a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// How it ended.
    pub advance: Result<Advance, Error>,
    /// How far it has brought the change that it found.
    pub reshard: Option<ReshardSlice>,
}

/// How far a change is after one call, as it saw it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReshardSlice {
    /// Items that this call has moved.
    pub items_moved: u64,
    /// For how many seconds it has been running, or, once it has closed, been cleared up.
    pub age_secs: u64,
    /// How far it is, while items are moved in it.
    pub progress: Option<Progress>,
    /// The items that cannot be moved, as the job has them ([`Job::unmovable`]).
    pub unmovable: BTreeMap<(ShardId, SortKey), String>,
}

/// What became of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// There is nothing to do, or nothing more.
    Nothing,
    /// This rebalancer made the last step of a change: nothing is left to do. Of all that work on
    /// one, a single one is told so at most.
    Finished(CollectionMetadata),
    /// The time of this slice is over, and a note in the job, or in the item of its lane, asks for the next one.
    Yielded {
        /// What could not be done in it. The next one comes across it again.
        failed: Option<Error>,
    },
    /// There is nothing to do before DynamoDB's clock shows this epoch second.
    Waiting {
        /// Epoch seconds.
        until_secs: u64,
    },
    /// Another rebalancer is at work on the collection.
    Elsewhere,
}

/// What a slice keeps of its time for its last requests: without the note that it is over, the next
/// one would not come.
pub(super) const RESERVE: Duration = Duration::from_secs(2);

/// For how long a pace is kept that nobody uses: a debt is paid by then.
const LONGEST_IDLE: Duration = Duration::from_mins(30);

impl Rebalancer {
    /// A rebalancer over these stores.
    pub fn new(directory: Directory) -> Self {
        let paces = Mutex::new(BTreeMap::new());
        Self { directory, paces, list_position: Mutex::new(None), budget: Budget::default() }
    }

    /// What the rebalancer knows about collections.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Takes up the pace at which this environment went through a collection last, if no other call has.
    pub(super) fn take_paces(&self, partition: &PartitionKey) -> Paces {
        let paces = self.paces.lock().remove(partition);
        paces.unwrap_or_else(|| Paces::new(self.directory.now().boot))
    }

    /// Keeps it for the next call.
    pub(super) fn keep_paces(&self, partition: &PartitionKey, paces: Paces) {
        let now = self.directory.now().boot;
        let mut all = self.paces.lock();
        all.retain(|_, paces| paces.idle_for(now) < LONGEST_IDLE);
        all.extend(paces.kept().map(|paces| (partition.clone(), paces)));
    }
}

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// It was done.
    Done,
    /// It was done, and it was the last one: this is what the change has left.
    Finished(Arc<CollectionMetadata>),
    /// Something has changed, or nothing is known of it: look again.
    Retry,
    /// Another rebalancer was faster.
    Lost,
    /// The time did not suffice.
    OutOfTime,
    /// Nothing may happen before this time, and the slice does not last that long.
    WaitsUntil(ServerTime),
}

/// Writes into the job what was found out or done.
pub(super) async fn save_job(
    directory: &Directory,
    seen: &Job,
    next: Job,
    deadline: Deadline,
) -> Result<StepOutcome, Error> {
    let next = Job { yielded: false, ..next };
    match directory.records().save_job(seen, next, deadline).await {
        Ok(_) => Ok(StepOutcome::Done),
        Err(error) => of_conditional(error),
    }
}

/// What the failure of a conditional change of metadata or job means.
pub(super) fn of_conditional(error: StoreError) -> Result<StepOutcome, Error> {
    match error {
        StoreError::ConditionFailed { .. } | StoreError::Conflict => Ok(StepOutcome::Lost),
        // After a pause it is found out: a table that fails may do so at once.
        StoreError::OutcomeUnknown(why) => Err(Error::new(Code::Unavailable, why)),
        error => Err(error.into()),
    }
}
