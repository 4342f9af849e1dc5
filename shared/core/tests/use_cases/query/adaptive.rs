//! How much an ordered query reads for what it returns.

use std::time::Duration;

use dynashard_core::ports::SortRange;
use dynashard_core::query::{Query, QueryPage};
use dynashard_core::{CollectionMetadata, Phase};
use dynashard_keys::Placement;

use super::pages::page;
use super::reference::GENERATION;
use crate::world::{LEASE, World, count, home, in_shard_of, marker, metadata, partition, stored};

/// What a walk over a whole query came to.
struct Walk {
    pages: Vec<QueryPage>,
    requests: u64,
}

impl Walk {
    fn of(world: &World, query: &Query) -> Self {
        let reader = world.reader();
        let before = world.memory.requests().queries;
        let mut query = query.clone();
        let mut pages = Vec::new();
        loop {
            let page = page(world, &reader, &query).expect("a page");
            query.cursor.clone_from(&page.cursor);
            pages.push(page);
            if query.cursor.is_none() {
                break;
            }
        }
        Self { pages, requests: world.memory.requests().queries - before }
    }

    fn returned(&self) -> usize {
        self.pages.iter().map(|page| page.items.len()).sum()
    }

    /// Items read for each that was returned.
    fn overhead(&self) -> f64 {
        let read = self.pages.iter().map(|page| page.items_read).sum::<u64>();
        let of = |n: u64| f64::from(u32::try_from(n).expect("small"));
        of(read) / of(u64::try_from(self.returned()).expect("small"))
    }
}

fn spread(items: usize, shards: u32) -> World {
    let world = World::new();
    world.lay_out(GENERATION, shards, Placement::Xxh64);
    for n in 0..items {
        world.place(&format!("{n:06}"), GENERATION, shards);
    }
    world
}

#[test]
fn a_whole_walk_reads_less_than_two_items_for_each_that_it_returns() {
    let world = spread(20_000, 16);
    for ascending in [true, false] {
        let walk = Walk::of(&world, &Query { ascending, ..Query::all(partition()) });
        assert_eq!(walk.returned(), 20_000);
        assert!(walk.overhead() <= 2.0, "{}", walk.overhead());
        // The first round asks all shards; a second one, of one or two shards, is not always needed.
        let pages = u64::try_from(walk.pages.len()).expect("small");
        assert!(walk.requests < pages * 18, "{} requests for {pages} pages", walk.requests);
    }
}

#[test]
fn large_pages_read_still_less_in_vain() {
    let world = spread(20_000, 16);
    let walk = Walk::of(&world, &Query { limit: 1_000, ..Query::all(partition()) });
    assert!(walk.overhead() <= 1.35, "{}", walk.overhead());
}

/// A collection in which one shard holds all of a range, as after a placement that was unlucky.
#[test]
fn a_range_that_lies_in_one_shard_is_not_read_in_small_steps() {
    let world = World::random();
    world.lay_out(GENERATION, 16, Placement::Random);
    for n in 0..1_000 {
        world.memory.place(
            &in_shard_of(Placement::Random, &format!("hot {n:04}"), 5),
            stored("hot", GENERATION),
        );
    }
    let query = Query { range: SortRange::BeginsWith("hot".to_owned()), ..Query::all(partition()) };
    let walk = Walk::of(&world, &query);
    assert_eq!(walk.returned(), 1_000);
    assert!(walk.overhead() <= 1.1, "{}", walk.overhead());
    // All shards are asked once, and the one that has something for 24, 48 and the rest.
    assert!(walk.requests <= 19 * 11, "{} requests", walk.requests);
}

/// Runs of neighbours in one shard, as where every writer has a shard of its own for a while.
#[test]
fn runs_of_neighbours_in_a_shard_are_followed_in_steps_that_double() {
    let world = World::random();
    world.lay_out(GENERATION, 16, Placement::Random);
    for n in 0..10_000_u32 {
        let shard = 1 + n / 25 % 16;
        world.memory.place(
            &in_shard_of(Placement::Random, &format!("{n:06}"), shard),
            stored("in a run", GENERATION),
        );
    }
    let walk = Walk::of(&world, &Query::all(partition()));
    assert_eq!(walk.returned(), 10_000);
    // What a run ends in the middle of is read in vain, and no more than was of use before.
    assert!(walk.overhead() <= 3.0, "{}", walk.overhead());
}

#[test]
fn few_items_are_read_once_and_no_page_is_empty() {
    let world = spread(20, 16);
    let query =
        Query { range: SortRange::BeginsWith("00001".to_owned()), ..Query::all(partition()) };
    let walk = Walk::of(&world, &query);
    assert_eq!((walk.pages.len(), walk.returned(), walk.requests), (1, 10, 16));
    assert!((walk.overhead() - 1.0).abs() < 1e-9, "{}", walk.overhead());
}

/// Half of what the old shards hold are markers until the rebalancer has removed them.
#[test]
fn markers_of_a_closed_reshard_do_not_make_for_many_rounds() {
    let world = spread(4_000, 16);
    world.reshard(GENERATION + 1, 32);
    let walk = Walk::of(&world, &Query { limit: 500, ..Query::all(partition()) });
    assert_eq!(walk.returned(), 4_000);
    let pages = u64::try_from(walk.pages.len()).expect("small");
    assert!(walk.requests <= pages * 32 * 2, "{} requests for {pages} pages", walk.requests);
}

