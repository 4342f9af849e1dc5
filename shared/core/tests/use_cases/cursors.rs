//! Cursors on their way through clients and reshards.

use dynashard_core::ports::SortRange;
use dynashard_core::query::cursor::{Cursor, Position};
use dynashard_core::query::{PageBudget, Query, QueryPage, Strategy};
use dynashard_core::{Code, Error, Generation};
use dynashard_keys::{PartitionKey, Placement, SortKey, SortKeyType};
use dynashard_testkit::block_on;

use crate::world::{World, code, partition, sort};

fn world(shards: u32) -> World {
    let world = World::new();
    world.lay_out(1, shards, Placement::Xxh64);
    for n in 0..40 {
        world.place(&format!("{n:02}"), 1, shards);
    }
    world
}

fn page(world: &World, query: &Query) -> Result<QueryPage, Error> {
    block_on(world.reader().query(query, PageBudget::UNLIMITED, world.deadline()))
}

fn ordered() -> Query {
    Query { limit: 5, ..Query::all(partition()) }
}

fn parallel() -> Query {
    Query { strategy: Strategy::Parallel, ..ordered() }
}

fn first_cursor(world: &World, query: &Query) -> Option<String> {
    let page = page(world, query).expect("the first page");
    assert!(page.cursor.is_some());
    page.cursor
}

#[test]
fn a_damaged_cursor_is_refused() {
    let world = world(4);
    for query in [ordered(), parallel()] {
        let whole = first_cursor(&world, &query).expect("a cursor");
        let before = world.memory.requests().total();
        for damaged in ["", "?", "AQ", &whole[1..], &whole[..whole.len() - 2], &whole.repeat(2)] {
            let query = Query { cursor: Some(damaged.to_owned()), ..query.clone() };
            assert_eq!(code(page(&world, &query)), Code::BadCursor, "{damaged}");
        }
        assert_eq!(world.memory.requests().total(), before, "nothing is read for it");
    }
}

#[test]
fn a_cursor_of_another_query_is_refused() {
    let world = world(4);
    let other_partition = PartitionKey::new("JFK").expect("a valid partition key");
    for (query, other) in [(ordered(), parallel()), (parallel(), ordered())] {
        let cursor = first_cursor(&world, &query);
        let foreign = [
            other,
            Query { partition: other_partition.clone(), ..query.clone() },
            Query { ascending: false, ..query.clone() },
            Query { range: SortRange::From(sort("00")), ..query.clone() },
        ];
        for foreign in foreign {
            let query = Query { cursor: cursor.clone(), ..foreign };
            assert_eq!(code(page(&world, &query)), Code::CursorMismatch);
        }
        let larger = Query { cursor, limit: 100, ..query };
        page(&world, &larger).expect("the limit may change");
    }
}

#[test]
fn regression_a_forged_cursor_was_sent_to_dynamodb_or_ignored() {
    let world = world(4);
    let number = SortKey::parse("7", SortKeyType::Number).expect("a number");
    let positions = |position: Position| Cursor::Positions {
        generation: Generation::new(1),
        turn: 0,
        positions: vec![position; 4],
    };
    for (query, forged) in [
        (ordered(), Cursor::Watermark(number.clone())),
        (parallel(), positions(Position::After(number))),
        (ordered(), positions(Position::End)),
    ] {
        let cursor = Some(forged.encode(&query));
        assert_eq!(code(page(&world, &Query { cursor, ..query })), Code::BadCursor);
    }
}

#[test]
fn a_cursor_with_too_many_or_too_few_positions_is_refused() {
    let world = world(4);
    for shards in [0, 3, 5] {
        let positions = vec![Position::Start; shards];
        let forged = Cursor::Positions { generation: Generation::new(1), turn: 0, positions };
        let cursor = Some(forged.encode(&parallel()));
        assert_eq!(code(page(&world, &Query { cursor, ..parallel() })), Code::BadCursor);
    }
}

#[test]
fn the_positions_of_an_old_layout_have_expired() {
    let world = world(4);
    let cursor = first_cursor(&world, &parallel());
    world.lay_out(3, 8, Placement::Xxh64);
    let query = Query { cursor, ..parallel() };
    assert_eq!(code(page(&world, &query)), Code::CursorExpired);
    world.lay_out(5, 4, Placement::Xxh64);
    assert_eq!(code(page(&world, &query)), Code::CursorExpired, "though the count is the same");
}

#[test]
fn a_watermark_is_good_for_every_layout() {
    let old = world(4);
    let cursor = first_cursor(&old, &ordered());
    for shards in [1, 2, 16] {
        let new = world(shards);
        let query = Query { cursor: cursor.clone(), limit: 100, ..ordered() };
        let page = page(&new, &query).expect("the rest");
        let found = page.items.iter().map(|(sort, _)| sort.to_string()).collect::<Vec<_>>();
        assert_eq!(found, (5..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    }
}

#[test]
fn a_cursor_stays_good_when_its_item_is_deleted() {
    for query in [ordered(), parallel()] {
        let world = world(4);
        let first = page(&world, &query).expect("the first page");
        for (at, _) in world.memory.contents() {
            if first.items.iter().any(|(sort, _)| *sort == at.sort) {
                world.memory.remove(&at);
            }
        }
        let rest = page(&world, &Query { cursor: first.cursor, limit: 100, ..query });
        assert_eq!(rest.expect("the rest").items.len(), 40 - first.items.len());
    }
}
