//! Queries of several pages, and what their answers say about each item.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{Code, Reader, StoredItem};
use dynashard_keys::{ItemKey, SortKey};

use crate::scenario::Collection;
use crate::world::{Process, Reply, World};

/// An item that a query returned.
type Row = (SortKey, StoredItem);

/// One page that was answered.
struct Page {
    begun: Duration,
    ended: Duration,
    rows: Vec<Row>,
}

/// Reads a collection page by page, as far as the pages come.
pub(crate) async fn query(world: &World, process: &Process<Reader>, collection: &Collection) {
    let mut query = draw_query(world, collection);
    let (consistency, lag) = world.draw_consistency();
    query.consistency = consistency;
    let mut pages = Vec::new();
    let is_complete = loop {
        let begun = world.kernel.moment();
        let asked = query.clone();
        let call = move |reader: Arc<Reader>, deadline| async move {
            reader.query(&asked, PageBudget::UNLIMITED, deadline).await
        };
        let reply = world.call(process, world.draw_timeout(), call).await;
        let ended = world.kernel.moment();
        world.kernel.trace(|| format!("{query:?}: {reply:?}"));
        match reply {
            Reply::Answer(Ok(page)) => {
                let begun = begun.saturating_sub(lag);
                pages.push(Page { begun, ended, rows: page.items });
                query.cursor = page.cursor;
                if query.cursor.is_none() {
                    break true;
                }
            }
            // Positions are good for one layout.
            Reply::Answer(Err(error))
                if error.code() == Code::CursorExpired && query.strategy.has_positions() =>
            {
                break false;
            }
            Reply::Answer(Err(error)) => {
                world.history().meaning("query", &error);
                if world.kernel.draw(|random| random.chance(500_000)) {
                    break false;
                }
            }
            Reply::Killed | Reply::GivenUp => break false,
        }
        let thought = world.kernel.draw(|random| random.any_scale(world.scenario.longest_thought));
        world.rest(thought).await;
    };
    judge(world, collection, &query, &pages, is_complete);
}

fn draw_query(world: &World, collection: &Collection) -> Query {
    world.kernel.draw(|random| {
        let bound = |number: u64| SortKey::string(format!("k{number}"));
        let (low, high) = (random.below(3), random.between(3, 6));
        let range = match (random.below(6), bound(low), bound(high)) {
            (0, Ok(low), _) => SortRange::From(low),
            (1, _, Ok(high)) => SortRange::To(high),
            (2, Ok(low), Ok(high)) => SortRange::Between(low, high),
            (3, ..) => SortRange::BeginsWith("k".to_owned()),
            _ => SortRange::All,
        };
        Query {
            partition: collection.partition.clone(),
            range,
            ascending: random.chance(500_000),
            limit: random.pick(&[1, 1, 2, 2, 3, 5, 100]),
            // The one that promises the most is drawn as often as all others together.
            strategy: random.pick(&[
                Strategy::Ordered,
                Strategy::Ordered,
                Strategy::Ordered,
                Strategy::Parallel,
                Strategy::RoundRobin,
                Strategy::Sequential,
            ]),
            fields: None,
            consistency: Consistency::Strong,
            cursor: None,
            start: None,
        }
    })
}

/// A query is not a snapshot, but each item is returned as it was at some moment while its page was
/// read; and one that is missing was absent at some moment while the page was read that passed its
/// place. So a query is a read of each item by itself.
/// Invariants I5, I30.
fn judge(world: &World, collection: &Collection, query: &Query, pages: &[Page], is_complete: bool) {
    let mut history = world.history();
    let rows = || pages.iter().flat_map(|page| &page.rows).map(|(sort, _)| sort);
    let returned = rows().collect::<BTreeSet<_>>();
    if returned.len() < rows().count() {
        history.violations.push(format!("an item was returned twice by {query:?}"));
    }
    let in_order = rows().zip(rows().skip(1)).all(|(one, other)| (one < other) == query.ascending);
    if query.strategy == Strategy::Ordered && !in_order {
        history.violations.push(format!("items came in the wrong order from {query:?}"));
    }
    if let Some(outside) = rows().find(|sort| !query.range.contains(sort)) {
        history.violations.push(format!("{outside} is outside of the range of {query:?}"));
    }
    for page in pages {
        if page.rows.len() > usize::try_from(query.limit).unwrap_or(usize::MAX) {
            history.violations.push(format!("a page above the limit of {query:?}"));
        }
        for (sort, item) in &page.rows {
            let key = ItemKey::new(collection.partition.clone(), sort.clone());
            history.saw(&key, Some(item), page.begun, page.ended);
        }
    }
    let missing = history
        .keys()
        .filter(|key| key.partition == collection.partition)
        .filter(|key| query.range.contains(&key.sort) && !returned.contains(&key.sort))
        .cloned()
        .collect::<Vec<_>>();
    for key in missing {
        if let Some((begun, ended)) = passed(&key.sort, query, pages, is_complete) {
            history.saw(&key, None, begun, ended);
        }
    }
}

/// Between which moments a query passed the place of an item that it did not return, if it did.
fn passed(
    sort: &SortKey,
    query: &Query,
    pages: &[Page],
    is_complete: bool,
) -> Option<(Duration, Duration)> {
    let (first, last) = (pages.first()?, pages.last()?);
    if query.strategy != Strategy::Ordered {
        return is_complete.then_some((first.begun, last.ended));
    }
    let is_before = |row: &Row| if query.ascending { row.0 < *sort } else { row.0 > *sort };
    // It comes after the last item before it, and before the first item behind it.
    let begun = pages.iter().rev().find(|page| page.rows.iter().any(is_before)).unwrap_or(first);
    let beyond = pages.iter().find(|page| page.rows.iter().any(|row| !is_before(row)));
    let ended = beyond.or(is_complete.then_some(last))?;
    Some((begun.begun, ended.ended))
}
