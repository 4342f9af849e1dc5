//! What it takes to check a table of a million small items with `dynashard adopt`.
//!
//! `cargo bench -p dynashard-cli --bench adopt` loads an embedded DynamoDB and prints the seconds, the read
//! units and the peak memory of the command. The read units are the same on every machine. The time is
//! the engine's, which reads a segment again for each page; on AWS it follows from `--read-units`.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, PutRequest,
    ScalarAttributeType, WriteRequest,
};
use common::{Failure, workspace};
use dynashard_aws::{ServerClock, connect_local};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

const ITEMS: u32 = 1_000_000;
const TABLE: &str = "Orders";

/// What `BatchWriteItem` takes at once, and how many of them are under way.
const BATCH: u32 = 25;
const IN_FLIGHT: usize = 8;

/// How often the memory of the command is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut engine = Ended(
        Command::new(env!("CARGO_BIN_EXE_dynashard"))
            .args(["local", "--engine-only", "--no-throttle", "--dynamodb-port", "0"])
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let mut line = String::new();
    BufReader::new(engine.0.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let ready = serde_json::from_str::<Value>(&line)?;
    let url = ready["dynamodb"].as_str().ok_or("no address")?;
    let client = connect_local(url, ServerClock::default()).await;

    let begun = Instant::now();
    load(&client).await?;
    println!("{ITEMS} items were loaded in {:.0?}", begun.elapsed());

    for segments in ["1", "4", "16"] {
        let begun = Instant::now();
        let arguments = ["adopt", "--json", "--table", TABLE, "--endpoint-url", url];
        let mut adopt = Command::new(env!("CARGO_BIN_EXE_dynashard"))
            .args(arguments)
            .args(["--segments", segments, "--read-units", "1000000"])
            .current_dir(workspace()?)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut peak = None;
        // The report is small, so the pipe takes it.
        while adopt.try_wait()?.is_none() {
            peak = peak_kb(adopt.id()).or(peak);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let took = begun.elapsed();
        let output = adopt.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let report = serde_json::from_str::<Value>(text.lines().last().ok_or("no report")?)?;
        println!(
            "{segments:>2} segments: {:.1} s, {} items, {} bytes, {} read units, VmHWM {} kB",
            took.as_secs_f64(),
            report["items"],
            report["bytes"],
            report["consumed_rcu"],
            peak.unwrap_or_default(),
        );
        if report["items"] != ITEMS {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A process that ends with the benchmark.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The most memory that a process ever had; nothing once it has ended.
fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

async fn load(client: &Client) -> Result<(), Failure> {
    let define = |name: &str| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build()
    };
    let element =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(define("customer")?)
        .attribute_definitions(define("at")?)
        .key_schema(element("customer", KeyType::Hash)?)
        .key_schema(element("at", KeyType::Range)?)
        .send()
        .await?;
    let batches = (0..ITEMS / BATCH).map(|batch| write(client, batch * BATCH));
    stream::iter(batches).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
}

async fn write(client: &Client, first: u32) -> Result<(), Failure> {
    let text = |text: String| AttributeValue::S(text);
    let puts = (first..first + BATCH).map(|number| {
        let put = PutRequest::builder()
            .item("customer", text(format!("CUSTOMER#{}", number / 10)))
            .item("at", text(format!("2026-11-22T{number:08}")))
            .item("total", AttributeValue::N(number.to_string()))
            .build()?;
        Ok(WriteRequest::builder().put_request(put).build())
    });
    let puts = puts.collect::<Result<Vec<_>, Failure>>()?;
    let answer = client.batch_write_item().request_items(TABLE, puts).send().await?;
    if answer.unprocessed_items.unwrap_or_default().is_empty() {
        return Ok(());
    }
    Err("a batch was not written".into())
}
