//! `KeyGrants`, on every route.

use super::handler;
use dynashard_eventkit::{Answer, Call, World, assert_granted_keys_alone_are_served};

/// A request of every route that touches this partition key.
fn calls(pk: &str) -> Vec<Call> {
    let item = |method: &str| Call::new(&format!("{method} /item?pk={pk}&sk=1"));
    let by_body = |name: &str, beside: &str| {
        let body = format!(r#"{{"pk":"{pk}","sk":"1"{beside}}}"#);
        Call::new(&format!("POST /item/{name}")).json(body)
    };
    let put = |pk: &str| format!(r#"{{"pk":"{pk}","sk":"1","item":{{}}}}"#);
    let key = |pk: &str| format!(r#"{{"pk":"{pk}","sk":"2"}}"#);
    let batch = |body: String| Call::new("POST /batch-write").json(body);
    vec![
        item("PUT").json("{}"),
        item("PATCH").json("{}"),
        item("DELETE"),
        by_body("put", r#","item":{}"#),
        by_body("patch", r#","patch":{}"#),
        by_body("delete", ""),
        batch(format!(r#"{{"puts":[{}]}}"#, put(pk))),
        batch(format!(r#"{{"deletes":[{}]}}"#, key(pk))),
    ]
}

#[test]
fn only_keys_that_the_caller_is_granted_are_served() {
    assert_granted_keys_alone_are_served(handler, calls);
}

#[test]
fn one_key_that_is_not_granted_refuses_the_whole_batch() {
    let world = World::of_tenants();
    let handler = handler(&world);
    let before = world.memory.requests();
    for body in [
        r#"{"puts":[{"pk":"EWR","sk":"1","item":{}},{"pk":"JFK","sk":"1","item":{}}]}"#,
        r#"{"puts":[{"pk":"EWR","sk":"1","item":{}}],"deletes":[{"pk":"JFK","sk":"1"}]}"#,
    ] {
        let batch = Call::new("POST /batch-write").json(body).with_claim("tenant", "EWR");
        Answer::of(&handler, &batch).assert_problem(403, "key_not_granted", body);
    }
    assert_eq!(world.memory.requests(), before);
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_read() {
    let mut world = World::of_flights();
    world.admission.max_body_bytes = 8;
    let handler = handler(&world);
    let before = world.memory.requests();
    let put = || Call::new("PUT /item?pk=EWR&sk=1").header("content-type", "application/json");
    assert_eq!(Answer::of(&handler, &put().body(r#"{"a":12}"#)).status, 200);
    let after = world.memory.requests();
    assert_ne!(after, before);
    let refused = Answer::of(&handler, &put().body(r#"{"a":123}"#));
    refused.assert_problem(413, "body_too_large", "9 bytes");
    // What counts is what the client has sent, not its base64.
    assert_eq!(Answer::of(&handler, &put().base64("eyJhIjoxMn0=")).status, 200);
    let refused = Answer::of(&handler, &put().base64("eyJhIjoxMjN9"));
    refused.assert_problem(413, "body_too_large", "9 bytes in base64");
}
