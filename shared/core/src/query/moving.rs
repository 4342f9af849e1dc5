use std::collections::{BTreeMap, BTreeSet};

use dynashard_keys::{ItemKey, ShardId, SortKey};

use super::cursor::{Cursor, Position};
use super::ordered::lane_limit;
use super::page::{Page, PageBudget, QueryPage};
use super::{Abandon, MAX_LIMIT, Query};
use crate::cost::Cost;
use crate::directory::Known;
use crate::fan_out::fan_out;
use crate::metadata::Reshard;
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore, ShardPage};
use crate::read::{Lookup, is_marker_of};
use crate::{Deadline, Error, Reader, StoredItem};

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

/// What the pages of a window's waves have covered together.
struct Covered {
    /// As for [`Window`].
    watermark: Option<SortKey>,
    ascending: bool,
}

/// The most items that a window asks each shard for.
fn most() -> usize {
    usize::try_from(MAX_LIMIT).unwrap_or(usize::MAX)
}

/// One wave's pages, in the order of its shards.
type Wave = Vec<(ShardId, ShardPage)>;

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// Reads a page while a reshard moves items (protocol: "Queries").
    ///
    /// It goes window by window: the sources first, then the destinations, both from the same sort
    /// key, and only what all waves have covered counts. So an item that moves meanwhile is met in
    /// one of them or in both, or a marker says that it has to be asked for. What a source alone has
    /// of the items that move is read once more: where it still is, nothing has replaced it.
    pub(super) async fn moving_page(
        &self,
        query: &Query,
        start: Option<SortKey>,
        mut known: Known,
        reshard: Reshard,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Abandon> {
        let query = &Query { consistency: Consistency::Strong, ..query.clone() };
        let mut page = Page::new(query.limit, budget);
        let mut watermark = start.clone();
        let (mut grown, mut widest) = (0, most());
        let more = 'page: loop {
            let room = page.room();
            let shards = reshard.sources().len() + reshard.destinations().len();
            let limit = lane_limit(room, shards).max(grown).min(widest);
            let from = watermark.as_ref();
            let began = self.clock().now();
            let renewed = if known.lease.is_fresh(began) {
                Ok(known.clone())
            } else {
                self.renewed(&known, deadline).await
            };
            let window = match renewed {
                Ok(renewed) => {
                    known = renewed;
                    self.window(query, from, limit, &known, reshard, &mut page, deadline).await
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
            if !known.lease.is_live(now) {
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
            for (key, item) in items {
                let Some(bytes) = page.admits(&key, &item) else {
                    break 'page true;
                };
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
        Ok(page.finish(cursor, query, known.metadata.layout().readable))
    }

    #[expect(clippy::too_many_arguments, reason = "a window is a part of a page's one function")]
    async fn window(
        &self,
        query: &Query,
        start: Option<&SortKey>,
        limit: usize,
        known: &Known,
        reshard: Reshard,
        answer: &mut Page<'_>,
        deadline: Deadline,
    ) -> Result<Window, Abandon> {
        let generation = known.metadata.generation;
        let mut take = |wave: &Wave| {
            for (_, page) in wave {
                answer.pay(Cost::of_page(page));
            }
            let mut items = wave.iter().flat_map(|(_, page)| &page.items);
            let is_behind = items.any(|(_, item)| item.generation > generation);
            if is_behind { Err(Abandon::Redo) } else { Ok(()) }
        };
        let limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
        let each = |shard| (shard, limit);
        let sources = self.wave(query, reshard.sources().map(each), start, deadline).await?;
        let destinations =
            self.wave(query, reshard.destinations().map(each), start, deadline).await?;
        take(&sources)?;
        take(&destinations)?;
        let covered = Covered { watermark: None, ascending: query.ascending };
        let covered = covered.by(&sources).by(&destinations);
        let doubtful = doubtful(query, &sources, &destinations, reshard, &covered);
        let again = self.wave(query, doubtful.into_iter(), start, deadline).await?;
        take(&again)?;
        let covered = covered.by(&again);

        let waves = Waves { sources, destinations, again };
        let (mut items, unresolved) = waves.merge(query, known, reshard, &covered);
        let lookups = unresolved.into_iter().map(|(shard, key)| async move {
            let consistency = query.consistency;
            let lookup = Lookup { key: &key, fields: query.fields.as_ref(), consistency, deadline };
            let (found, cost) = self.get_both(lookup, reshard.new_home(&key), shard).await?;
            Ok::<_, Error>((key.sort, found, cost))
        });
        let lookups = lookups.collect::<Vec<_>>();
        for (sort, found, cost) in fan_out(lookups).await?.all()? {
            answer.pay(cost);
            if found.iter().any(|item| item.generation > generation) {
                return Err(Abandon::Redo);
            }
            items.extend(found.into_iter().find(StoredItem::is_live).map(|item| (sort, item)));
        }
        Ok(Window { items, watermark: covered.watermark })
    }

    /// Reads shards from the same sort key, and of each at most as many items as it is given with.
    async fn wave(
        &self,
        query: &Query,
        shards: impl Iterator<Item = (ShardId, u32)>,
        start: Option<&SortKey>,
        deadline: Deadline,
    ) -> Result<Wave, Error> {
        let next = start.map_or(Position::Start, |key| Position::After(key.clone()));
        let requests = shards.map(|(shard, limit)| {
            let next = &next;
            async move {
                let page = self.lane_page(query, shard, next, limit, deadline).await?;
                Ok((shard, page))
            }
        });
        fan_out(requests.collect::<Vec<_>>()).await?.all()
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
        covered: &Covered,
    ) -> (BTreeMap<SortKey, StoredItem>, Vec<(ShardId, ItemKey)>) {
        let mut items = BTreeMap::new();
        for (shard, key, item) in entries(self.destinations, query, covered) {
            if item.is_live() && reshard.may_hold(&key, shard) {
                items.insert(key.sort, item);
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
    covered: &'a Covered,
) -> impl Iterator<Item = (ShardId, ItemKey, StoredItem)> + 'a {
    wave.into_iter().flat_map(move |(shard, page)| {
        let items = page.items.into_iter().filter(|(sort, _)| covered.holds(sort));
        items.map(move |(sort, item)| (shard, ItemKey::new(query.partition.clone(), sort), item))
    })
}

impl Covered {
    /// What this wave has covered, too.
    fn by(self, wave: &Wave) -> Self {
        let ends = wave.iter().filter_map(|(_, page)| page.next.clone()).chain(self.watermark);
        let watermark = if self.ascending { ends.min() } else { ends.max() };
        Self { watermark, ..self }
    }

    fn holds(&self, key: &SortKey) -> bool {
        match &self.watermark {
            None => true,
            Some(watermark) if self.ascending => key <= watermark,
            Some(watermark) => key >= watermark,
        }
    }
}

/// The sources that alone have an item that moves, and how many items each has to be asked for to
/// come to the last that is covered.
fn doubtful(
    query: &Query,
    sources: &Wave,
    destinations: &Wave,
    reshard: Reshard,
    covered: &Covered,
) -> Vec<(ShardId, u32)> {
    let arrived = destinations.iter().flat_map(|(_, page)| &page.items);
    let arrived = arrived.filter(|(_, item)| item.is_live()).map(|(sort, _)| sort);
    let arrived = arrived.collect::<BTreeSet<_>>();
    let is_doubtful = |shard, (sort, item): &(SortKey, StoredItem)| {
        item.is_live()
            && !arrived.contains(sort)
            && may_be_replaced(&ItemKey::new(query.partition.clone(), sort.clone()), shard, reshard)
    };
    let mut doubtful = Vec::new();
    for (shard, page) in sources {
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
