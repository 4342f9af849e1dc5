use std::collections::VecDeque;

use dynashard_keys::{ShardId, SortKey};

use super::cursor::Position;
use super::{Abandon, Cost, Query};
use crate::directory::{Known, refusal};
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore, ShardPage, ShardQuery};
use crate::retry::{Attempts, within};
use crate::{Code, Deadline, Error, Generation, Reader, StoredItem};

/// One shard of a query: what was read of it and not yet returned, and where it goes on.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: ShardId,
    pub(super) buffer: VecDeque<(SortKey, StoredItem)>,
    pub(super) next: Position,
}

impl Lane {
    pub(super) fn new(shard: ShardId, next: Position) -> Self {
        Self { shard, buffer: VecDeque::new(), next }
    }

    /// Whether nothing can be said about the lane's next item without another request.
    pub(super) fn is_dry(&self) -> bool {
        self.buffer.is_empty() && self.next != Position::End
    }

    /// Whether everything of the lane was returned.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty() && self.next == Position::End
    }

    /// Takes in a page: what lives here stays, markers and misplaced items are passed over.
    pub(super) fn take(
        &mut self,
        page: ShardPage,
        query: &Query,
        known: &Known,
    ) -> Result<Cost, Abandon> {
        let cost = Cost { items_read: page.items_read, consumed_rcu: page.consumed_rcu };
        let Known { metadata, .. } = known;
        if page.items.iter().any(|(_, item)| ahead(item, metadata.generation)) {
            return Err(Abandon::Redo);
        }
        let shard = self.shard;
        let at_home = |sort: &SortKey| {
            let key = dynashard_keys::ItemKey::new(query.partition.clone(), sort.clone());
            metadata
                .placement
                .home(&key, metadata.number_of_shards)
                .is_none_or(|home| home == shard)
        };
        self.buffer
            .extend(page.items.into_iter().filter(|(sort, item)| item.is_live() && at_home(sort)));
        self.next = page.next.map_or(Position::End, Position::After);
        Ok(cost)
    }
}

fn ahead(item: &StoredItem, generation: Generation) -> bool {
    item.generation > generation
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// The next page of a lane. Refusals are retried until the deadline; then the error names the
    /// shard, for an answer without it would look whole.
    pub(crate) async fn lane_page(
        &self,
        query: &Query,
        shard: ShardId,
        next: &Position,
        limit: u32,
        deadline: Deadline,
    ) -> Result<ShardPage, Error> {
        let request = ShardQuery {
            partition: query.partition.at(shard, self.directory().settings().schema.separator),
            range: query.range.clone(),
            ascending: query.ascending,
            after: match next {
                Position::After(key) => Some(key.clone()),
                Position::Start | Position::End => None,
            },
            limit,
            consistency: query.consistency,
        };
        let named =
            |error: &Error| Error::new(error.code(), format!("shard {shard}: {}", error.message()));
        let mut attempts = Attempts::new(self.clock(), self.directory().entropy(), deadline);
        loop {
            match within(self.clock(), deadline, self.items().query(&request)).await {
                Some(Ok(page)) => return Ok(page),
                Some(Err(error)) => {
                    let refused = refusal(error).map_err(|e| named(&e))?;
                    attempts.pause(named(&refused)).await?;
                }
                None => {
                    let why = format!("shard {shard} did not answer in time");
                    return Err(Error::new(Code::DeadlineExceeded, why));
                }
            }
        }
    }
}
