//! A page of a collection whose items are being moved.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_keys::{ItemKey, ShardId, SortKey};

use crate::model::error::Error;
use crate::model::item::StoredItem;
use crate::model::metadata::Reshard;
use crate::ports::ShardPage;
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::fan_out_each;
use crate::usecases::query::cursor::{Cursor, Position};
use crate::usecases::query::feeds::shard_page;
use crate::usecases::query::ordered::{SELDOM_DRY, feed_limit, feed_limit_within};
use crate::usecases::query::page::{PageBudget, PageRead};
use crate::usecases::query::{MAX_LIMIT, NoPage, Query};
use crate::usecases::read::{Lookup, is_marker_of};

/// What one window of the sort keys holds: everything behind the watermark of the last one, up to
/// what all waves have covered.
struct Window {
    items: BTreeMap<SortKey, StoredItem>,
    /// The last sort key that is covered; `None` where all that is left is.
    watermark: Option<SortKey>,
}

/// How many items a window asks a shard for. The others are read as far as the pilots at most, so that
/// little is read in vain.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How many sources are read first. Each holds its share of all items under the old count, or a marker
    /// of each: what few of them hold tells about the rest.
    pilots: usize,
    /// How many items of theirs make a window.
    piloted: usize,
    pilot: usize,
    /// Where a single pilot may hold few items that move, as when a count has just been set for what was not yet written: how
    /// much of it is read at first, and how many items that stay in it tell that this is enough. Each stands for one in
    /// every shard of the new count.
    probe: Option<(usize, usize)>,
    sources: usize,
    destinations: usize,
}

/// So many items of a window the pilots are to hold: by chance they hold a fifth more or less than their share then, and
/// reading more of them would tell little more.
const TOLD: usize = 25;

impl Limits {
    /// So many that a window comes to about `wanted` items, and `least` in any case.
    fn of(wanted: usize, reshard: Reshard, least: usize) -> Self {
        let [from, to] = [reshard.from, reshard.to]
            .map(|count| usize::try_from(count.get()).unwrap_or(usize::MAX).max(1));
        let wanted = wanted.max(1);
        let pilots = (TOLD * from).div_ceil(wanted).clamp(1, from.div_ceil(4));
        let clamped = |limit: usize| limit.max(least).clamp(1, most());
        let piloted = clamped((wanted * pilots).div_ceil(from));
        let probe = clamped(feed_limit(wanted, to));
        // Only where it spares much: where the pilot is full of what moves, it is a request more.
        let probes = to > from && pilots == 1 && 2 * piloted >= LEAST_SPARED * probe;
        // Each further window asks all shards again, and where a probe ends it, little is read in vain.
        let deviations = if probes { PROBED_DRY } else { SELDOM_DRY };
        Self {
            pilots,
            probe: probes.then(|| (probe, wanted.div_ceil(to))),
            piloted,
            pilot: if pilots == 1 { piloted } else { clamped(feed_limit(piloted, pilots)) },
            sources: clamped(feed_limit(wanted, from)),
            destinations: clamped(feed_limit_within(deviations, wanted, to)),
        }
    }

    fn largest(self) -> usize {
        self.pilot.max(self.sources).max(self.destinations)
    }
}

/// A probe is read first where it is at most two of so many parts of what the pilot would read.
const LEAST_SPARED: usize = 5;

/// How many deviations above its mean a destination is asked for behind a probe.
const PROBED_DRY: f64 = 3.9;

/// How many items of a window are looked up in transactions, at most.
const MAX_LOOKUPS: usize = 1_000;

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

