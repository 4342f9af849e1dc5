//! `KeyGrants`, on every route.

use super::handler;
use dynashard_eventkit::{Answer, Call, World, assert_granted_keys_alone_are_served};

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

#[test]
fn only_keys_that_the_caller_is_granted_are_served() {
    assert_granted_keys_alone_are_served(handler, calls);
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
