//! Pages of a table or an index.

use dynashard_aws::owner::OWNER_ID;
use dynashard_core::ports::NativeTerms;
use dynashard_core::{Deadline, Lease, quoted};
use dynashard_expression::equality;
use dynashard_keys::{PartitionKey, RESERVED_PREFIX};
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::document::Members;
use crate::guard::{Shows, Unasked, page_showing_own};
use crate::indexes;
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
    // Of an index the key condition may name the partition key of the table, too.
    let queried = queried(table, &body);
    let partition = queried.map_or(Ok(None), ManagedTable::partition)?;
    let shows = match operation {
        // An index need not project what is ours, and nothing is in it that was moved.
        _ if body.contains_key("IndexName") && partition.is_some() => Shows::AsItIs,
        _ if body.contains_key("IndexName") => Shows::Keys,
        "Scan" => Shows::OwnerToo,
        _ => Shows::Generations,
    };
    if partition.is_none() && (queried.is_some() || shows == Shows::Generations) {
        return refused_by_dynamodb(upstream, call).await;
    }
    let deadline = deadline(table);
    let (partition, body) = (&partition, &body);
    attempts(table, deadline, || async move {
        let Some(ground) = ground(table, partition.as_ref(), deadline).await? else {
            if let Some(partition) = partition.as_ref().filter(|_| body.contains_key("IndexName")) {
                return indexes::query(upstream, table, call, body, partition, deadline).await;
            }
            return sharded::query(upstream, table, body, deadline).await;
        };
        let mut body = body.clone();
        if let Ground::Collection(partition, terms) = &ground {
            query_at(table, &mut body, partition, terms)?;
        }
        start_at(table, &mut body, deadline).await?;
        let unasked = page_showing_own(table, &mut body, ground.generation(), shows)?;
        let sent = Value::Object(body).to_string().into_bytes();
        let answer = upstream.exchange(operation, sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        if !answer.is_success() {
            return own_words(upstream, call, answer).await.map(Attempt::Answered);
        }
        Ok(shown(table, &ground, answer, unasked))
    })
    .await
}

/// Has DynamoDB say what is wrong with a request whose partition key was not understood. A page is not handed out: nothing says
/// where its items lie.
async fn refused_by_dynamodb(upstream: &Upstream, call: &Call) -> Result<Answer, Refusal> {
    let answer = upstream.pass(call).await?;
    if answer.is_success() {
        return Err(Refusal::internal("dynashard: the key condition was not understood"));
    }
    Ok(answer)
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
            "dynashard: a partition key of the table {} is listed, since it has or had several shards, or settings of its own, and \
             scans and queries of indexes by another key are served before that alone; use the HTTP API, or `dynashard export`",
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
        if condition["ComparisonOperator"] != "EQ" {
            return None;
        }
        return condition["AttributeValueList"].get(0);
    }
    let text = body.get("KeyConditionExpression")?.as_str()?;
    let names = body.get("ExpressionAttributeNames");
    let resolve = |placeholder: &str| Some(names?.get(placeholder)?.as_str()?.to_owned());
    let placeholder = equality(text, name, resolve)?;
    body.get("ExpressionAttributeValues")?.get(placeholder)
}

/// Has a page begin behind the item at which the page before it ended, where DynamoDB holds that.
async fn start_at(
    table: &ManagedTable,
    body: &mut Members,
    deadline: Deadline,
) -> Result<(), Refusal> {
    let start = body.get_mut("ExclusiveStartKey").and_then(Value::as_object_mut);
    let Some(start) = start else { return Ok(()) };
    // The item that says whose the table is lies under its own key.
    let key = start.get(table.partition_key_name()).and_then(|value| value.get("S")?.as_str());
    if key.is_some_and(|key| key.starts_with(RESERVED_PREFIX)) {
        return Ok(());
    }
    if let Some(partition) = table.partition_of(start)? {
        let terms = table.terms(&partition, deadline).await?;
        table.put_at(start, &terms);
    }
    Ok(())
}

/// Has a query be where DynamoDB holds the collection.
fn query_at(
    table: &ManagedTable,
    body: &mut Members,
    partition: &PartitionKey,
    terms: &NativeTerms,
) -> Result<(), Refusal> {
    if terms.partition.as_str() == partition.as_str() {
        return Ok(());
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
fn shown(table: &ManagedTable, ground: &Ground, answer: Answer, unasked: Unasked) -> Attempt {
    if !ground.lease().is_live(table.requests().now()) {
        return Attempt::Again;
    }
    let mut members = answer.members();
    let mut is_behind = false;
    let mut hidden = 0_u64;
    if let Some(items) = members.get_mut("Items").and_then(Value::as_array_mut) {
        items.retain_mut(|item| {
            let Some(item) = item.as_object_mut() else { return true };
            let key = item.get(table.partition_key_name()).and_then(|key| key["S"].as_str());
            let is_ours = key.is_some_and(|key| key.starts_with(RESERVED_PREFIX));
            let is_owner = item.contains_key(OWNER_ID) || is_ours;
            let shown = table.shown(item);
            is_behind |= shown.generation > ground.generation();
            if unasked.keys {
                item.remove(table.partition_key_name());
            }
            let is_hidden = is_owner || shown.is_marker;
            hidden += u64::from(is_hidden);
            !is_hidden
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
    if unasked.items {
        members.remove("Items");
    }
    if let Some(key) = members.get_mut("LastEvaluatedKey").and_then(Value::as_object_mut) {
        table.name_logically(key);
    }
    Attempt::Answered(answer.with_body(members))
}
