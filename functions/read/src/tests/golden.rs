use serde_json::Value;

use super::{counting, handler, throttled};
use dynashard_eventkit::{Answer, World, assert_golden, event};

#[test]
fn every_event_gets_its_expected_answer() {
    let flights = World::of_flights;
    assert_golden(
        "read",
        &[
            ("read-get", flights),
            ("read-get-consistent", flights),
            ("read-get-dynamodb-json", flights),
            ("read-get-fields", flights),
            ("read-get-repeated-field", flights),
            ("read-get-post", flights),
            ("read-get-absent", flights),
            ("read-get-missing-parameter", flights),
            ("read-get-invalid-utf8", flights),
            ("read-batch-get", flights),
            ("read-batch-get-fields", flights),
            ("read-batch-get-duplicate-key", flights),
            ("read-batch-get-malformed-body", flights),
            ("read-query", flights),
            ("read-query-next-page", flights),
            ("read-query-begins-with", flights),
            ("read-query-parallel", flights),
            ("read-query-round-robin", flights),
            ("read-query-sequential", flights),
            ("read-query-post", flights),
            ("read-query-fields", flights),
            ("read-query-dynamodb-json", flights),
            ("read-query-index", flights),
            ("read-query-index-absent", flights),
            ("read-query-never-written", flights),
            ("read-query-bad-cursor", flights),
            ("read-query-foreign-cursor", flights),
            ("read-query-truncated-cursor", flights),
            ("read-query-old-cursor", flights),
            ("read-query-bad-limit", flights),
            ("read-query-negative-limit", flights),
            ("read-query-limit-too-large", flights),
            ("read-query-begins-with-and-from", flights),
            ("read-query-wrong-key-type", World::of_numbers),
            ("read-query-reserved-field", flights),
            ("read-query-unknown-parameter", flights),
            ("read-query-unsupported-strategy", flights),
            ("read-counter", counting),
            ("read-counter-absent", flights),
            ("read-collection", flights),
            ("read-collection-decided", throttled),
            ("read-collection-absent", flights),
            ("read-query-granted", World::of_tenants),
            ("read-get-not-granted", World::of_tenants),
            ("read-get-no-caller", World::of_tenants),
            ("read-not-http", flights),
        ],
        |world, event| Answer::of_event(&handler(world), event).golden(),
    );
}

#[test]
fn the_next_pages_event_carries_the_cursor_of_the_page_before() {
    let world = World::of_flights();
    let first = Answer::of_event(&handler(&world), &event("read-query.json"));
    let next = serde_json::from_str::<Value>(&event("read-query-next-page.json")).expect("JSON");
    assert_eq!(next["queryStringParameters"]["cursor"], first.body["cursor"]);
}
