//! Reads of single items and of metadata.

use std::time::Duration;

use dynashard_core::ports::{Consistency, StoreError};
use dynashard_core::{Code, Error, Reader, StoredItem};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, Requests, block_on};

use crate::world::{
    LEASE, World, code, home, in_shard, in_shard_of, key, marker, metadata, partition, resharding,
    shard, shard_of, stored, text_of,
};

fn get(world: &World, reader: &Reader, sk: &str) -> Result<StoredItem, Error> {
    let got = block_on(reader.get(&key(sk), None, Consistency::Strong, world.deadline()));
    got.map(|got| got.item)
}

#[test]
fn a_get_is_one_request_to_the_items_home() {
    let world = World::new();
    world.lay_out(1, 16, Placement::Xxh64);
    let reader = world.reader();
    for sk in ["a", "b", "c"] {
        let item = world.place(sk, 1, 16);
        assert_eq!(get(&world, &reader, sk), Ok(item));
    }
    let expected = Requests {
        gets: 3,
        directory_gets: 1,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected);
}

/// Invariant I16.
#[test]
fn only_live_items_at_home_are_found() {
    let world = World::new();
    let reader = world.reader();
    assert_eq!(code(get(&world, &reader, "a")), Code::ItemNotFound, "no collection");
    world.lay_out(2, 4, Placement::Xxh64);
    assert_eq!(code(get(&world, &reader, "a")), Code::ItemNotFound, "no item");
    for generation in [1, 2] {
        world.memory.place(&home("a", 4), marker(generation));
        assert_eq!(code(get(&world, &reader, "a")), Code::ItemNotFound, "a marker");
    }
    let elsewhere = (0..4).map(|n| in_shard("a", n)).find(|at| *at != home("a", 4));
    world.memory.remove(&home("a", 4));
    world.memory.place(&elsewhere.expect("three of them"), stored("misplaced", 2));
    assert_eq!(code(get(&world, &reader, "a")), Code::ItemNotFound, "not at home");
}

#[test]
fn an_item_that_is_ahead_makes_the_reader_look_again() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let reader = world.reader();
    world.place("a", 1, 1);
    get(&world, &reader, "a").expect("warms the cache");

    // The collection was resharded; every old home holds a marker.
    world.lay_out(3, 4, Placement::Xxh64);
    for sk in ["a", "b", "c", "d"] {
        world.memory.place(&home(sk, 1), marker(3));
        let item = world.place(sk, 3, 4);
        assert_eq!(get(&world, &reader, sk), Ok(item));
    }
    assert_eq!(world.memory.requests().metadata_gets, 2);
}

#[test]
fn metadata_that_stays_behind_is_reported() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world.place("a", 2, 1);
    assert_eq!(code(get(&world, &world.reader(), "a")), Code::MetadataBehind);
    let reads = world.memory.requests().metadata_gets;
    assert!((2..=7).contains(&reads), "{reads} metadata reads");
}

#[test]
fn what_was_read_after_the_lease_counts_if_nothing_has_changed() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let reader = world.reader();
    let item = world.place("a", 1, 1);
    world.store.script(Operation::Get, [Fault::after(world.passing(LEASE))]);
    assert_eq!(get(&world, &reader, "a"), Ok(item.clone()));
    let expected = Requests {
        gets: 1,
        directory_gets: 2,
        segment_gets: 1,
        metadata_gets: 1,
        ..Requests::default()
    };
    assert_eq!(world.memory.requests(), expected);

    let (memory, pass) = (world.memory.clone(), world.passing(LEASE));
    let reshard = move || {
        pass();
        memory.place_metadata(metadata(2, 4, Placement::Xxh64));
        memory.place(&home("a", 4), stored("a", 2));
    };
    world.store.script(Operation::Get, [Fault::after(reshard)]);
    let moved = get(&world, &reader, "a").expect("it is read again");
    assert_eq!((moved.generation.get(), world.memory.requests().gets), (2, 3));
}

#[test]
fn a_throttled_read_is_sent_again_until_the_deadline() {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    let reader = world.reader();
    let item = world.place("a", 1, 1);
    world.store.script(Operation::Get, [Fault::throttle(), Fault::throttle()]);
    assert_eq!(get(&world, &reader, "a"), Ok(item));

    world.store.throttle(shard(0));
    assert_eq!(code(get(&world, &reader, "a")), Code::Throttled);
    world.store.relieve(&shard(0));
    world.store.script(Operation::Get, [Fault::Lose]);
    assert_eq!(code(get(&world, &reader, "a")), Code::Unavailable);
}

#[test]
fn faults_that_another_attempt_would_not_cure_are_told_at_once() {
    let why = || "why".to_owned();
    for (error, expected) in [
        (StoreError::Corrupt(why()), Code::CorruptData),
        (StoreError::Misconfigured(why()), Code::Internal),
        (StoreError::Rejected(why()), Code::RequestRejected),
    ] {
        for operation in [Operation::MetadataGet, Operation::Get] {
            let world = World::new();
            world.lay_out(1, 1, Placement::Xxh64);
            world.store.script(operation, [Fault::Refuse(error.clone())]);
            assert_eq!(code(get(&world, &world.reader(), "a")), expected);
            assert_eq!(world.store.attempts(operation), 1);
        }
    }
}

#[test]
fn an_item_of_a_random_collection_is_looked_for_in_every_shard() {
    let world = World::random();
    world.lay_out(1, 8, Placement::Random);
    let reader = world.reader();
    for n in 1..=8 {
        let sk = n.to_string();
        world.memory.place(&in_shard_of(Placement::Random, &sk, n), stored(&sk, 1));
        assert_eq!(text_of(&get(&world, &reader, &sk).expect("the item")), sk);
    }
    assert_eq!(code(get(&world, &reader, "9")), Code::ItemNotFound);
    assert_eq!(world.memory.requests().gets, 9 * 8);

    world.store.throttle(shard_of(Placement::Random, 8));
    assert_eq!(code(get(&world, &reader, "9")), Code::Throttled, "it may be in the eighth");
}

/// It was read once a lease, as for items: whoever had asked for another count saw the old one.
#[test]
fn regression_a_collection_was_shown_as_it_was_before_the_last_change() {
    let world = World::new();
    let reader = world.reader();
    let collection = || block_on(reader.collection(&partition(), world.deadline()));
    assert_eq!(code(collection()), Code::CollectionNotFound);
    world.lay_out(1, 4, Placement::Jump);
    assert_eq!(collection(), Ok((metadata(1, 4, Placement::Jump), None)));
    for metadata in resharding() {
        world.memory.place_metadata(metadata.clone());
        assert_eq!(collection(), Ok((metadata, None)), "it can be looked at in every phase");
    }
}

#[test]
fn items_are_read_with_metadata_that_is_read_once() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Jump);
    let reader = world.reader();
    for _ in 0..10 {
        assert_eq!(code(get(&world, &reader, "a")), Code::ItemNotFound);
        world.clock.advance(Duration::from_secs(1));
    }
    let Requests { directory_gets, metadata_gets, .. } = world.memory.requests();
    assert_eq!((directory_gets, metadata_gets), (3, 1), "at first, after four and eight seconds");
}
