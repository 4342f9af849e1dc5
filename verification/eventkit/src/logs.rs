//! What functions log, and that no key is in it.

use std::collections::BTreeSet;

use dynashard_lambda::{LogKeys, subscriber};
use dynashard_testkit::Output;
use serde_json::Value;
use tracing_subscriber::filter::LevelFilter;

/// How functions log keys by default, with a secret of the tests.
pub fn digests() -> LogKeys {
    LogKeys::Digest("a secret of the tests".to_owned())
}

/// What `act` returns, and the lines that it logs, at whatever level.
pub fn logged<T>(keys: &LogKeys, act: impl FnOnce() -> T) -> (T, Vec<Value>) {
    let output = Output::default();
    let out = output.clone();
    let subscriber = subscriber(keys, LevelFilter::TRACE, move || out.clone());
    let result = tracing::subscriber::with_default(subscriber, act);
    let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    (result, output.text().lines().map(line).collect())
}

/// Asserts that no line holds a key that an event is about, and that what has a field of its own for a key
/// has a digest in it.
#[track_caller]
pub(crate) fn assert_no_key(name: &str, event: &str, lines: &[Value]) {
    let keys = keys_of(event);
    for line in lines {
        for (field, value) in line.as_object().expect("an object") {
            let text = value.as_str().unwrap_or_default();
            if ["key", "partition_key", "sort_key"].contains(&field.as_str()) {
                assert!(text.starts_with("key:"), "{name} logs the {field} {text:?}");
            }
            let told = keys.iter().find(|key| holds(text, key));
            assert_eq!(told, None, "{name} logs it: {line}");
        }
    }
}

/// Whether a text holds a key, and not only as a part of a word.
fn holds(text: &str, key: &str) -> bool {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(key).any(|(at, _)| {
        is_apart(text[..at].chars().next_back()) && is_apart(text[at + key.len()..].chars().next())
    })
}

/// The keys that an event names: as parameters, in bodies, and in the images of stream records.
fn keys_of(event: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let Ok(event) = serde_json::from_str::<Value>(event) else { return keys };
    collect(&event, &mut keys);
    if let Some(body) = event["body"].as_str() {
        let body = serde_json::from_str(body).unwrap_or_default();
        collect(&body, &mut keys);
    }
    // What is shorter stands in any text.
    keys.retain(|key| key.len() >= 3);
    keys
}

fn collect(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let key = value.as_str().or_else(|| value["S"].as_str());
                match key {
                    Some(key) if ["pk", "sk"].contains(&name.as_str()) => {
                        keys.insert(key.to_owned());
                    }
                    _ => collect(value, keys),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
        _ => {}
    }
}
