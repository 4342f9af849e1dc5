//! `dynashard keys`, on keys and on samples in files.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use common::{Ran, run, without_account};
use serde_json::{Value, json};
use tempfile::TempDir;

fn keys(args: &[&str]) -> Ran {
    run(without_account(&[&["keys"], args].concat()))
}

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).expect("it is written");
    path.to_str().expect("UTF-8").to_owned()
}

/// The flights of the demo, from their file.
fn flights() -> String {
    let data = common::checkout().join("data");
    let entries =
        fs::read_dir(data).expect("the data").map(|entry| entry.expect("an entry").path());
    let is_csv = |path: &std::path::PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".csv") || name.ends_with(".csv.gz")
    };
    let found = entries.filter(is_csv).collect::<Vec<_>>();
    found[0].to_str().expect("UTF-8").to_owned()
}

/// Orders of three days, the third of which is busy. Their ids ascend.
fn orders() -> String {
    orders_of(|number| if number < 100 { 7 } else { 8 + u32::from(number >= 200) })
}

fn orders_of(day: impl Fn(u32) -> u32) -> String {
    let mut text = "day,order_id,customer\n".to_owned();
    for number in 0..1_000 {
        let day = day(number);
        writeln!(text, "2014-07-{day:02},A{number:06},c{}", number % 250).expect("text");
    }
    text
}

#[test]
fn locate_shows_each_rule_and_decode_reads_it_back() {
    let ran = keys(&["locate", "--pk", "user.v1.User:abc", "--sk", "123", "--json"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let physical = |rule: &str| {
        let line = ran.lines().into_iter().find(|line| line["rule"] == rule).expect("its line");
        (line["shard"].clone(), line["physical"].clone())
    };
    assert_eq!(physical("xxh64"), (json!(11), json!("user.v1.User:abc#~11")));
    assert_eq!(physical("xxh64-suffix"), (json!(11), json!("user.v1.User:abc:11")));
    assert_eq!(physical("random"), (Value::Null, Value::Null));
    assert_eq!(ran.lines().len(), 7);

    let item =
        ["locate", "--pk", "/shared/firetvGen2.txt", "--sk", "123456789101", "--shards", "10"];
    let ran = keys(&[&item[..], &["--rule", "md5"]].concat());
    assert!(ran.stdout.contains(" 5  /shared/firetvGen2.txt_5\n"), "{ran:?}");
    let ran = keys(&[&item[..], &["--rule", "md5", "--prefix", "--separator", "-"]].concat());
    assert!(ran.stdout.contains("5-/shared/firetvGen2.txt\n"), "{ran:?}");
    let ran = keys(&[&item[..], &["--rule", "xxh64", "--json"]].concat());
    assert_eq!(ran.last()["shards"], 16, "rounded up");

    let ran = keys(&["decode", "user.v1.User:abc:11", "--separator", ":", "--json"]);
    let expected =
        json!({"form": "suffix", "separator": ":", "pk": "user.v1.User:abc", "shard": 11});
    assert!(ran.lines().contains(&expected), "{ran:?}");
    let ran = keys(&["decode", "EWR#~11", "--json"]);
    let expected = json!({"form": "dynashard", "separator": "#~", "pk": "EWR", "shard": 11});
    assert_eq!(ran.lines()[0], expected);
    let ran = keys(&["decode", "EWR", "--json"]);
    assert_eq!(
        ran.lines(),
        [json!({"form": "dynashard", "separator": "#~", "pk": "EWR", "shard": null})]
    );
}

#[test]
fn keys_that_dynamodb_refuses_have_an_error_with_a_code() {
    for args in [
        &["locate", "--pk", "a", "--sk", ""][..],
        &["locate", "--pk", "a", "--sk", "x", "--sk-type", "N"],
        &["decode", "a#01", "--separator", "#"],
        &["decode", ""],
    ] {
        let ran = keys(&[args, &["--json"]].concat());
        assert_eq!((ran.status, ran.last()["code"].as_str()), (2, Some("bad_key")), "{ran:?}");
    }
    for args in [
        &["locate", "--pk", "", "--sk", "a"][..],
        &["locate", "--pk", "a", "--sk", "a", "--shards", "0"],
        &["locate", "--pk", "a", "--sk", "a", "--shards", "65537"],
        &["locate", "--pk", "a", "--sk", "a", "--separator", "/"],
        &["locate", "--pk", "a", "--sk", "a", "--rule", "sha"],
    ] {
        let ran = keys(args);
        assert!(ran.status == 2 && ran.stderr.contains("invalid value"), "{ran:?}");
    }
}

/// The collection that ends in a separator and digits has a suffix in its first shard, too.
#[test]
fn regression_a_first_shard_with_a_suffix_was_not_read_back() {
    let located = keys(&[
        "locate",
        "--pk",
        "USER#123",
        "--sk",
        "a",
        "--shards",
        "1",
        "--separator",
        "#",
        "--json",
    ]);
    let physical = located.lines()[0]["physical"].clone();
    assert_eq!(physical, "USER#123#0", "{located:?}");
    let decoded = keys(&["decode", "USER#123#0", "--separator", "#", "--json"]);
    let first = decoded.lines()[0].clone();
    assert_eq!(
        (decoded.status, &first["form"], &first["pk"]),
        (0, &json!("dynashard"), &json!("USER#123")),
        "{decoded:?}"
    );
}

#[test]
fn regression_a_name_in_a_sample_told_the_terminal_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "red.csv", "pk,\u{1b}[31mred\na,1\nb,2\n\u{1b}]0;title\u{7},2\n");
    for args in [&["advise", &sample][..], &["histogram", &sample, "--sk-column", "\u{1b}[31mred"]]
    {
        let ran = keys(args);
        assert_eq!(ran.status, 0, "{ran:?}");
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!printed.contains(['\u{1b}', '\u{7}']), "{printed:?}");
    }
}

