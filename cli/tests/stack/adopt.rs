//! `dynashard adopt`, on tables that other programs have made and filled.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue as Sdk, BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
    GlobalSecondaryIndexUpdate, KeyType, LocalSecondaryIndex, Projection, ProjectionType,
    ProvisionedThroughput, StreamSpecification, StreamViewType, TimeToLiveSpecification,
};
use dynashard_aws::{ServerClock, connect_local};
use dynashard_aws_operator::{Caller, Operator, ScanPage, ScanSegment, Stripped, strip};
use dynashard_core::TableSchema;
use dynashard_keys::SortKeyType;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::cloudformation::{CloudFormation, WRITING_ROLE_ARNS};
use crate::common::gate::Gate;
use crate::common::{LocalStack, Ran, checkout, on, run, shell, without_account};
use crate::tables::{self, definition, element};

/// A DynamoDB without tables that takes what tests load it with.
const ENGINE: [&str; 2] = ["--engine-only", "--no-throttle"];

fn adopt(stack: &LocalStack, args: &[&str]) -> Ran {
    run(without_account(&[&["adopt", "--endpoint-url", &stack.dynamodb], args].concat()))
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let mut found = checks.iter().filter(|check| check["check"] == name);
    let check = found.next().unwrap_or_else(|| panic!("{name}: {report}"));
    assert_eq!(found.next(), None, "each has a name of its own: {report}");
    check
}

fn status<'a>(report: &'a Value, name: &str) -> &'a str {
    check(report, name)["status"].as_str().expect("a status")
}

fn text(text: impl Into<String>) -> Sdk {
    Sdk::S(text.into())
}

fn number(number: impl Into<u64>) -> Sdk {
    Sdk::N(number.into().to_string())
}

/// Puts an item with these keys, and more.
async fn put(client: &Client, table: &str, keys: [(&str, Sdk); 2], more: &[(&str, Sdk)]) {
    let put = keys
        .into_iter()
        .chain(more.iter().cloned())
        .fold(client.put_item().table_name(table), |put, (name, value)| put.item(name, value));
    put.send().await.expect("a put");
}

async fn put_order(client: &Client, customer: &str, at: u32, more: &[(&str, Sdk)]) {
    put(client, "Orders", [("customer", text(customer)), ("at", number(at))], more).await;
}

/// `init` wrote `DenyOtherWriters` of customers' data, which the template refuses beside a table that exists.
fn assert_what_is_deployed_for_it_fits(stack: &LocalStack) {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().to_str().expect("a path");
    let copied =
        std::fs::copy(checkout().join("template.yaml"), directory.path().join("template.yaml"));
    copied.expect("the template is there");
    let args =
        ["init", "--endpoint-url", &stack.dynamodb, "--environment", "prod", "--yes", "--json"];
    let init = |more: &[&str]| {
        run(without_account(&[&args[..], &["--table", "Orders", "--dir", dir], more].concat()))
    };
    // DynamoDB says it.
    assert_eq!(init(&["--set", "SortKeyType=S"]).status, 1);
    let ran = init(&["--set", "GrowKeys=CUSTOMER#*"]);
    let parameters = &ran.last()["parameters"];
    for (name, value) in [
        ("ExistingMainTable", "Orders"),
        ("PartitionKeyName", "customer"),
        ("SortKeyName", "at"),
        ("SortKeyType", "N"),
        ("TtlAttribute", "expires"),
        ("GrowKeys", "CUSTOMER#*"),
        ("ScalingMode", "off"),
        ("DenyOtherWriters", "off"),
        ("LogRetentionDays", "365"),
    ] {
        assert_eq!(parameters[name], value, "{ran:?}");
    }
    assert_eq!(init(&[]).status, 1, "files that are there stay");
}

