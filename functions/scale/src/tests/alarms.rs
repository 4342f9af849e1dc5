//! Alarms and the schedule: what is done, what is counted, and what comes again.

use std::time::Duration;

use dynashard_core::ports::StoreError;
use dynashard_core::{Deadline, Phase, ScalingMode, ScalingPolicy, Settings};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_lambda::Event;
use dynashard_testkit::{Fault, Operation, Output, block_on};
use serde_json::{Value, json};

use super::{counted, events, handle, heat, hot};
use dynashard_eventkit::{World, event};

fn phase(world: &World) -> Phase {
    let partition = PartitionKey::new("log").expect("pk");
    world.memory.stored_metadata(&partition).expect("a collection").phase
}

fn growth(from: u32, to: u32) -> Phase {
    let count = |count| ShardCount::new(count).expect("a count");
    Phase::Forward { from: count(from), to: count(to) }
}

/// A random collection of four shards, and these throttled keys.
fn hot_log(keys: &[&str]) -> World {
    let world = hot(keys);
    world.collection("log", Placement::Random, 4);
    world
}

/// As [`hot_log`], in another mode.
fn in_mode(mode: ScalingMode) -> World {
    let scaling = ScalingPolicy { mode, ..ScalingPolicy::default() };
    let world = World::new(Settings { scaling, ..Settings::default() });
    heat(&world, &["log#~2"]);
    world.collection("log", Placement::Random, 4);
    world
}

fn alarm() -> String {
    event("scale-alarm.json")
}

#[test]
fn a_thousand_deliveries_of_one_event_begin_one_growth() {
    let world = hot_log(&["log#~2"]);
    let output = Output::default();
    let functions = (0..1_000).map(|_| events(&world, output.clone())).collect::<Vec<_>>();
    let (alarm, schedule) = (alarm(), event("scale-schedule.json"));
    let deadline = Deadline::after(functions[0].now(), Duration::from_secs(50));
    let deliveries = functions.iter().enumerate().map(|(n, function)| {
        let event = if n % 2 == 0 { &alarm } else { &schedule };
        function.handle(Event::parse(event), "request-1", deadline)
    });
    for outcome in block_on(futures_util::future::join_all(deliveries)) {
        outcome.expect("an outcome");
    }
    assert_eq!(phase(&world), growth(4, 8));
    assert_eq!(counted(&output)["GrowthsBegun"], 1);
}

#[test]
fn an_alarm_that_was_acted_on_is_set_back_and_counted() {
    let world = hot_log(&["log#~2", "log#~4"]);
    let (outcome, counted) = handle(&world, &alarm());
    assert_eq!(outcome.expect("an outcome")["collections"][0]["throttles"], 48_000.0);
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "GrowthsBegun": 1 }));
    assert!(!world.heat.is_raised());
    let (_, counted) = handle(&world, &alarm());
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "GrowthsRefused": 1 }));
}

#[test]
fn what_must_not_grow_by_guess_is_counted() {
    for (what, keys, counted) in [
        ("no contributors", &[][..], json!({ "ReportsWithoutContributors": 1 })),
        ("keys of no collection", &["_ds_log", "log#~01"], json!({ "KeysOfNoCollection": 2 })),
        ("a shard of a cold key", &["orders#~1"], json!({ "UnknownShards": 1 })),
        ("a shard beyond the count", &["log#~5"], json!({ "UnknownShards": 1 })),
    ] {
        let world = hot_log(keys);
        let (outcome, mut found) = handle(&world, &alarm());
        let outcome = outcome.expect("nothing that another attempt could help");
        assert_eq!(outcome["alarm_set_back"], false, "{what}");
        assert_eq!(found["AlarmsHandled"].take(), 1, "{what}");
        found.as_object_mut().expect("an object").remove("AlarmsHandled");
        assert_eq!(found, counted, "{what}");
        assert_eq!(phase(&world), Phase::Stable, "{what}");
        assert!(world.heat.is_raised(), "{what}");
        assert_eq!(world.store.attempts(Operation::Begin), 0, "{what}");
    }
}

#[test]
fn damaged_metadata_is_counted_and_no_reason_to_come_again() {
    let world = hot_log(&["log#~2"]);
    let corrupt = || Fault::Refuse(StoreError::Corrupt("rev is missing".to_owned()));
    world.store.script(Operation::MetadataGet, [corrupt()]);
    let (outcome, counted) = handle(&world, &alarm());
    let decision = outcome.expect("an outcome")["collections"][0]["decision"].clone();
    assert_eq!(decision, "corrupt_data: rev is missing");
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "DamagedData": 1 }));
}

