//! The import and the export of whole collections, on tables that the real functions serve.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use common::{LocalStack, Ran, checkout, on, operator_command};
use dynashard_aws::{ServerClock, connect_local};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// T and H in seconds.
const SHORT: [&str; 4] = ["--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2"];

/// T and H for the command, which reads no template.
const SHORT_FLAGS: [&str; 4] = ["--lease-secs", "1", "--request-lifetime-secs", "2"];

/// A directory of a test, and the files in it.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("it writes");
        self.text(name)
    }

    /// The path as an argument.
    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.0.path()).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("UTF-8")
        };
        entries.map(name).collect()
    }
}

/// A stack whose functions have pinned its settings, so that no command has to wait for that.
fn start(args: &[&str]) -> LocalStack {
    let stack = LocalStack::start(args);
    let path = "/item?pk=nothing&sk=1";
    assert_eq!(stack.send("DELETE", path, &[], None).status, 204);
    stack
}

/// Runs an import to its end.
fn import(stack: &LocalStack, args: &[&str]) -> Ran {
    on(stack, &[&["import", "--json"], &SHORT_FLAGS[..], args].concat())
}

fn export(stack: &LocalStack, args: &[&str]) -> Ran {
    on(stack, &[&["export"], &SHORT_FLAGS[..], args].concat())
}

fn begin(stack: &LocalStack, args: &[&str]) -> Child {
    let args = [&["import", "--json"], &SHORT_FLAGS[..], args].concat();
    let mut command = operator_command(stack, &args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

/// Lets an import go on until it has written so many rows, and ends it. Returns its exit status, if it had
/// one.
fn end_after(mut child: Child, rows: u64, signal: Signal) -> Option<i32> {
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    loop {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).expect("stdout"), 0, "it ended by itself");
        let line = serde_json::from_str::<Value>(&line).expect("JSON");
        if line["phase"] == "write" && line["rows"].as_u64() >= Some(rows) {
            break;
        }
    }
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("stdout");
    child.wait().expect("it ends").code()
}

/// How many epochs a collection has.
fn epochs(stack: &LocalStack, pk: &str) -> usize {
    let answer = stack.send("GET", &format!("/collection?pk={pk}"), &[], None);
    answer.json()["epochs"].as_array().map_or(1, Vec::len)
}

fn number(ran: &Ran, name: &str) -> u64 {
    ran.last()[name].as_u64().unwrap_or_else(|| panic!("no {name}: {ran:?}"))
}

fn code(ran: &Ran) -> String {
    let failure = ran.events("error").pop().unwrap_or_else(|| panic!("{ran:?}"));
    failure["code"].as_str().expect("a code").to_owned()
}

/// The flights of the demo as a CSV with a sort key, in the order of the file; each key of them with its
/// row.
fn flights(files: &Files, name: &str, rows: usize) -> BTreeMap<(String, String), Vec<String>> {
    let data = File::open(checkout().join("data/flights-2013-01.csv.gz")).expect("the flights");
    let mut reader = csv::Reader::from_reader(GzDecoder::new(data));
    let header = reader.headers().expect("a header").clone();
    let mut file = csv::Writer::from_path(files.path(name)).expect("a file");
    file.write_record(header.iter().chain(["departure"])).expect("it writes");
    let mut flights = BTreeMap::new();
    for record in reader.records().take(rows) {
        let record = record.expect("a flight");
        let sort = format!("{}#{}{}", &record[0], &record[3], &record[4]);
        file.write_record(record.iter().chain([sort.as_str()])).expect("it writes");
        let fields = record.iter().map(str::to_owned).collect();
        flights.insert((record[1].to_owned(), sort), fields);
    }
    file.flush().expect("it writes");
    flights
}

/// All items of the main table as they lie there, without markers and the one that names the table's owner.
async fn items(stack: &LocalStack) -> Vec<std::collections::HashMap<String, AttributeValue>> {
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let mut pages = client.scan().table_name("MainTable").into_paginator().items().send();
    let mut items = Vec::new();
    while let Some(item) = pages.next().await {
        let item = item.expect("an item");
        if !item.contains_key("_ds_fwd") && !item.contains_key("_ds_owner") {
            items.push(item);
        }
    }
    items
}

/// How often each key lies in the table, whatever its shard.
async fn keys(stack: &LocalStack) -> BTreeMap<(String, String), usize> {
    let mut keys = BTreeMap::new();
    for item in items(stack).await {
        let text = |name: &str| item[name].as_s().expect("a string").clone();
        let physical = text("pk");
        let logical = physical.split("#~").next().expect("a key").to_owned();
        *keys.entry((logical, text("sk"))).or_default() += 1;
    }
    keys
}

const BY_ORIGIN: [&str; 4] = ["--pk", "origin", "--sk", "departure"];

