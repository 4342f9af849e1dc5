//! The table of all programs.

use serde_json::{Value, json};

/// The name of the table.
pub const TABLE: &str = "Orders";

/// A local index by the number `n`.
pub const LOCAL_INDEX: &str = "by-n";

/// A global index by the string `s`.
pub const GLOBAL_INDEX: &str = "by-s";

/// The partition keys: a hot one, a cold one, and one that in some programs ends as the physical key of a second shard does.
pub const PARTITIONS: [&str; 3] = ["hot", "cold", "odd"];

/// The last of them as it is in those programs ([`with_lookalike`]).
pub(crate) const LOOKALIKE: &str = "odd#~1";

/// The sort keys.
pub const SORTS: [&str; 8] = [" ", "a", "a1", "a2", "b", "b#~1", "c/1", "\u{fc}"];

/// The request that creates the table.
pub fn create_request() -> Value {
    json!({
        "TableName": TABLE,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            { "AttributeName": "pk", "AttributeType": "S" },
            { "AttributeName": "sk", "AttributeType": "S" },
            { "AttributeName": "n", "AttributeType": "N" },
            { "AttributeName": "s", "AttributeType": "S" },
        ],
        "KeySchema": [
            { "AttributeName": "pk", "KeyType": "HASH" },
            { "AttributeName": "sk", "KeyType": "RANGE" },
        ],
        "LocalSecondaryIndexes": [{
            "IndexName": LOCAL_INDEX,
            "KeySchema": [
                { "AttributeName": "pk", "KeyType": "HASH" },
                { "AttributeName": "n", "KeyType": "RANGE" },
            ],
            "Projection": { "ProjectionType": "ALL" },
        }],
        "GlobalSecondaryIndexes": [{
            "IndexName": GLOBAL_INDEX,
            "KeySchema": [{ "AttributeName": "s", "KeyType": "HASH" }],
            "Projection": { "ProjectionType": "INCLUDE", "NonKeyAttributes": ["x", "l"] },
        }],
    })
}

/// A text with the last partition key as one that ends as the physical key of a second shard does.
pub(crate) fn with_lookalike(value: &mut Value) {
    match value {
        Value::String(text) if text == PARTITIONS[2] => LOOKALIKE.clone_into(text),
        Value::Array(elements) => elements.iter_mut().for_each(with_lookalike),
        Value::Object(members) => members.values_mut().for_each(with_lookalike),
        _ => {}
    }
}

/// What a key, or a start key of the index, is made of.
pub(crate) fn key(partition: &str, sort: &str) -> Value {
    json!({ "pk": { "S": partition }, "sk": { "S": sort } })
}
