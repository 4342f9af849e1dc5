//! Requests on single items of keys of several shards, and of keys that are being resharded.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::{CollectionMetadata, Generation, Phase};
use dynashard_keys::{ItemKey, Placement, ShardCount, ShardId, SortKey};
use serde_json::{Value, json};

use crate::stack::{MAIN, Stack, item, partition};

/// How many items each key has, more than enough for every shard.
const ITEMS: usize = 24;

fn count(shards: u32) -> ShardCount {
    ShardCount::new(shards).expect("a count")
}

/// A key in this phase, and in a generation that comes after a first reshard.
async fn list(stack: &Stack, pk: &str, shards: u32, phase: Phase) {
    // The settings are pinned by the first request.
    ok(stack, "GetItem", json!({ "Key": item("first", "1") })).await;
    let stable =
        CollectionMetadata::stable(partition(pk), Placement::Xxh64, count(shards), 1_700_000_000);
    let generation = Generation::new(1);
    stack.list(&CollectionMetadata { phase, generation, ..stable }).await;
}

async fn ok(stack: &Stack, operation: &str, mut body: Value) -> Value {
    body["TableName"] = MAIN.into();
    let (status, answer) = stack.ask(operation, body.clone()).await;
    assert_eq!(status, 200, "{operation} {body}: {answer}");
    answer
}

async fn refused(stack: &Stack, operation: &str, mut body: Value) -> Value {
    body["TableName"] = MAIN.into();
    let (status, answer) = stack.ask(operation, body.clone()).await;
    assert_eq!(status, 400, "{operation} {body}: {answer}");
    let kind = answer["__type"].as_str().unwrap_or_default();
    assert!(kind.ends_with("ConditionalCheckFailedException"), "{operation} {body}: {answer}");
    answer
}

fn values(n: i64) -> Value {
    json!({ ":n": { "N": n.to_string() } })
}

/// What is written while a key has one shard is found, updated and deleted in every phase behind it, as DynamoDB would.
#[tokio::test]
async fn items_are_written_and_read_in_every_phase() {
    let mut stack = Stack::start().await;
    let (from, to) = (count(1), count(4));
    let phases = [
        ("resting", 4, Phase::Stable),
        ("forward", 1, Phase::Forward { from, to }),
        ("moving", 4, Phase::Move { from, to }),
    ];
    for (pk, shards, phase) in phases {
        let is_seeded = phase != Phase::Stable;
        if is_seeded {
            for n in 0..ITEMS {
                let mut put = item(pk, &n.to_string());
                put["n"] = json!({ "N": "1" });
                ok(&stack, "PutItem", json!({ "Item": put })).await;
            }
        }
        list(&stack, pk, shards, phase).await;
        stack.restart();
        for n in 0..ITEMS {
            let key = item(pk, &n.to_string());
            let before = i64::from(is_seeded);
            let update = json!({ "Key": key, "UpdateExpression": "ADD n :n", "ReturnValues": "ALL_NEW",
                                 "ExpressionAttributeValues": values(1) });
            let mut expected = key.clone();
            expected["n"] = json!({ "N": (before + 1).to_string() });
            assert_eq!(ok(&stack, "UpdateItem", update).await["Attributes"], expected, "{pk}");
            let got =
                ok(&stack, "GetItem", json!({ "Key": key, "ProjectionExpression": "n" })).await;
            assert_eq!(got["Item"], json!({ "n": expected["n"] }), "{pk}");

            let create = json!({ "Item": key, "ConditionExpression": "attribute_not_exists(pk)",
                                 "ReturnValuesOnConditionCheckFailure": "ALL_OLD" });
            assert_eq!(refused(&stack, "PutItem", create).await["Item"], expected, "{pk}");
            let stale = json!({ "Key": key, "ConditionExpression": "n = :n",
                                "ExpressionAttributeValues": values(before) });
            refused(&stack, "DeleteItem", stale).await;
            let delete = json!({ "Key": key, "ConditionExpression": "n = :n", "ReturnValues": "ALL_OLD",
                                 "ExpressionAttributeValues": values(before + 1) });
            assert_eq!(ok(&stack, "DeleteItem", delete).await["Attributes"], expected, "{pk}");
            assert_eq!(ok(&stack, "GetItem", json!({ "Key": key })).await, json!({}), "{pk}");
            refused(
                &stack,
                "DeleteItem",
                json!({ "Key": key, "ConditionExpression": "attribute_exists(sk)" }),
            )
            .await;
            assert_eq!(ok(&stack, "DeleteItem", json!({ "Key": key })).await, json!({}), "{pk}");

            let create = json!({ "Item": key, "ConditionExpression": "attribute_not_exists(pk)" });
            assert_eq!(ok(&stack, "PutItem", create.clone()).await, json!({}), "{pk}");
            refused(&stack, "PutItem", create).await;
            let replaced =
                ok(&stack, "PutItem", json!({ "Item": expected, "ReturnValues": "ALL_OLD" }));
            assert_eq!(replaced.await["Attributes"], key, "{pk}");
            let got = ok(&stack, "GetItem", json!({ "Key": key, "ConsistentRead": true })).await;
            assert_eq!(got["Item"], expected, "{pk}");
        }
    }
    stack.database.shutdown().await;
}

