use std::collections::{BTreeMap, BTreeSet};

use dynashard_keys::{ItemKey, ShardId, SortKey};

use super::cursor::{Cursor, Position};
use super::ordered::lane_limit;
use super::page::{PageBudget, PageRead, QueryPage};
use super::{Abandon, MAX_LIMIT, Query};
use crate::cost::Cost;
use crate::directory::Known;
use crate::fan_out::fan_out_each;
use crate::metadata::Reshard;
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore, ShardPage};
use crate::read::{Lookup, is_marker_of};
use crate::{Error, Reader, StoredItem};

/// What one window of the sort keys holds: everything behind the watermark of the last one, up to
/// what all waves have covered.
struct Window {
    items: BTreeMap<SortKey, StoredItem>,
    /// The last sort key that is covered; `None` where all that is left is.
    watermark: Option<SortKey>,
}

/// A window's pages.
struct Waves {
    sources: Wave,
    destinations: Wave,
    /// Those of the sources once more that were doubtful.
    again: Wave,
}

/// What the pages of a window have covered together.
struct Covered<'a> {
    /// As for [`Window`].
    watermark: Option<SortKey>,
    ascending: bool,
    budget: PageBudget<'a>,
    /// What the page of the query has room for, in bytes of its body.
    room: usize,
}

/// The most items that a window asks each shard for.
fn most() -> usize {
    usize::try_from(MAX_LIMIT).unwrap_or(usize::MAX)
}

