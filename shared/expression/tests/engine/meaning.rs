//! What expressions say of an item, here and in the engine.

use std::cell::Cell;

use dynashard_expression::{Condition, KeyCondition, KeyRange, Placeholders, Projection};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::check;
use crate::store::{Store, members};

const CASES: u32 = 2_000;

const NAMES: &[&str] = &["aa", "bb", "d-d"];

/// Whole attributes come more often than parts of them.
const PATHS: &[&str] = &[
    "aa", "aa", "aa", "bb", "bb", "bb", "#d", "#d", "aa[0]", "aa[1]", "aa[2].aa", "aa[2].#d",
    "aa[3][0]", "aa.aa", "aa.#d", "aa.aa.bb", "bb.aa", "bb[1]",
];

/// Values that can be compared with each other, have each other, or are equal though they are written otherwise.
fn alike() -> Vec<Vec<Value>> {
    let list = json!({"L": [
        {"N": "1"}, {"S": "x"}, {"M": {"aa": {"N": "1"}, "d-d": {"S": "x"}}}, {"L": [{"N": "1"}]}
    ]});
    let map = json!({"M": {"aa": {"M": {"bb": {"N": "1"}, "d-d": {"S": "x"}}}, "d-d": {"N": "2"}}});
    vec![
        ["", "x", "xy", "yx", "é\u{1f980}"].map(|text| json!({"S": text})).to_vec(),
        vec![json!({"SS": ["x", "xy"]}), json!({"SS": ["xy", "x"]}), json!({"SS": ["x"]})],
        ["1", "1.0", "2", "10", "-1e1"].map(|number| json!({"N": number})).to_vec(),
        ["8", "9"].map(|last| json!({"N": format!("{}{last}", "1234567".repeat(5))})).to_vec(),
        vec![json!({"NS": ["1", "2.5"]}), json!({"NS": ["2.50", "1.0"]}), json!({"NS": ["1"]})],
        ["", "eHk=", "eA==", "/w==", "eXg="].map(|bytes| json!({"B": bytes})).to_vec(),
        vec![
            json!({"BS": ["eHk=", "eA=="]}),
            json!({"BS": ["eA==", "eHk="]}),
            json!({"BS": ["/w=="]}),
        ],
        vec![
            json!({"BOOL": true}),
            json!({"BOOL": false}),
            json!({"NULL": true}),
            json!({"S": "BOOL"}),
        ],
        vec![list, json!({"L": []}), json!({"L": [{"N": "1"}]}), json!({"L": [{"N": "1.0"}]})],
        vec![
            map,
            json!({"M": {}}),
            json!({"M": {"aa": {"N": "1"}}}),
            json!({"M": {"aa": {"N": "1.0"}}}),
        ],
        vec![
            json!({"M": {"aa": {"N": "1"}, "bb": {"S": "x"}}}),
            json!({"L": [{"N": "1"}, {"S": "x"}]}),
        ],
    ]
}

/// The attributes of an item, and the values of `:a` to `:d`. They are of one kind or of two.
fn item_and_values() -> impl Strategy<Value = (Map<String, Value>, Vec<Value>)> {
    let pool = (select(alike()), select(alike())).prop_map(|(one, other)| [one, other].concat());
    pool.prop_flat_map(|pool| {
        let attributes = prop::collection::btree_map(select(NAMES), select(pool.clone()), 1..4);
        let attributes = attributes.prop_map(|attributes| {
            attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        });
        (attributes, prop::collection::vec(select(pool), 4))
    })
}

fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(PATHS).prop_map(str::to_owned),
        4 => select(vec![":a", ":b", ":c", ":d"]).prop_map(str::to_owned),
        1 => select(PATHS).prop_map(|path| format!("size({path})")),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let comparators = select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let existence = select(vec!["attribute_exists", "attribute_not_exists"]);
    let functions = select(vec!["begins_with", "contains"]);
    let path = || select(PATHS);
    let test = prop_oneof![
        6 => (operand(), comparators, operand()).prop_map(|(a, is, b)| format!("{a}{is}{b}")),
        1 => (operand(), operand(), operand()).prop_map(|(a, b, c)| format!("{a} between {b} AND {c}")),
        1 => (operand(), prop::collection::vec(operand(), 1..4))
            .prop_map(|(a, among)| format!("{a} IN ({})", among.join(", "))),
        2 => (existence, path()).prop_map(|(exists, a)| format!("{exists} ({a})")),
        3 => (functions, operand(), operand()).prop_map(|(does, a, b)| format!("{does}({a}, {b})")),
        1 => (path(), operand()).prop_map(|(a, b)| format!("attribute_type({a},{b})")),
    ];
    test.prop_recursive(4, 8, 2, |inner| {
        let both = select(vec!["AND", "OR", "and", "oR"]);
        prop_oneof![
            1 => inner.clone().prop_map(|inner| format!("NOT {inner}")),
            3 => (inner.clone(), both, inner.clone()).prop_map(|(a, and, b)| format!("{a} {and} {b}")),
            1 => inner.prop_map(|inner| format!("({inner})")),
        ]
    })
}

/// The placeholders that a text has: the engine refuses more.
fn placeholders(text: &str, values: &[Value]) -> Placeholders {
    let mut placeholders = Placeholders::default();
    if text.contains("#d") {
        placeholders.names.insert("#d".to_owned(), "d-d".to_owned());
    }
    let named = [":a", ":b", ":c", ":d"].into_iter().zip(values);
    let named = named.filter(|(name, _)| text.contains(name));
    placeholders.values.extend(named.map(|(name, value)| (name.to_owned(), value.clone())));
    placeholders
}

