//! What the log says of keys.

use dynashard_core::Settings;
use dynashard_eventkit::{digests, event, logged};
use dynashard_keys::Placement;
use dynashard_lambda::LogKeys;
use serde_json::Value;

use super::{handle, hot};

/// The lines that alarms lead to: one of a collection that grows, and one of a key that is not of ours.
fn lines(keys: &LogKeys) -> Vec<Value> {
    let world = hot(&["ticker#~2", "_ds_ticker"]);
    world.collection("ticker", Placement::Random, 4);
    assert_eq!(world.directory().settings(), &Settings::default());
    let (outcome, lines) = logged(keys, || handle(&world, &event("scale-alarm.json")).0);
    outcome.expect("an outcome");
    lines
}

#[test]
fn the_log_of_an_alarm_names_keys_by_their_digests_only() {
    let digested = lines(&digests());
    assert!(digested.iter().all(|line| !line.to_string().contains("ticker")), "{digested:?}");
    let plain = lines(&LogKeys::Plain);
    let of = |lines: &[Value], field: &str| {
        let values = lines.iter().filter_map(|line| line[field].as_str().map(str::to_owned));
        values.collect::<Vec<_>>()
    };
    assert_eq!(of(&plain, "key"), ["_ds_ticker"]);
    assert!(of(&plain, "partition_key").contains(&"ticker".to_owned()), "{plain:?}");
    for field in ["key", "partition_key"] {
        assert_eq!(of(&digested, field).len(), of(&plain, field).len());
        assert!(of(&digested, field).iter().all(|key| key.starts_with("key:")), "{digested:?}");
    }
}
