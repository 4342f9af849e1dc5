//! The commands of operators, on tables that the real functions have written.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_aws::{ServerClock, connect_local};
use dynashard_keys::{ItemKey, PartitionKey, Placement, Separator, ShardCount, ShardId, SortKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::cloudformation::CloudFormation;
use crate::common::{
    LocalStack, Ran, on, operator_command, run, until_cleared_up, without_account,
};

/// T and H in seconds, so that a reshard closes while a test looks on.
const SHORT: [&str; 4] = ["--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2"];

/// A collection of so many shards with so many items.
fn collection(stack: &LocalStack, pk: &str, shards: u32, items: usize) {
    collection_of(stack, pk, shards, items, "");
}

/// A collection with this text in each item.
fn collection_of(stack: &LocalStack, pk: &str, shards: u32, items: usize, text: &str) {
    let created = stack.json(
        "PUT",
        &format!("/collection?pk={pk}"),
        &json!({ "placement": "xxh64", "number_of_shards": shards }),
    );
    assert_eq!(created.status, 201, "{created:?}");
    stack.until_at_rest(pk, shards);
    stack.put_all((0..items).map(
        |n| json!({ "pk": pk, "sk": format!("{n:04}"), "item": { "number": n, "text": text } }),
    ));
}

fn home(pk: &str, sk: &str, shards: u32) -> u32 {
    let key = ItemKey::new(
        PartitionKey::new(pk).expect("a partition key"),
        SortKey::string(sk).expect("a sort key"),
    );
    let count = ShardCount::new(shards).expect("a count");
    Placement::Xxh64.home(&key, count).expect("a calculated placement").get()
}

/// Puts an item by hand, around the system.
async fn put(client: &Client, pk: &str, shard: u32, sk: &str, more: &[(&str, AttributeValue)]) {
    let partition = PartitionKey::new(pk).expect("a partition key");
    let at = partition.at(ShardId::new(shard), Placement::Xxh64, Separator::default());
    let request = client
        .put_item()
        .table_name("MainTable")
        .item("pk", AttributeValue::S(at.as_str().to_owned()))
        .item("sk", AttributeValue::S(sk.to_owned()));
    let request =
        more.iter().fold(request, |request, (name, value)| request.item(*name, value.clone()));
    request.send().await.expect("a put by hand");
}

#[tokio::test]
async fn damage_made_by_hand_is_found_and_repaired() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 4, 100);
    collection(&stack, "JFK", 1, 10);

    let clean = on(&stack, &["verify", "--all", "--json"]);
    assert_eq!(clean.status, 0, "{clean:?}");
    assert_eq!(clean.stderr, "", "nothing of a progress bar without a terminal");
    let collections = clean.events("collection");
    let of = |pk: &str| collections.iter().find(|line| line["pk"] == pk).expect("a collection");
    assert_eq!((&of("EWR")["items"], &of("JFK")["items"]), (&json!(100), &json!(10)));
    assert_eq!(of("EWR")["items_by_shard"].as_object().map(serde_json::Map::len), Some(4));
    assert_eq!(
        clean.last(),
        json!({ "event": "summary", "collections": 2, "items": 110, "found": 0, "repaired": 0, "failed": 0, "clean": true })
    );

    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    until_cleared_up(&client, "pk", "EWR").await;
    let away = |sk: &str| (home("EWR", sk, 4) + 1) % 4;
    let number = |n: u64| AttributeValue::N(n.to_string());
    put(&client, "EWR", away("lost"), "lost", &[("number", number(1))]).await;
    put(&client, "EWR", away("0007"), "0007", &[("number", number(2))]).await;
    let marker = [("_ds_fwd", AttributeValue::Bool(true)), ("_ds_g", number(1))];
    put(&client, "EWR", away("0008"), "0008", &marker).await;
    put(&client, "JFK", 0, "0003", &[("_ds_g", number(9)), ("_ds_v", number(9))]).await;
    // It ended the verification of its collection, which listed none of the rest.
    put(&client, "JFK", 0, "0001", &[("_ds_g", AttributeValue::S("1".to_owned()))]).await;

    let found = on(&stack, &["verify", "--all", "--json"]);
    assert_eq!(found.status, 1, "{found:?}");
    let findings = |ran: &Ran| {
        let line = |line: &Value| {
            let key = format!("{}/{}", line["pk"].as_str()?, line["sk"].as_str()?);
            Some((key, (line["kind"].clone(), line["shard"].clone(), line["repaired"].clone())))
        };
        let lines = ran.events("finding");
        lines.iter().map(|found| line(found).expect("a finding")).collect::<BTreeMap<_, _>>()
    };
    let expected = |repaired: bool| {
        let of = |sk: &str, kind: &str| {
            (format!("EWR/{sk}"), (json!(kind), json!(away(sk)), json!(repaired)))
        };
        let ahead = ["JFK/0001", "JFK/0003"]
            .map(|key| (key.to_owned(), (json!("ahead"), json!(0), json!(false))));
        let kinds = [("lost", "misplaced"), ("0007", "duplicate"), ("0008", "stray_marker")];
        kinds.map(|(sk, kind)| of(sk, kind)).into_iter().chain(ahead).collect()
    };
    assert_eq!(findings(&found), expected(false));
    assert_eq!(stack.get("/item?pk=EWR&sk=lost").status, 404, "no client sees it");

    // What is misplaced may have been deleted.
    let certain = on(&stack, &["verify", "--all", "--repair", "--json"]);
    let lost = ("EWR/lost".to_owned(), (json!("misplaced"), json!(away("lost")), json!(false)));
    let mut expected_certain = expected(true);
    expected_certain.extend([lost.clone()]);
    assert_eq!(findings(&certain), expected_certain);
    assert_eq!(stack.get("/item?pk=EWR&sk=lost").status, 404, "--repair revived it");

    let repaired = on(&stack, &["verify", "--all", "--repair", "misplaced", "--json"]);
    assert_eq!(repaired.status, 1, "what is ahead of the metadata is left: {repaired:?}");
    let (lost, (kind, shard, _)) = lost;
    assert_eq!(findings(&repaired).get(&lost), Some(&(kind, shard, json!(true))));
    assert_eq!(stack.get("/item?pk=EWR&sk=lost").json()["number"], 1);
    assert_eq!(stack.get("/item?pk=EWR&sk=0007").json()["number"], 7);

    let after = on(&stack, &["verify", "--pk", "EWR"]);
    assert_eq!(after.status, 0, "{after:?}");
    assert!(after.stdout.starts_with("EWR: 101 items in 4 shards, xxh64, stable"), "{after:?}");
    assert!(after.stdout.ends_with("1 collection, 101 items: no findings\n"), "{after:?}");
    let left = on(&stack, &["verify", "--pk", "JFK"]);
    assert!(left.stdout.contains("shard 0, sort key \"0003\", generation 9"), "{left:?}");
    assert_eq!(left.status, 1);

    // Without its metadata item a collection is in no list: RUNBOOK.md says to name it.
    let key = AttributeValue::S("EWR".to_owned());
    client.delete_item().table_name("MetadataTable").key("pk", key).send().await.expect("a delete");
    let all = on(&stack, &["verify", "--all", "--json"]);
    assert_eq!(all.last()["collections"], json!(1), "{all:?}");
    let named = on(&stack, &["verify", "--pk", "EWR", "--json"]);
    let is_ahead = |found: &Value| found["kind"] == "ahead";
    assert!(named.status == 1 && named.events("finding").iter().any(is_ahead), "{named:?}");
}

