//! Batches: what is refused of them, and what is left of them.

use serde_json::{Value, json};

use crate::canned::{Canned, Reply};
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
