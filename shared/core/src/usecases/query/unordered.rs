//! A page without an order over all shards, by the three other strategies.

use std::collections::HashSet;

use dynashard_keys::SortKey;

use crate::model::error::{Code, Error};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::FAN_OUT;
use crate::usecases::query::cursor::{Cursor, Position};
use crate::usecases::query::lanes::{Ask, Buffered, Lane, read_lanes};
use crate::usecases::query::page::{Page, PageRead, QueryPage};
use crate::usecases::query::strategy::Strategy;
use crate::usecases::query::{Abandon, MAX_OPEN_SHARDS};

/// The lanes of an unordered query, each at its position, and whose turn it is.
struct Lanes {
    lanes: Vec<Lane>,
    turn: usize,
}

impl Lanes {
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
            return Err(crate::usecases::query::expired());
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
        open.into_iter().map(|lane| self.lanes[lane].ask(lane, share)).collect()
    }

    /// Moves what was read into the page, and says whether all of it fitted. What did not is read
    /// again by the next page.
    fn collect(&mut self, asks: &[Ask], page: &mut Page<'_>, seen: &mut Seen) -> bool {
        let mut fitted = true;
        for Ask { lane, from, .. } in asks {
            let lane = &mut self.lanes[*lane];
            let mut returned = from.clone();
            while let Some(Buffered { key, bytes, item }) = lane.buffer.pop_front() {
                if !seen.contains(&key) {
                    let Some(item) = item.filter(|_| page.admits(bytes)) else {
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

/// Reads shards without an order between them, as the strategy says. In a random collection a
/// repeated sort key is dropped within the page only.
///
/// What was read is moved into the page, or dropped, before more is asked for, so no more than
/// [`FAN_OUT`] answers are held beside it.
pub(super) async fn unordered_page(
    directory: &Directory,
    mut reading: PageRead<'_>,
    cursor: Option<&Cursor>,
) -> Result<QueryPage, Abandon> {
    let strategy = reading.query.strategy;
    let mut lanes = Lanes::open(cursor, &reading.known)?;
    let mut seen = Seen::new();
    let mut has_moved = false;
    loop {
        let asks = lanes.plan(strategy, reading.page.room());
        if asks.is_empty() || is_enough(strategy, &reading.page) {
            break;
        }
        let take = |ask: &Ask, shard_page, reading: &PageRead<'_>| {
            let lane = &mut lanes.lanes[ask.lane];
            lane.take(shard_page, ask.limit, &reading.known, reading.page.budget())?;
            Ok(())
        };
        let missing = read_lanes(directory, &asks, &mut reading, take).await?;
        let fitted = lanes.collect(&asks, &mut reading.page, &mut seen);
        let moved = asks.iter().any(|ask| lanes.lanes[ask.lane].next != ask.from);
        has_moved |= moved;
        if let (Strategy::RoundRobin, [ask], true) = (strategy, asks.as_slice(), moved) {
            lanes.turn = (ask.lane + 1) % lanes.lanes.len();
        }
        match missing {
            // What did come is whole, and the cursor says where each shard goes on.
            Some(_) if has_moved => break,
            Some(error) => return Err(error.into()),
            None if !fitted => break,
            None => {}
        }
    }
    let cursor = lanes.cursor(&reading.known);
    Ok(reading.finish(cursor))
}
