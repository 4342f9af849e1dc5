//! `dynashard rotate` and `dynashard query --series`, by a clock that the test moves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{
    AttributeValue, GlobalSecondaryIndex, KeyType, Projection, ProjectionType,
    ProvisionedThroughput, PutRequest, StreamSpecification, StreamViewType, TableClass, Tag,
    TimeToLiveSpecification, WriteRequest,
};
use dynashard_aws::{ServerClock, connect_local};
use dynashard_keys::{TablePeriod, TimeTables};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::stream::{self, StreamExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use time::macros::format_description;
use time::{Date, Duration};

use crate::common::{LocalStack, Ran, checkout, run, without_account};
use crate::tables::{self, definition, element};

/// Sort keys of each partition key, by table.
type Flights = BTreeMap<String, BTreeSet<(String, String)>>;

/// Three months of flights, by the table that is theirs: every ninth of the file's month, and again 31 and 62 days later.
fn flights() -> Flights {
    let months = TimeTables::new("flights", TablePeriod::Month).expect("a series");
    let day = format_description!("[year]-[month]-[day]");
    let file = File::open(checkout().join("data/flights-2013-01.csv.gz")).expect("the flights");
    let mut flights = Flights::new();
    for record in csv::Reader::from_reader(GzDecoder::new(file)).records().step_by(9) {
        let record = record.expect("a flight");
        let (on, hour) = record[0].split_at(10);
        for month in 0..3 {
            let date = Date::parse(on, day).expect("a day") + Duration::days(31 * month);
            let departure = format!("{date}{hour}#{}{}", &record[3], &record[4]);
            let table = months.of(date).expect("a table");
            flights.entry(table).or_default().insert((record[1].to_owned(), departure));
        }
    }
    flights
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// A client that is patient with a machine that is busy.
async fn client_of(stack: &LocalStack) -> Client {
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let retries = RetryConfig::standard().with_max_attempts(20);
    Client::from_conf(client.config().to_builder().retry_config(retries).build())
}

async fn put_all(client: &Client, table: &str, keys: &BTreeSet<(String, String)>) {
    let put = |(origin, departure): &(String, String)| {
        let put = PutRequest::builder().item("origin", text(origin));
        let put = put.item("departure", text(departure)).item("carrier", text(&departure[21..23]));
        WriteRequest::builder().put_request(put.build().expect("a put")).build()
    };
    let writes = keys.iter().map(put).collect::<Vec<_>>();
    let batches = writes
        .chunks(25)
        .map(|batch| client.batch_write_item().request_items(table, batch.to_vec()).send());
    let mut answers = stream::iter(batches).buffer_unordered(8);
    while let Some(answer) = answers.next().await {
        assert!(answer.expect("a batch").unprocessed_items.is_none_or(|left| left.is_empty()));
    }
}

fn tag(series: &str) -> Tag {
    Tag::builder().key("dynashard:series").value(series).build().expect("a tag")
}

fn rotate(stack: &LocalStack, args: &[&str]) -> Ran {
    run(without_account(&[&["rotate", "--json", "--endpoint-url", &stack.dynamodb], args].concat()))
}

/// The steps that a rotation took, or that are planned.
fn steps(ran: &Ran) -> Vec<String> {
    assert_eq!(ran.status, 0, "{ran:?}");
    let lines = ran.lines().into_iter().filter(|line| line["event"] != "summary");
    let says = |line: Value| {
        let of = |name: &str| line[name].as_str().expect("text").to_owned();
        format!("{} {}", of("step"), of("table"))
    };
    lines.map(says).collect()
}

/// Lets a rotation take one step, and kills it there. Returns whether it had one to take.
fn killed_behind_a_step(stack: &LocalStack, args: &[&str]) -> bool {
    let args = [&["rotate", "--json", "--endpoint-url", &stack.dynamodb], args].concat();
    let mut command = without_account(&args);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("stdout");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    line.contains(r#""event":"step""#)
}

async fn names(client: &Client) -> Vec<String> {
    client.list_tables().send().await.expect("a list").table_names.unwrap_or_default()
}

/// The keys that lie in a table.
async fn keys(client: &Client, table: &str) -> BTreeSet<(String, String)> {
    let mut items = client.scan().table_name(table).into_paginator().items().send();
    let mut keys = BTreeSet::new();
    while let Some(item) = items.next().await {
        let item = item.expect("an item");
        let of = |name: &str| item[name].as_s().expect("a string").clone();
        keys.insert((of("origin"), of("departure")));
    }
    keys
}

/// The keys in an export of a folder.
fn exported(folder: &Path, table: &str) -> BTreeSet<(String, String)> {
    let file = File::open(folder.join(format!("{table}.json.gz"))).expect("an export");
    let keys = BufReader::new(GzDecoder::new(file)).lines().map(|line| {
        let item = serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON");
        let of = |name: &str| item["Item"][name]["S"].as_str().expect("a string").to_owned();
        (of("origin"), of("departure"))
    });
    keys.collect()
}

/// The sort keys that a query of the series prints, page by page as the flags have it.
fn queried(stack: &LocalStack, series: &str, args: &[&str]) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = ["query", "--series", series, "--json", "--endpoint-url", &stack.dynamodb];
        let at = cursor.iter().flat_map(|cursor| ["--cursor", cursor]).collect::<Vec<_>>();
        let ran = run(without_account(&[&query, args, &at].concat()));
        assert_eq!(ran.status, 0, "{ran:?}");
        let mut lines = ran.lines();
        let last = lines.pop().expect("a last line");
        found
            .extend(lines.iter().map(|line| line["departure"].as_str().expect("a key").to_owned()));
        cursor = last["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return found;
        }
    }
}

/// A table for January that is provisioned, with an index, a stream and a time to live.
async fn first_table(client: &Client) {
    let units = ProvisionedThroughput::builder().read_capacity_units(20).write_capacity_units(500);
    let units = units.build().expect("a throughput");
    // The local engine does not change what an index is provisioned with.
    let few = ProvisionedThroughput::builder().read_capacity_units(10).write_capacity_units(1);
    let index = GlobalSecondaryIndex::builder()
        .index_name("carriers")
        .key_schema(element("carrier", KeyType::Hash))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .provisioned_throughput(few.build().expect("a throughput"));
    let stream = StreamSpecification::builder().stream_enabled(true);
    let stream = stream.stream_view_type(StreamViewType::KeysOnly).build().expect("a stream");
    let create = client
        .create_table()
        .table_name("flights-2013-01")
        .attribute_definitions(definition("origin", "S"))
        .attribute_definitions(definition("departure", "S"))
        .attribute_definitions(definition("carrier", "S"))
        .key_schema(element("origin", KeyType::Hash))
        .key_schema(element("departure", KeyType::Range))
        .provisioned_throughput(units)
        .global_secondary_indexes(index.build().expect("an index"))
        .stream_specification(stream)
        .tags(tag("flights"))
        .tags(Tag::builder().key("team").value("ops").build().expect("a tag"));
    create.send().await.expect("a table");
    let ttl = TimeToLiveSpecification::builder().attribute_name("until").enabled(true).build();
    let update = client.update_time_to_live().table_name("flights-2013-01");
    update.time_to_live_specification(ttl.expect("one")).send().await.expect("a time to live");
}

#[tokio::test]
async fn three_months_of_flights_are_rotated_and_nothing_is_lost_wherever_that_is_killed() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = client_of(&stack).await;
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path().join("archive");
    let folder_text = folder.to_str().expect("UTF-8");
    let policy = ["--series", "flights", "--cool", "10/1", "--cool", "infrequent-access"];
    let policy = [&policy[..], &["--delete-after", "1", "--export-to", folder_text]].concat();
    let at = |now: &'static str| [&policy[..], &["--now", now]].concat();
    let flights = flights();
    first_table(&client).await;

    assert_eq!(steps(&rotate(&stack, &at("2013-01-30T23:59:59Z"))), [""; 0], "not yet");
    let due = at("2013-01-31T00:00:00Z");
    let planned = steps(&rotate(&stack, &[&due[..], &["--dry-run"]].concat()));
    let made = ["create flights-2013-02", "expire flights-2013-02", "untag flights-2013-02"];
    assert_eq!((planned, names(&client).await.len()), (made.map(str::to_owned).to_vec(), 1));
    assert_eq!(steps(&rotate(&stack, &due)), made);
    assert_eq!(steps(&rotate(&stack, &due)), [""; 0], "it is done");
    let like = client.describe_table().table_name("flights-2013-02").send().await.expect("one");
    let like = like.table.expect("a description");
    let units = like.provisioned_throughput().expect("units");
    assert_eq!((units.read_capacity_units(), units.write_capacity_units()), (Some(20), Some(500)));
    assert_eq!(like.global_secondary_indexes()[0].index_name(), Some("carriers"));
    assert!(
        like.stream_specification().is_some_and(StreamSpecification::stream_enabled),
        "{like:?}"
    );
    let arn = like.table_arn().expect("an ARN");
    let tags = client.list_tags_of_resource().resource_arn(arn).send().await.expect("tags");
    let mut tags = tags.tags().iter().map(Tag::value).collect::<Vec<_>>();
    tags.sort_unstable();
    assert_eq!(tags, ["flights", "ops"]);

    put_all(&client, "flights-2013-01", &flights["flights-2013-01"]).await;
    put_all(&client, "flights-2013-02", &flights["flights-2013-02"]).await;
    for now in ["2013-02-28T12:00:00Z", "2013-03-31T12:00:00Z"] {
        let month = &now[5..7];
        if month == "03" {
            put_all(&client, "flights-2013-03", &flights["flights-2013-03"]).await;
            let expected = flights.values().flatten().filter(|(origin, _)| origin == "EWR");
            let expected = expected.map(|(_, departure)| departure.clone()).collect::<Vec<_>>();
            let of_april = expected.iter().filter(|key| key.as_str() >= "2013-04").count();
            let mut expected = expected[..expected.len() - of_april].to_vec();
            assert!(expected.len() > 3_000 && expected.is_sorted(), "{}", expected.len());
            assert_eq!(queried(&stack, "flights", &["--pk", "EWR", "--all"]), expected);
            // Pages that end within a table, with it, and behind it.
            let (from, to) = ("2013-01-31T20", "2013-02-01T20");
            let days = ["--pk", "EWR", "--from", from, "--to", to, "--limit", "7"];
            expected.retain(|key| (from..=to).contains(&key.as_str()));
            assert_eq!(queried(&stack, "flights", &days), expected);
            expected.reverse();
            let backwards = [&days[..], &["--order", "desc"]].concat();
            assert_eq!(queried(&stack, "flights", &backwards), expected);
        }
        let mut kills = 0;
        while killed_behind_a_step(&stack, &at(now)) {
            kills += 1;
            let there = names(&client).await;
            let is_there = |table: &str| there.iter().any(|name| name == table);
            assert!(is_there("flights-2013-02") && is_there("flights-2013-03"), "{there:?}");
            if !is_there("flights-2013-01") {
                assert_eq!(exported(&folder, "flights-2013-01"), flights["flights-2013-01"]);
            }
        }
        assert!(kills >= 2, "{kills}");
        assert_eq!(steps(&rotate(&stack, &at(now))), [""; 0], "it is done");
    }
    assert_eq!(names(&client).await, ["flights-2013-02", "flights-2013-03", "flights-2013-04"]);
    assert_eq!(exported(&folder, "flights-2013-01"), flights["flights-2013-01"]);
    for table in ["flights-2013-02", "flights-2013-03"] {
        assert_eq!(keys(&client, table).await, flights[table], "{table}");
    }
    let cooled = client.describe_table().table_name("flights-2013-02").send().await.expect("one");
    let cooled = cooled.table.expect("a description");
    let units = cooled.provisioned_throughput().expect("units");
    assert_eq!((units.read_capacity_units(), units.write_capacity_units()), (Some(10), Some(1)));
    let class = cooled.table_class_summary().and_then(|summary| summary.table_class());
    assert_eq!(class.map(TableClass::as_str), Some("STANDARD_INFREQUENT_ACCESS"));
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2, "the export and its proof");
}

