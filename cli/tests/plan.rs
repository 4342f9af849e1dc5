//! `dynashard plan`: what it says of loads, where its figures come from, and what it refuses.

mod common;

use std::fmt::Write as _;
use std::fs;

use common::{Ran, run, without_account};
use serde_json::{Value, json};
use tempfile::TempDir;

fn plan(args: &[&str]) -> Ran {
    run(without_account(&[&["plan"], args].concat()))
}

/// The plan as JSON, of figures separated by spaces.
fn planned(figures: &str) -> Value {
    let ran = plan(&[&figures.split_whitespace().collect::<Vec<_>>()[..], &["--json"]].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.last()
}

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).expect("it is written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_worked_numbers_of_the_articles_come_out_of_the_command() {
    let now = |reads: u32, writes: u32| {
        let plan = planned(&format!(
            "--reads-per-second {reads} --consistent-reads --writes-per-second {writes} --item-bytes 1024"
        ));
        let each = &plan["now"]["of_a_partition"];
        (plan["now"]["partitions"].clone(), each["read_units"].clone(), each["write_units"].clone())
    };
    assert_eq!(now(1_000, 500), (json!(1), json!(1_000.0), json!(500.0)));
    assert_eq!(now(1_000, 1_000), (json!(2), json!(500.0), json!(500.0)));
    assert_eq!(now(5_000, 2_000), (json!(4), json!(1_250.0), json!(500.0)));

    // A table that has partitions: its reads are raised, one of its partitions is filled, or its writes are lowered.
    let existing = |figures: &str| {
        let now = &planned(&format!("{figures} --consistent-reads"))["now"];
        let units = |of: &str| (now[of]["read_units"].clone(), now[of]["write_units"].clone());
        (now["partitions"].clone(), units("of_a_partition"), units("of_the_smallest_partition"))
    };
    let even = (json!(1_000.0), json!(250.0));
    assert_eq!(
        existing(
            "--partitions 4 --reads-per-second 8000 --writes-per-second 2000 --item-bytes 1024"
        ),
        (json!(8), even.clone(), even)
    );
    let (whole, half) = ((json!(1_250.0), json!(500.0)), (json!(625.0), json!(250.0)));
    assert_eq!(
        existing(
            "--partitions 4 --stored-items 40100000 --reads-per-second 5000 --writes-per-second 2000 --item-bytes 1000"
        ),
        (json!(5), whole, half)
    );
    let nine =
        existing("--partitions 8 --stored-items 80100000 --writes-per-second 1 --item-bytes 1000");
    assert_eq!(nine.0, 9);
    let (partitions, (_, thin), _) =
        existing("--partitions 11 --writes-per-second 200 --item-bytes 1024");
    assert_eq!(partitions, 11);
    assert!((18.0..=20.0).contains(&thin.as_f64().expect("units")), "{thin}");

    let bulk = |minutes: u32| {
        let figures = "--writes-per-second 200 --item-bytes 1024 --bulk-items 20000000";
        planned(&format!("{figures} --bulk-minutes {minutes}"))["bulk_load"].clone()
    };
    let fast = bulk(30);
    assert_eq!(
        (&fast["rounded_write_units_per_second"], &fast["rounded_partitions"]),
        (&json!(11_000), &json!(11))
    );
    assert_eq!(
        (&fast["write_units_per_second"], &fast["partitions"]),
        (&json!(11_112), &json!(12))
    );
    let thin = fast["then_of_a_rounded_partition"].as_f64().expect("units");
    assert!((18.0..=20.0).contains(&thin), "{fast}");
    let slow = bulk(180);
    assert_eq!(
        (&slow["rounded_write_units_per_second"], &slow["rounded_partitions"]),
        (&json!(1_900), &json!(2))
    );

    let shards = planned("--writes-per-second 5000 --item-bytes 1024");
    assert_eq!(shards["now"]["shards_by_simple_formula"], 5);
    assert_eq!(
        (&shards["advice"]["verdict"], &shards["advice"]["shards"]),
        (&json!("shard"), &json!(8))
    );
}

