//! Hot keys against the real command: the throttling DynamoDB alone, driven by the AWS SDK, and the
//! whole stack behind its HTTP API.

use std::collections::BTreeMap;
use std::thread;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ThrottlingReason};
use dynashard_aws::{ServerClock, connect_local};
use rustix::process::Signal;
use serde_json::json;

use crate::common::{LocalStack, dynashard};
use crate::tables;

const KEY_RANGE: &str = "TableWriteKeyRangeThroughputExceeded";

#[tokio::test]
async fn an_engine_alone_throttles_a_hot_key_until_it_is_spread() {
    // The hot partition has one item, so that heat does not split it.
    let stack =
        LocalStack::start(&["--engine-only", "--partition-wcu", "2", "--split-after-secs", "1"]);
    assert_eq!(stack.ready, json!({ "ready": true, "dynamodb": stack.dynamodb }));
    // Like all clients of the project's this one sends every request once.
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "Flights", &[("pk", "S")]).await;

    // A partition takes what is larger than itself and then nothing until time has paid: here for two
    // minutes, so no machine is too slow to meet the limit.
    let large = [("note", AttributeValue::S("x".repeat(256 << 10)))];
    put(&client, "hot", &large).await.expect("the first is admitted");
    for _ in 0..8 {
        let reasons = put(&client, "hot", &[]).await.expect_err("the partition is in debt");
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert_eq!(reasons[0].reason(), Some(KEY_RANGE));
        let resource = reasons[0].resource().expect("an ARN");
        assert!(resource.ends_with(":table/Flights"), "{resource}");
    }
    assert_eq!(stack.throttles("Flights", KEY_RANGE), 8);

    for n in 0..32 {
        let spread = put(&client, &format!("hot#{}", n % 16), &[]).await;
        spread.expect("two units for each suffix");
    }
    assert_eq!(stack.throttles("Flights", KEY_RANGE), 8);
    let (status, stdout, stderr) = stack.end(Signal::TERM);
    assert!(status.success(), "{stderr}");
    assert_eq!(stdout, "", "stdout holds the ready line alone");
}

#[tokio::test]
async fn an_engine_that_does_not_throttle_takes_everything() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "Flights", &[("pk", "S")]).await;
    // 350 units each, of a partition that takes 1,000 a second.
    let note = "x".repeat(350 << 10);
    for n in 0..12 {
        let put = client
            .put_item()
            .table_name("Flights")
            .item("pk", AttributeValue::S("hot".to_owned()))
            .item("note", AttributeValue::S(format!("{note}{n}")));
        put.send().await.expect("nothing is refused");
    }
    assert_eq!(stack.throttles("Flights", KEY_RANGE), 0);
}

#[test]
fn an_engine_alone_takes_no_options_of_the_application() {
    for option in [["--set", "LeaseSecs=2"], ["--template", "template.yaml"]] {
        let output = dynashard(&["local", "--engine-only"]).args(option).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(stderr.contains("--engine-only") && stderr.contains(option[0]), "{stderr}");
    }
    for limit in
        ["--partition-wcu", "--partition-rcu", "--partitions", "--burst-secs", "--split-after-secs"]
    {
        let output = dynashard(&["local", "--no-throttle", limit, "2"]).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(stderr.contains("--no-throttle") && stderr.contains(limit), "{stderr}");
    }
    let output = dynashard(&["local", "--partitions", "0"]).output().expect("it runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--partitions"));
}

#[test]
fn what_a_partition_cannot_take_is_retried_or_refused_and_never_lost() {
    // Neither writers nor the alarm, which comes with the next minute, may add shards meanwhile.
    let stack = LocalStack::start(&["--partition-wcu", "40", "--set", "ScalingMode=off"]);
    // Two partitions at the same time.
    let (single, batch) = thread::scope(|scope| {
        let stack = &stack;
        let puts: Vec<_> = (0..PUTS).map(|n| scope.spawn(move || put_large(stack, n))).collect();
        let batch = scope.spawn(|| write_batch(stack));
        let single = (0..).zip(puts).map(|(n, put)| (n, put.join().expect("an answer")));
        (single.collect::<Fates>(), batch.join().expect("an answer"))
    });
    assert!(stack.throttles("MainTable", KEY_RANGE) > 0);

    // The first is admitted at once, and the next a second later. Long before, the others have been told
    // to come back. The batch holds one environment only, and is tried for longer.
    let is = |fate| single.values().any(|is| *is == fate);
    assert!(is(Fate::Stored) && is(Fate::Throttled), "{single:?}");
    assert_told_truly(&stack, "hot", &single);

    let is = |fate| batch.values().any(|is| *is == fate);
    assert!(is(Fate::Stored) && is(Fate::Throttled), "{batch:?}");
    assert_told_truly(&stack, "batch", &batch);
}

