//! Hot keys against the real command: the throttling DynamoDB alone, driven by the AWS SDK, and the
//! whole stack behind its HTTP API.

mod common;

use std::collections::BTreeMap;
use std::thread;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, ThrottlingReason,
};
use common::{LocalStack, dynashard};
use dynashard_aws::{ServerClock, connect_local};
use rustix::process::Signal;
use serde_json::{Value, json};

const KEY_RANGE: &str = "TableWriteKeyRangeThroughputExceeded";

#[tokio::test]
async fn an_engine_alone_throttles_a_hot_key_until_it_is_spread() {
    let stack = LocalStack::start(&["--engine-only", "--partition-wcu", "2"]);
    assert_eq!(stack.ready, json!({ "ready": true, "dynamodb": stack.dynamodb }));
    // Like all clients of the project's this one sends every request once.
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    create_table(&client).await;

    let mut throttled = 0;
    for n in 0..32 {
        match put(&client, "hot", n).await {
            Ok(()) => {}
            Err(reasons) => {
                assert_eq!(reasons.len(), 1, "{reasons:?}");
                assert_eq!(reasons[0].reason(), Some(KEY_RANGE));
                let resource = reasons[0].resource().expect("an ARN");
                assert!(resource.ends_with(":table/Flights"), "{resource}");
                throttled += 1;
            }
        }
    }
    assert!(throttled > 0, "32 units pass a partition of 2 units a second");
    assert_eq!(stack.throttles("Flights", KEY_RANGE), throttled);

    for n in 0..32 {
        let spread = put(&client, &format!("hot#{}", n % 16), n).await;
        spread.expect("two units for each suffix");
    }
    assert_eq!(stack.throttles("Flights", KEY_RANGE), throttled);
    let (status, stdout, stderr) = stack.end(Signal::TERM);
    assert!(status.success(), "{stderr}");
    assert_eq!(stdout, "", "stdout holds the ready line alone");
}

#[test]
fn an_engine_alone_takes_no_options_of_the_application() {
    for option in [["--set", "LeaseSecs=2"], ["--template", "template.yaml"]] {
        let output = dynashard(&["local", "--engine-only"]).args(option).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(stderr.contains("--engine-only") && stderr.contains(option[0]), "{stderr}");
    }
    let output = dynashard(&["local", "--partitions", "0"]).output().expect("it runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--partitions"));
}

#[test]
fn what_a_partition_cannot_take_is_retried_or_refused_and_never_lost() {
    let stack = LocalStack::start(&["--partition-wcu", "50", "--set", "WriterScaling=off"]);
    // Two partitions at the same time, since each takes half a minute.
    let (stored, unprocessed) = thread::scope(|scope| {
        let stack = &stack;
        let puts: Vec<_> = (0..6).map(|n| scope.spawn(move || put_large(stack, n))).collect();
        let unprocessed = scope.spawn(|| write_batch(stack));
        let stored = puts.into_iter().filter_map(|put| put.join().expect("an answer"));
        (stored.collect::<Vec<_>>(), unprocessed.join().expect("an answer"))
    });
    assert!(stack.throttles("MainTable", KEY_RANGE) > 0);

    // The first is admitted at once, and the next seven seconds later: by the writer's own retries.
    assert!((2..6).contains(&stored.len()), "{stored:?}");
    assert_eq!(read_all(&stack, "hot"), once_each(&stored), "what was acknowledged, and no more");

    let written: Vec<_> = (0..BATCH).filter(|n| !unprocessed.contains(n)).collect();
    assert!(!written.is_empty() && !unprocessed.is_empty(), "{unprocessed:?}");
    assert_eq!(read_all(&stack, "batch"), once_each(&written));
}

/// Puts 350 KB into the hot collection, seven seconds' worth of its partition. Returns the number
/// if it was stored, and otherwise it was refused as it should be.
fn put_large(stack: &LocalStack, n: u32) -> Option<u32> {
    let item = json!({ "n": n, "note": "x".repeat(350 << 10) });
    let answer = stack.json("PUT", &format!("/item?pk=hot&sk={n:04}"), &item);
    if answer.status == 200 {
        return Some(n);
    }
    assert_eq!((answer.status, answer.code().as_str()), (429, "throttled"));
    assert!(answer.retry_after.is_some(), "{answer:?}");
    None
}

/// The operations of a batch that takes 40 seconds, beyond what one request may take.
const BATCH: u32 = 50;

/// Writes that batch, items of 40 KB. Returns the numbers that were reported as unprocessed.
fn write_batch(stack: &LocalStack) -> Vec<u32> {
    let note = "x".repeat(40 << 10);
    let put =
        |n| json!({ "pk": "batch", "sk": format!("{n:04}"), "item": { "n": n, "note": note } });
    let puts: Vec<_> = (0..BATCH).map(put).collect();
    let answer = stack.json("POST", "/batch-write", &json!({ "puts": puts }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let unprocessed = answer["unprocessed"].as_array().expect("a list").iter();
    let unprocessed: Vec<_> = unprocessed
        .map(|left| {
            assert_eq!((&left["pk"], &left["code"]), (&json!("batch"), &json!("throttled")));
            left["sk"].as_str().and_then(|sk| sk.parse().ok()).expect("one of the keys")
        })
        .collect();
    assert_eq!(answer["written"], json!(BATCH as usize - unprocessed.len()));
    unprocessed
}

async fn create_table(client: &Client) {
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build();
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build();
    let created = client
        .create_table()
        .table_name("Flights")
        .attribute_definitions(attribute.expect("complete"))
        .key_schema(key.expect("complete"))
        .billing_mode(BillingMode::PayPerRequest)
        .send();
    created.await.expect("a table");
}

/// Puts a small item, or says why the partition took none.
async fn put(client: &Client, pk: &str, n: u32) -> Result<(), Vec<ThrottlingReason>> {
    let put = client
        .put_item()
        .table_name("Flights")
        .item("pk", AttributeValue::S(pk.to_owned()))
        .item("n", AttributeValue::N(n.to_string()))
        .send();
    match put.await.map_err(SdkError::into_service_error) {
        Ok(_) => Ok(()),
        Err(PutItemError::ProvisionedThroughputExceededException(error)) => {
            Err(error.throttling_reasons().to_vec())
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// How often each item of a collection is read, by its number.
fn read_all(stack: &LocalStack, pk: &str) -> BTreeMap<u32, u32> {
    let mut times = BTreeMap::new();
    let mut cursor = Value::Null;
    loop {
        let query = json!({ "pk": pk, "limit": 1000, "consistent": true, "cursor": cursor });
        let answer = stack.json("POST", "/query", &query);
        assert_eq!(answer.status, 200, "{answer:?}");
        let page = answer.json();
        for item in page["items"].as_array().expect("items") {
            let n = item["n"].as_u64().and_then(|n| n.try_into().ok()).expect("a number");
            *times.entry(n).or_default() += 1;
        }
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            return times;
        }
    }
}

fn once_each(numbers: &[u32]) -> BTreeMap<u32, u32> {
    numbers.iter().map(|n| (*n, 1)).collect()
}