/// A month of flights, killed without notice, interrupted, and brought to its end, while the keys grow.
#[test]
fn an_import_that_is_killed_goes_on_and_writes_each_row_once() {
    let stack = start(&[&SHORT[..], &["--partition-wcu", "500"]].concat());
    let files = Files::new();
    let flights = flights(&files, "flights.csv", usize::MAX);
    let path = files.text("flights.csv");
    let args = [&[path.as_str()], &BY_ORIGIN[..]].concat();
    assert_eq!(end_after(begin(&stack, &args), 2_000, Signal::KILL), None);
    assert!(files.names().contains("flights.csv.dynashard-import"), "{:?}", files.names());
    // Another import of the same file would not know of the rows in doubt.
    let other = import(&stack, &[&args[..], &["--number-columns", "flight"]].concat());
    assert_eq!((other.status, code(&other).as_str()), (1, "state_mismatch"), "{other:?}");
    assert_eq!(end_after(begin(&stack, &args), 6_000, Signal::TERM), Some(130));
    let done = import(&stack, &args);
    assert_eq!(done.status, 0, "{done:?}");
    let total = u64::try_from(flights.len()).expect("small");
    assert_eq!(number(&done, "rows"), total);
    assert_eq!(number(&done, "written") + number(&done, "found"), total, "{done:?}");
    assert!(done.events("progress").len() > 2, "{done:?}");
    assert_eq!(files.names(), BTreeSet::from(["flights.csv".to_owned()]));

    // Items move meanwhile, so a scan may see one at both of its homes.
    let origins = flights.keys().map(|(origin, _)| origin.as_str()).collect::<BTreeSet<_>>();
    for origin in origins {
        let verified = on(&stack, &["verify", "--pk", origin, "--json"]);
        assert_eq!(verified.status, 0, "{verified:?}");
        let items = stack.query(json!({ "pk": origin, "limit": 1_000 }));
        let found = items.iter().map(|item| item["sk"].as_str().expect("a sort key"));
        let rows = flights.keys().filter(|(other, _)| other == origin);
        assert!(found.eq(rows.map(|(_, sort)| sort.as_str())), "{origin}");
        assert_eq!(verified.last()["items"], json!(items.len()), "each lies in one shard");
    }
    let (key, fields) = flights.first_key_value().expect("a flight");
    let one =
        stack.query(json!({ "pk": key.0, "from": key.1, "to": key.1 })).pop().expect("a flight");
    assert_eq!((&one["dest"], &one["tailnum"]), (&json!(fields[2]), &json!(fields[5])));
    assert_eq!(one["distance"].to_string(), fields[13], "a number as it was written");
    assert_eq!(
        (&one["origin"], &one["departure"]),
        (&Value::Null, &Value::Null),
        "they are the key"
    );
}

/// It waited without a word, and the same table on another port was another one.
#[test]
fn regression_an_import_said_nothing_of_a_stack_that_was_gone() {
    let files = Files::new();
    let data = files.text("data");
    let limits = ["--data-dir", &data, "--partition-wcu", "100", "--set", "ScalingMode=off"];
    let stack = start(&[&SHORT[..], &limits].concat());
    let line = |n: u32| format!("{{\"pk\":\"hot\",\"sk\":\"{n:04}\"}}\n");
    let path = files.write("rows.jsonl", &(0..1_000).map(line).collect::<String>());
    let mut child = begin(&stack, &[&path, "--no-growth"]);
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let written = |line: &str| {
        let line = serde_json::from_str::<Value>(line).expect("JSON");
        line["phase"] == "write" && line["rows"].as_u64() >= Some(100)
    };
    let mut progress = String::new();
    while !written(progress.lines().last().unwrap_or("{}")) {
        stdout.read_line(&mut progress).expect("stdout");
    }
    stack.end(Signal::KILL);
    let mut told = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut told).expect("stderr");
    assert!(told.starts_with("dynashard: nothing was written for 5 s: DynamoDB"), "{told}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("stdout");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));

    let stack = LocalStack::start(&[&SHORT[..], &limits].concat());
    let done = import(&stack, &[&path, "--no-growth"]);
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(number(&done, "written") + number(&done, "found"), 1_000, "{done:?}");
}