#[tokio::test]
async fn a_table_of_others_is_taken_as_it_is() {
    let stack = LocalStack::start(&ENGINE);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "Orders", &[("customer", "S"), ("at", "N")]).await;
    let ttl = TimeToLiveSpecification::builder().attribute_name("expires").enabled(true).build();
    let ttl = ttl.expect("a specification");
    let update = client.update_time_to_live().table_name("Orders").time_to_live_specification(ttl);
    update.send().await.expect("a time to live");
    assert_what_is_deployed_for_it_fits(&stack);
    for at in 0..100 {
        put_order(&client, &format!("CUSTOMER#{}", at % 7), at, &[("total", number(at))]).await;
    }

    let directory = tempfile::tempdir().expect("a directory");
    let (state, policy) = (directory.path().join("state"), directory.path().join("policy.json"));
    let args = ["--table", "Orders", "--grow-keys", "CUSTOMER#*"];
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let files = ["--state", &path(&state)];
    let adopted = adopt(&stack, &[&args[..], &files, &["--json"]].concat());
    assert_eq!((adopted.status, adopted.stderr.as_str()), (0, ""), "{adopted:?}");
    let report = adopted.last();
    assert_eq!((&report["event"], &report["adoptable"]), (&json!("adopt"), &json!(true)));
    assert_eq!((&report["items"], &report["problems"]), (&json!(100), &json!(0)));
    assert!(report["consumed_rcu"].as_f64() > Some(0.0), "{report}");
    assert_eq!(
        report["plan"]["parameters"],
        json!({
            "ExistingMainTable": "Orders", "PartitionKeyName": "customer", "SortKeyName": "at",
            "SortKeyType": "N", "Separator": "#~", "TtlAttribute": "expires", "GrowKeys": "CUSTOMER#*",
            "ScalingMode": "off",
        })
    );
    let found = adopted.events("finding");
    assert_eq!(found.len(), 1, "# would not do, since CUSTOMER#1 ends in it: {found:?}");
    assert_eq!((&found[0]["separator"], &found[0]["items"]), (&json!("#"), &json!(100)));
    assert!(!state.exists(), "nothing is left to continue");
    assert_eq!(report["policy"], Value::Null, "the roles are unknown");

    let people = adopt(&stack, &args);
    assert_eq!(people.status, 0, "{people:?}");
    for part in [
        "ok       separator",
        "Orders can be adopted",
        "'Separator=#~' 'TtlAttribute=expires' 'GrowKeys=CUSTOMER#*' 'ScalingMode=off'",
        "--stack-name NAME --skip-scan --policy 'policy.json'",
    ] {
        assert!(people.stdout.contains(part), "{part}: {people:?}");
    }
    for operation in stack.operations("Orders") {
        let is_mine = ["PutItem", "UpdateTimeToLive", "CreateTable"].contains(&operation.as_str());
        let is_read =
            ["Scan", "GetItem"].contains(&operation.as_str()) || operation.starts_with("Describe");
        assert!(is_mine || is_read, "the command changes nothing: {operation}");
    }

    let refused = of_stack(&stack, &[("Separator", "#")], &ORDERS);
    assert_eq!(refused.status, 1, "the separator of the stack is not free: {refused:?}");
    assert_eq!(status(&refused.last(), "separator"), "problem", "{refused:?}");
    put_order(&client, "CUSTOMER#1", 1, &[("_ds_v", number(7_u64))]).await;
    let foreign = of_stack(&stack, &[], &ORDERS);
    assert_eq!(
        status(&foreign.last(), "dynashard_item"),
        "problem",
        "another stack's: {foreign:?}"
    );
    let again = of_stack(&stack, &[("ExistingMainTable", "Orders")], &ORDERS);
    assert_eq!(again.status, 0, "what the stack has written fits: {again:?}");
    let roles = ["--skip-scan", "--operator-role", "arn:aws:iam::123456789012:role/Operator"];
    let policy_name = path(&policy);
    let roles = [&ORDERS[..], &roles, &["--policy", &policy_name]].concat();
    let other = of_stack(&stack, &[], &roles);
    assert_eq!((other.status, policy.exists()), (2, false), "the stack has another table");
    let named = of_stack(
        &stack,
        &[("ExistingMainTable", "Orders"), ("Separator", "_"), ("GrowKeys", "EWR")],
        &roles,
    );
    assert_eq!(named.status, 2, "nothing is known of the items: {named:?}");
    let written = std::fs::read_to_string(&policy).expect("the policy");
    let written = serde_json::from_str::<Value>(&written).expect("JSON");
    assert_eq!(written, named.last()["policy"]);
    let condition = &named.last()["policy"]["Statement"][0]["Condition"];
    assert_eq!(
        condition["ForAnyValue:StringLike"]["dynamodb:LeadingKeys"],
        json!(["EWR", "EWR_*"])
    );
    let principals = condition["ArnNotLike"]["aws:PrincipalArn"].as_array().expect("principals");
    let principals = principals.iter().map(|arn| arn.as_str().expect("an ARN")).collect::<Vec<_>>();
    let operator = "arn:aws:iam::123456789012:role/Operator";
    let expected = WRITING_ROLE_ARNS.split(',').chain([operator]).collect::<Vec<_>>();
    assert_eq!(principals, expected);
}