#[tokio::test]
async fn what_was_written_behind_an_export_is_exported_before_its_table_is_deleted() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = client_of(&stack).await;
    let directory = tempfile::tempdir().expect("a directory");
    for day in ["2013-01-01", "2013-01-02", "2013-01-03"] {
        let name = format!("flights-{day}");
        tables::create(&client, &name, &[("origin", "S"), ("departure", "S")]).await;
        let arn = client.describe_table().table_name(&name).send().await.expect("one");
        let arn = arn.table.and_then(|table| table.table_arn).expect("an ARN");
        client.tag_resource().resource_arn(arn).tags(tag("flights")).send().await.expect("a tag");
        let key = ("EWR".to_owned(), format!("{day}T05:00:00Z#UA1545"));
        put_all(&client, &name, &BTreeSet::from([key])).await;
    }
    let protect = |is_on| {
        let update = client.update_table().table_name("flights-2013-01-02");
        update.deletion_protection_enabled(is_on).send()
    };
    protect(true).await.expect("it is protected");
    let folder = directory.path().to_str().expect("UTF-8");
    // An export of the first day, from before its flight was written.
    let first = client.describe_table().table_name("flights-2013-01-01").send().await.expect("one");
    let first = first.table.expect("a description");
    let made = first.creation_date_time().expect("a date").secs();
    let identity = format!("{} {made}", first.table_id().expect("an id"));
    let proof =
        json!({ "table": "flights-2013-01-01", "identity": identity, "items": 0, "digest": 0 });
    fs::write(directory.path().join("flights-2013-01-01.manifest.json"), proof.to_string())
        .expect("it writes");
    let data = File::create(directory.path().join("flights-2013-01-01.json.gz")).expect("a file");
    GzEncoder::new(data, Compression::default()).finish().expect("it writes");

    let now = ["--series", "flights", "--now", "2013-01-04T00:00:00Z", "--ahead-hours", "1"];
    let to_folder = [&now[..], &["--delete-after", "1", "--export-to", folder]].concat();
    let ran = rotate(&stack, &to_folder);
    let anew = [
        "create flights-2013-01-04",
        "untag flights-2013-01-04",
        "export flights-2013-01-01",
        "delete flights-2013-01-01",
    ];
    assert_eq!(steps(&ran), anew);
    assert_eq!(exported(directory.path(), "flights-2013-01-01").len(), 1);
    let kept = json!([{ "table": "flights-2013-01-02", "why": "its deletion protection is on" }]);
    assert_eq!(ran.last()["kept"], kept);
    protect(false).await.expect("it is not protected");
    let refused = rotate(&stack, &[&now[..], &["--delete-after", "1"]].concat());
    assert_eq!((refused.status, refused.last()["code"].as_str()), (1, Some("bad_parameter")));
    let without = [&now[..], &["--delete-after", "1", "--without-export"]].concat();
    assert_eq!(steps(&rotate(&stack, &without)), ["delete flights-2013-01-02"]);
    let ahead = rotate(&stack, &["--series", "flights", "--now", "2199-01-01T00:00:00Z"]);
    assert_eq!((ahead.status, ahead.last()["code"].as_str()), (1, Some("bad_parameter")));
    let late = rotate(&stack, &["--series", "flights"]);
    assert_eq!((late.status, late.last()["code"].as_str()), (1, Some("series_behind")));
    assert_eq!(names(&client).await, ["flights-2013-01-03", "flights-2013-01-04"]);
}

