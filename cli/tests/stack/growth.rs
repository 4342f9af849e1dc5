//! A hot key outgrows one partition, and the system follows by itself.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::json;

use crate::common::LocalStack;

/// Puts of one batch: some seconds of what one partition of this stack takes.
const BATCH: usize = 150;

/// Batches before the test gives up.
const MOST_BATCHES: usize = 60;

#[test]
fn a_throttled_collection_grows_by_itself_and_loses_nothing() {
    grows("xxh64");
}

#[test]
fn a_throttled_random_collection_grows_by_itself_and_loses_nothing() {
    grows("random");
}

/// The sparse index had the partition key as its sort key, which takes 1,024 bytes: DynamoDB refused every change of the
/// count of a collection with a longer key, for ever.
#[test]
fn regression_a_collection_with_a_long_key_could_not_change_its_count() {
    let set = ["LeaseSecs=1", "RequestLifetimeSecs=2"].iter().flat_map(|it| ["--set", it]);
    let stack = LocalStack::start(&set.collect::<Vec<_>>());
    let pk = "k".repeat(2_000);
    let keys = (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>();
    stack.put_all(keys.iter().map(|sk| json!({ "pk": pk, "sk": sk, "item": { "sk": sk } })));
    for shards in [4, 1] {
        let path = format!("/collection/scale?pk={pk}");
        let asked = stack.json("POST", &path, &json!({ "number_of_shards": shards }));
        assert_eq!(asked.status, 202, "{}", asked.json());
        stack.until_at_rest(&pk, shards);
        let read = stack.query(json!({ "pk": pk }));
        let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key"));
        assert!(read.eq(keys.iter().map(String::as_str)), "each once, and in order");
    }
}

/// The functions that decide were not allowed to count what lies before the last writes, and all of a log moved.
#[test]
fn regression_a_large_log_moved_though_nobody_writes_to_its_past() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = ["--data-dir", directory.path().to_str().expect("UTF-8")];
    let set = ["LeaseSecs=1", "CooldownSecs=0", "RequestLifetimeSecs=2"];
    let set = set.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let sorts = |from: usize, to: usize| (from..to).map(|n| format!("{n:06}"));
    let puts = |sorts: &[String]| {
        let put = |sk: &String| json!({ "pk": "log", "sk": sk, "item": { "sk": sk } });
        sorts.iter().map(put).collect::<Vec<_>>()
    };
    let past = sorts(0, 10_200).collect::<Vec<_>>();
    let stack = LocalStack::start(&[&data[..], &set, &["--no-throttle"]].concat());
    stack.put_all(puts(&past));
    stack.end(Signal::TERM);

    let stack = LocalStack::start(&[&data[..], &set, &["--partition-wcu", "50"]].concat());
    let collection = || stack.get("/collection?pk=log").json();
    let mut written = past.len();
    for _ in 0..MOST_BATCHES {
        stack.put_all(puts(&sorts(written, written + BATCH).collect::<Vec<_>>()));
        written += BATCH;
        if collection()["epochs"].as_array().map(Vec::len) == Some(2) {
            break;
        }
    }
    let grown = collection();
    let epochs = grown["epochs"].as_array().expect("a list");
    assert_eq!((epochs.len(), &epochs[0]["number_of_shards"]), (2, &json!(1)), "{grown}");
    let boundary = epochs[1]["from"].as_str().expect("a sort key");
    assert!(boundary > "010100", "{grown}");
    let shards = epochs[1]["number_of_shards"].as_u64().expect("a count");
    stack.until_at_rest("log", u32::try_from(shards).expect("a count"));
    let read = stack.query(json!({ "pk": "log", "limit": 1_000 }));
    let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
    assert!(read.eq(sorts(0, written)), "each once, and in order");
}

/// Writes to a collection until it has four shards, and reads it back.
fn grows(placement: &str) {
    let placement = format!("Placement={placement}");
    let set = [&placement, "LeaseSecs=1", "CooldownSecs=0", "RequestLifetimeSecs=2"];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let stack = LocalStack::start(&set.chain(["--partition-wcu", "50"]).collect::<Vec<_>>());
    let most = Some(4);
    let shards = || stack.get("/collection?pk=audit").json()["number_of_shards"].as_u64();
    let mut written = BTreeSet::new();
    for batch in 0..MOST_BATCHES {
        let keys = (0..BATCH).map(|n| format!("{batch:03}-{n:03}")).collect::<Vec<_>>();
        let puts = keys.iter().map(|sk| json!({ "pk": "audit", "sk": sk, "item": { "sk": sk } }));
        stack.put_all(puts);
        written.extend(keys);
        if shards() >= most {
            break;
        }
    }
    assert!(shards() >= most, "it grew to {:?} only", shards());

    let read = stack.query(json!({ "pk": "audit", "limit": 1_000 }));
    let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
    let read = read.collect::<Vec<_>>();
    assert_eq!(read, written.into_iter().collect::<Vec<_>>(), "each once, and in order");
    let collection = stack.get("/collection?pk=audit").json();
    let history = collection["shard_history"].as_array().expect("a history").iter();
    let history = history.map(|entry| entry["count"].as_u64().expect("a count"));
    let history = history.collect::<Vec<_>>();
    assert!(history.starts_with(&[1]) && history.is_sorted(), "{collection}");
}
