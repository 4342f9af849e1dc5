//! Metrics, as they arrive from the logs of the real functions.

use std::thread;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_aws::{ServerClock, connect_local};
use serde_json::json;

use crate::common::LocalStack;

/// Lambda dropped the lines of metrics below this level, and every alarm on them stayed quiet.
#[tokio::test(flavor = "multi_thread")]
async fn regression_no_metric_arrived_where_only_errors_are_logged() {
    let stack = LocalStack::start(&["--set", "LogLevel=ERROR", "--set", "LeaseSecs=1"]);
    let created = stack.json("PUT", "/collection?pk=k", &json!({ "number_of_shards": 2 }));
    assert_eq!(created.status, 201, "{created:?}");
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let damaged = client
        .update_item()
        .table_name("MetadataTable")
        .key("pk", AttributeValue::S("k".to_owned()))
        .update_expression("SET number_of_shards = :n")
        .expression_attribute_values(":n", AttributeValue::S("two".to_owned()));
    damaged.send().await.expect("an edit by hand");
    // Once their leases end, both meet the damage.
    while stack.json("PUT", "/item?pk=k&sk=s", &json!({})).status != 500 {
        thread::yield_now();
    }
    while stack.get("/item?pk=k&sk=s&consistent=true").status != 500 {
        thread::yield_now();
    }
    stack
        .invoke("ScaleFunction", r#"{"alarmData":{"alarmName":"foreign","state":{"value":"OK"}}}"#);
    for (function, metric) in [
        ("WriteFunction", "DamagedData"),
        ("ReadFunction", "DamagedData"),
        ("ScaleFunction", "AlarmsRefused"),
        ("RebalanceFunction", "SweepsFinished"),
    ] {
        while !stack.has_metric(function, metric) {
            thread::yield_now();
        }
    }
}