/// A collection whose items move, those for which `has_moved` says so already.
fn moving(items: usize, [from, to]: [u32; 2], has_moved: impl Fn(usize) -> bool) -> World {
    let world = World::new();
    let next = GENERATION + 1;
    let phase = Phase::Move { from: count(from), to: count(to) };
    let stable = metadata(next, to, Placement::Xxh64);
    world.memory.place_metadata(CollectionMetadata { phase, ..stable });
    for n in 0..items {
        let sk = format!("{n:06}");
        let (old, new) = (home(&sk, from), home(&sk, to));
        if old != new && has_moved(n) {
            world.memory.place(&old, marker(next));
            world.memory.place(&new, stored(&sk, next));
        } else {
            world.memory.place(&old, stored(&sk, GENERATION));
        }
    }
    world
}

/// Each window read the destinations far beyond the sources, and the sources twice: up to 6.9 items for one
/// that it returned.
#[test]
fn regression_a_walk_while_items_moved_read_many_times_what_it_returned() {
    const ITEMS: usize = 10_000;
    type HasMoved = fn(usize) -> bool;
    let cases: [(&str, HasMoved); 4] = [
        ("none has moved", |_| false),
        ("the first half has", |n| n < ITEMS / 2),
        ("every second has", |n| n % 2 == 0),
        ("all have", |_| true),
    ];
    // A single source is read up to twice as a whole. Where the count shrinks, few pilots tell of many.
    for (counts, most) in [([4, 16], 2.2), ([8, 16], 2.2), ([16, 4], 2.4), ([1, 4], 2.4)] {
        for (case, has_moved) in cases {
            let world = moving(ITEMS, counts, has_moved);
            for ascending in [true, false] {
                let query = Query { ascending, limit: 100, ..Query::all(partition()) };
                let walk = Walk::of(&world, &query);
                assert_eq!(walk.returned(), ITEMS, "{counts:?}: {case}");
                let overhead = walk.overhead();
                assert!(overhead <= most, "{counts:?}: {case}: {overhead} read for one returned");
            }
        }
    }
}

/// A count was set, and then everything was written: nothing had to move, and of the only source, whose items lie sixteen
/// times as far apart as those of the collection, as many were read as of all destinations together.
#[test]
fn regression_a_walk_of_a_collection_that_was_just_made_read_its_first_shard_far_ahead() {
    const ITEMS: usize = 8_000;
    for (from, to) in [(1, 16), (1, 8), (1, 4)] {
        let world = World::new();
        let next = GENERATION + 1;
        let phase = Phase::Move { from: count(from), to: count(to) };
        let stable = metadata(next, to, Placement::Xxh64);
        world.memory.place_metadata(CollectionMetadata { phase, ..stable });
        for n in 0..ITEMS {
            world.place(&format!("{n:06}"), next, to);
        }
        for ascending in [true, false] {
            let query = Query { ascending, limit: 100, ..Query::all(partition()) };
            let walk = Walk::of(&world, &query);
            assert_eq!(walk.returned(), ITEMS);
            let overhead = walk.overhead();
            assert!(overhead <= 2.0, "{from} to {to}: {overhead} read for one returned");
            let pages = u64::try_from(walk.pages.len()).expect("small");
            let most = pages * u64::from(to + 2);
            assert!(walk.requests <= most, "{from} to {to}: {} of {most}", walk.requests);
        }
    }
}

/// A window grew with each that came to nothing, and then its look-ups took longer than a lease: all of them were
/// thrown away, and paid for.
#[test]
fn regression_a_window_of_deleted_items_was_looked_up_for_longer_than_a_lease() {
    const DELETED: usize = 16_000;
    let world = moving(DELETED, [16, 32], |_| true);
    for n in 0..DELETED {
        let sk = format!("{n:06}");
        world.memory.remove(&home(&sk, 32));
    }
    let markers = (0..DELETED).map(|n| format!("{n:06}"));
    let markers = markers.filter(|sk| home(sk, 16) != home(sk, 32)).count();
    world.store.delay(&world.clock, Duration::from_millis(30));
    let before = world.memory.requests().gets_of_both;
    let walk = Walk::of(&world, &Query { limit: 1_000, ..Query::all(partition()) });
    assert_eq!(walk.returned(), 0);
    let lookups = world.memory.requests().gets_of_both - before;
    assert_eq!(lookups, u64::try_from(markers).expect("small"), "each is looked up once");
}

/// A window asks many shards one wave after the other. Where that took longer than a lease, all of it was thrown away and read again
/// until the deadline, though nothing had changed, and no page came for as long as the reshard went on.
#[test]
fn regression_a_window_that_took_longer_than_a_lease_never_came() {
    const ITEMS: usize = 2_000;
    let world = moving(ITEMS, [16, 32], |_| true);
    let before = world.memory.requests().queries;
    world.store.delay(&world.clock, LEASE / 3);
    let first = page(&world, &world.reader(), &Query { limit: 100, ..Query::all(partition()) });
    assert!(first.expect("a page").items.len() > 50);
    let queries = world.memory.requests().queries - before;
    assert!(queries <= 2 * (16 + 32), "{queries} queries");
}
