//! Reads that the table's replicas answer, too.

use std::collections::BTreeSet;
use std::time::Duration;

use dynashard_core::ports::{Clock, Consistency, StoreError};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    Code, CollectionMetadata, Error, Phase, Reader, Replica, Settings, StoredItem, Throttle,
};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, block_on};

use crate::world::{
    World, code, count, home, in_shard, key, marker, metadata, partition, stored, text_of,
    usual_settings,
};

/// With two replicas, and a collection that nobody has changed.
fn world() -> World {
    let world = World::with(Settings { read_replicas: 2, ..usual_settings() });
    world.lay_out(1, 4, Placement::Xxh64);
    world
}

fn replicas() -> [Replica; 2] {
    let mut replicas = Replica::first(2);
    std::array::from_fn(|_| replicas.next().expect("two of them"))
}

fn get(world: &World, reader: &Reader, sk: &str) -> Result<StoredItem, Error> {
    let got = block_on(reader.get(&key(sk), None, Consistency::Eventual, world.deadline()));
    got.map(|got| got.item)
}

/// Everything, in pages of three.
fn walk(world: &World, reader: &Reader, consistency: Consistency) -> Vec<String> {
    let mut next = Some(Query { limit: 3, consistency, ..Query::all(partition()) });
    let mut read = Vec::new();
    while let Some(query) = next.take() {
        let page = reader.query(&query, PageBudget::UNLIMITED, world.deadline());
        let page = block_on(Box::pin(page)).expect("a page");
        read.extend(page.items.iter().map(|(sort, _)| sort.to_string()));
        next = page.cursor.map(|cursor| Query { cursor: Some(cursor), ..query });
    }
    read
}

#[test]
fn gets_and_queries_are_spread_evenly() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    for _ in 0..300 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&item));
    }
    let of_gets = world.memory.requests();
    assert_eq!(of_gets.gets + of_gets.replica_queries, 300);
    assert!((60..140).contains(&of_gets.gets), "{of_gets:?}");
    for _ in 0..75 {
        assert_eq!(walk(&world, &reader, Consistency::Eventual), ["a"]);
    }
    let of_queries = world.memory.requests();
    let of_replicas = of_queries.replica_queries - of_gets.replica_queries;
    assert!((150..250).contains(&of_replicas), "of 300 pages of shards: {of_queries:?}");
}

#[test]
fn strong_reads_and_batches_ask_the_table() {
    let world = world();
    world.place("a", 1, 4);
    let (reader, item) = (world.reader(), key("a"));
    for _ in 0..20 {
        let strong = reader.get(&item, None, Consistency::Strong, world.deadline());
        block_on(strong).expect("it is there");
        walk(&world, &reader, Consistency::Strong);
        let (keys, eventual) = (vec![item.clone()], Consistency::Eventual);
        let unlimited = PageBudget::UNLIMITED;
        let batch = reader.batch_get(keys, None, eventual, unlimited, world.deadline());
        assert_eq!(block_on(Box::pin(batch)).expect("a batch").items.len(), 1);
    }
    assert_eq!(world.memory.requests().replica_queries, 0);
}

#[test]
fn what_throttles_is_left_alone_for_a_second() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    let at = home("a", 4).partition;
    let [one, two] = replicas();
    world.store.throttle_at(None, at.clone());
    world.store.throttle_at(Some(one), at.clone());
    let before = world.clock.now();
    for _ in 0..50 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&item), "the second one answers");
    }
    assert_eq!(world.clock.now(), before, "nobody has waited");
    let asked = world.store.attempts(Operation::Get) + world.store.attempts(Operation::Query);
    assert!(asked <= 52, "{asked} requests for 50 gets: each of the two has refused once");
    world.clock.advance(Duration::from_secs(2));
    world.store.throttle_at(Some(two), at);
    let error = get(&world, &reader, "a").expect_err("all are full");
    assert!(error.throttle().is_some_and(Throttle::is_of_a_partition), "{error}");
}

#[test]
fn a_replica_that_is_not_there_costs_no_client_anything() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    for replica in replicas() {
        world.store.lose(replica);
    }
    for _ in 0..50 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&item));
        assert_eq!(walk(&world, &reader, Consistency::Eventual), ["a"]);
    }
    assert!(world.store.attempts(Operation::Query) <= 50 * 4 + 2);
    // They are refused, and not what the client asked for.
    world.store.throttle(home("a", 4).partition);
    assert_eq!(code(get(&world, &reader, "a")), Code::Throttled);
}

#[test]
fn regression_a_request_that_nobody_can_answer_kept_others_from_the_replicas() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    let rejected = || Fault::Refuse(StoreError::Rejected("nobody can answer it".to_owned()));
    for _ in 0..20 {
        world.store.script(Operation::Query, [rejected(), rejected()]);
        world.store.script(Operation::Get, [rejected()]);
        assert_eq!(code(get(&world, &reader, "a")), Code::RequestRejected);
        world.store.clear(Operation::Query);
        world.store.clear(Operation::Get);
    }
    for _ in 0..30 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&item));
    }
    assert!(world.memory.requests().replica_queries > 0);
}

