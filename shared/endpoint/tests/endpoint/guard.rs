//! What a write carries, what stays out of answers, and what is refused.

use aws_sdk_dynamodb::types::ReturnValue;
use serde_json::{Value, json};

use crate::stack::{MAIN, METADATA, OTHER, Stack, item, text};

/// The item as it lies in the table.
async fn stored(
    stack: &Stack,
    pk: &str,
) -> std::collections::HashMap<String, aws_sdk_dynamodb::types::AttributeValue> {
    let plain = stack.plain().await;
    let got = plain.get_item().table_name(MAIN).key("pk", text(pk)).key("sk", text("1"));
    got.consistent_read(true).send().await.expect("an answer").item.unwrap_or_default()
}

#[tokio::test]
async fn every_write_leaves_another_version_and_none_is_shown() {
    let stack = Stack::start().await;
    let sdk = stack.sdk();
    let mut versions = Vec::new();
    let put = sdk.put_item().table_name(MAIN).item("pk", text("a")).item("sk", text("1"));
    put.send().await.expect("it is put");
    versions.push(stored(&stack, "a").await["_ds_v"].clone());
    for expression in ["SET x = :x", "REMOVE y SET x = :x", "REMOVE x"] {
        let mut update = sdk
            .update_item()
            .table_name(MAIN)
            .key("pk", text("a"))
            .key("sk", text("1"))
            .update_expression(expression)
            .return_values(ReturnValue::AllNew);
        if expression.contains(':') {
            update = update.expression_attribute_values(":x", text("x"));
        }
        let shown = update.send().await.expect("it is updated").attributes.unwrap_or_default();
        assert!(shown.keys().all(|name| !name.starts_with("_ds_")), "{shown:?}");
        versions.push(stored(&stack, "a").await["_ds_v"].clone());
    }
    let actions = json!({ "TransactItems": [{ "Update": {
        "TableName": MAIN, "Key": item("a", "1"),
        "UpdateExpression": "ADD n :n", "ExpressionAttributeValues": { ":n": { "N": "1" } },
    } }] });
    assert_eq!(stack.ask("TransactWriteItems", actions).await.0, 200);
    versions.push(stored(&stack, "a").await["_ds_v"].clone());
    for (at, version) in versions.iter().enumerate() {
        assert!(!versions[..at].contains(version), "{versions:?}");
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn no_write_happens_to_an_item_of_a_later_generation() {
    let stack = Stack::start().await;
    let plain = stack.plain().await;
    let ahead = plain.put_item().table_name(MAIN).item("pk", text("a")).item("sk", text("1"));
    let number = aws_sdk_dynamodb::types::AttributeValue::N("7".to_owned());
    ahead.item("_ds_g", number).send().await.expect("it is put");
    let before = stored(&stack, "a").await;
    for condition in [Value::Null, json!("attribute_exists(pk) OR attribute_not_exists(pk)")] {
        let put =
            json!({ "TableName": MAIN, "Item": item("a", "1"), "ConditionExpression": condition });
        let (status, answer) = stack.ask("PutItem", put).await;
        assert_eq!(status, 503, "{answer}");
    }
    assert_eq!(stored(&stack, "a").await, before);
    stack.database.shutdown().await;
}

#[tokio::test]
async fn what_is_ours_is_refused_wherever_a_client_names_it() {
    let stack = Stack::start().await;
    let key = item("a", "1");
    let mut own = key.clone();
    own["_ds_v"] = json!({ "N": "1" });
    let values = json!({ ":v": { "N": "1" } });
    let names = json!({ "#v": "_ds_v" });
    for (operation, body) in [
        ("PutItem", json!({ "TableName": MAIN, "Item": own })),
        (
            "PutItem",
            json!({ "TableName": MAIN, "Item": key, "ConditionExpression": "attribute_exists(_ds_g)" }),
        ),
        (
            "PutItem",
            json!({ "TableName": MAIN, "Item": key, "ConditionExpression": "attribute_exists(#v)",
                            "ExpressionAttributeNames": names }),
        ),
        ("PutItem", json!({ "TableName": MAIN, "Item": item("_ds_owner", "1") })),
        (
            "UpdateItem",
            json!({ "TableName": MAIN, "Key": key, "UpdateExpression": "SET a = :v, _ds_v = :v",
                               "ExpressionAttributeValues": values }),
        ),
        (
            "UpdateItem",
            json!({ "TableName": MAIN, "Key": key, "AttributeUpdates": { "_ds_v": { "Value": { "N": "1" } } } }),
        ),
        ("GetItem", json!({ "TableName": MAIN, "Key": key, "ProjectionExpression": "_ds_v" })),
        ("GetItem", json!({ "TableName": MAIN, "Key": key, "AttributesToGet": ["_ds_v"] })),
        (
            "BatchWriteItem",
            json!({ "RequestItems": { MAIN: [{ "PutRequest": { "Item": own } }] } }),
        ),
        (
            "TransactWriteItems",
            json!({ "TransactItems": [{ "Put": { "TableName": MAIN, "Item": own } }] }),
        ),
        (
            "Scan",
            json!({ "TableName": MAIN, "FilterExpression": "_ds_g > :v", "ExpressionAttributeValues": values }),
        ),
        ("PutItem", json!({ "TableName": METADATA, "Item": { "pk": { "S": "a" } } })),
        ("GetItem", json!({ "TableName": METADATA, "Key": { "pk": { "S": "_ds_directory" } } })),
        (
            "ExecuteStatement",
            json!({ "Statement": "DELETE FROM \"main\" WHERE pk = 'a' AND sk = '1'" }),
        ),
        ("DeleteTable", json!({ "TableName": MAIN })),
        ("UpdateTimeToLive", json!({ "TableName": "arn:aws:dynamodb:us-east-1:1:table/main" })),
    ] {
        let (status, answer) = stack.ask(operation, body.clone()).await;
        assert_eq!(status, 400, "{operation} {body}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("dynashard: "), "{operation} {body}: {answer}");
    }
    assert!(stored(&stack, "a").await.is_empty());
    stack.database.shutdown().await;
}

/// Which of two members counts is a guess, and a write to another table might be one to this.
#[tokio::test]
async fn a_body_with_a_member_twice_reaches_nobody() {
    let stack = Stack::start().await;
    let body =
        br#"{"TableName":"main","TableName":"other","Item":{"pk":{"S":"a"},"sk":{"S":"1"}}}"#;
    assert_eq!(stack.ask_bytes("PutItem", body).await.0, 400);
    for body in ["", "[]", "{", "null", "\"main\""] {
        assert_eq!(stack.ask_bytes("PutItem", body.as_bytes()).await.0, 400, "{body}");
    }
    let counters = stack.database.counters();
    assert_eq!(counters.requests(MAIN, "PutItem") + counters.requests("other", "PutItem"), 0);
    stack.database.shutdown().await;
}

/// A body without the name of a managed table is passed on unread, so every way to write a name has to be one that shows.
#[tokio::test]
async fn a_name_that_is_written_otherwise_is_still_that_of_a_managed_table() {
    let stack = Stack::start().await;
    let own = r#"{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"1"},"_ds_g":{"N":"1"}}}"#;
    let escaped = own.replace("main", "m\\u0061in");
    let utf16 = |to_bytes: fn(u16) -> [u8; 2]| own.encode_utf16().flat_map(to_bytes).collect();
    let wide: [Vec<u8>; 2] = [utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)];
    for body in [own.as_bytes(), escaped.as_bytes(), &wide[0], &wide[1]] {
        assert_eq!(stack.ask_bytes("PutItem", body).await.0, 400, "{body:?}");
    }
    assert!(stored(&stack, "a").await.is_empty());
    let other = own.replace("main", "other").replace("_ds_g", "\\u0067");
    assert_eq!(stack.ask_bytes("PutItem", other.as_bytes()).await.0, 200);
    stack.database.shutdown().await;
}

/// What is no list was left out of the batch, and the others were written as if it were done.
#[tokio::test]
async fn regression_writes_that_are_no_list_were_passed_over() {
    let stack = Stack::start().await;
    let put = json!([{ "PutRequest": { "Item": item("a", "1") } }]);
    for writes in [json!({ "PutRequest": { "Item": item("a", "1") } }), json!("x"), json!(7)] {
        let body = json!({ "RequestItems": { MAIN: writes, "other": put } });
        let (status, answer) = stack.ask("BatchWriteItem", body).await;
        assert_eq!(status, 400, "{answer}");
    }
    assert_eq!(stack.database.counters().requests("other", "BatchWriteItem"), 0);
    stack.database.shutdown().await;
}

/// Replicas are written to by other regions, and an operation that nobody here knows may write as well.
#[tokio::test]
async fn regression_a_managed_table_became_a_global_one_and_unknown_operations_passed() {
    let stack = Stack::start().await;
    let arn = format!("arn:aws:dynamodb:us-east-1:1:table/{MAIN}");
    let replicas = json!([{ "Create": { "RegionName": "eu-west-1" } }]);
    for (operation, body) in [
        ("UpdateTable", json!({ "TableName": MAIN, "ReplicaUpdates": replicas })),
        ("UpdateTable", json!({ "TableName": arn, "GlobalTableWitnessUpdates": replicas })),
        ("CreateGlobalTable", json!({ "GlobalTableName": MAIN, "ReplicationGroup": [] })),
        ("TruncateTable", json!({ "TableName": MAIN })),
        ("TruncateTables", json!({ "Tables": [{ "Arn": arn }] })),
        ("TruncateTable", json!({ "Table": METADATA })),
    ] {
        let (status, answer) = stack.ask(operation, body.clone()).await;
        assert_eq!(status, 400, "{operation} {body}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("dynashard: "), "{operation} {body}: {answer}");
    }
    for (operation, body) in [
        ("UpdateTable", json!({ "TableName": OTHER, "ReplicaUpdates": replicas })),
        ("TruncateTable", json!({ "TableName": OTHER })),
    ] {
        let (_, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(!message.starts_with("dynashard: "), "{operation}: {answer}");
    }
    assert_eq!(stack.ask("DescribeTable", json!({ "TableName": MAIN })).await.0, 200);
    stack.database.shutdown().await;
}
