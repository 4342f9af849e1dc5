//! `dynashard demo`: the main job on real input.

mod flights;
mod summary;

use std::collections::BTreeMap;

use dynashard_aws::{DynamoItemStore, ServerClock, SystemClock};
use dynashard_core::TableSchema;
use dynashard_core::ports::{Consistency, ItemStore, ShardQuery, SortRange, StoreError};
use dynashard_core::query::MAX_LIMIT;
use dynashard_keys::{KeyError, PartitionKey, Placement, ShardCount};
use dynashard_local::{Counters, Endpoints, Stack};
use flights::{Flight, by_key};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use summary::{Summary, secs};
use thiserror::Error;

use crate::args::DemoArgs;
use crate::clock::Stopwatch;
use crate::http::{Client, HttpError, url};
use crate::project::stack_options;

const MAIN_TABLE: &str = "MainTable";
const METADATA_TABLE: &str = "MetadataTable";

/// Operations of one batch write: an answer takes a fraction of a second, so progress shows.
const BATCH: usize = 250;

/// Batches under way at once. The machine that the demo is for has two cores.
const BATCHES_IN_FLIGHT: usize = 4;

/// How often a flight is sent again before the demo gives up.
const MAX_ROUNDS: u32 = 20;

/// Differences that are shown of each collection.
const SHOWN_DIFFERENCES: usize = 5;

