#![allow(dead_code, unreachable_pub, reason = "each benchmark uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "benchmarks read the clock")]
//! What the benchmarks share: the stack of release builds, its tables, and a client of its API.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dynashard_aws::{DynamoItemStore, DynamoRecordStore, ServerClock, SystemClock};
use dynashard_core::ports::ReadRecords;
use dynashard_core::{CollectionMetadata, Job, Phase, Settings};
use dynashard_keys::PartitionKey;
use dynashard_local::{
    Counters, Functions, Limits, OperationCount, Stack, StackOptions, TemplateSource,
    build_functions, load_template,
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::task::JoinSet;

pub type Failure = Box<dyn Error + Send + Sync>;

pub const MAIN_TABLE: &str = "MainTable";
pub const METADATA_TABLE: &str = "MetadataTable";

/// The most write units that the template gives a partition: none refuses what is measured.
pub const UNLIMITED_WCU: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();

/// With its keys and the system's attributes, an item of just under one kilobyte.
pub const PAYLOAD_BYTES: usize = 900;

/// The root of the workspace.
pub fn workspace() -> Result<&'static Path, Failure> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?)
}

/// A stack of this checkout on free ports. Its functions are built as the benchmark is: for figures that count, in release.
pub async fn stack_options() -> Result<StackOptions, Failure> {
    let workspace = workspace()?;
    let source = TemplateSource::Path(workspace.join("template.yaml"));
    let template = load_template(&source, &[])?;
    let functions =
        Functions::Built(build_functions(&template, workspace, !cfg!(debug_assertions)).await?);
    Ok(StackOptions::new(source, functions))
}

/// A stack with partitions that take so many write units, and three times as many read units, and with these
/// parameters of the template.
pub fn stack_of(options: &StackOptions, limit: u32, settings: &[(&str, &str)]) -> StackOptions {
    let overrides = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let least = |units| NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
    StackOptions {
        overrides: overrides.collect(),
        partitions: Limits {
            partition_wcu: least(limit),
            partition_rcu: least(3 * limit),
            burst_secs: 1,
            ..Limits::default()
        },
        ..options.clone()
    }
}

/// Whether a part of a benchmark was asked for by its name, or none was.
pub fn is_chosen(part: &str) -> bool {
    // Cargo passes options of its own.
    let mut names = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    names.peek().is_none() || names.any(|name| name == part)
}

/// The tables of a stack as its functions see them, without its API.
#[derive(Debug, Clone)]
pub struct Tables {
    pub items: DynamoItemStore,
    pub metadata: DynamoRecordStore,
    pub clock: SystemClock,
}

/// How often metadata is looked at while something is waited for.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest that a change of the count may take here; nothing takes half of it.
pub const PATIENCE: Duration = Duration::from_mins(10);

impl Tables {
    pub async fn of(stack: &Stack) -> Self {
        let schema = Settings::default().schema;
        let server = ServerClock::default();
        let clock = SystemClock::new(server.clone());
        let client = dynashard_aws::connect_local(&stack.endpoints().dynamodb, server).await;
        Self {
            metadata: DynamoRecordStore::new(client.clone(), METADATA_TABLE.into(), &schema),
            items: DynamoItemStore::new(client, clock.clone(), MAIN_TABLE.into(), schema),
            clock,
        }
    }

    /// The metadata of a collection that exists.
    pub async fn collection(&self, pk: &PartitionKey) -> Result<CollectionMetadata, Failure> {
        let found = self.metadata.get(pk).await;
        let found = found.map_err(|error| format!("the metadata cannot be read: {error:?}"))?;
        Ok(found.value.ok_or("the collection does not exist")?)
    }

    /// The job of the reshard that runs, or whose markers are not removed yet.
    pub async fn job(&self, pk: &PartitionKey) -> Result<Option<Job>, Failure> {
        let found = self.metadata.get::<Job>(pk).await;
        Ok(found.map_err(|error| format!("the job cannot be read: {error:?}"))?.value)
    }

    /// Waits until the reshard has closed and its markers are removed.
    pub async fn rests(&self, pk: &PartitionKey) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.collection(pk).await?.phase == Phase::Stable && self.job(pk).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err("the reshard never came to its end".into())
    }
}

/// A client of a stack's API that keeps its connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    item: String,
}

