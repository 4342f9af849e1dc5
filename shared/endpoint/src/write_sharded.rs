//! `Query` of a write-sharded index: the core reads the shards of the value, in order. Its client names the value alone.

use std::sync::Arc;

use dynashard_core::query::{MAX_LIMIT, PageBudget, Query};
use dynashard_core::{Deadline, Fields, INDEX_SHARD, SecondaryIndex, StoredItem};
use dynashard_expression::{KeyCondition, KeyRange};
use dynashard_keys::{ItemKey, PartitionKey, RESERVED_PREFIX, SortKey, SortKeyType};
use serde_json::{Value, json};

use crate::call::Answer;
use crate::document::Members;
use crate::evaluation::{Evaluation, Item, MAX_PAGE_BYTES, Page, flag, malformed, not_understood};
use crate::guard::{PageExpressions, page_expressions};
use crate::items::Attempt;
use crate::judged::judged;
use crate::moving::sort_range;
use crate::refusal::Refusal;
use crate::stored;
use crate::table::{ManagedTable, scalar};
use crate::upstream::Upstream;

/// Where a page goes on, in a `LastEvaluatedKey` beside the keys of its last item.
const CURSOR: &str = "_ds_index_cursor";

/// The index of this request, if it is a query of a write-sharded one. What is wrong with another DynamoDB says itself.
pub(crate) async fn index_of(
    table: &ManagedTable,
    operation: &str,
    body: &Members,
    deadline: Deadline,
) -> Result<Option<Arc<SecondaryIndex>>, Refusal> {
    let name = body.get("IndexName").and_then(Value::as_str);
    let Some(name) = name.filter(|_| operation == "Query") else { return Ok(None) };
    let index = table.requests().reader().write_sharded_index(name, deadline).await;
    index.map_err(|error| Refusal::of(&error))
}

/// Answers a query of it.
pub(crate) async fn query(
    upstream: &Upstream,
    table: &ManagedTable,
    body: &Members,
    index: &Arc<SecondaryIndex>,
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    let page = |asked: Asked| async move {
        asked.page(upstream, table, index, deadline).await.map(Attempt::Answered)
    };
    judged(upstream, "Query", &of_one_shard(body), Asked::of(index, body), page).await
}

/// The query of the first shard, by which DynamoDB says whether it is one.
fn of_one_shard(body: &Members) -> Members {
    const NAME: &str = "#_ds_index_shard";
    const VALUE: &str = ":_ds_index_shard";
    let (mut body, shard) = (body.clone(), json!({ "N": "0" }));
    body.remove("ExclusiveStartKey");
    if let Some(conditions) = body.get_mut("KeyConditions").and_then(Value::as_object_mut) {
        let is_shard = json!({ "ComparisonOperator": "EQ", "AttributeValueList": [shard] });
        conditions.insert(INDEX_SHARD.to_owned(), is_shard);
        return body;
    }
    if let Some(Value::String(text)) = body.get_mut("KeyConditionExpression") {
        text.push_str(" AND ");
        text.push_str(NAME);
        text.push_str(" = ");
        text.push_str(VALUE);
        let put = |body: &mut Members, member: &str, name: &str, value| {
            let all = body.entry(member).or_insert_with(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                all.insert(name.to_owned(), value);
            }
        };
        put(&mut body, "ExpressionAttributeNames", NAME, INDEX_SHARD.into());
        put(&mut body, "ExpressionAttributeValues", VALUE, shard);
    }
    body
}

/// What a client asks for.
#[derive(Debug, Clone)]
struct Asked {
    query: Query,
    /// The index's sort key, and a bound of the range if only what lies beyond it is asked for.
    excluded: Option<(String, SortKey)>,
    evaluation: Evaluation,
    /// The attributes of the keys, which a `LastEvaluatedKey` has.
    keys: Vec<String>,
}