#[derive(Debug, Error)]
pub(crate) enum DemoError {
    #[error(transparent)]
    Data(#[from] flights::BadData),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the API left {0} flights unprocessed however often they were sent")]
    Unprocessed(usize),
    #[error("the answer to a query has no {0}")]
    BadAnswer(&'static str),
    #[error(transparent)]
    Separator(#[from] KeyError),
    #[error("the shards cannot be counted: {0:?}")]
    Store(StoreError),
    #[error("what came back is not what was loaded")]
    Different,
}

/// `dynashard demo`: fails unless every flight came back once, in order and unchanged.
pub(crate) async fn run(args: DemoArgs) -> Result<(), crate::Failure> {
    let flights = flights::load().map_err(DemoError::from)?;
    let stack = Stack::start(stack_options(&args.project)?).await?;
    let result = show(&stack, &args, &flights).await;
    stack.shutdown().await;
    let summary = result?;
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("\n{summary}");
    }
    if summary.ok { Ok(()) } else { Err(DemoError::Different.into()) }
}

async fn show(stack: &Stack, args: &DemoArgs, flights: &[Flight]) -> Result<Summary, DemoError> {
    let Endpoints { api, dynamodb, .. } = stack.endpoints();
    eprintln!("The stack is up: API {api}, DynamoDB {dynamodb}");
    let client = Client::new();
    let collections = by_key(flights);
    for pk in collections.keys() {
        let body =
            json!({ "placement": Placement::Xxh64.as_str(), "number_of_shards": args.shards });
        client
            .json(Method::PUT, &url(api, "/collection", &[("pk", pk)]), JSON, Some(&body))
            .await?;
    }
    eprintln!(
        "Created {} collections of {} shards: {}",
        collections.len(),
        args.shards,
        collections.keys().copied().collect::<Vec<_>>().join(", ")
    );

    let before = stack.counters();
    let watch = Stopwatch::start();
    let resent = load(&client, api, flights).await?;
    let load_secs = secs(watch.elapsed());
    let loaded = stack.counters();

    let watch = Stopwatch::start();
    let progress = progress("Reading ", flights.len());
    let mut read = ReadBack::default();
    for (pk, expected) in &collections {
        read.collection(&client, api, pk, expected, &progress).await?;
    }
    progress.finish_and_clear();
    let read_secs = secs(watch.elapsed());

    let server_clock = ServerClock::default();
    let clock = SystemClock::new(server_clock.clone());
    let dynamodb = dynashard_aws::connect_local(dynamodb, server_clock).await;
    let schema = table_schema(&args.project.settings)?;
    let store = DynamoItemStore::new(dynamodb, clock, MAIN_TABLE.to_owned(), schema.clone());
    let mut items_per_shard = BTreeMap::new();
    for pk in collections.keys() {
        let counts = count_shards(&store, &schema, &client, api, pk).await?;
        items_per_shard.insert((*pk).to_owned(), counts);
    }
    let since = |table: &str, operation: &str| {
        loaded.requests(table, operation) - before.requests(table, operation)
    };
    Ok(Summary {
        ok: read.differences.is_empty(),
        items: u64::try_from(flights.len()).unwrap_or(u64::MAX),
        load_secs,
        put_requests: since(MAIN_TABLE, "PutItem"),
        metadata_requests: loaded.table_requests(METADATA_TABLE)
            - before.table_requests(METADATA_TABLE),
        consumed_wcu: put_wcu(&loaded) - put_wcu(&before),
        resent,
        read_secs,
        pages: read.pages,
        items_read: read.read_by_dynamodb,
        differences: read.differences,
        items_per_shard,
    })
}

/// Puts all flights, and returns how many had to be sent again. The same put twice stores the same
/// item, so whatever the API reports as unprocessed may be repeated.
async fn load(client: &Client, api: &str, flights: &[Flight]) -> Result<u64, DemoError> {
    let progress = progress("Loading ", flights.len());
    let mut pending = flights.iter().collect::<Vec<_>>();
    let mut resent = 0;
    for _ in 0..MAX_ROUNDS {
        let batches = pending.chunks(BATCH).map(|batch| put_batch(client, api, batch, &progress));
        let left = stream::iter(batches.collect::<Vec<_>>())
            .buffer_unordered(BATCHES_IN_FLIGHT)
            .try_collect::<Vec<_>>()
            .await?;
        pending = left.into_iter().flatten().collect();
        resent += u64::try_from(pending.len()).unwrap_or(u64::MAX);
        if pending.is_empty() {
            progress.finish_and_clear();
            return Ok(resent);
        }
    }
    Err(DemoError::Unprocessed(pending.len()))
}

/// Sends one batch, and returns the flights that it left unprocessed.
async fn put_batch<'a>(
    client: &Client,
    api: &str,
    batch: &[&'a Flight],
    progress: &ProgressBar,
) -> Result<Vec<&'a Flight>, DemoError> {
    let puts = batch.iter().map(|f| json!({ "pk": f.pk, "sk": f.sk, "item": f.item }));
    let body = json!({ "puts": puts.collect::<Vec<_>>() });
    let answer =
        client.json(Method::POST, &format!("{api}/batch-write"), JSON, Some(&body)).await?;
    let unprocessed =
        answer["unprocessed"].as_array().ok_or(DemoError::BadAnswer("unprocessed"))?;
    let left = batch
        .iter()
        .copied()
        .filter(|f| {
            unprocessed.iter().any(|u| u["pk"] == f.pk.as_str() && u["sk"] == f.sk.as_str())
        })
        .collect::<Vec<_>>();
    progress.inc(u64::try_from(batch.len() - left.len()).unwrap_or(0));
    Ok(left)
}

/// What reading everything back brought.
#[derive(Debug, Default)]
struct ReadBack {
    pages: u64,
    read_by_dynamodb: u64,
    differences: Vec<String>,
}

impl ReadBack {
    /// Reads one collection page by page, in order, and compares it with what was loaded.
    async fn collection(
        &mut self,
        client: &Client,
        api: &str,
        pk: &str,
        expected: &BTreeMap<&str, &Value>,
        progress: &ProgressBar,
    ) -> Result<(), DemoError> {
        let mut expected = expected.iter();
        let mut different = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let mut params = vec![("pk", pk), ("limit", "1000"), ("consistent", "true")];
            params.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page = client.json(Method::GET, &url(api, "/query", &params), &[], None).await?;
            let items = page["items"].as_array().ok_or(DemoError::BadAnswer("items"))?;
            self.pages += 1;
            self.read_by_dynamodb +=
                page["items_read"].as_u64().ok_or(DemoError::BadAnswer("items_read"))?;
            for item in items {
                match expected.next() {
                    Some((_, flight)) if *flight == item => {}
                    Some((sk, _)) => {
                        different
                            .push(format!("{pk}: {} came back where {sk} belongs", item["sk"]));
                    }
                    None => {
                        different.push(format!("{pk}: {} came back beyond the end", item["sk"]));
                    }
                }
                progress.inc(1);
            }
            cursor = page["cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        different.extend(expected.map(|(sk, _)| format!("{pk}: {sk} did not come back")));
        let hidden = different.len().saturating_sub(SHOWN_DIFFERENCES);
        self.differences.extend(different.into_iter().take(SHOWN_DIFFERENCES));
        if hidden > 0 {
            self.differences.push(format!("{pk}: and {hidden} more"));
        }
        Ok(())
    }
}

/// How the main table calls and separates its keys under these parameters of the template. The
/// flights' sort keys are strings in any case.
fn table_schema(settings: &[(String, String)]) -> Result<TableSchema, KeyError> {
    let mut schema = TableSchema::default();
    for (name, value) in settings {
        match name.as_str() {
            "PartitionKeyName" => schema.partition_key_name.clone_from(value),
            "SortKeyName" => schema.sort_key_name.clone_from(value),
            "Separator" => schema.separator = value.parse()?,
            _ => {}
        }
    }
    Ok(schema)
}

/// Counts what lies in each shard, by asking DynamoDB itself and not the API.
async fn count_shards(
    store: &DynamoItemStore,
    schema: &TableSchema,
    client: &Client,
    api: &str,
    pk: &str,
) -> Result<BTreeMap<u32, u64>, DemoError> {
    let collection =
        client.json(Method::GET, &url(api, "/collection", &[("pk", pk)]), &[], None).await?;
    let count = collection["number_of_shards"]
        .as_u64()
        .and_then(|count| ShardCount::new(u32::try_from(count).ok()?).ok())
        .ok_or(DemoError::BadAnswer("number_of_shards"))?;
    let partition = PartitionKey::new(pk).map_err(|_| DemoError::BadAnswer("partition key"))?;
    let mut items = BTreeMap::new();
    for shard in Placement::Xxh64.shards(count) {
        let mut query = ShardQuery {
            partition: partition.at(shard, schema.separator),
            range: SortRange::All,
            ascending: true,
            after: None,
            limit: MAX_LIMIT,
            consistency: Consistency::Strong,
        };
        let mut total = 0;
        loop {
            let page = store.query(&query).await.map_err(DemoError::Store)?;
            total += u64::try_from(page.items.len()).unwrap_or(0);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        items.insert(shard.get(), total);
    }
    Ok(items)
}

/// The progress of something over `total` items: a bar on a terminal, silent elsewhere.
fn progress(what: &'static str, total: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    let style = "{msg} {bar:40} {pos}/{len} items  {per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

fn put_wcu(counters: &Counters) -> f64 {
    let puts = counters.tables.get(MAIN_TABLE).and_then(|operations| operations.get("PutItem"));
    puts.map_or(0.0, |count| count.consumed_wcu)
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

#[cfg(test)]
mod tests {
    use dynashard_keys::Separator;

    use super::*;

    #[test]
    fn regression_the_shards_were_counted_under_the_default_keys() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = [
            set("LeaseSecs", "2"),
            set("PartitionKeyName", "airport"),
            set("SortKeyName", "departure"),
            set("Separator", "_"),
        ];
        let schema = table_schema(&settings).expect("a separator");
        assert_eq!(
            (schema.partition_key_name.as_str(), schema.sort_key_name.as_str(), schema.separator),
            ("airport", "departure", Separator::Underscore)
        );
        assert_eq!(table_schema(&[]), Ok(TableSchema::default()), "as the template has it");
    }
}
