use std::collections::BTreeMap;

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
/// what both waves have covered.
struct Window {
    items: BTreeMap<SortKey, StoredItem>,
    /// What is covered; `None` for all that is left.
    watermark: Option<SortKey>,
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
    /// key, and only what both have covered counts. So an item that moves meanwhile is met in one of
    /// them or in both, or a marker says that it has to be asked for.
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
        let mut grown = 0;
        let more = 'page: loop {
            let room = page.room();
            let shards = reshard.sources().len() + reshard.destinations().len();
            let limit = lane_limit(room, shards).max(grown);
            let from = watermark.as_ref();
            let window =
                self.window(query, from, limit, &known, reshard, &mut page, deadline).await;
            let Window { items, watermark: covered } = match window {
                Ok(window) => window,
                // What was merged so far is exact; the rest is for another page.
                Err(Abandon::Failed(error)) if error.is_passing() && watermark != start => {
                    break true;
                }
                Err(abandon) => return Err(abandon),
            };
            if !known.lease.is_live(self.clock().now()) {
                // The window is thrown away, and read again under the same layout or not at all.
                known = self.renewed(&known, deadline).await?;
                continue;
            }
            // Each window reads all shards anew. One that came to little is followed by a wider one.
            grown = if items.len() < room / 2 { limit.saturating_mul(2).min(most()) } else { 0 };
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
        let limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
        let sources = self.wave(query, reshard.sources(), start, limit, deadline).await?;
        let destinations = self.wave(query, reshard.destinations(), start, limit, deadline).await?;
        let waves = || sources.iter().chain(&destinations);
        for (_, page) in waves() {
            answer.pay(Cost::of_page(page));
            let generation = known.metadata.generation;
            if page.items.iter().any(|(_, item)| item.generation > generation) {
                return Err(Abandon::Redo);
            }
        }
        let ends = waves().filter_map(|(_, page)| page.next.clone());
        let watermark = if query.ascending { ends.min() } else { ends.max() };
        let is_covered = |key: &SortKey| match &watermark {
            None => true,
            Some(watermark) if query.ascending => key <= watermark,
            Some(watermark) => key >= watermark,
        };

        let mut items = BTreeMap::new();
        let mut moved = BTreeMap::new();
        for (shard, page) in sources {
            for (sort, item) in page.items.into_iter().filter(|(sort, _)| is_covered(sort)) {
                let key = ItemKey::new(query.partition.clone(), sort.clone());
                if is_marker_of(&item, known) {
                    moved.insert(sort, (shard, key));
                } else if item.is_live() && reshard.may_hold(&key, shard) {
                    items.insert(sort, item);
                }
            }
        }
        // The destination wins.
        for (shard, page) in destinations {
            for (sort, item) in page.items.into_iter().filter(|(sort, _)| is_covered(sort)) {
                let key = ItemKey::new(query.partition.clone(), sort.clone());
                if item.is_live() && reshard.may_hold(&key, shard) {
                    items.insert(sort, item);
                }
            }
        }
        // An item whose marker is visible and whose copy is not: the transaction is half visible, or
        // the item was deleted at its new home.
        moved.retain(|sort, _| !items.contains_key(sort));
        let lookups = moved.into_iter().map(|(sort, (shard, key))| async move {
            let consistency = query.consistency;
            let lookup = Lookup { key: &key, fields: query.fields.as_ref(), consistency, deadline };
            let (found, cost) = self.get_both(lookup, reshard.new_home(&key), shard).await?;
            Ok::<_, Error>((sort, found, cost))
        });
        let lookups = lookups.collect::<Vec<_>>();
        for (sort, found, cost) in fan_out(lookups).await?.all()? {
            answer.pay(cost);
            if found.iter().any(|item| item.generation > known.metadata.generation) {
                return Err(Abandon::Redo);
            }
            items.extend(found.into_iter().find(StoredItem::is_live).map(|item| (sort, item)));
        }
        Ok(Window { items, watermark })
    }

    async fn wave(
        &self,
        query: &Query,
        shards: impl Iterator<Item = ShardId>,
        start: Option<&SortKey>,
        limit: u32,
        deadline: Deadline,
    ) -> Result<Wave, Error> {
        let next = start.map_or(Position::Start, |key| Position::After(key.clone()));
        let requests = shards.map(|shard| {
            let next = &next;
            async move {
                let page = self.lane_page(query, shard, next, limit, deadline).await?;
                Ok((shard, page))
            }
        });
        fan_out(requests.collect::<Vec<_>>()).await?.all()
    }
}
