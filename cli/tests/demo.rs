//! The main job, as the README shows it first, with partitions small enough for any machine.

mod common;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

const PARTITION_WCU: &str = "50";

#[test]
fn hot_keys_outgrow_their_partitions_and_every_flight_comes_back_once() {
    let charts = tempfile::tempdir().expect("a directory");
    let dir = charts.path().to_str().expect("UTF-8");
    let demo = ["demo", "--json", "--partition-wcu", PARTITION_WCU, "--load", "4"];
    let rest = ["--steady-secs", "2", "--chart-dir", dir];
    let output = common::dynashard(&[&demo[..], &rest].concat()).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let summary = serde_json::from_slice::<Value>(&output.stdout).expect("a line of JSON");
    assert_eq!(
        (&summary["ok"], &summary["differences"]),
        (&Value::from(true), &Value::from([0; 0]))
    );

    // The busiest key is offered four times what a partition takes.
    let shards = summary["growth"]["EWR"].as_array().expect("its growth").iter();
    let shards = shards.map(|step| step["shards"].as_u64()).collect::<Vec<_>>();
    assert!(shards.starts_with(&[Some(1), Some(2), Some(4)]), "{shards:?}");
    let hot = &summary["throttled"]["TableWriteKeyRangeThroughputExceeded"];
    assert!(hot.as_u64() > Some(0), "{summary}");
    for collection in ["EWR", "JFK", "LGA"] {
        let share = summary["steady"]["collections"][collection]["absorbed_share"].as_f64();
        assert!(share >= Some(0.9), "{collection}: {summary}");
    }

    // One request an item reaches the engine, and what was repeated is accounted for.
    let items = summary["items"].as_u64().expect("a count");
    let put_requests = summary["put_requests"].as_u64().expect("a count");
    let repeated = summary["outcome_unknown"].as_u64().expect("a count");
    assert!((items..=items + repeated).contains(&put_requests), "{summary}");
    let stored: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_value(summary["items_per_shard"].clone()).expect("counts");
    let stored = stored.values().flat_map(BTreeMap::values).sum::<u64>();
    assert!((items..=items + repeated).contains(&stored), "{summary}");

    let svg = fs::read_to_string(charts.path().join("demo.svg")).expect("a chart");
    assert!(svg.contains("throttled by DynamoDB") && svg.contains("settled: measured"), "{svg}");
    let png = fs::read(charts.path().join("demo.png")).expect("a chart");
    assert!(png.starts_with(b"\x89PNG"));
    assert!(stderr.contains("offered") && !stderr.contains('\u{1b}'), "plain lines: {stderr}");
}

#[test]
fn a_directory_that_cannot_hold_the_chart_is_said_before_anything_runs() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let dir = file.path().to_str().expect("UTF-8");
    let output = common::dynashard(&["demo", "--chart-dir", dir]).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("choose another --chart-dir"), "{stderr}");
    assert!(!stderr.contains("The stack is up"), "{stderr}");
}
