use serde_json::Value;

use super::handler;
use dynashard_eventkit::{Answer, World, assert_golden, event};

#[test]
fn every_event_gets_its_expected_answer() {
    let flights = World::of_flights;
    assert_golden(
        "read",
        &[
            ("read-get.json", flights),
            ("read-get-consistent.json", flights),
            ("read-get-dynamodb-json.json", flights),
            ("read-get-fields.json", flights),
            ("read-get-repeated-field.json", flights),
            ("read-get-absent.json", flights),
            ("read-get-missing-parameter.json", flights),
            ("read-get-invalid-utf8.json", flights),
            ("read-batch-get.json", flights),
            ("read-batch-get-fields.json", flights),
            ("read-batch-get-duplicate-key.json", flights),
            ("read-batch-get-malformed-body.json", flights),
            ("read-query.json", flights),
            ("read-query-next-page.json", flights),
            ("read-query-begins-with.json", flights),
            ("read-query-parallel.json", flights),
            ("read-query-round-robin.json", flights),
            ("read-query-sequential.json", flights),
            ("read-query-post.json", flights),
            ("read-query-fields.json", flights),
            ("read-query-dynamodb-json.json", flights),
            ("read-query-never-written.json", flights),
            ("read-query-bad-cursor.json", flights),
            ("read-query-foreign-cursor.json", flights),
            ("read-query-truncated-cursor.json", flights),
            ("read-query-old-cursor.json", flights),
            ("read-query-bad-limit.json", flights),
            ("read-query-negative-limit.json", flights),
            ("read-query-limit-too-large.json", flights),
            ("read-query-begins-with-and-from.json", flights),
            ("read-query-wrong-key-type.json", World::of_numbers),
            ("read-query-reserved-field.json", flights),
            ("read-query-unknown-parameter.json", flights),
            ("read-query-unsupported-strategy.json", flights),
            ("read-collection.json", flights),
            ("read-collection-absent.json", flights),
            ("read-not-http.json", flights),
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
