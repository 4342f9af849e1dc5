//! `dynashard simulate`: strategies side by side, and what it refuses.

mod common;

use std::fs;

use common::{Ran, checkout, run, without_account};

fn simulate(args: &[&str]) -> Ran {
    run(without_account(&[&["simulate"], args].concat()))
}

#[test]
fn strategies_are_compared_and_a_seed_repeats_them() {
    let args = ["--writes-per-second", "3500", "--seconds", "600", "--json"];
    let ran = simulate(&args);
    assert_eq!(ran.status, 0, "{ran:?}");
    let lines = ran.lines();
    let names = lines.iter().map(|line| line["strategy"].as_str().expect("a name"));
    assert_eq!(names.collect::<Vec<_>>(), ["none", "fixed:8", "one-more", "dynashard", "alarm"]);
    let share = |at: usize| lines[at]["absorbed_share"].as_f64().expect("a share");
    assert!(share(0) < 0.3 && share(1) > 0.999 && share(3) > 0.95, "{ran:?}");
    assert!(share(3) > share(2) && share(3) > share(4) && share(4) > share(0), "{ran:?}");
    assert_eq!(lines[3]["changes"][0]["to"], 8);
    assert_eq!(simulate(&args).stdout, ran.stdout);
    assert_ne!(simulate(&[&args[..], &["--seed", "2"]].concat()).stdout, ran.stdout);
}

#[test]
fn a_scenario_is_read_from_a_file_and_drawn() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (scenario, chart) = (path("ramp.json"), path("ramp.svg"));
    let steps = r#"{"item_bytes": 700, "keys": 3, "zipf": 1.1, "capacity": "on-demand", "steps": [
        {"seconds": 30, "writes_per_second": 200}, {"seconds": 90, "writes_per_second": 2500}]}"#;
    fs::write(&scenario, steps).expect("it is written");
    let ran = simulate(&["--scenario", &scenario, "--strategy", "none,fixed:4", "--chart", &chart]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.contains("fixed:4") && !ran.stdout.contains("one-more"), "{ran:?}");
    let svg = fs::read_to_string(chart).expect("a chart");
    for words in ["offered", "fixed:4 absorbs", "Writes a second", "per million"] {
        assert!(svg.contains(words), "no {words:?}");
    }
}

#[test]
fn writes_that_happened_are_read_from_a_sample() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("orders.csv");
    let path = path.to_str().expect("UTF-8");
    let of_second = |second: u32| {
        (0..1_500).map(move |order| format!("ACME,2026-11-22T10:00:0{second}Z,{order}\n"))
    };
    let rows = (0..3).flat_map(of_second).collect::<String>();
    fs::write(path, format!("customer,at,order\n{rows}Umbrella,2026-11-22T10:00:09Z,1\n"))
        .expect("it is written");
    let sample = ["--sample", path, "--pk-column", "customer", "--time-column", "at"];
    let ran = simulate(&[&sample[..], &["--strategy", "none,fixed:2", "--json"]].concat());
    let lines = ran.lines();
    assert_eq!(lines[0]["offered"], 4_501, "{ran:?}");
    assert!(lines[0]["absorbed"].as_u64() < Some(4_501), "{ran:?}");
    assert_eq!(lines[1]["absorbed"], 4_501, "{ran:?}");

    fs::write(path, "customer,at\nACME,2026-11-22T10:00:00Z\nACME,yesterday\n")
        .expect("it is written");
    let ran = simulate(&sample);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("line 3") && ran.stderr.contains("--skip-bad"), "{ran:?}");
    let ran = simulate(&[&sample[..], &["--skip-bad", "--strategy", "none"]].concat());
    assert!(ran.status == 0 && ran.stderr.contains("1 rows"), "{ran:?}");
}

