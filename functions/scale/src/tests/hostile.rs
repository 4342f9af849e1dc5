use dynashard_eventkit::{assert_damaged_events_are_answered, damaged_events, event_files};
use dynashard_keys::Placement;
use dynashard_testkit::Operation;
use proptest::prelude::proptest;

use super::{handle, handler, hot};

#[test]
fn no_damaged_event_brings_the_function_down() {
    assert_damaged_events_are_answered("scale", handler);
}

proptest! {
    #[test]
    fn a_damaged_alarm_is_acted_on_or_refused_and_counted(
        event in damaged_events(
            event_files("scale").into_iter().filter(|name| name.contains("alarm"))
        ),
    ) {
        let world = hot(&["log#~2"]);
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
