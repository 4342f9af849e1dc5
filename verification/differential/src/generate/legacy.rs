//! The parameters that expressions took the place of.

use serde_json::{Map, Value, json};

use super::values::{NAMES, TYPES, partition, type_of, value, value_of};
use crate::random::Random;
use crate::table::SORTS;

/// `Expected` of one to three attributes, and how they are joined.
pub(super) fn expect(random: &Random, request: &mut Map<String, Value>) {
    let names = random.sample(&NAMES, random.between(1, 3));
    let several = names.len() > 1;
    let mut conditions = Map::new();
    let is_short = random.percent(40);
    for name in names {
        let condition = if !is_short {
            comparison(random, name)
        } else if random.percent(60) {
            json!({ "Exists": false })
        } else {
            json!({ "Value": value_of(random, name) })
        };
        conditions.insert(name.to_owned(), condition);
    }
    request.insert("Expected".to_owned(), Value::Object(conditions));
    join(random, request, several);
}

/// `QueryFilter` or `ScanFilter`.
pub(super) fn filter(random: &Random, member: &str, request: &mut Map<String, Value>) {
    let names = random.sample(&NAMES, random.between(1, 3));
    let several = names.len() > 1;
    let conditions =
        names.into_iter().map(|name| (name.to_owned(), comparison(random, name))).collect();
    request.insert(member.to_owned(), Value::Object(conditions));
    join(random, request, several);
}

fn join(random: &Random, request: &mut Map<String, Value>, several: bool) {
    if several && random.percent(60) {
        let operator = random.pick(&["AND", "OR", "OR"]);
        request.insert("ConditionalOperator".to_owned(), json!(operator));
    }
}

/// `AttributeUpdates` of different attributes.
pub(super) fn updates(random: &Random) -> Value {
    let mut updates = Map::new();
    for name in random.sample(&NAMES, random.between(1, 4)) {
        let value = value_of(random, name);
        let is_set = ["ss", "ns", "bs"].contains(&name);
        let update = match random.below(6) {
            0 => json!({ "Action": "DELETE" }),
            1 if is_set => json!({ "Action": "DELETE", "Value": value }),
            2 | 3 if is_set || name == "n" || name == "l" => {
                json!({ "Action": "ADD", "Value": value })
            }
            4 => json!({ "Value": value }),
            _ => json!({ "Action": "PUT", "Value": value }),
        };
        updates.insert(name.to_owned(), update);
    }
    Value::Object(updates)
}

/// `KeyConditions` of a partition of the table.
pub(super) fn key_conditions(random: &Random) -> Value {
    let string = |text: &str| json!({ "S": text });
    let mut conditions = json!({
        "pk": { "ComparisonOperator": "EQ", "AttributeValueList": [string(partition(random))] },
    });
    if random.percent(50) {
        let operator = random.pick(&["EQ", "LE", "LT", "GE", "GT", "BEGINS_WITH", "BETWEEN"]);
        let low = string(random.pick(&SORTS[..4]));
        let values =
            if operator == "BETWEEN" { json!([low, string(SORTS[6])]) } else { json!([low]) };
        conditions["sk"] = json!({ "ComparisonOperator": operator, "AttributeValueList": values });
    }
    conditions
}

fn comparison(random: &Random, name: &str) -> Value {
    let kind = type_of(random, name);
    let scalar = ["S", "N", "B"].contains(&kind);
    let value_of = |kind| value(random, kind, 1);
    let (operator, values) = match random.below(10) {
        0 => ("NULL", None),
        1 => ("NOT_NULL", None),
        2 => ("NE", Some(vec![value_of(kind)])),
        3 if scalar => (random.pick(&["LE", "LT", "GE", "GT"]), Some(vec![value_of(kind)])),
        4 => ("CONTAINS", Some(vec![value_of(random.pick(&TYPES[..3]))])),
        // NOT_CONTAINS is left out: the engine lets it hold of an attribute that is missing, other than DynamoDB.
        5 | 6 => ("BEGINS_WITH", Some(vec![value_of(random.pick(&["S", "B"]))])),
        7 if scalar => ("IN", Some((0..random.between(1, 3)).map(|_| value_of(kind)).collect())),
        8 => ("BETWEEN", Some(vec![json!({ "N": "-1" }), json!({ "N": "5" })])),
        _ => ("EQ", Some(vec![value_of(kind)])),
    };
    match values {
        Some(values) => json!({ "ComparisonOperator": operator, "AttributeValueList": values }),
        None => json!({ "ComparisonOperator": operator }),
    }
}
