//! What each strategy promises beside the items: whose turn it is, where it goes on, what it costs.

use std::collections::BTreeMap;

use dynashard_core::query::cursor::{Cursor, Position};
use dynashard_core::query::{MAX_OPEN_SHARDS, PageBudget, Query, QueryPage, Strategy};
use dynashard_keys::{Placement, SortKeyType};
use dynashard_testkit::block_on;

use super::pages::{names, page};
use super::reference::GENERATION;
use crate::world::{World, home, in_shard, marker, partition, shard_at, stored};

fn by(strategy: Strategy, limit: u32) -> Query {
    Query { strategy, limit, ..Query::all(partition()) }
}

/// A collection of this many items, named by their numbers.
fn collection(items: usize, shards: u32) -> World {
    let world = World::new();
    world.lay_out(GENERATION, shards, Placement::Xxh64);
    for n in 0..items {
        world.place(&format!("{n:05}"), GENERATION, shards);
    }
    world
}

fn shard_of(name: &str, shards: u32) -> u32 {
    shard_at(Placement::Xxh64, &home(name, shards).partition).get()
}

/// All pages of a query, each read by another environment.
fn pages(world: &World, mut query: Query) -> Vec<QueryPage> {
    let mut pages = Vec::new();
    loop {
        let page = page(world, &world.reader(), &query).expect("a page");
        query.cursor.clone_from(&page.cursor);
        pages.push(page);
        if query.cursor.is_none() {
            return pages;
        }
    }
}

fn decoded(page: &QueryPage, query: &Query) -> (usize, Vec<Position>) {
    let text = page.cursor.as_deref().expect("a cursor");
    match Cursor::decode(text, query, SortKeyType::String).expect("our own cursor") {
        Cursor::Positions { turn, positions, .. } => (turn, positions),
        Cursor::Watermark(key) => panic!("a watermark at {key}"),
    }
}

#[test]
fn round_robin_takes_a_page_of_each_shard_in_turn() {
    let shards = 8;
    let world = collection(800, shards);
    let pages = pages(&world, by(Strategy::RoundRobin, 10));
    // Each shard has some hundred items, so seven rounds are whole.
    for (turn, page) in (0..).zip(&pages).take(7 * 8) {
        let names = names(page);
        assert_eq!(names.len(), 10);
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| shard_of(name, shards) == turn % shards), "{names:?}");
    }
    let read = pages.iter().map(|page| page.items_read).sum::<u64>();
    assert_eq!(read, 800, "nothing is read in vain");
}

#[test]
fn round_robin_fills_a_page_from_the_shards_whose_turn_is_next() {
    let world = collection(80, 8);
    let query = by(Strategy::RoundRobin, 25);
    let first = page(&world, &world.reader(), &query).expect("a page");
    let shards = names(&first).iter().map(|name| shard_of(name, 8)).collect::<Vec<_>>();
    assert_eq!(shards.len(), 25);
    assert!(shards.is_sorted(), "{shards:?}");
    let (turn, positions) = decoded(&first, &query);
    let last = usize::try_from(shards[24]).expect("small");
    assert_eq!(turn, (last + 1) % 8, "the shard that filled the page had its turn");
    assert!(positions[..last].iter().all(|position| *position == Position::End));
}

#[test]
fn sequential_reads_shard_after_shard_and_remembers_one_position() {
    let shards = 8;
    let world = collection(800, shards);
    let query = by(Strategy::Sequential, 30);
    let pages = pages(&world, query.clone());
    let all = pages.iter().flat_map(names).collect::<Vec<_>>();
    let places = all.iter().map(|name| (shard_of(name, shards), name)).collect::<Vec<_>>();
    assert_eq!(places.len(), 800);
    assert!(places.is_sorted());
    assert!(pages[..pages.len() - 1].iter().all(|page| page.items.len() == 30));
    for page in &pages[..pages.len() - 1] {
        let (_, positions) = decoded(page, &query);
        let under_way = positions.iter().filter(|at| matches!(at, Position::After(_))).count();
        assert!(under_way <= 1, "{positions:?}");
        assert!(page.cursor.as_ref().is_some_and(|cursor| cursor.len() <= 40), "{page:?}");
    }
    let read = pages.iter().map(|page| page.items_read).sum::<u64>();
    assert_eq!(read, 800, "nothing is read in vain");
}

