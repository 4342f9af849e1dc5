//! What `dynashard serve` costs a request, beside the same request without it.
//!
//! `cargo bench -p dynashard-cli --bench serve` prints, from one run on one machine:
//!
//! 1. how soon the endpoint is ready;
//! 2. puts of 1 KB to a table that passes through, straight to the engine, through a relay that only copies bytes, and through
//!    the endpoint: latency one at a time, and the processor time of the endpoint for each, over 64 connections. What the relay
//!    takes is what any hop takes on this machine;
//! 3. puts to cold keys of a managed table, the same way, with the requests that the engine counts: the benchmark fails if
//!    they are more than one for each;
//! 4. pages of 100 items in order, of a key of 16 shards through the endpoint, and of the same items under one key of another
//!    table without it: from the engine, and from answers that all come after 3 ms, as DynamoDB's servers do not share the
//!    processors of this machine;
//! 5. the memory of the endpoint after all that.
//!
//! Both ways take turns in rounds, so that what else the machine does meets both. The engine, the relay, and what remembers answers are
//! processes of their own, as DynamoDB is: in one process with the client, a request that comes straight from it wakes nobody else.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use bytes::Bytes;
use common::{Failure, MAIN_TABLE, METADATA_TABLE, UNLIMITED_WCU, float, stack_options};
use dynashard_aws_operator::Operator;
use dynashard_core::ports::{RecordStore, StoreError};
use dynashard_core::{CollectionMetadata, KeyHash, TableSchema};
use dynashard_keys::{PartitionKey, Placement, ShardCount};
use dynashard_local::Stack;
use dynashard_testkit::enlist;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde_json::{Value, json};
use time::UtcDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

const OTHER_TABLE: &str = "Other";

/// The variable that has this program be something else, and what that is.
const ROLE: &str = "DYNASHARD_BENCH_ROLE";

const STACK: &str = "stack";
const RELAY: &str = "relay";
const REMEMBERING: &str = "remembering";

/// The server that a relay passes bytes on to, or whose answers are remembered.
const SERVER: &str = "DYNASHARD_BENCH_SERVER";

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

/// So many requests of the stack's functions may be among those that the engine counts: each asks whose the table is when it begins.
const OF_FUNCTIONS: u64 = 10;

/// The items of the key of 16 shards, and how many pages of it are read in each of the rounds.
const PAGED: u32 = 2_000;
const PAGES: u32 = 100;

const PAGED_KEY: &str = "paged";

/// How long a server takes that only remembers, which is about what DynamoDB takes.
const SERVER_TIME: Duration = Duration::from_millis(3);