/// Pages of several shards from the same sort key on.
#[derive(Default)]
struct Wave {
    /// In the order of the shards.
    pages: Vec<(ShardId, ShardPage)>,
    /// What they hold, in bytes of a page's body.
    held: usize,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads a page while a reshard moves items (protocol: "Queries").
    ///
    /// It goes window by window: the sources first, then the destinations, both from the same sort
    /// key, and only what all waves have covered counts. So an item that moves meanwhile is met in
    /// one of them or in both, or a marker says that it has to be asked for. What a source alone has
    /// of the items that move is read once more: where it still is, nothing has replaced it.
    pub(super) async fn moving_page(
        &self,
        reading: PageRead<'_>,
        reshard: Reshard,
        start: Option<SortKey>,
    ) -> Result<QueryPage, Abandon> {
        let query = &Query { consistency: Consistency::Strong, ..reading.query.clone() };
        let mut reading = PageRead { query, ..reading };
        let mut watermark = start.clone();
        let (mut grown, mut widest) = (0, most());
        let more = 'page: loop {
            let room = reading.page.room();
            let shards = reshard.sources().len() + reshard.destinations().len();
            let limit = lane_limit(room, shards).max(grown).min(widest);
            let began = self.clock().now();
            let renewed = if reading.known.lease.is_fresh(began) {
                Ok(reading.known.clone())
            } else {
                self.renewed(&reading.known, reading.deadline).await
            };
            let window = match renewed {
                Ok(renewed) => {
                    reading.known = renewed;
                    self.window(&mut reading, reshard, watermark.as_ref(), limit).await
                }
                Err(abandon) => Err(abandon),
            };
            let Window { items, watermark: covered } = match window {
                Ok(window) => window,
                // What was merged so far is exact; the rest is for another page.
                Err(Abandon::Failed(error)) if error.is_passing() && watermark != start => {
                    break true;
                }
                Err(abandon) => return Err(abandon),
            };
            let now = self.clock().now();
            if !reading.known.lease.is_live(now) {
                // The window is thrown away, and read again under the same layout or not at all. All
                // of it has to fit into a lease.
                let took = now.boot.saturating_sub(began.boot);
                if took >= self.directory().settings().lease_term / 2 {
                    widest = (limit / 2).max(1);
                }
                continue;
            }
            // Each window reads all shards anew. One that came to little is followed by a wider one.
            let is_little = items.len() < room.div_ceil(2);
            grown = if is_little { limit.saturating_mul(2) } else { 0 };
            let mut items = items.into_iter().collect::<Vec<_>>();
            if !query.ascending {
                items.reverse();
            }
            let page = &mut reading.page;
            for (key, item) in items {
                let bytes = (page.budget().measure)(&key, &item);
                if !page.admits(bytes) {
                    break 'page true;
                }
                watermark = Some(key.clone());
                page.push(key, item, bytes);
            }
            let Some(covered) = covered else {
                break false;
            };
            watermark = Some(covered);
            if page.is_full() {
                break true;
            }
        };
        let cursor = watermark.filter(|_| more).map(Cursor::Watermark);
        Ok(reading.finish(cursor))
    }

    async fn window(
        &self,
        reading: &mut PageRead<'_>,
        reshard: Reshard,
        start: Option<&SortKey>,
        limit: usize,
    ) -> Result<Window, Abandon> {
        let (query, deadline) = (reading.query, reading.deadline);
        let generation = reading.known.metadata.generation;
        let mut covered = Covered::nothing_yet(reading);
        let limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
        let each = |shard| (shard, limit);
        let sources = reshard.sources().map(each);
        let sources = self.wave(reading, sources, start, &mut covered).await?;
        let destinations = reshard.destinations().map(each);
        let destinations = self.wave(reading, destinations, start, &mut covered).await?;
        let doubtful = doubtful(query, &sources, &destinations, reshard, &covered);
        let again = self.wave(reading, doubtful.into_iter(), start, &mut covered).await?;

        let waves = Waves { sources, destinations, again };
        let (mut items, unresolved) = waves.merge(query, &reading.known, reshard, &covered);
        let mut held = covered.bytes_of(&items);
        let lookups = unresolved.into_iter().map(|(shard, key)| async move {
            let consistency = query.consistency;
            let lookup = Lookup { key: &key, fields: query.fields.as_ref(), consistency, deadline };
            let (found, cost) = self.get_both(lookup, reshard.new_home(&key), shard).await?;
            Ok::<_, Error>((key.sort, found, cost))
        });
        let missing = fan_out_each(lookups.collect::<Vec<_>>(), |(sort, found, cost)| {
            reading.page.pay(cost);
            if found.iter().any(|item| item.generation > generation) {
                return Err(Abandon::Redo);
            }
            if let Some(item) = found.into_iter().find(StoredItem::is_live) {
                held += (covered.budget.measure)(&sort, &item);
                items.insert(sort, item);
            }
            if covered.is_too_much(held) {
                covered.end_where_full(&items);
                items.retain(|sort, _| covered.holds(sort));
                held = covered.bytes_of(&items);
            }
            Ok(())
        });
        if let Some(missing) = missing.await? {
            return Err(missing.into());
        }
        items.retain(|sort, _| covered.holds(sort));
        Ok(Window { items, watermark: covered.watermark })
    }

    /// Reads shards from the same sort key, and of each at most as many items as it is given with.
    async fn wave(
        &self,
        reading: &mut PageRead<'_>,
        shards: impl Iterator<Item = (ShardId, u32)>,
        start: Option<&SortKey>,
        covered: &mut Covered<'_>,
    ) -> Result<Wave, Abandon> {
        let (query, deadline) = (reading.query, reading.deadline);
        let generation = reading.known.metadata.generation;
        let next = start.map_or(Position::Start, |key| Position::After(key.clone()));
        let requests = shards.map(|(shard, limit)| {
            let next = &next;
            async move {
                let page = self.lane_page(query, shard, next, limit, deadline).await?;
                Ok((shard, page))
            }
        });
        let mut wave = Wave::default();
        let missing = fan_out_each(requests.collect::<Vec<_>>(), |(shard, page)| {
            reading.page.pay(Cost::of_page(&page));
            if page.items.iter().any(|(_, item)| item.generation > generation) {
                return Err(Abandon::Redo);
            }
            wave.take(shard, page, covered);
            Ok(())
        });
        if let Some(missing) = missing.await? {
            return Err(missing.into());
        }
        wave.pages.sort_unstable_by_key(|(shard, _)| *shard);
        Ok(wave)
    }
}

impl Wave {
    /// Takes in a shard's page. What lies beyond the window is dropped when the wave has become too
    /// large for a page of the query.
    fn take(&mut self, shard: ShardId, page: ShardPage, covered: &mut Covered<'_>) {
        covered.include(page.next.as_ref());
        self.held += covered.bytes_of(page.items.iter().map(|(sort, item)| (sort, item)));
        self.pages.push((shard, page));
        if covered.is_too_much(self.held) {
            covered.end_where_full(self.items());
            for (_, page) in &mut self.pages {
                page.items.retain(|(sort, _)| covered.holds(sort));
            }
            self.held = covered.bytes_of(self.items());
        }
    }

