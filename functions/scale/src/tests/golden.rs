use dynashard_core::Settings;

use super::handler;
use super::harness::{World, assert_golden};

fn empty() -> World {
    World::new(Settings::default())
}

#[test]
fn every_event_gets_its_expected_answer() {
    let flights = World::of_flights;
    assert_golden(
        "scale",
        &[
            ("scale-create.json", empty),
            ("scale-create-rounded.json", empty),
            ("scale-create-duplicate.json", flights),
            ("scale-create-malformed-body.json", empty),
            ("scale-create-too-many-shards.json", empty),
            ("scale-create-unknown-placement.json", empty),
            ("scale-scale.json", flights),
            ("scale-scale-absent.json", flights),
            ("scale-scale-malformed-body.json", flights),
            ("scale-payload-v1.json", empty),
            ("scale-not-http.json", empty),
        ],
        handler,
    );
}