/// What an item of 1 KB has beside its key.
const PAYLOAD: usize = 950;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    if let Ok(role) = env::var(ROLE) {
        return match (&*role, env::var(SERVER)) {
            (STACK, _) => stack().await,
            (RELAY, Ok(server)) => relay(&server).await,
            (REMEMBERING, Ok(server)) => remembering(server).await,
            _ => Err(format!("{ROLE}={role} is unknown, or lacks {SERVER}").into()),
        };
    }
    let (stack, _) = Server::spawn(Command::new(env::current_exe()?).env(ROLE, STACK))?;
    let direct = stack.url.clone();
    let client = http();
    create_other(&client, &direct).await?;

    let mut ready = Vec::new();
    for _ in 0..ROUNDS {
        let (endpoint, after) = Server::endpoint(&direct)?;
        drop(endpoint);
        ready.push(after);
    }
    ready.sort();
    println!("ready after {:.0} ms", millis(ready[ready.len() / 2]));
    let (endpoint, _) = Server::endpoint(&direct)?;
    let relay = Server::in_front_of(&direct, RELAY)?;
    let mut fails = false;
    for table in [OTHER_TABLE, MAIN_TABLE] {
        let what =
            if table == MAIN_TABLE { "cold keys of a managed table" } else { "another table" };
        println!("puts of 1 KB to {what}");
        let (mut plain, mut relayed, mut through) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let ways =
                [(&direct, &mut plain), (&relay.url, &mut relayed), (&endpoint.url, &mut through)];
            for (url, times) in ways {
                for n in 0..ONE_BY_ONE {
                    let began = Instant::now();
                    put(&client, url, table, &format!("{round}-{n}")).await?;
                    times.push(began.elapsed());
                }
            }
        }
        plain.sort();
        relayed.sort();
        through.sort();
        for percentile in [50, 99] {
            let at = |times: &[Duration]| millis(times[times.len() * percentile / 100]);
            let (plain, relayed, through) = (at(&plain), at(&relayed), at(&through));
            println!(
                "  p{percentile}: {plain:.2} ms without, {through:.2} ms through it, {:.2} ms more; {:.2} ms more through a relay",
                through - plain,
                relayed - plain
            );
        }
        let before = (endpoint.processor_time()?, requests_on(&client, &direct, table).await?);
        side_by_side(&client, &endpoint.url, table).await?;
        let spent = endpoint.processor_time()?.saturating_sub(before.0);
        let requests = requests_on(&client, &direct, table).await? - before.1;
        println!(
            "  {CONNECTIONS} side by side: {:.0} µs of processor for each, {:.4} requests to DynamoDB for each",
            spent.as_secs_f64() * 1e6 / f64::from(SIDE_BY_SIDE),
            float(requests) / f64::from(SIDE_BY_SIDE)
        );
        let permitted = u64::from(SIDE_BY_SIDE)..=u64::from(SIDE_BY_SIDE) + OF_FUNCTIONS;
        fails |= !permitted.contains(&requests);
    }
    pages(&client, &direct).await?;
    println!("{} MB of memory", endpoint.resident_kilobytes()? / 1_024);
    if fails {
        println!("not every put was one request");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads pages of a key of 16 shards, and of one partition: of the engine, which shares the processors with the endpoint, and of
/// what it has answered before, which comes after [`SERVER_TIME`].
async fn pages(client: &Http, direct: &str) -> Result<(), Failure> {
    list_of_16_shards(direct).await?;
    let (endpoint, _) = Server::endpoint(direct)?;
    for (url, table) in [(direct, OTHER_TABLE), (&*endpoint.url, MAIN_TABLE)] {
        for n in 0..PAGED {
            put_item(client, url, table, (PAGED_KEY, &format!("{n:06}"))).await?;
        }
    }
    println!("pages of 100 items of 1 KB, in order, of a key of 16 shards");
    measure_pages(client, direct, &endpoint, "the engine").await?;
    let remembering = Server::in_front_of(direct, REMEMBERING)?;
    let (endpoint, _) = Server::endpoint(&remembering.url)?;
    let after = format!("answers that come after {} ms", SERVER_TIME.as_millis());
    measure_pages(client, &remembering.url, &endpoint, &after).await
}

/// Lists the key as one that has had its 16 shards for long: to grow takes a quarter of an hour.
async fn list_of_16_shards(direct: &str) -> Result<(), Failure> {
    let records = Operator::on_this_machine(direct).await;
    let records = records.records(METADATA_TABLE, &TableSchema::default());
    let (partition, shards) = (PartitionKey::new(PAGED_KEY)?, ShardCount::new(16)?);
    let hash = KeyHash::of(&partition);
    let metadata = CollectionMetadata::stable(partition, Placement::Xxh64, shards, 1_700_000_000);
    let failed = |error: StoreError| format!("the key did not get its shards: {error:?}");
    enlist(&records, &metadata).await.map_err(failed)?;
    let groups = [hash.segment().group(), hash.metadata_group()];
    records.raise(&groups).await.map_err(failed)?;
    Ok(())
}

async fn measure_pages(
    client: &Http,
    direct: &str,
    endpoint: &Server,
    what: &str,
) -> Result<(), Failure> {
    let mut ways = [(direct, OTHER_TABLE, Vec::new()), (&*endpoint.url, MAIN_TABLE, Vec::new())];
    let mut before = Duration::ZERO;
    for round in 0..=ROUNDS {
        // The first round asks for the first time.
        if round == 1 {
            for (_, _, times) in &mut ways {
                times.clear();
            }
            before = endpoint.processor_time()?;
        }
        for page in 0..PAGES {
            let start = format!("{:06}", page * 7 % (PAGED - 200));
            for (url, table, times) in &mut ways {
                let body = json!({
                    "TableName": table,
                    "KeyConditionExpression": "pk = :p",
                    "ExpressionAttributeValues": { ":p": { "S": PAGED_KEY } },
                    "ExclusiveStartKey": { "pk": { "S": PAGED_KEY }, "sk": { "S": start } },
                    "Limit": 100,
                });
                let began = Instant::now();
                send(client, url, "Query", &body).await?;
                times.push(began.elapsed());
            }
        }
    }
    let spent = endpoint.processor_time()?.saturating_sub(before);
    for (_, _, times) in &mut ways {
        times.sort();
    }
    println!(
        "  of {what}: {:.1} ms of processor for each",
        millis(spent) / f64::from(ROUNDS * PAGES)
    );
    for percentile in [50, 90] {
        let at = |way: usize| millis(ways[way].2[ways[way].2.len() * percentile / 100]);
        let (plain, through) = (at(0), at(1));
        println!(
            "    p{percentile}: {plain:.2} ms of one partition without it, {through:.2} ms through it, {:.2} times",
            through / plain
        );
    }
    Ok(())
}

/// The stack, with a table that nobody manages beside its own, until its process ends.
async fn stack() -> Result<ExitCode, Failure> {
    let mut options = stack_options().await?;
    options.partitions.partition_wcu = UNLIMITED_WCU;
    options.overrides.push(("ScalingMode".to_owned(), "off".to_owned()));
    let stack = Stack::start(options).await?;
    // A function pins the settings.
    let pinned = Request::put(format!("{}/item?pk=first&sk=1", stack.endpoints().api));
    let pinned = pinned.header("content-type", "application/json").body(Full::from("{}"))?;
    http().request(pinned).await?;
    println!("{}", json!({ "endpoint": stack.endpoints().dynamodb }));
    std::future::pending().await
}

/// A server that asks another one each query once, and answers it after [`SERVER_TIME`] from then on.
async fn remembering(server: String) -> Result<ExitCode, Failure> {
    let client = http();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", json!({ "endpoint": format!("http://{}", listener.local_addr()?) }));
    let known = Arc::<Mutex<HashMap<Bytes, Bytes>>>::default();
    let answer = move |request: axum::extract::Request| {
        let (client, server, known) = (client.clone(), server.clone(), Arc::clone(&known));
        async move {
            let (parts, body) = request.into_parts();
            let asked = body.collect().await.map_err(|_| StatusCode::BAD_REQUEST)?.to_bytes();
            let remembered = known.lock().get(&asked).cloned();
            if let Some(answer) = remembered {
                tokio::time::sleep(SERVER_TIME).await;
                return Ok(answer);
            }
            let mut sent = Request::post(server);
            for name in ["content-type", "x-amz-target", "authorization", "x-amz-date"] {
                sent = sent.header(name, &parts.headers[name]);
            }
            let is_query = parts.headers["x-amz-target"].as_bytes().ends_with(b".Query");
            let sent = sent.body(Full::from(asked.clone())).map_err(|_| StatusCode::BAD_REQUEST)?;
            let answer = client.request(sent).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
            if !answer.status().is_success() {
                return Err(answer.status());
            }
            let answer = answer.into_body().collect().await.map_err(|_| StatusCode::BAD_GATEWAY)?;
            let answer = answer.to_bytes();
            if is_query {
                known.lock().insert(asked, answer.clone());
            }
            Ok(answer)
        }
    };
    axum::serve(listener, Router::new().fallback(answer)).await?;
    Ok(ExitCode::SUCCESS)
}

/// Passes bytes on to a server, until its process ends.
async fn relay(server: &str) -> Result<ExitCode, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", json!({ "endpoint": format!("http://{}", listener.local_addr()?) }));
    let address = server.trim_start_matches("http://");
    loop {
        let (mut client, _) = listener.accept().await?;
        let mut server = TcpStream::connect(address).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
    }
}