#[test]
fn foreign_events_read_nothing() {
    for (name, why) in [
        ("scale-alarm-ok.json", "changed to OK"),
        ("scale-alarm-other-table.json", "TableName=orders"),
        ("scale-alarm-other-namespace.json", "AWS/Lambda Errors"),
        ("scale-alarm-malformed.json", "missing field `state`"),
        ("scale-not-http.json", "neither alarmData nor detail"),
    ] {
        let world = hot_log(&["log#~2"]);
        let (outcome, counted) = handle(&world, &event(name));
        let outcome = outcome.expect("nothing that another attempt could help");
        let said = outcome["nothing_done"].as_str().expect("a sentence");
        assert!(said.contains(why), "{name}: {said}");
        assert_eq!(counted, json!({ "AlarmsRefused": 1 }), "{name}");
        assert_eq!((world.heat.requests(), world.memory.requests().total()), (0, 0), "{name}");
    }
}

#[test]
fn dry_run_says_what_it_would_do_and_writes_nothing() {
    let world = in_mode(ScalingMode::DryRun);
    for name in ["scale-alarm.json", "scale-schedule.json"] {
        let (outcome, counted) = handle(&world, &event(name));
        let expected = json!({
            "dry_run": true,
            "collections": [
                {
                    "pk": "log",
                    "throttles": 24_000.0,
                    "decision": "DynamoDB refuses requests for more than the 4000 write units a second that \
                                 its shards take, and nobody has reported how many there are; it grows \
                                 from 4 to 8",
                },
            ],
            "keys_of_no_collection": 0,
            "alarm_set_back": false,
        });
        assert_eq!(outcome, Ok(expected), "{name}");
        assert_eq!(counted, json!({ "AlarmsHandled": 1, "GrowthsWouldBegin": 1 }), "{name}");
    }
    assert_eq!(phase(&world), Phase::Stable);
    assert!(world.heat.is_raised());
    assert_eq!(world.store.attempts(Operation::Begin), 0);
}

#[test]
fn off_asks_nobody() {
    let world = in_mode(ScalingMode::Off);
    for name in ["scale-alarm.json", "scale-schedule.json"] {
        let (outcome, counted) = handle(&world, &event(name));
        let said = outcome.expect("an outcome")["nothing_done"].to_string();
        assert!(said.contains("ScalingMode is off"), "{said}");
        assert_eq!(counted, json!({}));
    }
    // The schedule looks whether endpoints are told that it is off.
    assert_eq!((world.heat.requests(), world.memory.requests().total()), (0, 1));
}

#[test]
fn what_passes_makes_lambda_send_the_event_again() {
    let world = hot_log(&["log#~2"]);
    world.heat.fail([StoreError::Unavailable("CloudWatch is away".to_owned())]);
    let (outcome, counted) = handle(&world, &alarm());
    assert_eq!(outcome, Err("unavailable: CloudWatch is away".to_owned()));
    assert_eq!(counted, json!({ "AlarmsFailed": 1 }));

    let unknown = StoreError::OutcomeUnknown("the connection was lost".to_owned());
    world.store.script(Operation::Begin, [Fault::Refuse(unknown)]);
    let (outcome, counted) = handle(&world, &alarm());
    assert_eq!(outcome, Err("outcome_unknown: the connection was lost".to_owned()));
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "GrowthsFailed": 1 }));

    let (outcome, _) = handle(&world, &alarm());
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(phase(&world), growth(4, 8));
}

/// Somebody has deleted it, and nothing called the function any more.
#[test]
fn without_an_alarm_the_schedule_looks_all_the_same() {
    let world = hot_log(&["log#~2"]);
    world.heat.fail([StoreError::Misconfigured("there is no such alarm".to_owned())]);
    let (outcome, counted) = handle(&world, &event("scale-schedule.json"));
    assert_eq!(outcome.expect("an outcome")["collections"][0]["pk"], "log");
    assert_eq!(counted, json!({ "AlarmsHandled": 1, "AlarmsFailed": 1, "GrowthsBegun": 1 }));
    assert_eq!(phase(&world), growth(4, 8));
}

#[test]
fn requests_are_answered_as_before() {
    let world = hot_log(&[]);
    let (outcome, counted) = handle(&world, &event("scale-create.json"));
    assert_eq!(outcome.expect("an answer")["statusCode"], 202);
    for no_event in ["", "null", "[]", "7", "{"] {
        let (outcome, _) = handle(&world, no_event);
        assert_eq!(outcome.expect("an answer")["statusCode"], 400, "{no_event}");
    }
    assert_eq!(counted, Value::Object(serde_json::Map::new()));
}
