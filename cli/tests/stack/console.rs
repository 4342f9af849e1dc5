//! The console of the real command: beside the local stack, and by itself where nothing works.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dynashard_aws_operator::{Operator, ReadMeter};
use dynashard_core::ports::{Change, List, ReadRecords, RecordStore, StoreError};
use dynashard_core::{DirectoryItem, Ledger, LedgerKind, Pinned, Settings};
use dynashard_keys::PartitionKey;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{LocalStack, operator_command, without_account};

/// What a busy machine may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running `dynashard console`. Dropping it ends it.
struct Console {
    child: Child,
    url: String,
}

impl Console {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str::<Value>(&line).expect("the ready line");
        assert_eq!(ready["ready"], true);
        let url = ready["console"].as_str().expect("an address").to_owned();
        Self { child, url }
    }

    /// Ends it as Ctrl-C does, and returns its exit status.
    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a GET, and returns the connection with the answer to come.
fn ask(url: &str, path: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

fn get(url: &str, path: &str) -> String {
    let mut answer = String::new();
    ask(url, path).read_to_string(&mut answer).expect("an answer");
    answer
}

/// The stream goes on for ever, whatever it tells: so many lines are some minutes.
const MOST_LINES: usize = 1_000;

/// What the stream has told up to an event of this name with this in it.
fn told(url: &str, event: &str, words: &str) -> String {
    let mut all = String::new();
    let mut is_event = false;
    for line in BufReader::new(ask(url, "/api/stream")).lines().take(MOST_LINES) {
        let line = line.expect("it is told in time");
        all.push_str(&line);
        all.push('\n');
        if is_event && line.starts_with("data: ") && line.contains(words) {
            return all;
        }
        is_event = line == format!("event: {event}") || (is_event && !line.starts_with("data: "));
    }
    panic!("{words:?} is not among what was told: {all}");
}

#[test]
fn the_local_stack_serves_its_console_and_names_it() {
    let stack = LocalStack::start(&["--console-port", "0"]);
    let url = stack.ready["console"].as_str().expect("an address").to_owned();
    let page = get(&url, "/");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<title>dynashard console"),
        "{page}"
    );
    let told = told(&url, "overview", "\"counts_throttles\":true");
    assert!(told.contains("local stack at") && !told.contains("\"about\":"), "{told}");
    drop(stack);
    assert!(TcpStream::connect(url.trim_start_matches("http://")).is_err(), "it has ended, too");
}

#[test]
fn the_console_of_a_stack_ends_with_a_signal() {
    let stack = LocalStack::start(&[]);
    let console = Console::start(operator_command(&stack, &["console", "--port", "0"]));
    let told = told(&console.url, "overview", "\"counts_throttles\":false");
    assert!(told.contains("MainTable"), "{told}");
    assert_eq!(console.end(), Some(0));
}

#[test]
fn no_secret_reaches_the_page_and_what_is_wrong_does() {
    let stack = LocalStack::start(&[]);
    let (id, secret) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let mut command = operator_command(&stack, &["console", "--port", "0", "--allow-changes"]);
    command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
    let console = Console::start(command);
    let shown = told(&console.url, "overview", "series") + &get(&console.url, "/");
    assert!(!shown.contains(id) && !shown.contains(secret), "{shown}");

    let tables = ["--main-table", "Nowhere", "--metadata-table", "MetadataTable"];
    let endpoint = ["--endpoint-url", stack.dynamodb.as_str()];
    let console = ["console", "--port", "0"];
    let missing = Console::start(without_account(&[&console[..], &tables, &endpoint].concat()));
    let told_of_it = told(&missing.url, "waiting", "Nowhere");
    assert!(told_of_it.contains("connection_failed"), "{told_of_it}");

    let nobody = Console::start(without_account(&["console", "--port", "0", "--stack-name", "x"]));
    told(&nobody.url, "waiting", "--region");
    let no_account = ["console", "--port", "0", "--stack-name", "x", "--region", "eu-west-1"];
    let nobody = Console::start(without_account(&no_account));
    told(&nobody.url, "waiting", "there are no AWS credentials");
    assert!(get(&nobody.url, "/").starts_with("HTTP/1.1 200"), "the page is there all the same");
}

#[tokio::test]
async fn what_reads_consume_is_counted() {
    let stack = LocalStack::start(&[]);
    let meter = ReadMeter::default();
    let operator = Operator::on_this_machine(&stack.dynamodb).await.metered(&meter);
    let metadata = operator.records("MetadataTable", &dynashard_core::TableSchema::default());
    let partition = PartitionKey::new("EWR").expect("a key");
    assert!(meter.consumed_rcu() < 1e-9);
    metadata.get::<Ledger>(&(partition.clone(), LedgerKind::Heat)).await.expect("a read");
    assert!((meter.consumed_rcu() - 1.0).abs() < 1e-9, "a strong read: {}", meter.consumed_rcu());
    metadata.list(List::Grown, None).await.expect("a read");
    assert!((meter.consumed_rcu() - 1.5).abs() < 1e-9, "an eventual one: {}", meter.consumed_rcu());
}

#[tokio::test]
async fn tables_of_another_version_are_named() {
    let stack = LocalStack::start(&[]);
    let operator = Operator::on_this_machine(&stack.dynamodb).await;
    let metadata = operator.records("MetadataTable", &dynashard_core::TableSchema::default());
    let pinned = Pinned { format: Pinned::FORMATS.end() + 1, ..Pinned::of(&Settings::default()) };
    loop {
        let seen =
            metadata.get::<DirectoryItem>(&()).await.expect("a read").value.unwrap_or_default();
        match metadata
            .commit(&[Change::of_directory(&seen, seen.with_pinned(pinned.clone()))])
            .await
        {
            // The first sweep has pinned the stack's own settings in between.
            Err(StoreError::ConditionFailed { .. }) => {}
            stored => break stored.map(drop).expect("it is stored"),
        }
    }
    let console = Console::start(operator_command(&stack, &["console", "--port", "0"]));
    let known = Pinned::FORMATS.end();
    let words = format!("format {}, and this software knows up to {known}", known + 1);
    let told = told(&console.url, "waiting", &words);
    assert!(told.contains("settings_mismatch"), "{told}");
}
