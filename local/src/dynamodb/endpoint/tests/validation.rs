//! What is invalid is refused by the engine, in its words, and is never throttled.

use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Kind, Resource};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Map;

use super::*;
use crate::clock::Clock;

fn table() -> Value {
    let attribute = |name: &str| json!({ "AttributeName": name, "AttributeType": "S" });
    let key = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    json!({
        "TableName": "Flights",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute("pk"), attribute("sk"), attribute("day")],
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "GlobalSecondaryIndexes": [{
            "IndexName": "ByDay",
            "KeySchema": [key("day", "HASH")],
            "Projection": { "ProjectionType": "KEYS_ONLY" },
        }],
    })
}

fn key(sk: &str) -> Value {
    json!({ "pk": { "S": "hot" }, "sk": { "S": sk } })
}

fn item() -> Value {
    json!({ "pk": { "S": "hot" }, "sk": { "S": "1" }, "n": { "N": "1" }, "text": { "S": "x" } })
}

/// One table with an item, whose only partition has nothing left, and whose index has nothing left
/// either.
async fn exhausted() -> Rig {
    let rig = Rig::with(Limits { partitions: NonZeroU32::MIN, ..TEN_UNITS }, None, &[]).await;
    rig.ok("CreateTable", table()).await;
    rig.ok("PutItem", json!({ "TableName": "Flights", "Item": item() })).await;
    rig.endpoint.observed().meter.with(|partitions| {
        for resource in [Resource::table("Flights"), Resource::index("Flights", "ByDay")] {
            for kind in [Kind::Read, Kind::Write] {
                let units = Units::whole(1_000_000);
                let debt = Demand { resource, partition_key: "", sort_key: None, kind, units };
                partitions.charge(since_epoch(rig.clock.now()), &[debt]);
            }
        }
    });
    rig
}

/// DynamoDB refuses the write of an item that an index cannot hold, and keeps it out of the table; the engine stored it.
#[tokio::test]
async fn regression_an_item_was_stored_whose_index_key_is_too_long() {
    let rig = Rig::start().await;
    let mut table = table();
    table["GlobalSecondaryIndexes"][0]["KeySchema"] = json!([
        { "AttributeName": "day", "KeyType": "HASH" },
        { "AttributeName": "pk", "KeyType": "RANGE" },
    ]);
    rig.ok("CreateTable", table).await;
    let key = json!({ "pk": { "S": "k".repeat(1_025) }, "sk": { "S": "1" } });
    let with_day = |day: usize| {
        let mut item = key.clone();
        item["day"] = json!({ "S": "d".repeat(day) });
        item
    };
    let put = |item: Value| json!({ "TableName": "Flights", "Item": item });
    let update = json!({
        "TableName": "Flights", "Key": key, "UpdateExpression": "SET #d = :d",
        "ExpressionAttributeNames": { "#d": "day" }, "ExpressionAttributeValues": { ":d": { "S": "x" } },
    });
    let in_transaction =
        |kind: &str, action: &Value| json!({ "TransactItems": [{ kind: action }] });
    let batch =
        json!({ "RequestItems": { "Flights": [{ "PutRequest": { "Item": with_day(1) } }] } });
    for (operation, body, expected) in [
        ("PutItem", put(with_day(1)), "ValidationException"),
        ("UpdateItem", update.clone(), "ValidationException"),
        ("BatchWriteItem", batch, "ValidationException"),
        (
            "TransactWriteItems",
            in_transaction("Put", &put(with_day(1))),
            "TransactionCanceledException",
        ),
        ("TransactWriteItems", in_transaction("Update", &update), "TransactionCanceledException"),
    ] {
        let (kind, answer) = rig.refused(operation, body).await;
        assert!(kind.ends_with(expected), "{operation}: {kind} {answer}");
        assert!(answer.to_string().contains("1024 bytes"), "{operation}: {answer}");
    }
    // The index leaves out an item that lacks one of its keys.
    rig.ok("PutItem", put(key.clone())).await;
    let (kind, _) = rig.refused("UpdateItem", update).await;
    assert!(kind.ends_with("ValidationException"), "{kind}");
    let short =
        json!({ "pk": { "S": "short" }, "sk": { "S": "1" }, "day": { "S": "d".repeat(2_049) } });
    let (_, answer) = rig.refused("PutItem", put(short)).await;
    assert!(answer.to_string().contains("2048 bytes"), "{answer}");
    rig.stop().await;
}