/// A server in a process of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `dynashard serve`, and tells how long that took.
    fn endpoint(upstream: &str) -> Result<(Self, Duration), Failure> {
        let tables = format!("{MAIN_TABLE}:{METADATA_TABLE}");
        Self::spawn(
            Command::new(env!("CARGO_BIN_EXE_dynashard"))
                .args(["serve", "--port", "0", "--upstream", upstream, "--tables", &tables])
                .env("AWS_ACCESS_KEY_ID", "bench")
                .env("AWS_SECRET_ACCESS_KEY", "bench")
                .env("AWS_REGION", "us-east-1"),
        )
    }

    /// Starts this program again, in another role.
    fn in_front_of(server: &str, role: &str) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        Ok(Self::spawn(command.env(ROLE, role).env(SERVER, server))?.0)
    }

    fn spawn(command: &mut Command) -> Result<(Self, Duration), Failure> {
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn()?;
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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Http = Client<HttpConnector, Full<Bytes>>;

fn http() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// How many requests on a table the engine has counted.
async fn requests_on(client: &Http, engine: &str, table: &str) -> Result<u64, Failure> {
    let counters = client.get(format!("{engine}/_dynashard/counters").parse()?).await?;
    let counters =
        serde_json::from_slice::<Value>(&counters.into_body().collect().await?.to_bytes())?;
    let of_table = counters["tables"][table].as_object().into_iter().flatten();
    Ok(of_table.filter_map(|(_, operation)| operation["requests"].as_u64()).sum())
}

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