#[test]
fn regression_figures_were_printed_before_their_chart_could_not_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders());
    let columns =
        ["--pk-column", "day", "--sk-column", "order_id", "--chart", "no-such-folder/shards.svg"];
    let ran = keys(&[&["histogram", &sample], &columns[..]].concat());
    assert!(ran.status == 1 && ran.stdout.is_empty(), "{ran:?}");
    assert!(
        ran.stderr.contains("output_failed") && ran.stderr.contains("no-such-folder"),
        "{ran:?}"
    );
}

#[test]
fn regression_a_sort_column_that_was_misspelt_was_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders());
    let ran = keys(&["advise", &sample, "--pk-column", "day", "--sk-column", "order", "--json"]);
    assert_eq!((ran.status, ran.last()["code"].as_str()), (2, Some("input_failed")), "{ran:?}");
    assert!(
        ran.stderr.contains("no column \"order\"")
            || ran.last()["detail"].to_string().contains("no column"),
        "{ran:?}"
    );
}

#[test]
fn a_histogram_tells_a_fair_rule_from_a_skewed_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders_of(|_| 7));
    let columns = [sample.as_str(), "--pk-column", "day", "--sk-column", "order_id", "--json"];
    let of = |rule: &str| keys(&[&["histogram"], &columns[..], &["--rule", rule]].concat());
    for rule in ["xxh64", "jump", "md5", "xxh64-suffix"] {
        let ran = of(rule);
        let report = ran.last();
        assert_eq!(
            (ran.status, &report["rows"], &report["items"]),
            (0, &json!(1_000), &json!(1_000))
        );
        let p = report["evenness"]["p_value"].as_f64().expect("p");
        assert!(p > 0.001, "{rule}: {report}");
        let counts = report["counts"].as_array().expect("counts");
        assert_eq!(counts.iter().map(|n| n.as_u64().expect("n")).sum::<u64>(), 1_000);
    }
    let report = of("code-points").last();
    assert!(report["evenness"]["p_value"].as_f64().expect("p") < 1e-9, "{report}");
    assert!(report["busiest"].as_f64().expect("a factor") > 4.0, "{report}");
    assert_eq!(report["first_shard"], 1);
    let random = of("random");
    assert_eq!((random.status, random.last()["code"].as_str()), (2, Some("bad_parameter")));
}

/// Shard n of one key and shard n of another are different partitions.
#[test]
fn regression_a_histogram_added_up_the_shards_of_different_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders());
    let columns = ["histogram", &sample, "--pk-column", "day", "--sk-column", "order_id"];
    let report = keys(&[&columns[..], &["--json"]].concat()).last();
    let of = |name: &str| report[name].clone();
    assert_eq!((of("pk"), of("keys"), of("rows")), (json!("2014-07-09"), json!(3), json!(800)));
    let ran = keys(&columns);
    assert!(ran.stdout.starts_with("the partition key \"2014-07-09\", one of 3; --pk"), "{ran:?}");
}

