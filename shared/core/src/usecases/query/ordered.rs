//! A page in the order of the sort keys: a merge of all shards.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dynashard_keys::SortKey;

use crate::model::error::Error;
use crate::ports::ShardPage;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::query::NoPage;
use crate::usecases::query::cursor::{Cursor, Position};
use crate::usecases::query::feeds::{Ask, Buffered, Feed, read_feeds};
use crate::usecases::query::page::{Page, PageRead};

/// How many items to ask each of `feeds` shards for, to merge a page of `wanted`.
///
/// A shard holds its share of the page, give or take its statistical spread: two standard
/// deviations above the mean seldom run dry, and little is read in vain.
pub(crate) fn feed_limit(wanted: usize, feeds: usize) -> usize {
    feed_limit_within(SELDOM_DRY, wanted, feeds)
}

/// How many items to ask for, with so many deviations above the mean.
pub(super) fn feed_limit_within(deviations: f64, wanted: usize, feeds: usize) -> usize {
    within(deviations, integral(wanted) / integral(feeds.max(1)), wanted)
}

/// How many deviations above its mean a shard is asked for.
pub(super) const SELDOM_DRY: f64 = 2.0;

/// As [`feed_limit`], of a shard that has `part` of `all` items: from 1 to `most`.
pub(crate) fn limit_by_share(wanted: usize, (part, all): (usize, usize), most: usize) -> usize {
    within(SELDOM_DRY, integral(wanted) * integral(part) / integral(all.max(1)), most)
}