#[test]
fn a_collection_is_scaled_and_holds_the_same_afterwards() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 2, 200);
    let digest = |stack: &LocalStack| {
        let verified = on(stack, &["verify", "--pk", "EWR", "--json"]);
        assert_eq!(verified.status, 0, "{verified:?}");
        verified.events("collection")[0]["digest"].clone()
    };
    let scale = |shards: &str, more: &[&str]| {
        let args = ["scale", "--pk", "EWR", "--shards", shards, "--json"];
        // What changed a moment ago cannot change again at once: the command waits for that.
        on(&stack, &[&args, more].concat())
    };
    let before = digest(&stack);
    let scaled = scale("7", &[]);
    assert_eq!(scaled.status, 0, "{scaled:?}");
    let states = scaled.lines().iter().map(|line| line["state"].clone()).collect::<Vec<_>>();
    // `forward` may be over before the command looks for the first time; `move` lasts for seconds.
    assert!(states.contains(&json!("move")), "{scaled:?}");
    let last = scaled.last();
    assert_eq!((&last["number_of_shards"], &last["state"]), (&json!(8), &json!("stable")));
    let moved =
        scaled.lines().iter().filter_map(|line| line["reshard"]["items_moved"].as_u64()).max();
    assert!(moved > Some(100), "three of four move: {scaled:?}");
    assert_eq!(digest(&stack), before);
    let again = scale("8", &[]);
    assert_eq!((again.status, again.lines().len()), (0, 1), "it has them: {again:?}");

    // While one runs it can be turned round and nothing else.
    let begun = scale("16", &["--no-wait"]);
    assert_eq!((begun.status, &begun.last()["state"]), (0, &json!("forward")), "{begun:?}");
    let other = scale("2", &[]);
    assert_eq!((other.status, &other.last()["code"]), (1, &json!("reshard_running")));
    assert!(other.stderr.contains("reshard_running: "), "{other:?}");
    let back = scale("8", &[]);
    assert_eq!(back.status, 0, "{back:?}");
    assert!(back.lines().iter().any(|line| line["number_of_shards"] == 16), "{back:?}");
    assert_eq!(back.last()["number_of_shards"], 8);
    assert_eq!(digest(&stack), before);
}

