//! `Query` of the table while a collection is being resharded, and pages of a scan: the core reads the items in order, over all
//! shards.

use std::ops::ControlFlow;

use dynashard_core::ports::{Consistency, SortRange};
use dynashard_core::query::{DEFAULT_LIMIT, MAX_LIMIT, PageBudget, Query};
use dynashard_core::{Deadline, StoredItem};
use dynashard_expression::{KeyCondition, KeyRange};
use dynashard_keys::{PartitionKey, SortKey};
use serde_json::{Value, json};

use crate::call::Answer;
use crate::document::Members;
use crate::evaluation::{Evaluation, Item, Page, flag, malformed, not_understood};
use crate::guard::{PageExpressions, page_expressions};
use crate::items::Attempt;
use crate::judged::judged;
use crate::refusal::Refusal;
use crate::stored;
use crate::table::ManagedTable;
use crate::upstream::Upstream;

/// Answers a query of the table.
pub(crate) async fn query(
    upstream: &Upstream,
    table: &ManagedTable,
    body: &Members,
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    let page = |asked: Asked| async move {
        asked.page(upstream, table, deadline).await.map(Attempt::Answered)
    };
    judged(upstream, "Query", body, Asked::of(table, body), page).await
}

/// Takes what a query finds into a page, in order. Says whether something may follow, if the page is over before the query is.
pub(crate) async fn read<K>(
    upstream: &Upstream,
    table: &ManagedTable,
    mut query: Query,
    evaluation: &Evaluation,
    page: &mut Page<K>,
    place: impl Fn(SortKey) -> Option<K>,
    deadline: Deadline,
) -> Result<ControlFlow<bool>, Refusal> {
    let schema = table.schema();
    let partition = query.partition.clone();
    let size = |sort: &SortKey, item: &StoredItem| {
        stored::size(schema, &partition, sort, &item.attributes)
    };
    let first = usize::try_from(DEFAULT_LIMIT).unwrap_or(usize::MAX);
    let each = evaluation.wanted(page, first).div_ceil(SHARDS_OF_A_PAGE / 2);
    let patience = deadline.remaining(table.requests().now());
    let _room = upstream.page_room().for_page(SHARDS_OF_A_PAGE, each, patience).await?;
    loop {
        let wanted = evaluation.wanted(page, first);
        query.limit = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, MAX_LIMIT);
        // With room for the item that the page ends before, so that it is not asked for by itself.
        let budget = PageBudget { max_bytes: page.room() + MAX_ITEM_BYTES, measure: &size };
        let read = table.requests().reader().query(&query, budget, deadline).await;
        let read = read.map_err(|error| Refusal::of(&error))?;
        page.consumed_rcu += read.consumed_rcu;
        for (sort, item) in read.items {
            let bytes = size(&sort, &item);
            let item = stored::item(stored::key(schema, &partition, &sort), item);
            let Some(place) = place(sort) else { return Ok(ControlFlow::Break(false)) };
            let is_over = evaluation.take(page, place, Item::Read(item), bytes);
            if is_over.is_break() {
                return Ok(is_over);
            }
        }
        if read.cursor.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        query.cursor = read.cursor;
    }
}

/// How many shards a page is taken to be read from. A window asks each for its share twice over.
const SHARDS_OF_A_PAGE: usize = 16;

/// The largest item (DynamoDB Developer Guide, "Quotas").
const MAX_ITEM_BYTES: usize = 400 << 10;

/// What a client asks for.
#[derive(Debug, Clone)]
struct Asked {
    /// Which items, where they begin, and in which order.
    query: Query,
    /// The bound of that range, if only what lies beyond it is asked for. A page that could begin with it begins behind it.
    excluded: Option<SortKey>,
    evaluation: Evaluation,
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
        let key = |value: &Value| table.sort_key(value);
        let (range, excluded) = sort_range(key, condition.of(table.sort_key_name()))
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
        let (filter, projection) = (filter.as_deref(), projection.as_deref());
        Ok(Self {
            query: Query {
                range,
                ascending,
                consistency: if is_strong { Consistency::Strong } else { Consistency::Eventual },
                start,
                ..Query::all(partition)
            },
            excluded,
            evaluation: Evaluation::of(body, filter, projection, &placeholders)?,
        })
    }

    /// Reads the page.
    async fn page(
        &self,
        upstream: &Upstream,
        table: &ManagedTable,
        deadline: Deadline,
    ) -> Result<Answer, Refusal> {
        let mut page = Page::default();
        // What is excluded is the last of its range.
        let place = |sort: SortKey| (self.excluded.as_ref() != Some(&sort)).then_some(sort);
        let query = self.query.clone();
        let read =
            read(upstream, table, query, &self.evaluation, &mut page, place, deadline).await?;
        let last = page.last.as_ref().filter(|_| read == ControlFlow::Break(true));
        let schema = table.schema();
        let last = last.map(|last| stored::key(schema, &self.query.partition, last));
        let consumed = self.evaluation.consumed(table, None, page.consumed_rcu);
        Ok(self.evaluation.answer(page, last, consumed))
    }
}

/// Which sort keys a client asks for, and the bound of that range if it is not asked for itself. `None` of what DynamoDB refuses,
/// and of what `key` does not read.
pub(crate) fn sort_range(
    key: impl Fn(&Value) -> Option<SortKey>,
    range: Option<&KeyRange>,
) -> Option<(SortRange, Option<SortKey>)> {
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
    table.sort_key(sort)
}
