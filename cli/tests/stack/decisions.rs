//! `dynashard decisions` on histories in the tables of a local stack.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_aws::{Client, DynamoRecordStore, ServerClock, connect_local};
use dynashard_core::ports::{Change, ReadRecords, RecordStore};
use dynashard_core::{DecisionHistory, DecisionRecord, TableSchema};
use dynashard_keys::PartitionKey;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{LocalStack, Ran, on, operator_command};

/// The stack and its metadata table. Nothing in it decides by itself.
struct Tables {
    stack: LocalStack,
    client: Client,
    metadata: DynamoRecordStore,
}

impl Tables {
    async fn start() -> Self {
        let stack = LocalStack::start(&["--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2"]);
        // Flags name no settings, so commands take the pinned ones.
        stack.until_swept();
        let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
        let (table, schema) = ("MetadataTable".to_owned(), TableSchema::default());
        let metadata = DynamoRecordStore::new(client.clone(), table, &schema);
        Self { stack, client, metadata }
    }

    /// Puts these records in place of what a collection has.
    async fn save(&self, pk: &str, records: Vec<DecisionRecord>) {
        let partition = PartitionKey::new(pk).expect("a partition key");
        let seen = self.metadata.get::<DecisionHistory>(&partition).await.expect("a read");
        let seen = seen.value.unwrap_or_default();
        let next = DecisionHistory { rev: seen.rev + 1, records };
        self.metadata
            .commit(&[Change::of_decisions(&partition, &seen, next)])
            .await
            .expect("it is saved");
    }

    /// Damages a history by hand.
    async fn damage(&self, pk: &str) {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        self.client
            .put_item()
            .table_name("MetadataTable")
            .item("pk", text(&format!("_ds_decisions#{pk}")))
            .item("_ds_decisions", text("_ds_decisions"))
            .item("rev", text("one"))
            .send()
            .await
            .expect("a put by hand");
    }

    fn decisions(&self, args: &[&str]) -> Ran {
        on(&self.stack, &[&["decisions"], args].concat())
    }
}

/// 2026-11-22T19:08:51Z
const AT: u64 = 1_795_374_531;

fn grown(at_secs: u64) -> DecisionRecord {
    DecisionRecord {
        at_secs,
        last_secs: at_secs,
        times: 1,
        by: "writer".to_owned(),
        diagnosis: "hot_key".to_owned(),
        access: "write".to_owned(),
        action: "grow".to_owned(),
        outcome: "begun".to_owned(),
        hindrance: None,
        bound: Some("step".to_owned()),
        from: 1,
        to: Some(16),
        demand: 12_000,
        granted: 990,
        capacity: 1_000,
        hottest_percent: Some(3),
        reason: "clients ask for 12000 write units a second, and its one shard takes 1000"
            .to_owned(),
    }
}

fn refused(at_secs: u64) -> DecisionRecord {
    DecisionRecord {
        last_secs: at_secs + 120,
        times: 3,
        by: "alarm".to_owned(),
        outcome: "nothing_to_do".to_owned(),
        action: "none".to_owned(),
        hindrance: Some("cooldown".to_owned()),
        bound: None,
        to: None,
        hottest_percent: None,
        reason: "clients ask for 900 write units a second".to_owned(),
        ..grown(at_secs)
    }
}

/// The keys and times of the decisions in a document.
fn shown(document: &Value) -> Vec<(String, u64)> {
    let decisions = document["decisions"].as_array().expect("a list").iter();
    let one = |decision: &Value| {
        let pk = decision["pk"].as_str().expect("a key").to_owned();
        (pk, decision["last"].as_u64().expect("a second"))
    };
    decisions.map(one).collect()
}

#[tokio::test]
async fn decisions_are_listed_newest_first_with_all_that_is_kept() {
    let tables = Tables::start().await;
    let none = tables.decisions(&[]);
    assert_eq!((none.status, none.stdout.as_str()), (0, "nothing was decided\n"), "{none:?}");
    tables.save("EWR", vec![grown(AT), refused(AT + 60)]).await;
    tables.save("JFK", vec![grown(AT + 100)]).await;

    let table = tables.decisions(&[]);
    assert_eq!((table.status, table.stderr.as_str()), (0, ""), "{table:?}");
    let lines = table.stdout.lines().collect::<Vec<_>>();
    let [heading, first, second, third] = lines[..] else { panic!("{table:?}") };
    assert!(heading.starts_with("TIME                  KEY  SHARDS  DONE"), "{table:?}");
    assert!(first.starts_with("2026-11-22T19:11:51Z  EWR  1       cooldown  hot_key"), "{table:?}");
    assert!(first.ends_with("a second (noted 3 times since 2026-11-22T19:09:51Z)"), "{table:?}");
    assert!(second.starts_with("2026-11-22T19:10:31Z  JFK  1 > 16  grow "), "{table:?}");
    assert!(third.starts_with("2026-11-22T19:08:51Z  EWR  1 > 16  grow "), "{table:?}");
    assert!(third.contains("  12000/1000  ") && third.ends_with("its one shard takes 1000"));

    let document = tables.decisions(&["--json"]);
    assert_eq!((document.status, document.lines().len()), (0, 1), "{document:?}");
    let document = document.last();
    let keys = |pk: &str, last: u64| (pk.to_owned(), last);
    let all = [keys("EWR", AT + 180), keys("JFK", AT + 100), keys("EWR", AT)];
    assert_eq!(shown(&document), all);
    assert_eq!((&document["left_out"], &document["damaged"]), (&json!(0), &json!([])));
    let whole = json!({
        "pk": "EWR", "at": AT, "last": AT, "times": 1, "by": "writer", "diagnosis": "hot_key",
        "access": "write", "action": "grow", "outcome": "begun", "hindrance": null, "bound": "step",
        "from": 1, "to": 16, "demand": 12_000, "granted": 990, "capacity": 1_000,
        "hottest_percent": 3, "reason": grown(AT).reason,
    });
    assert_eq!(document["decisions"][2], whole);

    let some = |args: &[&str]| shown(&tables.decisions(&[args, &["--json"]].concat()).last());
    assert_eq!(some(&["--pk", "JFK"]), all[1..2]);
    assert_eq!(some(&["--since", &(AT + 100).to_string()]), all[..2]);
    // The records are of a time that may be to come where the test runs.
    assert_eq!(some(&["--since", "36500d"]), all);
    let two = tables.decisions(&["--limit", "2", "--json"]).last();
    assert_eq!((shown(&two), &two["left_out"]), (all[..2].to_vec(), &json!(1)));
    let two = tables.decisions(&["--limit", "2"]);
    assert!(two.stdout.ends_with("and 1 older; --limit shows more\n"), "{two:?}");

    // As many as are kept, of so many collections that they take several pages.
    let kept = || (0..30).map(|n| grown(AT + 1_000 + n)).collect();
    for n in 0..100 {
        tables.save(&format!("page {n}"), kept()).await;
    }
    let whole = tables.decisions(&["--limit", "5000", "--json"]).last();
    assert_eq!(whole["decisions"].as_array().map(Vec::len), Some(3_003));
    let newest = tables.decisions(&["--json"]).last();
    assert_eq!((shown(&newest).len(), &newest["left_out"]), (100, &json!(2_903)));
    assert!(shown(&newest).iter().all(|(_, last)| *last == AT + 1_029), "{newest}");
}