/// What lies behind a key gets more shards, the past stays where it is, and both are merged again.
#[test]
fn the_future_of_a_collection_grows_and_its_past_stays_where_it_is() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 200);
    let digest = || {
        let verified = on(&stack, &["verify", "--pk", "EWR", "--json"]);
        assert_eq!(verified.status, 0, "{verified:?}");
        verified.events("collection")[0]["digest"].clone()
    };
    let before = digest();
    let sorts = query_all(&stack, "EWR");
    let boundary = &*sorts[189];
    let ask = |more: &[&str]| on(&stack, &[&["scale", "--pk", "EWR", "--json"], more].concat());
    let forecast = ask(&["--shards", "4", "--from", boundary, "--dry-run"]);
    assert_eq!((forecast.status, &forecast.last()["items"]), (0, &json!(10)), "{forecast:?}");
    let grown = ask(&["--shards", "4", "--from", boundary]);
    assert_eq!(grown.status, 0, "{grown:?}");
    let epochs = json!([{ "from": null, "number_of_shards": 1 }, { "from": boundary, "number_of_shards": 4 }]);
    assert_eq!(grown.last()["epochs"], epochs, "{grown:?}");
    let moved =
        grown.lines().iter().filter_map(|line| line["reshard"]["items_moved"].as_u64()).max();
    assert!(moved <= Some(10), "at most what lies behind the key: {grown:?}");
    assert_eq!((digest(), query_all(&stack, "EWR")), (before.clone(), sorts.clone()));
    let past = ask(&["--shards", "8", "--from", &sorts[100]]);
    assert_eq!((past.status, &past.last()["code"]), (1, &json!("bad_parameter")), "{past:?}");

    let merged = ask(&["--shards", "2", "--whole"]);
    assert_eq!(merged.status, 0, "{merged:?}");
    assert_eq!(merged.last()["epochs"], json!([{ "from": null, "number_of_shards": 2 }]));
    assert_eq!((digest(), query_all(&stack, "EWR")), (before, sorts));
}

/// The sort keys of a collection as they are read back, in order.
fn query_all(stack: &LocalStack, pk: &str) -> Vec<String> {
    let read = on(stack, &["query", "--pk", pk, "--all"]);
    assert_eq!(read.status, 0, "{read:?}");
    let sorts = read.lines().into_iter().filter_map(|line| line["sk"].as_str().map(str::to_owned));
    sorts.collect()
}

#[test]
fn a_running_change_is_shown_paused_resumed_and_canceled() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 300);
    let ask = |command: &str, more: &[&str]| {
        on(&stack, &[&[command], more, &["--pk", "EWR", "--json"]].concat())
    };
    let running = || on(&stack, &["reshards", "--json"]);
    let nothing = running();
    assert_eq!((nothing.status, nothing.lines().len()), (0, 0), "{nothing:?}");
    for command in ["pause", "resume", "cancel"] {
        let none = ask(command, &[]);
        assert_eq!((none.status, &none.last()["code"]), (1, &json!("no_reshard")), "{none:?}");
    }
    let planned = ask("scale", &["--shards", "4", "--dry-run", "--rate", "400"]);
    let plan = planned.last();
    assert_eq!((&plan["items"], &plan["items_to_move"]), (&json!(300), &json!(225)), "{plan}");
    assert_eq!(plan["items_known_by"], "counted");
    assert_eq!(running().lines().len(), 0, "nothing was changed");

    // A moment before it can move anything: leases on what was before end first.
    assert_eq!(ask("scale", &["--shards", "4", "--no-wait", "--rate", "80"]).status, 0);
    let paused = ask("pause", &[]);
    let change = paused.last();
    assert_eq!((paused.status, &change["reshard"]["paused"]), (0, &json!(true)), "{paused:?}");
    assert_eq!(change["reshard"]["mover_write_units"], 80);
    while running().last()["state"] != "move" {}
    let scans = ["move", "last_scan", "close", "remove_markers"];
    assert_eq!(running().last()["next"], json!(scans));
    let status = on(&stack, &["status", "--json"]);
    let status = status.last();
    assert_eq!(status["sharded"]["largest"][0], json!({ "pk": "EWR", "number_of_shards": 4 }));
    assert_eq!(status["reshards"][0]["reshard"]["paused"], true, "{status}");
    let shown = on(&stack, &["status"]);
    assert!(shown.stdout.contains("PAUSED") && shown.stdout.contains("EWR 4"), "{shown:?}");
    let before = running().last()["reshard"]["items_moved"].clone();
    stack.put_all([json!({ "pk": "EWR", "sk": "new", "item": {} })]);
    assert_eq!(running().last()["reshard"]["items_moved"], before);
    let resumed = ask("resume", &["--rate", "default"]);
    let change = &resumed.last()["reshard"];
    assert!(change["paused"].is_null() && change["mover_write_units"].is_null(), "{resumed:?}");
    assert_eq!(ask("scale", &["--shards", "4"]).status, 0);

    assert_eq!(ask("scale", &["--shards", "16", "--no-wait"]).status, 0);
    let canceled = ask("cancel", &[]);
    assert_eq!(canceled.last()["reshard"]["then"], 4, "{canceled:?}");
    let next = canceled.last()["next"].clone();
    let next = next.as_array().expect("a list");
    // The way back begins before markers are removed, and it removes those of both.
    assert_eq!(next[next.len() - 2..], [json!("go_back"), json!("remove_markers")]);
    let again = ask("cancel", &[]);
    assert_eq!((again.status, &again.last()["reshard"]["then"]), (0, &json!(4)), "{again:?}");
    let watched = ask("reshards", &["--watch"]);
    assert_eq!(watched.status, 0, "{watched:?}");
    let last = ask("scale", &["--shards", "4"]);
    assert_eq!(last.last()["number_of_shards"], 4, "{last:?}");
    let verified = on(&stack, &["verify", "--pk", "EWR", "--json"]);
    assert_eq!(verified.status, 0, "{verified:?}");
}

