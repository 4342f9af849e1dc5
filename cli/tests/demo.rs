//! The main job, as the README shows it first.

mod common;

use serde_json::Value;

#[test]
fn every_flight_comes_back_once_in_order_and_unchanged() {
    let output = common::dynashard(&["demo", "--json"]).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let summary = serde_json::from_slice::<Value>(&output.stdout).expect("a line of JSON");
    assert_eq!((&summary["ok"], &summary["items"]), (&Value::from(true), &Value::from(27_004)));
    // One request an item, and a metadata read when a lease runs out.
    assert_eq!(summary["put_requests"].as_u64(), Some(27_004), "{summary}");
    let metadata_requests = summary["metadata_requests"].as_u64().expect("a count");
    assert!(metadata_requests <= 270, "{metadata_requests} metadata requests for 27,004 puts");
}