#[test]
fn the_advice_follows_the_load() {
    let advice = |figures: &str| planned(&format!("--item-bytes 1024 {figures}"))["advice"].clone();
    let verdict = |figures: &str| advice(figures)["verdict"].clone();
    assert_eq!(verdict("--writes-per-second 700"), "do_not_shard");
    assert_eq!(verdict("--writes-per-second 701"), "shard");
    assert_eq!(verdict("--writes-per-second 500 --growth-per-month 0.1"), "shard_later");
    assert_eq!(verdict("--writes-per-second 9000 --hot-key-share 0.01"), "do_not_shard");
    assert_eq!(verdict("--writes-per-second 3000 --hot-item-share 0.5"), "split_item");

    let placement =
        |figures: &str| advice(&format!("--writes-per-second 6000 {figures}"))["placement"].clone();
    assert_eq!(placement(""), "xxh64");
    assert_eq!(placement("--append-only"), "random");
    assert_eq!(
        placement("--append-only --hot-item-share 0.01"),
        "xxh64",
        "an item is written again"
    );
    let planned = |figures: &str| planned(&format!("--item-bytes 1024 {figures}"));
    let reshard = |figures: &str| planned(figures)["reshard"].clone();
    assert!(reshard("--writes-per-second 500 --growth-per-month 0.1").is_object());
    // The past of a log stays where it is.
    let log = planned("--writes-per-second 500 --growth-per-month 0.1");
    let items = |field: &str| log[field]["items"].as_f64().expect("a figure");
    assert!(items("reshard_behind") * 1_000.0 < items("reshard"), "{log}");
    let any = planned("--writes-per-second 500 --growth-per-month 0.1 --sort-keys-grow false");
    assert_eq!(any["reshard_behind"], Value::Null, "all of it moves");
    let random = reshard("--writes-per-second 500 --append-only --growth-per-month 0.1");
    assert_eq!(random, Value::Null, "growing moves nothing under random");
    assert_eq!(placement("--reads-per-second 1"), "xxh64");
    // Nine shards, which xxh64 makes sixteen, of which each query reads all.
    assert_eq!(placement("--reads-per-second 1 --queries-per-second 9"), "jump");
    let large = advice("--writes-per-second 200000 --reads-per-second 1");
    assert_eq!(
        large["settings"],
        json!([
            {"parameter": "MaxShards", "value": "1024"},
            {"parameter": "WarmWriteUnits", "value": "200000"},
            {"parameter": "WarmReadUnits", "value": "12000"},
        ])
    );
}

