//! Breaks a request in one of many ways. What comes of it may still be good.

use serde_json::{Value, json};

use crate::program::Step;
use crate::random::Random;
use crate::table::TABLE;

const EXPRESSIONS: [&str; 5] = [
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
];

/// Breaks the request of a step.
pub(super) fn damage(random: &Random, step: &mut Step) {
    let body = &mut step.body;
    match random.below(12) {
        0 => retype(random, body),
        1 => body["Bogus"] = json!(1),
        2 => unused(random, body),
        3 | 4 => key(random, body),
        5..=7 => expression(random, body),
        8 => value(random, body),
        9 => member(random, body),
        10 => lists(random, body),
        _ => limits(random, body),
    }
}

/// Every place in the request, at any depth, as JSON pointers.
fn places(body: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match body {
        Value::Object(members) => {
            let escaped = |name: &String| name.replace('~', "~0").replace('/', "~1");
            members.iter().map(|(name, value)| (escaped(name), value)).collect()
        }
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let place = format!("{at}/{name}");
        places(value, &place, found);
        found.push(place);
    }
}

/// A place of which the name ends with one of these, at any depth.
fn find<'b>(random: &Random, body: &'b mut Value, names: &[&str]) -> Option<&'b mut Value> {
    let mut found = Vec::new();
    places(body, "", &mut found);
    found.retain(|place| names.iter().any(|name| place.ends_with(&format!("/{name}"))));
    let at = found.get(random.below(found.len()))?.clone();
    body.pointer_mut(&at)
}

/// Another type of JSON at any place, or no object at all.
fn retype(random: &Random, body: &mut Value) {
    let mut found = Vec::new();
    places(body, "", &mut found);
    if random.percent(3) {
        found.clear();
    }
    let at = found.get(random.below(found.len())).cloned().unwrap_or_default();
    let others = [json!(7), json!("7"), json!([]), json!({}), json!(null), json!(true), json!(1.5)];
    if let Some(place) = body.pointer_mut(&at) {
        *place = others[random.below(others.len())].clone();
    }
}

/// A placeholder that nothing uses, or one without a sign, or none where there is the member.
fn unused(random: &Random, body: &mut Value) {
    let (member, name, value) = if random.percent(50) {
        ("ExpressionAttributeNames", "#unused", json!("x"))
    } else {
        ("ExpressionAttributeValues", ":unused", json!({ "S": "x" }))
    };
    body[member] = match random.below(4) {
        0 => json!({}),
        1 => json!({ name[1..]: value }),
        2 => json!({ name: value }),
        _ => {
            let mut placeholders = body.get(member).cloned().unwrap_or_else(|| json!({}));
            placeholders[name] = value;
            placeholders
        }
    };
}

fn key(random: &Random, body: &mut Value) {
    let Some(key) = find(random, body, &["Key", "Item", "ExclusiveStartKey"]) else { return };
    let Some(key) = key.as_object_mut() else { return };
    let name = random.pick(&["pk", "sk"]);
    let broken = match random.below(6) {
        0 => json!({ "S": "" }),
        1 => json!({ "N": "1" }),
        2 => json!({ "B": "AA==" }),
        3 => json!({ "S": "k".repeat(2_049) }),
        4 => {
            key.insert("extra".to_owned(), json!({ "S": "a" }));
            return;
        }
        _ => {
            key.remove(name);
            return;
        }
    };
    key.insert(name.to_owned(), broken);
}

/// Damages the text of an expression, or says something else in its place.
fn expression(random: &Random, body: &mut Value) {
    let Some(place) = find(random, body, &EXPRESSIONS) else {
        body["ConditionExpression"] = json!("attribute_exists(x)");
        return;
    };
    let text = place.as_str().unwrap_or_default();
    let cut = random.below(text.chars().count() + 1);
    let before = text.chars().take(cut).collect::<String>();
    let after = text.chars().skip(cut).collect::<String>();
    let signs = [
        "(", ")", "#", ":", ".", ",", "[", "]", " AND ", " OR ", " NOT ", "\u{20ac}", "\"", "=",
        "[0]", ":v99", "#n99", "SET ", "-", "()", "\0", ")) OR ((", "0",
    ];
    let others = [
        "",
        " ",
        "name = :v0",
        "((attribute_exists(x)))",
        "((x = x))",
        "(attribute_exists(x)) OR (attribute_exists(n))",
        "attribute_exists(x) AND",
        "x = x",
        "size(x)",
        "unknown(x)",
        "attribute_exists(x, n)",
        "x, x",
        "m, m.n",
        "SET x = x, x = n",
        "SET x = n SET n = x",
        "SET pk = x",
        "REMOVE sk",
        "_ds_v",
        "attribute_exists(_ds_v)",
        "SET x = _ds_v",
        ") OR (attribute_exists(x)",
        "attribute_exists(x)) OR (attribute_exists(n)",
    ];
    let damaged = match random.below(4) {
        0 => before + after.get(1..).unwrap_or_default(),
        1 | 2 => before + random.pick(&signs) + &after,
        _ => random.pick(&others).to_owned(),
    };
    *place = json!(damaged);
}

