//! `KeyGrants`, on every route.

use super::handler;
use dynashard_eventkit::{Answer, Call, World};

/// A request of every route that touches this partition key.
fn calls(pk: &str) -> Vec<Call> {
    let query = |body: String| Call::new("POST /query").json(body);
    vec![
        Call::new(&format!("GET /item?pk={pk}&sk=2013-01-01T10:00:00Z%23UA1545")),
        Call::new("POST /item/get").json(format!(r#"{{"pk":"{pk}","sk":"1"}}"#)),
        Call::new("POST /batch-get").json(format!(r#"{{"keys":[{{"pk":"{pk}","sk":"1"}}]}}"#)),
        Call::new(&format!("GET /query?pk={pk}")),
        query(format!(r#"{{"pk":"{pk}"}}"#)),
        Call::new(&format!("GET /collection?pk={pk}")),
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

#[test]
fn one_key_that_is_not_granted_refuses_the_whole_batch() {
    let world = World::of_tenants();
    let body = r#"{"keys":[{"pk":"EWR","sk":"1"},{"pk":"JFK","sk":"1"}]}"#;
    let batch = Call::new("POST /batch-get").json(body).with_claim("tenant", "EWR");
    let before = world.memory.requests();
    Answer::of(&handler(&world), &batch).assert_problem(403, "key_not_granted", body);
    assert_eq!(world.memory.requests(), before);
}