fn reasons(figures: &str) -> String {
    let advice = planned(figures)["advice"].clone();
    let reasons = advice["reasons"].as_array().expect("reasons").iter();
    reasons.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// An item that was to be too hot in a year hid that its key needed eight shards now, and one that fills a shard alone was
/// given three more.
#[test]
fn regression_the_hottest_item_was_weighed_alone() {
    let later = "--writes-per-second 500 --item-bytes 900 --peak-ratio 10 --hot-item-share 0.1 --growth-per-month 0.07";
    assert_eq!(planned(later)["advice"]["verdict"], "shard");
    assert!(reasons(later).contains("One item is asked for"), "{}", reasons(later));
    let filling = "--writes-per-second 2000 --item-bytes 900 --hot-item-share 0.45";
    assert_eq!(planned(filling)["advice"]["verdict"], "split_item");
}

/// The example of the help was told of a cache that strongly consistent reads do not see.
#[test]
fn regression_a_cache_was_advised_for_reads_that_see_none() {
    let figures = "--writes-per-second 2000 --reads-per-second 9000 --item-bytes 900";
    assert!(reasons(figures).contains("ItemCacheSecs"));
    assert!(!reasons(&format!("{figures} --consistent-reads")).contains("ItemCacheSecs"));
}

/// What is stored with an item makes a second write unit of its last bytes.
#[test]
fn regression_what_is_stored_with_an_item_was_not_reckoned_with() {
    let figures = |bytes: u32| format!("--writes-per-second 5000 --item-bytes {bytes}");
    assert!(reasons(&figures(1_015)).contains("--item-bytes 1045"));
    assert!(!reasons(&figures(900)).contains("bytes with each item"));
}

/// A count that no collection can have was advised, and one above `MaxShards` without it.
#[test]
fn regression_a_bulk_load_was_given_shards_that_a_collection_cannot_have() {
    let load = |items: u64, minutes: u32| {
        format!(
            "--writes-per-second 800 --item-bytes 900 --bulk-items {items} --bulk-minutes {minutes}"
        )
    };
    let large = load(1_000_000_000, 60);
    assert!(reasons(&large).contains("which 512 shards give"));
    let settings = planned(&large)["advice"]["settings"].clone();
    assert_eq!(settings[0], json!({ "parameter": "MaxShards", "value": "1024" }));
    let none = reasons(&load(10_000_000_000, 1));
    assert!(none.contains("more than any number of shards gives"), "{none}");
}

/// Of a page of one large item each shard was taken to read a part of it.
#[test]
fn regression_a_query_read_less_than_an_item_of_each_shard() {
    let figures =
        "--writes-per-second 375 --item-bytes 16384 --queries-per-second 1500 --items-per-query 1";
    let reads = reasons(figures);
    assert!(reads.contains("No number of shards carries the queries"), "{reads}");
}

/// Shards share what the table takes, and no plan said how much that has to be.
#[test]
fn regression_a_new_table_was_taken_for_one_that_takes_any_load() {
    let table = |figures: &str| planned(&format!("--item-bytes 1024 {figures}"))["table"].clone();
    let units = |reads: f64, writes: f64| json!({ "read_units": reads, "write_units": writes });
    let (new, quota) = (units(12_000.0, 4_000.0), units(40_000.0, 40_000.0));
    assert_eq!(table("--writes-per-second 4000"), json!({ "warm": new, "quota": quota }));
    assert_eq!(
        table("--writes-per-second 2000.5 --peak-ratio 3 --hot-key-share 0.1"),
        json!({ "warm": units(12_000.0, 6_002.0), "quota": quota }),
        "many keys have one table"
    );
    let grown = "--reads-per-second 1 --writes-per-second 4000 --growth-per-month 1 --months 4";
    assert_eq!(table(grown), json!({ "warm": new, "quota": units(40_000.0, 64_000.0) }));
    let loaded = table("--writes-per-second 1 --bulk-items 20000000 --bulk-minutes 5");
    assert_eq!(loaded["warm"]["write_units"], 66_667.0, "the load comes at the beginning");
    assert_eq!(loaded["quota"]["write_units"], 66_667.0);

    let says = |figures: &str| {
        let figures = format!("--item-bytes 1024 {figures}");
        plan(&figures.split_whitespace().collect::<Vec<_>>()).stdout
    };
    let enough = says("--writes-per-second 100");
    for part in ["4,000 / 12,000", "a new table takes", "AWS allows by default"] {
        assert!(enough.contains(part), "{enough}");
    }
    let more = says("--writes-per-second 50000");
    for part in ["Set WarmWriteUnits=50000.", "50,000 / 12,000", "Table quota: 50,000 / 40,000"] {
        assert!(more.contains(part), "{more}");
    }
}

#[test]
fn read_replicas_are_paid_for() {
    let figures = "--writes-per-second 100 --item-bytes 1024 --months 1";
    let of = |more: &str| planned(&format!("{figures} {more}"))["later"]["cost"].clone();
    let (alone, two) = (of(""), of("--read-replicas 2"));
    let usd = |cost: &Value, name: &str| cost[name].as_f64().expect("dollars");
    for name in ["on_demand_usd", "storage_usd"] {
        let times = usd(&two, name) / usd(&alone, name);
        assert!((times - 3.0).abs() < 1e-9, "{name}: {times} times");
    }
    let more = usd(&two, "replicas_usd");
    let figures = format!("{figures} --read-replicas 2");
    let said = plan(&figures.split_whitespace().collect::<Vec<_>>()).stdout;
    assert!(more > 0.0 && said.contains("Read replicas: 2 take $"), "{said}");
}

#[test]
fn regression_queries_that_no_number_of_shards_carries_were_given_one() {
    let flood = "--queries-per-second 10000 --items-per-query 1 --item-bytes 100";
    let advice = planned(flood)["advice"].clone();
    assert_eq!(advice["verdict"], "cache_queries", "{advice}");
    let advice = planned(&format!("{flood} --writes-per-second 900"))["advice"].clone();
    assert_eq!(advice["verdict"], "shard", "{advice}");
    let reasons = advice["reasons"].as_array().expect("reasons").iter();
    let mut reasons = reasons.filter_map(Value::as_str);
    assert!(reasons.any(|reason| reason.contains("No number of shards carries")), "{advice}");
}

#[test]
fn regression_a_burst_carried_reads_that_no_partition_gives() {
    let figures = "--item-bytes 1000 --months 1 --retention-days 1 --consistent-reads --writes-per-second 500";
    let burst = |reads: u32| {
        planned(&format!("{figures} --reads-per-second {reads}"))["burst_seconds"].clone()
    };
    assert_eq!(burst(6_000), Value::Null);
    assert!(burst(2_000).is_number(), "of two partitions, which have half of the reads each");
}

#[test]
fn regression_the_item_of_a_later_month_was_said_to_be_too_hot_now() {
    let reason = |figures: &str| {
        let plan = planned(&format!("--item-bytes 1000 --hot-item-share 0.5 {figures}"));
        plan["advice"]["reasons"][0].as_str().expect("a reason").to_owned()
    };
    assert!(reason("--writes-per-second 3000").contains("1,500 write units a second now"));
    let later = reason("--writes-per-second 200 --growth-per-month 0.3");
    assert!(later.contains("in month 12"), "{later}");
}

#[test]
fn figures_come_from_flags_before_a_file_and_from_that_before_a_sample() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut rows = "at,day,id\n".to_owned();
    for row in 0..600 {
        // Ten a second, but a hundred in the last one; every second row is of one day.
        let second = if row < 500 { row / 10 } else { 50 };
        let day = if row % 2 == 0 { 0 } else { 1 + row % 7 };
        writeln!(rows, "{},2014-07-0{day},{row}", 1_800_000_000 + second).expect("text");
    }
    let sample = file(&directory, "orders.csv", &rows);
    let fields = r#"{"item_bytes": 700, "months": 3, "peak_ratio": 2}"#;
    let workload = file(&directory, "load.json", fields);
    let args =
        ["--sample", &sample, "--pk-column", "day", "--sk-column", "id", "--time-column", "at"];
    let ran = plan(&[&args[..], &["--workload", &workload, "--months", "2", "--json"]].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    let load = &ran.last()["workload"];
    let is_near = |name: &str, expected: f64| {
        let figure = load[name].as_f64().expect("a figure");
        assert!((figure - expected).abs() < 1e-9, "{name} is {figure}");
    };
    is_near("writes_per_second", 600.0 / 51.0);
    is_near("hot_key_share", 0.5);
    is_near("hot_item_share", 0.0);
    is_near("peak_ratio", 2.0);
    assert_eq!((&load["item_bytes"], &load["months"]), (&json!(700), &json!(2)));
    let ran = plan(&[&args[..], &["--item-bytes", "700", "--json"]].concat());
    let measured = ran.last()["workload"]["peak_ratio"].as_f64().expect("a ratio");
    assert!((measured - 100.0 / (600.0 / 51.0)).abs() < 1e-9, "{measured}");
}

/// Each reads every shard, and they were counted for the table alone.
#[test]
fn regression_queries_of_the_hottest_key_were_no_load_of_it() {
    let plan = planned("--queries-per-second 1000 --item-bytes 1500");
    assert_eq!(plan["advice"]["verdict"], "shard", "{plan}");
    let of_key = plan["now"]["hottest_key"]["read_units"].as_f64().expect("units");
    let shards = plan["now"]["shards_with_head_room"].as_f64().expect("shards");
    assert!(of_key > 18_500.0 && of_key / shards <= 2_100.0, "{plan}");
}

/// A key that comes all at once has few rows in all, and was not the hottest one.
#[test]
fn regression_a_key_that_bursts_was_taken_for_a_cold_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let calm = (0..6_000).map(|row| format!("{},calm{}\n", 1_700_000_000 + row / 3, row % 3));
    let burst = (0..1_500).map(|_| "1700001000,burst\n".to_owned());
    let rows = calm.chain(burst).collect::<String>();
    let sample = file(&directory, "burst.csv", &format!("time,pk\n{rows}"));
    let ran = plan(&["--sample", &sample, "--item-bytes", "1000", "--json"]);
    let plan = ran.last();
    assert_eq!(plan["advice"]["verdict"], "shard", "{plan}");
    let units = plan["now"]["hottest_key"]["write_units"].as_f64().expect("units");
    assert!((units - 1_500.0).abs() < 1e-6, "{plan}");
}

