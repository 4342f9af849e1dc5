//! Pages of tables and indexes: where they begin, what they show, and what they hide.

use dynashard_core::CollectionMetadata;
use dynashard_keys::{Placement, ShardCount};
use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
use crate::stack::{INVERTED_INDEX, LOCAL_INDEX, MAIN, Stack, ask, item, partition};

async fn put(stack: &Stack, pk: &str, sk: &str) {
    let mut item = item(pk, sk);
    item["s"] = json!({ "S": sk });
    let (status, answer) = stack.ask("PutItem", json!({ "TableName": MAIN, "Item": item })).await;
    assert_eq!(status, 200, "{answer}");
}

fn query(condition: &str, pk: &Value) -> Value {
    let values = json!({ ":p": pk });
    json!({ "TableName": MAIN, "KeyConditionExpression": condition, "ExpressionAttributeValues": values })
}

/// The page was passed on as it was, and what is ours was in it.
#[tokio::test]
async fn regression_brackets_around_an_operand_led_past_the_endpoint() {
    let stack = Stack::start().await;
    put(&stack, "a#~1", "1").await;
    for condition in ["pk = :p", "(pk) = :p", "pk = (:p)"] {
        let body = query(condition, &json!({ "S": "a#~1" }));
        let (status, answer) = stack.ask("Query", body).await;
        // Whether it takes such brackets is DynamoDB's to say.
        let is_own = answer.to_string().contains("_ds_");
        assert!(!is_own && (status == 400 || answer["Count"] == 1), "{condition}: {answer}");
    }
    let server = Canned::start([Reply::new(200, json!({ "Items": [item("a", "1")] }))]).await;
    let service = stack.in_front_of(&server.url);
    let body = query("pk = :p", &json!({ "N": "1" })).to_string();
    let (status, answer) = ask(&service, "Query", body.as_bytes()).await;
    assert_eq!(status, 500, "{answer}");
    stack.database.shutdown().await;
}

/// What a query compared with the value of its key it compared with the suffixed key under which DynamoDB holds it.
#[tokio::test]
async fn regression_a_value_that_a_query_uses_twice_was_the_suffixed_key_in_both_places() {
    let stack = Stack::start().await;
    let key = "user#~7";
    let mut item = item(key, key);
    item["holder"] = json!({ "S": key });
    let (status, answer) = stack.ask("PutItem", json!({ "TableName": MAIN, "Item": item })).await;
    assert_eq!(status, 200, "{answer}");
    for (condition, filter, count) in [
        ("pk = :p AND sk = :p", None, 1),
        (":p = sk AND :p = (pk)", None, 1),
        ("pk = :p", Some("holder = :p"), 1),
        ("pk = :p", Some("holder <> :p"), 0),
        ("pk = :p", Some("attribute_exists(holder)"), 1),
    ] {
        let mut body = query(condition, &json!({ "S": key }));
        body["FilterExpression"] = json!(filter);
        let (status, answer) = stack.ask("Query", body).await;
        // Whether it takes such brackets is DynamoDB's to say.
        let is_refused = condition.contains('(') && status == 400;
        assert!(is_refused || answer["Count"] == count, "{condition}, {filter:?}: {answer}");
    }
    stack.database.shutdown().await;
}

