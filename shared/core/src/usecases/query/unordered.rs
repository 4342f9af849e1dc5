//! A page without an order over all shards, by the three other strategies.

use std::collections::HashSet;

use dynashard_keys::SortKey;

use crate::model::error::{Code, Error};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::FAN_OUT;
use crate::usecases::query::cursor::{Cursor, Position};
use crate::usecases::query::feeds::{Ask, Buffered, Feed, read_feeds};
use crate::usecases::query::page::{Page, PageRead};
use crate::usecases::query::strategy::Strategy;
use crate::usecases::query::{MAX_OPEN_SHARDS, NoPage};

/// The feeds of an unordered query, each at its position, and whose turn it is.
struct Feeds {
    feeds: Vec<Feed>,
    turn: usize,
}

impl Feeds {
    /// As the page before left it.
    fn open(cursor: Option<&Cursor>, known: &Known) -> Result<Self, Error> {
        let metadata = &known.metadata;
        let shards = metadata.placement.shards(metadata.layout().readable);
        let all_at = |position: &Position| {
            let feeds = shards.clone().map(|shard| Feed::new(shard, position.clone()));
            Ok(Self { feeds: feeds.collect(), turn: 0 })
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
        let feeds = shards.zip(positions).map(|(shard, next)| Feed::new(shard, next.clone()));
        Ok(Self { feeds: feeds.collect(), turn })
    }

    fn is_done(&self) -> bool {
        self.feeds.iter().all(Feed::is_done)
    }

    fn cursor(self, known: &Known) -> Option<Cursor> {
        let generation = known.metadata.generation;
        let more = !self.is_done();
        let positions = self.feeds.into_iter().map(|feed| feed.next).collect();
        more.then_some(Cursor::Positions { generation, turn: self.turn, positions })
    }

    /// Which feeds to read on in, and how far, if `room` more items are wanted. None only if all have
    /// ended.
    fn plan(&self, strategy: Strategy, room: usize) -> Vec<Ask> {
        let unfinished = (0..self.feeds.len()).filter(|at| !self.feeds[*at].is_done());
        let mut open = unfinished.take(MAX_OPEN_SHARDS).collect::<Vec<_>>();
        match strategy {
            // A feed without a share of the page would be read in vain.
            Strategy::Parallel => open.truncate(FAN_OUT.min(room.max(1))),
            Strategy::RoundRobin => {
                let next = open.iter().position(|at| *at >= self.turn).unwrap_or(0);
                open.drain(..next.min(open.len()));
                open.truncate(1);
            }
            Strategy::Sequential | Strategy::Ordered => open.truncate(1),
        }
        let share = room / open.len().max(1);
        open.into_iter().map(|feed| self.feeds[feed].ask(feed, share)).collect()
    }

    /// Moves what was read into the page, and says whether all of it fitted. What did not is read
    /// again by the next page.
    fn collect(&mut self, asks: &[Ask], page: &mut Page<'_>, seen: &mut Returned) -> bool {
        let mut fitted = true;
        for Ask { feed, from, .. } in asks {
            let feed = &mut self.feeds[*feed];
            let mut returned = from.clone();
            while let Some(Buffered { key, bytes, item }) = feed.buffer.pop_front() {
                if !seen.contains(&key) {
                    let Some(item) = item.filter(|_| page.admits(bytes)) else {
                        feed.buffer.clear();
                        feed.next = returned;
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
type Returned = HashSet<SortKey>;

/// Reads shards without an order between them, as the strategy says. In a random collection a
/// repeated sort key is dropped within the page only.
///
/// What was read is moved into the page, or dropped, before more is asked for, so no more than
/// [`FAN_OUT`] answers are held beside it.
pub(super) async fn unordered_page(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    cursor: Option<&Cursor>,
) -> Result<Option<Cursor>, NoPage> {
    let strategy = reading.query.strategy;
    let mut feeds = Feeds::open(cursor, &reading.known)?;
    let mut seen = Returned::new();
    let mut has_moved = false;
    loop {
        let asks = feeds.plan(strategy, reading.page.room());
        if asks.is_empty() || is_enough(strategy, &reading.page) {
            break;
        }
        let take = |ask: &Ask, shard_page, reading: &PageRead<'_>| {
            let feed = &mut feeds.feeds[ask.feed];
            feed.take(shard_page, ask.limit, &reading.known, reading.page.budget())?;
            Ok(())
        };
        let missing = read_feeds(directory, &asks, reading, take).await?;
        let fitted = feeds.collect(&asks, &mut reading.page, &mut seen);
        let moved = asks.iter().any(|ask| feeds.feeds[ask.feed].next != ask.from);
        has_moved |= moved;
        if let (Strategy::RoundRobin, [ask], true) = (strategy, asks.as_slice(), moved) {
            feeds.turn = (ask.feed + 1) % feeds.feeds.len();
        }
        match missing {
            // What did come is whole, and the cursor says where each shard goes on.
            Some(_) if has_moved => break,
            Some(error) => return Err(error.into()),
            None if !fitted => break,
            None => {}
        }
    }
    Ok(feeds.cursor(&reading.known))
}