#[test]
fn regression_milliseconds_were_taken_for_seconds() {
    let directory = tempfile::tempdir().expect("a directory");
    let sample = file(&directory, "millis.csv", "time,pk\n1700000000000,a\n1700000000999,a\n");
    let ran = plan(&["--sample", &sample, "--item-bytes", "1000"]);
    assert!(ran.status == 2 && ran.stdout.is_empty(), "{ran:?}");
    assert!(ran.stderr.contains("epoch seconds"), "{ran:?}");
}

/// Days without their signs were seconds of August 1970.
#[test]
fn regression_figures_that_no_clock_has_were_taken_for_epoch_seconds() {
    let directory = tempfile::tempdir().expect("a directory");
    for times in ["20130101,20130102", "2013010110,2013010111", "201301011030,201301011031", "0,1"]
    {
        let (one, other) = times.split_once(',').expect("two");
        let sample = file(&directory, "days.csv", &format!("time,pk\n{one},a\n{other},a\n"));
        let ran = plan(&["--sample", &sample, "--item-bytes", "1000"]);
        assert!(ran.status == 2 && ran.stdout.is_empty(), "{times}: {ran:?}");
        assert!(ran.stderr.contains("of 2001 to 2033"), "{times}: {ran:?}");
    }
    let sample = file(&directory, "seconds.csv", "time,pk\n1356998400,a\n1356998401,a\n");
    let ran = plan(&["--sample", &sample, "--item-bytes", "1000"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("2013-01-01T00:00:00Z"), "it says what it understood: {ran:?}");
}

/// The rows behind a mark that is not closed lay in one field.
#[test]
fn regression_a_sample_that_is_no_csv_was_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let text =
        "time,pk\n1356998400,\"5 inch\n1356998401,ok\n1356998402,\"7 inch\n1356998403,fine\n";
    let sample = file(&directory, "rows.csv", text);
    let ran = plan(&["--sample", &sample, "--item-bytes", "1000", "--skip-bad"]);
    assert!(ran.status == 2 && ran.stdout.is_empty(), "{ran:?}");
    assert!(ran.stderr.contains("line 4: text follows the closing quotation mark"), "{ran:?}");
}

