//! Puts and patches whose answer leaves it in doubt whether they took effect.

use std::time::Duration;

use dynashard_core::ports::Clock;
use dynashard_core::{
    Code, CollectionMetadata, Error, Phase, Precondition, StoredItem, Version, Written,
};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, block_on};

use crate::world::{
    LEASE, World, attributes, count, home, in_shard, in_shard_of, key, metadata, outcome_unknown,
    stored,
};

const NONE: Precondition = Precondition::None;

/// Moves from shard 0 to shard 1 when one shard becomes two.
const MOVES: &str = "c";

fn stable() -> World {
    let world = World::new();
    world.lay_out(1, 1, Placement::Xxh64);
    world
}

fn put(world: &World, sk: &str, precondition: Precondition) -> Result<Written, Error> {
    let item = world.new_item(sk, "new");
    block_on(world.writer().put(&item, precondition, world.deadline()))
}

/// The collection on its way from one shard to two, in `move`.
fn in_move() -> CollectionMetadata {
    let phase = Phase::Move { from: count(1), to: count(2) };
    CollectionMetadata { phase, ..metadata(2, 2, Placement::Xxh64) }
}

/// The client was told that nobody knows, although its own version was there to be read.
/// Invariant I6.
#[test]
fn regression_a_put_that_took_effect_was_reported_as_unknown() {
    // What came late counts since nothing has changed, and nobody has to look.
    let answers: [fn(&World) -> Fault; 3] = [
        |_| Fault::ExecuteThen(outcome_unknown()),
        |_| Fault::ExecuteUnanswered,
        |world| Fault::after(world.passing(LEASE)),
    ];
    for (answer, looks) in answers.into_iter().zip([1, 1, 0]) {
        for precondition in [NONE, Precondition::Absent] {
            let world = stable();
            world.store.script(Operation::Write, [answer(&world)]);
            let deadline = world.clock.now().boot + Duration::from_secs(20);
            let written = put(&world, "a", precondition).expect("it is found");
            let item = world.memory.stored(&in_shard("a", 0)).expect("an item");
            assert_eq!(item.version, written.version);
            let attempts = [Operation::Write, Operation::Get].map(|o| world.store.attempts(o));
            assert_eq!(attempts, [1, looks], "nothing is sent again");
            assert!(world.clock.now().boot <= deadline);
        }
        let world = stable();
        world.place("a", 1, 1);
        world.store.script(Operation::Write, [answer(&world)]);
        let (writer, key) = (world.writer(), key("a"));
        let patch = writer.patch(&key, attributes("new"), NONE, world.deadline());
        let written = block_on(patch).expect("it is found");
        let item = world.memory.stored(&in_shard("a", 0)).expect("an item");
        assert_eq!(item.version, written.version);
    }
}

#[test]
fn a_put_that_is_not_found_stays_unknown_and_names_its_version() {
    for look in [Fault::Lose, Fault::throttle(), Fault::Refuse(outcome_unknown())] {
        let world = stable();
        let deadline = world.deadline();
        world.store.script(Operation::Write, [Fault::ExecuteUnanswered]);
        world.store.script(Operation::Get, [look]);
        let item = world.new_item("a", "new");
        let error = block_on(world.writer().put(&item, NONE, deadline)).expect_err("in doubt");
        assert_eq!(error.code(), Code::OutcomeUnknown);
        let item = world.memory.stored(&in_shard("a", 0)).expect("it took effect");
        assert_eq!(error.version(), Some(item.version), "a client can look for itself");
        assert!(deadline.remaining(world.clock.now()) < Duration::from_millis(301));
        assert_eq!(world.store.attempts(Operation::Get), 1, "one look");
    }
    // That nothing is there yet proves nothing.
    for lost in [Fault::Lose, Fault::Refuse(outcome_unknown())] {
        let world = stable();
        world.store.script(Operation::Write, [lost]);
        let error = put(&world, "a", NONE).expect_err("in doubt");
        assert_eq!(error.code(), Code::OutcomeUnknown);
        assert!(error.version().is_some());
    }
}

/// A delete leaves nothing by which it could be known.
#[test]
fn a_delete_is_not_looked_for() {
    let world = stable();
    world.place("a", 1, 1);
    world.store.script(Operation::Write, [Fault::ExecuteThen(outcome_unknown())]);
    let deleted = block_on(world.writer().delete(&key("a"), NONE, world.deadline()));
    let error = deleted.expect_err("in doubt");
    assert_eq!((error.code(), error.version()), (Code::OutcomeUnknown, None));
    assert_eq!(world.store.attempts(Operation::Get), 0);
}

/// The lease ran out meanwhile, and the collection was resharded.
#[test]
fn a_look_finds_an_item_that_has_moved_home() {
    let world = stable();
    let (memory, pass) = (world.memory.clone(), world.passing(LEASE));
    let meanwhile = Fault::after(move || {
        let (old, new) = (home(MOVES, 1), home(MOVES, 2));
        let item = memory.stored(&old).expect("it was put there");
        memory.place(&new, StoredItem { generation: in_move().generation, ..item });
        memory.place(&old, StoredItem::marker(in_move().generation));
        memory.place_metadata(in_move());
        pass();
    });
    world.store.script(Operation::Write, [meanwhile]);
    let written = put(&world, MOVES, NONE).expect("it is found");
    let item = world.memory.stored(&home(MOVES, 2)).expect("an item");
    assert_eq!(item.version, written.version);
}

/// A put that was executed after its lease may lie at an old home where no reader sees it: it would be
/// acknowledged, and a client that then reads would see what was there before.
/// Invariants I1 and I18.
#[test]
fn a_look_does_not_take_what_another_hides_for_a_success() {
    let world = stable();
    let (memory, pass) = (world.memory.clone(), world.passing(LEASE));
    let meanwhile = Fault::after(move || {
        memory.place(&home(MOVES, 2), stored("of another", 2));
        memory.place_metadata(in_move());
        pass();
    });
    world.store.script(Operation::Write, [meanwhile]);
    let error = put(&world, MOVES, NONE).expect_err("another is in its place");
    assert_eq!(error.code(), Code::OutcomeUnknown);
    let late = world.memory.stored(&home(MOVES, 1)).expect("it lies at its old home");
    assert_eq!(error.version(), Some(late.version));
}

#[test]
fn a_look_into_a_random_collection_reads_the_shard_that_was_drawn() {
    let world = World::random();
    world.lay_out(1, 16, Placement::Random);
    world.store.script(Operation::Write, [Fault::ExecuteThen(outcome_unknown())]);
    let written = put(&world, "a", NONE).expect("it is found");
    let at = in_shard_of(Placement::Random, "a", written.shard.get());
    assert_eq!(world.memory.stored(&at).map(|item| item.version), Some(written.version));
    assert_ne!(written.version, Version::new(0));
    assert_eq!(world.memory.requests().gets, 1);
}
