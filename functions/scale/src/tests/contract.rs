use std::iter;

use dynashard_core::{CollectionMetadata, Phase, Settings};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_testkit::{Fault, Operation};
use serde_json::json;

use super::handler;
use dynashard_eventkit::{
    Answer, Call, MAX_LAMBDA_PAYLOAD_BYTES, MakeFault, SECRET, STACK_FAULTS, UNKNOWN_OUTCOMES,
    World, unreachable_table,
};

fn create(body: &str) -> Call {
    Call::new("PUT /collection?pk=LGA").json(body)
}

fn scale() -> Call {
    Call::new("POST /collection/scale?pk=EWR").json(r#"{"number_of_shards":16}"#)
}

fn metadata(world: &World, pk: &str) -> Option<CollectionMetadata> {
    world.memory.stored_metadata(&PartitionKey::new(pk).expect("pk"))
}

/// Where nobody moves the reshard on, it is not in force by the end of the request.
#[test]
fn a_collection_is_created_with_the_count_that_its_placement_makes_of_the_request() {
    for (body, placement, count) in [
        ("{}", Placement::Xxh64, 1),
        (r#"{"number_of_shards":1}"#, Placement::Xxh64, 1),
        (r#"{"number_of_shards":12}"#, Placement::Xxh64, 16),
        (r#"{"number_of_shards":256}"#, Placement::Xxh64, 256),
        (r#"{"number_of_shards":12,"placement":"jump"}"#, Placement::Jump, 12),
        (r#"{"number_of_shards":3,"placement":"random"}"#, Placement::Random, 3),
        (r#"{"placement":"random"}"#, Placement::Random, 1),
    ] {
        let world = World::new(Settings::default());
        let answer = Answer::of(&handler(&world), &create(body));
        let grows = count > 1;
        assert_eq!(answer.status, if grows { 202 } else { 201 }, "{body}");
        let expected = json!({
            "pk": "LGA",
            "number_of_shards": 1,
            "epochs": [{ "from": null, "number_of_shards": 1 }],
            "generation": u64::from(grows),
            "state": if grows { "forward" } else { "stable" },
            "placement": placement.as_str(),
            "last_updated": 1_356_998_400,
            "shard_history": [{ "at": 1_356_998_400, "count": 1 }],
        });
        assert_eq!(answer.body, expected, "{body}");
        let stored = metadata(&world, "LGA").expect("metadata");
        assert_eq!((stored.placement, stored.most_shards().get()), (placement, count), "{body}");
        assert_eq!(stored.min_shards.get(), count, "a floor for automatic shrinking");
    }
}

#[test]
fn without_a_placement_the_stacks_own_is_taken() {
    let world = World::new(Settings { placement: Placement::Jump, ..Settings::default() });
    let answer = Answer::of(&handler(&world), &create(r#"{"number_of_shards":5}"#));
    assert_eq!(answer.body["placement"], "jump");
    let stored = metadata(&world, "LGA").expect("metadata");
    assert_eq!(stored.most_shards().get(), 5);
}

#[test]
fn an_existing_collection_is_left_as_it_is() {
    let world = World::of_flights();
    let before = metadata(&world, "EWR");
    let call = Call::new("PUT /collection?pk=EWR").json(r#"{"number_of_shards":16}"#);
    Answer::of(&handler(&world), &call).assert_problem(409, "collection_exists", "EWR");
    assert_eq!(metadata(&world, "EWR"), before);
}

#[test]
fn another_count_begins_a_reshard_unless_one_runs() {
    let ask = |world: &World, count: u32| {
        let body = format!(r#"{{"number_of_shards":{count}}}"#);
        Answer::of(&handler(world), &Call::new("POST /collection/scale?pk=EWR").json(body))
    };
    for (count, to) in [(1, 1), (9, 16), (256, 256)] {
        let world = World::of_flights();
        // It waits for the leases on the creation.
        let answer = ask(&world, count);
        assert_eq!((answer.status, &answer.body["state"]), (202, &json!("forward")), "{answer:?}");
        let begun = metadata(&world, "EWR").expect("metadata");
        let [from, to] = [8, to].map(|count| ShardCount::new(count).expect("a count"));
        assert_eq!(begun.phase, Phase::Forward { from, to });
        let running = ask(&world, 64);
        running.assert_problem(409, "reshard_running", "64");
        let detail = running.body["detail"].as_str().expect("a detail");
        assert!(detail.contains(&format!("from 8 to {to} shards")), "{detail}");
        assert_eq!(ask(&world, 8).status, 202, "it can be turned round");
    }
    let world = World::of_flights();
    let before = world.snapshot();
    assert_eq!(ask(&world, 8).status, 202, "there is nothing to do");
    ask(&world, 257).assert_problem(400, "bad_shard_count", "257");
    ask(&world, 0).assert_problem(400, "bad_shard_count", "0");
    assert_eq!(world.snapshot(), before);
    let cold = Call::new("POST /collection/scale?pk=LGA").json(r#"{"number_of_shards":8}"#);
    assert_eq!(Answer::of(&handler(&world), &cold).status, 202, "it is enlisted");
    let begun = metadata(&world, "LGA").expect("metadata").phase;
    let [from, to] = [1, 8].map(|count| ShardCount::new(count).expect("a count"));
    assert_eq!(begun, Phase::Forward { from, to });
}

#[test]
fn a_throttled_table_is_429_and_one_that_is_gone_503_with_retry_after() {
    let faults: [(u64, &str, MakeFault); 2] =
        [(429, "throttled", Fault::throttle), (503, "unavailable", unreachable_table)];
    for (status, code, fault) in faults {
        for call in [create("{}"), scale()] {
            let world = World::of_flights();
            for operation in [Operation::DirectoryGet, Operation::Enlist] {
                world.store.script(operation, iter::repeat_with(fault).take(10_000));
            }
            Answer::of(&handler(&world), &call).assert_problem(status, code, code);
            assert_eq!(metadata(&world, "LGA"), None);
        }
    }
}

#[test]
fn a_creation_whose_fate_is_unknown_is_504_without_retry_after() {
    for (what, fault) in UNKNOWN_OUTCOMES {
        let world = World::of_flights();
        world.store.script(Operation::Enlist, [fault()]);
        let answer = Answer::of(&handler(&world), &create("{}"));
        answer.assert_problem(504, "outcome_unknown", what);
        assert_eq!(world.store.attempts(Operation::Enlist), 1, "{what}");
    }
}

#[test]
fn faults_of_the_stack_are_500_and_say_nothing() {
    for (code, error) in STACK_FAULTS {
        for call in [create("{}"), scale()] {
            let world = World::of_flights();
            for operation in [Operation::DirectoryGet, Operation::Enlist] {
                world.store.script(operation, [Fault::Refuse(error(SECRET.to_owned()))]);
            }
            let answer = Answer::of(&handler(&world), &call);
            answer.assert_problem(500, code, "a fault of the stack");
        }
    }
}

#[test]
fn regression_a_problem_repeated_megabytes_of_the_request() {
    let world = World::of_flights();
    let long = "\"".repeat(2_000_000);
    for body in [json!({ "placement": long }), json!({ "number_of_shards": long })] {
        let answer = Answer::of(&handler(&world), &create(&body.to_string()));
        assert_eq!(answer.status, 400);
        assert!(answer.payload_bytes < MAX_LAMBDA_PAYLOAD_BYTES, "{}", answer.payload_bytes);
    }
}
