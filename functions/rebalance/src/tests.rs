//! The rebalance function over tables in memory, from the event to the outcome.

use std::time::Duration;

use dynashard_core::{Deadline, Rebalancer, Scaler};
use dynashard_eventkit::{Given, World, assert_golden};
use dynashard_keys::{PartitionKey, ShardCount};
use dynashard_lambda::Event;
use dynashard_lambda::metrics::Metrics;
use dynashard_testkit::{Output, block_on};
use serde_json::Value;

use crate::handler::RebalanceHandler;

/// The flights of 2013, while the collection of those from Newark grows from 8 to 16 shards.
fn growing_flights() -> World {
    let world = World::of_flights();
    // What was created before is settled.
    world.clock.advance(Duration::from_mins(2));
    let scaler = Scaler::new(world.directory());
    let deadline = Deadline::after(scaler.directory().now(), Duration::from_secs(10));
    let partition = PartitionKey::new("EWR").expect("a partition key");
    let count = ShardCount::new(16).expect("a count");
    block_on(scaler.request_count(&partition, count, deadline)).expect("it begins");
    world
}

/// What Lambda reads as the outcome of an event.
fn outcome(world: &World, event: &str) -> Value {
    let rebalancer = Rebalancer::new(world.directory());
    let metrics = Metrics::to("rebalance".to_owned(), Output::default());
    let handler = RebalanceHandler::new(rebalancer, metrics);
    let deadline = Deadline::after(handler.now(), Duration::from_secs(50));
    let outcome = block_on(handler.handle(Event::parse(event), deadline)).expect("an outcome");
    serde_json::to_value(outcome).expect("JSON")
}

#[test]
fn every_event_has_its_expected_outcome() {
    let cases: [(&str, Given); 4] = [
        ("rebalance-stream", growing_flights),
        ("rebalance-stream-duplicate", World::of_flights),
        ("rebalance-stream-other-key", growing_flights),
        ("rebalance-sweep", growing_flights),
    ];
    assert_golden("rebalance", &cases, outcome);
}

/// The record leads to the collection, and the sweep finds it without one.
#[test]
fn a_record_and_a_sweep_advance_a_collection() {
    for name in ["rebalance-stream.json", "rebalance-sweep.json"] {
        let world = growing_flights();
        let partition = PartitionKey::new("EWR").expect("a partition key");
        let phase = || world.memory.stored_metadata(&partition).expect("a collection").phase;
        let before = phase();
        outcome(&world, &dynashard_eventkit::event(name));
        assert_ne!(phase(), before, "{name}");
    }
}