#[test]
fn a_filter_holds_of_an_item_where_it_does_in_the_engine() {
    let store = Store::new();
    let judged = Cell::new(0);
    check(CASES, &(item_and_values(), condition()), |((item, values), text)| {
        store.reset(Some(&item));
        let placeholders = placeholders(&text, &values);
        let found = store.scan(members("FilterExpression", Some(&text), &placeholders));
        // The engine refuses operands of types that make no sense.
        let Ok(found) = found else { return Ok(()) };
        judged.set(judged.get() + 1);
        let item = store.item().expect("it was put");
        let condition = Condition::parse(&text, &placeholders).expect("the engine takes it");
        let holds = condition.holds(item.as_object().unwrap());
        prop_assert_eq!(json!(holds), json!(found != json!([])), "{} {} {:?}", text, item, values);
        Ok(())
    });
    assert!(judged.get() > CASES / 2, "only {} of {CASES} were judged", judged.get());
}

#[test]
fn a_projection_leaves_of_an_item_what_it_does_in_the_engine() {
    let store = Store::new();
    let judged = Cell::new(0);
    let paths = prop::collection::vec(select(&PATHS[6..]), 1..5);
    check(CASES, &(item_and_values(), paths), |((item, _), paths)| {
        store.reset(Some(&item));
        let text = paths.join(", ");
        let placeholders = placeholders(&text, &[]);
        let found = store.scan(members("ProjectionExpression", Some(&text), &placeholders));
        // The engine refuses paths that overlap.
        let Ok(found) = found else { return Ok(()) };
        judged.set(judged.get() + 1);
        let item = store.item().expect("it was put");
        let projection = Projection::parse(&text, &placeholders).expect("the engine takes it");
        let left = projection.apply(item.as_object().unwrap());
        prop_assert_eq!(json!([left]), found, "{} {}", text, item);
        Ok(())
    });
    assert!(judged.get() > CASES / 2, "only {} of {CASES} were judged", judged.get());
}

/// A key condition: one on the partition key, and one on the sort key or none, in either order and with brackets or without.
fn key_condition() -> impl Strategy<Value = String> {
    let comparators = select(vec!["=", "<", "<=", ">", ">="]);
    let range = prop_oneof![
        1 => Just(None),
        2 => comparators.clone().prop_map(|is| Some(format!("sk {is} :a"))),
        2 => comparators.prop_map(|is| Some(format!(":a{is}sk"))),
        1 => Just(Some("sk between :a AND :b".to_owned())),
        1 => Just(Some("begins_with (sk, :a)".to_owned())),
    ];
    let bracketed = |text: String, is: bool| if is { format!("({text})") } else { text };
    let partition = select(vec!["pk = :pk", ":pk=pk"]);
    (partition, range, any::<[bool; 4]>()).prop_map(
        move |(partition, range, [one, two, all, swaps])| {
            let partition = bracketed(partition.to_owned(), one);
            let Some(range) = range else { return partition };
            let range = bracketed(range, two);
            let (first, last) = if swaps { (range, partition) } else { (partition, range) };
            bracketed(format!("{first} AND {last}"), all)
        },
    )
}

/// Whether a key condition takes a sort key.
fn takes(range: Option<&KeyRange>, sort_key: &str) -> bool {
    let text = |value: &Value| value["S"].as_str().expect("a text").to_owned();
    match range {
        None => true,
        Some(KeyRange::Equal(value)) => sort_key == text(value),
        Some(KeyRange::Less(value)) => *sort_key < *text(value),
        Some(KeyRange::AtMost(value)) => *sort_key <= *text(value),
        Some(KeyRange::Greater(value)) => *sort_key > *text(value),
        Some(KeyRange::AtLeast(value)) => *sort_key >= *text(value),
        Some(KeyRange::Between(low, high)) => *text(low) <= *sort_key && *sort_key <= *text(high),
        Some(KeyRange::BeginsWith(prefix)) => sort_key.starts_with(&text(prefix)),
    }
}

#[test]
fn a_key_condition_takes_the_items_that_a_query_of_the_engine_finds() {
    const SORT_KEYS: &[&str] = &["x", "xy", "xz", "y", "z"];
    let store = Store::sorted(SORT_KEYS);
    let judged = Cell::new(0);
    let values = prop::collection::vec(select(SORT_KEYS), 2);
    check(CASES / 4, &(key_condition(), values), |(text, values)| {
        let values = values.iter().map(|text| json!({"S": text})).collect::<Vec<_>>();
        let mut placeholders = placeholders(&text, &values);
        placeholders.values.insert(":pk".to_owned(), json!({"S": "A"}));
        let found = store.query(members("KeyConditionExpression", Some(&text), &placeholders));
        // The engine refuses ranges that end before they begin.
        let Ok(found) = found else { return Ok(()) };
        judged.set(judged.get() + 1);
        let condition = KeyCondition::parse(&text, &placeholders).expect("the engine takes it");
        prop_assert_eq!(condition.of("pk"), Some(&KeyRange::Equal(json!({"S": "A"}))));
        let taken = SORT_KEYS.iter().filter(|sort_key| takes(condition.of("sk"), sort_key));
        let taken = taken.map(|sort_key| json!({"pk": {"S": "A"}, "sk": {"S": sort_key}}));
        prop_assert_eq!(json!(taken.collect::<Vec<_>>()), found, "{} {:?}", text, values);
        Ok(())
    });
    assert!(judged.get() > CASES / 8, "only {} were judged", judged.get());
}
