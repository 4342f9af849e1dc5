//! `KeyGrants`, on every route.

use std::num::NonZeroU32;
use std::time::Duration;

use super::handler;
use dynashard_eventkit::{Answer, Call, World, assert_granted_keys_alone_are_served};
use dynashard_testkit::Operation;

/// A request of every route that touches this partition key.
fn calls(pk: &str) -> Vec<Call> {
    vec![
        Call::new(&format!("PUT /collection?pk={pk}")).json("{}"),
        Call::new(&format!("POST /collection/scale?pk={pk}")).json(r#"{"number_of_shards":8}"#),
    ]
}

#[test]
fn only_keys_that_the_caller_is_granted_are_served() {
    assert_granted_keys_alone_are_served(handler, calls);
}

fn create(pk: &str, tenant: &str) -> Call {
    Call::new(&format!("PUT /collection?pk={pk}")).json("{}").with_claim("tenant", tenant)
}

fn scale(pk: &str, tenant: &str, shards: u32) -> Call {
    let body = format!(r#"{{"number_of_shards":{shards}}}"#);
    Call::new(&format!("POST /collection/scale?pk={pk}")).json(body).with_claim("tenant", tenant)
}

/// A tenant could list keys that do not exist until the directory was full for everybody.
#[test]
fn regression_one_tenant_could_fill_the_directory() {
    let mut world = World::of_tenants();
    world.admission.keys_per_grant = NonZeroU32::new(2).expect("not zero");
    let handler = handler(&world);
    let status = |call: Call| Answer::of(&handler, &call).status;
    assert_eq!(status(create("acme/1", "acme")), 201);
    assert_eq!(status(scale("acme/2", "acme", 2)), 202);
    let before = world.snapshot();
    for call in [create("acme/3", "acme"), scale("acme/3", "acme", 2)] {
        Answer::of(&handler, &call).assert_problem(409, "grant_exhausted", &format!("{call:?}"));
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
    // What is listed goes on, what asks for nothing is answered, and other grants have counts of their own.
    assert_eq!(status(create("acme/1", "acme")), 409);
    world.clock.advance(Duration::from_mins(20));
    assert_eq!(status(scale("acme/1", "acme", 4)), 202);
    assert_eq!(status(scale("acme/3", "acme", 1)), 202);
    assert_eq!(status(create("acme", "acme")), 201, "by another pattern");
    assert_eq!(status(create("other/1", "other")), 201, "of another tenant");
}

#[test]
fn without_rules_nothing_is_counted() {
    let mut world = World::of_flights();
    world.admission.keys_per_grant = NonZeroU32::MIN;
    let handler = handler(&world);
    for pk in ["a", "b", "c"] {
        let call = Call::new(&format!("PUT /collection?pk={pk}")).json("{}");
        assert_eq!(Answer::of(&handler, &call).status, 201);
    }
    assert_eq!(world.store.attempts(Operation::GrantSave), 0);
}