/// Under random placement a second put would double an item, and a put may take effect late.
#[tokio::test]
async fn an_import_under_random_placement_doubles_nothing() {
    let random = ["--set", "Placement=random"];
    let stack = start(&[&SHORT[..], &random, &["--partition-wcu", "400"]].concat());
    let created = stack.json(
        "PUT",
        "/collection?pk=EWR",
        &json!({ "placement": "random", "number_of_shards": 4 }),
    );
    assert_eq!(created.status, 201, "{created:?}");
    stack.until_at_rest("EWR", 4);
    let files = Files::new();
    let flights = flights(&files, "flights.csv", 6_000);
    let path = files.text("flights.csv");
    let args = [&[path.as_str(), "--placement", "random"], &BY_ORIGIN[..]].concat();
    let kept = import(&stack, &[&args[..], &["--keep-existing"]].concat());
    assert_eq!((kept.status, code(&kept).as_str()), (1, "not_for_placement"), "{kept:?}");
    for rows in [1_000, 3_000] {
        assert_eq!(end_after(begin(&stack, &args), rows, Signal::KILL), None);
    }
    let done = import(&stack, &args);
    assert_eq!(done.status, 0, "{done:?}");
    let found = keys(&stack).await;
    assert!(found.keys().eq(flights.keys()));
    assert!(found.values().all(|times| *times == 1), "an item lies twice");
}