/// One record that somebody had damaged hid all the others, just when an alarm on damage asks for a look.
#[tokio::test(flavor = "multi_thread")]
async fn regression_one_damaged_collection_hid_the_status_of_the_stack() {
    let stack = LocalStack::start(&SHORT);
    for key in ["EWR", "JFK"] {
        collection(&stack, key, 1, 10);
        let grown = on(&stack, &["scale", "--pk", key, "--shards", "2", "--json"]);
        assert_eq!(grown.status, 0, "{grown:?}");
    }
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let damaged = client
        .update_item()
        .table_name("MetadataTable")
        .key("pk", AttributeValue::S("EWR".to_owned()))
        .update_expression("SET number_of_shards = :n")
        .expression_attribute_values(":n", AttributeValue::S("two".to_owned()));
    damaged.send().await.expect("an edit by hand");
    let shown = on(&stack, &["status"]);
    assert!(shown.stdout.contains("sharded    2 collections: JFK 2"), "{shown:?}");
    assert!(shown.status == 1 && shown.stderr.contains("corrupt_data"), "{shown:?}");
    let shown = on(&stack, &["status", "--json"]);
    let document = shown.lines()[0].clone();
    assert_eq!(document["damaged"].as_array().map(Vec::len), Some(1), "{document}");
}

#[test]
fn the_hottest_keys_of_a_table_are_shown_whoever_it_belongs_to() {
    let limits = ["--partition-wcu", "20", "--burst-secs", "1", "--set", "ScalingMode=off"];
    let stack = LocalStack::start(&limits);
    let puts = (0..100).map(|n| json!({ "pk": "EWR", "sk": format!("{n:03}"), "item": {} }));
    let answer = stack.json("POST", "/batch-write", &json!({ "puts": puts.collect::<Vec<_>>() }));
    assert!(answer.body.contains("throttled"), "{answer:?}");
    let cloudwatch = stack.ready["cloudwatch"].as_str().expect("an address");
    let managed = on(&stack, &["top", "--cloudwatch-url", cloudwatch, "--json"]);
    let first = &managed.lines()[0];
    assert_eq!((&first["list"], &first["pk"]), (&json!("throttled"), &json!("EWR")), "{managed:?}");
    assert!(first["hottest_sk"].is_string(), "{first}");
    let any = ["top", "--table", "MainTable", "--endpoint-url", &stack.dynamodb];
    let any = run(without_account(&[&any[..], &["--cloudwatch-url", cloudwatch]].concat()));
    assert!(any.status == 0 && any.stdout.contains("EWR"), "{any:?}");
    let off = on(&stack, &["top", "--cloudwatch-url", cloudwatch, "--main-table", "MetadataTable"]);
    assert_eq!(off.status, 2, "a flag twice: {off:?}");
    let off = ["top", "--table", "MetadataTable", "--endpoint-url", &stack.dynamodb];
    let off = run(without_account(&[&off[..], &["--cloudwatch-url", cloudwatch]].concat()));
    assert!(off.status == 1 && off.stderr.contains("insights_off"), "{off:?}");
    let nowhere = on(&stack, &["top"]);
    assert!(nowhere.stderr.contains("--cloudwatch-url"), "{nowhere:?}");
}

#[test]
fn commands_are_about_what_was_kept_unless_they_are_told_otherwise() {
    let stack = LocalStack::start(&SHORT);
    let home = tempfile::tempdir().expect("a folder");
    let said = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = without_account(args);
        command.env("XDG_CONFIG_HOME", home.path()).envs(variables.iter().copied());
        run(command)
    };
    let none = said(&["reshards"], &[]);
    assert_eq!(none.status, 2, "{none:?}");
    assert!(none.stderr.contains("dynashard use"), "{none:?}");
    // The main table says which the other one is.
    let tables = ["--main-table", "MainTable"];
    let endpoint = ["--endpoint-url", &stack.dynamodb];
    let kept = said(&[&["use"], &tables[..], &endpoint].concat(), &[]);
    assert_eq!(kept.status, 0, "{kept:?}");
    assert_eq!(said(&["use", "--json"], &[]).last()["main_table"], "MainTable");
    let running = said(&["reshards"], &[]);
    assert_eq!(running.status, 0, "{running:?}");
    assert!(running.stderr.contains("as `dynashard use` has kept it"), "{running:?}");
    // Of what was kept nothing is taken then: not the server either.
    let other = [("DYNASHARD_MAIN_TABLE", "no-table"), ("DYNASHARD_METADATA_TABLE", "x")];
    let elsewhere = said(&["reshards"], &other);
    assert!(elsewhere.status == 1 && elsewhere.stderr.contains("region"), "{elsewhere:?}");
    let here = [&other[..], &[("DYNASHARD_ENDPOINT_URL", stack.dynamodb.as_str())]].concat();
    let other = said(&["reshards"], &here);
    assert!(other.status == 1 && other.stderr.contains("no-table"), "{other:?}");
    // A stack that is not there is not kept.
    let gone = said(&[&["use", "--stack-name", "gone"], &endpoint[..]].concat(), &[]);
    assert_eq!((gone.status, said(&["reshards"], &[]).status), (1, 0), "{gone:?}");
    assert_eq!(said(&["use", "--forget"], &[]).status, 0);
    assert_eq!(said(&["reshards"], &[]).status, 2);
    let file = home.path().join("dynashard").join("context.json");
    std::fs::write(file, "{ not JSON").expect("a file");
    let damaged = said(&["reshards"], &[]);
    assert!(damaged.status == 2 && damaged.stderr.contains("passed over"), "{damaged:?}");
}

