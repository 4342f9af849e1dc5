//! Pages of a table or an index.

use dynashard_aws::owner::OWNER_ID;
use dynashard_core::ports::NativeTerms;
use dynashard_core::{Deadline, Lease, quoted};
use dynashard_expression::equality;
use dynashard_keys::PartitionKey;
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::document::Members;
use crate::guard::{Shows, page_showing_own};
use crate::items::{Attempt, attempts, own_words};
use crate::refusal::Refusal;
use crate::sharded;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, deadline, refused};

/// What a page stands on.
enum Ground {
    /// One collection.
    Collection(PartitionKey, NativeTerms),
    /// The table as a whole, no collection of which was ever listed.
    Table(Lease),
}

/// `Query` and `Scan`, of the table and of its indexes.
pub(crate) async fn page(
    upstream: &Upstream,
    table: &ManagedTable,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let operation = call.operation.as_str();
    let shows = match operation {
        // An index need not project what is ours, and nothing is in it that was moved.
        _ if body.contains_key("IndexName") => Shows::AsItIs,
        "Scan" => Shows::OwnerToo,
        _ => Shows::Generations,
    };
    let partition = if shows == Shows::Generations {
        // Without a partition key DynamoDB says what is wrong.
        let Some(value) = queried(table, &body) else { return upstream.pass(call).await };
        match ManagedTable::partition(value)? {
            Some(partition) => Some(partition),
            None => return upstream.pass(call).await,
        }
    } else {
        None
    };
    let deadline = deadline(table);
    // Of an index the key condition may name the partition key of the table, too.
    let named = match queried(table, &body).filter(|_| shows == Shows::AsItIs) {
        Some(value) => ManagedTable::partition(value)?,
        None => None,
    };
    let (partition, named, body) = (&partition, &named, &body);
    attempts(table, deadline, || async move {
        let Some(ground) = ground(table, partition.as_ref(), deadline).await? else {
            let page = sharded::query(upstream, table, body, deadline).await;
            return page.map(Attempt::Answered);
        };
        let mut body = body.clone();
        if let Ground::Collection(partition, terms) = &ground {
            query_at(table, &mut body, partition, terms)?;
        }
        if let Some(named) = named {
            let terms = table.terms(named, deadline).await?;
            query_at(table, &mut body, named, &terms)?;
        }
        let counts = page_showing_own(&mut body, ground.generation(), shows)?;
        let sent = Value::Object(body).to_string().into_bytes();
        let answer = upstream.exchange(operation, sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        if !answer.is_success() {
            return own_words(upstream, call, answer).await.map(Attempt::Answered);
        }
        Ok(shown(table, &ground, answer, counts))
    })
    .await
}

impl Ground {
    fn generation(&self) -> u64 {
        match self {
            Self::Collection(_, terms) => terms.generation.get(),
            Self::Table(_) => 0,
        }
    }

    fn lease(&self) -> Lease {
        match self {
            Self::Collection(_, terms) => terms.lease,
            Self::Table(lease) => *lease,
        }
    }
}

/// `None` of a collection that has several shards, or is about to.
async fn ground(
    table: &ManagedTable,
    partition: Option<&PartitionKey>,
    deadline: Deadline,
) -> Result<Option<Ground>, Refusal> {
    if let Some(partition) = partition {
        let terms = table.requests().terms(partition, deadline).await;
        let terms = terms.map_err(|error| Refusal::of(&error))?;
        return Ok(terms.map(|terms| Ground::Collection(partition.clone(), terms)));
    }
    match table.requests().terms_of_all(deadline).await {
        Ok(Some(lease)) => Ok(Some(Ground::Table(lease))),
        Ok(None) => Err(Refusal::validation(format!(
            "dynashard: a partition key of the table {} has had several shards, and scans and queries of indexes are served \
             before that alone; use the HTTP API, or `dynashard export`",
            table.name()
        ))),
        Err(error) => Err(Refusal::of(&error)),
    }
}

/// The value that a query demands of the partition key.
fn queried<'a>(table: &ManagedTable, body: &'a Members) -> Option<&'a Value> {
    let name = table.partition_key_name();
    if let Some(conditions) = body.get("KeyConditions") {
        let condition = conditions.get(name)?;
        return condition["AttributeValueList"].get(0);
    }
    let text = body.get("KeyConditionExpression")?.as_str()?;
    let names = body.get("ExpressionAttributeNames");
    let resolve = |placeholder: &str| Some(names?.get(placeholder)?.as_str()?.to_owned());
    let placeholder = equality(text, name, resolve)?;
    body.get("ExpressionAttributeValues")?.get(placeholder)
}

/// Has a query, and where it begins, be where DynamoDB holds the collection.
fn query_at(
    table: &ManagedTable,
    body: &mut Members,
    partition: &PartitionKey,
    terms: &NativeTerms,
) -> Result<(), Refusal> {
    if terms.partition.as_str() == partition.as_str() {
        return Ok(());
    }
    let start = body.get_mut("ExclusiveStartKey").and_then(Value::as_object_mut);
    if let Some(start) = start {
        let of_collection = table.partition_of(start)?.as_ref() == Some(partition);
        if of_collection {
            table.put_at(start, terms);
        }
    }
    let name = table.partition_key_name();
    if let Some(condition) = body.get_mut("KeyConditions").and_then(|all| all.get_mut(name)) {
        condition["AttributeValueList"][0] = ManagedTable::physical(terms);
        return Ok(());
    }
    let text = body.get("KeyConditionExpression").and_then(Value::as_str).unwrap_or_default();
    let names = body.get("ExpressionAttributeNames");
    let resolve = |placeholder: &str| Some(names?.get(placeholder)?.as_str()?.to_owned());
    let placeholder = equality(text, name, resolve).map(str::to_owned);
    let values = body.get_mut("ExpressionAttributeValues").and_then(Value::as_object_mut);
    if let Some((placeholder, values)) = placeholder.zip(values) {
        values.insert(placeholder, ManagedTable::physical(terms));
        return Ok(());
    }
    Err(Refusal::internal(format!(
        "dynashard: the key condition on {} was not understood",
        quoted(partition.as_str())
    )))
}

/// The page without what is ours.
fn shown(table: &ManagedTable, ground: &Ground, answer: Answer, counts: bool) -> Attempt {
    if !ground.lease().is_live(table.requests().now()) {
        return Attempt::Again;
    }
    let mut members = answer.members();
    let mut is_behind = false;
    let mut hidden = 0_u64;
    if let Some(items) = members.get_mut("Items").and_then(Value::as_array_mut) {
        items.retain_mut(|item| {
            let Some(item) = item.as_object_mut() else { return true };
            let is_owner = item.contains_key(OWNER_ID);
            hidden += u64::from(is_owner);
            is_behind |= table.shown(item).generation > ground.generation();
            !is_owner
        });
    }
    if is_behind {
        match ground {
            Ground::Collection(partition, _) => table.requests().forget(partition),
            Ground::Table(_) => table.requests().forget_all(),
        }
        return Attempt::Again;
    }
    for count in ["Count", "ScannedCount"] {
        if let Some(counted) = members.get(count).and_then(Value::as_u64) {
            members.insert(count.to_owned(), counted.saturating_sub(hidden).into());
        }
    }
    if counts {
        members.remove("Items");
    }
    if let Some(key) = members.get_mut("LastEvaluatedKey").and_then(Value::as_object_mut) {
        table.name_logically(key);
    }
    Attempt::Answered(answer.with_body(members))
}