#[tokio::test]
async fn histories_that_are_damaged_are_named_beside_the_others() {
    let tables = Tables::start().await;
    tables.save("EWR", vec![grown(AT)]).await;
    tables.damage("JFK").await;
    let document = tables.decisions(&["--json"]);
    assert_eq!((document.status, shown(&document.last()).len()), (2, 1), "{document:?}");
    assert_eq!(document.last()["damaged"].as_array().map(Vec::len), Some(1), "{document:?}");
    assert_eq!(document.stderr.lines().count(), 1, "{document:?}");
    for part in ["corrupt_data", "JFK", "rev"] {
        assert!(document.stderr.contains(part), "{document:?}");
    }
    let one = tables.decisions(&["--pk", "JFK"]);
    assert_eq!((one.status, one.stdout.as_str()), (2, "nothing was decided\n"), "{one:?}");
    assert!(one.stderr.contains("corrupt_data"), "{one:?}");
}

#[tokio::test]
async fn what_is_followed_comes_as_it_is_decided_until_it_is_interrupted() {
    let tables = Tables::start().await;
    tables.save("EWR", vec![grown(AT)]).await;
    for (args, is_json) in [(&["--follow"][..], false), (&["--follow", "--json"], true)] {
        let args = [&["decisions"], args].concat();
        let mut command = operator_command(&tables.stack, &args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        let says = |line: &str, pk: &str, diagnosis: &str| {
            if is_json {
                let line = serde_json::from_str::<Value>(line).expect("JSON");
                assert_eq!(line["event"], "decision");
                assert_eq!((&line["pk"], &line["diagnosis"]), (&json!(pk), &json!(diagnosis)));
            } else {
                assert!(line.contains(&format!("Z  {pk}  1")), "{line}");
                assert!(line.contains(&format!("  {diagnosis}  ")), "{line}");
            }
        };
        says(&next(), "EWR", "hot_key");

        let item = DecisionRecord { diagnosis: "hot_item".to_owned(), ..refused(AT + 300) };
        tables.save("EWR", vec![grown(AT), item.clone()]).await;
        says(&next(), "EWR", "hot_item");
        let again = DecisionRecord { last_secs: item.last_secs + 60, times: 4, ..item };
        tables.save("EWR", vec![grown(AT), again]).await;
        let line = next();
        says(&line, "EWR", "hot_item");
        assert!(line.contains(if is_json { "\"times\":4" } else { "noted 4 times" }), "{line}");
        let key = if is_json { "LGA" } else { "JFK" };
        tables.save(key, vec![grown(AT + 400)]).await;
        says(&next(), key, "hot_key");

        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!((ended.status.code(), ended.stderr.len()), (Some(130), 0));
        assert!(lines.next().is_none(), "each came once");
        // The next round begins with what this one began with.
        tables.save("EWR", vec![grown(AT)]).await;
        tables.save(key, Vec::new()).await;
    }
}

#[tokio::test]
async fn bad_input_says_what_is_wrong_with_it() {
    let tables = Tables::start().await;
    let unknown = tables.decisions(&["--pk", "LGA", "--json"]);
    assert_eq!((unknown.status, unknown.stderr.lines().count()), (1, 1), "{unknown:?}");
    let error = unknown.last();
    assert_eq!(
        (&error["event"], &error["code"]),
        (&json!("error"), &json!("collection_not_found"))
    );
    let put = tables.stack.json("PUT", "/item?pk=LGA&sk=1", &json!({}));
    assert_eq!(put.status, 200, "{put:?}");
    let silent = tables.decisions(&["--pk", "LGA"]);
    assert_eq!((silent.status, silent.stdout.as_str()), (0, "nothing was decided\n"), "{silent:?}");
    for (args, says) in [
        (["--since", "yesterday"], "6h"),
        (["--since", "-1h"], "--since"),
        (["--limit", "0"], "--limit"),
        (["--pk", "_ds_job#EWR"], "_ds_"),
        (["--pk", ""], "--pk"),
    ] {
        let refused = tables.decisions(&args);
        assert_eq!(refused.status, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(says), "{args:?}: {refused:?}");
    }
}
