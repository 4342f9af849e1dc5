//! A Lambda function on the stream of the main table, with the filter of docs/ADOPTING.md and `dynashard-streams`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_aws::{ServerClock, connect_local};
use dynashard_streams::Table;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::common::{LocalStack, checkout, exchange, until_cleared_up};

const KEY: &str = "EWR";

/// How many items clients go on writing, and how many are only moved.
const WRITTEN: usize = 20;
const MOVED: usize = 20;

/// How often something is tried, or looked at a tenth of a second later, before it never will be.
const PATIENCE: usize = 600;

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_told_what_clients_do_while_their_key_is_resharded() {
    let directory = tempfile::tempdir().expect("a directory");
    let told = directory.path().join("told");
    let stack = stack_with_consumer(directory.path(), &told);
    let endpoint = stack.ready["endpoint"].as_str().expect("an endpoint");
    let native = connect_local(endpoint, ServerClock::default()).await;
    let mut clients =
        Clients { stack: &stack, native, puts: 0, attempts: 0, expected: BTreeMap::new() };
    for item in 0..WRITTEN + MOVED {
        clients.put(item).await;
    }
    let path = format!("/collection/scale?pk={KEY}");
    let begun = stack.json("POST", &path, &json!({ "number_of_shards": 4 }));
    assert_eq!(begun.status, 202, "{begun:?}");
    let mut round = 0;
    let is_at_rest = || {
        let collection = stack.get(&format!("/collection?pk={KEY}")).json();
        collection["state"] == "stable" && collection["number_of_shards"] == 4
    };
    while !is_at_rest() {
        clients.put(round % WRITTEN).await;
        clients.native_put((round * 3 + 1) % WRITTEN).await;
        clients.native_update((round * 7 + 2) % WRITTEN).await;
        clients.delete((round * 11 + 3) % WRITTEN).await;
        clients.native_delete((round * 13 + 4) % WRITTEN).await;
        round += 1;
        assert!(round < PATIENCE, "it does not come to rest");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let tables = connect_local(&stack.dynamodb, ServerClock::default()).await;
    until_cleared_up(&tables, "pk", KEY).await;
    stack.put_all([json!({ "pk": "the end", "sk": "1", "item": {} })]);
    let Clients { puts, attempts, expected, .. } = clients;

    let mut held = BTreeMap::new();
    let (mut versions, mut repeats) = (BTreeSet::new(), 0);
    for told in until_told(&told, "the end").await {
        assert!(
            !told.is_null(),
            "the filter lets nothing through of which there is nothing to tell"
        );
        let text = told["record"].to_string();
        assert!(!text.contains("#~") && !text.contains("_ds_"), "{text}");
        let change = &told["record"]["dynamodb"];
        if change["Keys"]["pk"]["S"] != KEY {
            continue;
        }
        let item = change["Keys"]["sk"]["S"].as_str().expect("a sort key").to_owned();
        let Some(image) = change.get("NewImage") else {
            held.remove(&item);
            continue;
        };
        if !versions.insert(told["version"].as_u64().expect("a version")) {
            assert_eq!(told["may_repeat"], true, "{told}");
            repeats += 1;
        }
        held.insert(
            item,
            image["n"]["N"].as_str().expect("a number").parse::<usize>().expect("one"),
        );
    }
    assert_eq!(held, expected);
    let items = stack.query(json!({ "pk": KEY }));
    let number =
        |item: &Value| usize::try_from(item["n"].as_u64().expect("a number")).expect("small");
    let items =
        items.iter().map(|item| (item["sk"].as_str().expect("text").to_owned(), number(item)));
    assert_eq!(held, items.collect());
    // What is tried again after an unknown outcome may have been done twice.
    assert!((puts..=attempts).contains(&versions.len()), "{} of {puts}", versions.len());
    assert!((1..=WRITTEN + MOVED).contains(&repeats), "each item moves once at most: {repeats}");
}

/// One client after the other, in the API's words and in DynamoDB's own.
struct Clients<'a> {
    stack: &'a LocalStack,
    native: aws_sdk_dynamodb::Client,
    /// Those that succeeded: each has put a number of its own.
    puts: usize,
    attempts: usize,
    expected: BTreeMap<String, usize>,
}

impl Clients<'_> {
    async fn put(&mut self, item: usize) {
        let (stack, n) = (self.stack, self.puts);
        let put = async || stack.json("PUT", &path(item), &json!({ "n": n })).status == 200;
        self.until_put(item, put).await;
    }

    async fn native_put(&mut self, item: usize) {
        let n = AttributeValue::N(self.puts.to_string());
        let put =
            self.native.put_item().table_name("MainTable").set_item(Some(key(item))).item("n", n);
        self.until_put(item, async || put.clone().send().await.is_ok()).await;
    }

    async fn native_update(&mut self, item: usize) {
        let n = AttributeValue::N(self.puts.to_string());
        let update = self.native.update_item().table_name("MainTable").set_key(Some(key(item)));
        let update = update.update_expression("SET n = :n").expression_attribute_values(":n", n);
        self.until_put(item, async || update.clone().send().await.is_ok()).await;
    }

    async fn delete(&mut self, item: usize) {
        let stack = self.stack;
        until(async || stack.send("DELETE", &path(item), &[], None).status == 204).await;
        self.expected.remove(&sort_key(item));
    }

    async fn native_delete(&mut self, item: usize) {
        let delete = self.native.delete_item().table_name("MainTable").set_key(Some(key(item)));
        until(async || delete.clone().send().await.is_ok()).await;
        self.expected.remove(&sort_key(item));
    }

    async fn until_put(&mut self, item: usize, put: impl AsyncFn() -> bool) {
        self.attempts += until(put).await;
        self.expected.insert(sort_key(item), self.puts);
        self.puts += 1;
    }
}