#[test]
fn a_histogram_is_drawn_in_the_terminal_and_as_a_chart() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders());
    let chart = directory.path().join("shards.svg");
    let chart = chart.to_str().expect("UTF-8");
    let histogram = ["histogram", &sample, "--pk-column", "day", "--sk-column", "order_id"];
    let ran =
        keys(&[&histogram[..], &["--shards", "128", "--rule", "jump", "--chart", chart]].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    // 128 shards in bars of two.
    assert!(ran.stdout.contains('█'), "{ran:?}");
    assert!(ran.stdout.contains("126-127") && ran.stdout.contains("p = "), "{ran:?}");
    let svg = fs::read_to_string(chart).expect("a chart");
    assert_eq!(svg.matches("<rect").count(), 2 + 128, "a bar for each shard, ground and chance");
    assert!(svg.contains("chance would have it") && svg.contains("mean 6.2"), "{svg}");

    let one_day = keys(&[&histogram[..], &["--pk", "2014-07-07", "--json"]].concat());
    assert_eq!(one_day.last()["rows"], 100);
    let no_day = keys(&[&histogram[..], &["--pk", "2014-07-10", "--json"]].concat());
    assert_eq!((no_day.status, no_day.last()["code"].as_str()), (2, Some("input_failed")));
    let png = keys(&[&histogram[..], &["--chart", "shards.png", "--json"]].concat());
    assert_eq!((png.status, png.last()["code"].as_str()), (2, Some("bad_parameter")));
    assert!(!Path::new("shards.png").exists());
}

#[test]
fn bad_rows_are_named_with_their_lines_or_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let csv = file(&directory, "rows.csv", "pk,sk\na,1\n,2\nb\na,3\n");
    let long = "x".repeat(2_001);
    let jsonl = format!(
        "{{\"pk\":\"a\",\"sk\":1}}\nnot json\n{{\"pk\":\"{long}\",\"sk\":2}}\n{{\"pk\":\"a\",\"sk\":\"3\"}}\n"
    );
    let jsonl = file(&directory, "rows.jsonl", &jsonl);
    for (sample, lines) in [(csv.as_str(), [3, 4]), (jsonl.as_str(), [2, 3])] {
        for command in ["histogram", "advise"] {
            let ran = keys(&[command, sample, "--json"]);
            assert_eq!(ran.status, 2, "{ran:?}");
            let bad = ran.events("bad_row");
            let found =
                bad.iter().map(|row| row["line"].as_u64().expect("a line")).collect::<Vec<_>>();
            assert_eq!(found, lines, "{ran:?}");
            assert!(bad.iter().all(|row| !row["reason"].as_str().expect("a reason").is_empty()));
            assert!(ran.stderr.contains("2 of 4 rows cannot be read; --skip-bad"), "{ran:?}");

            let ran = keys(&[command, sample, "--json", "--skip-bad"]);
            assert_eq!(
                (ran.status, &ran.last()["bad_rows"], &ran.last()["rows"]),
                (0, &json!(2), &json!(2))
            );
        }
    }
    for (name, text) in
        [("empty.csv", "pk,sk\n"), ("keys.txt", "pk,sk\na,1\n"), ("other.csv", "a,b\n1,2\n")]
    {
        let sample = file(&directory, name, text);
        let ran = keys(&["histogram", &sample, "--json"]);
        assert_eq!(
            (ran.status, ran.last()["code"].as_str()),
            (2, Some("input_failed")),
            "{name}: {ran:?}"
        );
    }
    let ran = keys(&["histogram", "no-such-file.csv", "--json"]);
    assert_eq!((ran.status, ran.last()["code"].as_str()), (2, Some("input_failed")), "{ran:?}");
}

