//! A table that other programs have written is adopted in place: its plain clients go on reading, a hot
//! key of it grows under load, and it becomes plain again.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use dynashard_aws::{ServerClock, connect_local};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{LocalStack, Ran, run, until_cleared_up, without_account};
use crate::tables;

const TABLE: &str = "flights-of-2013";

/// The airport that becomes hot, and one that the team leaves to its old code.
const HOT: &str = "FLIGHT#EWR";
const OTHER: &str = "CREW#EWR";

type Item = HashMap<String, AttributeValue>;

/// A stack on a table that was there before.
async fn stack(data: &str) -> LocalStack {
    let engine = LocalStack::start(&["--engine-only", "--data-dir", data]);
    let client = plain_client(&engine).await;
    tables::create(&client, TABLE, &[("airport", "S"), ("departure", "S")]).await;
    engine.end(Signal::TERM);
    let settings = [
        &format!("ExistingMainTable={TABLE}"),
        "PartitionKeyName=airport",
        "SortKeyName=departure",
        "GrowKeys=FLIGHT#*",
        "LeaseSecs=1",
        "CooldownSecs=0",
        "RequestLifetimeSecs=2",
    ];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let others = ["--data-dir", data, "--partition-wcu", "100"];
    LocalStack::start(&settings.chain(others).collect::<Vec<_>>())
}

/// A client of DynamoDB that knows nothing of shards.
async fn plain_client(stack: &LocalStack) -> Client {
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let retries = RetryConfig::standard().with_max_attempts(20);
    Client::from_conf(client.config().to_builder().retry_config(retries).build())
}

fn departure(number: usize) -> String {
    format!("2013-01-{:02}#UA{number:04}", number / 50 + 1)
}

/// A flight with an attribute of each kind, and with some that are called as keys are elsewhere.
fn flight(airport: &str, number: usize) -> Item {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    Item::from([
        ("airport".to_owned(), text(airport)),
        ("departure".to_owned(), text(&departure(number))),
        ("pk".to_owned(), text("not a key here")),
        ("sk".to_owned(), AttributeValue::N(number.to_string())),
        ("delay".to_owned(), AttributeValue::N("-3.5".to_owned())),
        (
            "large".to_owned(),
            AttributeValue::N("12000000000000000000000000000000000000".to_owned()),
        ),
        ("tags".to_owned(), AttributeValue::Ss(vec!["a".to_owned(), "b".to_owned()])),
        ("raw".to_owned(), AttributeValue::B(vec![0, 255].into())),
        ("crew".to_owned(), AttributeValue::M(Item::from([("pilot".to_owned(), text("x"))]))),
    ])
}

async fn load(client: &Client, items: Vec<Item>) {
    let writes = items.into_iter().map(|item| {
        let put = PutRequest::builder().set_item(Some(item)).build().expect("a put");
        WriteRequest::builder().put_request(put).build()
    });
    let writes = writes.collect::<Vec<_>>();
    for chunk in writes.chunks(25) {
        let mut left = chunk.to_vec();
        while !left.is_empty() {
            let answer = client.batch_write_item().request_items(TABLE, left).send().await;
            let answer = answer.expect("a batch");
            left = answer.unprocessed_items.unwrap_or_default().remove(TABLE).unwrap_or_default();
        }
    }
}

/// A collection as a plain client reads it: a query of one partition key, page by page.
async fn plain_query(client: &Client, airport: &str) -> Vec<Item> {
    let query = client.query().table_name(TABLE).key_condition_expression("airport = :a");
    let query = query.expression_attribute_values(":a", AttributeValue::S(airport.to_owned()));
    let pages = query.consistent_read(true).into_paginator().items().send();
    pages.collect::<Result<Vec<_>, _>>().await.expect("a query")
}

/// Without what the system adds.
fn plain(items: &[Item]) -> Vec<BTreeMap<&String, &AttributeValue>> {
    let is_own = |name: &String| !name.starts_with("_ds_");
    items.iter().map(|item| item.iter().filter(|(name, _)| is_own(name)).collect()).collect()
}

fn on(stack: &LocalStack, args: &[&str]) -> Ran {
    let tables = ["--main-table", TABLE, "--metadata-table", "MetadataTable"];
    run(without_account(&[args, &tables, &["--endpoint-url", &stack.dynamodb]].concat()))
}