/// Tries until it succeeds: a busy stack asks for that. How often it was tried.
async fn until(done: impl AsyncFn() -> bool) -> usize {
    for attempt in 1..PATIENCE {
        if done().await {
            return attempt;
        }
    }
    panic!("it does not succeed")
}

fn sort_key(item: usize) -> String {
    format!("{item:02}")
}

fn path(item: usize) -> String {
    format!("/item?pk={KEY}&sk={}", sort_key(item))
}

fn key(item: usize) -> std::collections::HashMap<String, AttributeValue> {
    let key = [("pk", KEY.to_owned()), ("sk", sort_key(item))];
    key.map(|(name, text)| (name.to_owned(), AttributeValue::S(text))).into()
}

/// The stack of the template, with the function in it.
fn stack_with_consumer(directory: &Path, told: &Path) -> LocalStack {
    // This one builds the functions.
    drop(LocalStack::start(&[]));
    let built = Path::new(env!("CARGO_BIN_EXE_dynashard")).parent().expect("a directory");
    for function in ["write", "read", "scale", "rebalance"].map(|name| format!("dynashard-{name}"))
    {
        symlink(built.join(&function), directory.join(&function)).expect("a link");
    }
    let script = checkout().join("cli/tests/stack/consumer.sh");
    symlink(script, directory.join("consumer")).expect("a link");

    let page = include_str!("../../../docs/ADOPTING.md");
    let mapping = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let mapping = mapping.expect("a mapping").lines().map(|line| format!("      {line}\n"));
    let executable = std::env::current_exe().expect("this executable");
    let consumer = format!(
        "  Consumer:
    Type: AWS::Serverless::Function
    Metadata: {{ BuildMethod: rust-cargolambda, BuildProperties: {{ Binary: consumer }} }}
    Properties:
      Runtime: provided.al2023
      Timeout: 20
      Environment: {{ Variables: {{ CONSUMER: '{}', TOLD: '{}' }} }}
{}",
        executable.display(),
        told.display(),
        mapping.collect::<String>(),
    );
    let template = fs::read_to_string(checkout().join("template.yaml")).expect("the template");
    let (before, table) = template.split_once("\n  MainTable:\n").expect("the table");
    let stream =
        "    Properties:\n      StreamSpecification: { StreamViewType: NEW_AND_OLD_IMAGES }\n";
    let table = table.replacen("    Properties:\n", stream, 1);
    let (resources, outputs) = table.split_once("\nOutputs:\n").expect("outputs");
    let template = format!("{before}\n  MainTable:\n{resources}\n{consumer}\nOutputs:\n{outputs}");
    let name = directory.join("template.yaml");
    fs::write(&name, template).expect("a template");
    let [name, functions] = [&name, directory].map(|path| path.to_str().expect("UTF-8"));
    let settings = ["--set", "LeaseSecs=1", "--set", "RequestLifetimeSecs=2"];
    LocalStack::start(
        &[&["--template", name, "--functions-dir", functions], &settings[..]].concat(),
    )
}

/// What the function was told, in order, as soon as that of a key is among it.
async fn until_told(told: &Path, last: &str) -> Vec<Value> {
    for _ in 0..PATIENCE {
        let text = fs::read_to_string(told).unwrap_or_default();
        // A line that is being written is not whole yet.
        let lines = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.collect::<Vec<_>>();
        if lines.iter().any(|told| told["record"]["dynamodb"]["Keys"]["pk"]["S"] == last) {
            return lines;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the function was not told of {last}")
}

/// The function itself: it notes what each record tells.
#[test]
#[ignore = "the stack runs it as a bootstrap"]
fn consumer() {
    let (Ok(api), Ok(told)) = (std::env::var("AWS_LAMBDA_RUNTIME_API"), std::env::var("TOLD"))
    else {
        return;
    };
    let mut told = OpenOptions::new().create(true).append(true).open(told).expect("a file");
    let invocation = format!("{api}/2018-06-01/runtime/invocation");
    let next =
        || Request::get(format!("{invocation}/next")).body(Full::default()).expect("a request");
    // The stack is gone when its Runtime API is, and then so is this.
    while let Ok(next) = exchange(next()) {
        let id = next.headers()["lambda-runtime-aws-request-id"].to_str().expect("an id");
        let mut event = serde_json::from_str::<Value>(next.body()).expect("an event");
        for record in event["Records"].as_array_mut().expect("records") {
            let change = Table::default().logical(record.take()).expect("a record of the table");
            writeln!(told, "{}", json!(change)).expect("it is written");
        }
        let done = Request::post(format!("{invocation}/{id}/response"));
        exchange(done.body(Full::from("{}")).expect("a request")).expect("an answer");
    }
}