impl Api {
    pub fn of(stack: &Stack) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            base: stack.endpoints().api.clone(),
            item: format!("{{\"payload\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES)),
        }
    }

    /// An item of 1 KB.
    pub fn item(&self) -> &str {
        &self.item
    }

    /// Puts an item of 1 KB.
    pub async fn put(&self, pk: &str, sk: &str) -> Result<Value, Failure> {
        let path = format!("/item?pk={pk}&sk={sk}");
        Ok(serde_json::from_slice(
            &self.send(Method::PUT, &path, Bytes::from(self.item.clone())).await?,
        )?)
    }

    /// Gets an item as most clients do, without asking for a strong read.
    pub async fn get(&self, pk: &str, sk: &str) -> Result<(), Failure> {
        self.send(Method::GET, &format!("/item?pk={pk}&sk={sk}"), Bytes::new()).await.map(drop)
    }

    /// Sends JSON. An answer without success is an error.
    pub async fn json(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        let answer = self.send(method, path, Bytes::from(body.to_string())).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Sends JSON with these headers, and returns what was answered, whatever it is.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.client.request(request.body(Full::from(body.to_owned()))?).await?;
        let etag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok());
        let (status, etag) = (answer.status().as_u16(), etag.map(str::to_owned));
        let retry_after = answer.headers().get("retry-after").and_then(|secs| secs.to_str().ok());
        let retry_after = retry_after.and_then(|secs| secs.parse().ok());
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(Answer { status, etag, retry_after, body: String::from_utf8_lossy(&body).into_owned() })
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        let answer = self.client.request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(Refused::of(status, &body).into()) }
    }
}

/// What a request was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub etag: Option<String>,
    /// In seconds.
    pub retry_after: Option<u64>,
    pub body: String,
}

/// An answer without success.
#[derive(Debug, thiserror::Error)]
#[error("{status}: {body}")]
pub struct Refused {
    pub status: StatusCode,
    pub body: String,
}

impl Refused {
    fn of(status: StatusCode, body: &[u8]) -> Self {
        Self { status, body: String::from_utf8_lossy(body).into_owned() }
    }
}

/// What one operation on a table has consumed; nothing if it was never used.
pub fn operation(counters: &Counters, table: &str, operation: &str) -> OperationCount {
    let operations = counters.tables.get(table);
    operations.and_then(|operations| operations.get(operation)).copied().unwrap_or_default()
}

/// What was counted of all operations on a table between two looks.
pub fn consumed(before: &Counters, after: &Counters, table: &str) -> OperationCount {
    let mut sum = OperationCount::default();
    for name in after.tables.get(table).into_iter().flat_map(|operations| operations.keys()) {
        let (before, after) = (operation(before, table, name), operation(after, table, name));
        sum.requests += after.requests - before.requests;
        sum.consumed_rcu += after.consumed_rcu - before.consumed_rcu;
        sum.consumed_wcu += after.consumed_wcu - before.consumed_wcu;
    }
    sum
}

/// A count as a number to divide.
pub fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// What was answered, and when.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub at: Instant,
    pub took: Duration,
    pub status: u16,
}

/// Offers requests at a steady rate, whatever becomes of them, and returns what was answered.
pub async fn offered<F>(
    per_sec: u32,
    secs: u32,
    request: impl Fn(u32) -> F,
) -> Result<Vec<Sample>, Failure>
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let began = Instant::now();
    let mut under_way = JoinSet::new();
    for n in 0..per_sec * secs {
        let due = began + Duration::from_secs(1) * n / per_sec;
        tokio::time::sleep_until(due.into()).await;
        let request = request(n);
        under_way.spawn(async move {
            let status = request.await.map_or(0, |answer| answer.status);
            let at = Instant::now();
            Sample { at, took: at.duration_since(due), status }
        });
    }
    let mut samples = Vec::new();
    while let Some(sample) = under_way.join_next().await {
        samples.push(sample?);
    }
    Ok(samples)
}

pub fn percentile(samples: &[Sample], percent: usize) -> f64 {
    let mut took = samples.iter().map(|sample| sample.took).collect::<Vec<_>>();
    took.sort_unstable();
    let rank = (took.len() * percent).div_ceil(100).saturating_sub(1);
    took.get(rank).map_or(f64::NAN, |took| took.as_secs_f64() * 1_000.0)
}

pub fn statuses(samples: &[Sample]) -> BTreeMap<u16, usize> {
    samples.iter().fold(BTreeMap::new(), |mut counts, sample| {
        *counts.entry(sample.status).or_default() += 1;
        counts
    })
}

/// The middle of these figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    f64::midpoint(figures[middle], figures[(figures.len() - 1) / 2])
}
