use std::collections::HashSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::cursor::{Cursor, Position};
use super::lanes::Lane;
use super::{Abandon, Cost, FAN_OUT, Page, PageBudget, Query, QueryPage};
use crate::directory::Known;
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore};
use crate::{Code, Deadline, Error, Reader};

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads all shards side by side. Items are in order within a shard and not between shards. In
    /// a random collection a repeated sort key is dropped within the page only.
    pub(super) async fn parallel_page(
        &self,
        query: &Query,
        cursor: Option<&Cursor>,
        mut known: Known,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Abandon> {
        let mut lanes = open(cursor, &known)?;
        let mut page = Page::new(query.limit, budget);
        let mut cost = Cost::default();
        let mut seen = HashSet::new();

        while page.items.is_empty() && !lanes.iter().all(Lane::is_done) {
            // A lane without a share of the page would be read in vain.
            let asked = (0..lanes.len()).filter(|at| !lanes[*at].is_done()).take(page.limit);
            let asked = asked.collect::<Vec<_>>();
            let share = u32::try_from(page.limit / asked.len().max(1)).unwrap_or(u32::MAX);
            let requests = asked.into_iter().map(|at| {
                let Lane { shard, next, .. } = &lanes[at];
                async move {
                    let page = self.lane_page(query, *shard, next, share, deadline).await?;
                    Ok::<_, Abandon>((at, page, self.clock().now()))
                }
            });
            let requests = requests.collect::<Vec<_>>();
            let pages = stream::iter(requests).buffered(FAN_OUT).try_collect::<Vec<_>>().await?;
            // What was answered after the lease is thrown away, and read again by the next page.
            let (in_lease, overdue) = pages
                .into_iter()
                .partition::<Vec<_>, _>(|(_, _, answered)| known.lease.is_live(*answered));
            if !overdue.is_empty() {
                known = self.renewed(&known, deadline).await?;
            }
            for (at, shard_page, _) in in_lease {
                let lane = &mut lanes[at];
                let mut resume = lane.next.clone();
                let read = lane.take(shard_page, query, &known)?;
                cost.items_read += read.items_read;
                cost.consumed_rcu += read.consumed_rcu;
                while let Some((key, item)) = lane.buffer.pop_front() {
                    if !page.admits(&key, &item) {
                        // What no longer fits is read again by the next page.
                        lane.buffer.clear();
                        lane.next = resume;
                        break;
                    }
                    resume = Position::After(key.clone());
                    if seen.insert(key.clone()) {
                        page.push(key, item);
                    }
                }
            }
        }

        let more = !lanes.iter().all(Lane::is_done);
        let positions = lanes.into_iter().map(|lane| lane.next).collect();
        let generation = known.metadata.generation;
        let cursor = more.then(|| Cursor::Positions { generation, positions }.encode(query));
        Ok(QueryPage {
            items: page.items,
            cursor,
            shards: known.metadata.layout().readable,
            items_read: cost.items_read,
            consumed_rcu: cost.consumed_rcu,
        })
    }
}

/// The lanes as the page before left them.
fn open(cursor: Option<&Cursor>, known: &Known) -> Result<Vec<Lane>, Error> {
    let metadata = &known.metadata;
    let shards = metadata.placement.shards(known.metadata.layout().readable);
    let (generation, positions) = match cursor {
        None => return Ok(shards.map(|shard| Lane::new(shard, Position::Start)).collect()),
        // The page before was read while a reshard moved items, and so in order.
        Some(Cursor::Watermark(key)) => {
            return Ok(shards
                .map(|shard| Lane::new(shard, Position::After(key.clone())))
                .collect());
        }
        Some(Cursor::Positions { generation, positions }) => (generation, positions),
    };
    if *generation != metadata.generation {
        return Err(super::expired());
    }
    if positions.len() != shards.len() {
        return Err(Error::new(Code::BadCursor, "the cursor is damaged"));
    }
    Ok(shards.zip(positions).map(|(shard, position)| Lane::new(shard, position.clone())).collect())
}