#[test]
fn parallel_reads_as_many_shards_at_once_as_it_can_and_then_the_next() {
    let world = collection(4_000, 256);
    let query = by(Strategy::Parallel, 320);
    let before = world.memory.requests().queries;
    let first = page(&world, &world.reader(), &query).expect("a page");
    // Few shards have less than their share of ten.
    assert!((290..=320).contains(&first.items.len()), "{} items", first.items.len());
    assert_eq!(world.memory.requests().queries - before, 32);
    let shards = names(&first).iter().map(|name| shard_of(name, 256)).collect::<Vec<_>>();
    let mut brought = BTreeMap::<u32, u32>::new();
    for shard in shards {
        *brought.entry(shard).or_default() += 1;
    }
    assert!(brought.keys().copied().eq(0..32), "{brought:?}");
    assert!(brought.values().all(|items| *items <= 10), "{brought:?}");
    let rest = pages(&world, query);
    let read = rest.iter().map(|page| page.items_read).sum::<u64>();
    assert_eq!(read, 4_000, "nothing is read in vain");
    let requests = world.memory.requests().queries;
    assert!(requests < 600, "{requests} requests for 256 shards of some 16 items");
}

#[test]
fn of_many_shards_a_cursor_holds_the_positions_of_some() {
    let shards = 1_024;
    for strategy in [Strategy::Parallel, Strategy::RoundRobin, Strategy::Sequential] {
        let world = collection(4_096, shards);
        let query = by(strategy, 1);
        let mut next = query.clone();
        let mut found = 0;
        let mut most = 0;
        // The first turns, and then larger pages to the end.
        loop {
            let page = page(&world, &world.reader(), &next).expect("a page");
            found += page.items.len();
            next.cursor.clone_from(&page.cursor);
            if page.cursor.is_none() {
                break;
            }
            let (_, positions) = decoded(&page, &query);
            let open = positions.iter().filter(|at| matches!(at, Position::After(_))).count();
            most = most.max(open);
            if found > 400 {
                next.limit = 100;
            }
        }
        assert_eq!(found, 4_096, "{strategy}");
        assert!(most <= MAX_OPEN_SHARDS, "{strategy}: {most} positions");
    }
}

#[test]
fn markers_are_read_over_in_growing_steps() {
    for strategy in Strategy::ALL {
        let world = World::new();
        world.lay_out(GENERATION, 1, Placement::Xxh64);
        for n in 0..4_000 {
            world.memory.place(&in_shard(&format!("{n:05}"), 0), marker(GENERATION));
        }
        world.memory.place(&in_shard("behind", 0), stored("behind", GENERATION));
        let query = by(strategy, 1);
        let found = pages(&world, query).iter().flat_map(names).collect::<Vec<_>>();
        assert_eq!(found, ["behind"], "{strategy}");
        let requests = world.memory.requests().queries;
        assert!(requests < 20, "{strategy}: {requests} requests");
    }
}

#[test]
fn a_run_of_markers_that_takes_longer_than_a_request_is_passed_page_by_page() {
    for strategy in Strategy::ALL {
        let world = World::new();
        world.lay_out(GENERATION, 1, Placement::Xxh64);
        for n in 0..1_000 {
            world.memory.place(&in_shard(&format!("{n:05}"), 0), marker(GENERATION));
        }
        world.memory.place(&in_shard("behind", 0), stored("behind", GENERATION));
        world.memory.split_pages(10, usize::MAX);
        let reader = world.reader();
        let mut query = by(strategy, 10);
        let mut found = Vec::new();
        let mut empty = 0;
        loop {
            // Each request for a page takes a second, and each page has ten.
            let slow = (0..100).map(|_| dynashard_testkit::Fault::before(world.passing(SECOND)));
            world.store.script(dynashard_testkit::Operation::Query, slow);
            let page = block_on(reader.query(
                &query,
                PageBudget::UNLIMITED,
                world.deadline_in(SECOND * 10),
            ));
            let page = page.expect("a page");
            found.extend(names(&page));
            empty += u32::from(page.items.is_empty());
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                break;
            }
            assert!(empty < 30, "{strategy}: it does not come further");
        }
        assert_eq!(found, ["behind"], "{strategy}");
        assert!(empty > 3, "{strategy}: {empty} empty pages");
    }
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);
