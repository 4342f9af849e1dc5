//! What a put costs, to cold keys and to a hot one, beside a plain `PutItem` and beside a writer that reads
//! the metadata before every write; and how fast the local stack is.
//!
//! `cargo bench -p dynashard-cli --bench steady_put` prints, from one run on one machine:
//!
//! 1. requests, write units and latency of 100,000 puts to 100,000 keys by the writer, of puts to a key
//!    of four shards, of plain `PutItem`s of the SDK, and of puts that read the collection's metadata
//!    first, as "Choosing the right number of shards" describes it (AWS Database Blog, linked in
//!    ARCHITECTURE.md);
//! 2. the puts a second that the whole stack serves over HTTP, one item a request;
//! 3. how soon `dynashard local` is ready once its binaries are built.
//!
//! Requests and units come from the `dynamodb` endpoint's own counters and are the same on every machine:
//! the benchmark fails if a cold put takes more than it may. Times are the machine's.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue as Sdk;
use common::{
    Api, Failure, MAIN_TABLE, METADATA_TABLE, PAYLOAD_BYTES, Tables, UNLIMITED_WCU, float,
    operation, stack_options, workspace,
};
use dynashard_aws::{OsEntropy, ServerClock, connect_local};
use dynashard_core::ports::World;
use dynashard_core::ports::{CollectionCatalog, ReadRecords};
use dynashard_core::{
    AttributeValue, Attributes, CollectionMetadata, Deadline, Directory, NewItem, Precondition,
    Settings, Writer,
};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use dynashard_local::{Counters, Stack};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use serde_json::json;

/// Puts to one key, and over HTTP.
const PUTS: u32 = 10_000;

/// Puts to as many keys.
const COLD_PUTS: u32 = 100_000;

const IN_FLIGHT: usize = 16;

/// What a cold put may take, in requests to both tables and in write units.
const MOST_REQUESTS: f64 = 1.01;
const MOST_WCU: f64 = 1.0;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut options = stack_options().await?;
    // What is measured is the machine, so nothing may throttle.
    options.partitions.partition_wcu = UNLIMITED_WCU;
    let stack = Stack::start(options).await?;

    println!("Puts of items of 1 KB, {IN_FLIGHT} in flight");
    println!(
        "{:<40} {:>8} {:>13} {:>8} {:>8} {:>8} {:>8}",
        "", "puts", "requests/put", "WCU/put", "µs/put", "p50 ms", "p99 ms"
    );
    let cold = Box::pin(puts(&stack, Way::Cold, COLD_PUTS)).await?;
    cold.print("to as many cold keys");
    let plain = Box::pin(puts(&stack, Way::Plain, PUTS)).await?;
    plain.print("plain PutItem");
    let hot = Box::pin(puts(&stack, Way::Hot, PUTS)).await?;
    hot.print("to a key of four shards");
    let reading = Box::pin(puts(&stack, Way::ReadingMetadata, PUTS)).await?;
    reading.print("the same, metadata read before each");
    println!(
        "{:<40} {:>36.2} {:>8.2}",
        "ratio, cold to plain, of p50 and p99",
        cold.percentile(50) / plain.percentile(50),
        cold.percentile(99) / plain.percentile(99)
    );
    let left = Tables::of(&stack).await.metadata.collections(None).await;
    let left = left.map_err(|error| format!("the metadata table cannot be read: {error:?}"))?;
    let enlisted = left.entries.len();
    println!("{:<40} {enlisted:>8}", "collections with metadata");
    let holds = cold.requests <= MOST_REQUESTS && cold.wcu <= MOST_WCU && enlisted == 1;

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
    if !holds {
        println!(
            "A COLD PUT TAKES MORE THAN {MOST_REQUESTS} REQUESTS, {MOST_WCU} WCU OR NO METADATA"
        );
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How items are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each to a key of its own.
    Cold,
    /// To one key of several shards.
    Hot,
    /// Puts with a read of the metadata before each.
    ReadingMetadata,
    /// By the SDK alone, each to a key of its own.
    Plain,
}

/// What puts took.
struct Cost {
    requests: f64,
    wcu: f64,
    micros: f64,
    /// In order.
    latencies: Vec<Duration>,
}

impl Cost {
    fn print(&self, what: &str) {
        let Self { requests, wcu, micros, latencies } = self;
        let [p50, p99] = [50, 99].map(|percent| self.percentile(percent));
        println!(
            "{what:<40} {:>8} {requests:>13.4} {wcu:>8.3} {micros:>8.1} {p50:>8.2} {p99:>8.2}",
            latencies.len()
        );
    }

    /// In milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.latencies.len() * percent).div_ceil(100).saturating_sub(1);
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// Puts through the writer of the functions, in this process, against the stack's DynamoDB.
async fn puts(stack: &Stack, way: Way, puts: u32) -> Result<Cost, Failure> {
    let settings = Settings::default();
    let schema = settings.schema.clone();
    let Tables { items, metadata, clock } = Tables::of(stack).await;
    let client = connect_local(&stack.endpoints().dynamodb, ServerClock::default()).await;
    let world = World::new(items, metadata.clone(), clock, OsEntropy);
    let writer = Writer::new(Directory::new(world, settings));
    let hot = PartitionKey::new("hot")?;
    if way == Way::Hot {
        let body = json!({ "number_of_shards": 4 });
        Api::of(stack).json(Method::PUT, "/collection?pk=hot", &body).await?;
    }

    let put = async |n: u32| -> Result<Duration, Failure> {
        let began = Instant::now();
        let partition = match way {
            Way::Cold | Way::Plain => PartitionKey::new(format!("{way:?} {n:08}"))?,
            Way::Hot | Way::ReadingMetadata => hot.clone(),
        };
        let text = "x".repeat(PAYLOAD_BYTES);
        if way == Way::Plain {
            let put = client.put_item().table_name(MAIN_TABLE);
            let put = put.item("pk", Sdk::S(partition.to_string())).item("sk", Sdk::S("0".into()));
            put.item("payload", Sdk::S(text)).send().await?;
            return Ok(began.elapsed());
        }
        if way == Way::ReadingMetadata {
            let read = metadata.get::<CollectionMetadata>(&partition).await;
            read.map_err(|error| format!("the metadata cannot be read: {error:?}"))?;
        }
        let key = ItemKey::new(partition, SortKey::string(format!("{n:08}"))?);
        let payload = Attributes::from([("payload".to_owned(), AttributeValue::String(text))]);
        let item = NewItem::new(key, payload, &schema)?;
        let deadline = Deadline::after(writer.directory().now(), Duration::from_secs(10));
        writer.put(&item, Precondition::None, deadline).await?;
        Ok(began.elapsed())
    };

    let before = stack.counters();
    let started = Instant::now();
    let each = (0..puts).map(&put).collect::<Vec<_>>();
    let latencies = stream::iter(each).buffer_unordered(IN_FLIGHT).try_collect::<Vec<_>>();
    let mut latencies = latencies.await?;
    let elapsed = started.elapsed();
    let after = stack.counters();
    latencies.sort_unstable();

    let requests = [MAIN_TABLE, METADATA_TABLE]
        .map(|table| after.table_requests(table) - before.table_requests(table));
    let wcu = |counters: &Counters| operation(counters, MAIN_TABLE, "PutItem").consumed_wcu;
    Ok(Cost {
        requests: float(requests.iter().sum()) / f64::from(puts),
        wcu: (wcu(&after) - wcu(&before)) / f64::from(puts),
        micros: elapsed.as_secs_f64() * 1e6 / f64::from(puts),
        latencies,
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