const ORDERS: [&str; 2] = ["--table", "Orders"];

/// The command on a stack with these parameters.
fn of_stack(
    stack: &LocalStack,
    parameters: &'static [(&'static str, &'static str)],
    args: &[&str],
) -> Ran {
    let cloudformation = CloudFormation::start(parameters);
    let named = ["adopt", "--stack-name", "dynashard", "--json"];
    cloudformation.run(stack, &[&named, args].concat())
}

#[tokio::test]
async fn what_stands_in_the_way_is_named_with_a_remedy() {
    let stack = LocalStack::start(&ENGINE);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    awkward(&client).await;
    let refused = adopt(&stack, &["--table", "Awkward", "--json", "--read-units", "100000"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    let report = refused.last();
    let found = refused.events("finding");
    let found = found.iter().map(|found| {
        let name = found["finding"].as_str().expect("a name");
        let of = found["separator"].as_str().unwrap_or_default();
        assert!(found["remedy"].is_string(), "{found}");
        ((name, of), (found["items"].as_u64(), found["example"]["pk"].as_str()))
    });
    let expected = [
        (("separator", "#~"), "a#~1"),
        (("separator", "#"), "a#1"),
        (("separator", "_"), "a_1"),
        (("separator", "."), "a.1"),
        (("separator", "-"), "a-1"),
        (("separator", ":"), "a:1"),
        (("dynashard_item", ""), "own"),
        (("item_size", ""), "large"),
        (("reserved_attribute", ""), "attribute"),
        (("reserved_key", ""), "_ds_key"),
    ];
    let mut expected = expected
        .map(|(name, pk)| (name, (Some(1), Some(pk))))
        .into_iter()
        .collect::<BTreeMap<_, _>>();
    let long = "k".repeat(2_048);
    expected.insert(("key_length", ""), (Some(1), Some(&long)));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    for name in ["separator", "dynashard_item", "item_size", "reserved_attribute", "reserved_key"] {
        assert_eq!(status(&report, name), "problem", "{report}");
        assert!(check(&report, name)["advice"].is_string(), "{report}");
    }
    for name in ["stream", "local_indexes", "index_markers", "index_keys", "key_length"] {
        assert_eq!(status(&report, name), "warning", "{report}");
    }
    let indexes = check(&report, "index_markers")["seen"].as_str().expect("a text");
    assert!(indexes.contains("inverted") && !indexes.contains("by_status"), "{indexes}");
    assert!(
        check(&report, "billing")["seen"].as_str().is_some_and(|seen| seen.contains("50 read"))
    );
    assert_eq!((&report["plan"], &report["policy"]), (&Value::Null, &Value::Null));

    let narrowed = adopt(
        &stack,
        &["--table", "Awkward", "--grow-keys", "b*", "--json", "--read-units", "100000"],
    );
    assert_eq!(status(&narrowed.last(), "item_size"), "warning", "it is never moved: {narrowed:?}");
    let people = adopt(&stack, &["--table", "Awkward", "--read-units", "100000"]);
    assert!(people.stdout.contains("the table is dynashard's own already"), "{people:?}");
    assert!(people.stdout.ends_with("Awkward cannot be adopted as it is\n"), "{people:?}");
}

/// A table with indexes and a stream, that has one item of each kind that cannot be.
async fn awkward(client: &Client) {
    let projection = || Projection::builder().projection_type(ProjectionType::All).build();
    let index = |name: &str, keys: [&str; 2]| {
        let kinds = keys.into_iter().zip([KeyType::Hash, KeyType::Range]);
        let schema = kinds.map(|(key, kind)| element(key, kind)).collect();
        let index = GlobalSecondaryIndex::builder().index_name(name).set_key_schema(Some(schema));
        index.projection(projection()).provisioned_throughput(units()).build().expect("an index")
    };
    let local = LocalSecondaryIndex::builder()
        .index_name("local")
        .key_schema(element("PK", KeyType::Hash))
        .key_schema(element("status", KeyType::Range))
        .projection(projection())
        .build();
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(StreamViewType::NewImage)
        .build();
    client
        .create_table()
        .table_name("Awkward")
        .billing_mode(BillingMode::Provisioned)
        .provisioned_throughput(units())
        .attribute_definitions(definition("PK", "S"))
        .attribute_definitions(definition("SK", "S"))
        .attribute_definitions(definition("status", "S"))
        .key_schema(element("PK", KeyType::Hash))
        .key_schema(element("SK", KeyType::Range))
        .global_secondary_indexes(index("by_status", ["status", "SK"]))
        .local_secondary_indexes(local.expect("an index"))
        .stream_specification(stream.expect("a specification"))
        .send()
        .await
        .expect("a table");
    let put = async |pk: &str, more: &[(&str, Sdk)]| {
        put(client, "Awkward", [("PK", text(pk)), ("SK", text("1"))], more).await;
    };
    // An index that were there already would refuse it: its sort keys take 1,024 bytes.
    put(&"k".repeat(2_048), &[]).await;
    let inverted = CreateGlobalSecondaryIndexAction::builder()
        .index_name("inverted")
        .key_schema(element("SK", KeyType::Hash))
        .key_schema(element("PK", KeyType::Range))
        .projection(projection())
        .provisioned_throughput(units());
    let update = GlobalSecondaryIndexUpdate::builder().create(inverted.build().expect("an index"));
    client
        .update_table()
        .table_name("Awkward")
        .attribute_definitions(definition("PK", "S"))
        .attribute_definitions(definition("SK", "S"))
        .global_secondary_index_updates(update.build())
        .send()
        .await
        .expect("an index");
    for pk in ["a#~1", "a#1", "a_1", "a.1", "a-1", "a:1", "plain", "_ds_key"] {
        put(pk, &[]).await;
    }
    put("own", &[("_ds_v", number(7_u64))]).await;
    put("attribute", &[("_ds_mine", number(7_u64))]).await;
    // Between 399 KB and 400.
    put("large", &[("n", text("x".repeat(399 * 1_024)))]).await;
}

fn units() -> ProvisionedThroughput {
    let units = ProvisionedThroughput::builder().read_capacity_units(50).write_capacity_units(50);
    units.build().expect("units")
}

#[tokio::test]
async fn a_scan_that_was_killed_continues_where_it_was() {
    let stack = LocalStack::start(&ENGINE);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "Orders", &[("customer", "S"), ("at", "N")]).await;
    for at in 0..20 {
        let more = [("note", text("x".repeat(300 * 1_024)))];
        put_order(&client, &format!("CUSTOMER_{at}"), at, &more).await;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let state_name = state.to_str().expect("UTF-8").to_owned();
    let args = ["--table", "Orders", "--segments", "1", "--read-units", "100000", "--json"];
    let whole = adopt(&stack, &args);
    assert_eq!(whole.status, 0, "{whole:?}");
    let pages = stack.requests("Orders", "Scan");
    assert!(pages >= 6, "a page holds three items: {pages}");

    let args = [&args[..], &["--state", &state_name]].concat();
    for (signal, passes) in [(Signal::KILL, 2), (Signal::INT, 1)] {
        let gate = Gate::start(&stack.dynamodb, "Scan", passes);
        let mut command =
            without_account(&[&["adopt", "--endpoint-url", &gate.url], &args[..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        gate.wait();
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        if signal == Signal::INT {
            assert_eq!(output.status.code(), Some(130), "{output:?}");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains("the same command continues from"), "{stderr}");
        }
        assert!(state.exists());
    }
    let other = adopt(&stack, &[&args[..], &["--grow-keys", "EWR"]].concat());
    assert_eq!(other.status, 2, "findings of other options are of no use: {other:?}");
    assert_eq!(other.last()["code"], "state_unusable");

    let continued = adopt(&stack, &args);
    assert_eq!(continued.status, 0, "{continued:?}");
    assert_eq!(stack.requests("Orders", "Scan"), 2 * pages, "no page is read twice");
    assert!(!state.exists());
    let known = |ran: &Ran| {
        let report = ran.last();
        (report["items"].clone(), report["bytes"].clone(), ran.events("finding"))
    };
    assert_eq!(known(&continued), known(&whole));
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_no_verdict() {
    let stack = LocalStack::start(&ENGINE);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let absent = adopt(&stack, &["--table", "Orders"]);
    assert_eq!((absent.status, absent.stderr.lines().count()), (2, 1), "{absent:?}");
    assert!(absent.stderr.contains("check --table"), "{absent:?}");

    tables::create(&client, "Binary", &[("pk", "S"), ("sk", "B")]).await;
    let binary = adopt(&stack, &["--table", "Binary", "--json"]);
    assert_eq!(binary.status, 1, "{binary:?}");
    assert_eq!(status(&binary.last(), "sort_key"), "problem", "{binary:?}");
    assert_eq!(stack.requests("Binary", "Scan"), 0, "there is nothing to find out");

    tables::create(&client, "Orders", &[("customer", "S"), ("at", "N")]).await;
    let skipped = adopt(&stack, &["--table", "Orders", "--skip-scan", "--json"]);
    assert_eq!(skipped.status, 2, "{skipped:?}");
    let report = skipped.last();
    assert_eq!((&report["adoptable"], status(&report, "items")), (&json!(false), "unknown"));
    assert_eq!(report["policy"], Value::Null, "the roles are unknown");
    assert_eq!(stack.requests("Orders", "Scan"), 0);
}

/// T and H in seconds, so that a reshard closes while a test looks on.
const SHORT: [&str; 4] = ["--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2"];

/// The commands of docs/ADOPTING.md, with free ports and a directory of the test.
#[tokio::test]
async fn an_adoption_is_tried_on_this_machine_as_the_page_says() {
    const PAGE: &str = include_str!("../../../docs/ADOPTING.md");
    let section = PAGE.split("## Trying it on this machine").nth(1).expect("a section");
    let section = section.split("\n## ").next().expect("a section");
    let line = |begins: &str, nth: usize| {
        let mut lines = section.lines().filter(|line| line.starts_with(begins));
        lines.nth(nth).unwrap_or_else(|| panic!("{begins} is not on the page"))
    };
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("UTF-8");
    let start = |line: &str| {
        let words = line.split(' ').skip(2).map(|word| if word == "trial" { data } else { word });
        LocalStack::start(&words.collect::<Vec<_>>())
    };

    let before = start(line("dynashard local", 0));
    let client = connect_local(&before.dynamodb, ServerClock::default()).await;
    let (create, put_item) = (line("aws dynamodb", 0), line("aws dynamodb", 1));
    assert!(create.contains("=customer,AttributeType=S") && create.contains("=at,AttributeType=N"));
    tables::create(&client, "Orders", &[("customer", "S"), ("at", "N")]).await;
    assert!(put_item.contains(r#"{"customer":{"S":"EVENT#1"},"at":{"N":"7"}}"#));
    put_order(&client, "EVENT#1", 7, &[]).await;
    let adopted =
        shell(&line("dynashard adopt", 0).replace("http://127.0.0.1:8000", &before.dynamodb));
    assert_eq!(adopted.status, 0, "{adopted:?}");
    let deployed = line("dynashard local", 1);
    for parameter in deployed.split("--set ").skip(1).map(str::trim) {
        assert!(adopted.stdout.contains(&format!("'{parameter}'")), "{parameter}: {adopted:?}");
    }
    before.end(rustix::process::Signal::INT);

    let stack = start(deployed);
    let url = line("curl", 0).split('\'').nth(1).expect("a URL");
    let item = stack.get(url.strip_prefix("http://127.0.0.1:3000").expect("a path"));
    assert_eq!(item.status, 200, "{item:?}");
}

/// How often the command is run again until markers are removed.
const MOST_LOOKS: usize = 300;

/// Whatever a shell would obey.
const KEY: &str = "J'F, \"K";

#[tokio::test]
async fn a_table_leaves_as_it_came() {
    let stack = LocalStack::start(&SHORT);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    put(&client, "MainTable", [("pk", text("EWR")), ("sk", text("by hand"))], &[]).await;
    let created = stack.json(
        "PUT",
        "/collection?pk=J%27F%2C%20%22K",
        &json!({ "placement": "xxh64", "number_of_shards": 4 }),
    );
    assert_eq!(created.status, 201, "{created:?}");
    stack.until_at_rest(KEY, 4);
    let puts = (0..40).map(|n| {
        let pk = if n < 30 { KEY } else { "EWR" };
        json!({ "pk": pk, "sk": format!("{n:02}"), "item": { "number": n } })
    });
    stack.put_all(puts);
    let grown = on(&stack, &["scale", "--pk", KEY, "--from", "20", "--shards", "8", "--json"]);
    assert_eq!(grown.status, 0, "{grown:?}");
    assert_eq!(grown.last()["epochs"].as_array().map(Vec::len), Some(2), "{grown:?}");
    let before = query(&stack, KEY);

    let counter = "/counter?pk=EWR&sk=seats";
    assert_eq!(stack.json("POST", counter, &json!({ "add": 1 })).status, 200);

    let leave = ["--table", "MainTable", "--leave", "--metadata-table", "MetadataTable", "--json"];
    let spread = adopt(&stack, &leave);
    assert_eq!((spread.status, spread.stderr.as_str()), (1, ""), "{spread:?}");
    let report = spread.last();
    assert_eq!((&report["event"], &report["plain"]), (&json!("leave"), &json!(false)));
    for name in ["collections", "other_shards", "counters"] {
        assert_eq!(status(&report, name), "problem", "{report}");
    }
    assert_eq!(stack.send("DELETE", counter, &[], None).status, 204);
    let left = spread.events("collection");
    assert_eq!(left.len(), 1, "{spread:?}");
    assert_eq!((&left[0]["pk"], &left[0]["why"]), (&json!(KEY), &json!("it has 8 shards")));
    let command = left[0]["command"].as_str().expect("a command");
    let named = of_stack(&stack, &[], &["--table", "MainTable", "--leave"]);
    assert_eq!(status(&named.last(), "scaling"), "problem", "{named:?}");
    let other =
        of_stack(&stack, &[("ExistingMainTable", "Orders")], &["--table", "MainTable", "--leave"]);
    assert_eq!((other.status, other.last()["code"].as_str()), (2, Some("connection_failed")));
    // Whoever names the metadata of another stack would have looked at its collections, and taken this one's attributes away.
    client
        .create_table()
        .table_name("MetadataOfAnother")
        .key_schema(element("pk", KeyType::Hash))
        .attribute_definitions(definition("pk", "S"))
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .expect("a table");
    let of_another = ["--metadata-table", "MetadataOfAnother", "--json"];
    let mistaken = adopt(&stack, &[&leave[..3], &of_another].concat());
    let detail = mistaken.last()["detail"].to_string();
    assert!(detail.contains("MetadataTable, not MetadataOfAnother"), "{mistaken:?}");
    let mismatched = adopt(&stack, &[&leave[..], &["--separator", "#"]].concat());
    assert_eq!(mismatched.last()["code"], "settings_mismatch", "{mismatched:?}");
    let of_name = named.events("collection")[0]["command"].to_string();
    assert!(of_name.starts_with("\"dynashard scale --stack-name 'dynashard' --"), "{of_name}");
    let remove = [&leave[..], &["--remove-attributes"]].concat();
    assert_eq!(adopt(&stack, &remove).status, 2, "it takes a statement that the stack is deleted");
    let remove = [&remove[..], &["--stack-is-deleted", "--write-units", "10000"]].concat();
    let refused = adopt(&stack, &remove);
    assert_eq!(
        (refused.status, &refused.last()["items_stripped"]),
        (1, &Value::Null),
        "{refused:?}"
    );

    // The commands of the report, as a shell takes them.
    let advice = check(&report, "other_shards")["advice"].as_str().expect("advice");
    let verify = advice.split('`').nth(1).expect("a command");
    let verified = shell(verify);
    assert!(verified.status == 0 && verified.stdout.contains("1 collection,"), "{verified:?}");
    let scaled = shell(command);
    assert_eq!(scaled.status, 0, "{command}: {scaled:?}");
    let looks = (0..MOST_LOOKS).map(|_| adopt(&stack, &leave));
    let plain = looks.into_iter().find(|look| look.status == 0).expect("its markers are removed");
    let report = plain.last();
    assert_eq!((&report["plain"], &report["items"]), (&json!(true), &json!(41)), "{report}");
    assert_eq!(status(&report, "attributes"), "warning", "{report}");
    assert_eq!(query(&stack, KEY), before);

    // A key that looks like another one's shard has a suffix for good.
    stack.put_all([json!({ "pk": "LGA#~1", "sk": "1", "item": {} })]);
    let stripped = adopt(&stack, &remove);
    assert_eq!(stripped.status, 1, "the suffix stays: {stripped:?}");
    let report = stripped.last();
    assert_eq!((&report["items_stripped"], &report["plain"]), (&json!(41), &json!(false)));
    assert_eq!(status(&report, "suffixes_for_good"), "warning", "{report}");
    let items = client.scan().table_name("MainTable").send().await.expect("a scan").items;
    let items = items.expect("items");
    assert_eq!(items.len(), 42);
    for item in items {
        let own = item.keys().find(|name| name.starts_with("_ds_"));
        assert_eq!(own, None, "{item:?}");
    }
    let again = adopt(&stack, &remove);
    assert_eq!(again.last()["items_stripped"], 0, "{again:?}");
}

/// What a stack with another metadata table wrote was invisible to the first, and the other way round.
#[tokio::test]
async fn regression_a_second_stack_was_let_on_a_main_table() {
    let stack = LocalStack::start(&SHORT);
    let put = |stack: &LocalStack| stack.json("PUT", "/item?pk=a&sk=1", &json!({ "n": 1 }));
    assert_eq!(put(&stack).status, 200);
    // As if a stack with another metadata table had come first, for functions that start from now on.
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    let key = [("pk", text("_ds_owner")), ("sk", text("_ds_owner"))];
    let other = [("_ds_owner", text("another")), ("_ds_metadata", text("OtherMetadata"))];
    self::put(&client, "MainTable", key, &other).await;
    for pid in stack.all_environments() {
        kill_process(pid, Signal::KILL).expect("it runs");
    }

    // What was under way in a killed one is of unknown outcome.
    let looks = (0..MOST_LOOKS).map(|_| put(&stack));
    let refused = looks.into_iter().find(|answer| answer.status == 503).expect("a new one looks");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("settings_mismatch")));
    let table = ["--table", "MainTable", "--json"];
    let report = adopt(&stack, &[&table[..], &["--skip-scan"]].concat()).last();
    assert_eq!(status(&report, "owner"), "problem", "{report}");
    let advice = check(&report, "owner")["advice"].as_str().expect("advice");
    assert!(advice.contains("--take-over 'OtherMetadata'"), "{advice}");

    let take_over = |of: &str| adopt(&stack, &[&table[..], &["--take-over", of]].concat());
    let wrong = take_over("MetadataTable");
    assert_eq!((wrong.status, wrong.last()["code"].as_str()), (2, Some("connection_failed")));
    assert!(wrong.last().to_string().contains("OtherMetadata"), "{wrong:?}");
    assert_eq!(put(&stack).status, 503, "nothing was changed");
    let taken = take_over("OtherMetadata");
    assert_eq!((taken.status, &taken.last()["released"]), (0, &json!(true)), "{taken:?}");
    // A function that was refused looks again after a second, and claims it.
    while put(&stack).status != 200 {
        std::thread::yield_now();
    }
    let report = adopt(&stack, &[&table[..], &["--skip-scan"]].concat()).last();
    assert!(check(&report, "owner")["seen"].to_string().contains("MetadataTable"), "{report}");
}

/// A collection that grew while the items were read was at rest when the command looked at it.
#[test]
fn regression_collections_were_looked_at_before_the_items() {
    let stack = LocalStack::start(&SHORT);
    let gate = Gate::start(&stack.dynamodb, "Scan", 1);
    let leave = ["--table", "MainTable", "--leave", "--metadata-table", "MetadataTable"];
    let only = ["adopt", "--segments", "1", "--endpoint-url", &gate.url];
    let mut command = without_account(&[&only[..], &leave].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    gate.wait();
    assert_eq!(stack.requests("MainTable", "Scan"), 1, "the items come first");
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it runs");
    child.wait_with_output().expect("it ends");
}

fn query(stack: &LocalStack, pk: &str) -> Vec<Value> {
    stack.query(json!({ "pk": pk }))
}

#[tokio::test]
async fn a_removal_changes_nothing_of_what_was_written_since() {
    let stack = LocalStack::start(&ENGINE);
    let client = connect_local(&stack.dynamodb, ServerClock::default()).await;
    tables::create(&client, "Orders", &[("customer", "S"), ("at", "N")]).await;
    let schema = TableSchema {
        partition_key_name: "customer".to_owned(),
        sort_key_name: "at".to_owned(),
        sort_key_type: SortKeyType::Number,
        ..TableSchema::default()
    };
    let own = [("_ds_v", number(u64::MAX)), ("_ds_g", number(2_u64)), ("total", number(1_u64))];
    for at in 0..5 {
        put_order(&client, "A", at, &own).await;
    }
    let caller = Caller { endpoint_url: Some(stack.dynamodb.clone()), ..Caller::default() };
    let operator = Operator::connect(&caller).await.expect("an operator");
    let whole = ScanSegment { number: 0, of: 1 };
    let seen = ScanPage::read(&operator, "Orders", whole, None, true).await.expect("a page").items;
    let key = |at: u32| [("customer", text("A")), ("at", number(at))];

    put_order(&client, "A", 0, &[("_ds_v", number(8_u64)), ("total", number(2_u64))]).await;
    let delete = key(1)
        .into_iter()
        .fold(client.delete_item().table_name("Orders"), |delete, (name, value)| {
            delete.key(name, value)
        });
    delete.send().await.expect("a delete");
    put_order(&client, "A", 2, &[("_ds_fwd", Sdk::Bool(true)), ("_ds_g", number(2_u64))]).await;
    let update = key(3)
        .into_iter()
        .fold(client.update_item().table_name("Orders"), |update, (name, value)| {
            update.key(name, value)
        });
    let update = update.update_expression("SET #t = :t").expression_attribute_names("#t", "total");
    update.expression_attribute_values(":t", number(3_u64)).send().await.expect("an update");

    let mut stripped = Vec::new();
    for item in &seen {
        stripped.push(strip(&operator, "Orders", item, &schema).await.expect("an answer"));
    }
    let is_done = |stripped: &Stripped| matches!(stripped, Stripped::Done { .. });
    assert_eq!(stripped.iter().map(is_done).collect::<Vec<_>>(), [false, false, false, true, true]);
    let left = ScanPage::read(&operator, "Orders", whole, None, true).await.expect("a page").items;
    let left = left.iter().map(|item| item.keys().cloned().collect::<Vec<_>>().join(" "));
    assert_eq!(
        left.collect::<Vec<_>>(),
        [
            "_ds_v at customer total",
            "_ds_fwd _ds_g at customer",
            "at customer total",
            "at customer total"
        ]
    );
}