/// What the API said of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stored,
    /// The partition refused it until the time was over.
    Throttled,
    /// The time was over before it was sent.
    NotSent,
    /// A busy machine had the answer after the lease: it may be stored.
    Unknown,
}

impl Fate {
    fn of(code: &str) -> Self {
        match code {
            "throttled" => Self::Throttled,
            "deadline_exceeded" => Self::NotSent,
            "outcome_unknown" => Self::Unknown,
            _ => panic!("{code} does not answer a throttled write"),
        }
    }
}

/// By the number of the item.
type Fates = BTreeMap<u64, Fate>;

/// Checks that exactly what was acknowledged is there, once each, and of what is in doubt nothing twice.
#[track_caller]
fn assert_told_truly(stack: &LocalStack, pk: &str, fates: &Fates) {
    let items = stack.query(json!({ "pk": pk, "limit": 1_000 }));
    let read = items.iter().map(|item| item["n"].as_u64().expect("a number"));
    let read = read.filter(|n| fates.get(n) != Some(&Fate::Unknown)).collect::<Vec<_>>();
    let stored = fates.iter().filter(|(_, fate)| **fate == Fate::Stored).map(|(n, _)| *n);
    assert_eq!(read, stored.collect::<Vec<_>>(), "{pk}: {fates:?}");
}

/// Single puts at the same time, fewer than the stack has environments.
const PUTS: u64 = 8;

/// Puts 40 KB into the hot collection, a second's worth of its partition.
fn put_large(stack: &LocalStack, n: u64) -> Fate {
    let item = json!({ "n": n, "note": "x".repeat(40 << 10) });
    let answer = stack.json("PUT", &format!("/item?pk=hot&sk={n:04}"), &item);
    if answer.status == 200 {
        return Fate::Stored;
    }
    let fate = Fate::of(&answer.code());
    let status = match fate {
        Fate::Throttled => 429,
        Fate::NotSent => 503,
        _ => 504,
    };
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.retry_after.is_some(), fate != Fate::Unknown, "{answer:?}");
    fate
}

/// The operations of a batch that takes 50 seconds, beyond what one request may take.
const BATCH: u64 = 50;

/// Writes that batch, items of 40 KB.
fn write_batch(stack: &LocalStack) -> Fates {
    let note = "x".repeat(40 << 10);
    let put =
        |n| json!({ "pk": "batch", "sk": format!("{n:04}"), "item": { "n": n, "note": note } });
    let puts: Vec<_> = (0..BATCH).map(put).collect();
    let answer = stack.json("POST", "/batch-write", &json!({ "puts": puts }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let mut fates = (0..BATCH).map(|n| (n, Fate::Stored)).collect::<Fates>();
    for left in answer["unprocessed"].as_array().expect("a list") {
        assert_eq!(left["pk"], "batch");
        let n = left["sk"].as_str().and_then(|sk| sk.parse().ok()).expect("one of the keys");
        fates.insert(n, Fate::of(left["code"].as_str().expect("a code")));
    }
    let stored = fates.values().filter(|fate| **fate == Fate::Stored).count();
    assert_eq!((answer["written"].as_u64(), fates.len()), (u64::try_from(stored).ok(), 50));
    fates
}

/// Puts an item with these attributes, or says why the partition did not take it.
async fn put(
    client: &Client,
    pk: &str,
    attributes: &[(&str, AttributeValue)],
) -> Result<(), Vec<ThrottlingReason>> {
    let put = client.put_item().table_name("Flights").item("pk", AttributeValue::S(pk.to_owned()));
    let put = attributes.iter().fold(put, |put, (name, value)| put.item(*name, value.clone()));
    match put.send().await.map_err(SdkError::into_service_error) {
        Ok(_) => Ok(()),
        Err(PutItemError::ProvisionedThroughputExceededException(error)) => {
            Err(error.throttling_reasons().to_vec())
        }
        Err(error) => panic!("{error:?}"),
    }
}