#[test]
fn the_table_is_asked_for_what_a_replica_does_not_have() {
    let world = world();
    for replica in replicas() {
        world.memory.hold_back(replica);
    }
    let reader = world.reader();
    let item = world.place("a", 1, 4);
    for _ in 0..20 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&item), "it was just created");
        assert_eq!(code(get(&world, &reader, "none")), Code::ItemNotFound);
    }
    assert!(world.memory.requests().replica_queries > 0);
    // What it has may be old, as of any eventually consistent read.
    for replica in replicas() {
        world.memory.hold_back(replica);
    }
    world.memory.place(&home("a", 4), stored("changed", 1));
    let seen = (0..20).map(|_| text_of(&get(&world, &reader, "a").expect("it is there")));
    let seen = seen.collect::<BTreeSet<_>>();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a", "changed"]);
}

/// Invariant I5: what has arrived at a new home must not be missing, nor what was replaced at an old one come back.
#[test]
fn replicas_that_lag_behind_a_change_are_not_asked_before_they_have_caught_up() {
    let world = world();
    let keys = (0..30).map(|n| format!("{n:02}")).collect::<Vec<_>>();
    for sk in &keys {
        world.place(sk, 1, 4);
    }
    for replica in replicas() {
        world.memory.hold_back(replica);
    }
    let reader = world.reader();
    let now_secs = world.clock.now().epoch_secs();
    let phase = Phase::Forward { from: count(4), to: count(8) };
    let begun = CollectionMetadata { phase, ..metadata(2, 4, Placement::Xxh64) };
    world.memory.place_metadata(begun);
    let read_all = |reader: &Reader| {
        assert_eq!(walk(&world, reader, Consistency::Eventual), keys);
        for sk in &keys {
            get(&world, reader, sk).expect("it is there");
        }
        world.memory.requests().replica_queries
    };
    assert_eq!(read_all(&reader), 0, "a change runs");
    world.reshard(2, 8);
    let closed = CollectionMetadata {
        last_updated_secs: now_secs,
        rev: 5,
        ..metadata(2, 8, Placement::Xxh64)
    };
    world.memory.place_metadata(CollectionMetadata { cleanup_pending: true, ..closed.clone() });
    world.clock.advance(Duration::from_mins(10));
    assert_eq!(read_all(&world.reader()), 0, "markers are to be removed");
    world.memory.place_metadata(CollectionMetadata { rev: 6, ..closed });
    assert_eq!(read_all(&world.reader()), 0, "ten minutes are not enough");
    for replica in replicas() {
        world.memory.catch_up(replica);
    }
    world.clock.advance(Duration::from_secs(301));
    assert!(read_all(&world.reader()) > 0, "they have what has moved");
}

#[test]
fn a_reader_that_meets_what_is_ahead_at_a_replica_looks_again() {
    let world = world();
    let reader = world.reader();
    world.place("a", 1, 4);
    get(&world, &reader, "a").expect("the metadata is known");
    world.memory.place_metadata(CollectionMetadata { rev: 9, ..metadata(3, 4, Placement::Xxh64) });
    let ahead = world.place("a", 3, 4);
    let before = world.memory.requests().replica_queries;
    for _ in 0..10 {
        assert_eq!(get(&world, &reader, "a").as_ref(), Ok(&ahead));
    }
    assert!(world.memory.requests().replica_queries > before, "none was asked");
}

/// All shards but one do not have the item, so each of them was asked twice, at a replica and at the table.
#[test]
fn regression_gets_of_a_random_collection_asked_replicas_in_vain() {
    let world = world();
    world.lay_out(1, 4, Placement::Random);
    world.memory.place(&in_shard("a", 2), stored("a", 1));
    let reader = world.reader();
    for _ in 0..20 {
        get(&world, &reader, "a").expect("it is there");
    }
    assert_eq!(world.memory.requests().replica_queries, 0);
}

#[test]
fn what_lies_where_it_does_not_belong_no_replica_brings_back() {
    let world = world();
    let reader = world.reader();
    world.place("a", 1, 4);
    let elsewhere = (0..4).map(|n| in_shard("a", n)).find(|at| *at != home("a", 4));
    let elsewhere = elsewhere.expect("three of them");
    world.memory.place(&elsewhere, stored("copy", 1));
    world.memory.place(&home("b", 4), marker(1));
    for _ in 0..20 {
        assert_eq!(text_of(&get(&world, &reader, "a").expect("it is there")), "a");
        assert_eq!(code(get(&world, &reader, "b")), Code::ItemNotFound);
        assert_eq!(walk(&world, &reader, Consistency::Eventual), ["a"]);
    }
}