/// Reads a page while a reshard moves items, by a query that is strongly consistent (protocol: "Queries").
///
/// It goes window by window: the destinations first, then the sources, both from the same sort key,
/// and only what all have covered counts. What a source still has then, nothing had replaced when
/// the destinations were read; and of an item that has moved since, a marker says that it has to be
/// asked for. Some sources, the pilots, are read before them, to say how far the window goes: the others
/// are read no further. A pilot is read once more behind them, unless the destinations have whatever it
/// has to move.
pub(super) async fn moving_page(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    reshard: Reshard,
    start: Option<SortKey>,
) -> Result<Option<Cursor>, NoPage> {
    let mut watermark = start.clone();
    let mut grown = 0;
    let more = 'page: loop {
        let room = reading.page.room();
        let limits = Limits::of(room, reshard, grown);
        let began = directory.clock().now();
        let renewed = if reading.known.lease.is_fresh(began) {
            Ok(reading.known.clone())
        } else {
            reading.renewed(directory).await
        };
        let window = match renewed {
            Ok(renewed) => {
                reading.known = renewed;
                read_window(directory, reading, reshard, watermark.as_ref(), limits).await
            }
            Err(abandon) => Err(abandon),
        };
        let Window { items, watermark: covered } = match window {
            Ok(window) => window,
            // What was merged so far is exact; the rest is for another page.
            Err(NoPage::Failed(error)) if error.is_passing() && watermark != start => {
                break true;
            }
            Err(abandon) => return Err(abandon),
        };
        if !reading.known.lease.is_live(directory.now()) {
            // Many shards far away take longer than a lease. The window counts if nothing has changed.
            reading.known = match reading.renewed(directory).await {
                Err(NoPage::Failed(error)) if error.is_passing() && watermark != start => {
                    break true;
                }
                renewed => renewed?,
            };
        }
        // Each window reads all shards anew. One that came to little is followed by a wider one.
        let is_little = items.len() < room.div_ceil(2);
        grown = if is_little { limits.largest().saturating_mul(2) } else { 0 };
        let mut items = items.into_iter().collect::<Vec<_>>();
        if !reading.query.ascending {
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
    let last = watermark.or_else(|| reading.page.last().cloned());
    Ok(last.filter(|_| more).map(Cursor::Watermark))
}

async fn read_window(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    reshard: Reshard,
    start: Option<&SortKey>,
    limits: Limits,
) -> Result<Window, NoPage> {
    let (query, deadline) = (reading.query, reading.deadline);
    let generation = reading.known.metadata.generation;
    let mut covered = Covered::nothing_yet(reading);
    let mut piloted = read_pilots(directory, reading, reshard, limits, start, &mut covered).await?;
    covered.end_behind(limits.piloted, piloted.items());
    let destinations = reshard.destinations();
    let destinations =
        read_wave(directory, reading, destinations, limits.destinations, start, &mut covered);
    let destinations = destinations.await?;
    piloted.drop_doubtful(query, &destinations, reshard, &covered);
    let rest = reshard.sources().filter(|source| !piloted.has(*source)).collect::<Vec<_>>();
    let rest = read_wave(directory, reading, rest.into_iter(), limits.sources, start, &mut covered);
    let mut sources = rest.await?;
    sources.pages.append(&mut piloted.pages);
    sources.pages.sort_unstable_by_key(|(shard, _)| *shard);

    let known = &reading.known;
    let placement = known.metadata.placement;
    let (mut items, mut unresolved) = merge(destinations, sources, query, known, reshard, &covered);
    covered.end_behind_lookups(&mut unresolved);
    items.retain(|sort, _| covered.holds(sort));
    let mut held = covered.bytes_of(&items);
    let lookups = unresolved.into_iter().map(|(shard, key)| async move {
        let consistency = query.consistency;
        let fields = query.fields.as_ref();
        let lookup = Lookup::new(directory, &key, fields, consistency, deadline);
        let (found, cost) = lookup.get_both(placement, [reshard.new_home(&key), shard]).await?;
        Ok::<_, Error>((key.sort, found, cost))
    });
    let missing = fan_out_each(lookups.collect::<Vec<_>>(), |(sort, found, cost)| {
        reading.page.pay(cost);
        if found.iter().any(|item| item.generation > generation) {
            return Err(NoPage::Redo);
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

/// What the pilots hold. Of a single one only a probe is read, where that tells enough.
async fn read_pilots<'a>(
    directory: &Directory,
    reading: &mut PageRead<'a>,
    reshard: Reshard,
    limits: Limits,
    start: Option<&SortKey>,
    covered: &mut Covered<'a>,
) -> Result<Wave, NoPage> {
    let pilots = draw_pilots(directory, reshard, limits.pilots);
    let Some((probe, enough)) = limits.probe else {
        return read_wave(directory, reading, pilots.into_iter(), limits.pilot, start, covered)
            .await;
    };
    let mut probed = Covered::nothing_yet(reading);
    let shards = pilots.iter().copied();
    let mut wave = read_wave(directory, reading, shards, probe, start, &mut probed).await?;
    let end = probed
        .watermark
        .clone()
        .filter(|_| wave.items().count() >= probe && wave.staying(reading.query, reshard) < enough);
    let Some(end) = end else {
        *covered = probed;
        return Ok(wave);
    };
    // It is full of what moves, and tells about few items of the window so far.
    let rest = limits.pilot.saturating_sub(probe).max(1);
    let more = read_wave(directory, reading, pilots.into_iter(), rest, Some(&end), covered).await?;
    wave.go_on(more, covered);
    Ok(wave)
}

/// The sources that are read first. They are drawn, so that none is read more often than the others.
fn draw_pilots(directory: &Directory, reshard: Reshard, pilots: usize) -> Vec<ShardId> {
    let mut sources = reshard.sources().collect::<Vec<_>>();
    let count = u64::try_from(sources.len()).unwrap_or(u64::MAX).max(1);
    let drawn = usize::try_from(directory.context().entropy().next_u64() % count).unwrap_or(0);
    sources.rotate_left(drawn);
    sources.truncate(pilots);
    sources
}

/// Reads shards from the same sort key, as far as is covered so far, and of each at most `limit`
/// items.
async fn read_wave(
    directory: &Directory,
    reading: &mut PageRead<'_>,
    shards: impl Iterator<Item = ShardId>,
    limit: usize,
    start: Option<&SortKey>,
    covered: &mut Covered<'_>,
) -> Result<Wave, NoPage> {
    let deadline = reading.deadline;
    let metadata = &reading.known.metadata;
    let (generation, placement) = (metadata.generation, metadata.placement);
    let query = Query {
        range: match &covered.watermark {
            Some(last) => reading.query.range.up_to(last, reading.query.ascending),
            None => reading.query.range.clone(),
        },
        ..reading.query.clone()
    };
    let limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
    let next = start.map_or(Position::Start, |key| Position::After(key.clone()));
    let requests = shards.map(|shard| {
        let (query, next) = (&query, &next);
        async move {
            let page =
                shard_page(directory, query, placement, shard, next, limit, deadline).await?;
            Ok((shard, page))
        }
    });
    let mut wave = Wave::default();
    let missing = fan_out_each(requests.collect::<Vec<_>>(), |(shard, page)| {
        reading.page.pay(Cost::of_page(&page));
        let page = reading.admit(page);
        if page.items.iter().any(|(_, item)| item.generation > generation) {
            return Err(NoPage::Redo);
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

impl Wave {
    /// Takes in a shard's page. What lies beyond the window is dropped when the wave has become too
    /// large for a page of the query.
    fn take(&mut self, shard: ShardId, page: ShardPage, covered: &mut Covered<'_>) {
        covered.include(page.next.as_ref());
        self.held += covered.bytes_of(page.items.iter().map(|(sort, item)| (sort, item)));
        self.pages.push((shard, page));
        self.trim(covered);
    }

    /// Takes in what the same shards hold behind it, which is covered as it says.
    fn go_on(&mut self, more: Self, covered: &mut Covered<'_>) {
        for (shard, page) in more.pages {
            match self.pages.iter_mut().find(|(of, _)| *of == shard) {
                // One page, since whatever is doubtful in it has all of it read again.
                Some((_, before)) => {
                    before.items.extend(page.items);
                    before.next = page.next;
                }
                None => self.pages.push((shard, page)),
            }
        }
        self.held = covered.bytes_of(self.items());
        self.trim(covered);
    }

    /// Drops what lies beyond the window when there is too much for a page of the query.
    fn trim(&mut self, covered: &mut Covered<'_>) {
        if covered.is_too_much(self.held) {
            covered.end_where_full(self.items());
            for (_, page) in &mut self.pages {
                page.items.retain(|(sort, _)| covered.holds(sort));
            }
            self.held = covered.bytes_of(self.items());
        }
    }

    /// Leaves out the sources that alone have an item that moves: they were read before the destinations,
    /// and a put may have gone past it, and a delete removed that.
    fn drop_doubtful(
        &mut self,
        query: &Query,
        destinations: &Self,
        reshard: Reshard,
        covered: &Covered<'_>,
    ) {
        let arrived = destinations.items().filter(|(_, item)| item.is_live()).map(|(sort, _)| sort);
        let arrived = arrived.collect::<BTreeSet<_>>();
        self.pages.retain(|(shard, page)| {
            let mut seen = page.items.iter().filter(|(sort, _)| covered.holds(sort));
            !seen.any(|(sort, item)| {
                let key = || ItemKey::new(query.partition.clone(), sort.clone());
                let moves = || reshard.homes(&key()).is_some_and(|(old, _)| old == *shard);
                item.is_live() && !arrived.contains(sort) && moves()
            })
        });
    }

    /// How many of its items are where they belong under either count.
    fn staying(&self, query: &Query, reshard: Reshard) -> usize {
        let stays = |shard: ShardId, sort: &SortKey, item: &StoredItem| {
            let key = ItemKey::new(query.partition.clone(), sort.clone());
            item.is_live() && reshard.homes(&key).is_none() && reshard.may_hold(&key, shard)
        };
        let of = |(shard, page): &(ShardId, ShardPage)| {
            page.items.iter().filter(|(sort, item)| stays(*shard, sort, item)).count()
        };
        self.pages.iter().map(of).sum()
    }

    fn has(&self, shard: ShardId) -> bool {
        self.pages.iter().any(|(of, _)| *of == shard)
    }

    fn items(&self) -> impl Iterator<Item = (&SortKey, &StoredItem)> {
        self.pages.iter().flat_map(|(_, page)| &page.items).map(|(sort, item)| (sort, item))
    }
}

/// The items that are covered, and those that only a transaction can tell of: a source has a marker of
/// each without its item, since the transaction that left it is visible in half, or was not there yet when
/// the destination was read, or the item was deleted at its new home.
fn merge(
    destinations: Wave,
    sources: Wave,
    query: &Query,
    known: &Known,
    reshard: Reshard,
    covered: &Covered<'_>,
) -> (BTreeMap<SortKey, StoredItem>, Vec<(ShardId, ItemKey)>) {
    let mut items = BTreeMap::new();
    for (shard, key, item) in entries(destinations, query, covered) {
        if item.is_live() && reshard.may_hold(&key, shard) {
            // Of the copies of a repeated sort key, all reads return the one in the lowest shard.
            items.entry(key.sort).or_insert(item);
        }
    }
    let mut unresolved = Vec::new();
    for (shard, key, item) in entries(sources, query, covered) {
        // The destination wins.
        if items.contains_key(&key.sort) {
            continue;
        }
        if is_marker_of(&item, known) {
            unresolved.push((shard, key));
        } else if item.is_live() && reshard.may_hold(&key, shard) {
            items.insert(key.sort, item);
        }
    }
    (items, unresolved)
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

    /// Ends the window behind so many of these items, if there are more.
    fn end_behind<'i>(
        &mut self,
        count: usize,
        items: impl Iterator<Item = (&'i SortKey, &'i StoredItem)>,
    ) {
        let mut keys = items.map(|(sort, _)| sort).collect::<Vec<_>>();
        keys.sort_unstable();
        if !self.ascending {
            keys.reverse();
        }
        if keys.len() > count {
            self.include(keys.get(count.saturating_sub(1)).copied());
        }
    }

    /// Ends the window behind the last item that there is time to look up. Where a queue is emptied while it moves, each
    /// that was taken out leaves a marker.
    fn end_behind_lookups(&mut self, unresolved: &mut Vec<(ShardId, ItemKey)>) {
        if unresolved.len() <= MAX_LOOKUPS {
            return;
        }
        unresolved.sort_unstable_by(|(_, one), (_, other)| one.sort.cmp(&other.sort));
        if !self.ascending {
            unresolved.reverse();
        }
        unresolved.truncate(MAX_LOOKUPS);
        self.include(unresolved.last().map(|(_, key)| &key.sort));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::model::version::Generation;

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
