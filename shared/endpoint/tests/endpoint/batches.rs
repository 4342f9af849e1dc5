//! Batches: what is refused of them, and what is left of them.

use std::sync::Arc;

use dynashard_keys::{ShardCount, SortKeyType};
use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
use crate::sharded::layouts;
use crate::stack::{MAIN, OTHER, Stack, ask, item};

/// What DynamoDB takes above the limits it would carry out without a guard.
#[tokio::test]
async fn regression_batches_above_the_limit_were_passed_on() {
    let stack = Stack::start().await;
    let key = |n: usize| item("a", &n.to_string());
    let puts = (0..26).map(|n| json!({ "PutRequest": { "Item": key(n) } })).collect::<Vec<_>>();
    let gets = json!({ "Keys": (0..101).map(key).collect::<Vec<_>>() });
    for (operation, asked, limit) in
        [("BatchWriteItem", json!(puts), 25), ("BatchGetItem", gets, 100)]
    {
        let body = json!({ "RequestItems": { MAIN: asked } });
        let (status, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let limit = format!("length less than or equal to {limit}");
        assert!(status == 400 && message.contains(&limit), "{answer}");
        assert_eq!(stack.database.counters().requests(MAIN, operation), 0);
    }
    stack.database.shutdown().await;
}

/// It carried what was put beside the client's own, which is refused when it comes from a client.
#[tokio::test]
async fn regression_what_was_left_of_a_batch_could_not_be_asked_for_again() {
    let stack = Stack::start().await;
    let lookalike = item("a#~1", "2");
    let left = json!({ "UnprocessedKeys": { MAIN: {
        "Keys": [item("a", "1"), item("a#~1#~0", "2")],
        "ConsistentRead": true,
        "ProjectionExpression": "#x, #_ds0",
        "ExpressionAttributeNames": { "#x": "x", "#_ds0": "_ds_g" },
    } } });
    let server = Canned::start([Reply::new(200, left)]).await;
    let service = stack.in_front_of(&server.url);
    let with = |keys: Value| {
        json!({ MAIN: {
            "Keys": keys,
            "ConsistentRead": true,
            "ProjectionExpression": "#x",
            "ExpressionAttributeNames": { "#x": "x" },
        } })
    };
    let asked = with(json!([item("a", "1"), item("a", "0"), lookalike]));
    let body = json!({ "RequestItems": asked }).to_string();
    let (status, answer) = ask(&service, "BatchGetItem", body.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["UnprocessedKeys"], with(json!([item("a", "1"), lookalike])));
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_keys_of_a_table_that_are_none_were_passed_over() {
    let stack = Stack::start().await;
    let others = json!({ "Keys": [item("a", "1")] });
    for keys in [json!([]), json!("x"), json!({}), Value::Null] {
        let body = json!({ "RequestItems": { MAIN: { "Keys": keys }, OTHER: others } });
        let (status, answer) = stack.ask("BatchGetItem", body).await;
        assert_eq!(status, 400, "{keys}: {answer}");
    }
    let others = json!([{ "PutRequest": { "Item": item("a", "1") } }]);
    let body = json!({ "RequestItems": { MAIN: [], OTHER: others } });
    let (status, answer) = stack.ask("BatchWriteItem", body).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(stack.database.counters().table_requests(OTHER), 1, "it was created");
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_unknown_members_of_a_part_of_a_batch_were_taken() {
    let stack = Stack::start().await;
    let put = json!({ "Item": item("a", "1"), "ConditionExpression": "attribute_exists(x)" });
    let delete = json!({ "Key": item("a", "1"), "Bogus": 1 });
    let keys = json!({ "Keys": [item("a", "1")], "Bogus": 1 });
    for (operation, asked) in [
        ("BatchWriteItem", json!([{ "PutRequest": put }])),
        ("BatchWriteItem", json!([{ "DeleteRequest": delete }])),
        ("BatchGetItem", keys),
    ] {
        let body = json!({ "RequestItems": { MAIN: asked } });
        let (status, answer) = stack.ask(operation, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains("is not known"), "{answer}");
    }
    stack.database.shutdown().await;
}

#[tokio::test]
async fn regression_what_was_read_of_a_key_that_was_not_understood_was_handed_out() {
    let stack = Stack::start().await;
    let found = json!({ "Responses": { MAIN: [item("a", "1")] } });
    let server = Canned::start([Reply::new(200, found)]).await;
    let service = stack.in_front_of(&server.url);
    let key = json!({ "pk": { "N": "1" }, "sk": { "S": "1" } });
    let body = json!({ "RequestItems": { MAIN: { "Keys": [key] } } }).to_string();
    let (status, answer) = ask(&service, "BatchGetItem", body.as_bytes()).await;
    assert_eq!(status, 500, "{answer}");
    stack.database.shutdown().await;
}

fn throttled() -> Reply {
    let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
    Reply::new(400, json!({ "__type": kind, "message": "slower" }))
}

/// The client was told that nothing was written, and wrote it again over what came later.
#[tokio::test]
async fn regression_a_throttled_table_hid_what_was_written_to_a_managed_one() {
    let stack = Stack::start().await;
    let put = json!([{ "PutRequest": { "Item": item("a", "1") } }]);
    let body = json!({ "RequestItems": { MAIN: put, OTHER: put } }).to_string();
    let missing = "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException";
    let missing = Reply::new(400, json!({ "__type": missing, "message": "no such table" }));
    let written = || Reply::new(200, json!({}));
    for (replies, status, left, requests) in [
        (vec![throttled(), written()], 200, json!({ OTHER: put }), 2),
        (vec![Reply::new(500, json!({})), written()], 200, json!({ OTHER: put }), 2),
        (vec![written(), Reply::new(500, json!({}))], 200, json!({ MAIN: put }), 2),
        (vec![throttled(), Reply::new(500, json!({}))], 400, Value::Null, 2),
        // Whatever DynamoDB refuses a batch for, it writes nothing of it.
        (vec![missing], 400, Value::Null, 1),
    ] {
        let server = Canned::start(replies).await;
        let service = stack.in_front_of(&server.url);
        let (answered, answer) = ask(&service, "BatchWriteItem", body.as_bytes()).await;
        assert_eq!((answered, &answer["UnprocessedItems"]), (status, &left), "{answer}");
        assert_eq!(server.asked().len(), requests);
    }
    stack.database.shutdown().await;
}

/// All that was read was thrown away, as often as the client asked.
#[tokio::test]
async fn regression_one_hot_shard_failed_a_batch_of_reads() {
    let stack = with_a_key_of_sixteen_shards().await;
    let (cold, hot) = (item("a", "1"), item("sixteen", "1"));
    let with = |keys: Value| json!({ MAIN: { "Keys": keys, "AttributesToGet": ["pk", "sk"] } });
    let body = json!({ "RequestItems": with(json!([cold, hot])) }).to_string();
    let read = || Reply::new(200, json!({ "Responses": { MAIN: [cold] } }));
    for (replies, status, left) in [
        (vec![read(), throttled()], 200, with(json!([hot]))),
        (
            vec![throttled(), Reply::new(200, json!({ "Responses": { MAIN: [] } }))],
            200,
            with(json!([cold])),
        ),
        (vec![throttled(), throttled()], 400, Value::Null),
    ] {
        let server = Canned::start(replies).await;
        let service = stack.in_front_of(&server.url);
        let (answered, answer) = ask(&service, "BatchGetItem", body.as_bytes()).await;
        assert_eq!((answered, &answer["UnprocessedKeys"]), (status, &left), "{answer}");
    }
    stack.database.shutdown().await;
}

/// A table had two entries, and what was left named each attribute twice, which DynamoDB refuses.
#[tokio::test]
async fn regression_the_answers_of_two_generations_were_joined_list_by_list() {
    let stack = with_a_key_of_sixteen_shards().await;
    let with = |keys: Value| json!({ MAIN: { "Keys": keys, "AttributesToGet": ["pk", "sk"] } });
    let (cold, sharded) = (item("a", "1"), item("sixteen", "1"));
    let replies = [&cold, &item("sixteen#~3", "1")].map(|left| {
        let capacity = json!([{ "TableName": MAIN, "CapacityUnits": 0.5 }]);
        let left = with(json!([left]));
        Reply::new(
            200,
            json!({ "Responses": {}, "UnprocessedKeys": left, "ConsumedCapacity": capacity }),
        )
    });
    let server = Canned::start(replies).await;
    let service = stack.in_front_of(&server.url);
    let asked = with(json!([cold, sharded]));
    let body = json!({ "RequestItems": asked, "ReturnConsumedCapacity": "TOTAL" }).to_string();
    let (status, answer) = ask(&service, "BatchGetItem", body.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["UnprocessedKeys"], asked);
    assert_eq!(answer["ConsumedCapacity"], json!([{ "TableName": MAIN, "CapacityUnits": 1.0 }]));
    stack.database.shutdown().await;
}

/// Either of the two won, and of a batch that the endpoint refuses all other items were written.
#[tokio::test]
async fn regression_a_batch_that_is_refused_was_carried_out_in_part() {
    let stack = Stack::with(SortKeyType::Number).await;
    let put = |item: Value| json!({ "PutRequest": { "Item": item } });
    let at = |sk: &str| json!({ "pk": { "S": "a" }, "sk": { "N": sk } });
    let with = |name: &str, value: Value| {
        let mut item = at("2");
        item[name] = value;
        put(item)
    };
    for (other, why) in [
        (json!({ "DeleteRequest": { "Key": at("1.0") } }), "contains duplicates"),
        (with("_ds_v", json!({ "N": "1" })), "reserved_attribute"),
        (with("x", json!({ "S": "x".repeat(409_000) })), "item_too_large"),
    ] {
        let body = json!({ "RequestItems": { MAIN: [put(at("1")), other] } });
        let (status, answer) = stack.ask("BatchWriteItem", body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(why), "{answer}");
    }
    let (_, found) = stack.ask("Scan", json!({ "TableName": MAIN })).await;
    assert_eq!(found["Count"], 0, "{found}");
    stack.database.shutdown().await;
}

/// A projection that shows no key did not tell whose metadata was out of date, and it was used for as long as its lease ran.
#[tokio::test]
async fn regression_a_projected_batch_did_not_find_out_that_its_key_is_being_resharded() {
    let mut stack = with_a_key_of_sixteen_shards().await;
    stack.restart();
    let mut written = item("sixteen", "1");
    let get =
        json!({ "RequestItems": { MAIN: { "Keys": [written], "ProjectionExpression": "a" } } });
    let get = get.to_string();
    assert_eq!(stack.ask_bytes("BatchGetItem", get.as_bytes()).await.0, 200);
    let behind = Arc::clone(&stack.service);
    Box::pin(stack.scale("sixteen", ShardCount::new(32).expect("a count"))).await;
    stack.restart();
    written["a"] = json!({ "S": "after" });
    let (status, answer) =
        stack.ask("PutItem", json!({ "TableName": MAIN, "Item": written })).await;
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = ask(&behind, "BatchGetItem", get.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["Responses"][MAIN], json!([{ "a": { "S": "after" } }]));
    stack.database.shutdown().await;
}

async fn with_a_key_of_sixteen_shards() -> Stack {
    let stack = Stack::start().await;
    // The settings are pinned by the first request.
    stack.ask("GetItem", json!({ "TableName": MAIN, "Key": item("a", "1") })).await;
    let sixteen = layouts().into_iter().find(|layout| layout.partition.as_str() == "sixteen");
    stack.list(&sixteen.expect("a layout")).await;
    stack
}
