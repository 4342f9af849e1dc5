//! A thousand environments that DynamoDB throttles at once.

use std::time::Duration;

use dynashard_core::ports::{Clock, StoreError};
use dynashard_core::{Deadline, Phase, Precondition, Throttle, Writer};
use dynashard_keys::Placement;
use dynashard_testkit::{Fault, Operation, block_on};
use futures_util::future::join_all;

use crate::world::{World, count, partition, usual_settings};

const ENVIRONMENTS: u32 = 1_000;

/// How many times what its one partition takes the collection is asked for.
const OVERLOAD: u32 = 8;

/// What is meant to be the most that one collection's ledger takes in a second.
const MOST_UPDATES: u64 = 60;

fn world() -> World {
    let world = World::with_mover(usual_settings());
    world.lay_out(1, 1, Placement::Xxh64);
    world.clock.advance(Duration::from_mins(2));
    world
}

fn refusal() -> Fault {
    let throttle = Throttle::from_reason("TableWriteKeyRangeThroughputExceeded", None);
    Fault::Refuse(StoreError::Throttled(throttle))
}

/// Each environment puts one item, which is tried once. One of eight is granted.
fn round(world: &World, writers: &[Writer], n: u32) {
    let faults = (0..ENVIRONMENTS)
        .map(|of| if (of + n).is_multiple_of(OVERLOAD) { Fault::before(|| ()) } else { refusal() });
    world.store.script(Operation::Write, faults);
    let items = (0..ENVIRONMENTS).map(|of| world.new_item(&format!("{n}-{of}"), "new"));
    let items = items.collect::<Vec<_>>();
    let now = world.clock.now();
    let once = world.deadline().if_throttled(Deadline::after(now, Duration::ZERO));
    let puts = writers.iter().zip(&items);
    let puts = puts.map(|(writer, item)| writer.put(item, Precondition::None, once));
    for put in block_on(join_all(puts)) {
        // Whether it was granted is the store's affair.
        let _ = put;
    }
}

#[test]
fn a_thousand_environments_that_throttle_at_once_begin_one_growth_of_the_right_size() {
    let world = world();
    let writers = (0..ENVIRONMENTS).map(|_| world.writer()).collect::<Vec<_>>();
    let mut busiest = 0;
    for second in 0..8 {
        let before = world.memory.requests().ledger_updates;
        for part in 0..OVERLOAD {
            round(&world, &writers, second * OVERLOAD + part);
            world.clock.advance(Duration::from_secs(1) / OVERLOAD);
        }
        busiest = busiest.max(world.memory.requests().ledger_updates - before);
    }
    let metadata = world.memory.stored_metadata(&partition()).expect("the collection");
    assert_eq!(metadata.phase, Phase::Forward { from: count(1), to: count(16) });
    assert_eq!(metadata.rev, 2, "one growth");
    assert!((1..=MOST_UPDATES).contains(&busiest), "{busiest} updates in a second");
}

#[test]
fn no_environment_waits_for_the_ledger() {
    let world = world();
    let writers = (0..ENVIRONMENTS).map(|_| world.writer()).collect::<Vec<_>>();
    world.store.script(Operation::LedgerUpdate, (0..ENVIRONMENTS).map(|_| Fault::Lose));
    let begun = world.clock.now();
    round(&world, &writers, 0);
    let took = world.clock.now().certainly_since(begun);
    assert!(took < Duration::from_millis(100), "{took:?}");
}
