//! Reads that are shown what others have read.

use std::time::Duration;

use dynashard_core::ports::{Consistency, StoreError};
use dynashard_core::{
    Attributes, Code, Error, Fields, Got, ItemCacheLimits, Reader, Settings, StoredItem, Throttle,
};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, block_on};
use futures_util::future::{Either, join, join_all, select};

use crate::world::{World, code, home, key, stored, text_of, usual_settings};

const TERM: Duration = Duration::from_secs(10);

/// A second less.
const NEARLY: Duration = Duration::from_secs(9);

fn world() -> World {
    world_of(1 << 20)
}

/// That keeps items in so many bytes.
fn world_of(bytes: u64) -> World {
    let item_cache = Some(ItemCacheLimits { term: TERM, bytes });
    let world = World::with(Settings { item_cache, ..usual_settings() });
    world.lay_out(1, 4, Placement::Xxh64);
    world
}

fn get(world: &World, reader: &Reader, sk: &str) -> Result<Got, Error> {
    block_on(reader.get(&key(sk), None, Consistency::Eventual, world.deadline()))
}

/// Gets of one item, all of which come before the first is answered.
fn gets_at_once(world: &World, reader: &Reader, count: usize) -> Vec<Result<Got, Error>> {
    world.store.delay(&world.clock, Duration::from_millis(20));
    let key = key("a");
    let get = |_| reader.get(&key, None, Consistency::Eventual, world.deadline());
    block_on(join_all((0..count).map(get)))
}

fn gets(world: &World) -> u64 {
    world.memory.requests().gets
}

#[test]
fn a_thousand_readers_of_one_item_make_one_request() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    let got = gets_at_once(&world, &reader, 1_000).into_iter().collect::<Result<Vec<_>, _>>();
    let got = got.expect("all are answered");
    assert_eq!(gets(&world), 1);
    assert!(got.iter().all(|got| got.item == item));
    let paid = got.iter().filter(|got| got.items_read > 0 && got.consumed_rcu > 0.0);
    assert_eq!(paid.count(), 1, "one has paid for all");
}

#[test]
fn an_item_is_shown_as_it_was_for_the_term_and_no_longer() {
    let world = world();
    let before = world.place("a", 1, 4);
    let reader = world.reader();
    assert_eq!(get(&world, &reader, "a").expect("it is there").age, Some(Duration::ZERO));
    world.memory.place(&home("a", 4), stored("changed", 1));
    world.clock.advance(NEARLY);
    let kept = get(&world, &reader, "a").expect("it is kept");
    assert_eq!((kept.item, kept.age), (before, Some(NEARLY)));
    world.clock.advance(Duration::from_secs(1));
    let anew = get(&world, &reader, "a").expect("it is there");
    assert_eq!((text_of(&anew.item).as_str(), gets(&world)), ("changed", 2));
    // The environment was frozen, and its monotonic clock stood still.
    world.memory.place(&home("a", 4), stored("again", 1));
    world.clock.advance_wall(TERM);
    assert_eq!(text_of(&get(&world, &reader, "a").expect("it is there").item), "again");
}

#[test]
fn a_strong_read_passes_it_by() {
    let world = world();
    world.place("a", 1, 4);
    let reader = world.reader();
    get(&world, &reader, "a").expect("it is kept now");
    world.memory.place(&home("a", 4), stored("changed", 1));
    let strong = block_on(reader.get(&key("a"), None, Consistency::Strong, world.deadline()));
    let strong = strong.expect("it is there");
    assert_eq!((text_of(&strong.item).as_str(), strong.age), ("changed", None));
    assert_eq!(get(&world, &reader, "a").expect("it is kept").item, stored("a", 1), "still");
}

#[test]
fn nothing_is_kept_where_nobody_has_asked_for_it() {
    let world = World::new();
    world.lay_out(1, 4, Placement::Xxh64);
    world.place("a", 1, 4);
    let reader = world.reader();
    for _ in 0..2 {
        assert_eq!(get(&world, &reader, "a").expect("it is there").age, None);
    }
    assert_eq!(gets(&world), 2);
}