fn within(deviations: f64, mean: f64, most: usize) -> usize {
    let limit = (mean + deviations * mean.sqrt()).ceil().clamp(1.0, integral(most.max(1)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let limit = limit as usize;
    limit
}

fn integral(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The head of a feed, ordered so that a [`BinaryHeap`] gives the next item of the query first.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    key: SortKey,
    feed: usize,
    ascending: bool,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        let by_key = if self.ascending { by_key.reverse() } else { by_key };
        // Repetitions in a random collection come from the lowest shard, on every page.
        by_key.then_with(|| other.feed.cmp(&self.feed))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The feeds of an ordered page, and how far they are merged.
struct Merge {
    feeds: Vec<Feed>,
    /// The items that each feed brought into the page.
    brought: Vec<usize>,
    ascending: bool,
    /// Everything up to here was returned, or does not belong to the query.
    watermark: Option<SortKey>,
    /// What all feeds hold, in bytes of a page's body.
    held: usize,
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
        let feeds = shards.map(|shard| Feed::new(shard, start.clone())).collect::<Vec<_>>();
        Self { brought: vec![0; feeds.len()], feeds, ascending, watermark, held: 0 }
    }

    fn is_done(&self) -> bool {
        self.feeds.iter().all(Feed::is_done)
    }

    /// Which feeds must be read on in before the next item is known, and how far.
    ///
    /// At first each feed is asked for its share of the page. One that runs dry is asked for the part
    /// of the rest that it was of the page so far: much if the others have ended or lie elsewhere,
    /// little if it ran dry by chance. But it is asked for no more than twice as many as before, so
    /// that where a run of neighbours ends, little was read in vain.
    fn plan(&self, page: &Page<'_>) -> Vec<Ask> {
        let room = page.room();
        let dry = (0..self.feeds.len()).filter(|at| self.feeds[*at].is_dry());
        let ask = |at: usize| {
            let wanted = match self.brought[at] {
                0 => feed_limit(room, self.feeds.len()),
                brought => {
                    let asked = usize::try_from(self.feeds[at].asked.unwrap_or(0)).unwrap_or(room);
                    limit_by_share(room, (brought, page.len()), room).min(2 * asked.max(1))
                }
            };
            self.feeds[at].ask(at, wanted)
        };
        dry.map(ask).collect()
    }

    /// Moves items from the feeds into the page, in order, until the page is full (`true`) or no feed
    /// can be said to be next (`false`).
    ///
    /// A dry feed was read up to its position, so whatever lies before that of every dry feed is
    /// next. What has no position yet holds everything up.
    fn merge(&mut self, page: &mut Page<'_>) -> bool {
        let mut heads =
            (0..self.feeds.len()).filter_map(|feed| self.head(feed)).collect::<BinaryHeap<_>>();
        let mut frontier = Frontier::All;
        for feed in &self.feeds {
            frontier.include(feed, self.ascending);
        }
        while let Some(Head { key, feed, .. }) = heads.pop() {
            if !frontier.covers(&key, self.ascending) {
                break;
            }
            let buffer = &mut self.feeds[feed].buffer;
            // Of a sort key that is repeated in a random collection the first copy counts.
            let repeats = self.watermark.as_ref() == Some(&key);
            let is_next = |next: &Buffered| next.item.is_some() && page.admits(next.bytes);
            if !repeats && !buffer.front().is_some_and(is_next) {
                return true;
            }
            if let Some(Buffered { item: Some(item), bytes, .. }) = buffer.pop_front() {
                self.held -= bytes;
                if !repeats {
                    page.push(key.clone(), item, bytes);
                    self.brought[feed] += 1;
                    self.watermark = Some(key);
                }
            }
            frontier.include(&self.feeds[feed], self.ascending);
            heads.extend(self.head(feed));
        }
        if let Frontier::Up(key) = frontier {
            self.raise(key);
        }
        page.is_full()
    }

    fn head(&self, feed: usize) -> Option<Head> {
        let Buffered { key, .. } = self.feeds[feed].buffer.front()?;
        Some(Head { key: key.clone(), feed, ascending: self.ascending })
    }

    /// Takes in a page of a feed. Of all that the feeds hold, what cannot be in this page of the query
    /// is dropped when it is more than two such pages may take.
    fn take(
        &mut self,
        ask: &Ask,
        shard_page: ShardPage,
        known: &Known,
        page: &Page<'_>,
    ) -> Result<(), NoPage> {
        let budget = page.budget();
        self.held += self.feeds[ask.feed].take(shard_page, ask.limit, known, budget)?;
        if self.held > budget.max_bytes.saturating_mul(2) {
            self.drop_surplus(page);
        }
        Ok(())
    }

    /// Drops the items before which there is more than fits the page, and repetitions. Their keys
    /// stay, so that the merge, its requests and its cursor are the same as if nothing was dropped:
    /// the page is full before it comes to one of them. Only where sort keys repeat, in a random
    /// collection, a smaller copy may come in before it, and the page ends early.
    fn drop_surplus(&mut self, page: &Page<'_>) {
        let feeds = self.feeds.iter().enumerate();
        let mut order = feeds
            .flat_map(|(feed, Feed { buffer, .. })| {
                buffer.iter().enumerate().map(move |(at, buffered)| (buffered, feed, at))
            })
            .collect::<Vec<_>>();
        let ascending = self.ascending;
        order.sort_unstable_by(|(one, feed, _), (other, other_feed, _)| {
            let by_key = one.key.cmp(&other.key);
            let by_key = if ascending { by_key } else { by_key.reverse() };
            by_key.then(feed.cmp(other_feed))
        });
        let most = page.budget().max_bytes;
        let mut before = page.bytes();
        let mut last = self.watermark.as_ref();
        let mut surplus = Vec::new();
        for (Buffered { key, bytes, .. }, feed, at) in order {
            if before > most || last == Some(key) {
                surplus.push((feed, at));
            } else {
                before = before.saturating_add(*bytes);
                last = Some(key);
            }
        }
        for (feed, at) in surplus {
            let Buffered { item, bytes, .. } = &mut self.feeds[feed].buffer[at];
            if item.take().is_some() {
                self.held -= *bytes;
            }
        }
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

/// How far all feeds are known.
enum Frontier {
    /// To their ends, or to items that wait in their buffers.
    All,
    /// Up to this sort key.
    Up(SortKey),
    /// Not at all: a feed was not read yet.
    Nothing,
}

impl Frontier {
    fn include(&mut self, feed: &Feed, ascending: bool) {
        if !feed.is_dry() {
            return;
        }
        let Position::After(key) = &feed.next else {
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

/// Merges all shards. An item is returned once every shard's next item is known, so what was
/// returned is exactly what a single shard would have returned, however the shards' pages fall.
pub(super) async fn ordered_page(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    cursor: Option<&Cursor>,
) -> Result<Option<Cursor>, NoPage> {
    let mut merge = Merge::open(cursor, &reading.known, reading.query.ascending);
    let start = merge.watermark.clone();
    let mut missing = None::<Error>;
    loop {
        if merge.merge(&mut reading.page) || merge.is_done() {
            break;
        }
        match missing {
            // What was merged so far is exact; the rest is for another page.
            Some(_) if merge.watermark != start => break,
            Some(error) => return Err(error.into()),
            None => {}
        }
        let asks = merge.plan(&reading.page);
        let take = |ask: &Ask, shard_page, reading: &PageRead<'_>| {
            merge.take(ask, shard_page, &reading.known, &reading.page)
        };
        missing = read_feeds(directory, &asks, reading, take).await?;
    }
    let more = !merge.is_done();
    // Where not even the first item has fitted beside those of the epoch before, the page goes on behind those.
    let last = merge.watermark.or_else(|| reading.page.last().cloned());
    Ok(last.filter(|_| more).map(Cursor::Watermark))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use dynashard_keys::{PartitionKey, Placement, ShardCount};
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
    use proptest::test_runner::TestCaseError;

    use super::*;
    use crate::model::item::StoredItem;
    use crate::model::lease::{Lease, Moment};
    use crate::model::metadata::CollectionMetadata;
    use crate::model::version::{Generation, Version};
    use crate::usecases::query::page::PageBudget;

    #[test]
    fn a_feed_is_asked_for_its_share_and_two_deviations() {
        assert_eq!(feed_limit(100, 1), 100);
        assert_eq!(feed_limit(100, 16), 12); // 6.25 + 2 * 2.5 = 11.25
        assert_eq!(feed_limit(1_000, 16), 79);
        assert_eq!(feed_limit(1, 256), 1);
        assert_eq!(feed_limit(0, 16), 1);
    }

    /// What shards hold: items of this size by their sort keys.
    type Shards = Vec<BTreeMap<String, usize>>;

    /// A query of a random collection, in which any shard may hold any sort key.
    #[derive(Debug, Clone, Copy)]
    struct Case<'a> {
        shards: &'a Shards,
        ascending: bool,
        limit: u32,
        max_bytes: usize,
        /// No answer of a shard has more.
        page_items: usize,
        bounded: bool,
    }

    /// What can be seen of a walk over all pages.
    #[derive(Debug, Default, PartialEq)]
    struct Walk {
        requests: Vec<Ask>,
        items: Vec<(SortKey, StoredItem)>,
        cursors: Vec<Option<SortKey>>,
    }

    impl Case<'_> {
        fn known(&self) -> Known {
            let partition = PartitionKey::new("p").expect("pk");
            let count = ShardCount::new(u32::try_from(self.shards.len()).expect("few"));
            let count = count.expect("a count");
            let metadata = CollectionMetadata::stable(partition, Placement::Random, count, 1);
            let lease = Lease::new(Moment::default(), None, Duration::MAX);
            Known { metadata: metadata.into(), lease }
        }

        fn answer(&self, ask: &Ask) -> ShardPage {
            let shard = &self.shards[ask.feed];
            let mut items = shard
                .iter()
                .map(|(sort, bytes)| {
                    let version = Version::new(u64::try_from(*bytes).expect("small"));
                    let generation = Generation::new(1);
                    let item =
                        StoredItem { version, forwarded: false, ..StoredItem::marker(generation) };
                    (SortKey::string(sort).expect("sk"), item)
                })
                .collect::<Vec<_>>();
            if !self.ascending {
                items.reverse();
            }
            if let Some(after) = ask.from.key() {
                items.retain(|(sort, _)| if self.ascending { sort > after } else { sort < after });
            }
            let most = usize::try_from(ask.limit).expect("small").min(self.page_items);
            let ends_early = items.len() >= most;
            items.truncate(most);
            let next = items.last().filter(|_| ends_early).map(|(sort, _)| sort.clone());
            let items_read = u64::try_from(items.len()).expect("small");
            ShardPage { items, next, items_read, consumed_rcu: 0.0 }
        }

        fn walk(&self) -> Result<Walk, TestCaseError> {
            let known = self.known();
            let measure = |_: &SortKey, item: &StoredItem| {
                usize::try_from(item.version.get()).expect("small")
            };
            let budget = PageBudget { max_bytes: self.max_bytes, measure: &measure };
            let largest = self.shards.iter().flat_map(BTreeMap::values).max().copied();
            let most = (2 * self.max_bytes).max(self.max_bytes + largest.unwrap_or(0));
            let mut walk = Walk::default();
            let mut cursor = None;
            loop {
                let mut page = Page::new(self.limit, budget);
                let mut merge = Merge::open(cursor.as_ref(), &known, self.ascending);
                while !merge.merge(&mut page) && !merge.is_done() {
                    for ask in merge.plan(&page) {
                        let answer = self.answer(&ask);
                        if self.bounded {
                            merge.take(&ask, answer, &known, &page).map_err(failed)?;
                            let held = merge.feeds.iter().flat_map(|feed| &feed.buffer);
                            let held = held.filter(|buffered| buffered.item.is_some());
                            let held = held.map(|buffered| buffered.bytes).sum::<usize>();
                            prop_assert_eq!(merge.held, held);
                            prop_assert!(held <= most, "{} of {} bytes are held", held, most);
                        } else {
                            let feed = &mut merge.feeds[ask.feed];
                            let more = feed.take(answer, ask.limit, &known, budget);
                            merge.held += more.map_err(failed)?;
                        }
                        walk.requests.push(ask);
                    }
                }
                let more = !merge.is_done();
                walk.items.extend(page.into_items());
                walk.cursors.push(merge.watermark.clone().filter(|_| more));
                cursor = merge.watermark.filter(|_| more).map(Cursor::Watermark);
                if cursor.is_none() {
                    return Ok(walk);
                }
            }
        }
    }

    fn failed(_: NoPage) -> TestCaseError {
        TestCaseError::fail("no item is ahead of the metadata")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_page_that_drops_its_surplus_is_the_same_page(
            shards in prop::collection::vec(
                prop::collection::btree_map("[a-f]{1,3}", 0..60_usize, 0..12),
                1..30,
            ),
            repeats in any::<bool>(),
            ascending in any::<bool>(),
            (limit, max_bytes, page_items) in (1..40_u32, 1..400_usize, 1..8_usize),
        ) {
            let mut shards = shards;
            let mut seen = BTreeSet::new();
            for shard in shards.iter_mut().filter(|_| !repeats) {
                shard.retain(|sort, _| seen.insert(sort.clone()));
            }
            let bounded =
                Case { shards: &shards, ascending, limit, max_bytes, page_items, bounded: true };
            let unbounded = Case { bounded: false, ..bounded };
            let (bounded, unbounded) = (bounded.walk()?, unbounded.walk()?);
            if repeats {
                // A copy that was dropped for may turn out not to be the one that counts.
                prop_assert_eq!(bounded.items, unbounded.items);
            } else {
                prop_assert_eq!(bounded, unbounded);
            }
        }
    }
}
