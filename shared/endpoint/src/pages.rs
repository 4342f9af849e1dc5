//! Pages of a table or an index.

use std::sync::atomic::{AtomicBool, Ordering};

use dynashard_aws::owner::OWNER_ID;
use dynashard_core::ports::NativeTerms;
use dynashard_core::{Deadline, Lease, quoted};
use dynashard_expression::{equality, uses};
use dynashard_keys::{PartitionKey, RESERVED_PREFIX};
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::cursor::{Position, end_at, start_at};
use crate::document::{Members, written};
use crate::guard::{
    KEY_CONDITION, Shows, Unasked, check_key_value_of_page, check_size, page_showing_own,
    put_placeholders, take_pair,
};
use crate::items::{Attempt, attempts, own_words};
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::{ManagedTable, physical};
use crate::upstream::{Upstream, deadline, refused, understood};
use crate::whole::{Counted, Found};
use crate::{merged, scan, write_sharded};

/// What a page stands on.
enum Ground {
    /// One collection.
    Collection(PartitionKey, NativeTerms),
    /// The table as a whole, no collection of which was ever listed.
    Table(Lease),
    /// The table as a whole, where some collections are listed, and which of its items count.
    Listed(Counted),
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
    let is_of_index = body.contains_key("IndexName");
    let shows = match operation {
        // An index need not project what is ours, and nothing is in it that was moved.
        _ if is_of_index && partition.is_some() => Shows::AsItIs,
        _ if is_of_index => Shows::Keys,
        "Scan" => Shows::Whole,
        _ => Shows::Generations,
    };
    let deadline = deadline(table);
    if partition.is_none()
        && let Some(index) = &write_sharded::index_of(table, operation, &body, deadline).await?
    {
        let query = || write_sharded::query(upstream, table, &body, index, deadline);
        return attempts(table, deadline, query).await;
    }
    if partition.is_none() && (queried.is_some() || shows == Shows::Generations) {
        return refused_by_dynamodb(upstream, call).await;
    }
    let position = if shows == Shows::Whole { Position::of(table, &body)? } else { None };
    let page = Page { upstream, table, call, body: &body, shows, deadline };
    let is_one_listed = AtomicBool::new(false);
    let (partition, position, page, is_one_listed) = (&partition, &position, &page, &is_one_listed);
    attempts(table, deadline, || async move {
        match (position, partition) {
            (Some(position), _) => {
                scan::listed(upstream, table, page.body, position.clone(), deadline).await
            }
            (None, Some(partition)) => page.of_collection(partition).await,
            (None, None) => page.of_all(is_one_listed).await,
        }
    })
    .await
}

/// A page as a client asks for it.
struct Page<'a> {
    upstream: &'a Upstream,
    table: &'a ManagedTable,
    call: &'a Call,
    body: &'a Members,
    shows: Shows,
    deadline: Deadline,
}

impl Page<'_> {
    async fn of_collection(&self, partition: &PartitionKey) -> Result<Attempt, Refusal> {
        let Self { upstream, table, call, body, deadline, .. } = *self;
        let shards = table.requests().shards_of(partition, deadline).await;
        let shards = shards.map_err(|error| Refusal::of(&error))?;
        let attempt = match shards.terms() {
            Some(terms) => self.on(&Ground::Collection(partition.clone(), terms)).await?,
            None => {
                merged::query(upstream, table, call, body, (partition, &shards), deadline).await?
            }
        };
        // A global index has no such reads, and while items move the table is asked what became of them.
        let is_of_local_index = body.contains_key("IndexName")
            && body.get("ConsistentRead").is_some_and(|strong| strong == true)
            && !shards.is_moving();
        if is_of_local_index && matches!(&attempt, Attempt::Answered(answer) if answer.is_success())
        {
            let are_out_of_date = table.requests().are_out_of_date(&shards, deadline).await;
            if are_out_of_date.map_err(|error| Refusal::of(&error))? {
                return Ok(Attempt::Again);
            }
        }
        Ok(attempt)
    }

    async fn of_all(&self, is_one_listed: &AtomicBool) -> Result<Attempt, Refusal> {
        let lease = self.table.requests().terms_of_all(self.deadline).await;
        let lease = lease.map_err(|error| Refusal::of(&error))?;
        let ground = match lease.filter(|_| !is_one_listed.load(Ordering::Relaxed)) {
            Some(lease) => Ground::Table(lease),
            None => Ground::Listed(counted(self.shows)),
        };
        if self.shows == Shows::Keys && matches!(ground, Ground::Listed(_)) {
            check_key_value_of_page(self.table, self.body)?;
        }
        let attempt = self.on(&ground).await?;
        // The first collection to be listed may show before the root tells of it.
        let is_behind = matches!((&ground, &attempt), (Ground::Table(_), Attempt::Again));
        is_one_listed.fetch_or(is_behind, Ordering::Relaxed);
        Ok(attempt)
    }

    async fn on(&self, ground: &Ground) -> Result<Attempt, Refusal> {
        let Self { upstream, table, call, shows, deadline, .. } = *self;
        let mut body = self.body.clone();
        if let Ground::Collection(partition, terms) = ground {
            query_at(table, &mut body, partition, terms)?;
        }
        start_at(table, &mut body)?;
        let unasked = page_showing_own(table, &mut body, ground.generation(), shows)?;
        let sent = written(&body);
        let answer = upstream.exchange(&call.operation, sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        if !answer.is_success() {
            return own_words(upstream, call, answer).await.map(Attempt::Answered);
        }
        shown(upstream, table, ground, answer, unasked, deadline).await
    }
}

