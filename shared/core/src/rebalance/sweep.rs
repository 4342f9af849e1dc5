use dynashard_keys::PartitionKey;
use futures_util::stream::{self, StreamExt};

use crate::ports::{Clock, Entropy, ItemStore, MetadataStore};
use crate::rebalance::rebalancer::{RESERVE, Rebalancer, Slice};
use crate::{Deadline, Error};

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

/// How many collections one sweep works on at a time.
const COLLECTIONS_AT_ONCE: usize = 8;

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
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
}
