//! What the engine says in `ConsumedCapacity` against what the model counts, for each operation.

use dynashard_limits::Units;
use dynashard_limits::partition::{Kind, Resource};

use super::*;

/// A table with a local index on `grade`, and global ones on `day` and on `day` and `hour`.
fn table() -> Value {
    let attribute =
        |name: &str, kind: &str| json!({ "AttributeName": name, "AttributeType": kind });
    let key = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    json!({
        "TableName": "Flights",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            attribute("pk", "S"), attribute("sk", "N"), attribute("grade", "S"),
            attribute("day", "S"), attribute("hour", "N"),
        ],
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "LocalSecondaryIndexes": [{
            "IndexName": "ByGrade",
            "KeySchema": [key("pk", "HASH"), key("grade", "RANGE")],
            "Projection": { "ProjectionType": "ALL" },
        }],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "ByDay",
                "KeySchema": [key("day", "HASH")],
                "Projection": { "ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"] },
            },
            {
                "IndexName": "ByHour",
                "KeySchema": [key("day", "HASH"), key("hour", "RANGE")],
                "Projection": { "ProjectionType": "KEYS_ONLY" },
            },
        ],
    })
}

/// What was consumed of the table, and of its global indexes, in halves of units.
fn consumed(rig: &Rig) -> [u64; 3] {
    rig.endpoint.observed().partitions(|partitions| {
        [None, Some("ByDay"), Some("ByHour")].map(|index| {
            let resource = Resource { table: "Flights", index };
            let of = |kind| partitions.statistics().counts(resource, kind, 0..u64::MAX).consumed;
            (of(Kind::Read) + of(Kind::Write)).as_halves()
        })
    })
}

/// What was consumed, as an answer tells it.
fn told(answer: &Value) -> [u64; 3] {
    let capacity = match &answer["ConsumedCapacity"] {
        Value::Array(tables) => &tables[0],
        capacity => capacity,
    };
    let units = |value: &Value| value["CapacityUnits"].as_f64().unwrap_or(0.0);
    let local = units(&capacity["LocalSecondaryIndexes"]["ByGrade"]);
    let global = &capacity["GlobalSecondaryIndexes"];
    [units(&capacity["Table"]) + local, units(&global["ByDay"]), units(&global["ByHour"])].map(
        |units| {
            let halves = (0..10_000).map(Units::halves);
            let units = halves.into_iter().find(|halves| (halves.as_f64() - units).abs() < 1e-9);
            units.expect("whole halves").as_halves()
        },
    )
}

fn key(sk: u32) -> Value {
    json!({ "pk": { "S": "JFK" }, "sk": { "N": sk.to_string() } })
}

/// An item of each type, with a note of this length.
fn item(sk: u32, day: Option<&str>, note: usize) -> Value {
    let mut item = json!({
        "pk": { "S": "JFK" }, "sk": { "N": sk.to_string() },
        "grade": { "S": "a" }, "hour": { "N": "7" },
        "note": { "S": "é".repeat(note / 2) },
        "number": { "N": "-12345.678" }, "binary": { "B": "AAECAwQ=" },
        "yes": { "BOOL": true }, "nothing": { "NULL": true },
        "list": { "L": [{ "N": "1" }, { "M": { "deep": { "L": [] } } }] },
        "strings": { "SS": ["b", "a"] }, "numbers": { "NS": ["10", "2"] },
        "binaries": { "BS": ["AAEC"] },
    });
    if let Some(day) = day {
        item["day"] = json!({ "S": day });
    }
    item
}

#[tokio::test]
async fn the_engine_and_the_model_agree_on_every_operation() {
    let rig = Rig::with(Limits::default(), None, &[]).await;
    rig.ok("CreateTable", table()).await;
    for (operation, mut body) in operations() {
        body["ReturnConsumedCapacity"] = json!("INDEXES");
        let before = consumed(&rig);
        let answer = rig.ok(operation, body.clone()).await;
        let after = consumed(&rig);
        let counted = [0, 1, 2].map(|at| after[at] - before[at]);
        assert_eq!(counted, told(&answer), "{operation} {body}: {}", answer["ConsumedCapacity"]);
        assert!(counted.iter().sum::<u64>() > 0, "{operation} costs something");
    }
    let total: u64 = consumed(&rig).iter().sum();
    let counted = rig.endpoint.counters().tables["Flights"]
        .values()
        .map(|count| count.consumed_rcu + count.consumed_wcu)
        .sum::<f64>();
    assert!((counted - Units::halves(total).as_f64()).abs() < 1e-9, "{counted}");
    rig.stop().await;
}

