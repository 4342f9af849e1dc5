//! What the page asks for beside the stream, and what it has done.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynashard_api::grants::GrantedKeys;
use dynashard_api::json::ItemJson;
use dynashard_api::params::Params;
use dynashard_api::problem::Problem;
use dynashard_core::ports::Consistency;
use dynashard_core::query::{PageBudget, Query, Strategy};
use dynashard_core::{CollectionMetadata, Error, Kind, LedgerKind, StoredItem, TableSchema};
use dynashard_keys::{ItemKey, PartitionKey, ShardCount, SortKey};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::change::{Between, plan_change};
use crate::guard::Failed;
use crate::series::written_since_change;
use crate::shared::{Shared, Tables};
use crate::view;

/// A page of a query ends before its items take so many bytes.
const MAX_PAGE_BYTES: usize = 1_000_000;

/// The items that tell how a collection is spread.
const SAMPLE: u32 = 1_000;

/// The decisions that one answer has at most.
const MOST_DECISIONS: usize = 500;

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Throttled => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
            Kind::Data | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let trouble = crate::watcher::trouble(&error);
        Self { status, code: trouble.code, detail: trouble.detail }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, problem.code(), problem.log_detail())
    }
}

type Answer = Result<Value, Failed>;

fn connected(shared: &Shared) -> Result<&Tables, Failed> {
    shared.tables().ok_or_else(|| {
        let known = shared.known();
        let why = known.troubles.get(crate::known::CONNECTION).map(|of| of.detail.clone());
        let why = why.unwrap_or_else(|| "the console is looking for the tables".to_owned());
        Failed::new(StatusCode::SERVICE_UNAVAILABLE, "not_connected", why)
    })
}

fn partition_key(text: &str) -> Result<PartitionKey, Failed> {
    Ok(PartitionKey::new(text).map_err(Error::from)?)
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failed> {
    serde_json::from_slice(body).map_err(|error| Failed::bad(format!("the body: {error}")))
}

/// The decisions that are known: `pk`, `diagnosis` and `outcome` choose among them.
pub(crate) fn decisions(shared: &Shared, query: &str) -> Answer {
    let tables = connected(shared)?;
    let mut params = Params::from_query_string(query)?;
    let [pk, diagnosis, outcome] = ["pk", "diagnosis", "outcome"]
        .map(|name| params.take(name).filter(|text| !text.is_empty()));
    params.finish()?;
    let known = shared.known();
    let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|of| of == text);
    let rows = view::decisions(
        &known,
        tables.frame(shared.read_units),
        |partition, record| {
            is(&pk, partition.as_str())
                && is(&diagnosis, &record.diagnosis)
                && is(&outcome, &record.outcome)
        },
        MOST_DECISIONS,
    );
    Ok(json!({ "decisions": rows }))
}

/// A field of a form, which is left out where it is an empty text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Text(String),
    Flag(bool),
}

/// The parameters of a query as the fields of a form have them.
fn params_of_form(body: &[u8]) -> Result<Params, Failed> {
    const NAMES: [&str; 10] = [
        "pk",
        "begins_with",
        "from",
        "to",
        "order",
        "limit",
        "strategy",
        "fields",
        "cursor",
        "consistent",
    ];
    let mut fields = read::<BTreeMap<String, Field>>(body)?;
    let params = NAMES.map(|name| match fields.remove(name) {
        // As people write a list.
        Some(Field::Text(text)) if name == "fields" && !text.is_empty() => {
            let names = text.split(',').map(str::trim).collect::<Vec<_>>();
            (name, Some(names.join(",")))
        }
        Some(Field::Text(text)) if name == "pk" || !text.is_empty() => (name, Some(text)),
        Some(Field::Flag(true)) => (name, Some(true.to_string())),
        _ => (name, None),
    });
    match fields.keys().next() {
        Some(unknown) => Err(Failed::bad(format!("the body: unknown field `{unknown}`"))),
        None => Ok(Params::from_pairs(params)),
    }
}

