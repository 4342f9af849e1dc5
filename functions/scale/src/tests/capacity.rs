//! Alarms on the table's capacity: what is changed, what is counted, and what comes again.

use std::time::Duration;

use dynashard_core::ports::{CapacityUpdate, Clock, StoreError};
use dynashard_core::{
    CapacityPeriod, CapacitySide, CapacityUnits, ScalingMode, ScalingPolicy, Settings,
};
use dynashard_testkit::Operation;
use serde_json::json;

use super::{MAIN_TABLE, handle};
use dynashard_eventkit::{World, event};

/// A table whose capacity refuses reads and writes, and whose alarms are raised. For reads it is as
/// high as allowed.
pub(super) fn throttled_table() -> World {
    in_mode(ScalingMode::On)
}

fn in_mode(mode: ScalingMode) -> World {
    let scaling = ScalingPolicy { mode, ..ScalingPolicy::default() };
    let world = World::new(Settings { scaling, ..Settings::default() });
    world.capacity.provision(CapacityUnits { reads: 300, writes: 100 });
    let at_secs = world.clock.now().epoch_secs();
    world.clock.advance(Duration::from_secs(61));
    for (access, units) in [(CapacitySide::Reads, 300.0), (CapacitySide::Writes, 100.0)] {
        let consumed = units * 60.0;
        let refused = consumed / 10.0;
        let requests = consumed;
        let period = CapacityPeriod { at_secs, consumed, requests, refused, unexplained: 0.0 };
        world.capacity.measure(access, period);
    }
    world.capacity.raise();
    world
}

fn writes() -> String {
    event("scale-capacity-writes.json")
}

/// The events of the folder that are about the capacity and to be acted on.
const ALARMS: [&str; 2] = ["scale-capacity-writes.json", "scale-capacity-reads.json"];

#[test]
fn an_alarm_on_the_capacity_raises_it_and_no_shard_count() {
    for name in ALARMS {
        let world = throttled_table();
        world.heat.throttle("log", world.clock.now().epoch_secs() - 30, 412.0);
        world.heat.raise();
        let (outcome, counted) = handle(&world, &event(name));
        assert_eq!(outcome.expect("an outcome")["writes"]["code"], "raise", "{name}");
        let expected = json!({ "AlarmsHandled": 1, "CapacityRaised": 1, "CapacityAtCeiling": 1 });
        assert_eq!(counted, expected, "{name}");
        let raised = CapacityUnits { reads: 300, writes: 158 };
        assert_eq!(world.capacity.provisioned(), Some(raised), "{name}");
        assert!(!world.capacity.is_raised(), "{name}");
        assert_eq!((world.heat.requests(), world.store.attempts(Operation::Begin)), (0, 0));
    }
}

#[test]
fn the_schedule_looks_at_the_capacity_beside_the_partitions() {
    let world = throttled_table();
    let schedule = event("scale-schedule.json");
    let (outcome, counted) = handle(&world, &schedule);
    let outcome = outcome.expect("an outcome");
    assert_eq!(outcome["partitions"], json!({ "nothing_done": "no alarm is raised" }));
    assert_eq!(outcome["capacity"]["writes"]["code"], "raise");
    assert_eq!(counted["CapacityRaised"], 1);
    let (outcome, counted) = handle(&world, &schedule);
    let idle = json!({ "nothing_done": "no alarm is raised" });
    assert_eq!((outcome, counted), (Ok(idle), json!({})), "all is quiet");
}

#[test]
fn a_schedule_that_fails_for_partitions_raises_the_capacity_all_the_same() {
    let world = throttled_table();
    // Neither the alarm answers, nor the report that is looked at without it.
    let away = || StoreError::Unavailable("CloudWatch is away".to_owned());
    world.heat.fail([away(), away()]);
    let (outcome, counted) = handle(&world, &event("scale-schedule.json"));
    assert_eq!(outcome, Err("unavailable: CloudWatch is away".to_owned()));
    assert_eq!((&counted["AlarmsFailed"], &counted["CapacityRaised"]), (&json!(1), &json!(1)));
}

#[test]
fn dry_run_counts_what_would_rise() {
    let world = in_mode(ScalingMode::DryRun);
    let (outcome, counted) = handle(&world, &writes());
    let outcome = outcome.expect("an outcome");
    assert_eq!((&outcome["dry_run"], &outcome["writes"]["code"]), (&json!(true), &json!("raise")));
    let expected = json!({ "AlarmsHandled": 1, "CapacityWouldRise": 1, "CapacityAtCeiling": 1 });
    assert_eq!(counted, expected);
    assert!(world.capacity.updates().is_empty() && world.capacity.is_raised());
}

#[test]
fn off_asks_nobody_about_the_capacity() {
    let world = in_mode(ScalingMode::Off);
    for event in [writes(), event("scale-schedule.json")] {
        let (outcome, counted) = handle(&world, &event);
        assert_eq!(outcome, Ok(json!({ "nothing_done": "ScalingMode is off" })));
        assert_eq!(counted, json!({}));
    }
    assert_eq!(world.capacity.requests(), 0);
}

#[test]
fn foreign_alarms_on_a_capacity_ask_nobody() {
    for (name, why) in [
        ("scale-capacity-ok.json", "changed to OK"),
        ("scale-capacity-other-table.json", "not the throttles by the capacity of"),
    ] {
        let world = throttled_table();
        let (outcome, counted) = handle(&world, &event(name));
        let outcome = outcome.expect("nothing that another attempt could help");
        let said = outcome["nothing_done"].as_str().expect("a sentence");
        assert!(said.contains(why), "{name}: {said}");
        assert_eq!(counted, json!({ "AlarmsRefused": 1 }), "{name}");
        assert_eq!(world.capacity.requests(), 0, "{name}");
    }
}

#[test]
fn what_passes_makes_lambda_send_the_alarm_on_the_capacity_again() {
    let world = throttled_table();
    world.capacity.fail([StoreError::Unavailable("DynamoDB is away".to_owned())]);
    let (outcome, counted) = handle(&world, &writes());
    assert_eq!(outcome, Err("unavailable: DynamoDB is away".to_owned()));
    assert_eq!(counted, json!({ "AlarmsFailed": 1 }));
    assert!(handle(&world, &writes()).0.is_ok());
}

#[test]
fn a_change_that_dynamodb_does_not_allow_now_is_told() {
    let world = throttled_table();
    world.capacity.refuse([CapacityUpdate::LimitExceeded("too many changes".to_owned())]);
    let (outcome, counted) = handle(&world, &writes());
    let said = outcome.expect("an outcome")["outcome"].clone();
    assert_eq!(said, "DynamoDB allows no change now: too many changes");
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "CapacityAtCeiling": 1 }));
}

#[test]
fn the_alarms_of_the_events_are_of_the_main_table() {
    for name in ALARMS {
        assert!(event(name).contains(MAIN_TABLE), "{name}");
    }
}
