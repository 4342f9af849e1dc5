//! How many requests DynamoDB gets for each of a client's.

use serde_json::json;

use crate::stack::{MAIN, METADATA, OTHER, Stack, item};

#[tokio::test]
async fn an_operation_on_a_cold_key_is_one_request() {
    let stack = Stack::start().await;
    // The directory is read, the settings are pinned, and the table is claimed.
    stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
    let of_metadata = stack.database.counters().table_requests(METADATA);
    let key = item("a", "1");
    let value = json!({ ":p": { "S": "a" } });
    for (operation, body) in [
        ("PutItem", json!({ "TableName": MAIN, "Item": key })),
        (
            "UpdateItem",
            json!({ "TableName": MAIN, "Key": key, "UpdateExpression": "SET a = :p",
                               "ExpressionAttributeValues": value }),
        ),
        ("GetItem", json!({ "TableName": MAIN, "Key": key, "ProjectionExpression": "a" })),
        (
            "Query",
            json!({ "TableName": MAIN, "KeyConditionExpression": "pk = :p",
                          "ExpressionAttributeValues": value }),
        ),
        ("Scan", json!({ "TableName": MAIN, "Select": "COUNT" })),
        (
            "BatchGetItem",
            json!({ "RequestItems": {
            MAIN: { "Keys": [key, item("b", "1")] }, OTHER: { "Keys": [item("c", "1")] } } }),
        ),
        (
            "TransactGetItems",
            json!({ "TransactItems": [
            { "Get": { "TableName": MAIN, "Key": key } }, { "Get": { "TableName": MAIN, "Key": item("b", "1") } }] }),
        ),
        (
            "TransactWriteItems",
            json!({ "ClientRequestToken": "token", "TransactItems": [
            { "Put": { "TableName": MAIN, "Item": key } }, { "Delete": { "TableName": MAIN, "Key": item("b", "1") } }] }),
        ),
        ("DeleteItem", json!({ "TableName": MAIN, "Key": key })),
    ] {
        let before = stack.database.counters().table_requests(MAIN);
        let (status, answer) = stack.ask(operation, body).await;
        assert_eq!(status, 200, "{operation}: {answer}");
        let after = stack.database.counters().table_requests(MAIN);
        assert_eq!(after - before, 1, "{operation}");
    }
    assert_eq!(stack.database.counters().table_requests(METADATA), of_metadata);
    stack.database.shutdown().await;
}

#[tokio::test]
async fn writes_of_a_batch_are_sent_one_by_one_and_those_of_other_tables_together() {
    let stack = Stack::start().await;
    let puts = |count: usize| -> Vec<_> {
        (0..count).map(|n| json!({ "PutRequest": { "Item": item("a", &n.to_string()) } })).collect()
    };
    let body = json!({ "RequestItems": { MAIN: puts(5), OTHER: puts(7) }, "ReturnConsumedCapacity": "TOTAL" });
    let (status, answer) = stack.ask("BatchWriteItem", body).await;
    assert_eq!((status, &answer["UnprocessedItems"]), (200, &json!({})), "{answer}");
    let mut consumed = answer["ConsumedCapacity"].as_array().cloned().unwrap_or_default();
    consumed.sort_by_key(|of_table| of_table["TableName"].to_string());
    assert_eq!(
        consumed,
        [
            json!({ "TableName": MAIN, "CapacityUnits": 5.0 }),
            json!({ "TableName": OTHER, "CapacityUnits": 7.0 }),
        ]
    );
    let counters = stack.database.counters();
    assert_eq!(counters.requests(MAIN, "PutItem"), 6, "one is the claim of the table");
    assert_eq!(counters.requests(OTHER, "BatchWriteItem"), 1);
    let twice = [puts(1), puts(1)].concat();
    for (body, why) in [
        (json!({ "RequestItems": { MAIN: puts(26) } }), "less than or equal to 25"),
        (json!({ "RequestItems": { MAIN: twice } }), "duplicates"),
    ] {
        let (status, answer) = stack.ask("BatchWriteItem", body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(
            answer["message"].as_str().is_some_and(|message| message.contains(why)),
            "{answer}"
        );
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn a_transaction_that_is_repeated_happens_once() {
    let stack = Stack::start().await;
    let add = json!({ "ClientRequestToken": "once", "TransactItems": [{ "Update": {
        "TableName": MAIN, "Key": item("a", "1"), "UpdateExpression": "ADD n :n",
        "ExpressionAttributeValues": { ":n": { "N": "1" } },
    } }] });
    for _ in 0..3 {
        let (status, answer) = stack.ask("TransactWriteItems", add.clone()).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (_, answer) =
        stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
    assert_eq!(answer["Item"]["n"], json!({ "N": "1" }));
    let mut other = add;
    other["TransactItems"][0]["Update"]["Key"] = item("a", "2");
    let (status, answer) = stack.ask("TransactWriteItems", other).await;
    assert_eq!(status, 400);
    assert!(
        answer["__type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("IdempotentParameterMismatchException")),
        "{answer}"
    );
    stack.database.shutdown().await;
}
