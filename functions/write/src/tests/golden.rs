use dynashard_core::Settings;

use super::handler;
use dynashard_eventkit::{Answer, World, assert_golden};

fn empty() -> World {
    World::new(Settings::default())
}

#[test]
fn every_event_gets_its_expected_answer() {
    let flights = World::of_flights;
    assert_golden(
        "write",
        &[
            ("write-put", empty),
            ("write-put-replace", flights),
            ("write-put-base64", empty),
            ("write-put-dynamodb-json", empty),
            ("write-put-escaped-key", empty),
            ("write-put-create-only", empty),
            ("write-put-create-only-duplicate", flights),
            ("write-put-if-match", flights),
            ("write-put-if-match-stale", flights),
            ("write-put-malformed-body", empty),
            ("write-put-no-body", empty),
            ("write-put-form", empty),
            ("write-put-repeated-parameter", empty),
            ("write-put-key-mismatch", empty),
            ("write-patch", flights),
            ("write-patch-absent", empty),
            ("write-patch-malformed-body", flights),
            ("write-patch-json-patch", flights),
            ("write-delete", flights),
            ("write-delete-duplicate", empty),
            ("write-delete-if-match-stale", flights),
            ("write-put-post", empty),
            ("write-patch-post", flights),
            ("write-delete-post", flights),
            ("write-batch", flights),
            ("write-batch-duplicate-key", flights),
            ("write-batch-malformed-body", empty),
            ("write-counter", empty),
            ("write-counter-item", flights),
            ("write-counter-limit", empty),
            ("write-counter-malformed-body", empty),
            ("write-counter-delete-duplicate", empty),
            ("write-put-granted", World::of_tenants),
            ("write-batch-not-granted", World::of_tenants),
            ("write-not-http", empty),
        ],
        |world, event| Answer::of_event(&handler(world), event).golden(),
    );
}