#[tokio::test]
async fn rows_that_cannot_be_taken_are_listed_and_nothing_is_written() {
    let stack = start(&SHORT);
    let files = Files::new();
    let long = "x".repeat(1_025);
    let large = "x".repeat(400 * 1_024);
    let lines = [
        r#"{"pk":"a","sk":"1","n":12345678901234567890123456789012345678}"#.to_owned(),
        "{".to_owned(),
        r#"{"sk":"1"}"#.to_owned(),
        r#"{"pk":"","sk":"1"}"#.to_owned(),
        format!(r#"{{"pk":"a","sk":"{long}"}}"#),
        r#"{"pk":"a","sk":1}"#.to_owned(),
        format!(r#"{{"pk":"a","sk":"2","large":"{large}"}}"#),
        r#"{"pk":"a","sk":"3","_ds_v":1}"#.to_owned(),
        r#"{"Item":{"pk":{"S":"a"},"sk":{"S":"1"}}}"#.to_owned(),
        r#"{"Item":{"pk":{"S":"a"},"sk":{"S":"4"},"b":{"B":"AAE="}}}"#.to_owned(),
    ];
    let path = files.write("rows.jsonl", &lines.join("\n"));
    let listed = |ran: &Ran| {
        let lines = ran.stderr.lines().filter(|line| line.starts_with('{'));
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of = |line: Value| (line["line"].as_u64().expect("a line"), line["code"].clone());
        lines.map(of).collect::<Vec<_>>()
    };
    let expected = [
        (2, "bad_body"),
        (3, "bad_key"),
        (4, "bad_key"),
        (5, "bad_key"),
        (6, "bad_key"),
        (7, "item_too_large"),
        (8, "reserved_attribute"),
        (9, "duplicate_key"),
    ];
    let expected = expected.map(|(line, code)| (line, json!(code)));
    for flags in [&["--check"][..], &[]] {
        let refused = import(&stack, &[&[path.as_str()], flags].concat());
        assert_eq!((refused.status, code(&refused).as_str()), (1, "rows_refused"), "{refused:?}");
        assert_eq!(listed(&refused), expected, "{refused:?}");
        assert!(items(&stack).await.is_empty(), "nothing was written");
    }
    let list = files.text("refused");
    let others = import(&stack, &[path.as_str(), "--skip-refused", "--refused", &list]);
    assert_eq!(others.status, 0, "{others:?}");
    assert_eq!((number(&others, "written"), number(&others, "refused")), (2, 8));
    assert_eq!(fs::read_to_string(&list).expect("a list").lines().count(), 8);
    assert_eq!(files.names(), ["refused", "rows.jsonl"].map(str::to_owned).into());
    let item = stack.get("/item?pk=a&sk=1").body;
    assert!(item.contains("12345678901234567890123456789012345678"), "{item}");

    // What is there is replaced, unless it is to stay.
    let path = files
        .write("more.jsonl", "{\"pk\":\"a\",\"sk\":\"1\",\"n\":1}\n{\"pk\":\"a\",\"sk\":\"5\"}\n");
    let kept = import(&stack, &[path.as_str(), "--keep-existing"]);
    assert_eq!(
        (kept.status, number(&kept, "kept"), number(&kept, "written")),
        (0, 1, 1),
        "{kept:?}"
    );
    let replaced = import(&stack, &[path.as_str()]);
    assert_eq!((replaced.status, number(&replaced, "written")), (0, 2), "{replaced:?}");
    assert_eq!(stack.get("/item?pk=a&sk=1").json()["n"], 1);
}

/// What a client has changed in a row that was in doubt is not overwritten.
#[test]
fn a_row_that_a_client_has_changed_since_stays_as_it_is() {
    let off = ["--set", "ScalingMode=off", "--partition-wcu", "100"];
    let stack = start(&[&SHORT[..], &off].concat());
    let files = Files::new();
    let line = |n: u32| format!("{{\"pk\":\"hot\",\"sk\":\"{n:04}\",\"n\":{n}}}\n");
    let path = files.write("rows.jsonl", &(0..1_000).map(line).collect::<String>());
    let args = [path.as_str(), "--no-growth"];
    assert_eq!(end_after(begin(&stack, &args), 200, Signal::KILL), None);
    // Whatever was written or is in doubt has other contents now; what was not sent is still missing.
    let written = stack.query(json!({ "pk": "hot" }));
    for item in &written {
        let sort = item["sk"].as_str().expect("a sort key");
        let path = format!("/item?pk=hot&sk={sort}");
        let patched = stack.json("PATCH", &path, &json!({ "n": "changed" }));
        assert_eq!(patched.status, 200, "{patched:?}");
    }
    let again = import(&stack, &args);
    let changed = |stack: &LocalStack| {
        let items = stack.query(json!({ "pk": "hot" }));
        assert_eq!(items.len(), 1_000, "none is missing");
        items.iter().filter(|item| item["n"] == "changed").count()
    };
    assert_eq!(changed(&stack), written.len(), "{again:?}");
    let summary = again.events("summary").pop().expect("a summary");
    if summary["undecided"].as_u64() > Some(0) {
        assert_eq!((again.status, code(&again).as_str()), (1, "in_doubt"), "{again:?}");
        let kept = import(&stack, &[&args[..], &["--in-doubt", "keep"]].concat());
        assert_eq!(kept.status, 0, "{kept:?}");
        assert_eq!(changed(&stack), written.len());
    }
    assert_eq!(files.names(), BTreeSet::from(["rows.jsonl".to_owned()]));
}

/// What was noted down to be sent next was in doubt, also if it never went, so that nothing was put in place of what lay there.
#[test]
fn regression_rows_that_never_went_were_in_doubt_after_a_signal() {
    let off = ["--set", "ScalingMode=off", "--partition-wcu", "100"];
    let stack = start(&[&SHORT[..], &off].concat());
    let files = Files::new();
    let rows = |value: &str| {
        let line =
            |n: u32| format!("{{\"pk\":\"key{}\",\"sk\":\"{n:04}\",\"is\":\"{value}\"}}\n", n % 3);
        files.write("rows.jsonl", &(0..1_200).map(line).collect::<String>())
    };
    let done = import(&stack, &[&rows("old"), "--no-growth"]);
    assert_eq!(done.status, 0, "{done:?}");
    let path = rows("new");
    let args = [path.as_str(), "--no-growth"];
    assert_eq!(end_after(begin(&stack, &args), 300, Signal::TERM), Some(130));
    let done = import(&stack, &args);
    assert_eq!((done.status, number(&done, "undecided")), (0, 0), "{done:?}");
    let items = (0..3).flat_map(|n| stack.query(json!({ "pk": format!("key{n}") })));
    assert_eq!(items.filter(|item| item["is"] == "new").count(), 1_200);
}

/// Killed as soon as it has noted down for the n-th time what it sends next, while a client changes whatever it finds.
#[tokio::test]
async fn an_import_that_is_killed_at_many_points_overwrites_no_change_of_a_client() {
    let off = ["--set", "ScalingMode=off", "--partition-wcu", "50"];
    let stack = start(&[&SHORT[..], &off].concat());
    let files = Files::new();
    let keys_of = |n: u32| (format!("key{}", n % 5), format!("{n:04}"));
    let line = |n: u32| {
        let (pk, sk) = keys_of(n);
        format!("{{\"pk\":\"{pk}\",\"sk\":\"{sk}\",\"n\":{n}}}\n")
    };
    let path = files.write("rows.jsonl", &(0..4_000).map(line).collect::<String>());
    let args = [path.as_str(), "--no-growth", "--in-doubt", "keep"];
    let state = files.path("rows.jsonl.dynashard-import");
    let (is_over, changed) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    let kill_often = || {
        for notes in (1..=3).cycle().take(9) {
            let mut child = begin(&stack, &args);
            let (mut seen, mut last) = (0, fs::metadata(&state).map(|file| file.ino()).ok());
            while seen < notes && child.try_wait().expect("it runs").is_none() {
                let now = fs::metadata(&state).map(|file| file.ino()).ok();
                seen += u32::from(now != last);
                last = now;
            }
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
            child.wait_with_output().expect("it ends");
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let change = || {
        for pk in (0..5).map(|n| format!("key{n}")).cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            for item in stack.query(json!({ "pk": pk })).iter().step_by(3) {
                let sk = item["sk"].as_str().expect("a sort key");
                if item["n"] != "changed" {
                    let path = format!("/item?pk={pk}&sk={sk}");
                    let patched = stack.json("PATCH", &path, &json!({ "n": "changed" }));
                    if patched.status == 200 {
                        let mut changed = changed.lock().expect("no panic");
                        changed.insert((pk.clone(), sk.to_owned()));
                    }
                }
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(change);
        threads.spawn(kill_often);
    });
    let changed = changed.into_inner().expect("no panic");
    assert!(state.exists(), "it would begin again");
    let done = import(&stack, &args);
    assert_eq!(done.status, 0, "{done:?}");
    let found = keys(&stack).await;
    assert!(found.len() == 4_000 && found.values().all(|times| *times == 1), "{}", found.len());
    let rows = (0..5).flat_map(|n| stack.query(json!({ "pk": format!("key{n}") })));
    for item in rows.collect::<Vec<_>>() {
        let sk = item["sk"].as_str().expect("a sort key");
        let n = sk.parse::<u32>().expect("a number");
        if changed.contains(&keys_of(n)) {
            assert_eq!(item["n"], "changed", "{item}");
        } else {
            assert!(item["n"] == n || item["n"] == "changed", "{item}");
        }
    }
    assert!(changed.len() > 20, "{}", changed.len());
    assert_eq!(files.names(), BTreeSet::from(["rows.jsonl".to_owned()]));
}

#[test]
fn what_is_exported_is_imported_as_the_same() {
    let stack = start(&SHORT);
    let created = stack.json(
        "PUT",
        "/collection?pk=b",
        &json!({ "placement": "xxh64", "number_of_shards": 4 }),
    );
    assert_eq!(created.status, 201, "{created:?}");
    stack.until_at_rest("b", 4);
    let files = Files::new();
    let typed = (0..300).map(|n| {
        format!(
            r#"{{"Item":{{"pk":{{"S":{}}},"sk":{{"S":"{n:04}"}},"n":{{"N":"{n}.5"}},"b":{{"B":"AAE="}},"ss":{{"SS":["x","y"]}},"m":{{"M":{{"l":{{"L":[{{"NULL":true}},{{"BOOL":false}}]}}}}}}}}}}"#,
            json!(["a", "b", "c#~1", "d \"quoted\", ünïcode"][n % 4]),
        )
    });
    let typed = files.write("typed.json", &typed.collect::<Vec<_>>().join("\n"));
    let done = import(&stack, &[&typed]);
    assert_eq!(done.status, 0, "{done:?}");
    let grown = on(&stack, &["scale", "--pk", "b", "--from", "0149", "--shards", "8"]);
    assert_eq!((grown.status, epochs(&stack, "b")), (0, 2), "{grown:?}");

    let all = |form: &str, name: &str, more: &[&str]| {
        let output = files.text(name);
        let args =
            [&["--all", "--consistent", "--json", "--format", form, "--output", &output], more];
        let ran = export(&stack, &args.concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        assert_eq!((number(&ran, "collections"), number(&ran, "items")), (4, 300), "{ran:?}");
        (output, ran)
    };
    let text = |path: &str| {
        let mut text = String::new();
        if Path::new(path).extension().is_some_and(|end| end == "gz") {
            let file = File::open(path).expect("a file");
            GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
            text
        } else {
            fs::read_to_string(path).expect("a file")
        }
    };
    let (first, ran) = all("dynamodb-json", "first.json.gz", &["--gzip"]);
    assert_eq!(number(&ran, "changed_values"), 0);
    let lines = text(&first);
    let line = lines.lines().find(|line| line.contains("\"0001\"")).expect("an item");
    let item = serde_json::from_str::<Value>(line).expect("JSON")["Item"].take();
    assert_eq!((&item["b"], &item["ss"]), (&json!({ "B": "AAE=" }), &json!({ "SS": ["x", "y"] })));
    let of_b = lines.lines().filter(|line| line.contains(r#""pk":{"S":"b"}"#));
    let of_b = of_b.map(|line| line.split(r#""sk":"#).nth(1).expect("a sort key"));
    let of_b = of_b.collect::<Vec<_>>();
    assert!(of_b.is_sorted() && of_b.len() == 75, "in the order of the sort keys: {of_b:?}");

    // Into an empty stack, and out again, in each form.
    let sorted = |path: &str| {
        let text = text(path);
        text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let others = start(&SHORT);
    let again = |form: &str, from: &str, name: &str, more: &[&str]| {
        let done = import(&others, &[&[from], more].concat());
        assert_eq!(done.status, 0, "{done:?}");
        let output = files.text(name);
        let ran = export(&others, &["--all", "--format", form, "--output", &output]);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert_eq!(sorted(&output), sorted(from), "{form}");
    };
    again("dynamodb-json", &first, "second.json", &["--format", "dynamodb-export"]);
    let (plain, ran) = all("json-lines", "first.jsonl", &[]);
    assert_eq!(number(&ran, "changed_values"), 600, "binary values and sets");
    again("json-lines", &plain, "second.jsonl", &[]);
    let (table, ran) = all("csv", "first.csv", &[]);
    assert_eq!(ran.last()["number_columns"], json!(["n"]));
    assert!(ran.stderr.contains("--number-columns 'n'"), "{ran:?}");
    again("csv", &table, "second.csv", &["--number-columns", "n"]);
    assert!(!files.names().iter().any(|name| name.ends_with(".partial")));

    let one = export(&stack, &["--pk", "b", "--pk", "c#~1", "--read-units", "1000"]);
    assert_eq!((one.status, one.lines().len()), (0, 150), "{one:?}");
}

/// What no CSV allows was taken for fields that go on, and a record that was cut off for a whole one.
#[tokio::test]
async fn regression_a_csv_that_is_none_was_imported() {
    let stack = start(&SHORT);
    let files = Files::new();
    for (rows, line) in [
        ("K,1,\"5 inch\nK,2,ok\nK,3,\"7 inch\nK,4,fine\n", "line 4: text follows"),
        ("K,1,ok\nK,2,\"cut he", "line 3: a quotation mark opens a field"),
    ] {
        let path = files.write("rows.csv", &format!("pk,sk,text\n{rows}"));
        let ran = import(&stack, &[&path, "--skip-refused"]);
        assert_eq!((ran.status, code(&ran).as_str()), (1, "input_failed"), "{ran:?}");
        assert!(ran.stderr.contains(line), "{ran:?}");
    }
    assert!(items(&stack).await.is_empty(), "nothing was written");
    assert_eq!(files.names(), BTreeSet::from(["rows.csv".to_owned()]));
}

/// The run that went on took them for files of the input.
#[test]
fn regression_an_import_wrote_its_own_files_among_those_of_its_input() {
    let stack = start(&SHORT);
    let files = Files::new();
    files.write("rows.jsonl", "{\"pk\":\"a\",\"sk\":\"1\"}\n");
    let directory = files.text(".");
    for flag in ["--refused", "--state"] {
        let ran = import(&stack, &[&directory, "--skip-refused", flag, &files.text("own.jsonl")]);
        assert_eq!((ran.status, code(&ran).as_str()), (1, "bad_parameter"), "{ran:?}");
        assert_eq!(files.names(), BTreeSet::from(["rows.jsonl".to_owned()]));
    }
    let hidden = files.text(".refused");
    let ran = import(&stack, &[&directory, "--skip-refused", "--refused", &hidden]);
    assert_eq!(ran.status, 0, "hidden files are passed over: {ran:?}");
}

/// It waited for the reader of its list for ever, since the signal was not looked at.
#[test]
fn regression_a_command_that_waits_for_a_pipe_could_not_be_interrupted() {
    let stack = start(&SHORT);
    let files = Files::new();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, files.path("pipe"), mode).expect("a pipe");
    let (rows, pipe) =
        (files.write("rows.jsonl", "{\"pk\":\"a\",\"sk\":\"1\"}\n"), files.text("pipe"));
    let child = begin(&stack, &[&rows, "--refused", &pipe]);
    // It has taken its place, and opens the pipe next.
    while !files.names().contains("rows.jsonl.dynashard-import.lock") {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
}

/// What DynamoDB writes to S3, as one downloads it.
#[test]
fn an_export_of_dynamodbs_is_imported_if_it_is_whole() {
    let stack = start(&SHORT);
    let files = Files::new();
    let data = files.path("export/data");
    fs::create_dir_all(&data).expect("a directory");
    let gzip = |name: &str, rows: std::ops::Range<u32>| {
        let file = File::create(data.join(name)).expect("a file");
        let mut file = GzEncoder::new(file, Compression::fast());
        for n in rows {
            writeln!(file, r#"{{"Item":{{"pk":{{"S":"a"}},"sk":{{"S":"{n}"}}}}}}"#)
                .expect("it writes");
        }
        file.finish().expect("it ends");
    };
    gzip("x.json.gz", 0..60);
    gzip("y.json.gz", 60..100);
    let write = |name: &str, text: &str| {
        fs::write(files.path("export").join(name), text).expect("it writes");
    };
    let summary = |kind: &str, items: u64| {
        let summary =
            json!({ "outputFormat": "DYNAMODB_JSON", "exportType": kind, "itemCount": items });
        write("manifest-summary.json", &summary.to_string());
    };
    let list = |counts: &[(&str, u64)]| {
        let line = |(name, count): &(&str, u64)| {
            json!({ "itemCount": count, "dataFileS3Key": format!("AWSDynamoDB/01/data/{name}") })
                .to_string()
        };
        write("manifest-files.json", &counts.iter().map(line).collect::<Vec<_>>().join("\n"));
    };
    let path = files.text("export");
    let failed = |says: &str| {
        let ran = import(&stack, &[&path]);
        assert_eq!((ran.status, code(&ran).as_str()), (1, "input_failed"), "{ran:?}");
        assert!(ran.stderr.contains(says), "{ran:?}");
    };
    summary("INCREMENTAL_EXPORT", 100);
    failed("only full exports");
    // A part passed for the whole.
    summary("FULL_EXPORT", 102);
    failed("the data files hold 100 items");
    list(&[("x.json.gz", 60), ("y.json.gz", 40)]);
    failed("the data files hold 100 items");
    list(&[("x.json.gz", 60)]);
    failed("does not list y.json.gz");
    list(&[("x.json.gz", 60), ("x.json.gz", 60)]);
    failed("lists x.json.gz twice");
    summary("FULL_EXPORT", 100);
    list(&[("x.json.gz", 60), ("z.json.gz", 40)]);
    failed("lists z.json.gz, which is missing");
    list(&[("x.json.gz", 61), ("y.json.gz", 39)]);
    failed("holds 60 items");
    list(&[("x.json.gz", 60), ("y.json.gz", 40)]);
    write("more.jsonl", "{}");
    failed("holds what is not of an export: more.jsonl");
    fs::remove_file(files.path("export/more.jsonl")).expect("it goes");
    let done = import(&stack, &[&path]);
    assert_eq!((done.status, number(&done, "written")), (0, 100), "{done:?}");
    let data = data.to_str().expect("UTF-8").to_owned();
    let again = import(&stack, &[&data, "--keep-existing", "--format", "dynamodb-export"]);
    assert_eq!((again.status, number(&again, "kept")), (0, 100), "{again:?}");
}

/// A table of another program, with other key names.
#[tokio::test]
async fn a_table_is_copied_and_a_copy_that_is_killed_goes_on() {
    let off = ["--set", "ScalingMode=off", "--partition-wcu", "300"];
    let stack = start(&[&SHORT[..], &off].concat());
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    table(&client, "old", "id", "at", ScalarAttributeType::S).await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    for n in 0..3_000_u32 {
        let put = client
            .put_item()
            .table_name("old")
            .item("id", text(&format!("key{}", n % 7)))
            .item("at", text(&format!("{n:05}")))
            .item("n", AttributeValue::N(n.to_string()))
            .item("pad", text(&"x".repeat(700)));
        put.send().await.expect("a put");
    }
    let files = Files::new();
    let state = files.text("state");
    let args = ["--from-table", "old", "--no-growth", "--state", &state];
    assert_eq!(end_after(begin(&stack, &args), 500, Signal::KILL), None);
    let done = import(&stack, &args);
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(number(&done, "rows"), 3_000);
    let found = keys(&stack).await;
    assert!(found.len() == 3_000 && found.values().all(|times| *times == 1), "{}", found.len());
    let item = stack.get("/item?pk=key3&sk=00010").json();
    assert_eq!((&item["n"], &item["id"], &item["at"]), (&json!(10), &Value::Null, &Value::Null));
    assert_eq!(files.names(), BTreeSet::new());

    table(&client, "numbers", "id", "at", ScalarAttributeType::N).await;
    let other = import(&stack, &["--from-table", "numbers", "--state", &state]);
    assert_eq!((other.status, code(&other).as_str()), (1, "input_failed"), "{other:?}");
    let marked = client.put_item().table_name("old").item("id", text("a")).item("at", text("1"));
    marked.item("_ds_g", AttributeValue::N("1".to_owned())).send().await.expect("a put");
    let refused = import(&stack, &["--from-table", "old", "--check"]);
    assert_eq!((refused.status, code(&refused).as_str()), (1, "rows_refused"), "{refused:?}");
    assert!(refused.stderr.contains("reserved_attribute"), "{refused:?}");
}

/// The rows of the table before it were taken for written, so that half of them were missing.
#[tokio::test]
async fn regression_a_copy_went_on_when_its_table_was_made_anew() {
    let off = ["--set", "ScalingMode=off", "--partition-wcu", "50"];
    let stack = start(&[&SHORT[..], &off].concat());
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    table(&client, "old", "id", "at", ScalarAttributeType::S).await;
    for n in 0..300_u32 {
        let put = client.put_item().table_name("old").item("id", text("a"));
        let put = put.item("at", text(&n.to_string()));
        // One key takes 50 a second.
        while put.clone().send().await.is_err() {}
    }
    let files = Files::new();
    let state = files.text("state");
    let args = ["--from-table", "old", "--no-growth", "--state", &state];
    assert_eq!(end_after(begin(&stack, &args), 60, Signal::KILL), None);
    client.delete_table().table_name("old").send().await.expect("it is deleted");
    table(&client, "old", "id", "at", ScalarAttributeType::S).await;
    let other = import(&stack, &args);
    assert_eq!((other.status, code(&other).as_str()), (1, "state_mismatch"), "{other:?}");
}

async fn table(client: &Client, name: &str, pk: &str, sk: &str, sort: ScalarAttributeType) {
    let definition = |name: &str, kind: ScalarAttributeType| {
        let built =
            AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build();
        built.expect("a definition")
    };
    let key = |name: &str, kind: KeyType| {
        let built = KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
        built.expect("a key")
    };
    let create = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let create = create
        .attribute_definitions(definition(pk, ScalarAttributeType::S))
        .attribute_definitions(definition(sk, sort))
        .key_schema(key(pk, KeyType::Hash))
        .key_schema(key(sk, KeyType::Range));
    create.send().await.expect("a table");
}

#[test]
fn what_cannot_be_imported_or_exported_says_why() {
    let stack = start(&SHORT);
    let files = Files::new();
    let csv = files.write("rows.csv", "a,b\n1,2\n");
    let unknown = files.write("rows.txt", "");
    let absent = files.text("absent.jsonl");
    fs::create_dir(files.path("empty")).expect("a directory");
    let empty = files.text("empty");
    for (args, says) in [
        (&[csv.as_str()][..], "--pk and --sk"),
        (&[csv.as_str(), "--pk", "a", "--sk", "b", "--number-columns", "c"], "not a column"),
        (&[unknown.as_str()], "--format"),
        (&[absent.as_str()], "cannot be read"),
        (&[empty.as_str()], "holds no file"),
        (&["--from-table", "absent", "--state", &files.text("state")], "absent"),
        (&["--from-table", "MainTable", "--check"], "main table itself"),
    ] {
        let ran = import(&stack, args);
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.stderr.contains(says), "{args:?}: {ran:?}");
        assert_eq!(ran.events("error").len(), 1, "{ran:?}");
    }
    let empty = files.write("empty.jsonl", "");
    let done = import(&stack, &[&empty]);
    assert_eq!((done.status, number(&done, "written")), (0, 0), "{done:?}");
    assert_eq!(export(&stack, &[]).status, 2, "neither --pk nor --all");
    let nowhere = Path::new(&files.text("no")).join("such/file");
    let ran = export(&stack, &["--all", "--output", nowhere.to_str().expect("UTF-8")]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stderr.contains("output_failed"), "{ran:?}");
}

/// The list was emptied before the input was looked at, which may have been the same file.
#[test]
fn regression_an_import_destroyed_what_it_was_not_told_of() {
    let stack = start(&SHORT);
    let files = Files::new();
    let line = "{\"pk\":\"a\",\"sk\":\"1\"}\n";
    let path = files.write("rows.jsonl", line);
    let ran = import(&stack, &[&path, "--refused", &path]);
    assert_eq!((ran.status, code(&ran).as_str()), (1, "input_failed"), "{ran:?}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), line);
    let list = files.write("refused", "of an earlier run\n");
    let ran = import(&stack, &[&files.text("absent.jsonl"), "--refused", &list]);
    assert_eq!((ran.status, code(&ran).as_str()), (1, "input_failed"), "{ran:?}");
    assert_eq!(fs::read_to_string(&list).expect("a file"), "of an earlier run\n");
}

#[test]
fn an_export_that_is_interrupted_says_what_is_incomplete() {
    let stack = start(&[&SHORT[..], &["--no-throttle"]].concat());
    let files = Files::new();
    // More than a page, and more than a pipe holds.
    let line =
        |n: u32| format!("{{\"pk\":\"a\",\"sk\":\"{n:04}\",\"pad\":\"{}\"}}\n", "x".repeat(500));
    let path = files.write("rows.jsonl", &(0..3_000).map(line).collect::<String>());
    let done = import(&stack, &[&path]);
    assert_eq!(done.status, 0, "{done:?}");
    let mut command = operator_command(&stack, &["export", "--all"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut printed = String::new();
    stdout.read_line(&mut printed).expect("a first item");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    stdout.read_to_string(&mut printed).expect("what it had read");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let last = printed.lines().last().expect("an item");
    let last = serde_json::from_str::<Value>(last).expect("a whole line")["sk"].take();
    let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
    let says = format!("0 whole collections, and \"a\" up to the sort key {last}");
    assert!(stderr.contains(&says), "{stderr}");

    let output = files.text("all.jsonl");
    let whole = export(&stack, &["--all", "--output", &output]);
    assert_eq!(whole.status, 0, "{whole:?}");
    assert_eq!(fs::read_to_string(&output).expect("a file").lines().count(), 3_000);
    assert_eq!(export(&stack, &["--all", "--json"]).status, 2, "stdout has the items");
}
