//! What a steady put costs, beside a writer that reads the metadata before every write, and how fast
//! the local stack is.
//!
//! `cargo bench -p dynashard-cli` prints, from one run on one machine:
//!
//! 1. requests, write units and time of a put by the writer, and of one that reads the collection's
//!    metadata before every write, as "Choosing the right number of shards" describes it
//!    (AWS Database Blog, linked in ARCHITECTURE.md);
//! 2. the puts a second that the whole stack serves over HTTP, one item a request;
//! 3. how soon `dynashard local` is ready once its binaries are built.
//!
//! Figures of the first part come from the `dynamodb` endpoint's own counters.

// The SDK's futures nest deeply, and so do the types of the futures that await them.
#![recursion_limit = "256"]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::io::{BufRead, BufReader};
use std::num::NonZeroU32;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    Api, Failure, MAIN_TABLE, METADATA_TABLE, PAYLOAD_BYTES, Tables, float, operation,
    stack_options, workspace,
};
use dynashard_aws::OsEntropy;
use dynashard_core::ports::MetadataStore;
use dynashard_core::{
    AttributeValue, Attributes, Deadline, Directory, NewItem, Precondition, Settings, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use dynashard_local::{Counters, Stack};
use futures_util::stream::{self, StreamExt, TryStreamExt};

const PUTS: u32 = 10_000;
const IN_FLIGHT: usize = 16;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut options = stack_options().await?;
    // What is measured is the machine, so nothing may throttle.
    options.partitions.partition_wcu = NonZeroU32::MAX;
    let stack = Stack::start(options).await?;

    println!("A put of 1 KB, {PUTS} puts, {IN_FLIGHT} in flight, to one pre-warmed collection");
    println!("{:<34} {:>12} {:>12} {:>12}", "", "requests/put", "WCU/put", "µs/put");
    let steady = Box::pin(writer_puts(&stack, "steady", false)).await?;
    steady.print("this writer");
    let baseline = Box::pin(writer_puts(&stack, "baseline", true)).await?;
    baseline.print("metadata read before each put");
    println!(
        "{:<34} {:>12.2} {:>12.2} {:>12.2}",
        "ratio, that to this",
        baseline.requests / steady.requests,
        baseline.wcu / steady.wcu,
        baseline.micros / steady.micros
    );

    let rate = http_puts(&stack).await?;
    println!("\nOver HTTP, API and Lambda: {rate:.0} puts a second, one item a request");
    stack.shutdown().await;

    let mut ready = Vec::new();
    for _ in 0..5 {
        ready.push(time_to_ready()?);
    }
    ready.sort();
    println!(
        "`dynashard local` is ready in {:?} (median of {}, slowest {:?})",
        ready[ready.len() / 2],
        ready.len(),
        ready[ready.len() - 1]
    );
    Ok(())
}

/// What one put took on average.
struct Cost {
    requests: f64,
    wcu: f64,
    micros: f64,
}

impl Cost {
    fn print(&self, what: &str) {
        let Self { requests, wcu, micros } = self;
        println!("{what:<34} {requests:>12.4} {wcu:>12.3} {micros:>12.1}");
    }
}

/// Puts through the writer of the functions, in this process, against the stack's DynamoDB.
async fn writer_puts(stack: &Stack, pk: &str, read_each_time: bool) -> Result<Cost, Failure> {
    let settings = Settings::default();
    let schema = settings.schema.clone();
    let Tables { items, metadata, clock } = Tables::of(stack).await;
    let writer = Writer::new(items, Directory::new(metadata.clone(), clock, OsEntropy, settings));
    let partition = PartitionKey::new(pk)?;

    let put = async |n: u32| -> Result<(), Failure> {
        let key = ItemKey::new(partition.clone(), SortKey::string(format!("{n:08}"))?);
        let payload = AttributeValue::String("x".repeat(PAYLOAD_BYTES));
        let item = NewItem::new(key, Attributes::from([("payload".to_owned(), payload)]), &schema)?;
        if read_each_time {
            // The item is in the writer's cache too, so this read costs and changes nothing else.
            let read = metadata.get(&partition).await;
            read.map_err(|error| format!("the metadata cannot be read: {error:?}"))?;
        }
        let deadline = Deadline::after(writer.directory().now(), Duration::from_secs(10));
        writer.put(&item, Precondition::None, deadline).await?;
        Ok(())
    };
    put(0).await?;

    let before = stack.counters();
    let started = Instant::now();
    let puts = (1..=PUTS).map(&put).collect::<Vec<_>>();
    stream::iter(puts).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    let elapsed = started.elapsed();
    let after = stack.counters();

    let requests = [MAIN_TABLE, METADATA_TABLE]
        .map(|table| after.table_requests(table) - before.table_requests(table));
    let wcu = |counters: &Counters| operation(counters, MAIN_TABLE, "PutItem").consumed_wcu;
    Ok(Cost {
        requests: float(requests.iter().sum()) / f64::from(PUTS),
        wcu: (wcu(&after) - wcu(&before)) / f64::from(PUTS),
        micros: elapsed.as_secs_f64() * 1e6 / f64::from(PUTS),
    })
}

/// Puts a second through the API, with the load made by this process on the same cores.
async fn http_puts(stack: &Stack) -> Result<f64, Failure> {
    let api = Api::of(stack);
    let put = async |n: u32| api.put("http", &format!("{n:08}")).await.map(drop);
    put(0).await?;
    let started = Instant::now();
    let puts = (1..=PUTS).map(&put).collect::<Vec<_>>();
    stream::iter(puts).buffer_unordered(8).try_collect::<()>().await?;
    Ok(f64::from(PUTS) / started.elapsed().as_secs_f64())
}

/// From the start of the process to its ready line. It looks whether the functions are built, as it
/// does for a user, but has nothing to build.
fn time_to_ready() -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dynashard"))
        .args(["local", "--port", "0", "--dynamodb-port", "0", "--lambda-port", "0"])
        .current_dir(workspace()?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let elapsed = started.elapsed();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )?;
    child.wait()?;
    if line.contains("\"ready\":true") {
        Ok(elapsed)
    } else {
        Err("the stack did not start".into())
    }
}
