//! Calls for each collection whose change has come to a halt.

use async_lock::Semaphore;
use dynashard_keys::PartitionKey;
use futures_util::stream;
use futures_util::stream::StreamExt;

use crate::model::error::Error;
use crate::model::lease::Deadline;
use crate::ports::List;
use crate::usecases::rebalance::advance::Until;
use crate::usecases::rebalance::rebalancer::{RESERVE, Rebalancer, Slice};
use crate::usecases::rebalance::slice_state::Place;

/// What one sweep did.
#[derive(Debug)]
pub struct Sweep {
    /// What became of each collection that was begun with.
    pub collections: Vec<(PartitionKey, Slice)>,
    /// How many others there was no time to begin with.
    pub left: usize,
    /// The entries of the list that cannot be a collection's, each with its fault.
    pub damaged: Vec<String>,
    /// Why the list of collections could not be read to its end, if it could not.
    pub unlisted: Option<Error>,
}

/// How many collections one sweep works on at a time.
const COLLECTIONS_AT_ONCE: usize = 8;

/// How many collections one sweep has begun with at a time, those included whose changes wait for a time.
const BEGUN_AT_ONCE: usize = 256;

impl Rebalancer {
    /// Carries all running changes on, whatever the stream has said of them. A collection that cannot go
    /// on is passed over, and those for which the time is too short are left to the next sweep.
    ///
    /// Each listed collection has the same chance in each sweep, since their order is drawn: in that of
    /// the list the last ones would always be left.
    pub async fn sweep(&self, deadline: Deadline) -> Sweep {
        let Found { mut partitions, damaged, unlisted } = self.list(deadline).await;
        partitions.sort_by_cached_key(|_| self.directory.context().entropy().next_u64());
        let last_begin = deadline.earlier_by(RESERVE);
        let places = &Semaphore::new(COLLECTIONS_AT_ONCE);
        let advances = partitions.into_iter().map(|partition| async move {
            let place = Place::in_one_of(places).await;
            if last_begin.remaining(self.directory.now()).is_zero() {
                return None;
            }
            let slice = self.slice(&partition, 0, Until::Ended, Some(place), deadline).await;
            Some((partition, slice))
        });
        let side_by_side =
            stream::iter(advances.collect::<Vec<_>>()).buffer_unordered(BEGUN_AT_ONCE);
        let mut sweep = Sweep { collections: Vec::new(), left: 0, damaged, unlisted };
        for advanced in side_by_side.collect::<Vec<_>>().await {
            sweep.left += usize::from(advanced.is_none());
            sweep.collections.extend(advanced);
        }
        sweep
    }

    /// The collections in which a change seems to run: those that the index lists behind the position where
    /// the last list was cut off, or all.
    ///
    /// A list is cut off only where the index is throttled, or holds hundreds of thousands of changes. So
    /// the position is kept in memory, and a new environment begins at the start.
    async fn list(&self, deadline: Deadline) -> Found {
        // A page that does not come leaves the time for those that have come.
        let now = self.directory.now();
        let deadline = deadline.min(Deadline::after(now, deadline.remaining(now) / 4));
        let mut list = Found::default();
        let mut after = self.list_position.lock().take();
        loop {
            match self.directory.records().list(List::Resharding, after.as_deref(), deadline).await
            {
                Ok(page) => {
                    list.partitions.extend(page.entries.into_iter().map(|listed| listed.partition));
                    list.damaged.extend(page.damaged);
                    after = page.next;
                    if after.is_none() {
                        return list;
                    }
                }
                Err(error) => {
                    // A page that never comes must not keep the others from being listed.
                    *self.list_position.lock() = after.filter(|_| !list.partitions.is_empty());
                    return Found { unlisted: Some(error), ..list };
                }
            }
        }
    }
}

/// The collections that a sweep looks at.
#[derive(Default)]
struct Found {
    partitions: Vec<PartitionKey>,
    damaged: Vec<String>,
    unlisted: Option<Error>,
}
