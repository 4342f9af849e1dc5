//! Legacy parameters beside their expressions.

use dynashard_expression::legacy::LegacyError;
use dynashard_expression::{Placeholders, legacy};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::check;
use crate::store::{Outcome, Store, members};
use crate::values::{ATTRIBUTES, attributes, raw, value};

const OPERATORS: &[&str] = &[
    "EQ",
    "NE",
    "LE",
    "LT",
    "GE",
    "GT",
    "NOT_NULL",
    "NULL",
    "CONTAINS",
    "NOT_CONTAINS",
    "BEGINS_WITH",
    "IN",
    "BETWEEN",
    "eq",
];

/// An element of a filter: an operator, with values that it mostly takes.
fn comparison() -> impl Strategy<Value = Value> {
    (select(OPERATORS), prop::collection::vec(value(), 2), prop::option::weighted(0.1, 0..3_usize))
        .prop_map(|(operator, mut values, count)| {
            values.truncate(count.unwrap_or(match operator {
                "NULL" | "NOT_NULL" => 0,
                "IN" | "BETWEEN" => 2,
                _ => 1,
            }));
            json!({"ComparisonOperator": operator, "AttributeValueList": values})
        })
}

/// An element of `Expected`.
fn expectation() -> impl Strategy<Value = Value> {
    let exists = prop::option::of(any::<bool>());
    let older = (prop::option::of(value()), exists).prop_map(|(value, exists)| {
        let mut members = json!({});
        if let Some(value) = value {
            members["Value"] = value;
        }
        if let Some(exists) = exists {
            members["Exists"] = json!(exists);
        }
        members
    });
    prop_oneof![3 => comparison(), 1 => older]
}

fn by_attribute<S: Strategy<Value = Value>>(element: S) -> impl Strategy<Value = Value> {
    let map = prop::collection::btree_map(select(ATTRIBUTES), element, 0..3);
    map.prop_map(|map| json!(map))
}

fn joiner() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::weighted(0.3, select(vec!["AND", "OR", "or"]))
}

/// Of a missing attribute DynamoDB lets `NOT_CONTAINS` fail, and the engine hold.
fn differs(conditions: &Value, item: &Map<String, Value>) -> bool {
    conditions.as_object().is_some_and(|conditions| {
        conditions.iter().any(|(attribute, condition)| {
            condition["ComparisonOperator"] == "NOT_CONTAINS" && !item.contains_key(attribute)
        })
    })
}

/// The guide gives each operator its types, and lets all values of one be of one type. The engine checks that in some
/// parameters, and for some operators.
fn is_of_types(error: &LegacyError) -> bool {
    let error = error.to_string();
    error.contains(" is not valid for ") || error.contains(" must be of same type")
}

#[test]
fn expected_ends_as_its_condition() {
    let store = Store::new();
    let inputs = (attributes(), by_attribute(expectation()), joiner());
    check(1_500, &inputs, |(item, expected, joiner)| {
        if differs(&expected, &item) {
            return Ok(());
        }
        store.reset(Some(&item));
        let mut request = json!({ "Expected": expected });
        if let Some(joiner) = joiner {
            request["ConditionalOperator"] = json!(joiner);
        }
        let wanted = store.put(&item, request);
        let mut placeholders = Placeholders::default();
        let parameter = raw(&expected);
        let outcome = match legacy::expected(&parameter, joiner, &mut placeholders) {
            Ok(text) => {
                store.put(&item, members("ConditionExpression", text.as_deref(), &placeholders))
            }
            Err(error) if is_of_types(&error) => return Ok(()),
            Err(error) => Outcome::Refused(error.to_string()),
        };
        prop_assert_eq!(outcome.kind(), wanted.kind(), "{} {:?} {:?}", expected, outcome, wanted);
        Ok(())
    });
}