/// A value that is none.
fn value(random: &Random, body: &mut Value) {
    let names = ["x", "n", "s", "ss", "m", "l", ":v0", ":v1", ":0", "Value", "pk", "name"];
    let Some(place) = find(random, body, &names) else { return };
    if !place.is_object() {
        return;
    }
    let broken = [
        json!({ "SS": [] }),
        json!({ "NS": [] }),
        json!({ "BS": [] }),
        json!({ "SS": ["a", "a"] }),
        json!({ "NS": ["1", "1.0"] }),
        json!({ "N": "abc" }),
        json!({ "N": "" }),
        json!({ "N": "1e999" }),
        json!({ "N": "123456789012345678901234567890123456789" }),
        json!({ "N": 5 }),
        json!({ "S": "a", "N": "1" }),
        json!({}),
        json!({ "NULL": false }),
        json!({ "B": "not base64" }),
        json!({ "BOOL": "true" }),
        json!({ "Q": "a" }),
        json!({ "L": [{ "SS": [] }] }),
        json!({ "M": { "": { "S": "a" } } }),
        json!({ "S": "" }),
        json!({ "B": "" }),
    ];
    *place = broken[random.below(broken.len())].clone();
}

/// A member that is missing, or has a word that it does not know, or does not go with the others.
fn member(random: &Random, body: &mut Value) {
    let Some(members) = body.as_object_mut() else { return };
    let names = members.keys().cloned().collect::<Vec<_>>();
    let name = names.get(random.below(names.len())).cloned().unwrap_or_default();
    match random.below(5) {
        0 => drop(members.remove(&name)),
        1 => drop(
            members.insert("TableName".to_owned(), json!(random.pick(&["Nothing", "", "a", "b!"]))),
        ),
        2 => {
            let words = [
                "ReturnValues",
                "ReturnConsumedCapacity",
                "ReturnItemCollectionMetrics",
                "ReturnValuesOnConditionCheckFailure",
                "Select",
                "ConditionalOperator",
                "IndexName",
            ];
            let word = random.pick(&["SOME", "", "ALL_NEW", "UPDATED_OLD", "COUNT", "AND"]);
            members.insert(random.pick(&words).to_owned(), json!(word));
        }
        3 => drop(
            members
                .insert("ClientRequestToken".to_owned(), json!("t".repeat(37 * random.below(2)))),
        ),
        _ => {
            let legacy = [
                ("Expected", json!({ "x": { "Exists": false } })),
                ("Expected", json!({ "x": { "Exists": true } })),
                ("Expected", json!({ "x": { "ComparisonOperator": "EQ" } })),
                (
                    "Expected",
                    json!({ "x": { "ComparisonOperator": "LIKE", "AttributeValueList": [] } }),
                ),
                ("Expected", json!({})),
                ("AttributeUpdates", json!({ "x": { "Action": "ADD", "Value": { "S": "a" } } })),
                ("AttributeUpdates", json!({ "pk": { "Action": "DELETE" } })),
                ("AttributesToGet", json!(["x"])),
                ("AttributesToGet", json!(["x", "x"])),
                ("AttributesToGet", json!([])),
                ("KeyConditions", json!({})),
                ("QueryFilter", json!({ "sk": { "ComparisonOperator": "NULL" } })),
                ("ScanFilter", json!({ "x": { "ComparisonOperator": "NULL" } })),
            ];
            let (name, value) = legacy[random.below(legacy.len())].clone();
            members.insert(name.to_owned(), value);
        }
    }
}

/// An element twice, too many elements, none, or one of another table.
fn lists(random: &Random, body: &mut Value) {
    let Some(list) = find(random, body, &["Keys", TABLE, "TransactItems"]) else {
        return retype(random, body);
    };
    let Some(elements) = list.as_array_mut().filter(|elements| !elements.is_empty()) else {
        return;
    };
    let one = elements[random.below(elements.len())].clone();
    match random.below(4) {
        0 => elements.push(one),
        1 => elements.resize(if random.percent(50) { 26 } else { 101 }, one),
        2 => elements.clear(),
        _ => elements.push(json!({})),
    }
}

fn limits(random: &Random, body: &mut Value) {
    let (member, value) = match random.below(6) {
        0 => ("Limit", json!(0)),
        1 => ("Limit", json!(-1)),
        2 => ("Segment", json!(random.below(4))),
        3 => ("TotalSegments", json!(random.below(3))),
        4 => ("ConsistentRead", json!("true")),
        _ => ("Limit", json!("2")),
    };
    body[member] = value;
}