fn path(airport: &str, number: usize) -> String {
    let encoded = |text: &str| text.replace('#', "%23");
    format!("/item?pk={}&sk={}", encoded(airport), encoded(&departure(number)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_adopted_grows_and_becomes_plain_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let stack = stack(directory.path().to_str().expect("UTF-8")).await;
    let client = plain_client(&stack).await;
    let flights = (0..400).map(|number| flight(HOT, number)).collect::<Vec<_>>();
    let others = (0..20).map(|number| flight(OTHER, number)).collect::<Vec<_>>();
    load(&client, [flights.clone(), others.clone()].concat()).await;

    // Items that carry nothing of the system's are like any others.
    let first = stack.get(&format!("{}&consistent=true", path(HOT, 0)));
    assert_eq!(first.status, 200, "{first:?}");
    let expected = json!({
        "airport": HOT, "departure": departure(0), "pk": "not a key here", "sk": 0, "delay": -3.5,
        "large": 1.2e37, "tags": ["a", "b"], "raw": "AP8=", "crew": { "pilot": "x" },
    });
    assert_eq!(first.json(), expected);
    let etag = first.etag.expect("a version");
    let patched = stack.send(
        "PATCH",
        &path(HOT, 0),
        &[("content-type", "application/merge-patch+json"), ("if-match", &etag)],
        Some(r#"{"pk":"changed"}"#),
    );
    assert_eq!(patched.status, 200, "{patched:?}");
    let again = stack.send("DELETE", &path(HOT, 0), &[("if-match", &etag)], None);
    assert_eq!(again.status, 412, "it is another version: {again:?}");
    assert_eq!(stack.send("DELETE", &path(HOT, 1), &[("if-match", "*")], None).status, 204);
    let mut flights = flights;
    flights.remove(1);
    flights[0].insert("pk".to_owned(), AttributeValue::S("changed".to_owned()));
    assert_eq!(plain(&plain_query(&client, HOT).await), plain(&flights), "as plain clients see it");

    // It grows while dynashard's clients write, and what the team has left alone does not.
    let shards = |airport: &str| {
        let collection = stack.get(&format!("/collection?pk={}", airport.replace('#', "%23")));
        collection.json()["number_of_shards"].as_u64()
    };
    let mut added = 400;
    while shards(HOT) == Some(1) {
        let more = (added..added + 150).map(|number| {
            let item = json!({ "pk": "not a key here", "sk": number });
            json!({ "pk": HOT, "sk": departure(number), "item": item })
        });
        stack.put_all(more);
        added += 150;
        assert!(added < 9_000, "it does not grow");
    }
    let scaled =
        stack.json("POST", "/collection/scale?pk=CREW%23EWR", &json!({ "number_of_shards": 4 }));
    assert_eq!((scaled.status, scaled.code().as_str()), (409, "collection_not_allowed"));
    let waited =
        on(&stack, &["scale", "--pk", HOT, "--shards", &shards(HOT).expect("a count").to_string()]);
    assert_eq!(waited.status, 0, "{waited:?}");
    let verified = on(&stack, &["verify", "--all", "--json"]);
    assert_eq!((verified.status, &verified.last()["clean"]), (0, &json!(true)), "{verified:?}");
    let read = stack.query(json!({ "pk": HOT, "limit": 1_000 }));
    let departures = |items: &[Value]| {
        let of = |item: &Value| item["departure"].as_str().expect("a sort key").to_owned();
        items.iter().map(of).collect::<Vec<_>>()
    };
    let mut expected = (0..added).filter(|number| *number != 1).map(departure).collect::<Vec<_>>();
    expected.sort();
    assert_eq!(departures(&read), expected, "each once, and in order");
    // Markers of items that have moved may lie there still.
    let at_the_key = plain_query(&client, HOT).await;
    let live = at_the_key.iter().filter(|item| !item.contains_key("_ds_fwd")).count();
    assert!(live < expected.len(), "others lie in other shards");

    // And back.
    let back = on(&stack, &["scale", "--pk", HOT, "--shards", "1"]);
    assert_eq!(back.status, 0, "{back:?}");
    until_cleared_up(&client, "airport", HOT).await;
    let in_the_end = plain_query(&client, HOT).await;
    let old = in_the_end.iter().filter(|item| item.contains_key("crew")).cloned();
    assert_eq!(plain(&old.collect::<Vec<_>>()), plain(&flights), "untouched but for _ds_");
    let read = in_the_end.iter().map(|item| item["departure"].as_s().expect("text").clone());
    assert_eq!(read.collect::<Vec<_>>(), expected, "by a plain client, each once");
    let scan = client.scan().table_name(TABLE).into_paginator().items().send();
    let everything = scan.collect::<Result<Vec<_>, _>>().await.expect("a scan");
    let owners = everything.iter().filter(|item| item.contains_key("_ds_owner")).count();
    let items = everything.len() - owners;
    assert_eq!((items, owners), (expected.len() + others.len(), 1), "and nothing else");
}