/// Which items of a table as a whole count.
fn counted(shows: Shows) -> Counted {
    if shows == Shows::Whole { Counted::OfUnlisted } else { Counted::AtHome }
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
            Self::Table(_) | Self::Listed(_) => 0,
        }
    }

    /// Whether a page that has come now counts: under the lease, or since nothing has changed (protocol: "Lease").
    async fn holds(&self, table: &ManagedTable, deadline: Deadline) -> Result<bool, Refusal> {
        let requests = table.requests();
        if self.lease().is_none_or(|lease| lease.is_live(requests.now())) {
            return Ok(true);
        }
        let failed = |error| Refusal::of(&error);
        Ok(match self {
            Self::Collection(partition, terms) => {
                let shards = requests.shards_of(partition, deadline).await.map_err(failed)?;
                shards.terms().is_some_and(|now| now.agree_with(terms))
            }
            Self::Table(_) => requests.terms_of_all(deadline).await.map_err(failed)?.is_some(),
            Self::Listed(_) => true,
        })
    }

    /// The lease that a page has to come within. What is listed is looked up behind it.
    fn lease(&self) -> Option<Lease> {
        match self {
            Self::Collection(_, terms) => Some(terms.lease),
            Self::Table(lease) => Some(*lease),
            Self::Listed(_) => None,
        }
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
    body.get("ExpressionAttributeValues")?.get(&text[placeholder])
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
        condition["AttributeValueList"][0] = physical(terms);
        return Ok(());
    }
    let text = body.get(KEY_CONDITION).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = body.get("ExpressionAttributeNames");
    let resolve = |placeholder: &str| Some(names?.get(placeholder)?.as_str()?.to_owned());
    let Some(at) = equality(&text, name, resolve) else {
        return Err(Refusal::internal(format!(
            "dynashard: the key condition on {} was not understood",
            quoted(partition.as_str())
        )));
    };
    // Whatever else the client compares with that value, it compares with its own.
    let mut placeholders = take_pair(body)?;
    let own = placeholders.value(physical(terms));
    let condition = format!("{}{own}{}", &text[..at.start], &text[at.end..]);
    check_size(Some(&text), &condition)?;
    let filter = body.get("FilterExpression").and_then(Value::as_str).unwrap_or_default();
    let placeholder = &text[at];
    if !uses(&condition, placeholder) && !uses(filter, placeholder) {
        placeholders.values.remove(placeholder);
    }
    put_placeholders(body, placeholders);
    body.insert(KEY_CONDITION.to_owned(), condition.into());
    Ok(())
}

/// The page without what is ours, and of a table as a whole without what its listed collections hold elsewhere.
async fn shown(
    upstream: &Upstream,
    table: &ManagedTable,
    ground: &Ground,
    answer: Answer,
    unasked: Unasked,
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    if !ground.holds(table, deadline).await? {
        return Ok(Attempt::Again);
    }
    let mut members = understood(&answer)?;
    let items = members.get_mut("Items").and_then(Value::as_array_mut).map(std::mem::take);
    let items = items.unwrap_or_default();
    let returned = items.len();
    let mut found = Vec::with_capacity(returned);
    for item in items {
        let Value::Object(mut item) = item else { continue };
        let at = item.get(table.partition_key_name()).and_then(|key| key["S"].as_str());
        let at = at.unwrap_or_default().to_owned();
        let is_owner = item.contains_key(OWNER_ID) || at.starts_with(RESERVED_PREFIX);
        let was = table.shown(&mut item);
        if was.generation > ground.generation() && ground.lease().is_some() {
            // The root may not tell of it yet.
            match (ground, table.partition_of(&item)?) {
                (Ground::Collection(partition, _), _) => table.requests().forget(partition),
                (_, Some(partition)) => table.requests().forget(&partition),
                (_, None) => table.requests().forget_all(),
            }
            return Ok(Attempt::Again);
        }
        if !is_owner && !was.is_marker {
            found.push(Found { item, at, generation: was.generation });
        }
    }
    if let Ground::Listed(counted) = ground {
        found = match counted.of(upstream, table, found, deadline).await {
            Ok(counted) => counted,
            Err(NoPage::Again) => return Ok(Attempt::Again),
            Err(NoPage::Refused(answer)) => return Ok(Attempt::Answered(answer)),
            Err(NoPage::Failed(refusal)) => return Err(refusal),
        };
    }
    let hidden = u64::try_from(returned - found.len()).unwrap_or_default();
    for count in ["Count", "ScannedCount"] {
        if let Some(counted) = members.get(count).and_then(Value::as_u64) {
            members.insert(count.to_owned(), counted.saturating_sub(hidden).into());
        }
    }
    if unasked.items {
        members.remove("Items");
    } else if members.contains_key("Items") {
        let items = found.into_iter().map(|Found { mut item, .. }| {
            for name in &unasked.keys {
                item.remove(name);
            }
            Value::Object(item)
        });
        members.insert("Items".to_owned(), items.collect::<Vec<_>>().into());
    }
    match members.get_mut("LastEvaluatedKey").and_then(Value::as_object_mut) {
        Some(key) => end_at(table, key),
        None if matches!(ground, Ground::Listed(Counted::OfUnlisted)) => {
            let key = Position::Behind(None).key(table);
            members.insert("LastEvaluatedKey".to_owned(), key.into());
        }
        None => {}
    }
    Ok(Attempt::Answered(answer.with_body(&members)))
}
