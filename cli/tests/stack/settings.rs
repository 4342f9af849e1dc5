//! Settings that are pinned: functions and commands that differ do nothing, and T changes by a command.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_aws::{DynamoRecordStore, ServerClock, connect_local};
use dynashard_aws_operator::Caller;
use dynashard_client::{Client, InProcess};
use dynashard_core::ports::{Change, ReadRecords, RecordStore};
use dynashard_core::{DirectoryItem, Pinned, PinnedTime, Settings, TableSchema};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::users;
use crate::common::cloudformation::CloudFormation;
use crate::common::{Answer, LocalStack, Ran, dynashard, on, operator_command, run};
use crate::tables;

fn start(data: &str, lease_secs: u32) -> LocalStack {
    let lease = format!("LeaseSecs={lease_secs}");
    let settings = ["--set", lease.as_str(), "--set", "RequestLifetimeSecs=2"];
    LocalStack::start(&[&["--data-dir", data], &settings[..]].concat())
}

/// A stack that is not expected to become ready.
fn local(args: &[&str]) -> Ran {
    let ports = ["local", "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0"];
    run(dynashard(&[&ports, args].concat()))
}

/// Tables by their names, without functions.
async fn tables_alone() -> (LocalStack, aws_sdk_dynamodb::Client) {
    let stack = LocalStack::start(&["--engine-only"]);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "MainTable", &[("pk", "S"), ("sk", "S")]).await;
    tables::create(&client, "MetadataTable", &[("pk", "S")]).await;
    (stack, client)
}

/// Pins the default settings with another T.
async fn pin(client: &aws_sdk_dynamodb::Client, lease_term: PinnedTime) {
    let table = "MetadataTable".to_owned();
    let metadata = DynamoRecordStore::new(client.clone(), table, &TableSchema::default());
    let seen = metadata.get::<DirectoryItem>(&()).await.expect("a read").value.unwrap_or_default();
    let pinned = Pinned { lease_term, ..Pinned::of(&Settings::default()) };
    metadata
        .commit(&[Change::of_directory(&seen, seen.with_pinned(pinned))])
        .await
        .expect("they are pinned");
}

fn put(stack: &LocalStack) -> Answer {
    stack.json("PUT", "/item?pk=EWR&sk=1", &json!({ "dest": "ORD" }))
}

/// What is pinned of T, as the command shows it.
fn lease_secs(shown: &Ran) -> Value {
    assert_eq!(shown.status, 0, "{shown:?}");
    shown.last()["lease_secs"].clone()
}

