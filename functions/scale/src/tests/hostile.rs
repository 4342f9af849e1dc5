use dynashard_keys::Placement;
use dynashard_testkit::Operation;
use proptest::prelude::{any, prop, proptest};

use super::harness::hostile::{assert_sane, damage};
use super::harness::{Answer, World, event, event_files};
use super::{handle, handler, hot};

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

    #[test]
    fn a_damaged_alarm_is_acted_on_or_refused_and_counted(
        file in any::<prop::sample::Index>(),
        damage in damage(),
    ) {
        let files = event_files("scale").into_iter().filter(|name| name.contains("alarm"));
        let files = files.collect::<Vec<_>>();
        let event = damage.apply(&event(&files[file.index(files.len())]));
        let world = hot(&["log#2"]);
        world.collection("log", Placement::Random, 4);
        let (outcome, counted) = handle(&world, &event);
        let outcome = outcome.expect("whatever is wrong stays wrong");
        let grown = world.store.attempts(Operation::Begin);
        if outcome.get("statusCode").is_some() {
            assert_eq!((outcome["statusCode"].as_u64(), grown), (Some(400), 0), "{event}");
        } else if outcome.get("nothing_done").is_some() {
            assert_eq!((counted["AlarmsRefused"].as_u64(), grown), (Some(1), 0), "{event}");
        } else {
            assert_eq!((counted["GrowthsBegun"].as_u64(), grown), (Some(1), 1), "{event}");
        }
    }
}