#[test]
fn a_request_that_cannot_be_met_says_why_with_the_code_of_the_api() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 1);
    let code = |args: &[&str]| {
        let ran = on(&stack, &[args, &["--json"]].concat());
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        let of_failure = ran.events("error").pop().unwrap_or_else(|| panic!("{ran:?}"));
        (ran.status, of_failure["code"].as_str().expect("a code").to_owned())
    };
    let refused = |status, code: &str| (status, code.to_owned());
    let scale = ["scale", "--pk", "EWR", "--shards"];
    for shards in ["0", "65537", "257"] {
        assert_eq!(code(&[&scale[..], &[shards]].concat()), refused(1, "bad_shard_count"));
    }
    let max = [&scale[..], &["9", "--max-shards", "8"]].concat();
    assert_eq!(code(&max), refused(1, "bad_shard_count"));
    let unknown = ["scale", "--pk", "LGA", "--shards", "2"];
    assert_eq!(code(&unknown), refused(1, "collection_not_found"));
    assert_eq!(code(&["verify", "--pk", "LGA"]), refused(2, "collection_not_found"));
}

/// In a container it was reached by nobody.
#[test]
fn the_engine_listens_where_it_is_told_to() {
    let engine = LocalStack::start(&["--engine-only", "--address", "127.0.0.2"]);
    assert!(engine.dynamodb.starts_with("http://127.0.0.2:"), "{}", engine.dynamodb);
    assert!(
        LocalStack::start(&["--engine-only", "--address", "0.0.0.0"])
            .dynamodb
            .contains("127.0.0.1")
    );
    for words in [&["--address", "127.0.0.2"][..], &["--engine-only", "--port", "1"]] {
        let refused = run(without_account(&[&["local"], words].concat()));
        assert_eq!(refused.status, 2, "{refused:?}");
    }
}

