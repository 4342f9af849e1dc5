use std::time::Duration;

use dynashard_core::Settings;
use dynashard_keys::Placement;

use super::capacity::throttled_table;
use super::{hot, outcome};
use dynashard_eventkit::{World, assert_golden};

fn empty() -> World {
    World::new(Settings::default())
}

/// A random collection whose second shard was throttled, and the alarm.
fn hot_log() -> World {
    let world = hot(&["log#~2"]);
    world.collection("log", Placement::Random, 4);
    world
}

fn growing_log() -> World {
    let world = hot_log();
    outcome(&world, &dynashard_eventkit::event("scale-alarm.json"));
    world
}

fn cool_log() -> World {
    let world = hot(&[]);
    world.collection("log", Placement::Random, 4);
    world
}

fn foreign_keys() -> World {
    let world = hot(&["_ds_log", "log#~01", "orders#~1"]);
    world.collection("log", Placement::Random, 4);
    world
}

/// Collections whose creation is long enough ago.
fn rested_flights() -> World {
    let world = World::of_flights();
    world.clock.advance(Duration::from_secs(7));
    world
}

/// The flights of tenants, whose collections' creation is long enough ago.
fn tenants() -> World {
    let world = World::of_tenants();
    world.clock.advance(Duration::from_secs(7));
    world
}

fn idle_log() -> World {
    let world = World::new(Settings::default());
    world.collection("log", Placement::Random, 4);
    world
}

#[test]
fn every_event_gets_its_expected_answer() {
    let flights = World::of_flights;
    assert_golden(
        "scale",
        &[
            ("scale-create", empty),
            ("scale-create-rounded", empty),
            ("scale-create-duplicate", flights),
            ("scale-create-malformed-body", empty),
            ("scale-create-too-many-shards", empty),
            ("scale-create-unknown-placement", empty),
            ("scale-scale", rested_flights),
            ("scale-scale-absent", flights),
            ("scale-scale-granted", tenants),
            ("scale-scale-not-granted", tenants),
            ("scale-scale-malformed-body", flights),
            ("scale-payload-v1", empty),
            ("scale-alarm", hot_log),
            ("scale-alarm-duplicate", growing_log),
            ("scale-alarm-metric-math", hot_log),
            ("scale-alarm-day", hot_log),
            ("scale-alarm-eventbridge", hot_log),
            ("scale-alarm-no-contributors", cool_log),
            ("scale-alarm-unsharded-key", foreign_keys),
            ("scale-alarm-ok", hot_log),
            ("scale-alarm-other-table", hot_log),
            ("scale-alarm-other-namespace", hot_log),
            ("scale-alarm-malformed", hot_log),
            ("scale-capacity-writes", throttled_table),
            ("scale-capacity-reads", throttled_table),
            ("scale-capacity-ok", throttled_table),
            ("scale-capacity-other-table", throttled_table),
            ("scale-schedule", hot_log),
            ("scale-schedule-idle", idle_log),
            ("scale-not-http", hot_log),
        ],
        outcome,
    );
}
