//! `Query` of a collection that has several shards, or is being resharded.
//!
//! The core reads the items in order, over all shards, and what DynamoDB does with the items of a page is done here. Whether a
//! query is one DynamoDB says itself: it is sent as its client has put it, to the first shard, whose partition key is the client's.

use std::ops::ControlFlow;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{DEFAULT_LIMIT, MAX_LIMIT, PageBudget, Query};
use dynashard_core::{Deadline, StoredItem};
use dynashard_expression::{Condition, KeyCondition, KeyRange, Malformed, Projection};
use dynashard_keys::{PartitionKey, SortKey, SortKeyType};
use futures_util::future::try_join;
use serde_json::{Value, json};

use crate::call::Answer;
use crate::document::Members;
use crate::guard::{PageExpressions, page_expressions};
use crate::refusal::Refusal;
use crate::shapes::Shape;
use crate::stored;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, refused};

/// Answers a query of the table.
pub(crate) async fn query(
    upstream: &Upstream,
    table: &ManagedTable,
    body: &Members,
    deadline: Deadline,
) -> Result<Answer, Refusal> {
    let asked = match Asked::of(table, body) {
        Ok(asked) => asked,
        // What DynamoDB refuses it refuses in its own words.
        Err(refusal) => return judge(upstream, body).await.err().unwrap_or(Err(refusal)),
    };
    let shape = Shape::of(body);
    if upstream.shapes().has(shape) {
        return asked.page(table, deadline).await;
    }
    let page = async { asked.page(table, deadline).await.map_err(Err) };
    match try_join(judge(upstream, body), page).await {
        Ok(((), answer)) => {
            upstream.shapes().add(shape);
            Ok(answer)
        }
        Err(refused) => refused,
    }
}

/// The most bytes of the items of a page (DynamoDB Developer Guide, "Paginating table query results").
const MAX_PAGE_BYTES: usize = 1 << 20;

/// The largest item (DynamoDB Developer Guide, "Quotas").
const MAX_ITEM_BYTES: usize = 400 << 10;

/// Has DynamoDB judge a query by one item. The error is what the client is answered.
async fn judge(upstream: &Upstream, body: &Members) -> Result<(), Result<Answer, Refusal>> {
    let mut body = body.clone();
    if limit(&body).is_ok() {
        body.insert("Limit".to_owned(), 1.into());
    }
    let sent = Value::Object(body).to_string().into_bytes();
    let answer = upstream.exchange("Query", sent, None).await.map(Answer::from);
    let answer = answer.map_err(|error| Err(refused(&error)))?;
    if answer.is_success() { Ok(()) } else { Err(Ok(answer)) }
}

/// What a client asks for.
#[derive(Debug, Clone)]
struct Asked {
    /// Which items, where they begin, and in which order.
    query: Query,
    /// The bound of that range, if only what lies beyond it is asked for. A page that could begin with it begins behind it.
    excluded: Option<SortKey>,
    /// The most items that are evaluated.
    limit: usize,
    filter: Option<Condition>,
    projection: Option<Projection>,
    /// Whether the items are only counted.
    counts: bool,
    /// `ReturnConsumedCapacity`.
    capacity: Option<String>,
}

impl Asked {
    /// Reads a query that DynamoDB takes. What it does not take may be read, or not.
    fn of(table: &ManagedTable, body: &Members) -> Result<Self, Refusal> {
        let PageExpressions { filter, key_condition, projection, placeholders } =
            page_expressions(body.clone())?;
        let condition = key_condition.ok_or_else(|| not_understood("it has no key condition"))?;
        let condition =
            KeyCondition::parse(&condition, &placeholders).map_err(|error| malformed(&error))?;
        let partition = match condition.of(table.partition_key_name()) {
            Some(KeyRange::Equal(value)) => ManagedTable::partition(value)?,
            _ => None,
        };
        let partition = partition.ok_or_else(|| not_understood("it has no partition key"))?;
        let keys = [table.partition_key_name(), table.sort_key_name()];
        if condition.names().any(|name| !keys.contains(&name)) {
            return Err(not_understood("its key condition names another attribute"));
        }
        let ascending = flag(body, "ScanIndexForward")?.unwrap_or(true);
        let is_strong = flag(body, "ConsistentRead")?.unwrap_or(false);
        let sort_keys = table.requests().schema().sort_key_type;
        let (range, excluded) = sort_range(condition.of(table.sort_key_name()), sort_keys)
            .ok_or_else(|| not_understood("its range of sort keys is none"))?;
        let start = match body.get("ExclusiveStartKey") {
            None => excluded.clone().filter(|_| match range {
                SortRange::From(_) => ascending,
                _ => !ascending,
            }),
            Some(start) => {
                let start = start_key(table, &partition, start);
                let start =
                    start.filter(|key| range.contains(key) && excluded.as_ref() != Some(key));
                Some(start.ok_or_else(|| not_understood("it begins outside of its range"))?)
            }
        };
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let filter = filter.map(|text| Condition::parse(&text, &placeholders));
        let projection = projection.map(|text| Projection::parse(&text, &placeholders));
        Ok(Self {
            query: Query {
                range,
                ascending,
                consistency: if is_strong { Consistency::Strong } else { Consistency::Eventual },
                start,
                ..Query::all(partition)
            },
            excluded,
            limit: limit(body)?.unwrap_or(usize::MAX),
            filter: filter.transpose().map_err(|error| malformed(&error))?,
            projection: projection.transpose().map_err(|error| malformed(&error))?,
            counts: text("Select") == Some("COUNT"),
            capacity: text("ReturnConsumedCapacity").map(str::to_owned),
        })
    }

