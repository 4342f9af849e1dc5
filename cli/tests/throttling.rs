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
    // A put of 40 KB takes most of a second's worth.
    let note = "x".repeat(40 << 10);
    let writers: Vec<_> = (0..4).map(|writer| 5 * writer..5 * (writer + 1)).collect();
    let stored = thread::scope(|scope| {
        let put = |n: u32| {
            let path = format!("/item?pk=hot&sk={n:04}");
            let answer = stack.json("PUT", &path, &json!({ "n": n, "note": note }));
            if answer.status != 200 {
                assert_eq!((answer.status, answer.code().as_str()), (429, "throttled"));
                assert!(answer.retry_after.is_some(), "{answer:?}");
            }
            (n, answer.status == 200)
        };
        let writers: Vec<_> = writers
            .into_iter()
            .map(|own| scope.spawn(move || own.map(put).collect::<Vec<_>>()))
            .collect();
        let answers = writers.into_iter().flat_map(|writer| writer.join().expect("a writer"));
        answers.filter_map(|(n, is_stored)| is_stored.then_some(n)).collect::<Vec<_>>()
    });
    assert!(!stored.is_empty());
    assert!(stack.throttles("MainTable", KEY_RANGE) > 0);
    assert_eq!(read_all(&stack, "hot"), once_each(&stored), "what was acknowledged, and no more");

    let puts: Vec<_> = (0..50)
        .map(
            |n| json!({ "pk": "batch", "sk": format!("{n:04}"), "item": { "n": n, "note": note } }),
        )
        .collect();
    let answer = stack.json("POST", "/batch-write", &json!({ "puts": puts }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let unprocessed: Vec<Value> = answer.json()["unprocessed"].as_array().expect("a list").clone();
    assert!(!unprocessed.is_empty(), "2,000 units take 40 seconds, and the answer comes before");
    assert!(unprocessed.iter().all(|left| left["code"] == "throttled"), "{unprocessed:?}");
    let left: Vec<_> = unprocessed.iter().map(|left| left["sk"].as_str().expect("a key")).collect();
    let written: Vec<_> = (0..50).filter(|n| !left.contains(&format!("{n:04}").as_str())).collect();
    assert_eq!(answer.json()["written"], written.len());
    assert_eq!(read_all(&stack, "batch"), once_each(&written));
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