/// Each kind of operation, in the sizes and with the changes on which costs depend.
fn operations() -> Vec<(&'static str, Value)> {
    let put = |item: Value| json!({ "TableName": "Flights", "Item": item });
    let update = |sk: u32, expression: &str, value: Value| {
        json!({
            "TableName": "Flights", "Key": key(sk), "UpdateExpression": expression,
            "ExpressionAttributeValues": { ":v": value },
        })
    };
    let query = |extra: Value| {
        let mut query = json!({
            "TableName": "Flights", "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": { ":p": { "S": "JFK" } },
        });
        query
            .as_object_mut()
            .expect("an object")
            .extend(extra.as_object().expect("an object").clone());
        query
    };
    let by_day = |index: &str| {
        query(json!({
            "IndexName": index, "KeyConditionExpression": "#d = :p",
            "ExpressionAttributeNames": { "#d": "day" },
            "ExpressionAttributeValues": { ":p": { "S": "monday" } },
        }))
    };
    let text = |length: usize| json!({ "S": "x".repeat(length) });
    let one = |table: Value| json!({ "RequestItems": { "Flights": table } });
    vec![
        ("PutItem", put(item(1, Some("monday"), 10))),
        ("PutItem", put(item(1, Some("monday"), 5_000))),
        ("PutItem", put(item(1, Some("tuesday"), 5_000))),
        ("PutItem", put(item(1, Some("tuesday"), 5_000))),
        ("PutItem", put(item(1, None, 900))),
        ("PutItem", put(item(2, Some("monday"), 2_000))),
        ("PutItem", put(item(3, Some("monday"), 9_000))),
        ("UpdateItem", update(2, "SET note = :v", text(4_500))),
        ("UpdateItem", update(2, "SET note = :v", text(10))),
        ("UpdateItem", update(2, "SET extra = :v", text(10))),
        ("UpdateItem", update(2, "SET grade = :v", text(10))),
        ("UpdateItem", update(4, "SET note = :v", text(3_000))),
        ("GetItem", json!({ "TableName": "Flights", "Key": key(3) })),
        ("GetItem", json!({ "TableName": "Flights", "Key": key(3), "ConsistentRead": true })),
        ("GetItem", json!({ "TableName": "Flights", "Key": key(3), "ProjectionExpression": "pk" })),
        ("GetItem", json!({ "TableName": "Flights", "Key": key(99) })),
        ("Query", query(json!({}))),
        ("Query", query(json!({ "ConsistentRead": true, "Select": "COUNT" }))),
        ("Query", query(json!({ "IndexName": "ByGrade", "Limit": 1 }))),
        ("Query", by_day("ByDay")),
        ("Query", by_day("ByHour")),
        ("Scan", json!({ "TableName": "Flights" })),
        ("Scan", json!({ "TableName": "Flights", "IndexName": "ByDay" })),
        ("BatchGetItem", one(json!({ "Keys": [key(1), key(3), key(99)], "ConsistentRead": true }))),
        ("BatchGetItem", one(json!({ "Keys": [key(1), key(3)] }))),
        (
            "BatchWriteItem",
            one(json!([
                { "PutRequest": { "Item": item(5, Some("friday"), 3_000) } },
                { "PutRequest": { "Item": item(3, Some("friday"), 10) } },
                { "DeleteRequest": { "Key": key(2) } },
                { "DeleteRequest": { "Key": key(98) } },
            ])),
        ),
        (
            "TransactWriteItems",
            json!({ "TransactItems": [
                { "Put": put(item(6, Some("friday"), 3_000)) },
                { "Update": update(5, "SET note = :v", text(5_000)) },
                { "Delete": { "TableName": "Flights", "Key": key(3) } },
                { "ConditionCheck": {
                    "TableName": "Flights", "Key": key(1),
                    "ConditionExpression": "attribute_exists(pk)",
                } },
            ] }),
        ),
        (
            "TransactGetItems",
            json!({ "TransactItems": [
                { "Get": { "TableName": "Flights", "Key": key(5) } },
                { "Get": { "TableName": "Flights", "Key": key(99) } },
            ] }),
        ),
        ("DeleteItem", json!({ "TableName": "Flights", "Key": key(6) })),
        ("DeleteItem", json!({ "TableName": "Flights", "Key": key(99) })),
    ]
}