    /// Reads the page.
    async fn page(&self, table: &ManagedTable, deadline: Deadline) -> Result<Answer, Refusal> {
        let schema = table.requests().schema();
        let size = |sort: &SortKey, item: &StoredItem| {
            stored::size(schema, &self.query.partition, sort, &item.attributes)
        };
        let mut page = Page::default();
        let mut query = self.query.clone();
        loop {
            query.limit = page.wanted(self.limit);
            // With room for the item that the page ends before, so that it is not asked for by itself.
            let max_bytes = MAX_PAGE_BYTES - page.bytes + MAX_ITEM_BYTES;
            let budget = PageBudget { max_bytes, measure: &size };
            let read = table.requests().query(&query, budget, deadline).await;
            let read = read.map_err(|error| Refusal::of(&error))?;
            page.consumed_rcu += read.consumed_rcu;
            for (sort, item) in read.items {
                let bytes = size(&sort, &item);
                let is_over = self.evaluate(table, &mut page, sort, item, bytes);
                if let ControlFlow::Break(ends_early) = is_over {
                    return Ok(self.answer(table, page, ends_early));
                }
            }
            if read.cursor.is_none() {
                return Ok(self.answer(table, page, false));
            }
            query.cursor = read.cursor;
        }
    }

    /// Takes an item of so many bytes into the page, unless that is over. Says whether something may follow, then.
    fn evaluate(
        &self,
        table: &ManagedTable,
        page: &mut Page,
        sort: SortKey,
        item: StoredItem,
        bytes: usize,
    ) -> ControlFlow<bool> {
        // It is the last of its range.
        if self.excluded.as_ref() == Some(&sort) {
            return ControlFlow::Break(false);
        }
        if page.evaluated > 0 && page.bytes + bytes > MAX_PAGE_BYTES {
            return ControlFlow::Break(true);
        }
        let key = stored::key(table.requests().schema(), &self.query.partition, &sort);
        let item = stored::item(key, item);
        page.evaluated += 1;
        page.bytes += bytes;
        page.last = Some(sort);
        if self.filter.as_ref().is_none_or(|filter| filter.holds(&item)) {
            page.count += 1;
            if !self.counts {
                let projected = self.projection.as_ref().map(|projection| projection.apply(&item));
                page.items.push(projected.unwrap_or(item).into());
            }
        }
        // DynamoDB does not look whether something follows.
        if page.evaluated == self.limit {
            ControlFlow::Break(true)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn answer(&self, table: &ManagedTable, page: Page, ends_early: bool) -> Answer {
        let mut members = Members::new();
        members.insert("Count".to_owned(), page.count.into());
        members.insert("ScannedCount".to_owned(), page.evaluated.into());
        if !self.counts {
            members.insert("Items".to_owned(), page.items.into());
        }
        if let Some(last) = page.last.filter(|_| ends_early) {
            let key = stored::key(table.requests().schema(), &self.query.partition, &last);
            members.insert("LastEvaluatedKey".to_owned(), key.into());
        }
        let mut consumed = json!({ "TableName": table.name(), "CapacityUnits": page.consumed_rcu });
        match self.capacity.as_deref() {
            Some("TOTAL") => {}
            Some("INDEXES") => consumed["Table"] = json!({ "CapacityUnits": page.consumed_rcu }),
            _ => consumed = Value::Null,
        }
        if !consumed.is_null() {
            members.insert("ConsumedCapacity".to_owned(), consumed);
        }
        Answer::own(200, Value::Object(members).to_string())
    }
}

/// What a page has so far.
#[derive(Debug, Default)]
struct Page {
    items: Vec<Value>,
    /// The items that the filter has let through.
    count: usize,
    evaluated: usize,
    /// Of the evaluated items.
    bytes: usize,
    last: Option<SortKey>,
    consumed_rcu: f64,
}

impl Page {
    /// How many more items to ask for, at most `limit` in all: as many as there is room for if they are as large as those before.
    /// Of the first nothing is known, and many large ones would be read in vain.
    fn wanted(&self, limit: usize) -> u32 {
        let fitting = match self.bytes.checked_div(self.evaluated) {
            Some(mean) => (MAX_PAGE_BYTES - self.bytes) / mean.max(1) + 1,
            None => usize::try_from(DEFAULT_LIMIT).unwrap_or(usize::MAX),
        };
        let wanted = fitting.min(limit - self.evaluated);
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, MAX_LIMIT)
    }
}

/// Which sort keys a client asks for, and the bound of that range if it is not asked for itself. `None` of what DynamoDB refuses.
fn sort_range(
    range: Option<&KeyRange>,
    sort_keys: SortKeyType,
) -> Option<(SortRange, Option<SortKey>)> {
    let key = |value: &Value| sort_key(value, sort_keys);
    let range = match range {
        None => SortRange::All,
        Some(KeyRange::Equal(value)) => SortRange::Between(key(value)?, key(value)?),
        Some(KeyRange::AtLeast(value)) => SortRange::From(key(value)?),
        Some(KeyRange::AtMost(value)) => SortRange::To(key(value)?),
        Some(KeyRange::Greater(value)) => {
            return Some((SortRange::From(key(value)?), Some(key(value)?)));
        }
        Some(KeyRange::Less(value)) => {
            return Some((SortRange::To(key(value)?), Some(key(value)?)));
        }
        Some(KeyRange::Between(from, to)) => {
            let (from, to) = (key(from)?, key(to)?);
            (from <= to).then_some(SortRange::Between(from, to))?
        }
        // Every text begins so.
        Some(KeyRange::BeginsWith(prefix)) if *prefix == json!({ "S": "" }) => SortRange::All,
        Some(KeyRange::BeginsWith(prefix)) => match key(prefix)? {
            SortKey::String(prefix) => SortRange::BeginsWith(prefix.to_string()),
            SortKey::Number(_) => return None,
        },
    };
    Some((range, None))
}

/// Where a page begins, if that is a key of this collection.
fn start_key(table: &ManagedTable, partition: &PartitionKey, start: &Value) -> Option<SortKey> {
    let start = start.as_object().filter(|members| members.len() == 2)?;
    let of_collection = table.partition_of(start).ok()?.as_ref() == Some(partition);
    let sort = start.get(table.sort_key_name()).filter(|_| of_collection)?;
    sort_key(sort, table.requests().schema().sort_key_type)
}

fn sort_key(value: &Value, sort_keys: SortKeyType) -> Option<SortKey> {
    let text = value.as_object().filter(|members| members.len() == 1)?;
    let text = text.get(sort_keys.as_str())?.as_str()?;
    let text = if sort_keys == SortKeyType::Number { text.trim() } else { text };
    SortKey::parse(text, sort_keys).ok()
}

fn limit(body: &Members) -> Result<Option<usize>, Refusal> {
    let Some(limit) = body.get("Limit") else { return Ok(None) };
    let limit = limit.as_u64().filter(|limit| *limit > 0);
    let limit = limit
        .ok_or_else(|| Refusal::serialization("dynashard: Limit is no whole number above 0"))?;
    Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn flag(body: &Members, name: &str) -> Result<Option<bool>, Refusal> {
    let Some(value) = body.get(name) else { return Ok(None) };
    // DynamoDB takes these texts, too.
    let flag = value.as_bool().or_else(|| value.as_str()?.parse().ok());
    flag.map(Some).ok_or_else(|| not_understood(&format!("{name} is neither true nor false")))
}

fn malformed(error: &Malformed) -> Refusal {
    not_understood(&error.to_string())
}

/// What a client is told of a query that DynamoDB takes and this module does not understand.
fn not_understood(why: &str) -> Refusal {
    Refusal::internal(format!("dynashard: the query was not understood: {why}"))
}
