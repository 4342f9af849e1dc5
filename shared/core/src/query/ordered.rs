use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dynashard_keys::SortKey;

use super::cursor::{Cursor, Position};
use super::lanes::{Ask, Lane};
use super::page::{Page, PageBudget, QueryPage};
use super::{Abandon, Query};
use crate::directory::Known;
use crate::ports::{Clock, Entropy, ItemStore, MetadataStore};
use crate::{Deadline, Error, Reader};

/// How many items to ask each of `lanes` shards for, to merge a page of `wanted`.
///
/// A shard holds its share of the page, give or take its statistical spread: two standard
/// deviations above the mean seldom run dry, and little is read in vain.
pub(super) fn lane_limit(wanted: usize, lanes: usize) -> usize {
    with_spread(integral(wanted) / integral(lanes.max(1)), wanted)
}

/// The mean and two deviations, from 1 to `most`.
fn with_spread(mean: f64, most: usize) -> usize {
    let limit = (mean + 2.0 * mean.sqrt()).ceil().clamp(1.0, integral(most.max(1)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let limit = limit as usize;
    limit
}

fn integral(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The head of a lane, ordered so that a [`BinaryHeap`] gives the next item of the query first.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    key: SortKey,
    lane: usize,
    ascending: bool,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        let by_key = if self.ascending { by_key.reverse() } else { by_key };
        // Repetitions in a random collection come from the lowest shard, on every page.
        by_key.then_with(|| other.lane.cmp(&self.lane))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lanes of an ordered page, and how far they are merged.
struct Merge {
    lanes: Vec<Lane>,
    /// The items that each lane brought into the page.
    brought: Vec<usize>,
    ascending: bool,
    /// Everything up to here was returned, or is none of the query's items.
    watermark: Option<SortKey>,
}

impl Merge {
    /// All shards, from behind the last page.
    fn open(cursor: Option<&Cursor>, known: &Known, ascending: bool) -> Self {
        let watermark = match cursor {
            Some(Cursor::Watermark(key)) => Some(key.clone()),
            Some(Cursor::Positions { .. }) | None => None,
        };
        let start = watermark.clone().map_or(Position::Start, Position::After);
        let shards = known.metadata.placement.shards(known.metadata.layout().readable);
        let lanes = shards.map(|shard| Lane::new(shard, start.clone())).collect::<Vec<_>>();
        Self { brought: vec![0; lanes.len()], lanes, ascending, watermark }
    }

    fn is_done(&self) -> bool {
        self.lanes.iter().all(Lane::is_done)
    }

    /// Which lanes must be read on in before the next item is known, and how far.
    ///
    /// At first each lane is asked for its share of the page. One that runs dry is asked for the part
    /// of the rest that it was of the page so far: much if the others have ended or lie elsewhere,
    /// little if it ran dry by chance. But it is asked for no more than twice as many as before, so
    /// that where a run of neighbours ends, little was read in vain.
    fn plan(&self, page: &Page<'_>) -> Vec<Ask> {
        let room = page.room();
        let dry = (0..self.lanes.len()).filter(|at| self.lanes[*at].is_dry());
        let ask = |at: usize| {
            let wanted = match self.brought[at] {
                0 => lane_limit(room, self.lanes.len()),
                brought => {
                    let share = integral(room) * integral(brought) / integral(page.len());
                    let asked = usize::try_from(self.lanes[at].asked.unwrap_or(0)).unwrap_or(room);
                    with_spread(share, room).min(2 * asked.max(1))
                }
            };
            Ask { lane: at, limit: self.lanes[at].limit(wanted) }
        };
        dry.map(ask).collect()
    }

    /// Moves items from the lanes into the page, in order, until the page is full (`true`) or no lane
    /// can be said to be next (`false`).
    ///
    /// A dry lane was read up to its position, so whatever lies before that of every dry lane is
    /// next. What has no position yet holds everything up.
    fn merge(&mut self, page: &mut Page<'_>) -> bool {
        let mut heads =
            (0..self.lanes.len()).filter_map(|lane| self.head(lane)).collect::<BinaryHeap<_>>();
        let mut frontier = Frontier::All;
        for lane in &self.lanes {
            frontier.include(lane, self.ascending);
        }
        while let Some(Head { key, lane, .. }) = heads.pop() {
            if !frontier.covers(&key, self.ascending) {
                break;
            }
            let buffer = &mut self.lanes[lane].buffer;
            if self.watermark.as_ref() == Some(&key) {
                // A repetition in a random collection.
                buffer.pop_front();
            } else {
                let bytes = buffer.front().and_then(|(key, item)| page.admits(key, item));
                let Some(bytes) = bytes else { return true };
                if let Some((key, item)) = buffer.pop_front() {
                    page.push(key, item, bytes);
                }
                self.brought[lane] += 1;
                self.watermark = Some(key);
            }
            frontier.include(&self.lanes[lane], self.ascending);
            heads.extend(self.head(lane));
        }
        if let Frontier::Up(key) = frontier {
            self.raise(key);
        }
        page.is_full()
    }

    fn head(&self, lane: usize) -> Option<Head> {
        let (key, _) = self.lanes[lane].buffer.front()?;
        Some(Head { key: key.clone(), lane, ascending: self.ascending })
    }

    /// Everything up to `key` is merged.
    fn raise(&mut self, key: SortKey) {
        let is_further = self.watermark.as_ref().is_none_or(|watermark| {
            if self.ascending { key > *watermark } else { key < *watermark }
        });
        if is_further {
            self.watermark = Some(key);
        }
    }
}

/// How far all lanes are known.
enum Frontier {
    /// To their ends, or to items that wait in their buffers.
    All,
    /// Up to this sort key.
    Up(SortKey),
    /// Not at all: a lane was not read yet.
    Nothing,
}

impl Frontier {
    fn include(&mut self, lane: &Lane, ascending: bool) {
        if !lane.is_dry() {
            return;
        }
        let Position::After(key) = &lane.next else {
            *self = Self::Nothing;
            return;
        };
        let is_nearer = match self {
            Self::All => true,
            Self::Up(other) if ascending => key < other,
            Self::Up(other) => key > other,
            Self::Nothing => false,
        };
        if is_nearer {
            *self = Self::Up(key.clone());
        }
    }

    fn covers(&self, key: &SortKey, ascending: bool) -> bool {
        match self {
            Self::All => true,
            Self::Up(frontier) if ascending => key <= frontier,
            Self::Up(frontier) => key >= frontier,
            Self::Nothing => false,
        }
    }
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Merges all shards. An item is returned once every shard's next item is known, so what was
    /// returned is exactly what a single shard would have returned, however the shards' pages fall.
    pub(super) async fn ordered_page(
        &self,
        query: &Query,
        cursor: Option<&Cursor>,
        mut known: Known,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Abandon> {
        let mut merge = Merge::open(cursor, &known, query.ascending);
        let start = merge.watermark.clone();
        let mut page = Page::new(query.limit, budget);
        let mut missing = None::<Error>;
        loop {
            if merge.merge(&mut page) || merge.is_done() {
                break;
            }
            match missing {
                // What was merged so far is exact; the rest is for another page.
                Some(_) if merge.watermark != start => break,
                Some(error) => return Err(error.into()),
                None => {}
            }
            let asks = merge.plan(&page);
            let lanes = &mut merge.lanes;
            missing = self.read_lanes(lanes, &asks, query, &mut known, &mut page, deadline).await?;
        }
        let more = !merge.is_done();
        let cursor = merge.watermark.filter(|_| more).map(Cursor::Watermark);
        Ok(page.finish(cursor, query, known.metadata.layout().readable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_asked_for_its_share_and_two_deviations() {
        assert_eq!(lane_limit(100, 1), 100);
        assert_eq!(lane_limit(100, 16), 12); // 6.25 + 2 * 2.5 = 11.25
        assert_eq!(lane_limit(1_000, 16), 79);
        assert_eq!(lane_limit(1, 256), 1);
        assert_eq!(lane_limit(0, 16), 1);
    }
}
