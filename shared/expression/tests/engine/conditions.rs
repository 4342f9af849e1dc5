//! Conditions beside a guard.

use dynashard_expression::{Placeholders, reserved, wrap};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::check;
use crate::store::{Outcome, Store, members};
use crate::values::{ATTRIBUTES, attributes, soup, value};

/// Does not hold of an item with a `g`.
const GUARD: &str = "attribute_not_exists(g)";
/// Holds of the same items, and would not be a guard without brackets of its own.
const DISJUNCTION: &str = "attribute_not_exists(g) OR g = g";

/// A condition before it is written.
#[derive(Debug, Clone)]
enum Condition {
    Comparison(String, &'static str, Value),
    Between(String, Value, Value),
    In(String, Vec<Value>),
    Exists(&'static str, String),
    Function(&'static str, String, Value),
    Not(Box<Condition>),
    Both(Box<Condition>, &'static str, Box<Condition>),
    Bracketed(Box<Condition>),
}

impl Condition {
    /// Its text, with its names and values in the placeholders.
    fn text(&self, placeholders: &mut Placeholders) -> String {
        match self {
            Self::Comparison(attribute, operator, value) => {
                let name = client_name(attribute, placeholders);
                format!("{name} {operator} {}", client_value(value, placeholders))
            }
            Self::Between(attribute, low, high) => {
                let name = client_name(attribute, placeholders);
                let low = client_value(low, placeholders);
                format!("{name} between {low} AND {}", client_value(high, placeholders))
            }
            Self::In(attribute, values) => {
                let name = client_name(attribute, placeholders);
                let values = values.iter().map(|value| client_value(value, placeholders));
                format!("{name} IN({})", values.collect::<Vec<_>>().join(","))
            }
            Self::Exists(function, attribute) => {
                format!("{function}({})", client_name(attribute, placeholders))
            }
            Self::Function(function, attribute, value) => {
                let name = client_name(attribute, placeholders);
                format!("{function}({name}, {})", client_value(value, placeholders))
            }
            Self::Not(inner) => format!("NOT {}", inner.text(placeholders)),
            Self::Both(left, operator, right) => {
                let left = left.text(placeholders);
                format!("{left} {operator} {}", right.text(placeholders))
            }
            Self::Bracketed(inner) => format!("({})", inner.text(placeholders)),
        }
    }
}

/// A placeholder as a client would choose one.
fn client_name(attribute: &str, placeholders: &mut Placeholders) -> String {
    let name = format!("#n{}", placeholders.names.len());
    placeholders.names.insert(name.clone(), attribute.to_owned());
    name
}

/// A placeholder as a client would choose one.
fn client_value(value: &Value, placeholders: &mut Placeholders) -> String {
    let name = format!(":v{}", placeholders.values.len());
    placeholders.values.insert(name.clone(), value.clone());
    name
}

fn condition() -> impl Strategy<Value = Condition> {
    let attribute = || select(ATTRIBUTES).prop_map(str::to_owned);
    let comparisons = select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let existence = select(vec!["attribute_exists", "attribute_not_exists"]);
    let functions = select(vec!["begins_with", "contains", "attribute_type"]);
    let atom = prop_oneof![
        4 => (attribute(), comparisons, value()).prop_map(|(a, o, v)| Condition::Comparison(a, o, v)),
        1 => (attribute(), value(), value()).prop_map(|(a, l, h)| Condition::Between(a, l, h)),
        1 => (attribute(), prop::collection::vec(value(), 1..3)).prop_map(|(a, v)| Condition::In(a, v)),
        2 => (existence, attribute()).prop_map(|(f, a)| Condition::Exists(f, a)),
        1 => (functions, attribute(), value()).prop_map(|(f, a, v)| Condition::Function(f, a, v)),
    ];
    atom.prop_recursive(4, 12, 2, |inner| {
        let both = select(vec!["AND", "OR", "and", "oR"]);
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            1 => boxed().prop_map(Condition::Not),
            3 => (boxed(), both, boxed()).prop_map(|(l, o, r)| Condition::Both(l, o, r)),
            2 => boxed().prop_map(Condition::Bracketed),
        ]
    })
}

/// What a condition comes to of an item: it is put again, as it is.
fn judged(store: &Store, item: &Map<String, Value>, text: &str, of: &Placeholders) -> Outcome {
    store.reset(Some(item));
    store.put(item, members("ConditionExpression", Some(text), of))
}

fn with_g(item: &Map<String, Value>) -> Map<String, Value> {
    let mut item = item.clone();
    item.insert("g".to_owned(), json!({"N": "1"}));
    item
}

#[test]
fn a_guarded_condition_is_judged_as_alone_where_the_guard_holds_and_else_never_holds() {
    let store = Store::new();
    check(800, &(attributes(), condition()), |(item, condition)| {
        let mut placeholders = Placeholders::default();
        let text = condition.text(&mut placeholders);
        let alone = judged(&store, &item, &text, &placeholders);
        let wrapped = wrap(GUARD, Some(&text)).unwrap();
        let guarded = judged(&store, &item, &wrapped, &placeholders);
        prop_assert_eq!(alone.kind(), guarded.kind(), "{} {:?} {:?}", wrapped, alone, guarded);
        let guarded = judged(&store, &with_g(&item), &wrapped, &placeholders);
        let wanted = if matches!(alone, Outcome::Refused(_)) { "refused" } else { "failed" };
        prop_assert_eq!(guarded.kind(), wanted, "{} {:?}", wrapped, guarded);
        Ok(())
    });
}

#[test]
fn a_guard_that_is_a_disjunction_holds_as_one() {
    let store = Store::new();
    check(200, &(attributes(), condition()), |(item, condition)| {
        let mut placeholders = Placeholders::default();
        let text = condition.text(&mut placeholders);
        let wrapped = wrap(DISJUNCTION, Some(&text)).unwrap();
        for item in [item.clone(), with_g(&item)] {
            let alone = judged(&store, &item, &text, &placeholders);
            let guarded = judged(&store, &item, &wrapped, &placeholders);
            prop_assert_eq!(alone.kind(), guarded.kind(), "{} {:?}", wrapped, guarded);
        }
        Ok(())
    });
}

const PIECES: &[&str] = &[
    "(",
    ")",
    "(",
    ")",
    "AND",
    "OR",
    "NOT",
    "aa",
    "g",
    "=",
    "=",
    "<>",
    ":v",
    "#n",
    ",",
    ".",
    "[0]",
    "IN",
    "BETWEEN",
    "attribute_exists",
    "attribute_not_exists",
    "size",
    "attribute_exists(aa)",
    "aa = :v",
    "(aa = :v)",
    ") OR (",
    "'",
    "\"",
    "--",
    "/*",
    "é",
    "\u{a0}",
    "_ds_g",
    "#_ds0",
    "0",
];

#[test]
fn a_condition_with_pieces_put_into_it_does_not_get_past_the_guard() {
    let store = Store::new();
    let piece = (any::<prop::sample::Index>(), select(PIECES));
    let pieces = prop::collection::vec(piece, 1..3);
    check(1_500, &(attributes(), condition(), pieces), |(item, condition, pieces)| {
        let mut placeholders = Placeholders::default();
        let mut text = condition.text(&mut placeholders);
        for (place, piece) in pieces {
            let spaces = text.match_indices([' ', '(', ')']).map(|(at, _)| at);
            let places = spaces.chain([0, text.len()]).collect::<Vec<_>>();
            let piece = format!(" {piece} ").replace("#n", "aa").replace(":v", ":v0");
            text.insert_str(*place.get(&places), &piece);
        }
        let alone = judged(&store, &item, &text, &placeholders);
        let Ok(wrapped) = wrap(GUARD, Some(&text)) else {
            prop_assert_eq!(alone.kind(), "refused", "{}", text);
            return Ok(());
        };
        let guarded = judged(&store, &item, &wrapped, &placeholders);
        prop_assert_eq!(alone.kind(), guarded.kind(), "{} {:?} {:?}", wrapped, alone, guarded);
        let guarded = judged(&store, &with_g(&item), &wrapped, &placeholders);
        prop_assert_ne!(guarded.kind(), "done", "{}", wrapped);
        Ok(())
    });
}

#[test]
fn no_text_whatever_gets_past_the_guard() {
    let store = Store::new();
    let item = Map::from_iter([("aa".to_owned(), json!({"S": "x"}))]);
    check(3_000, &soup(PIECES), |text| {
        let mut placeholders = Placeholders::default();
        if text.contains("#n") {
            placeholders.names.insert("#n".to_owned(), "aa".to_owned());
        }
        if text.contains(":v") {
            let value = json!({"S": "x"});
            placeholders.values.insert(":v".to_owned(), value);
        }
        let alone = judged(&store, &item, &text, &placeholders);
        let Ok(wrapped) = wrap(GUARD, Some(&text)) else {
            prop_assert_eq!(alone.kind(), "refused", "{}", text);
            return Ok(());
        };
        let guarded = judged(&store, &item, &wrapped, &placeholders);
        prop_assert_eq!(alone.kind(), guarded.kind(), "{} {:?} {:?}", wrapped, alone, guarded);
        let guarded = judged(&store, &with_g(&item), &wrapped, &placeholders);
        prop_assert_ne!(guarded.kind(), "done", "{}", wrapped);
        Ok(())
    });
}

#[test]
fn a_malformed_condition_is_refused_in_the_words_of_the_engine() {
    let store = Store::new();
    let item = Map::new();
    for text in
        ["", "  ", "(attribute_exists(aa)", "attribute_exists(aa)) OR (attribute_exists(aa)"]
    {
        let ours = wrap(GUARD, Some(text)).unwrap_err();
        let Outcome::Refused(theirs) = judged(&store, &item, text, &Placeholders::default()) else {
            panic!("{text} was not refused");
        };
        assert!(
            theirs.ends_with(&format!("Invalid ConditionExpression: {ours}")),
            "{theirs} {ours}"
        );
    }
}

#[test]
fn what_no_text_names_stays_out_of_reach() {
    let store = Store::new();
    let item = Map::from_iter([("_ds_g".to_owned(), json!({"N": "1"}))]);
    let other = Map::new();
    check(2_000, &soup(PIECES), |text| {
        let mut placeholders = Placeholders::default();
        let value = json!({"S": "x"});
        placeholders.values.insert(":v".to_owned(), value);
        placeholders.names.insert("#n".to_owned(), "aa".to_owned());
        let text = format!("#n <> :v AND {text}");
        if reserved([text.as_str()], &placeholders, "_ds_").is_none() {
            let seen = judged(&store, &item, &text, &placeholders);
            prop_assert_eq!(
                seen.kind(),
                judged(&store, &other, &text, &placeholders).kind(),
                "{}",
                text
            );
        }
        Ok(())
    });
}
