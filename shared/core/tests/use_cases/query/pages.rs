//! Single pages: what is refused, what fails, and what it says.

use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, SortRange, StoreError};
use dynashard_core::query::{MAX_LIMIT, PageBudget, Query, QueryPage, Strategy};
use dynashard_core::{Code, Error, Kind, Reader};
use dynashard_keys::{Placement, ShardId, SortKey, SortKeyType};
use dynashard_testkit::{Fault, Operation, block_on};

use super::reference::GENERATION;
use crate::world::{
    LEASE, World, code, count, in_shard, in_shard_of, metadata, partition, shard, sort, stored,
    text_of,
};

pub(super) fn names(page: &QueryPage) -> Vec<String> {
    page.items.iter().map(|(sort, _)| sort.to_string()).collect()
}

/// A collection of 40 items, `00` to `39`.
pub(super) fn forty(shards: u32) -> World {
    let world = World::new();
    world.lay_out(GENERATION, shards, Placement::Xxh64);
    for n in 0..40 {
        world.place(&format!("{n:02}"), GENERATION, shards);
    }
    world
}

pub(super) fn page(world: &World, reader: &Reader, query: &Query) -> Result<QueryPage, Error> {
    block_on(reader.query(query, PageBudget::UNLIMITED, world.deadline()))
}

/// A query by each strategy.
pub(super) fn every() -> [Query; 4] {
    Strategy::ALL.map(|strategy| Query { strategy, ..Query::all(partition()) })
}

#[test]
fn a_collection_that_was_never_written_is_an_empty_page() {
    let world = World::new();
    for query in every() {
        let page = page(&world, &world.reader(), &query).expect("a page");
        let expected = QueryPage {
            items: Vec::new(),
            cursor: None,
            shards: count(1),
            items_read: 0,
            consumed_rcu: 0.5,
        };
        assert_eq!(page, expected);
    }
}

#[test]
fn a_query_that_dynamodb_would_refuse_is_refused_first() {
    let number = |text: &str| SortKey::parse(text, SortKeyType::Number).expect("a number");
    let with_range = |range| Query { range, ..Query::all(partition()) };
    let with_limit = |limit| Query { limit, ..Query::all(partition()) };
    let strings = [
        with_limit(0),
        with_limit(MAX_LIMIT + 1),
        with_range(SortRange::BeginsWith(String::new())),
        with_range(SortRange::BeginsWith("x".repeat(1_025))),
        with_range(SortRange::Between(sort("b"), sort("a"))),
        with_range(SortRange::From(number("1"))),
        with_range(SortRange::To(number("1"))),
        with_range(SortRange::Between(number("1"), number("2"))),
        with_range(SortRange::Between(sort("a"), number("2"))),
    ];
    let numbers = [
        with_range(SortRange::BeginsWith("1".to_owned())),
        with_range(SortRange::From(sort("a"))),
        with_range(SortRange::To(sort("a"))),
        with_range(SortRange::Between(number("2"), number("1"))),
    ];
    for (sort_key_type, queries) in
        [(SortKeyType::String, strings.as_slice()), (SortKeyType::Number, &numbers)]
    {
        let world = World::with_sort_keys(sort_key_type);
        for query in queries {
            let refused = page(&world, &world.reader(), query);
            assert_eq!(code(refused), Code::BadParameter, "{query:?}");
        }
        assert_eq!(world.memory.requests().total(), 0);
    }
}

#[test]
fn the_longest_prefix_and_a_range_of_one_key_are_not_refused() {
    let world = forty(2);
    for (range, found) in [
        (SortRange::BeginsWith("x".repeat(SortKey::MAX_BYTES)), 0),
        (SortRange::Between(sort("07"), sort("07")), 1),
    ] {
        let query = Query { range, ..Query::all(partition()) };
        let page = page(&world, &world.reader(), &query).expect("a page");
        assert_eq!(page.items.len(), found, "{query:?}");
    }
}

#[test]
fn a_query_begins_behind_a_sort_key_that_need_not_exist() {
    for (shards, range) in [(1, SortRange::All), (4, SortRange::To(sort("37x")))] {
        let world = forty(shards);
        for (start, ascending, first) in
            [("36", true, "37"), ("35x", true, "36"), ("02", false, "01"), ("02x", false, "02")]
        {
            let query = Query { range: range.clone(), ascending, ..Query::all(partition()) };
            let query = Query { start: Some(sort(start)), limit: 1, ..query };
            let first_page = page(&world, &world.reader(), &query).expect("a page");
            assert_eq!(names(&first_page), [first]);
            let next = Query { cursor: first_page.cursor, limit: 2, ..query };
            let second = page(&world, &world.reader(), &next).expect("a page behind the first");
            assert!(!names(&second).contains(&first.to_owned()), "{second:?}");
        }
    }
    let outside = Query {
        start: Some(sort("38")),
        range: SortRange::To(sort("37")),
        ..Query::all(partition())
    };
    let number = SortKey::parse("1", SortKeyType::Number).expect("a number");
    let of_another_type = Query { start: Some(number), ..Query::all(partition()) };
    for query in [outside, of_another_type] {
        let world = forty(4);
        assert_eq!(code(page(&world, &world.reader(), &query)), Code::BadParameter);
    }
}

