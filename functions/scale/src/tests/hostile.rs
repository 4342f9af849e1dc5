use proptest::prelude::{any, prop, proptest};

use super::handler;
use super::harness::hostile::{assert_sane, damage};
use super::harness::{Answer, World, event, event_files};

proptest! {
    #[test]
    fn no_damaged_event_brings_the_function_down(
        file in any::<prop::sample::Index>(),
        damage in prop::collection::vec(damage(), 1..3),
    ) {
        let files = event_files("scale").into_iter().collect::<Vec<_>>();
        let event = event(&files[file.index(files.len())]);
        // A second damage needs what is still JSON.
        let event = damage.iter().fold(event, |event, damage| {
            if serde_json::from_str::<serde_json::Value>(&event).is_ok() {
                damage.apply(&event)
            } else {
                event
            }
        });
        let world = World::of_flights();
        let before = world.snapshot();
        assert_sane(&world, &before, &Answer::of_event(&handler(&world), &event), &event);
    }
}