/// Where every read is strong, what its client has asked for is judged all the same.
#[tokio::test]
async fn regression_a_malformed_flag_was_taken_while_a_key_was_moved() {
    let mut stack = Stack::start().await;
    let phase = Phase::Move { from: count(1), to: count(4) };
    list(&stack, "moving", 4, phase).await;
    stack.restart();
    for (flag, expected) in [(json!("7"), 400), (json!([]), 400), (json!("false"), 200)] {
        let get = json!({ "TableName": MAIN, "Key": item("moving", "1"), "ConsistentRead": flag });
        let (status, answer) = stack.ask("GetItem", get).await;
        assert_eq!(status, expected, "{flag}: {answer}");
    }
    stack.database.shutdown().await;
}

/// One that only removes makes no item of nothing, wherever that is.
#[tokio::test]
async fn an_update_that_only_removes_makes_no_item_in_any_phase() {
    let mut stack = Stack::start().await;
    let (from, to) = (count(1), count(4));
    for (pk, shards, phase) in [
        ("resting", 4, Phase::Stable),
        ("forward", 1, Phase::Forward { from, to }),
        ("moving", 4, Phase::Move { from, to }),
    ] {
        list(&stack, pk, shards, phase).await;
        stack.restart();
        for n in 0..ITEMS {
            let key = item(pk, &n.to_string());
            let update = json!({ "Key": key, "UpdateExpression": "REMOVE a" });
            ok(&stack, "UpdateItem", update).await;
            assert_eq!(ok(&stack, "GetItem", json!({ "Key": key })).await, json!({}), "{pk}");
        }
    }
    stack.database.shutdown().await;
}

/// A condition that met a marker was judged of it, though it counts as nothing.
#[tokio::test]
async fn a_marker_of_an_earlier_reshard_counts_as_nothing() {
    let mut stack = Stack::start().await;
    list(&stack, "key", 1, Phase::Stable).await;
    let plain = stack.plain().await;
    let number = |n: &str| aws_sdk_dynamodb::types::AttributeValue::N(n.to_owned());
    for (sk, create) in [
        ("1", json!({ "ConditionExpression": "attribute_not_exists(pk)" })),
        ("2", json!({ "ReturnValues": "ALL_OLD" })),
    ] {
        let marker = plain.put_item().table_name(MAIN).item("pk", crate::stack::text("key"));
        let marker = marker.item("sk", crate::stack::text(sk)).item("_ds_g", number("0"));
        let forwarded = aws_sdk_dynamodb::types::AttributeValue::Bool(true);
        marker.item("_ds_fwd", forwarded).send().await.expect("it is put");
        stack.restart();
        let got = ok(&stack, "GetItem", json!({ "Key": item("key", sk) })).await;
        assert_eq!(got, json!({}));
        let mut put = create;
        put["Item"] = item("key", sk);
        assert_eq!(ok(&stack, "PutItem", put).await, json!({}));
        let got = ok(&stack, "GetItem", json!({ "Key": item("key", sk) })).await;
        assert_eq!(got["Item"], item("key", sk));
    }
    stack.database.shutdown().await;
}

/// The partition key has another value where DynamoDB holds the item, so a condition on it would be judged of that.
#[tokio::test]
async fn the_value_of_the_partition_key_is_refused_where_it_is_another() {
    let mut stack = Stack::start().await;
    list(&stack, "key", 4, Phase::Stable).await;
    stack.restart();
    let mut refusals = 0;
    for n in 0..ITEMS {
        let put = json!({ "TableName": MAIN, "Item": item("key", &n.to_string()),
                          "ConditionExpression": "attribute_not_exists(pk) OR pk = :p",
                          "ExpressionAttributeValues": { ":p": { "S": "key" } } });
        let (status, answer) = stack.ask("PutItem", put).await;
        refusals += usize::from(status == 400);
        let why = answer["message"].as_str().unwrap_or_default();
        assert!(status == 200 || why.contains("partition_key_value"), "{answer}");
    }
    assert!((1..ITEMS).contains(&refusals), "{refusals} of {ITEMS}");
    stack.database.shutdown().await;
}