#[test]
fn what_is_not_there_is_kept_too_and_a_part_of_an_item_is_cut_out_of_it() {
    let world = world();
    let reader = world.reader();
    for _ in 0..2 {
        assert_eq!(code(get(&world, &reader, "none")), Code::ItemNotFound);
    }
    assert_eq!(gets(&world), 1);
    let whole = world.place("a", 1, 4);
    let fields = Fields::new(["other".to_owned()]).expect("fields");
    let key = key("a");
    let part = reader.get(&key, Some(&fields), Consistency::Eventual, world.deadline());
    assert_eq!(
        block_on(part).expect("it is there").item,
        StoredItem { attributes: Attributes::new(), ..whole.clone() }
    );
    assert_eq!(get(&world, &reader, "a").expect("it is kept").item, whole, "whole");
    assert_eq!(gets(&world), 2);
}

#[test]
fn a_failure_is_shared_by_those_who_wait_and_kept_for_nobody() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    let rejected = || Fault::Refuse(StoreError::Rejected("it is told so".to_owned()));
    world.store.script(Operation::Get, [rejected()]);
    let got = gets_at_once(&world, &reader, 10);
    assert!(got.into_iter().all(|got| code(got) == Code::RequestRejected));
    assert_eq!(world.store.attempts(Operation::Get), 1);
    assert_eq!(get(&world, &reader, "a").expect("it is read again").item, item);
}

#[test]
fn whoever_waits_reads_in_the_place_of_one_that_gave_up() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    world.store.delay(&world.clock, Duration::from_millis(20));
    let key = key("a");
    let get = || Box::pin(reader.get(&key, None, Consistency::Eventual, world.deadline()));
    let (first, second) = (get(), get());
    // The first one is polled first, so it is the one who reads.
    let gives_up = async {
        let pause = Box::pin(world.pause(Duration::from_millis(10)));
        // What is left of the first is dropped here.
        matches!(select(first, pause).await, Either::Right(_))
    };
    let (has_given_up, got) = block_on(join(gives_up, second));
    assert!(has_given_up, "it had no answer yet");
    assert_eq!(got.expect("it is there").item, item);
}

#[test]
fn regression_who_had_time_failed_with_one_that_had_none() {
    let world = world();
    let item = world.place("a", 1, 4);
    let reader = world.reader();
    get(&world, &reader, "known").expect_err("only the metadata is known now");
    world.store.delay(&world.clock, Duration::from_millis(20));
    let key = key("a");
    let get = |deadline| Box::pin(reader.get(&key, None, Consistency::Eventual, deadline));
    let hurried = get(world.deadline_in(Duration::from_millis(10)));
    let (hurried, patient) = block_on(join(hurried, get(world.deadline())));
    assert_eq!(code(hurried), Code::Unavailable);
    assert_eq!(patient.expect("it had time").item, item);
}

/// A walk over items of which each is read once leaves what is popular where it is.
#[test]
fn items_that_are_read_once_take_the_place_of_none_that_is_popular() {
    let world = world_of(64 << 10);
    world.place("popular", 1, 4);
    let reader = world.reader();
    for n in 0..2_000 {
        let sk = format!("{n:04}");
        world.place(&sk, 1, 4);
        get(&world, &reader, &sk).expect("it is there");
        get(&world, &reader, "popular").expect("it is there");
    }
    assert_eq!(gets(&world), 2_001, "the popular one once");
    for n in 0..2_000 {
        get(&world, &reader, &format!("{n:04}")).expect("it is there");
    }
    assert!(gets(&world) > 3_500, "few of the others were kept");
}

#[test]
fn an_item_that_is_kept_costs_no_partition_anything() {
    let world = world();
    world.place("a", 1, 4);
    let reader = world.reader();
    get(&world, &reader, "a").expect("it is kept now");
    world.store.throttle(home("a", 4).partition);
    for _ in 0..100 {
        let kept = get(&world, &reader, "a").expect("it is kept");
        assert_eq!((kept.items_read, kept.consumed_rcu, kept.consumed_wcu), (0, 0.0, 0.0));
    }
    world.clock.advance(TERM);
    let error = get(&world, &reader, "a").expect_err("the partition is full");
    assert!(error.throttle().is_some_and(Throttle::is_of_a_partition), "{error}");
}

/// What was read stays what the item was, wherever a change of the shard count has brought it meanwhile.
#[test]
fn a_reshard_makes_nothing_wrong_that_is_kept() {
    let world = world();
    let before = world.place("a", 1, 4);
    let reader = world.reader();
    get(&world, &reader, "a").expect("it is kept now");
    world.reshard(2, 8);
    assert_eq!(get(&world, &reader, "a").expect("it is kept").item, before);
    world.clock.advance(TERM);
    let moved = get(&world, &reader, "a").expect("it is there");
    assert_eq!((moved.item.version, moved.item.generation.get()), (before.version, 2));
}