/// They were in no export, and their table was deleted for having been exported.
#[tokio::test]
async fn regression_the_counters_of_a_table_were_left_out_of_its_export() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = client_of(&stack).await;
    let directory = tempfile::tempdir().expect("a directory");
    first_table(&client).await;
    let cell = client.put_item().table_name("flights-2013-01").item("origin", text("EWR"));
    let cell = cell.item("departure", text("seats"));
    cell.item("_ds_c_n", AttributeValue::N("149".to_owned())).send().await.expect("a put");
    let before = keys(&client, "flights-2013-01").await;
    let folder = directory.path().to_str().expect("UTF-8");
    let now = ["--series", "flights", "--now", "2013-03-01T00:00:00Z", "--ahead-hours", "1"];
    let ran = rotate(&stack, &[&now[..], &["--delete-after", "1", "--export-to", folder]].concat());
    assert!(steps(&ran).contains(&"delete flights-2013-01".to_owned()), "{ran:?}");
    assert_eq!(exported(directory.path(), "flights-2013-01"), before);
}

#[tokio::test]
async fn regression_the_export_of_another_region_was_written_over() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = client_of(&stack).await;
    let directory = tempfile::tempdir().expect("a directory");
    first_table(&client).await;
    let proof = directory.path().join("flights-2013-01.manifest.json");
    let other = json!({ "table": "flights-2013-01", "identity": "1", "items": 0, "digest": 0 });
    fs::write(&proof, other.to_string()).expect("it writes");
    let folder = directory.path().to_str().expect("UTF-8");
    let at = ["--series", "flights", "--now", "2013-03-15T00:00:00Z", "--ahead-hours", "1"];
    let ends = ["--cool", "on-demand", "--delete-after", "1", "--export-to", folder];
    let ran = rotate(&stack, &[&at[..], &ends].concat());
    assert_eq!((ran.status, ran.events("error")[0]["code"].as_str()), (1, Some("output_failed")));
    // One refused step ended the run, too.
    let on_demand = ran.events("step").into_iter().filter(|step| step["step"] == "put_on_demand");
    assert_eq!(on_demand.count(), 2, "{ran:?}");
    let all = ["flights-2013-01", "flights-2013-02", "flights-2013-03"];
    assert_eq!(ran.last()["tables"], json!(all));
    assert_eq!(fs::read_to_string(&proof).expect("a proof"), other.to_string());
    assert_eq!(fs::read_dir(&directory).expect("a folder").count(), 1, "nothing is beside it");
}