/// Whether an item is being moved is no client's business, in a batch or a transaction neither.
#[tokio::test]
async fn batches_and_transactions_are_carried_out_in_every_phase() {
    let mut stack = Stack::start().await;
    let (from, to) = (count(1), count(4));
    for (pk, shards, phase) in [
        ("resting", 4, Phase::Stable),
        ("forward", 1, Phase::Forward { from, to }),
        ("moving", 4, Phase::Move { from, to }),
    ] {
        if phase != Phase::Stable {
            for n in 0..ITEMS {
                ok(&stack, "PutItem", json!({ "Item": item(pk, &n.to_string()) })).await;
            }
        }
        list(&stack, pk, shards, phase).await;
        stack.restart();
        for n in 0..ITEMS {
            let key = item(pk, &n.to_string());
            let is_there =
                if phase == Phase::Stable { "attribute_not_exists" } else { "attribute_exists" };
            let update = json!({ "TableName": MAIN, "Key": key, "UpdateExpression": "ADD n :n",
                                 "ConditionExpression": format!("{is_there}(pk)"),
                                 "ExpressionAttributeValues": values(1) });
            let other = item(pk, &format!("{n}-new"));
            let create = json!({ "TableName": MAIN, "Item": other,
                                 "ConditionExpression": "attribute_not_exists(pk)" });
            let write = json!({ "TransactItems": [{ "Update": update }, { "Put": create }] });
            let (status, answer) = stack.ask("TransactWriteItems", write.clone()).await;
            assert_eq!(status, 200, "{pk}: {answer}");
            let (status, answer) = stack.ask("TransactWriteItems", write).await;
            assert_eq!(status, 400, "{pk}: {answer}");

            let mut expected = key.clone();
            expected["n"] = json!({ "N": "1" });
            let get = |key: &Value| json!({ "Get": { "TableName": MAIN, "Key": key } });
            let gets = json!({ "TransactItems": [get(&key), get(&other), get(&item(pk, "none"))] });
            let (status, answer) = stack.ask("TransactGetItems", gets).await;
            assert_eq!(status, 200, "{pk}: {answer}");
            let found = json!([{ "Item": expected }, { "Item": other }, {}]);
            assert_eq!(answer["Responses"], found, "{pk}");
        }
        let keys = (0..ITEMS).map(|n| item(pk, &n.to_string())).collect::<Vec<_>>();
        let (status, answer) =
            stack.ask("BatchGetItem", json!({ "RequestItems": { MAIN: { "Keys": keys } } })).await;
        assert_eq!(status, 200, "{pk}: {answer}");
        assert_eq!(answer["Responses"][MAIN].as_array().map(Vec::len), Some(ITEMS), "{pk}");
    }
    stack.database.shutdown().await;
}

/// What nobody has moved yet is found by a batch, too.
#[tokio::test]
async fn a_batch_finds_items_that_are_still_at_their_old_home() {
    let mut stack = Stack::start().await;
    for n in 0..ITEMS {
        ok(&stack, "PutItem", json!({ "Item": item("key", &n.to_string()) })).await;
    }
    list(&stack, "key", 4, Phase::Move { from: count(1), to: count(4) }).await;
    stack.restart();
    let keys = (0..ITEMS).map(|n| item("key", &n.to_string())).collect::<Vec<_>>();
    let (status, answer) =
        stack.ask("BatchGetItem", json!({ "RequestItems": { MAIN: { "Keys": keys } } })).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["Responses"][MAIN].as_array().map(Vec::len), Some(ITEMS));
    stack.database.shutdown().await;
}

/// A projection showed no version, by which the item that was read where it lies is known: it was looked for until the time was
/// over.
#[tokio::test]
async fn regression_a_projected_get_of_an_item_that_cannot_be_moved_found_no_end() {
    let mut stack = Stack::start().await;
    // The settings are pinned by the first request.
    ok(&stack, "GetItem", json!({ "Key": item("key", "0") })).await;
    let moves = |sk: &String| {
        let key = ItemKey::new(partition("key"), SortKey::string(sk).expect("a sort key"));
        Placement::Xxh64.home(&key, count(4)) != Some(ShardId::new(0))
    };
    let sk = (0..100).map(|n| format!("{n:03}")).find(moves).expect("most of them move");
    // With the suffix of another shard it is above 400 KB.
    let own = ["pk", "key", "sk", &sk, "a", "b", "1", "_ds_v"].map(str::len).iter().sum::<usize>();
    let version = 2;
    let large = "x".repeat(400 * 1_024 - own - version);
    let mut stored = text_item([("pk", "key"), ("sk", &sk), ("a", &large), ("b", "1")]);
    stored.insert("_ds_v".to_owned(), AttributeValue::N("7".to_owned()));
    let plain = stack.plain().await;
    let put = plain.put_item().table_name(MAIN).set_item(Some(stored)).send().await;
    put.expect("it is not too large");
    list(&stack, "key", 4, Phase::Move { from: count(1), to: count(4) }).await;
    stack.restart();
    let found = ok(&stack, "GetItem", json!({ "Key": item("key", &sk) })).await;
    assert_eq!(found["Item"]["b"], json!({ "S": "1" }), "it could not be moved");
    let get = json!({ "Key": item("key", &sk), "ProjectionExpression": "b" });
    let found = ok(&stack, "GetItem", get).await;
    assert_eq!(found["Item"], json!({ "b": { "S": "1" } }));
    stack.database.shutdown().await;
}

fn text_item<const N: usize>(members: [(&str, &str); N]) -> HashMap<String, AttributeValue> {
    let members = members.into_iter();
    members.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned()))).collect()
}
