//! Queries whose collection is resharded between their pages, phase by phase, by the code that does
//! it.

use std::time::Duration;

use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{Code, Phase, StoredItem};
use dynashard_keys::{Placement, SortKey};
use dynashard_testkit::{Fault, Operation, block_on};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::strategy::Strategy as _;
use proptest::test_runner::TestCaseError;

use super::pages::{names, page};
use crate::world::{
    World, count, in_shard_of, metadata, partition, sort, stored, text_of, usual_settings,
};

/// What happens between two pages.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    /// Somebody asks for this count.
    Scale(u32),
    /// The rebalancer goes on for so long.
    Advance(Duration),
    /// So many requests for pages are throttled.
    Throttle(usize),
}

fn any_meanwhile() -> impl proptest::strategy::Strategy<Value = Meanwhile> {
    prop_oneof![
        3 => (0..5_u32).prop_map(|n| Meanwhile::Scale(1 << n)),
        // A move lasts a quarter of an hour, and its parts some seconds.
        4 => (1..15_u64).prop_map(|secs| Meanwhile::Advance(Duration::from_secs(secs))),
        2 => (1..30_u64).prop_map(|mins| Meanwhile::Advance(Duration::from_mins(mins))),
        2 => (1..30_usize).prop_map(Meanwhile::Throttle),
    ]
}

/// A collection, in shards of the number that is with each item if nothing else says where it is.
fn world(placement: Placement, shards: u32, items: &[(SortKey, u32)]) -> World {
    let world = World::with_mover(usual_settings());
    world.memory.place_metadata(metadata(1, shards, placement));
    for (sort, draw) in items {
        let key = dynashard_keys::ItemKey::new(partition(), sort.clone());
        let home = placement.home(&key, count(shards));
        let shard = home.map_or(1 + draw % shards, dynashard_keys::ShardId::get);
        let at = in_shard_of(placement, &sort.to_string(), shard);
        world.memory.place(&at, stored(&sort.to_string(), 1));
    }
    world.clock.advance(Duration::from_mins(1));
    world
}

fn happen(world: &World, meanwhile: Meanwhile) {
    match meanwhile {
        // It is refused while another runs, and where the count is in force already.
        Meanwhile::Scale(shards) => {
            let scaler = world.scaler();
            drop(block_on(scaler.request_count(&partition(), count(shards), world.deadline())));
        }
        Meanwhile::Advance(time) => {
            let rebalancer = world.rebalancer();
            drop(block_on(rebalancer.advance(&partition(), 0, world.deadline_in(time))));
            world.clock.advance(Duration::from_secs(1));
        }
        Meanwhile::Throttle(requests) => {
            world.store.script(Operation::Query, (0..requests).map(|_| Fault::throttle()));
        }
    }
}