#[test]
fn tables_that_cannot_be_reached_are_reported_in_one_line() {
    let stack = LocalStack::start(&["--engine-only"]);
    let verify = |args: &[&str]| run(without_account(&[&["verify", "--all"], args].concat()));
    let tables = ["--main-table", "no-table", "--metadata-table", "no-table"];
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let nobody = format!("http://{}", nobody.local_addr().expect("a port"));
    for (args, says) in [
        ([&tables[..], &["--endpoint-url", &stack.dynamodb]].concat(), "no-table"),
        ([&tables[..], &["--endpoint-url", &nobody]].concat(), "no-table"),
        ([&tables[..], &["--endpoint-url", "127.0.0.1"]].concat(), "not a URL"),
        ([&tables[..], &["--region", "eu-west-1"]].concat(), "credentials"),
        (tables.to_vec(), "region"),
    ] {
        let ran = verify(&args);
        assert_eq!((ran.status, ran.stderr.lines().count()), (2, 1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{args:?}: {ran:?}");
    }
    // It was called clean.
    let ran = verify(&[&tables[..], &["--endpoint-url", &nobody, "--json"]].concat());
    assert_eq!((ran.status, &ran.last()["failed"]), (2, &json!(1)), "{ran:?}");
    assert_eq!(ran.last()["clean"], json!(false), "{ran:?}");
    let usage = verify(&["--metadata-table", "MetadataTable"]);
    assert_eq!(usage.status, 2);
    assert!(usage.stderr.contains("--main-table"), "{usage:?}");
}

/// It died by the signal, without a word.
#[test]
fn regression_a_verification_that_was_interrupted_said_nothing() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let endpoint = format!("http://{}", silent.local_addr().expect("a port"));
    let tables = ["--main-table", "a", "--metadata-table", "b", "--endpoint-url", &endpoint];
    let mut command = without_account(&[&["verify", "--all", "--json"], &tables[..]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let _waits = silent.accept().expect("it asks");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let (told, report) =
        (String::from_utf8_lossy(&ended.stderr), String::from_utf8_lossy(&ended.stdout));
    assert!(told.starts_with("dynashard: interrupted"), "{told}");
    assert!(report.contains("\"clean\":false,\"interrupted\":true"), "{report}");
}

/// Signals were watched only once the tables had answered, and by some commands not at all.
#[test]
fn regression_commands_that_wait_for_tables_died_by_the_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    std::fs::write(&rows, "{}").expect("it writes");
    for words in [
        &["doctor"][..],
        &["decisions"],
        &["settings"],
        &["query", "--pk", "a"],
        &["export", "--all"],
        &["scale", "--pk", "a", "--shards", "2"],
        &["import", rows.to_str().expect("UTF-8")],
    ] {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let endpoint = format!("http://{}", silent.local_addr().expect("a port"));
        let tables = ["--main-table", "a", "--metadata-table", "b", "--endpoint-url", &endpoint];
        let mut command = without_account(&[words, &tables].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let _waits = silent.accept().expect("it asks");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(130), "{words:?}");
    }
}

/// The profile of the environment was asked for credentials that nobody needs here.
#[test]
fn regression_work_on_this_machine_took_an_account() {
    let stack = LocalStack::start(&["--engine-only"]);
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config");
    let profiles = "[profile sso]\nsso_start_url = https://example.awsapps.com/start\nsso_region = eu-west-1\n\
                    sso_account_id = 123456789012\nsso_role_name = Operator\nregion = eu-west-1\n\
                    [profile program]\ncredential_process = /bin/false\n";
    std::fs::write(&config, profiles).expect("it writes");
    for profile in ["sso", "program", "nobody"] {
        let tables = ["--main-table", "no-table", "--metadata-table", "no-table"];
        let verify = ["verify", "--all", "--endpoint-url", &stack.dynamodb];
        let mut command = without_account(&[&verify[..], &tables].concat());
        command.env("AWS_CONFIG_FILE", &config).env("AWS_PROFILE", profile);
        let ran = run(command);
        assert!(ran.status == 2 && ran.stderr.contains("no-table"), "{profile}: {ran:?}");
        assert!(!ran.stderr.contains("credentials:"), "{profile}: {ran:?}");
    }
}

/// Keys in the environment counted in place of the profile that was named, so that a command acted on another account.
#[test]
fn regression_a_profile_that_was_named_gave_way_to_keys_in_the_environment() {
    let stack = LocalStack::start(&["--engine-only"]);
    let cloudformation = CloudFormation::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("credentials");
    let operator = "[prod]\naws_access_key_id = operator\naws_secret_access_key = secret\n";
    std::fs::write(&keys, operator).expect("it writes");
    for profile in [None, Some("prod")] {
        let named = profile.map(|profile| ["--profile", profile]);
        let settings = ["settings", "--stack-name", "dynashard"];
        let args = settings.iter().copied().chain(named.into_iter().flatten()).collect::<Vec<_>>();
        let mut command = without_account(&args);
        command
            .env("AWS_SHARED_CREDENTIALS_FILE", &keys)
            .env("AWS_ENDPOINT_URL", &cloudformation.url)
            .env("AWS_ENDPOINT_URL_DYNAMODB", &stack.dynamodb)
            .env("AWS_ACCESS_KEY_ID", "stranger")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "eu-west-1");
        let ran = run(command);
        let is_refused = ran.stderr.contains("Missing Authentication Token");
        assert_eq!(is_refused, profile.is_none(), "{profile:?}: {ran:?}");
    }
}

/// The head of what a proxy is asked for, of a command whose environment names it.
fn asked_of_a_proxy(words: &[&str], variables: &[(&str, &str)], name: &str) -> Option<Vec<String>> {
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}", proxy.local_addr().expect("a port"));
    let tables = ["--main-table", "a", "--metadata-table", "b", "--region", "eu-west-1"];
    let mut command = without_account(&[&["settings"], words, &tables].concat());
    let has_profile = variables.iter().any(|(name, _)| *name == "AWS_PROFILE");
    if !has_profile {
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    }
    command
        .env(name, url)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    proxy.set_nonblocking(true).expect("a socket");
    loop {
        if let Ok((connection, _)) = proxy.accept() {
            connection.set_nonblocking(false).expect("a socket");
            let lines = BufReader::new(connection).lines().map(|line| line.expect("a request"));
            let head = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>();
            let _ = child.kill();
            child.wait().expect("it ends");
            return Some(head);
        }
        if child.try_wait().expect("a child").is_some() {
            return None;
        }
        std::thread::yield_now();
    }
}

#[test]
fn regression_proxies_were_never_asked() {
    let elsewhere = ["--endpoint-url", "http://dynamodb.invalid"];
    let connect = "CONNECT dynamodb.eu-west-1.amazonaws.com:443 HTTP/1.1";
    let first = |head: Option<Vec<String>>| head.map(|head| head[0].clone());
    assert_eq!(first(asked_of_a_proxy(&[], &[], "HTTPS_PROXY")).as_deref(), Some(connect));
    let post = "POST http://dynamodb.invalid/ HTTP/1.1";
    assert_eq!(first(asked_of_a_proxy(&elsewhere, &[], "HTTP_PROXY")).as_deref(), Some(post));
    let not_for = [("NO_PROXY", "localhost,.invalid")];
    assert_eq!(asked_of_a_proxy(&elsewhere, &not_for, "HTTP_PROXY"), None);
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let here = format!("http://{}", nobody.local_addr().expect("a port"));
    drop(nobody);
    assert_eq!(asked_of_a_proxy(&["--endpoint-url", &here], &[], "HTTP_PROXY"), None);
}