#[test]
fn who_is_patient_waits_and_items_move_at_a_price() {
    let args =
        ["--writes-per-second", "3000", "--seconds", "120", "--strategy", "dynashard", "--json"];
    let gone = simulate(&args).last();
    let with = |more: &[&str]| simulate(&[&args[..], more].concat()).last();
    let patient = with(&["--patience-seconds", "60"]);
    assert_eq!(patient["absorbed"], patient["offered"], "{patient}");
    assert!(patient["p99_wait_seconds"].as_u64() > Some(0), "{patient}");
    assert_eq!(gone["p99_wait_seconds"], 0, "{gone}");
    let full = with(&["--items", "1000000", "--sort-keys", "random"]);
    assert!(full["moved"].as_u64() > gone["moved"].as_u64(), "{full}");
    assert!(full["usd"].as_f64() > gone["usd"].as_f64(), "{full}");
    let log = with(&["--items", "1000000"]);
    assert!(log["moved"].as_u64() < gone["moved"].as_u64(), "{log}");
}

#[test]
fn what_cannot_be_simulated_is_named_and_nothing_else_is_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("it is written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let unknown = file("unknown.json", r#"{"item_bytes": 1, "steps": [], "rate": 5}"#);
    let empty = file("empty.json", r#"{"item_bytes": 1, "steps": []}"#);
    let rate = ["--writes-per-second", "5"];
    for (args, code, says) in [
        (&["--writes-per-second", "0"][..], "bad_parameter", "write something"),
        (&["--writes-per-second", "-1"], "bad_parameter", "writes_per_second"),
        (&["--writes-per-second", "inf"], "bad_parameter", "writes_per_second"),
        (&["--scenario", &unknown], "input_failed", "rate"),
        (&["--scenario", &empty], "bad_parameter", "steps"),
        (&["--scenario", "nowhere.json"], "input_failed", "nowhere.json"),
        (&[&rate[..], &["--seconds", "0"]].concat(), "bad_parameter", "steps"),
        (&[&rate[..], &["--item-bytes", "0"]].concat(), "bad_parameter", "item_bytes"),
        (&[&rate[..], &["--zipf", "-1"]].concat(), "bad_parameter", "zipf"),
        (&[&rate[..], &["--keys", "1001"]].concat(), "bad_parameter", "keys"),
        (&[&rate[..], &["--patience-seconds", "3601"]].concat(), "bad_parameter", "patience"),
        (&["--sample", "nowhere.csv"], "input_failed", "nowhere.csv"),
        (&[&rate[..], &["--chart", "chart.png"]].concat(), "bad_parameter", ".svg"),
    ] {
        let ran = simulate(&[args, &["--json"]].concat());
        let failed = ran.last();
        assert_eq!((ran.status, failed["code"].as_str()), (2, Some(code)), "{ran:?}");
        assert!(failed["detail"].as_str().is_some_and(|it| it.contains(says)), "{ran:?}");
        assert_eq!(ran.lines().len(), 1, "{ran:?}");
    }
    for args in [
        &[][..],
        &[&rate[..], &["--strategy", "fixed:0"]].concat(),
        &[&rate[..], &["--sort-keys", "falling"]].concat(),
        &[&rate[..], &["--sample", "orders.csv"]].concat(),
        // It was ignored.
        &["--scenario", "load.json", "--times", "2"],
    ] {
        let ran = simulate(args);
        assert!(ran.status == 2 && ran.stdout.is_empty(), "{ran:?}");
    }
}

#[test]
fn what_the_page_shows_is_what_the_command_prints() {
    let page = fs::read_to_string(checkout().join("docs/PLANNING.md")).expect("the page");
    let blocks = page.split("```text\n$ dynashard simulate ").skip(1).collect::<Vec<_>>();
    assert_eq!(blocks.len(), 2, "those that the page had");
    for block in blocks {
        let (command, rest) = block.split_once('\n').expect("a command");
        let (expected, _) = rest.split_once("```").expect("its end");
        assert_eq!(simulate(&command.split(' ').collect::<Vec<_>>()).stdout, expected);
    }
}