impl Rig {
    /// What the engine says to a request, past the endpoint.
    async fn ask_engine(&self, operation: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::post(format!("http://{}", self.engine.address()))
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("authorization", SIGNATURE)
            .header("x-amz-date", SIGNED_NOW);
        let (parts, body) = send(request, body.to_owned()).await.expect("no panic");
        (parts.status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// A valid request of each operation, which touches the one item.
fn valid() -> Vec<(&'static str, Value)> {
    let update = json!({
        "TableName": "Flights", "Key": key("1"),
        "UpdateExpression": "SET n = n + :one", "ConditionExpression": "attribute_exists(pk)",
        "ExpressionAttributeValues": { ":one": { "N": "1" } },
    });
    let put = json!({
        "TableName": "Flights", "Item": item(), "ConditionExpression": "#t <> :v",
        "ExpressionAttributeNames": { "#t": "text" },
        "ExpressionAttributeValues": { ":v": { "S": "y" } },
    });
    let get = json!({ "TableName": "Flights", "Key": key("1"), "ProjectionExpression": "n" });
    vec![
        ("PutItem", put.clone()),
        ("UpdateItem", update.clone()),
        ("DeleteItem", json!({ "TableName": "Flights", "Key": key("2") })),
        ("GetItem", get.clone()),
        (
            "Query",
            json!({
                "TableName": "Flights", "KeyConditionExpression": "pk = :p AND sk > :s",
                "ExpressionAttributeValues": { ":p": { "S": "hot" }, ":s": { "S": "0" } },
                "Limit": 3,
            }),
        ),
        ("Scan", json!({ "TableName": "Flights", "FilterExpression": "attribute_exists(n)" })),
        (
            "BatchWriteItem",
            json!({ "RequestItems": { "Flights": [
                { "PutRequest": { "Item": item() } },
                { "DeleteRequest": { "Key": key("2") } },
            ] } }),
        ),
        (
            "BatchGetItem",
            json!({ "RequestItems": { "Flights": { "Keys": [key("1"), key("2")] } } }),
        ),
        (
            "TransactWriteItems",
            json!({ "TransactItems": [
                { "Update": update },
                { "Put": { "TableName": "Flights", "Item": key("3") } },
                { "Delete": { "TableName": "Flights", "Key": key("4") } },
                { "ConditionCheck": {
                    "TableName": "Flights", "Key": key("5"),
                    "ConditionExpression": "attribute_not_exists(pk)",
                } },
            ] }),
        ),
        ("TransactGetItems", json!({ "TransactItems": [{ "Get": get }] })),
    ]
}

/// Requests that DynamoDB refuses whatever its tables have room for.
fn invalid() -> Vec<(&'static str, Value)> {
    let with = |operation: &str, member: &str, value: Value| {
        let (operation, mut request) =
            valid().into_iter().find(|(name, _)| *name == operation).expect("an operation");
        request[member] = value;
        (operation, request)
    };
    let many = |count: u32| (0..count).map(|n| key(&n.to_string()));
    let puts = |count: u32| many(count).map(|item| json!({ "PutRequest": { "Item": item } }));
    let gets = |keys: Vec<Value>| json!({ "Flights": { "Keys": keys } });
    let get = |sk: &str| json!({ "Get": { "TableName": "Flights", "Key": key(sk) } });
    vec![
        with("BatchWriteItem", "RequestItems", json!({ "Flights": puts(26).collect::<Vec<_>>() })),
        with(
            "BatchWriteItem",
            "RequestItems",
            json!({ "Flights": [
            { "PutRequest": { "Item": item() } }, { "DeleteRequest": { "Key": key("1") } },
        ] }),
        ),
        with(
            "BatchWriteItem",
            "RequestItems",
            json!({ "Flights": [
            { "PutRequest": { "Item": key("1") } },
            { "PutRequest": { "Item": { "pk": { "S": "hot" }, "sk": { "S": "2" }, "e": { "SS": [] } } } },
        ] }),
        ),
        with(
            "BatchWriteItem",
            "RequestItems",
            json!({
                "Flights": [{ "PutRequest": { "Item": key("1") } }],
                "Missing": [{ "PutRequest": { "Item": key("1") } }],
            }),
        ),
        with("BatchWriteItem", "RequestItems", json!({})),
        with("BatchGetItem", "RequestItems", gets(many(101).collect())),
        with("BatchGetItem", "RequestItems", gets(vec![key("1"), key("1")])),
        with("BatchGetItem", "RequestItems", gets(vec![key("1"), json!({ "pk": { "S": "hot" } })])),
        with("BatchGetItem", "RequestItems", json!({})),
        with("TransactGetItems", "TransactItems", json!([get("1"), get("1")])),
        with(
            "TransactWriteItems",
            "TransactItems",
            json!([
                { "Put": { "TableName": "Flights", "Item": key("1") } },
                { "Delete": { "TableName": "Flights", "Key": key("1") } },
            ]),
        ),
        with(
            "TransactGetItems",
            "TransactItems",
            json!([get("1"), {
                "Get": { "TableName": "Flights", "Key": { "pk": { "S": "hot" } } },
            }]),
        ),
        with("TransactWriteItems", "ClientRequestToken", json!("x".repeat(37))),
        with("PutItem", "ConditionExpression", json!("#t <>")),
        with(
            "PutItem",
            "ExpressionAttributeValues",
            json!({ ":v": { "S": "y" }, ":w": { "S": "z" } }),
        ),
        with("PutItem", "ReturnValues", json!("ALL_NEW")),
        with("PutItem", "ReturnConsumedCapacity", json!("SOME")),
        with(
            "PutItem",
            "Item",
            json!({ "pk": { "S": "hot" }, "sk": { "S": "1" }, "day": { "N": "1" } }),
        ),
        with(
            "PutItem",
            "Item",
            json!({ "pk": { "S": "hot" }, "sk": { "S": "1" }, "big": { "S": "x".repeat(400 << 10) } }),
        ),
        with("UpdateItem", "UpdateExpression", json!("SET n = n + :one, n = :one")),
        with("UpdateItem", "UpdateExpression", json!("SET pk = :one")),
        with("UpdateItem", "UpdateExpression", json!("SET n = missing + :one")),
        with("UpdateItem", "UpdateExpression", json!("SET n = text + :one")),
        with("DeleteItem", "ReturnValues", json!("UPDATED_NEW")),
        with("GetItem", "ProjectionExpression", json!("n, n")),
        with(
            "GetItem",
            "Key",
            json!({ "pk": { "S": "hot" }, "sk": { "S": "1" }, "n": { "N": "1" } }),
        ),
        with("Query", "KeyConditionExpression", json!("pk = :p AND n > :s")),
        with("Query", "KeyConditionExpression", json!("pk > :p AND sk > :s")),
        with("Query", "FilterExpression", json!("size(")),
        with("Query", "Limit", json!(0)),
        with("Query", "IndexName", json!("ByNight")),
        with("Scan", "Segment", json!(4)),
        with("Scan", "FilterExpression", json!("begins_with(n)")),
        with("Scan", "Select", json!("SOME")),
    ]
}

#[tokio::test]
async fn regression_an_invalid_request_is_not_throttled_first() {
    let rig = exhausted().await;
    let counted = || {
        let writes = Resource::table("Flights");
        rig.endpoint.observed().partitions(|partitions| {
            partitions.statistics().counts(writes, Kind::Write, 0..u64::MAX)
        })
    };
    let before = counted();
    for (operation, body) in invalid() {
        let body = body.to_string();
        let (parts, answer) = rig.send(operation, &body, SIGNED_NOW).await;
        let expected = rig.ask_engine(operation, &body).await;
        assert_eq!((parts.status, answer), expected, "{operation} {body}");
        assert_eq!(expected.0, StatusCode::BAD_REQUEST, "{operation} {body}: {}", expected.1);
    }
    assert_eq!(rig.endpoint.counters().table_throttles("Flights"), 0);
    assert_eq!(counted(), before, "nobody pays for them");
    rig.stop().await;
}

#[tokio::test]
async fn a_valid_request_is_throttled_as_ever() {
    let rig = exhausted().await;
    for (operation, body) in valid() {
        let (error, answer) = rig.refused(operation, body).await;
        let is_transaction = operation.starts_with("Transact");
        let expected = if is_transaction {
            assert_eq!(answer["CancellationReasons"][0]["Code"], "ThrottlingError", "{answer}");
            "TransactionCanceledException"
        } else {
            "ProvisionedThroughputExceededException"
        };
        assert_eq!(error, expected, "{operation}: {answer}");
    }
    let get = json!({ "TableName": "Flights", "Key": key("1") }).to_string();
    assert_eq!(rig.ask_engine("GetItem", &get).await.1["Item"], item(), "nothing was executed");
    rig.stop().await;
}

/// Without the throttled part the rest would be a valid batch.
#[tokio::test]
async fn regression_a_batch_too_large_is_refused_where_a_part_of_it_is_throttled() {
    let rig = Rig::throttling().await;
    rig.ok("CreateTable", table()).await;
    let put = json!({ "TableName": "Flights", "Item": key("0") });
    assert_eq!(rig.drain("PutItem", &put).await, 10);
    let item = |n: u32| match n {
        0..8 => key(&n.to_string()),
        n => json!({ "pk": { "S": format!("cold {n}") }, "sk": { "S": "1" } }),
    };
    let batch = |size: u32| {
        let puts: Vec<_> =
            (0..size).map(|n| json!({ "PutRequest": { "Item": item(n) } })).collect();
        json!({ "RequestItems": { "Flights": puts } })
    };
    let (error, answer) = rig.refused("BatchWriteItem", batch(26)).await;
    assert_eq!(error, "ValidationException", "{answer}");
    let answer = rig.ok("BatchWriteItem", batch(25)).await;
    assert_eq!(answer["UnprocessedItems"]["Flights"].as_array().map(Vec::len), Some(8));
    rig.stop().await;
}

/// One change of a request, which mostly makes it invalid.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Replace(Value),
    /// Of a list: one element more, the same as the first.
    Repeat,
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop::sample::select(vec![
        json!(null),
        json!(7),
        json!(true),
        json!(""),
        json!("n"),
        json!("pk = :p"),
        json!([]),
        json!({}),
        json!({ "S": "" }),
        json!({ "S": "x" }),
        json!({ "N": "x" }),
        json!({ "SS": [] }),
        json!({ "S": "x", "N": "1" }),
    ]);
    prop_oneof![Just(Change::Remove), value.prop_map(Change::Replace), Just(Change::Repeat)]
}

/// Applies the change to one of the places within the request, counted in their order.
fn changed(request: &Value, place: usize, change: &Change) -> Value {
    fn count(value: &Value) -> usize {
        match value {
            Value::Object(members) => members.values().map(|it| 1 + count(it)).sum(),
            Value::Array(elements) => elements.iter().map(|it| 1 + count(it)).sum(),
            _ => 0,
        }
    }
    fn walk(value: &Value, at: &mut usize, change: &Change) -> Value {
        let mut visit = |child: &Value| {
            if *at == 0 {
                *at = usize::MAX;
                return match (change, child) {
                    (Change::Remove, _) => None,
                    (Change::Replace(value), _) => Some(value.clone()),
                    (Change::Repeat, Value::Array(elements)) => {
                        Some(elements.iter().chain(elements.first()).cloned().collect())
                    }
                    (Change::Repeat, _) => Some(child.clone()),
                };
            }
            *at -= 1;
            Some(walk(child, at, change))
        };
        match value {
            Value::Object(members) => {
                let members = members.iter();
                let members = members.filter_map(|(name, it)| Some((name.clone(), visit(it)?)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Array(elements) => elements.iter().filter_map(visit).collect(),
            scalar => scalar.clone(),
        }
    }
    let mut at = place % count(request);
    walk(request, &mut at, change)
}

/// Whatever is changed of a request: it is throttled only if the engine would have executed it.
#[tokio::test]
async fn what_the_engine_calls_invalid_is_never_throttled() {
    let rig = exhausted().await;
    // An engine without limits, to ask what it would have said.
    let unlimited = Limits { are_enforced: false, ..Limits::default() };
    let twin = Rig::with(unlimited, None, &[]).await;
    twin.ok("CreateTable", table()).await;
    let runtime = tokio::runtime::Handle::current();
    let (rig, twin) = tokio::task::spawn_blocking(move || {
        let requests = prop::sample::select(valid());
        let config = ProptestConfig { cases: 500, failure_persistence: None, ..<_>::default() };
        let result = TestRunner::new(config).run(
            &(requests, any::<usize>(), change()),
            |((operation, request), place, change)| {
                let body = changed(&request, place, &change).to_string();
                let ((_, expected), (_, answer)) = runtime.block_on(async {
                    let put = json!({ "TableName": "Flights", "Item": item() });
                    twin.ok("PutItem", put).await;
                    let expected = twin.ask_engine(operation, &body).await;
                    (expected, rig.send(operation, &body, SIGNED_NOW).await)
                });
                let is_throttled = answer.get("ThrottlingReasons").is_some()
                    || answer["CancellationReasons"].to_string().contains("ThrottlingError");
                let kind = expected["__type"].as_str().unwrap_or_default();
                let is_invalid = kind.ends_with("#ValidationException")
                    || kind.ends_with("#SerializationException")
                    || kind.ends_with("#ResourceNotFoundException")
                    || expected["CancellationReasons"].to_string().contains("ValidationError");
                prop_assert_eq!(is_throttled, !is_invalid, "{} {}: {}", operation, body, expected);
                if is_invalid {
                    prop_assert_eq!(&answer["__type"], &expected["__type"], "{}", body);
                }
                Ok(())
            },
        );
        if let Err(failure) = result {
            panic!("{failure}");
        }
        (rig, twin)
    })
    .await
    .expect("the property holds");
    rig.stop().await;
    twin.stop().await;
}
