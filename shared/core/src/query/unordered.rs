use std::collections::HashSet;

use dynashard_keys::SortKey;

use super::cursor::{Cursor, Position};
use super::lanes::{Ask, Lane};
use super::page::{Page, PageBudget, QueryPage};
use super::{Abandon, MAX_OPEN_SHARDS, Query, Strategy};
use crate::directory::Known;
use crate::fan_out::FAN_OUT;
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore};
use crate::{Code, Deadline, Error, Reader};

/// Where an unordered query stands: a position in each shard, and whose turn it is.
struct Stand {
    lanes: Vec<Lane>,
    turn: usize,
}

impl Stand {
    /// As the page before left it.
    fn open(cursor: Option<&Cursor>, known: &Known) -> Result<Self, Error> {
        let metadata = &known.metadata;
        let shards = metadata.placement.shards(metadata.layout().readable);
        let all_at = |position: &Position| {
            let lanes = shards.clone().map(|shard| Lane::new(shard, position.clone()));
            Ok(Self { lanes: lanes.collect(), turn: 0 })
        };
        let (generation, turn, positions) = match cursor {
            None => return all_at(&Position::Start),
            // The page before was read while a reshard moved items, and so in order.
            Some(Cursor::Watermark(key)) => return all_at(&Position::After(key.clone())),
            Some(Cursor::Positions { generation, turn, positions }) => {
                (*generation, *turn, positions)
            }
        };
        if generation != metadata.generation {
            return Err(super::expired());
        }
        if positions.len() != shards.len() {
            return Err(Error::new(Code::BadCursor, "the cursor is damaged"));
        }
        let lanes = shards.zip(positions).map(|(shard, next)| Lane::new(shard, next.clone()));
        Ok(Self { lanes: lanes.collect(), turn })
    }

    fn is_done(&self) -> bool {
        self.lanes.iter().all(Lane::is_done)
    }

    fn cursor(self, known: &Known) -> Option<Cursor> {
        let generation = known.metadata.generation;
        let more = !self.is_done();
        let positions = self.lanes.into_iter().map(|lane| lane.next).collect();
        more.then_some(Cursor::Positions { generation, turn: self.turn, positions })
    }

    /// Which lanes to read on in, and how far, if `room` more items are wanted. None only if all have
    /// ended.
    fn plan(&self, strategy: Strategy, room: usize) -> Vec<Ask> {
        let unfinished = (0..self.lanes.len()).filter(|at| !self.lanes[*at].is_done());
        let mut open = unfinished.take(MAX_OPEN_SHARDS).collect::<Vec<_>>();
        match strategy {
            // A lane without a share of the page would be read in vain.
            Strategy::Parallel => open.truncate(FAN_OUT.min(room.max(1))),
            Strategy::RoundRobin => {
                let next = open.iter().position(|at| *at >= self.turn).unwrap_or(0);
                open.drain(..next.min(open.len()));
                open.truncate(1);
            }
            Strategy::Sequential | Strategy::Ordered => open.truncate(1),
        }
        let share = room / open.len().max(1);
        let ask = |lane| Ask { lane, limit: self.lanes[lane].limit(share) };
        open.into_iter().map(ask).collect()
    }

    /// Moves what was read into the page, and says whether all of it fitted. What did not is read
    /// again by the next page.
    fn collect(
        &mut self,
        asks: &[Ask],
        before: &[Position],
        page: &mut Page<'_>,
        seen: &mut Seen,
    ) -> bool {
        let mut fitted = true;
        for (Ask { lane, .. }, before) in asks.iter().zip(before) {
            let lane = &mut self.lanes[*lane];
            let mut returned = before.clone();
            while let Some((key, item)) = lane.buffer.pop_front() {
                if !seen.contains(&key) {
                    let Some(bytes) = page.admits(&key, &item) else {
                        lane.buffer.clear();
                        lane.next = returned;
                        fitted = false;
                        break;
                    };
                    seen.insert(key.clone());
                    page.push(key.clone(), item, bytes);
                }
                returned = Position::After(key);
            }
        }
        fitted
    }
}

/// Whether a page is worth no further request. Side by side, the last items of a page would cost as
/// many requests as the first ones.
fn is_enough(strategy: Strategy, page: &Page<'_>) -> bool {
    match strategy {
        Strategy::Parallel => page.is_half_full(),
        Strategy::Ordered | Strategy::RoundRobin | Strategy::Sequential => page.is_full(),
    }
}

/// The sort keys of a page. A random collection may hold one in several shards.
type Seen = HashSet<SortKey>;

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads shards without an order between them, as the strategy says. In a random collection a
    /// repeated sort key is dropped within the page only.
    pub(super) async fn unordered_page(
        &self,
        query: &Query,
        cursor: Option<&Cursor>,
        mut known: Known,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Abandon> {
        let mut stand = Stand::open(cursor, &known)?;
        let mut page = Page::new(query.limit, budget);
        let mut seen = Seen::new();
        let mut has_moved = false;
        loop {
            let asks = stand.plan(query.strategy, page.room());
            if asks.is_empty() || is_enough(query.strategy, &page) {
                break;
            }
            let before = asks.iter().map(|ask| stand.lanes[ask.lane].next.clone());
            let before = before.collect::<Vec<_>>();
            let lanes = &mut stand.lanes;
            let missing =
                self.read_lanes(lanes, &asks, query, &mut known, &mut page, deadline).await?;
            let fitted = stand.collect(&asks, &before, &mut page, &mut seen);
            let positions = asks.iter().map(|ask| &stand.lanes[ask.lane].next);
            let moved = positions.zip(&before).any(|(now, before)| now != before);
            has_moved |= moved;
            if let (Strategy::RoundRobin, [ask], true) = (query.strategy, asks.as_slice(), moved) {
                stand.turn = (ask.lane + 1) % stand.lanes.len();
            }
            match missing {
                // What did come is whole, and the cursor says where each shard goes on.
                Some(_) if has_moved => break,
                Some(error) => return Err(error.into()),
                None if !fitted => break,
                None => {}
            }
        }
        let shards = known.metadata.layout().readable;
        Ok(page.finish(stand.cursor(&known), query, shards))
    }
}
