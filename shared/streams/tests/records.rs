//! What each record tells, by the vectors that the library in Python reads, too.

use dynashard_streams::{Position, Table};
use serde_json::{Value, json};

#[test]
fn the_vectors_are_told_as_they_say() {
    let vectors = serde_json::from_str::<Vec<Value>>(include_str!("records.json")).expect("JSON");
    for vector in vectors {
        let mut table = Table::default();
        if let Some(name) = vector["partition_key_name"].as_str() {
            name.clone_into(&mut table.partition_key_name);
        }
        if let Some(separator) = vector["separator"].as_str() {
            table.separator = separator.parse().expect("a separator");
        }
        let told = match table.logical(vector["record"].clone()) {
            Ok(told) => json!({ "logical": told }),
            Err(error) => json!({ "error": error.code() }),
        };
        for (name, value) in told.as_object().expect("an object") {
            assert_eq!(Some(value), vector.get(name), "{}", vector["name"]);
        }
    }
}

#[test]
fn the_page_for_triggers_shows_what_the_crate_does() {
    let page = include_str!("../../../docs/ADOPTING.md");
    let example = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = include_str!("../src/lib.rs").lines().filter_map(|line| line.strip_prefix("//!"));
    let shown = shown.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>();
    assert!(shown.join("\n").contains(example.expect("an example").trim_end()));
}

#[test]
fn a_position_is_overtaken_by_a_later_generation_at_another_home() {
    let at = |partition_key: &str, generation| Position {
        partition_key: partition_key.to_owned(),
        generation,
    };
    let kept = at("EWR#~3", 2);
    for (position, expected) in [
        (at("EWR", 1), true),
        (at("EWR", 2), false),
        (at("EWR#~3", 1), false),
        (at("EWR", 3), false),
    ] {
        assert_eq!(position.is_overtaken_by(&kept), expected, "{position:?}");
    }
}
