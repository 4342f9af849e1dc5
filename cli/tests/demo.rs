//! The main job, as the README shows it first, with partitions small enough for any machine.

mod common;

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

const PARTITION_WCU: &str = "25";

/// How long a run may take to settle. On a quiet machine it takes half a minute; on a busy one the demo
/// goes on until it has.
const TIME_LIMIT_SECS: &str = "600";

/// Until when the first growth is in force on a machine that does nothing else.
const QUIET_GROWTH_SECS: f64 = 10.0;

/// Runs the demo on small partitions, with these arguments beside. Returns its summary and what it
/// printed on stderr.
fn demo(charts: &TempDir, args: &[&str]) -> (Value, String) {
    let dir = charts.path().to_str().expect("UTF-8");
    let limits = ["--partition-wcu", PARTITION_WCU, "--time-limit-secs", TIME_LIMIT_SECS];
    let demo = [&["demo", "--json", "--chart-dir", dir], &limits[..]].concat();
    let output = common::dynashard(&[&demo[..], args].concat()).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let summary = serde_json::from_slice::<Value>(&output.stdout).expect("a line of JSON");
    assert_eq!(summary["ok"], true);
    let reads = summary["reads"].as_array().expect("reads");
    assert!(!reads.is_empty() && reads.iter().all(|read| read["differences"] == json!([])));
    for collection in ["EWR", "JFK", "LGA"] {
        let share = summary["steady"]["collections"][collection]["absorbed_share"].as_f64();
        assert!(share >= Some(0.9), "{collection}: {summary}");
    }
    (summary, stderr)
}

fn shards(summary: &Value, collection: &str) -> Vec<Option<u64>> {
    let steps = summary["growth"][collection].as_array().expect("its growth").iter();
    steps.map(|step| step["shards"].as_u64()).collect()
}

