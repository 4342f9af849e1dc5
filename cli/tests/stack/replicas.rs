//! Reads are spread over read replicas by the real functions, whose role allows it.

use serde_json::json;

use crate::common::LocalStack;

/// So many that each of three sources is asked, but by a chance of one in a hundred million.
const READS: u64 = 50;

#[test]
fn reads_that_need_not_be_strong_are_spread_over_the_table_and_its_replicas() {
    let stack = LocalStack::start(&["--set", "ReadReplicas=2"]);
    let item = json!({ "pk": "JFK", "sk": "1", "text": "a" });
    let put = stack.json("PUT", "/item?pk=JFK&sk=1", &json!({ "text": "a" }));
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(stack.get("/item?pk=JFK&sk=1&consistent=true").json(), item);
    let before = stack.requests("MainTable", "Query");
    for _ in 0..READS {
        let read = stack.get("/item?pk=JFK&sk=1");
        assert_eq!((read.json(), read.etag), (item.clone(), put.etag.clone()));
        assert_eq!(stack.get("/query?pk=JFK").json()["items"], json!([item]));
    }
    // Each page is one, and so is each get that asks a replica.
    let by_replicas = stack.requests("MainTable", "Query") - before - READS;
    assert!((1..READS).contains(&by_replicas), "{by_replicas} of {READS} gets have asked replicas");
    assert_eq!(stack.permissions()["denied"], json!([]));
}