#[test]
fn whoever_differs_does_nothing_until_the_settings_are_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("UTF-8");
    let stack = start(data, 1);
    assert_eq!(put(&stack).status, 200);
    assert_eq!(
        lease_secs(&on(&stack, &["settings", "--json"])),
        json!({"accepted":1,"next":null,"longest":1})
    );
    let differs = on(&stack, &["verify", "--pk", "EWR", "--lease-secs", "2", "--separator", "_"]);
    for part in ["settings_mismatch", "Separator is _, pinned is #~", "LeaseSecs is 2, pinned is 1"]
    {
        assert!(differs.stderr.contains(part), "{differs:?}");
    }
    stack.end(Signal::TERM);

    // The stack said that it is ready, and then refused every request.
    let refused =
        local(&["--data-dir", data, "--set", "LeaseSecs=2", "--set", "RequestLifetimeSecs=2"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{refused:?}");
    for part in ["settings_mismatch", "LeaseSecs is 2, pinned is 1", "dynashard settings"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }

    let stack = start(data, 1);
    let announced = on(&stack, &["settings", "--set", "LeaseSecs=2", "--json"]);
    assert_eq!(lease_secs(&announced), json!({"accepted":1,"next":2,"longest":2}));
    assert!(announced.stderr.contains("--deployed"), "{announced:?}");
    stack.end(Signal::TERM);

    let stack = start(data, 2);
    assert_eq!(put(&stack).status, 200, "both are accepted");
    let changed = on(&stack, &["settings", "--set", "LeaseSecs=2", "--deployed", "--json"]);
    assert_eq!(lease_secs(&changed), json!({"accepted":2,"next":null,"longest":2}));
    let scaled = on(&stack, &["scale", "--pk", "EWR", "--shards", "4"]);
    assert_eq!(scaled.status, 0, "{scaled:?}");
}

#[test]
fn regression_a_stack_without_its_table_said_that_it_was_ready() {
    let refused = local(&["--set", "ExistingMainTable=nope"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{refused:?}");
    assert!(refused.stderr.contains("there is no table nope"), "{refused:?}");
}

#[test]
fn a_change_waits_for_the_stack_and_can_be_refused() {
    let stack = LocalStack::start(&["--set", "LeaseSecs=2", "--set", "RequestLifetimeSecs=2"]);
    assert_eq!(put(&stack).status, 200);
    // As CloudFormation shows it when the stack has been deployed.
    let cloudformation = CloudFormation::start(&[("LeaseSecs", "1"), ("RequestLifetimeSecs", "2")]);
    let settings = |more: &[&str]| {
        let args = ["settings", "--stack-name", "dynashard", "--json"];
        cloudformation.run(&stack, &[&args, more].concat())
    };
    let changed = settings(&["--set", "LeaseSecs=1"]);
    assert_eq!(lease_secs(&changed), json!({"accepted":1,"next":null,"longest":1}));
    assert_eq!(put(&stack).code(), "settings_mismatch", "it was deployed with the old value");
    for (change, why) in [
        ("LeaseSecs=0", "between 1 and 60 seconds"),
        ("LeaseSecs=61", "between 1 and 60 seconds"),
        ("RequestLifetimeSecs=2000", "between 1 and 1800 seconds"),
        ("Separator=_", "Separator cannot be changed"),
        ("LeaseSecs", "NAME=SECS"),
    ] {
        let refused = settings(&["--set", change]);
        assert_ne!(refused.status, 0, "{change}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
}

/// It took the old value of both that were accepted, and each of its operations was a `settings_mismatch` once only the new
/// one was.
#[tokio::test]
async fn regression_a_client_that_connected_during_a_change_stopped_after_it() {
    let (stack, client) = tables_alone().await;
    let (old, new) = (PinnedTime::only(Duration::from_secs(1)), Duration::from_secs(2));
    pin(&client, old.accepting(new)).await;
    let endpoint_url = Some(stack.dynamodb.clone());
    let caller = Caller { endpoint_url, ..Caller::default() };
    let connected = InProcess::connect(&caller, "MainTable", "MetadataTable").await;
    let connected = Client::new(connected.expect("both are accepted"));
    pin(&client, old.accepting(new).accepting_only(new)).await;
    assert!(users::tour(&connected, "abc").await.is_ok());
}

/// Commands that began on tables without pinned settings went on with the defaults when the stack had pinned
/// its own.
#[tokio::test]
async fn regression_whoever_waited_for_settings_did_not_take_them() {
    let (stack, client) = tables_alone().await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = client.put_item().table_name("MainTable");
    put.item("pk", text("EWR")).item("sk", text("0")).send().await.expect("a put by hand");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("flights.jsonl");
    fs::write(&file, "{\"pk\":\"EWR\",\"sk\":\"1\"}\n").expect("it is written");
    let file = file.to_str().expect("UTF-8");

    let begun = [&["scale", "--pk", "EWR", "--shards", "1"][..], &["import", file]].map(|args| {
        let mut command = operator_command(&stack, args);
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let waits = |line: String| line.contains("waiting for the stack's functions");
        assert!(said.by_ref().lines().map_while(Result::ok).any(waits), "{args:?}");
        (child, said)
    });
    pin(&client, PinnedTime::only(Duration::from_secs(1))).await;
    for (child, mut said) in begun {
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(status(child), Some(0), "{rest}");
    }
}

fn status(mut child: Child) -> Option<i32> {
    child.wait().expect("it ends").code()
}
