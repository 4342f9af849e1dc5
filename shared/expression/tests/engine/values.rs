//! Attributes and values, of few kinds, so that what is compared often is alike.

use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// The attributes that items have. None is a reserved word, and one is no name without a placeholder.
pub(crate) const ATTRIBUTES: &[&str] = &["aa", "bb", "cc", "d-d"];

pub(crate) fn value() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"S": ""}),
        json!({"S": "x"}),
        json!({"S": "xy"}),
        json!({"N": "1"}),
        json!({"N": "2.50"}),
        json!({"B": "eHk="}),
        json!({"BOOL": true}),
        json!({"NULL": true}),
        json!({"SS": ["x", "y"]}),
        json!({"NS": ["1", "2.5"]}),
        json!({"L": [{"S": "x"}, {"N": "1"}]}),
        json!({"M": {"aa": {"N": "1"}}}),
    ])
}

/// The text of some JSON.
pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("it is JSON")
}

/// The attributes of an item beside its key.
pub(crate) fn attributes() -> impl Strategy<Value = Map<String, Value>> {
    let map = prop::collection::btree_map(select(ATTRIBUTES), value(), 0..4);
    map.prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A text of these pieces, with spaces between most of them.
pub(crate) fn soup(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let space = select(vec![" ", " ", "", "\n"]);
    // Short ones are well-formed more often.
    let count = prop_oneof![1..4_usize, 1..12_usize];
    let piece = (select(pieces), space);
    let pieces = count.prop_flat_map(move |count| prop::collection::vec(piece.clone(), count));
    pieces.prop_map(|pieces| {
        pieces.into_iter().map(|(piece, space)| piece.to_owned() + space).collect()
    })
}