#[test]
fn advise_judges_a_key_as_the_articles_do_and_measures_better_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "orders.csv", &orders());
    let of = |args: &[&str]| {
        let ran = keys(&[&["advise", &sample, "--json"], args].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        ran.last()
    };
    let day = ["--pk-column", "day", "--sk-column", "order_id"];
    let report = of(&[&day[..], &["--writes-per-sec", "5000"]].concat());
    assert_eq!(report["partition_key"]["kind"], "rounded-date");
    assert_eq!(report["partition_key"]["uniformity"], "bad");
    assert_eq!(report["partition_key"]["largest_share"], json!(0.8));
    assert_eq!(report["sort_keys"]["is_monotone"], json!(true));
    // 4,000 a second of one day: 4 shards by the formula. None of 4 shards has less than 700 of them, so 8 are needed.
    assert_eq!(report["hot_values"][0]["value"], "2014-07-09");
    assert_eq!(report["hot_values"][0]["write_units_per_sec"], json!(4_000.0));
    assert_eq!(
        (&report["advice"]["do"], &report["advice"]["shards"]),
        (&json!("shard"), &json!(8))
    );
    assert!(report["advice"]["largest_share"].as_f64().expect("a share") * 5_000.0 <= 700.0);
    let candidates = report["candidates"].as_array().expect("candidates");
    let share = |key: &str| {
        let candidate =
            candidates.iter().find(|candidate| candidate["key"] == key).expect("it is measured");
        candidate["largest_share"].as_f64().expect("a share")
    };
    assert!((share("customer") - 0.004).abs() < 1e-9);
    assert!((share("day:customer") - 0.004).abs() < 1e-9);
    let shares = candidates.iter().map(|candidate| candidate["largest_share"].as_f64());
    assert!(shares.is_sorted(), "the best first");

    let report = of(&[&day[..], &["--writes-per-sec", "500"]].concat());
    assert_eq!(report["advice"]["do"], "keep");
    let report = of(&["--pk-column", "customer"]);
    assert_eq!(
        (&report["partition_key"]["kind"], &report["advice"]["do"]),
        (&json!("many-values"), &json!("keep"))
    );
    assert_eq!(report["sort_keys"], Value::Null);
    let text = keys(&[&["advise", sample.as_str()], &day[..]].concat());
    for line in ["bad: a rounded date", "monotone, so new items", "Candidates", "Advice: "] {
        assert!(text.stdout.contains(line), "{line}: {text:?}");
    }
}

/// The data that ships with the project: three airports, of which one would not be enough.
#[test]
fn the_flights_of_the_demo_have_a_bad_partition_key() {
    let ran = keys(&["advise", &flights(), "--pk-column", "origin", "--json", "--skip-bad"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(ran.last()["partition_key"]["kind"], "few-values");
    assert_eq!(ran.last()["partition_key"]["distinct"], 3);
}

#[test]
fn regression_the_few_rows_of_a_sample_were_taken_for_hot_items() {
    let directory = tempfile::tempdir().expect("a directory");
    let advice = |rows: &str, args: &[&str]| {
        let sample = file(&directory, "sample.csv", rows);
        let ran = keys(&[&["advise", &sample, "--json"], args].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        ran.last()["advice"].clone()
    };
    // Twenty items of one key, none of them twice: 30,000 writes a second take 43 shards at 70%.
    let rows = (0..20).fold("pk,sk\n".to_owned(), |rows, n| rows + &format!("a,{n}\n"));
    let advised = advice(&rows, &["--writes-per-sec", "30000"]);
    assert_eq!((&advised["do"], &advised["shards"]), (&json!("shard"), &json!(64)), "{advised}");
    assert!(advised["why"].as_str().is_some_and(|why| why.contains("too few rows")), "{advised}");
    // One item has 40% of a thousand rows, and no shards make it less.
    let rows = (0..1_000).fold("pk,sk\n".to_owned(), |rows, n| {
        let item = if n % 5 < 2 { 0 } else { n };
        rows + &format!("a,{item}\n")
    });
    let advised = advice(&rows, &[]);
    assert!(advised["shards"].as_u64().is_some_and(|shards| shards <= 32), "{advised}");
}

#[test]
fn regression_a_random_number_behind_the_key_was_no_rule_of_its_own() {
    let located = |args: &[&str]| {
        let key = ["locate", "--pk", "121212", "--sk", "x", "--shards", "5", "--separator", "-"];
        keys(&[&key, args].concat()).stdout
    };
    assert!(located(&["--rule", "random-suffix"]).contains("121212-1"));
    assert!(located(&["--rule", "random-suffix", "--prefix"]).contains("1-121212"));
    assert_eq!(located(&["--rule", "random"]), located(&["--rule", "random", "--prefix"]));
}