impl Asked {
    /// Reads a query that DynamoDB takes of one shard. What it does not take may be read, or not.
    fn of(index: &SecondaryIndex, body: &Members) -> Result<Self, Refusal> {
        let PageExpressions { filter, key_condition, projection, placeholders } =
            page_expressions(body.clone())?;
        let condition = key_condition.ok_or_else(|| not_understood("it has no key condition"))?;
        let condition =
            KeyCondition::parse(&condition, &placeholders).map_err(|error| malformed(&error))?;
        let [partition, sort] = index.attributes().map_err(|error| Refusal::of(&error))?;
        let partition = partition.and_then(|(name, _)| match condition.of(name) {
            Some(KeyRange::Equal(value)) => PartitionKey::new(scalar(value)?.1).ok(),
            _ => None,
        });
        let partition = partition.ok_or_else(|| not_understood("it has no value of the index"))?;
        let key = |value: &Value| {
            let (_, of_type) = sort?;
            match (scalar(value)?, of_type) {
                (("S", text), SortKeyType::String) => SortKey::string(text).ok(),
                (("N", text), SortKeyType::Number) => SortKey::parse(text.trim(), of_type).ok(),
                _ => None,
            }
        };
        let of_sort = sort.and_then(|(name, _)| condition.of(name));
        let (range, excluded) = sort_range(key, of_sort)
            .ok_or_else(|| not_understood("its range of sort keys is none"))?;
        let cursor = body.get("ExclusiveStartKey").map(|start| {
            start[CURSOR]["S"].as_str().map(str::to_owned).ok_or_else(|| {
                Refusal::validation(
                    "dynashard: ExclusiveStartKey is not where a page of this index has ended",
                )
            })
        });
        let excluded = sort.zip(excluded).map(|((name, _), key)| (name.to_owned(), key));
        let ascending = flag(body, "ScanIndexForward")?.unwrap_or(true);
        let cursor = cursor.transpose()?;
        let keys = index.keys().into_iter().filter(|key| *key != INDEX_SHARD);
        let keys = keys.map(str::to_owned).collect::<Vec<_>>();
        // All that the index has, which may be less than whole items.
        let has =
            index.projected.iter().flatten().filter(|name| !name.starts_with(RESERVED_PREFIX));
        let fields = index.projected.is_some().then(|| Fields::new(has.chain(&keys).cloned()));
        let fields = fields.transpose().map_err(|error| Refusal::of(&error))?;
        Ok(Self {
            query: Query { range, ascending, cursor, fields, ..Query::all(partition) },
            excluded,
            evaluation: Evaluation::of(
                body,
                filter.as_deref(),
                projection.as_deref(),
                &placeholders,
            )?,
            keys,
        })
    }

    /// Reads the page. It ends where one of the core's ends, whose cursor it hands out.
    async fn page(
        &self,
        upstream: &Upstream,
        table: &ManagedTable,
        index: &Arc<SecondaryIndex>,
        deadline: Deadline,
    ) -> Result<Answer, Refusal> {
        let schema = table.schema();
        let size = |key: &ItemKey, item: &StoredItem| {
            stored::size(schema, &key.partition, &key.sort, &item.attributes)
        };
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &size };
        let mut page = Page::default();
        let (requests, room) = (table.requests(), upstream.page_room());
        let wanted = self.evaluation.wanted(&page, room.fitting());
        let limit = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, MAX_LIMIT);
        let mut query = Query { limit, ..self.query.clone() };
        let shards = usize::try_from(requests.index_shards().get()).unwrap_or(usize::MAX);
        let patience = deadline.remaining(requests.now());
        let _room = room.for_page(shards, wanted.div_ceil(shards), patience).await?;
        // What is excluded is first in its order, or last.
        while page.evaluated == 0 {
            let read = requests.reader().query_index(index, &query, budget, deadline).await;
            let read = read.map_err(|error| Refusal::of(&error))?;
            page.consumed_rcu += read.consumed_rcu;
            for (key, item) in read.items {
                let bytes = size(&key, &item);
                let item = stored::item(stored::key(schema, &key.partition, &key.sort), item);
                if self.is_excluded(&item) {
                    continue;
                }
                let key = |name: &String| Some((name.clone(), item.get(name)?.clone()));
                let place = self.keys.iter().filter_map(key).collect::<Members>();
                if self.evaluation.take(&mut page, place, Item::Read(item), bytes).is_break() {
                    break;
                }
            }
            query.cursor = read.cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        let last = query.cursor.map(|cursor| {
            let mut last = page.last.clone().unwrap_or_default();
            last.insert(CURSOR.to_owned(), json!({ "S": cursor }));
            last
        });
        if let Some(mean) = page.mean_bytes() {
            room.learn(mean);
        }
        let consumed = self.evaluation.consumed(table, Some(&index.name), page.consumed_rcu);
        Ok(self.evaluation.answer(page, last, consumed))
    }

    fn is_excluded(&self, item: &Members) -> bool {
        let Some((name, bound)) = &self.excluded else { return false };
        let value = item.get(name).and_then(scalar);
        match bound {
            SortKey::String(text) => value == Some(("S", &**text)),
            SortKey::Number(number) => value.is_some_and(|(_, text)| {
                text.parse().is_ok_and(|value: dynashard_keys::Number| value == *number)
            }),
        }
    }
}
