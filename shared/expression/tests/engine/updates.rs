//! Updates with assignments, and projections.

use dynashard_expression::{Placeholders, with_assignments, with_projected};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::check;
use crate::store::{Outcome, Store, members};
use crate::values::{attributes, soup};

const PIECES: &[&str] = &[
    "SET aa = :n",
    "set bb = bb + :n",
    "SET",
    "REMOVE cc",
    "remove",
    "ADD bb :n",
    "ADD",
    "DELETE cc :s",
    "DELETE",
    "SET aa=:n,bb=:s",
    ",",
    ",",
    "aa",
    "cc = :s",
    "bb = if_not_exists(bb, :n)",
    ".",
    ".SET",
    "aa.set",
    "#SET",
    "[0]",
    "(",
    ")",
    "=",
    ":n",
    ":s",
    "é",
];

/// The values and names that a text uses, so that none is refused for one that it does not use.
fn used(text: &str) -> Placeholders {
    let mut placeholders = Placeholders::default();
    for (name, value) in [(":n", json!({"N": "1"})), (":s", json!({"SS": ["x"]}))] {
        if text.contains(name) {
            placeholders.values.insert(name.to_owned(), value);
        }
    }
    if text.contains("#SET") {
        placeholders.names.insert("#SET".to_owned(), "set".to_owned());
    }
    placeholders
}

fn updated(
    store: &Store,
    item: Option<&Map<String, Value>>,
    text: &str,
    placeholders: &Placeholders,
) -> (Outcome, Option<Value>) {
    store.reset(item);
    let outcome = store.update(members("UpdateExpression", Some(text), placeholders));
    (outcome, store.item())
}

#[test]
fn an_update_with_assignments_ends_as_the_update_and_the_assignments() {
    let store = Store::new();
    let item = prop::option::weighted(0.8, attributes());
    check(2_500, &(item, soup(PIECES)), |(item, text)| {
        let mut placeholders = used(&text);
        let (alone, wanted) = updated(&store, item.as_ref(), &text, &placeholders);
        let name = placeholders.name("_ds_v");
        let value = placeholders.value(json!({"N": "7"}));
        let Ok(more) = with_assignments(Some(&text), &format!("{name} = {value}")) else {
            prop_assert_eq!(alone.kind(), "refused", "{}", text);
            return Ok(());
        };
        let (outcome, mut found) = updated(&store, item.as_ref(), &more, &placeholders);
        prop_assert_eq!(outcome.kind(), alone.kind(), "{} {:?} {:?}", more, outcome, alone);
        let version = found.as_mut().and_then(|item| item.as_object_mut()?.remove("_ds_v"));
        if outcome == Outcome::Done {
            prop_assert_eq!(version, Some(json!({"N": "7"})));
        }
        prop_assert_eq!(found, wanted, "{}", more);
        Ok(())
    });
}

#[test]
fn a_projection_shows_more_only_of_what_was_added() {
    const PATHS: &[&str] =
        &["aa", "bb", "cc.aa", "cc[1]", ",", ",", ",", ".", "#SET", "é", "aa, bb", "cc[0]"];
    let store = Store::new();
    check(800, &(attributes(), soup(PATHS)), |(mut item, text)| {
        item.insert("_ds_g".to_owned(), json!({"N": "3"}));
        store.reset(Some(&item));
        let mut placeholders = used(&text);
        let scan = |text: &str, placeholders: &Placeholders| {
            store.scan(members("ProjectionExpression", Some(text), placeholders))
        };
        let alone = scan(&text, &placeholders);
        let name = placeholders.name("_ds_g");
        let more = scan(&with_projected(&text, &[name]), &placeholders);
        match (alone, more) {
            (Ok(alone), Ok(mut more)) => {
                let version = more[0].as_object_mut().unwrap().remove("_ds_g");
                prop_assert_eq!(version, Some(json!({"N": "3"})));
                prop_assert_eq!(alone, more);
            }
            (alone, more) => prop_assert!(alone.is_err() && more.is_err(), "{} {:?}", text, more),
        }
        Ok(())
    });
}
