//! Attributes and their values.

use serde_json::{Map, Value, json};

use crate::random::Random;
use crate::table::{PARTITIONS, SORTS, key};

/// The names at the top of an item. Those of one or two letters have the type that they are named after, `m` and `l` have
/// such names below them, and `x` and the rest have any. Some can only be written as placeholders.
pub(super) const NAMES: [&str; 15] =
    ["s", "n", "b", "t", "z", "l", "m", "ss", "ns", "bs", "x", "name", "with.dot", "a b", "size"];

/// What `attribute_type` knows.
pub(super) const TYPES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"];

const STRINGS: [&str; 8] = ["a", "ab", "abc", "b", "ab#~1", "\u{df}\u{20ac}", "_ds_", "\u{1f600}"];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "1.5",
    "1.50",
    "007",
    "1e3",
    "-0.25",
    "1E-130",
    "99999999999999999999999999999999999999",
    "-0",
];
const BINARIES: [&str; 5] = ["AA==", "YQ==", "YWI=", "YWJj", "//8="];

pub(super) fn any_key(random: &Random) -> Value {
    key(partition(random), random.pick(&SORTS))
}

/// The hot key as often as both others together.
pub(super) fn partition(random: &Random) -> &'static str {
    if random.percent(35) { PARTITIONS[0] } else { random.pick(&PARTITIONS) }
}

/// So many different keys.
pub(super) fn keys(random: &Random, count: usize) -> Vec<Value> {
    let all = PARTITIONS.iter().flat_map(|partition| SORTS.iter().map(|sort| (*partition, *sort)));
    let drawn = random.sample(&all.collect::<Vec<_>>(), count);
    drawn.into_iter().map(|(partition, sort)| key(partition, sort)).collect()
}

/// The type of values that an attribute of this name has.
pub(super) fn type_of(random: &Random, name: &str) -> &'static str {
    let upper = name.to_uppercase();
    match name {
        "t" => "BOOL",
        "z" => "NULL",
        "x" | "name" | "with.dot" | "a b" | "size" => random.pick(&TYPES),
        _ => TYPES.iter().find(|known| **known == upper).copied().unwrap_or("S"),
    }
}

/// A value of this type, with values of any type in it down to `depth`.
pub(super) fn value(random: &Random, kind: &str, depth: usize) -> Value {
    let all = |from: &[&'static str], most| random.sample(from, random.between(1, most));
    let inner = match kind {
        "S" => json!(random.pick(&STRINGS)),
        "N" => json!(random.pick(&NUMBERS)),
        "B" => json!(random.pick(&BINARIES)),
        "BOOL" => json!(random.percent(50)),
        "NULL" => json!(true),
        "SS" => json!(all(&STRINGS, 3)),
        // Without numbers that are equal: a set has none twice.
        "NS" => json!(all(&NUMBERS[1..7], 3)),
        "BS" => json!(all(&BINARIES, 3)),
        "L" if depth > 0 => {
            let drawn = (0..random.below(4)).map(|_| value(random, random.pick(&TYPES), depth - 1));
            drawn.collect()
        }
        "M" if depth > 0 => Value::Object(attributes(random, depth - 1, 4)),
        "L" => json!([]),
        _ => json!({}),
    };
    json!({ kind: inner })
}

/// A value that an attribute of this name has.
pub(super) fn value_of(random: &Random, name: &str) -> Value {
    let value = value(random, type_of(random, name), 2);
    // A big item is one at the edge of a write unit, so that a few bytes more cost one.
    let is_big = name == "x" && random.percent(6);
    if is_big { json!({ "S": "x".repeat(random.between(930, 1_010)) }) } else { value }
}

fn attributes(random: &Random, depth: usize, most: usize) -> Map<String, Value> {
    let names = random.sample(&NAMES, random.below(most + 1));
    let drawn = names
        .into_iter()
        .map(|name| (name.to_owned(), value(random, type_of(random, name), depth)));
    drawn.collect()
}

/// An item with this key.
pub(super) fn item(random: &Random, key: &Value) -> Value {
    let mut item = key.as_object().cloned().unwrap_or_default();
    for name in random.sample(&NAMES, random.between(0, 9)) {
        item.insert(name.to_owned(), value_of(random, name));
    }
    Value::Object(item)
}