#[test]
fn attribute_updates_end_as_their_update() {
    let store = Store::new();
    let action = select(vec!["PUT", "PUT", "ADD", "ADD", "DELETE", "put"]);
    let list = prop_oneof![4 => value(), 1 => Just(json!({"L": [{"N": "9"}]}))];
    let update = (prop::option::weighted(0.9, action), prop::option::weighted(0.8, list));
    let update = update.prop_map(|(action, value)| {
        let mut members = json!({});
        if let Some(action) = action {
            members["Action"] = json!(action);
        }
        if let Some(value) = value {
            members["Value"] = value;
        }
        members
    });
    let item = prop::option::weighted(0.8, attributes());
    check(1_500, &(item, by_attribute(update)), |(item, updates)| {
        store.reset(item.as_ref());
        let wanted = (store.update(json!({ "AttributeUpdates": updates })), store.item());
        store.reset(item.as_ref());
        let mut placeholders = Placeholders::default();
        let parameter = raw(&updates);
        let outcome = match legacy::attribute_updates(&parameter, &mut placeholders) {
            Ok(text) => store.update(members("UpdateExpression", text.as_deref(), &placeholders)),
            Err(error) => Outcome::Refused(error.to_string()),
        };
        let found = store.item();
        prop_assert_eq!(
            outcome.kind(),
            wanted.0.kind(),
            "{} {:?} {:?}",
            updates,
            outcome,
            wanted.0
        );
        prop_assert_eq!(found, wanted.1, "{}", updates);
        Ok(())
    });
}

#[test]
fn filters_and_attributes_to_get_end_as_their_expressions() {
    let store = Store::new();
    let shown = prop::option::of(prop::collection::vec(select(ATTRIBUTES), 1..3));
    let inputs = (attributes(), by_attribute(comparison()), joiner(), shown);
    check(1_500, &inputs, |(item, filter, joiner, shown)| {
        if differs(&filter, &item) {
            return Ok(());
        }
        store.reset(Some(&item));
        let mut request = json!({ "ScanFilter": filter });
        if let Some(joiner) = joiner {
            request["ConditionalOperator"] = json!(joiner);
        }
        if let Some(shown) = &shown {
            request["AttributesToGet"] = json!(shown);
        }
        let wanted = store.scan(request);
        let mut placeholders = Placeholders::default();
        let parameter = raw(&filter);
        let translated = legacy::filter(&parameter, joiner, &mut placeholders).and_then(|filter| {
            let shown = shown.as_ref().map(raw);
            let shown = shown.map(|shown| legacy::attributes_to_get(&shown, &mut placeholders));
            Ok((filter, shown.transpose()?))
        });
        let found = match translated {
            Ok((filter, shown)) => {
                let mut request = members("FilterExpression", filter.as_deref(), &placeholders);
                if let Some(shown) = shown {
                    request["ProjectionExpression"] = json!(shown);
                }
                store.scan(request)
            }
            Err(error) if is_of_types(&error) => return Ok(()),
            Err(error) => Err(error.to_string()),
        };
        match (found, wanted) {
            (Err(_), Err(_)) => {}
            (found, wanted) => prop_assert_eq!(found, wanted, "{}", filter),
        }
        Ok(())
    });
}

#[test]
fn key_conditions_end_as_their_expression() {
    let store = Store::new();
    store.reset(Some(&Map::new()));
    let keys = select(vec!["pk", "pk", "aa"]);
    let conditions = prop::collection::btree_map(keys, comparison(), 0..3);
    let known = json!({"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "A"}]});
    check(800, &(conditions, any::<bool>()), |(mut conditions, is_whole)| {
        if is_whole {
            conditions.insert("pk", known.clone());
        }
        let conditions = json!(conditions);
        let wanted = store.query(json!({ "KeyConditions": conditions }));
        let mut placeholders = Placeholders::default();
        let parameter = raw(&conditions);
        let found = match legacy::key_conditions(&parameter, &mut placeholders) {
            Ok(text) => store.query(members("KeyConditionExpression", Some(&text), &placeholders)),
            Err(error) => Err(error.to_string()),
        };
        match (found, wanted) {
            (Err(_), Err(_)) => {}
            (found, wanted) => prop_assert_eq!(found, wanted, "{}", conditions),
        }
        Ok(())
    });
}
