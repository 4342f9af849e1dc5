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
            ("write-put.json", empty),
            ("write-put-replace.json", flights),
            ("write-put-base64.json", empty),
            ("write-put-dynamodb-json.json", empty),
            ("write-put-escaped-key.json", empty),
            ("write-put-create-only.json", empty),
            ("write-put-create-only-duplicate.json", flights),
            ("write-put-if-match.json", flights),
            ("write-put-if-match-stale.json", flights),
            ("write-put-malformed-body.json", empty),
            ("write-put-no-body.json", empty),
            ("write-put-form.json", empty),
            ("write-put-repeated-parameter.json", empty),
            ("write-put-key-mismatch.json", empty),
            ("write-patch.json", flights),
            ("write-patch-absent.json", empty),
            ("write-patch-malformed-body.json", flights),
            ("write-patch-json-patch.json", flights),
            ("write-delete.json", flights),
            ("write-delete-duplicate.json", empty),
            ("write-delete-if-match-stale.json", flights),
            ("write-batch.json", flights),
            ("write-batch-duplicate-key.json", flights),
            ("write-batch-malformed-body.json", empty),
            ("write-not-http.json", empty),
        ],
        |world, event| Answer::of_event(&handler(world), event).golden(),
    );
}
