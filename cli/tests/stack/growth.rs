//! A hot key outgrows one partition, and the system follows by itself.

use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::LocalStack;

/// Puts of one batch: some seconds of what one partition of this stack takes.
const BATCH: usize = 150;

/// Batches before the test gives up.
const MOST_BATCHES: usize = 60;

/// Looks of `ScaleFunction` before the test gives up, and between two of them. It shrinks what was cool for a minute.
const MOST_LOOKS: usize = 200;
const PAUSE: Duration = Duration::from_secs(1);

#[test]
fn a_throttled_collection_grows_by_itself_and_loses_nothing() {
    grows("xxh64");
}

#[test]
fn a_throttled_random_collection_grows_by_itself_and_loses_nothing() {
    grows("random");
}

/// The sparse index had the partition key as its sort key, which takes 1,024 bytes: DynamoDB refused every change of the
/// count of a collection with a longer key, for ever.
#[test]
fn regression_a_collection_with_a_long_key_could_not_change_its_count() {
    let set = ["LeaseSecs=1", "RequestLifetimeSecs=2"].iter().flat_map(|it| ["--set", it]);
    let stack = LocalStack::start(&set.collect::<Vec<_>>());
    let pk = "k".repeat(2_000);
    let keys = (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>();
    stack.put_all(keys.iter().map(|sk| json!({ "pk": pk, "sk": sk, "item": { "sk": sk } })));
    for shards in [4, 1] {
        let path = format!("/collection/scale?pk={pk}");
        let asked = stack.json("POST", &path, &json!({ "number_of_shards": shards }));
        assert_eq!(asked.status, 202, "{}", asked.json());
        stack.until_at_rest(&pk, shards);
        let read = stack.query(json!({ "pk": pk }));
        let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key"));
        assert!(read.eq(keys.iter().map(String::as_str)), "each once, and in order");
    }
}

/// The functions that decide were not allowed to count what lies before the last writes, and all of a log moved. It also moves where
/// they cannot count in time, as on a busy machine, so one of several logs has to stay.
#[test]
fn regression_a_large_log_moved_though_nobody_writes_to_its_past() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = ["--data-dir", directory.path().to_str().expect("UTF-8")];
    let set = ["LeaseSecs=1", "CooldownSecs=0", "RequestLifetimeSecs=2"];
    let set = set.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let logs = ["log-a", "log-b", "log-c", "log-d"];
    let past = 10_200;
    let stack = LocalStack::start(&[&data[..], &set, &["--no-throttle"]].concat());
    for pk in logs {
        stack.put_all(puts(pk, 0..past));
    }
    stack.end(Signal::TERM);

    let stack = LocalStack::start(&[&data[..], &set, &["--partition-wcu", "50"]].concat());
    let grown = logs.iter().map(|pk| (pk, grown_log(&stack, pk, past)));
    let is_divided = |(_, (grown, _)): &(&&str, (Value, usize))| grown["epochs"][1].is_object();
    let mut seen = Vec::new();
    let found = grown.inspect(|(_, (grown, _))| seen.push(grown.clone())).find(is_divided);
    let (pk, (grown, written)) = found.unwrap_or_else(|| panic!("{seen:#?}"));
    let epochs = grown["epochs"].as_array().expect("a list");
    assert_eq!((epochs.len(), &epochs[0]["number_of_shards"]), (2, &json!(1)), "{grown}");
    let boundary = epochs[1]["from"].as_str().expect("a sort key");
    assert!(boundary > "010100", "{grown}");
    let shards = epochs[1]["number_of_shards"].as_u64().expect("a count");
    stack.until_at_rest(pk, u32::try_from(shards).expect("a count"));
    let read = stack.query(json!({ "pk": pk, "limit": 1_000 }));
    let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
    assert!(read.eq((0..written).map(|n| format!("{n:06}"))), "each once, and in order");
}