#[test]
fn regression_a_plan_that_could_not_be_written_was_a_success() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is of Linux");
    let mut command =
        without_account(&["plan", "--writes-per-second", "5", "--item-bytes", "1000"]);
    let ended = command.stdout(full).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8(ended.stderr).expect("UTF-8");
    assert!(told.starts_with("dynashard: output_failed: stdout"), "{told}");
}

#[test]
fn bad_input_is_named_and_nothing_of_a_plan_is_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let unknown = file(&directory, "unknown.json", r#"{"writes_per_sec": 5, "item_bytes": 1}"#);
    let broken = file(&directory, "broken.json", "{");
    let prices = r#"{"region": "x", "date": "y", "currency": "USD", "prices": {}}"#;
    let prices = file(&directory, "prices.json", prices);
    let of_one_byte = |figures: &str| format!("--item-bytes 1 {figures}");
    for (args, code, says) in [
        ("--writes-per-second 5", "bad_parameter", "--item-bytes is missing"),
        ("--item-bytes 1024", "bad_parameter", "--writes-per-second has to be above 0"),
        (
            "--writes-per-second 5 --item-bytes 0",
            "bad_parameter",
            "--item-bytes has to be from 1 to 409,600",
        ),
        (&of_one_byte("--writes-per-second -5"), "bad_parameter", "--writes-per-second has to be"),
        (&of_one_byte("--writes-per-second 0"), "bad_parameter", "--writes-per-second has to be"),
        (
            &of_one_byte("--writes-per-second 1e30"),
            "bad_parameter",
            "--writes-per-second has to be",
        ),
        (
            "--writes-per-second 1e7 --item-bytes 409600",
            "bad_parameter",
            "--hot-key-share has to be",
        ),
        (&format!("--workload {unknown}"), "bad_parameter", "writes_per_sec"),
        (&format!("--workload {broken}"), "input_failed", "broken.json"),
        ("--workload nowhere.json", "input_failed", "nowhere.json"),
        (&format!("--prices {prices}"), "input_failed", "dynamodb_write_units"),
        ("--chart plan.png", "bad_parameter", ".svg"),
    ] {
        let args = args.split(' ').collect::<Vec<_>>();
        let ran = plan(&[&args[..], &["--json"]].concat());
        let failed = ran.last();
        assert_eq!((ran.status, failed["code"].as_str()), (2, Some(code)), "{ran:?}");
        assert!(failed["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{ran:?}");
        assert_eq!(ran.lines().len(), 1, "{ran:?}");
        let text = plan(&args);
        assert!(
            text.status == 2 && text.stdout.is_empty() && text.stderr.contains(says),
            "{text:?}"
        );
    }
    for figure in ["many", "NaN", "inf"] {
        let ran = plan(&["--writes-per-second", figure]);
        assert!(ran.status == 2 && ran.stderr.contains("invalid value"), "{ran:?}");
    }
}

#[test]
fn broken_rows_of_a_sample_are_named_or_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = "time,pk\n2013-01-01T00:00:00Z,a\nyesterday,a\n2013-01-01T00:00:01Z,\n1356998402,b\n0001-01-01T00:00:00Z,a\n";
    let sample = file(&directory, "rows.csv", rows);
    let args = ["--sample", &sample, "--item-bytes", "100", "--json"];
    let ran = plan(&args);
    assert_eq!(ran.status, 2, "{ran:?}");
    let lines = ran.lines().into_iter().map(|row| (row["event"].clone(), row["line"].clone()));
    let bad = |line: u32| (json!("bad_row"), json!(line));
    // The last one is a time that was never set, and made the peak one of two thousand years.
    assert_eq!(lines.collect::<Vec<_>>(), [bad(3), bad(4), bad(6)]);
    assert!(ran.stderr.contains("yesterday") && ran.stderr.contains("--skip-bad"), "{ran:?}");

    let ran = plan(&[&args[..], &["--skip-bad"]].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("3 rows"), "{ran:?}");
    // Two rows in three seconds.
    assert_eq!(ran.last()["workload"]["writes_per_second"], 2.0 / 3.0);

    let unknown = plan(&[&args[..], &["--time-column", "at"]].concat());
    assert_eq!((unknown.status, unknown.last()["code"].as_str()), (2, Some("input_failed")));
    assert!(unknown.stderr.contains("no column \"at\""), "{unknown:?}");
    assert!(unknown.stderr.contains("--time-column names another"), "{unknown:?}");
    let empty = plan(&["--sample", &file(&directory, "empty.csv", ""), "--item-bytes", "100"]);
    assert!(empty.status == 2 && empty.stderr.contains("it is empty"), "{empty:?}");
}