/// A profile that signs in had no credentials.
#[test]
fn regression_profiles_that_sign_in_could_not_be_used() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let profiles = "[profile sso@work]\nsso_session = work\nsso_account_id = 123456789012\nsso_role_name = Operator\n\
                    [sso-session work]\nsso_start_url = https://example.awsapps.com/start\nsso_region = eu-west-1\n\
                    [profile login]\nlogin_session = arn:aws:sts::123456789012:federated-user/me\n\
                    [profile role]\nrole_arn = arn:aws:iam::123456789012:role/Operator\nsource_profile = login\n\
                    [profile program]\ncredential_process = aws of a program --profile program\n";
    std::fs::write(path("config"), profiles).expect("it writes");
    // It stands in for the aws CLI, and signs as the profile that it is asked for.
    let program = "#!/bin/sh\nwhile [ \"$1\" != --profile ]; do shift; done\n\
                   echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"of $2\\\",\\\"SecretAccessKey\\\":\\\"secret\\\"}\"\n";
    std::fs::write(path("aws"), program).expect("it writes");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path("aws"), executable).expect("it is executable");
    let search = format!("{}:/usr/bin:/bin", directory.path().display());
    for profile in ["sso@work", "login", "role", "program"] {
        let config = path("config");
        let variables = [("AWS_PROFILE", profile), ("AWS_CONFIG_FILE", &config), ("PATH", &search)];
        let elsewhere = ["--endpoint-url", "http://dynamodb.invalid"];
        let head = asked_of_a_proxy(&elsewhere, &variables, "HTTP_PROXY").expect("a request");
        let signer = format!("Credential=of {profile}/");
        assert!(head.iter().any(|line| line.contains(&signer)), "{profile}: {head:?}");
    }
}

#[test]
fn a_stack_is_found_by_its_name() {
    let stack = LocalStack::start(&[
        "--set",
        "Separator=_",
        "--set",
        "LeaseSecs=3",
        "--set",
        "RequestLifetimeSecs=2",
    ]);
    collection(&stack, "EWR", 4, 20);
    let cloudformation = CloudFormation::start(&[
        ("Separator", "_"),
        ("LeaseSecs", "3"),
        ("RequestLifetimeSecs", "2"),
    ]);
    let by_name = |name: &str| {
        cloudformation.run(&stack, &["verify", "--all", "--json", "--stack-name", name])
    };
    let found = by_name("dynashard");
    assert_eq!(found.status, 0, "{found:?}");
    assert_eq!((&found.last()["collections"], &found.last()["items"]), (&json!(1), &json!(20)));
    // One of the CDK was refused: it has no parameters, and more resources than CloudFormation tells at once.
    let found = by_name("of-the-cdk");
    assert_eq!(found.status, 0, "{found:?}");
    assert_eq!((&found.last()["collections"], &found.last()["items"]), (&json!(1), &json!(20)));
    let absent = by_name("absent");
    assert_eq!(absent.status, 2);
    assert!(absent.stderr.contains("Stack with id absent does not exist"), "{absent:?}");
}

#[test]
fn the_items_of_a_collection_come_as_lines_and_go_on_behind_a_cursor() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 4, 250);
    let query = |args: &[&str]| on(&stack, &[&["query", "--pk", "EWR"], args].concat());
    let keys = |lines: &[Value]| {
        let key = |line: &Value| line["sk"].as_str().expect("a sort key").to_owned();
        lines.iter().map(key).collect::<Vec<_>>()
    };
    let expected = (0..250).map(|n| format!("{n:04}")).collect::<Vec<_>>();

    let first = query(&["--limit", "10"]);
    assert_eq!(first.status, 0, "{first:?}");
    assert_eq!(first.lines()[3], json!({ "pk": "EWR", "sk": "0003", "number": 3, "text": "" }));
    assert_eq!(keys(&first.lines()), expected[..10]);
    let cursor = first.stderr.trim().rsplit(' ').next().expect("a cursor").to_owned();
    let second = query(&["--limit", "10", "--cursor", &cursor, "--json"]);
    let mut lines = second.lines();
    let end = lines.pop().expect("the last line");
    assert_eq!(keys(&lines), expected[10..20]);
    assert_eq!((&end["items"], &end["shards"]), (&json!(10), &json!(4)));
    let rest = query(&["--all", "--cursor", end["cursor"].as_str().expect("a cursor")]);
    assert_eq!(keys(&rest.lines()), expected[20..]);
    assert_eq!(rest.stderr, "", "it is at its end, and there is no terminal");

    let some = query(&["--from", "0100", "--to", "0104", "--order", "desc", "--consistent"]);
    assert_eq!(keys(&some.lines()), ["0104", "0103", "0102", "0101", "0100"]);
    let one = query(&["--from", "0007", "--limit", "1", "--fields", "number"]);
    assert_eq!(one.lines(), [json!({ "pk": "EWR", "sk": "0007", "number": 7 })]);
    let some = query(&["--begins-with", "02", "--all", "--limit", "7", "--strategy", "parallel"]);
    let mut found = keys(&some.lines());
    found.sort();
    assert_eq!(found, expected[200..]);

    for (args, code) in [
        (&["--strategy", "zigzag"][..], "unsupported_strategy"),
        (&["--limit", "1001"], "bad_parameter"),
        (&["--order", "up"], "bad_parameter"),
        (&["--begins-with", "0", "--from", "0"], "bad_parameter"),
        (&["--cursor", "AAAA"], "bad_cursor"),
        (&["--begins-with", "0", "--cursor", &cursor], "cursor_mismatch"),
    ] {
        let refused = query(&[args, &["--json"]].concat());
        assert_eq!((refused.status, &refused.last()["code"]), (1, &json!(code)), "{refused:?}");
        // Nobody goes on by a cursor that is damaged.
        let says = refused.stderr.contains("continue with");
        assert!(code != "bad_cursor" || !says, "{refused:?}");
    }
}

