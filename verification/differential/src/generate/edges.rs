//! What a managed table answers otherwise, and DynamoDB's own limits: rare, since a program often ends there.

use serde_json::{Value, json};

use super::values::any_key;
use crate::program::Step;
use crate::random::Random;
use crate::table::TABLE;

/// A step at an edge, in a few of a thousand.
pub(super) fn step(random: &Random) -> Option<Step> {
    if !random.rarely(60) {
        return None;
    }
    let key = any_key(random);
    let (operation, body) = match random.below(9) {
        0 => (
            "PutItem",
            put(&json!({ "pk": key["pk"], "sk": key["sk"], "x": { "S": big(random) } })),
        ),
        1 => {
            let pk = "p".repeat(random.between(1_990, 2_049));
            ("PutItem", put(&json!({ "pk": { "S": pk }, "sk": key["sk"] })))
        }
        2 => ("UpdateItem", long_condition(random, &key)),
        3 => ("UpdateItem", many_operators(random, &key)),
        4 => {
            let statement = format!("SELECT * FROM \"{TABLE}\" WHERE pk = 'hot'");
            ("ExecuteStatement", json!({ "Statement": statement }))
        }
        5 => ("PutItem", reserved(random, &key)),
        6 => {
            let specification = json!({ "Enabled": false, "AttributeName": "n" });
            let body = json!({ "TableName": TABLE, "TimeToLiveSpecification": specification });
            ("UpdateTimeToLive", body)
        }
        7 => {
            let update = "SET big = :x";
            let values = json!({ ":x": { "S": big(random) } });
            (
                "UpdateItem",
                updated(
                    &key,
                    &json!({ "UpdateExpression": update, "ExpressionAttributeValues": values }),
                ),
            )
        }
        _ => ("BatchWriteItem", wrong_index_key(random)),
    };
    Some(Step { operation: operation.to_owned(), body, goes_on: false })
}

fn put(item: &Value) -> Value {
    json!({ "TableName": TABLE, "Item": item })
}

fn updated(key: &Value, with: &Value) -> Value {
    let mut body = json!({ "TableName": TABLE, "Key": key });
    for (member, value) in with.as_object().into_iter().flatten() {
        body[member] = value.clone();
    }
    body
}

/// A text with which an item is at DynamoDB's limit of 400 KB, or a little below or above.
fn big(random: &Random) -> String {
    "x".repeat(random.between(399 * 1_024 - 200, 400 * 1_024 + 50))
}

/// A condition of about 4,096 bytes, the most that there may be.
fn long_condition(random: &Random, key: &Value) -> Value {
    let name = "n".repeat(random.between(3_800, 4_100) - "attribute_not_exists()".len());
    let condition = format!("attribute_not_exists({name})");
    updated(key, &json!({ "ConditionExpression": condition }))
}

/// A condition of about 300 operators, the most that there may be.
fn many_operators(random: &Random, key: &Value) -> Value {
    let atoms = (0..random.between(140, 152)).map(|_| "n<>:v");
    let condition = atoms.collect::<Vec<_>>().join(" OR ");
    let values = json!({ ":v": { "N": "1" } });
    updated(key, &json!({ "ConditionExpression": condition, "ExpressionAttributeValues": values }))
}

/// A name that dynashard keeps for itself.
fn reserved(random: &Random, key: &Value) -> Value {
    let mut item = key.clone();
    match random.below(3) {
        0 => item["pk"] = json!({ "S": "_ds_pk" }),
        1 => item["_ds_v"] = json!({ "N": "1" }),
        _ => item["_ds_note"] = json!({ "S": "a" }),
    }
    put(&item)
}

/// A batch of which one item has what the index cannot take.
fn wrong_index_key(random: &Random) -> Value {
    let writes = super::keys(random, 4).into_iter().enumerate().map(|(index, mut item)| {
        item["n"] = if index == 2 { json!({ "S": "a" }) } else { json!({ "N": "1" }) };
        json!({ "PutRequest": { "Item": item } })
    });
    json!({ "RequestItems": { TABLE: writes.collect::<Vec<_>>() } })
}