/// It was advised not to shard a key into which 11,112 units a second were to be loaded.
#[test]
fn regression_a_bulk_load_of_one_key_was_passed_over() {
    let bulk = ["--bulk-items", "20000000", "--bulk-minutes", "30", "--json"];
    let load = ["--writes-per-second", "200", "--item-bytes", "1024", "--retention-days", "30"];
    let ran = plan(&[&load[..], &bulk].concat());
    let reasons = ran.last()["advice"]["reasons"].to_string();
    assert!(reasons.contains("11,112 write units a second, which 16 shards give"), "{reasons}");
    let spread = plan(&[&load[..], &["--hot-key-share", "0.01"], &bulk].concat());
    assert!(!spread.last()["advice"]["reasons"].to_string().contains("bulk"), "{spread:?}");
}

/// The other hot keys are queried as the hottest is, and nobody paid for that.
#[test]
fn regression_queries_of_the_other_hot_keys_were_left_out() {
    let read_units = |keys: &str| {
        let load = ["--writes-per-second", "100", "--item-bytes", "1024", "--queries-per-second"];
        let keys = ["40", "--hot-key-share", "0.2", "--hot-keys", keys, "--json"];
        let ran = plan(&[&load[..], &keys].concat());
        ran.last()["now"]["average"]["read_units"].as_f64().expect("a figure")
    };
    let (one, five) = (read_units("1"), read_units("5"));
    assert!((five / one - 5.0).abs() < 1e-9, "{five} and {one}");
}