/// A page of a collection. Items travel as text, since numbers have more digits than a browser keeps.
pub(crate) async fn query(shared: &Shared, body: &[u8]) -> Answer {
    let tables = connected(shared)?;
    let schema = &tables.directory().settings().schema;
    let mut params = params_of_form(body)?;
    let query = params.query(schema.sort_key_type, &GrantedKeys::all())?;
    params.finish()?;
    let page = page(tables, &query).await?;
    let items = page.items.iter().map(|(sort, item)| {
        json!({ "sk": sort.to_string(), "text": text(schema, &query.partition, sort, item) })
    });
    Ok(json!({
        "items": items.collect::<Vec<_>>(),
        "cursor": page.cursor,
        "shards": page.shards.get(),
        "items_read": page.items_read,
        "consumed_rcu": page.consumed_rcu,
    }))
}

async fn metadata_of(
    tables: &Tables,
    partition: &PartitionKey,
) -> Result<CollectionMetadata, Failed> {
    let read = Box::pin(tables.reader.collection(partition, tables.deadline()));
    Ok(read.await?.0)
}

async fn page(tables: &Tables, query: &Query) -> Result<dynashard_core::query::QueryPage, Failed> {
    let schema = &tables.directory().settings().schema;
    let measure = |sort: &SortKey, item: &StoredItem| {
        ItemJson::plain(schema, &query.partition, sort, item).payload_bytes()
    };
    let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
    Ok(Box::pin(tables.reader.query(query, budget, tables.deadline())).await?)
}