    fn items(&self) -> impl Iterator<Item = (&SortKey, &StoredItem)> {
        self.pages.iter().flat_map(|(_, page)| &page.items).map(|(sort, item)| (sort, item))
    }
}

impl Waves {
    /// The items that are covered, and those that only a transaction can tell of, each with the
    /// source that has said so: by a marker without its item, since the transaction that left it is
    /// visible in half or the item was deleted at its new home; or by an item that is gone.
    fn merge(
        self,
        query: &Query,
        known: &Known,
        reshard: Reshard,
        covered: &Covered<'_>,
    ) -> (BTreeMap<SortKey, StoredItem>, Vec<(ShardId, ItemKey)>) {
        let mut items = BTreeMap::new();
        for (shard, key, item) in entries(self.destinations, query, covered) {
            if item.is_live() && reshard.may_hold(&key, shard) {
                // Of the copies of a repeated sort key, all reads return the one in the lowest shard.
                items.entry(key.sort).or_insert(item);
            }
        }
        let again = entries(self.again, query, covered).filter(|(.., item)| item.is_live());
        let again = again
            .map(|(shard, key, item)| ((shard, key.sort), item.version))
            .collect::<BTreeMap<_, _>>();
        let mut unresolved = Vec::new();
        for (shard, key, item) in entries(self.sources, query, covered) {
            // The destination wins.
            if items.contains_key(&key.sort) {
                continue;
            }
            if is_marker_of(&item, known) {
                unresolved.push((shard, key));
            } else if item.is_live() && reshard.may_hold(&key, shard) {
                let is_as_it_was = again.get(&(shard, key.sort.clone())) == Some(&item.version);
                if is_as_it_was || !may_be_replaced(&key, shard, reshard) {
                    items.insert(key.sort, item);
                } else {
                    unresolved.push((shard, key));
                }
            }
        }
        (items, unresolved)
    }
}

/// What a wave has of what is covered.
fn entries<'a>(
    wave: Wave,
    query: &'a Query,
    covered: &'a Covered<'a>,
) -> impl Iterator<Item = (ShardId, ItemKey, StoredItem)> + 'a {
    wave.pages.into_iter().flat_map(move |(shard, page)| {
        let items = page.items.into_iter().filter(|(sort, _)| covered.holds(sort));
        items.map(move |(sort, item)| (shard, ItemKey::new(query.partition.clone(), sort), item))
    })
}

impl<'a> Covered<'a> {
    fn nothing_yet(reading: &PageRead<'a>) -> Self {
        let budget = reading.page.budget();
        let room = budget.max_bytes.saturating_sub(reading.page.bytes());
        Self { watermark: None, ascending: reading.query.ascending, budget, room }
    }

    /// Counts a page that ends at this sort key, if it does not end with its shard.
    fn include(&mut self, end: Option<&SortKey>) {
        if let Some(end) = end.filter(|end| self.holds(end)) {
            self.watermark = Some(end.clone());
        }
    }

    fn holds(&self, key: &SortKey) -> bool {
        match &self.watermark {
            None => true,
            Some(watermark) if self.ascending => key <= watermark,
            Some(watermark) => key >= watermark,
        }
    }

    fn bytes_of<'i>(
        &self,
        items: impl IntoIterator<Item = (&'i SortKey, &'i StoredItem)>,
    ) -> usize {
        items.into_iter().map(|(sort, item)| (self.budget.measure)(sort, item)).sum()
    }

    /// Whether so many bytes are not to be held for one page of the query.
    fn is_too_much(&self, held: usize) -> bool {
        held > self.budget.max_bytes.saturating_mul(2)
    }

    /// Ends the window early: with the first of these items that the page has no room for.
    fn end_where_full<'i>(
        &mut self,
        items: impl IntoIterator<Item = (&'i SortKey, &'i StoredItem)>,
    ) {
        let mut items = items.into_iter().filter(|(sort, _)| self.holds(sort)).collect::<Vec<_>>();
        items.sort_unstable_by_key(|(sort, _)| *sort);
        if !self.ascending {
            items.reverse();
        }
        let mut bytes = 0_usize;
        let last = items.into_iter().find(|(sort, item)| {
            bytes = bytes.saturating_add((self.budget.measure)(sort, item));
            bytes > self.room
        });
        self.include(last.map(|(sort, _)| sort));
    }
}