/// How many items lie in all shards, by DynamoDB itself.
fn stored(summary: &Value) -> u64 {
    let stored: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_value(summary["items_per_shard"].clone()).expect("counts");
    stored.values().flat_map(BTreeMap::values).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn hot_keys_outgrow_their_partitions_and_every_flight_comes_back_once() {
    let charts = tempfile::tempdir().expect("a directory");
    let (summary, stderr) = demo(&charts, &["--load", "4", "--steady-secs", "20"]);
    assert_eq!(summary["placement"], "xxh64", "the default");

    // The busiest key is offered four times what a partition takes.
    let counts = shards(&summary, "EWR");
    assert!(counts.starts_with(&[Some(1)]) && counts.last() >= Some(&Some(4)), "{counts:?}");
    let hot = &summary["throttled"]["TableWriteKeyRangeThroughputExceeded"];
    assert!(hot.as_u64() > Some(0), "{summary}");
    let first = &summary["reshards"]["EWR"][0];
    assert_eq!(first["from"], json!(1), "{first}");
    let to = first["to"].to_string();
    assert!(number(&first["relief_secs"]) > 0.0, "{first}");

    // The simulation decides alike on partitions alike. It knows neither how long a busy machine takes to start functions
    // nor that the demo then holds back what it offers.
    let share = &summary["absorbed_share"];
    let (measured, simulated) = (number(&share["measured"]), number(&share["simulated"]));
    assert!(measured <= simulated + 0.05, "{share}");
    let is_quiet = number(&summary["growth"]["EWR"][1]["at_secs"]) <= QUIET_GROWTH_SECS;
    assert!(!is_quiet || measured >= simulated - 0.05, "{share}");

    // A put is one request, and what moving costs is accounted for by itself.
    assert_eq!(Some(stored(&summary)), summary["items"].as_u64(), "markers are not items");
    let puts = number(&summary["steady"]["puts_per_item"]);
    assert!((0.8..1.2).contains(&puts), "but for what was under way: {summary}");
    let moving = &summary["moving"];
    let moved = number(&moving["items"]);
    assert!(moved > 0.0, "{summary}");
    let wcu = number(&moving["transactions_wcu"]) + number(&moving["markers_removed_wcu"]);
    // Who moves also removes the markers that writers put meanwhile, one unit each.
    let of_writers = number(&moving["markers_put"]);
    assert!(wcu <= 5.2 * moved + of_writers, "{moving}");

    let svg = fs::read_to_string(charts.path().join("demo.svg")).expect("a chart");
    for words in ["refused tries", "writes/s are absorbed", "moved", &format!("1 → {to}")] {
        assert!(svg.contains(words), "no {words:?} in {svg}");
    }
    let logs = fs::read_to_string(charts.path().join("demo.log")).expect("logs");
    assert!(logs.contains("[WriteFunction]"), "{logs}");
    assert!(!stderr.contains("[WriteFunction]"), "what functions log is in the file: {stderr}");
    for words in ["offered", &format!("move to {to}")] {
        assert!(stderr.contains(words), "no {words:?} in {stderr}");
    }
    assert!(!stderr.contains('\u{1b}'), "plain lines: {stderr}");
}

#[test]
fn under_random_placement_shards_double_and_nothing_moves() {
    let charts = tempfile::tempdir().expect("a directory");
    let random = ["--set", "Placement=random", "--load", "4", "--steady-secs", "2"];
    let (summary, _) = demo(&charts, &random);
    assert_eq!(summary["placement"], "random", "as the parameter has it");
    // Whether it doubles each time is asked of the API, in growth.rs: a busy machine may see every
    // second step only.
    let counts = shards(&summary, "EWR");
    assert!(counts.first() == Some(&Some(1)) && counts.last() >= Some(&Some(4)), "{counts:?}");
    assert!(counts.is_sorted_by(|one, next| one < next), "{counts:?}");
    assert_eq!(
        (&summary["moving"]["items"], &summary["moving"]["transactions"]),
        (&json!(0), &json!(0))
    );

    // One request an item reaches the engine, and what was repeated is accounted for: it may lie in
    // two shards.
    let items = summary["items"].as_u64().expect("a count");
    let repeated = summary["outcome_unknown"].as_u64().expect("a count");
    let put_requests = summary["put_requests"].as_u64().expect("a count");
    assert!((items..=items + repeated).contains(&put_requests), "{summary}");
    assert!((items..=items + repeated).contains(&stored(&summary)), "{summary}");
}

#[test]
fn through_the_endpoint_hot_keys_outgrow_their_partitions_and_every_flight_comes_back_once() {
    let charts = tempfile::tempdir().expect("a directory");
    let (summary, stderr) = demo(&charts, &["--endpoint", "--load", "4", "--steady-secs", "2"]);
    assert_eq!(summary["through"], "endpoint");
    assert!(stderr.contains("through the DynamoDB endpoint: http://127.0.0.1:"), "{stderr}");
    let counts = shards(&summary, "EWR");
    assert!(counts.starts_with(&[Some(1)]) && counts.last() >= Some(&Some(4)), "{counts:?}");
    assert_eq!(Some(stored(&summary)), summary["items"].as_u64(), "markers are not items");
    let logs = fs::read_to_string(charts.path().join("demo.log")).expect("logs");
    let metrics_of_writes = r#""FunctionName":"WriteFunction""#;
    assert!(!logs.contains(metrics_of_writes), "nobody asks the API: {logs}");
}

#[test]
fn a_placement_that_no_endpoint_serves_is_said_before_anything_runs() {
    let charts = tempfile::tempdir().expect("a directory");
    let dir = charts.path().to_str().expect("UTF-8");
    for random in [["--placement", "random"], ["--set", "Placement=random"]] {
        let demo = [&["demo", "--endpoint", "--chart-dir", dir], &random[..]].concat();
        let output = common::dynashard(&demo).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(stderr.contains("choose xxh64 or jump"), "{stderr}");
        assert!(!stderr.contains("The stack is up"), "{stderr}");
    }
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
