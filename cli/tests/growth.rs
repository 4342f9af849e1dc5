//! A hot append-only key outgrows one partition, and the system follows by itself.

mod common;

use std::collections::BTreeSet;

use common::LocalStack;
use serde_json::{Value, json};

/// Puts of one batch: some seconds of what one partition of this stack takes.
const BATCH: usize = 150;

/// Batches before the test gives up.
const MOST_BATCHES: usize = 60;

#[test]
fn a_throttled_collection_grows_by_itself_and_loses_nothing() {
    let stack = LocalStack::start(&[
        "--set",
        "Placement=random",
        "--set",
        "LeaseSecs=1",
        "--set",
        "CooldownSecs=0",
        "--partition-wcu",
        "50",
    ]);
    let shards = || stack.get("/collection?pk=audit").json()["number_of_shards"].as_u64();
    let mut written = BTreeSet::new();
    for batch in 0..MOST_BATCHES {
        let keys = (0..BATCH).map(|n| format!("{batch:03}-{n:03}")).collect::<Vec<_>>();
        let puts = keys.iter().map(|sk| json!({ "pk": "audit", "sk": sk, "item": { "sk": sk } }));
        let answer =
            stack.json("POST", "/batch-write", &json!({ "puts": puts.collect::<Vec<_>>() }));
        let answer = answer.json();
        assert_eq!(answer["unprocessed"], json!([]), "{answer}");
        written.extend(keys);
        if shards() >= Some(4) {
            break;
        }
    }
    assert!(shards() >= Some(4), "it grew to {:?} only", shards());

    let mut read = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let query = json!({ "pk": "audit", "limit": 1_000, "consistent": true, "cursor": cursor });
        let page = stack.json("POST", "/query", &query).json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        read.extend(items.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned()));
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(read, written.into_iter().collect::<Vec<_>>(), "each once, and in order");
    let collection = stack.get("/collection?pk=audit").json();
    let history = collection["shard_history"].as_array().expect("a history");
    assert!(history.len() >= 3, "{collection}");
}