#[tokio::test]
async fn tables_that_are_no_series_are_refused_and_nothing_is_changed_but_the_next_ones_made() {
    let stack = LocalStack::start(&["--engine-only", "--no-throttle"]);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let flights = [("origin", "S"), ("departure", "S")];
    for (name, keys, series) in [
        ("keys-2013-01", &flights, Some("keys")),
        ("keys-2013-02", &[("origin", "S"), ("departure", "N")], Some("keys")),
        ("tags-2013-01", &flights, Some("tags")),
        ("tags-2013-02", &flights, None),
        ("gap-2013-01", &flights, Some("gap")),
        ("gap-2013-03", &flights, Some("gap")),
        ("name-2013-01", &flights, Some("name")),
        ("name-latest", &flights, Some("name")),
        ("mixed-2013-01", &flights, Some("mixed")),
        ("mixed-2013-W06", &flights, Some("mixed")),
        ("none-archive", &flights, None),
    ] {
        tables::create(&client, name, keys).await;
        let arn = client.describe_table().table_name(name).send().await.expect("one");
        let arn = arn.table.and_then(|table| table.table_arn).expect("an ARN");
        if let Some(series) = series {
            client.tag_resource().resource_arn(arn).tags(tag(series)).send().await.expect("a tag");
        }
    }
    let before = names(&client).await;
    for (series, says) in [
        ("keys", "other keys"),
        ("tags", "tags-2013-02 is called like one of its tables and lacks the tag"),
        ("gap", "between gap-2013-01 and gap-2013-03 there is a gap"),
        ("name", "name-latest has the tag"),
        ("mixed", "a series has one"),
        ("none", "no table is called by its name and a period"),
    ] {
        let args = ["--series", series, "--now", "2013-03-31T00:00:00Z", "--cool", "on-demand"];
        let delete = ["--delete-after", "1", "--without-export"];
        let refused = rotate(&stack, &[&args[..], &delete].concat());
        let failure = refused.events("error").swap_remove(0);
        assert_eq!(
            (refused.status, failure["code"].as_str()),
            (1, Some("not_a_series")),
            "{refused:?}"
        );
        assert!(failure["detail"].as_str().is_some_and(|text| text.contains(says)), "{failure}");
        let query = ["query", "--series", series, "--pk", "EWR", "--endpoint-url", &stack.dynamodb];
        let refused = run(without_account(&query));
        assert!(refused.status == 1 && refused.stderr.contains(says), "{refused:?}");
    }
    let mut after = names(&client).await;
    after.retain(|name| !before.contains(name));
    let next = ["gap-2013-04", "keys-2013-03", "keys-2013-04"];
    assert_eq!(after, [&next[..], &["name-2013-02", "name-2013-03", "name-2013-04"]].concat());
    for table in &before {
        assert_eq!(stack.requests(table, "UpdateTable") + stack.requests(table, "DeleteTable"), 0);
    }
}