/// All sort keys of a query. It begins again where its cursor has expired.
fn walk(
    world: &World,
    mut query: Query,
    max_bytes: usize,
    meanwhile: &[Meanwhile],
) -> Result<Vec<SortKey>, TestCaseError> {
    let measure = |_: &SortKey, item: &StoredItem| text_of(item).len();
    let budget = PageBudget { max_bytes, measure: &measure };
    // An environment that has known the collection from the beginning.
    let reader = world.reader();
    let mut meanwhile = meanwhile.iter();
    let mut found = Vec::new();
    for _ in 0..1_000 {
        let deadline = world.deadline_in(Duration::from_mins(1));
        match block_on(reader.query(&query, budget, deadline)) {
            Ok(page) => {
                found.extend(page.items.into_iter().map(|(sort, _)| sort));
                query.cursor = page.cursor;
                if query.cursor.is_none() {
                    return Ok(found);
                }
            }
            Err(error) if error.code() == Code::CursorExpired => {
                prop_assert!(query.strategy.has_positions(), "{error}");
                query.cursor = None;
                found.clear();
            }
            // The script of throttles ends.
            Err(error) if error.code() == Code::Throttled => {}
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        if let Some(meanwhile) = meanwhile.next() {
            happen(world, *meanwhile);
        }
    }
    Err(TestCaseError::fail("the pages do not end"))
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants I5, I25.
    #[test]
    fn every_item_comes_once_while_the_count_changes(
        names in prop::collection::btree_map("[a-f]{1,3}", any::<u32>(), 0..60),
        placement in prop::sample::select(vec![Placement::Xxh64, Placement::Jump, Placement::Random]),
        shards in 0..4_u32,
        (ascending, limit) in (any::<bool>(), 1..12_u32),
        max_bytes in prop_oneof![Just(usize::MAX), 1..30_usize],
        ends in prop::collection::vec(1..5_usize, 0..60),
        meanwhile in prop::collection::vec(any_meanwhile(), 0..24),
    ) {
        let items = names.into_iter().map(|(name, draw)| (sort(&name), draw)).collect::<Vec<_>>();
        for strategy in Strategy::ALL {
            let world = world(placement, 1 << shards, &items);
            world.memory.end_pages_after(ends.clone());
            let query = Query { strategy, ascending, limit, ..Query::all(partition()) };
            let mut found = walk(&world, query, max_bytes, &meanwhile)?;
            let mut expected = items.iter().map(|(sort, _)| sort.clone()).collect::<Vec<_>>();
            match strategy {
                Strategy::Ordered if !ascending => expected.reverse(),
                Strategy::Ordered => {}
                _ => found.sort(),
            }
            prop_assert_eq!(found, expected, "{}", strategy);
        }
    }
}

/// Invariant I5.
#[test]
fn a_query_that_began_while_items_moved_goes_on_after_the_close_by_its_own_strategy() {
    let items = (0..200).map(|n| (sort(&format!("{n:03}")), n)).collect::<Vec<_>>();
    for strategy in Strategy::ALL {
        for ascending in [true, false] {
            let world = world(Placement::Xxh64, 4, &items);
            happen(&world, Meanwhile::Scale(8));
            let reader = world.reader();
            let mut query = Query { strategy, ascending, limit: 50, ..Query::all(partition()) };
            let first = page(&world, &reader, &query).expect("a page");
            assert!(first.items.len() > 20, "{}", first.items.len());
            let mut found = names(&first);
            query.cursor = first.cursor;

            happen(&world, Meanwhile::Advance(Duration::from_hours(2)));
            let metadata = world.memory.stored_metadata(&partition()).expect("metadata");
            assert_eq!((metadata.phase, metadata.number_of_shards), (Phase::Stable, count(8)));
            while query.cursor.is_some() {
                let page = page(&world, &reader, &query).expect("a page");
                found.extend(names(&page));
                query.cursor = page.cursor;
            }
            found.sort();
            let expected = items.iter().map(|(sort, _)| sort.to_string()).collect::<Vec<_>>();
            assert_eq!(found, expected, "{strategy}");
        }
    }
}

#[test]
fn positions_expire_when_a_reshard_begins_and_stay_so() {
    let items = (0..100).map(|n| (sort(&format!("{n:03}")), n)).collect::<Vec<_>>();
    for strategy in Strategy::ALL.into_iter().filter(|strategy| strategy.has_positions()) {
        let world = world(Placement::Xxh64, 4, &items);
        let query = Query { strategy, limit: 10, ..Query::all(partition()) };
        let first = page(&world, &world.reader(), &query).expect("a page");
        let next = Query { cursor: first.cursor, ..query };
        happen(&world, Meanwhile::Scale(8));
        for _ in 0..2 {
            let refused = page(&world, &world.reader(), &next).expect_err("it has expired");
            assert_eq!(refused.code(), Code::CursorExpired, "{strategy}");
            happen(&world, Meanwhile::Advance(Duration::from_hours(2)));
        }
    }
}