/// A reader that tells items by their pk took the error for one.
#[tokio::test]
async fn regression_the_error_of_a_query_passed_for_an_item() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 30);
    let damage = [("_ds_v", AttributeValue::S("seven".to_owned()))];
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    put(&client, "EWR", 0, "0025", &damage).await;
    let ran = on(&stack, &["query", "--pk", "EWR", "--all", "--limit", "10", "--json"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    let lines = ran.lines();
    let items = lines.iter().filter(|line| line.get("pk").is_some());
    assert_eq!(items.count(), 20, "{ran:?}");
    assert_eq!(
        (&lines[20]["event"], &lines[20]["code"]),
        (&json!("error"), &json!("corrupt_data"))
    );
    assert!(lines[21]["cursor"].is_string() && lines.len() == 22, "{ran:?}");
}

/// The summary was one more line of the data.
#[test]
fn regression_the_summary_of_an_export_was_written_among_its_items() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 3);
    for stdout in ["-", "/dev/stdout"] {
        let ran = on(&stack, &["export", "--all", "--json", "--output", stdout]);
        let codes = ran.lines().iter().map(|line| line["code"].clone()).collect::<Vec<_>>();
        assert_eq!((ran.status, codes), (1, vec![json!("bad_parameter")]), "{ran:?}");
    }
}

#[test]
fn a_query_that_is_interrupted_says_where_to_go_on() {
    let stack = LocalStack::start(&SHORT);
    // More than a pipe holds, so that the command waits for its reader.
    let items = 1_000;
    collection_of(&stack, "EWR", 2, items, &"x".repeat(2_000));
    let start = || {
        let args = ["query", "--pk", "EWR", "--all", "--limit", "10"];
        let mut command = operator_command(&stack, &args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let sort_keys = |text: &str| {
        let line = |line| serde_json::from_str::<Value>(line).expect("JSON");
        let lines = text.lines().map(line);
        lines.map(|item| item["sk"].as_str().expect("a sort key").to_owned()).collect::<Vec<_>>()
    };

    let mut child = start();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut printed = String::new();
    stdout.read_line(&mut printed).expect("a first item");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    stdout.read_to_string(&mut printed).expect("what it had read");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
    let cursor =
        stderr.trim().strip_prefix("dynashard: continue with --cursor ").expect("a cursor");
    let mut found = sort_keys(&printed);
    assert!(found.len() < items, "it was interrupted");
    let rest = on(&stack, &["query", "--pk", "EWR", "--all", "--cursor", cursor]);
    found.extend(sort_keys(&rest.stdout));
    assert_eq!(found, (0..items).map(|n| format!("{n:04}")).collect::<Vec<_>>());

    // `head` has its lines.
    let mut child = start();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a first item");
    drop(stdout);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

/// What was not printed passed for done.
#[test]
fn regression_a_report_was_lost_in_silence() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (rows, copy) = (path("rows.jsonl"), path("copy.jsonl"));
    std::fs::write(&rows, "{\"pk\":\"EWR\",\"sk\":\"new\"}\n").expect("it writes");
    let full = |mut command: std::process::Command| {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is of Linux");
        let ended = command.stdout(full).output().expect("it runs");
        let told = String::from_utf8(ended.stderr).expect("UTF-8");
        assert!(told.contains("output_failed: stdout"), "{command:?}: {told}");
        assert_eq!(ended.status.code(), Some(1), "{command:?}: {told}");
        told
    };
    for words in [
        &["verify", "--all"][..],
        &["decisions"],
        &["settings"],
        &["doctor"],
        &["query", "--pk", "EWR"],
        &["import", &rows],
        &["scale", "--pk", "EWR", "--shards", "1"],
    ] {
        full(operator_command(&stack, words));
        full(operator_command(&stack, &[words, &["--json"]].concat()));
    }
    let told = full(operator_command(&stack, &["export", "--all"]));
    assert!(told.contains("stdout holds less than"), "{told}");
    full(operator_command(&stack, &["export", "--all", "--output", &copy, "--json"]));
    let adopt = ["adopt", "--table", "MainTable", "--endpoint-url", &stack.dynamodb];
    full(without_account(&adopt));
    full(without_account(&[&adopt[..], &["--json"]].concat()));
    for words in [&["--help"][..], &["--version"], &["keys", "decode", "a"]] {
        full(without_account(words));
    }
}

/// Nobody reads what is printed: the command ends as it would have, without a panic.
#[test]
fn a_closed_stdout_is_no_reason_to_fail() {
    let stack = LocalStack::start(&SHORT);
    collection(&stack, "EWR", 1, 1);
    let mut command = operator_command(&stack, &["verify", "--all"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success());
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