/// The hot table of a series is the main table of a stack, and a key of it has shards.
#[tokio::test]
async fn a_table_of_a_stack_is_read_as_such_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = ["--data-dir", directory.path().to_str().expect("UTF-8")];
    let engine = LocalStack::start(&[&["--engine-only", "--no-throttle"], &data[..]].concat());
    let client = client_of(&engine).await;
    let plain = ["2013-01-01", "2013-01-31"]
        .map(|day| ("EWR".to_owned(), format!("{day}T05:00:00Z#UA1545")));
    for month in ["flights-2013-01", "flights-2013-02"] {
        tables::create(&client, month, &[("origin", "S"), ("departure", "S")]).await;
        let arn = client.describe_table().table_name(month).send().await.expect("one");
        let arn = arn.table.and_then(|table| table.table_arn).expect("an ARN");
        client.tag_resource().resource_arn(arn).tags(tag("flights")).send().await.expect("a tag");
    }
    put_all(&client, "flights-2013-01", &BTreeSet::from(plain.clone())).await;
    engine.end(Signal::TERM);
    let settings = [
        "ExistingMainTable=flights-2013-02",
        "PartitionKeyName=origin",
        "SortKeyName=departure",
        "LeaseSecs=1",
    ];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let stack = LocalStack::start(&[&settings[..], &data].concat());
    let made = stack.json("PUT", "/collection?pk=EWR", &json!({ "number_of_shards": 4 }));
    assert!([200, 201, 202].contains(&made.status), "{made:?}");
    stack.until_swept();
    let sharded = (1..=40).map(|n| format!("2013-02-{:02}T05:00:00Z#UA{n:04}", n % 28 + 1));
    let sharded = sharded.collect::<BTreeSet<_>>();
    stack.put_all(sharded.iter().map(|sk| json!({ "pk": "EWR", "sk": sk, "item": {} })));
    let mut expected = plain.map(|(_, departure)| departure).to_vec();
    expected.extend(sharded);
    let paged = ["--pk", "EWR", "--limit", "7", "--consistent"];
    assert_eq!(queried(&stack, "flights", &paged), expected);
    let now =
        ["--series", "flights", "--now", "2013-03-01T00:00:00Z", "--cool", "infrequent-access"];
    let ends = ["--delete-after", "1", "--without-export", "--dry-run"];
    let planned = steps(&rotate(&stack, &[&now[..], &ends].concat()));
    assert_eq!(
        planned,
        ["create flights-2013-03", "untag flights-2013-03", "delete flights-2013-01"],
        "the stack has its own capacity"
    );
}