/// What was written before the log had 64 shards is read as if it had one, and at night nothing of it moves.
#[test]
fn a_log_grows_to_64_shards_and_shrinks_again_and_its_past_lies_in_one() {
    let set = ["LeaseSecs=1", "RequestLifetimeSecs=2", "ShrinkMode=on", "ShrinkAfterSecs=60"];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let stack = LocalStack::start(&set.chain(["--no-throttle"]).collect::<Vec<_>>());
    stack.put_all(puts("log", 0..400));
    let growth = json!({ "number_of_shards": 64, "from": "000399" });
    let asked = stack.json("POST", "/collection/scale?pk=log", &growth);
    assert_eq!(asked.status, 202, "{}", asked.json());
    stack.until_at_rest("log", 64);
    stack.put_all(puts("log", 400..800));

    let page = |query: Value| {
        let page = stack.json("POST", "/query", &query);
        assert_eq!(page.status, 200, "{}", page.json());
        let sorts = page.json()["items"].as_array().expect("a list").clone();
        let sorts = sorts.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
        (sorts.collect::<Vec<_>>(), page.json()["items_read"].as_u64())
    };
    for order in ["asc", "desc"] {
        let sorts = |numbers: Range<usize>| {
            let mut sorts = numbers.map(|n| format!("{n:06}")).collect::<Vec<_>>();
            if order == "desc" {
                sorts.reverse();
            }
            sorts
        };
        let query = |from: &str, to: &str| json!({ "pk": "log", "from": from, "to": to, "limit": 100, "order": order });
        let past = page(query("000200", "000299"));
        assert_eq!(past, (sorts(200..300), Some(100)));
        assert_eq!(page(query("000350", "000449")).0, sorts(350..450), "across the boundary");
    }

    let collection = || stack.get("/collection?pk=log").json();
    let begins = (0..MOST_LOOKS).any(|_| {
        stack.run_schedule();
        thread::sleep(PAUSE);
        collection()["number_of_shards"] != 64
    });
    assert!(begins, "{}", collection());
    let night = collection();
    let count = night["number_of_shards"].as_u64().expect("a count");
    stack.until_at_rest("log", u32::try_from(count).expect("a count"));
    let night = collection();
    let epochs = night["epochs"].as_array().expect("a list");
    let counts = epochs.iter().map(|epoch| &epoch["number_of_shards"]).collect::<Vec<_>>();
    assert_eq!(counts, [&json!(1), &json!(64), &json!(count)], "{night}");
    assert!(epochs[2]["from"].as_str() > Some("000700"), "{night}");
    let read = stack.query(json!({ "pk": "log", "limit": 1_000 }));
    let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
    assert!(read.eq((0..800).map(|n| format!("{n:06}"))), "each once, and in order");
}

/// Items of a log with these numbers.
fn puts(pk: &str, numbers: Range<usize>) -> Vec<Value> {
    let sorts = numbers.map(|n| format!("{n:06}"));
    sorts.map(|sk| json!({ "pk": pk, "sk": sk, "item": { "sk": sk } })).collect()
}

/// Writes to a log of so many items until it grows. Returns what it is then, and how many items it has.
fn grown_log(stack: &LocalStack, pk: &str, past: usize) -> (Value, usize) {
    let mut written = past;
    let collection = || stack.get(&format!("/collection?pk={pk}")).json();
    for _ in 0..MOST_BATCHES {
        stack.put_all(puts(pk, written..written + BATCH));
        written += BATCH;
        if collection()["number_of_shards"] != 1 {
            break;
        }
    }
    (collection(), written)
}

/// Writes to a collection until it has four shards, and reads it back.
fn grows(placement: &str) {
    let placement = format!("Placement={placement}");
    let set = [&placement, "LeaseSecs=1", "CooldownSecs=0", "RequestLifetimeSecs=2"];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let stack = LocalStack::start(&set.chain(["--partition-wcu", "50"]).collect::<Vec<_>>());
    let most = Some(4);
    let shards = || stack.get("/collection?pk=audit").json()["number_of_shards"].as_u64();
    let mut written = BTreeSet::new();
    for batch in 0..MOST_BATCHES {
        let keys = (0..BATCH).map(|n| format!("{batch:03}-{n:03}")).collect::<Vec<_>>();
        let puts = keys.iter().map(|sk| json!({ "pk": "audit", "sk": sk, "item": { "sk": sk } }));
        stack.put_all(puts);
        written.extend(keys);
        if shards() >= most {
            break;
        }
    }
    assert!(shards() >= most, "it grew to {:?} only", shards());

    let read = stack.query(json!({ "pk": "audit", "limit": 1_000 }));
    let read = read.iter().map(|item| item["sk"].as_str().expect("a sort key").to_owned());
    let read = read.collect::<Vec<_>>();
    assert_eq!(read, written.into_iter().collect::<Vec<_>>(), "each once, and in order");
    let collection = stack.get("/collection?pk=audit").json();
    let history = collection["shard_history"].as_array().expect("a history").iter();
    let history = history.map(|entry| entry["count"].as_u64().expect("a count"));
    let history = history.collect::<Vec<_>>();
    assert!(history.starts_with(&[1]) && history.is_sorted(), "{collection}");
}
