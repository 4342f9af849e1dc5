//! What `dynashard serve` costs a request, beside the same request without it.
//!
//! `cargo bench -p dynashard-cli --bench serve` prints, from one run on one machine:
//!
//! 1. how soon the endpoint is ready;
//! 2. puts of 1 KB to a table that passes through, straight to the engine and through the endpoint: latency one at a time, and
//!    the processor time of the endpoint for each, over 64 connections;
//! 3. puts to cold keys of a managed table, the same way, with the requests that the engine counts: the benchmark fails if
//!    they are more than one for each;
//! 4. pages of 100 items in order, of a key of 16 shards through the endpoint, and of the same items under one key of the
//!    table that passes through, straight to the engine;
//! 5. the memory of the endpoint after all that.
//!
//! Both ways take turns in rounds, so that what else the machine does meets both.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Failure, MAIN_TABLE, METADATA_TABLE, UNLIMITED_WCU, float, stack_options};
use dynashard_local::Stack;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use time::UtcDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

const OTHER_TABLE: &str = "Other";

/// Whoever signs, the engine lets in; what is not signed it refuses.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=bench/20261127/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

const BASIC: StaticFormatDescription =
    format_description!("[year][month][day]T[hour][minute][second]Z");

/// Requests one at a time, in each of the rounds.
const ONE_BY_ONE: u32 = 1_000;
const ROUNDS: u32 = 5;

/// Requests over many connections.
const SIDE_BY_SIDE: u32 = 50_000;
const CONNECTIONS: usize = 64;

/// The items of the key of 16 shards, and how many pages of it are read in each of the rounds.
const PAGED: u32 = 2_000;
const PAGES: u32 = 200;

/// What an item of 1 KB has beside its key.
const PAYLOAD: usize = 950;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut options = stack_options().await?;
    options.partitions.partition_wcu = UNLIMITED_WCU;
    options.overrides.push(("ScalingMode".to_owned(), "off".to_owned()));
    let stack = Stack::start(options).await?;
    let direct = stack.endpoints().dynamodb.clone();
    let client = Client::builder(TokioExecutor::new()).build_http();
    create_other(&client, &direct).await?;
    // A function pins the settings.
    let pinned = Request::put(format!("{}/item?pk=first&sk=1", stack.endpoints().api));
    let pinned = pinned.header("content-type", "application/json").body(Full::from("{}"))?;
    client.request(pinned).await?;

    let mut ready = Vec::new();
    for _ in 0..ROUNDS {
        let (endpoint, after) = Endpoint::start(&direct)?;
        drop(endpoint);
        ready.push(after);
    }
    ready.sort();
    println!("ready after {:.0} ms", millis(ready[ready.len() / 2]));
    let (endpoint, _) = Endpoint::start(&direct)?;
    let mut fails = false;
    for table in [OTHER_TABLE, MAIN_TABLE] {
        let what =
            if table == MAIN_TABLE { "cold keys of a managed table" } else { "another table" };
        println!("puts of 1 KB to {what}");
        let (mut plain, mut through) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            for (url, times) in [(&direct, &mut plain), (&endpoint.url, &mut through)] {
                for n in 0..ONE_BY_ONE {
                    let began = Instant::now();
                    put(&client, url, table, &format!("{round}-{n}")).await?;
                    times.push(began.elapsed());
                }
            }
        }
        plain.sort();
        through.sort();
        for percentile in [50, 99] {
            let at = |times: &[Duration]| millis(times[times.len() * percentile / 100]);
            let (plain, through) = (at(&plain), at(&through));
            println!(
                "  p{percentile}: {plain:.2} ms without, {through:.2} ms through it, {:.2} ms more",
                through - plain
            );
        }
        let before = (endpoint.processor_time()?, stack.counters());
        side_by_side(&client, &endpoint.url, table).await?;
        let spent = endpoint.processor_time()?.saturating_sub(before.0);
        let requests = stack.counters().table_requests(table) - before.1.table_requests(table);
        println!(
            "  {CONNECTIONS} side by side: {:.0} µs of processor for each, {:.4} requests to DynamoDB for each",
            spent.as_secs_f64() * 1e6 / f64::from(SIDE_BY_SIDE),
            float(requests) / f64::from(SIDE_BY_SIDE)
        );
        fails |= requests != u64::from(SIDE_BY_SIDE);
    }
    pages(&client, &direct, &endpoint.url, &stack.endpoints().api).await?;
    println!("{} MB of memory", endpoint.resident_kilobytes()? / 1_024);
    drop(endpoint);
    stack.shutdown().await;
    if fails {
        println!("not every put was one request");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads pages of a key of 16 shards, and of one partition.
async fn pages(client: &Http, direct: &str, through: &str, api: &str) -> Result<(), Failure> {
    let shards = json!({ "placement": "xxh64", "number_of_shards": 16 }).to_string();
    let created = Request::put(format!("{api}/collection?pk=paged"));
    let created = created.header("content-type", "application/json").body(Full::from(shards))?;
    let status = client.request(created).await?.status();
    if !status.is_success() {
        return Err(format!("the key did not get its shards: {status}").into());
    }
    let mut ways = [(direct, OTHER_TABLE, Vec::new()), (through, MAIN_TABLE, Vec::new())];
    for (url, table, _) in &ways {
        for n in 0..PAGED {
            put_item(client, url, table, ("paged", &format!("{n:06}"))).await?;
        }
    }
    for round in 0..ROUNDS * PAGES {
        for (url, table, times) in &mut ways {
            let body = json!({
                "TableName": table,
                "KeyConditionExpression": "pk = :p",
                "ExpressionAttributeValues": { ":p": { "S": "paged" } },
                "ExclusiveStartKey": { "pk": { "S": "paged" }, "sk": { "S": format!("{:06}", round * 7 % (PAGED - 200)) } },
                "Limit": 100,
            });
            let began = Instant::now();
            send(client, url, "Query", &body).await?;
            times.push(began.elapsed());
        }
    }
    let [plain, through] = ways.map(|(_, _, mut times)| {
        times.sort();
        millis(times[times.len() / 2])
    });
    println!("pages of 100 items of 1 KB, in order, of a key of 16 shards");
    println!(
        "  p50: {plain:.2} ms from one partition without it, {through:.2} ms through it, {:.2} times and {:.2} ms more than 1.3 times",
        through / plain,
        through - 1.3 * plain
    );
    Ok(())
}

/// A `dynashard serve` of its own.
struct Endpoint {
    child: Child,
    url: String,
}

impl Endpoint {
    /// Starts one, and tells how long that took.
    fn start(upstream: &str) -> Result<(Self, Duration), Failure> {
        let began = Instant::now();
        let tables = format!("{MAIN_TABLE}:{METADATA_TABLE}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_dynashard"))
            .args(["serve", "--port", "0", "--upstream", upstream, "--tables", &tables])
            .env("AWS_ACCESS_KEY_ID", "bench")
            .env("AWS_SECRET_ACCESS_KEY", "bench")
            .env("AWS_REGION", "us-east-1")
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let after = began.elapsed();
        let ready: Value = serde_json::from_str(&line)?;
        let url = ready["endpoint"].as_str().ok_or("no endpoint")?.to_owned();
        Ok((Self { child, url }, after))
    }

    /// What its process has used of the processors.
    fn processor_time(&self) -> Result<Duration, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, behind) = stat.rsplit_once(')').ok_or("no process")?;
        let ticks = behind.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks = ticks.sum::<Result<u64, _>>()?;
        // Linux counts in hundredths of a second here on every machine.
        Ok(Duration::from_millis(ticks * 10))
    }

    fn resident_kilobytes(&self) -> Result<u64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no memory")?.parse()?)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Http = Client<HttpConnector, Full<Bytes>>;