/// Invariant I27.
#[test]
fn items_ahead_of_the_metadata_make_the_reader_look_again() {
    for query in every() {
        let world = forty(1);
        let reader = world.reader();
        let query = Query { limit: MAX_LIMIT, ..query };
        page(&world, &reader, &query).expect("warms the cache");
        world.reshard(GENERATION + 2, 4);
        let page = page(&world, &reader, &query).expect("a page");
        assert_eq!((page.items.len(), page.shards), (40, count(4)));
        assert_eq!(world.memory.requests().metadata_gets, 2);
    }
}

/// Invariant I27.
#[test]
fn a_layout_that_changes_while_a_page_is_read_begins_the_page_again() {
    for query in every() {
        let world = forty(2);
        world.memory.split_pages(3, usize::MAX);
        // The second request is answered after the lease, and what it read is gone by then.
        let (memory, clock) = (world.memory.clone(), world.clock.clone());
        let reshard = Fault::after(move || {
            clock.advance(LEASE);
            memory.place_metadata(metadata(GENERATION + 2, 1, Placement::Xxh64));
            for (at, item) in memory.contents() {
                memory.remove(&at);
                memory.place(&in_shard(&at.sort.to_string(), 0), item);
            }
        });
        world.store.script(Operation::Query, [Fault::before(|| {}), reshard]);
        let reader = world.reader();
        let mut found = Vec::new();
        let mut next = query;
        loop {
            let page = page(&world, &reader, &next).expect("a page");
            assert_eq!(page.shards, count(1));
            found.extend(names(&page));
            let Some(cursor) = page.cursor else { break };
            next.cursor = Some(cursor);
        }
        found.sort();
        assert_eq!(found, (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    }
}

#[test]
fn metadata_that_stays_behind_is_reported() {
    for query in every() {
        let world = forty(4);
        world.place("ahead", GENERATION + 1, 4);
        assert_eq!(code(page(&world, &world.reader(), &query)), Code::MetadataBehind);
        let reads = world.memory.requests().metadata_gets;
        assert!((2..=7).contains(&reads), "{reads} metadata reads");
    }
}

#[test]
fn a_throttled_shard_is_asked_again() {
    for query in every() {
        let world = forty(4);
        world.store.script(Operation::Query, (0..5).map(|_| Fault::throttle()));
        let page = page(&world, &world.reader(), &query).expect("a page");
        assert_eq!(page.items.len(), 40);
        assert_eq!(world.store.attempts(Operation::Query) - world.memory.requests().queries, 5);
    }
}

/// Pages as far as they come, and the error at their end.
fn until_error(world: &World, mut query: Query) -> (Vec<String>, Error) {
    let reader = world.reader();
    let mut found = Vec::new();
    loop {
        match page(world, &reader, &query) {
            Ok(page) => {
                found.extend(names(&page));
                query.cursor = page.cursor;
                assert!(query.cursor.is_some(), "it looks whole, with {} items", found.len());
            }
            Err(error) => return (found, error),
        }
    }
}

#[test]
fn shards_that_cannot_be_read_are_named_and_never_left_out() {
    for query in every() {
        let world = forty(4);
        for hot in [1, 2] {
            world.store.throttle(shard(hot));
        }
        let (found, error) = until_error(&world, query.clone());
        assert_eq!(error.code(), Code::Throttled);
        // One by one, the first of them ends it.
        let named = match query.strategy {
            Strategy::Ordered | Strategy::Parallel => vec![ShardId::new(1), ShardId::new(2)],
            Strategy::RoundRobin | Strategy::Sequential => vec![ShardId::new(1)],
        };
        assert_eq!(error.shards(), named, "{error}");
        assert!(error.to_string().contains("shard"), "{error}");
        let in_order = found.is_sorted();
        assert!(in_order || query.strategy != Strategy::Ordered, "{found:?}");
        let distinct = found.iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(distinct.len(), found.len(), "{found:?}");
    }
}

#[test]
fn a_shard_that_never_answers_is_named() {
    for query in every() {
        let world = forty(4);
        // The first shard that is asked, and all that are asked after it.
        world.store.script(Operation::Query, (0..100).map(|_| Fault::Lose));
        let (found, error) = until_error(&world, query.clone());
        assert_eq!(error.code(), Code::Unavailable);
        let count = if query.strategy.has_positions() && query.strategy != Strategy::Parallel {
            1
        } else {
            4
        };
        assert_eq!((error.shards().len(), found.len()), (count, 0), "{error}");
    }
}

#[test]
fn a_fault_that_will_not_pass_ends_a_page_at_once() {
    for query in every() {
        let world = forty(4);
        let corrupt = || Fault::Refuse(StoreError::Corrupt("why".to_owned()));
        world.store.throttle(shard(0));
        world.store.script(Operation::Query, [Fault::before(|| {}), corrupt()]);
        let begun = world.clock.now();
        let (_, error) = until_error(&world, query.clone());
        if query.strategy == Strategy::Sequential || query.strategy == Strategy::RoundRobin {
            // The second attempt is one at the shard that is throttled.
            assert_eq!((error.code(), error.shards()), (Code::CorruptData, &[ShardId::new(0)][..]));
        } else {
            assert_eq!((error.code(), error.shards()), (Code::CorruptData, &[ShardId::new(1)][..]));
        }
        let waited = world.deadline_in(Duration::ZERO).remaining(begun);
        assert!(waited < Duration::from_secs(1), "{waited:?}");
    }
}

#[test]
fn retries_of_a_shard_are_bounded() {
    let world = forty(4);
    world.store.throttle(shard(2));
    let begun = world.store.attempts(Operation::Query);
    let deadline = world.deadline_in(Duration::from_hours(1));
    let query = Query::all(partition());
    let refused = block_on(world.reader().query(&query, PageBudget::UNLIMITED, deadline));
    assert_eq!(code(refused), Code::Throttled);
    assert_eq!(world.store.attempts(Operation::Query) - begun, 3 + 16);
}

#[test]
fn trouble_after_some_progress_gives_a_page_that_can_be_resumed() {
    let throttles = || (0..100).map(|_| Fault::throttle()).collect::<Vec<_>>();
    for (query, trouble) in every()
        .into_iter()
        .flat_map(|query| [(query.clone(), vec![Fault::Lose]), (query, throttles())])
    {
        let world = forty(4);
        world.memory.split_pages(2, usize::MAX);
        let fine = (0..6).map(|_| Fault::before(|| {}));
        world.store.script(Operation::Query, fine.chain(trouble));
        let reader = world.reader();
        let first = page(&world, &reader, &query).expect("a short page");
        assert!((1..40).contains(&first.items.len()), "{} items", first.items.len());
        assert!(first.cursor.is_some());

        // Whatever trouble is left passes.
        let mut found = names(&first);
        let mut next = Query { cursor: first.cursor.clone(), ..query.clone() };
        while next.cursor.is_some() {
            let Ok(page) = page(&world, &reader, &next) else { continue };
            found.extend(names(&page));
            next.cursor = page.cursor;
        }
        if query.strategy != Strategy::Ordered {
            found.sort();
        }
        assert_eq!(found, (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    }
}

#[test]
fn regression_a_query_whose_reads_outlast_every_lease_never_ended() {
    for query in every() {
        let world = forty(4);
        let slow = (0..1_000).map(|_| Fault::after(world.passing(LEASE)));
        world.store.script(Operation::Query, slow);
        let error = page(&world, &world.reader(), &query).expect_err("no page");
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(world.store.attempts(Operation::Query) <= 8);
    }
}

#[test]
fn a_page_that_takes_in_the_last_item_has_no_cursor() {
    let world = forty(4);
    let query = Query { limit: 40, ..Query::all(partition()) };
    let page = page(&world, &world.reader(), &query).expect("a page");
    // Each shard was asked for more than it holds, so all of them have said that they end.
    assert_eq!((page.items.len(), page.cursor), (40, None));
}

#[test]
fn a_single_item_is_returned_however_large_it_is() {
    for query in every() {
        let world = forty(4);
        let budget = PageBudget { max_bytes: 0, measure: &|_, _| 1 };
        let reader = world.reader();
        let page = block_on(reader.query(&query, budget, world.deadline())).expect("a page");
        assert_eq!(page.items.len(), 1);
        assert!(page.cursor.is_some());
    }
}

#[test]
fn consistency_is_what_the_query_asks_for() {
    let world = forty(1);
    let reader = world.reader();
    for (consistency, rcu) in [(Consistency::Strong, 1.0), (Consistency::Eventual, 0.5)] {
        let query = Query { consistency, ..Query::all(partition()) };
        let page = page(&world, &reader, &query).expect("a page");
        assert!((page.consumed_rcu - rcu).abs() < 1e-9, "{}", page.consumed_rcu);
    }
}

#[test]
fn a_repetition_in_a_random_collection_comes_once_from_the_lowest_shard() {
    let world = World::random();
    world.lay_out(GENERATION, 4, Placement::Random);
    for n in [3, 2, 4] {
        world
            .memory
            .place(&in_shard_of(Placement::Random, "b", n), stored(&n.to_string(), GENERATION));
    }
    world.memory.place(&in_shard_of(Placement::Random, "a", 4), stored("a", GENERATION));
    world.memory.place(&in_shard_of(Placement::Random, "c", 1), stored("c", GENERATION));
    let reader = world.reader();
    for limit in [1, 2, 3, 100] {
        let mut query = Query { limit, ..Query::all(partition()) };
        let mut found = Vec::new();
        loop {
            let page = page(&world, &reader, &query).expect("a page");
            found.extend(page.items.iter().map(|(_, item)| text_of(item)));
            let Some(cursor) = page.cursor else { break };
            query.cursor = Some(cursor);
        }
        assert_eq!(found, ["a", "2", "c"], "limit {limit}");
    }
}