/// The sources that alone have an item that moves, and how many items each has to be asked for to
/// come to the last that is covered.
fn doubtful(
    query: &Query,
    sources: &Wave,
    destinations: &Wave,
    reshard: Reshard,
    covered: &Covered<'_>,
) -> Vec<(ShardId, u32)> {
    let arrived = destinations.items().filter(|(_, item)| item.is_live()).map(|(sort, _)| sort);
    let arrived = arrived.collect::<BTreeSet<_>>();
    let is_doubtful = |shard, (sort, item): &(SortKey, StoredItem)| {
        item.is_live()
            && !arrived.contains(sort)
            && may_be_replaced(&ItemKey::new(query.partition.clone(), sort.clone()), shard, reshard)
    };
    let mut doubtful = Vec::new();
    for (shard, page) in &sources.pages {
        let covered = page.items.iter().take_while(|(sort, _)| covered.holds(sort));
        if covered.clone().any(|item| is_doubtful(*shard, item)) {
            // One more, so that a shard that is read to its end says so.
            let limit = u32::try_from(covered.count()).unwrap_or(MAX_LIMIT).saturating_add(1);
            doubtful.push((*shard, limit));
        }
    }
    doubtful
}

/// Whether a put may have gone past an item that is live in this source (protocol: "Without
/// precondition, in `move`").
fn may_be_replaced(key: &ItemKey, source: ShardId, reshard: Reshard) -> bool {
    reshard.homes(key).is_some_and(|(old, _)| old == source)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::Generation;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Invariant I25.
        #[test]
        fn a_wave_holds_no_more_than_a_page_can_use(
            shards in prop::collection::vec(
                (prop::collection::btree_map("[a-d]{1,2}", 0..60_usize, 0..12), any::<bool>()),
                1..30,
            ),
            ascending in any::<bool>(),
            (max_bytes, taken) in (1..300_usize, 0..300_usize),
        ) {
            // The generation of an item stands for its size.
            let measure = |_: &SortKey, item: &StoredItem| {
                usize::try_from(item.generation.get()).expect("small")
            };
            let budget = PageBudget { max_bytes, measure: &measure };
            let room = max_bytes.saturating_sub(taken);
            let mut covered = Covered { watermark: None, ascending, budget, room };
            let mut wave = Wave::default();
            let mut all = Vec::new();
            for (at, (items, is_last)) in (0..).zip(shards) {
                let mut items = items
                    .into_iter()
                    .map(|(sort, bytes)| {
                        let bytes = u64::try_from(bytes).expect("small");
                        let item = StoredItem {
                            forwarded: false,
                            ..StoredItem::marker(Generation::new(bytes))
                        };
                        (SortKey::string(&sort).expect("sk"), item)
                    })
                    .collect::<Vec<_>>();
                if !ascending {
                    items.reverse();
                }
                all.extend(items.iter().map(|(sort, item)| (sort.clone(), measure(sort, item))));
                let next = items.last().filter(|_| !is_last).map(|(sort, _)| sort.clone());
                let items_read = u64::try_from(items.len()).expect("small");
                let page = ShardPage { items, next, items_read, consumed_rcu: 0.0 };
                wave.take(ShardId::new(at), page, &mut covered);

                let held = wave.items().map(|(sort, item)| (sort, measure(sort, item)));
                let held = held.collect::<Vec<_>>();
                prop_assert_eq!(wave.held, held.iter().map(|(_, bytes)| bytes).sum::<usize>());
                // The window ends with one sort key, and with all that the shards have of it.
                let last = held.iter().filter(|(sort, _)| Some(*sort) == covered.watermark.as_ref());
                let last = last.map(|(_, bytes)| bytes).sum::<usize>();
                prop_assert!(wave.held <= (2 * max_bytes).max(room + last), "{}", wave.held);
            }
            // What is covered is there, and the window ends early only where the page is full.
            let kept = wave.items().filter(|(sort, _)| covered.holds(sort)).count();
            let beyond = all.iter().filter(|(sort, _)| !covered.holds(sort)).count();
            prop_assert_eq!(kept + beyond, all.len());
        }
    }
}
