//! `KeyGrants`, on every route.

use super::handler;
use dynashard_eventkit::{Answer, Call, World};

/// A request of every route that touches this partition key.
fn calls(pk: &str) -> Vec<Call> {
    vec![
        Call::new(&format!("PUT /collection?pk={pk}")).json("{}"),
        Call::new(&format!("POST /collection/scale?pk={pk}")).json(r#"{"number_of_shards":8}"#),
    ]
}

/// Another tenant's key, a key of nobody, and no caller at all.
#[test]
fn every_route_refuses_keys_that_the_caller_is_not_granted() {
    let world = World::of_tenants();
    let handler = handler(&world);
    let before = world.memory.requests();
    for call in calls("EWR") {
        for call in
            [call.clone().with_claim("tenant", "JFK"), call.clone().with_claim("tenant", "*"), call]
        {
            let answer = Answer::of(&handler, &call);
            answer.assert_problem(403, "key_not_granted", &format!("{call:?}"));
        }
    }
    assert_eq!(world.memory.requests(), before, "nothing was read or written");
}

#[test]
fn an_answer_does_not_tell_whether_a_key_that_is_not_granted_exists() {
    let world = World::of_tenants();
    let handler = handler(&world);
    for (there, nowhere) in calls("EWR").into_iter().zip(calls("LGA")) {
        let of = |call: Call| Answer::of(&handler, &call.with_claim("tenant", "JFK")).text;
        assert_eq!(of(there), of(nowhere).replace("LGA", "EWR"));
    }
}

#[test]
fn every_route_serves_keys_that_the_caller_is_granted() {
    let world = World::of_tenants();
    let handler = handler(&world);
    for call in calls("EWR") {
        let answer = Answer::of(&handler, &call.clone().with_claim("tenant", "EWR"));
        assert_ne!(answer.status, 403, "{call:?}: {}", answer.text);
    }
}