/// A quotient a little above one had a shard more, or three.
#[test]
fn regression_head_room_that_was_exact_took_more_shards() {
    for (writes, shards) in [("69300", 99), ("86100", 123), ("147000", 210)] {
        let load =
            ["--append-only", "--item-bytes", "1024", "--writes-per-second", writes, "--json"];
        assert_eq!(plan(&load).last()["now"]["shards"], shards, "{writes} a second");
    }
}

/// A block of docs/PLANNING.md begins with its command, and what the command prints follows.
#[test]
fn what_the_page_shows_is_what_the_command_prints() {
    let page = fs::read_to_string(common::checkout().join("docs/PLANNING.md")).expect("the page");
    let blocks = page.split("```text\n$ dynashard plan ").skip(1);
    let mut shown = 0;
    for block in blocks {
        let (command, rest) = block.split_once('\n').expect("a command");
        let (expected, _) = rest.split_once("```").expect("its end");
        let ran = plan(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.stdout, expected, "dynashard plan {command}");
        shown += 1;
    }
    assert!(shown >= 2, "{shown}");
}

/// Set `DYNASHARD_UPDATE_DOCS` to write the chart of docs/PLANNING.md.
#[test]
fn the_chart_of_the_page_is_the_one_that_the_command_draws() {
    let directory = tempfile::tempdir().expect("a directory");
    let drawn = directory.path().join("plan.svg");
    let path = drawn.to_str().expect("UTF-8");
    let ran = plan(&[
        "--writes-per-second",
        "300",
        "--reads-per-second",
        "900",
        "--queries-per-second",
        "40",
        "--item-bytes",
        "1500",
        "--peak-ratio",
        "5",
        "--hot-key-share",
        "0.6",
        "--growth-per-month",
        "0.1",
        "--retention-days",
        "90",
        "--chart",
        path,
    ]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let page = common::checkout().join("docs/plan.svg");
    if std::env::var_os("DYNASHARD_UPDATE_DOCS").is_some() {
        fs::copy(&drawn, &page).expect("it is copied");
    }
    let svg = fs::read_to_string(drawn).expect("a chart");
    assert!(svg.contains("8 shards") && svg.contains("write units a second"), "{svg}");
    assert_eq!(svg, fs::read_to_string(page).expect("the page's chart"));
}
