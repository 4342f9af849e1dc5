use std::iter;

use dynashard_core::ports::StoreError;
use dynashard_core::{LedgerKind, Settings, Span};
use dynashard_testkit::{Fault, Operation};
use serde_json::{Value, json};

use super::{add, handler, throttled};
use dynashard_eventkit::{Answer, Call, MakeFault, SECRET, World, unreachable_table};

fn collection(world: &World, pk: &str) -> Value {
    let call = Call::new(&format!("GET /collection?pk={pk}"));
    let answer = Answer::of(&handler(world), &call);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

#[test]
fn a_throttled_collection_says_what_it_is_asked_for_and_what_its_shards_take() {
    let answer = collection(&throttled(), "EWR");
    let demand = &answer["demand"];
    assert_eq!(demand["write_units"], 12_000.0);
    assert_eq!((&demand["get_units"], &demand["query_units"]), (&json!(30.0), &json!(6.0)));
    assert_eq!(
        demand["over_secs"], 2,
        "the first second may not be whole, nor may the last be complete"
    );
    assert_eq!(answer["capacity"], json!({ "write_units": 8_000, "read_units": 24_000 }));
    let last = &answer["last_decision"];
    assert_eq!((&last["at"], &last["last"]), (&json!(1_356_998_330), &json!(1_356_998_390)));
    assert_eq!((&last["from"], &last["to"]), (&json!(8), &json!(32)));
}

#[test]
fn a_collection_at_rest_says_what_it_was_asked_for_in_its_last_minute() {
    let world = World::of_flights();
    add(&world, LedgerKind::Load, Span::Minute, &[2, 1]);
    let answer = collection(&world, "EWR");
    let demand = &answer["demand"];
    assert_eq!((&demand["write_units"], &demand["over_secs"]), (&json!(200.0), &json!(60)));
    assert_eq!(demand["as_of"].as_u64().map(|at| at % 60), Some(0));
    assert_eq!(answer["last_decision"], Value::Null);
}

#[test]
fn the_ledger_of_minutes_is_read_only_where_the_other_has_nothing() {
    let gets = |world: &World| world.memory.requests().ledger_gets;
    let world = throttled();
    collection(&world, "EWR");
    assert_eq!(gets(&world), 1);
    let world = World::of_flights();
    assert_eq!(collection(&world, "EWR")["demand"], Value::Null);
    assert_eq!(gets(&world), 2);
}

#[test]
fn a_cold_collection_has_the_capacity_of_its_one_shard() {
    let world = World::new(Settings::default());
    let jfk = Call::new("GET /collection?pk=JFK");
    Answer::of(&handler(&world), &jfk).assert_problem(404, "collection_not_found", "no item");
    assert_eq!(world.memory.requests().ledger_gets, 0, "nothing is looked up of what is not there");
    let world = World::of_flights();
    let jfk = dynashard_keys::PartitionKey::new("JFK").expect("a partition key");
    world.memory.remove_metadata(&jfk);
    let answer = collection(&world, "JFK");
    assert_eq!(answer["capacity"], json!({ "write_units": 1_000, "read_units": 3_000 }));
    assert_eq!((&answer["demand"], &answer["last_decision"]), (&Value::Null, &Value::Null));
    assert_eq!(world.memory.requests().ledger_gets, 1, "nobody reports it by the minute");
}

#[test]
fn what_cannot_be_read_beside_a_collection_is_null_and_fails_nothing() {
    let damaged: MakeFault = || Fault::Refuse(StoreError::Corrupt(SECRET.to_owned()));
    let throttle: MakeFault = Fault::throttle;
    let lost: MakeFault = || Fault::Lose;
    for fault in [damaged, throttle, lost, unreachable_table] {
        let always = |operation| {
            let world = throttled();
            world.store.script(operation, iter::repeat_with(fault).take(100));
            collection(&world, "EWR")
        };
        let answer = always(Operation::LedgerGet);
        assert_eq!(answer["demand"], Value::Null);
        assert_eq!(
            answer["last_decision"]["diagnosis"], "hot_key",
            "one hides nothing of the other"
        );
        let answer = always(Operation::Decisions);
        assert_eq!(answer["last_decision"], Value::Null);
        assert_eq!(answer["demand"]["write_units"], 12_000.0);
        assert!(!answer.to_string().contains(SECRET), "{answer}");
    }
}