/// The next page began where a key with a suffix would lie without it.
#[tokio::test]
async fn regression_pages_could_not_go_on_behind_a_key_with_a_suffix() {
    let stack = Stack::start_with_indexes().await;
    for n in 0..12 {
        put(&stack, &format!("user#~{n}"), "1").await;
    }
    for index in [Value::Null, json!(INVERTED_INDEX), json!(LOCAL_INDEX)] {
        let mut found = Vec::new();
        let mut start = Value::Null;
        loop {
            let body = json!({ "TableName": MAIN, "IndexName": index, "Limit": 1, "ExclusiveStartKey": start });
            let (status, answer) = stack.ask("Scan", body).await;
            assert_eq!(status, 200, "{answer}");
            let items = answer["Items"].as_array().into_iter().flatten();
            found.extend(items.filter_map(|item| item["pk"]["S"].as_str().map(str::to_owned)));
            start = answer["LastEvaluatedKey"].clone();
            if start.is_null() || found.len() > 12 {
                break;
            }
        }
        found.sort();
        assert_eq!(found.len(), 12, "{index}: {found:?}");
        found.dedup();
        assert_eq!(found.len(), 12, "{index}: {found:?}");
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_the_item_that_says_whose_the_table_is_was_shown_by_an_index() {
    let stack = Stack::start_with_indexes().await;
    put(&stack, "a", "1").await;
    for with in [
        json!({}),
        json!({ "Select": "COUNT" }),
        json!({ "ProjectionExpression": "sk" }),
        json!({ "ProjectionExpression": "sk, #p", "ExpressionAttributeNames": { "#p": "pk" } }),
        json!({ "AttributesToGet": ["sk"] }),
    ] {
        let mut scan = with.clone();
        scan["TableName"] = json!(MAIN);
        scan["IndexName"] = json!(INVERTED_INDEX);
        let (status, answer) = stack.ask("Scan", scan.clone()).await;
        assert_eq!((status, &answer["Count"]), (200, &json!(1)), "{with}: {answer}");
        assert_eq!(answer.get("Items").is_some(), with.get("Select").is_none(), "{answer}");
        if let Some(shown) = answer["Items"][0].as_object() {
            let is_asked_for = with == json!({}) || with.to_string().contains("#p");
            assert_eq!(shown.contains_key("pk"), is_asked_for, "{with}: {answer}");
        }
        if with.get("AttributesToGet").is_none() {
            let mut query = scan;
            query["KeyConditionExpression"] = json!("sk = :s");
            query["ExpressionAttributeValues"] = json!({ ":s": { "S": "_ds_owner" } });
            let (status, answer) = stack.ask("Query", query).await;
            assert_eq!((status, &answer["Count"]), (200, &json!(0)), "{with}: {answer}");
        }
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_expressions_of_a_page_that_became_too_long_were_answered_500() {
    let stack = Stack::start().await;
    put(&stack, "a", "1").await;
    let name = "n".repeat(4_070);
    for (member, text) in [
        ("FilterExpression", format!("attribute_exists({name})")),
        ("ProjectionExpression", format!("{name},{}", "m".repeat(20))),
    ] {
        let mut body = query("pk = :p", &json!({ "S": "a" }));
        body[member] = json!(text);
        let (status, answer) = stack.ask("Query", body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains("too long"), "{member}: {answer}");
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_attributes_that_are_ours_could_be_asked_of_an_index() {
    let stack = Stack::start_with_indexes().await;
    put(&stack, "a", "1").await;
    let condition = json!({ "ComparisonOperator": "EQ", "AttributeValueList": [{ "S": "a" }] });
    let query = json!({
        "TableName": MAIN, "IndexName": LOCAL_INDEX,
        "KeyConditions": { "pk": condition }, "AttributesToGet": ["_ds_v"],
    });
    let scan =
        json!({ "TableName": MAIN, "IndexName": INVERTED_INDEX, "AttributesToGet": ["_ds_v"] });
    for (operation, body) in [("Query", query), ("Scan", scan)] {
        let (status, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains("reserved_attribute"), "{answer}");
    }
    stack.database.shutdown().await;
}

/// One listed key took the local indexes from all of them.
#[tokio::test]
async fn regression_local_indexes_were_served_only_before_any_key_was_listed() {
    let mut stack = Stack::start_with_indexes().await;
    put(&stack, "one", "1").await;
    let two = ShardCount::new(2).expect("a count");
    for (name, count) in [("one", ShardCount::ONE), ("two", two)] {
        let (name, placement) = (partition(name), Placement::Xxh64);
        stack.list(&CollectionMetadata::stable(name, placement, count, 1_700_000_000)).await;
    }
    stack.restart();
    for (pk, status, count) in
        [("one", 200, json!(1)), ("unlisted", 200, json!(0)), ("two", 200, json!(0))]
    {
        let mut body = query("pk = :p", &json!({ "S": pk }));
        body["IndexName"] = json!(LOCAL_INDEX);
        let (got, answer) = stack.ask("Query", body).await;
        assert_eq!((got, &answer["Count"]), (status, &count), "{pk}: {answer}");
        assert!(!answer["Items"].to_string().contains("_ds_"), "{answer}");
    }
    stack.database.shutdown().await;
}
