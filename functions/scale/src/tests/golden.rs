use std::time::Duration;

use dynashard_core::Settings;
use dynashard_keys::Placement;

use super::{hot, outcome};
use dynashard_eventkit::{World, assert_golden};

fn empty() -> World {
    World::new(Settings::default())
}

/// A random collection whose second shard was throttled, and the alarm.
fn hot_log() -> World {
    let world = hot(&["log#2"]);
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
    let world = hot(&["log", "log#x", "orders#1"]);
    world.collection("log", Placement::Random, 4);
    world
}

/// Collections whose creation is long enough ago.
fn rested_flights() -> World {
    let world = World::of_flights();
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
            ("scale-create.json", empty),
            ("scale-create-rounded.json", empty),
            ("scale-create-duplicate.json", flights),
            ("scale-create-malformed-body.json", empty),
            ("scale-create-too-many-shards.json", empty),
            ("scale-create-unknown-placement.json", empty),
            ("scale-scale.json", rested_flights),
            ("scale-scale-absent.json", flights),
            ("scale-scale-malformed-body.json", flights),
            ("scale-payload-v1.json", empty),
            ("scale-alarm.json", hot_log),
            ("scale-alarm-duplicate.json", growing_log),
            ("scale-alarm-metric-math.json", hot_log),
            ("scale-alarm-day.json", hot_log),
            ("scale-alarm-eventbridge.json", hot_log),
            ("scale-alarm-no-contributors.json", cool_log),
            ("scale-alarm-unsharded-key.json", foreign_keys),
            ("scale-alarm-ok.json", hot_log),
            ("scale-alarm-other-table.json", hot_log),
            ("scale-alarm-other-namespace.json", hot_log),
            ("scale-alarm-malformed.json", hot_log),
            ("scale-schedule.json", hot_log),
            ("scale-schedule-idle.json", idle_log),
            ("scale-not-http.json", hot_log),
        ],
        outcome,
    );
}