async fn side_by_side(client: &Http, url: &str, table: &str) -> Result<(), Failure> {
    let puts = stream::iter(0..SIDE_BY_SIDE)
        .map(|n| async move { put(client, url, table, &format!("many-{n}")).await });
    puts.buffer_unordered(CONNECTIONS).try_collect::<()>().await
}

async fn put(client: &Http, url: &str, table: &str, pk: &str) -> Result<(), Failure> {
    put_item(client, url, table, (pk, "1")).await
}

async fn put_item(
    client: &Http,
    url: &str,
    table: &str,
    (pk, sk): (&str, &str),
) -> Result<(), Failure> {
    let body = json!({
        "TableName": table,
        "Item": { "pk": { "S": pk }, "sk": { "S": sk }, "payload": { "S": "x".repeat(PAYLOAD) } },
    });
    send(client, url, "PutItem", &body).await
}

async fn create_other(client: &Http, url: &str) -> Result<(), Failure> {
    let body = json!({
        "TableName": OTHER_TABLE,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            { "AttributeName": "pk", "KeyType": "HASH" }, { "AttributeName": "sk", "KeyType": "RANGE" },
        ],
        "AttributeDefinitions": [
            { "AttributeName": "pk", "AttributeType": "S" }, { "AttributeName": "sk", "AttributeType": "S" },
        ],
    });
    send(client, url, "CreateTable", &body).await
}

async fn send(client: &Http, url: &str, operation: &str, body: &Value) -> Result<(), Failure> {
    let request = Request::post(url)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("authorization", SIGNATURE)
        .header("x-amz-date", UtcDateTime::now().format(BASIC)?)
        .body(Full::from(body.to_string()))?;
    let (parts, body) = client.request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    if parts.status.is_success() {
        return Ok(());
    }
    Err(format!("{}: {}", parts.status, String::from_utf8_lossy(&body)).into())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