fn text(
    schema: &TableSchema,
    partition: &PartitionKey,
    sort: &SortKey,
    item: &StoredItem,
) -> String {
    // What DynamoDB holds has a text in JSON.
    serde_json::to_string(&ItemJson::plain(schema, partition, sort, item)).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemAsked {
    pk: String,
    sk: String,
}

/// One item, with its physical key now and under the counts before.
pub(crate) async fn item(shared: &Shared, body: &[u8]) -> Answer {
    let tables = connected(shared)?;
    let ItemAsked { pk, sk } = read(body)?;
    let schema = &tables.directory().settings().schema;
    let sort = SortKey::parse(&sk, schema.sort_key_type).map_err(Error::from)?;
    let key = ItemKey::new(partition_key(&pk)?, sort);
    // A strongly consistent read may move what it finds, and the console only looks.
    let eventual = Consistency::Eventual;
    let got = Box::pin(tables.reader.get(&key, None, eventual, tables.deadline())).await?;
    let metadata = Arc::new(metadata_of(tables, &key.partition).await?);
    let placement = metadata.placement;
    let here = metadata.at(&key.sort);
    let home = |count: ShardCount| {
        placement.home(&key, count).map(|shard| {
            let physical = key.at(shard, placement, schema.separator);
            json!({ "shard": shard.get(), "partition": physical.partition.as_str() })
        })
    };
    // The history is of the newest epoch.
    let is_older = metadata.epochs.of(&key.sort).is_some();
    let before = metadata.shard_history.iter().rev().skip(1).filter(|_| !is_older);
    let before = before.map(|entry| {
        json!({ "at": entry.at_secs, "count": entry.count.get(), "home": home(entry.count) })
    });
    Ok(json!({
        "text": text(schema, &key.partition, &key.sort, &got.item),
        "etag": format!("\"{:016x}\"", got.item.version.get()),
        "generation": got.item.generation.get(),
        "consumed_rcu": got.consumed_rcu,
        "count": here.number_of_shards.get(),
        "home": home(here.number_of_shards),
        "moving_to": here.reshard().map(|reshard| home(reshard.to)),
        "before": before.collect::<Vec<_>>(),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectionAsked {
    pk: String,
}

/// The oldest items of the newest epoch, which has the shards that a change is about.
fn of_newest_epoch(metadata: &CollectionMetadata) -> Query {
    let all = Query { limit: SAMPLE, ..Query::all(metadata.partition.clone()) };
    let newest = metadata.epochs.older.last().map(|epoch| epoch.boundary.clone());
    let ascending = !metadata.epochs.descending;
    match newest {
        None => all,
        start => Query { start, ascending, strategy: Strategy::Ordered, ..all },
    }
}

/// How the first items of a collection, or of its newest epoch, are spread over its shards.
pub(crate) async fn balance(shared: &Shared, body: &[u8]) -> Answer {
    let tables = connected(shared)?;
    let CollectionAsked { pk } = read(body)?;
    let partition = partition_key(&pk)?;
    let metadata = Arc::new(metadata_of(tables, &partition).await?);
    let placement = metadata.placement;
    if !placement.is_calculated() {
        let why = "under random each write draws its shard, so its key does not tell where it lies; dynashard verify \
                   counts the shards";
        return Err(Failed::new(StatusCode::CONFLICT, "not_for_placement", why));
    }
    let sample = page(tables, &of_newest_epoch(&metadata)).await?;
    let shards = metadata.of_epoch(None).widest().get();
    let mut items = vec![0_u64; usize::try_from(shards).unwrap_or_default()];
    for (sort, _) in &sample.items {
        let count = metadata.at(sort).number_of_shards;
        let home = placement.home(&ItemKey::new(partition.clone(), sort.clone()), count);
        let place = home.and_then(|shard| usize::try_from(shard.get()).ok());
        if let Some(items) = place.and_then(|place| items.get_mut(place)) {
            *items += 1;
        }
    }
    Ok(json!({
        "items": items,
        "sampled": sample.items.len(),
        "is_all": sample.cursor.is_none(),
        "consumed_rcu": sample.consumed_rcu,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeAsked {
    pk: String,
    number_of_shards: u32,
}

/// What another count would do. Nothing is changed.
pub(crate) async fn plan(shared: &Shared, body: &[u8]) -> Answer {
    let tables = connected(shared)?;
    let ChangeAsked { pk, number_of_shards } = read(body)?;
    let partition = partition_key(&pk)?;
    let asked = ShardCount::new(number_of_shards).map_err(Error::from)?;
    let metadata = metadata_of(tables, &partition).await?;
    let directory = tables.directory();
    let sample = page(tables, &of_newest_epoch(&metadata)).await?;
    let counted = f64::from(u32::try_from(sample.items.len()).unwrap_or(SAMPLE));
    let load = directory.records().ledger(&partition, LedgerKind::Load, tables.deadline()).await?;
    let (items, written) = if sample.cursor.is_none() {
        (Between { least: counted, most: Some(counted) }, None)
    } else {
        let written = written_since_change(&metadata, &load, directory.now().wall);
        // What the last change moved tells how many there were, and each write since may have made one more.
        let before = metadata.estimated_items().round();
        // It may have been about another epoch.
        let is_told = metadata.epochs.is_one();
        let least = if is_told { before.max(counted) } else { counted };
        let most = Some(before + written).filter(|most| is_told && *most > least);
        (Between { least, most }, Some(written))
    };
    let settings = directory.settings();
    let plan =
        plan_change(&metadata, settings, directory.lease().waits(), asked, items, tables.prices)?;
    let allowed = shared.allows_changes && tables.scaler.is_some();
    Ok(json!({
        "plan": plan,
        // `null` where the items were counted.
        "written_since": written,
        "allows_changes": allowed,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScaleAsked {
    pk: String,
    number_of_shards: u32,
    /// The partition key once more, as whoever confirms has typed it.
    confirm: String,
}

/// Asks for another count.
pub(crate) async fn scale(shared: &Shared, body: &[u8]) -> Answer {
    let tables = connected(shared)?;
    let ScaleAsked { pk, number_of_shards, confirm } = read(body)?;
    let Some(scaler) = tables.scaler.as_ref().filter(|_| shared.allows_changes) else {
        let why = "the console only looks; start it with --allow-changes to change shard counts";
        return Err(Failed::new(StatusCode::FORBIDDEN, "read_only", why));
    };
    if confirm != pk {
        let why = "the confirmation names another collection; type the partition key as it is";
        return Err(Failed::new(StatusCode::BAD_REQUEST, "not_confirmed", why));
    }
    let partition = partition_key(&pk)?;
    let asked = ShardCount::new(number_of_shards).map_err(Error::from)?;
    // What is mistyped is to leave nothing in the directory.
    metadata_of(tables, &partition).await?;
    let metadata = Box::pin(scaler.request_count(&partition, asked, tables.deadline())).await?;
    tracing::info!(partition = partition.as_str(), asked = asked.get(), "asked for another count");
    shared.note(|known| {
        let collection = known.collection(&partition);
        collection.metadata = Some(metadata.clone());
        collection.metadata_read = None;
    });
    let view = dynashard_api::view::CollectionView::from(&metadata);
    Ok(json!({ "collection": view }))
}
