//! Transactions: items of several tables, all or none.

use std::collections::BTreeMap;

use dynashard_aws_operator::RawError;
use dynashard_core::ports::NativeTerms;
use dynashard_core::{Deadline, Lease};
use dynashard_keys::PartitionKey;
use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use crate::call::{Answer, Call};
use crate::document::{Members, without_nulls};
use crate::guard::{On, Verb, guarded, showing_generation};
use crate::items::{Attempt, attempts, partition_of, terms_of};
use crate::parameters;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, long_deadline, refused};

/// For how long the versions of a token's repeats are the same. DynamoDB keeps a token for ten minutes, and two executions that are
/// further apart must not give an item the same version (invariant I36).
const SLOT_SECS: u64 = 500;

/// How many slots a repeat may have been sent in.
const SLOTS: u64 = 3;

/// The most actions of one transaction (DynamoDB API: `TransactWriteItems`).
const MAX_ACTIONS: usize = 100;

/// An action on an item of a managed table.
struct ManagedAction<'a> {
    table: &'a ManagedTable,
    partition: Option<PartitionKey>,
    terms: Option<NativeTerms>,
    asked_for_old: bool,
}

/// `TransactWriteItems`
pub(crate) async fn write(
    upstream: &Upstream,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(first) = first_managed(upstream, &body)? else { return upstream.pass(call).await };
    parameters::check("TransactWriteItems", &body)?;
    if is_too_long(&body) {
        return upstream.pass(call).await;
    }
    let deadline = long_deadline(first);
    let token = body.get("ClientRequestToken").and_then(Value::as_str).map(str::to_owned);
    let (body, token) = (&body, &token);
    attempts(first, deadline, || async move {
        let slot = first.requests().epoch_secs() / SLOT_SECS;
        let mut answer = None;
        // A repeat has to be the request that it repeats, to the letter, which was perhaps sent in an earlier slot.
        for slot in (0..if token.is_some() { SLOTS } else { 1 }).map(|back| slot - back) {
            let drawn = |at: usize, action: &Value| match token {
                Some(token) => {
                    let text = format!("{token} {slot} {at} {action}");
                    xxh64(text.as_bytes(), 0)
                }
                None => first.requests().draw_version().get(),
            };
            let (sent, actions) = guarded_actions(upstream, body, drawn, deadline).await?;
            let lease = shortest(&actions);
            let sent = Value::Object(sent).to_string().into_bytes();
            let outcome = match upstream.exchange("TransactWriteItems", sent, lease).await {
                Ok(outcome) => Answer::from(outcome),
                Err(RawError::LeaseExpired) => return Ok(Attempt::Again),
                Err(error) => return Err(refused(&error)),
            };
            if outcome.is_error("IdempotentParameterMismatchException") {
                answer = Some(outcome);
                continue;
            }
            return transacted(&actions, outcome);
        }
        let answer = answer.ok_or_else(|| Refusal::internal("dynashard: nothing was sent"))?;
        Ok(Attempt::Answered(answer))
    })
    .await
}

/// `TransactGetItems`
pub(crate) async fn get(
    upstream: &Upstream,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(first) = first_managed(upstream, &body)? else { return upstream.pass(call).await };
    parameters::check("TransactGetItems", &body)?;
    if is_too_long(&body) {
        return upstream.pass(call).await;
    }
    let deadline = long_deadline(first);
    let body = &body;
    attempts(first, deadline, || async move {
        let mut body = body.clone();
        let mut actions = BTreeMap::new();
        let gets = body.get_mut("TransactItems").and_then(Value::as_array_mut);
        for (at, get) in gets.into_iter().flatten().enumerate() {
            let Some(get) = get.get_mut("Get").and_then(Value::as_object_mut) else { continue };
            let Some(table) = upstream.table_of(get)? else { continue };
            let partition = partition_of(table, get, "Key")?;
            let terms = terms_of(table, partition.as_ref(), deadline).await?;
            let key = get.get_mut("Key").and_then(Value::as_object_mut);
            if let (Some(key), Some(terms)) = (key, &terms) {
                table.put_at(key, terms);
            }
            showing_generation(get)?;
            let asked_for_old = true;
            actions.insert(at, ManagedAction { table, partition, terms, asked_for_old });
        }
        let sent = Value::Object(body).to_string().into_bytes();
        let answer = upstream.exchange("TransactGetItems", sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        let lease = shortest(&actions);
        if lease.is_some_and(|lease| !lease.is_live(first.requests().now())) {
            return Ok(Attempt::Again);
        }
        if !answer.is_success() {
            return Ok(Attempt::Answered(answer));
        }
        let mut members = answer.members();
        let found = members.get_mut("Responses").and_then(Value::as_array_mut);
        for (at, found) in found.into_iter().flatten().enumerate() {
            let item = found.get_mut("Item").and_then(Value::as_object_mut);
            if let Some((item, action)) = item.zip(actions.get(&at))
                && action.is_behind(item)
            {
                return Ok(Attempt::Again);
            }
        }
        Ok(Attempt::Answered(answer.with_body(members)))
    })
    .await
}

/// Whether DynamoDB refuses a transaction as a whole, in its own words.
fn is_too_long(body: &Members) -> bool {
    body.get("TransactItems").and_then(Value::as_array).is_some_and(|all| all.len() > MAX_ACTIONS)
}

/// The first managed table that a transaction names.
fn first_managed<'a>(
    upstream: &'a Upstream,
    body: &Members,
) -> Result<Option<&'a ManagedTable>, Refusal> {
    let actions = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
    let mut first = None;
    for action in actions.filter_map(Value::as_object).flat_map(Members::values) {
        if let Some(action) = action.as_object() {
            first = first.or(upstream.table_of(action)?);
        }
    }
    Ok(first)
}

/// The transaction with the guard in each action on a managed table.
async fn guarded_actions<'a>(
    upstream: &'a Upstream,
    body: &Members,
    drawn: impl Fn(usize, &Value) -> u64,
    deadline: Deadline,
) -> Result<(Members, BTreeMap<usize, ManagedAction<'a>>), Refusal> {
    let mut body = body.clone();
    let mut actions = BTreeMap::new();
    let all = body.get_mut("TransactItems").and_then(Value::as_array_mut);
    for (at, action) in all.into_iter().flatten().enumerate() {
        let version = drawn(at, action);
        let forms = action.as_object_mut().into_iter().flatten();
        for (form, request) in forms {
            let Some(members) = request.as_object() else { continue };
            let Some(table) = upstream.table_of(members)? else { continue };
            let verb = match form.as_str() {
                "Put" => Verb::Put,
                "Update" => Verb::Update,
                "Delete" => Verb::Delete,
                "ConditionCheck" => Verb::Check,
                _ => return Err(Refusal::serialization(format!("{form} is no action"))),
            };
            let partition = partition_of(table, members, verb.image())?;
            let terms = terms_of(table, partition.as_ref(), deadline).await?;
            let guarded = guarded(
                verb,
                without_nulls(members.clone()),
                table,
                terms.as_ref(),
                (On::Anything, version),
            )?;
            let asked_for_old = guarded.asked_for_old;
            *request = guarded.body.into();
            actions.insert(at, ManagedAction { table, partition, terms, asked_for_old });
        }
    }
    Ok((body, actions))
}

impl ManagedAction<'_> {
    /// Takes off what is ours of an item that was shown, and tells whether what is known of its collection is out of date.
    fn is_behind(&self, item: &mut Members) -> bool {
        let shown = self.table.shown(item);
        let Some((partition, terms)) = self.partition.as_ref().zip(self.terms.as_ref()) else {
            return false;
        };
        let is_behind = shown.generation > terms.generation.get();
        if is_behind {
            self.table.requests().forget(partition);
        }
        is_behind
    }
}

/// The lease that ends first.
fn shortest(actions: &BTreeMap<usize, ManagedAction<'_>>) -> Option<Lease> {
    let known = actions.values().filter_map(|action| action.terms.as_ref().map(|it| (action, it)));
    known
        .max_by_key(|(action, terms)| terms.lease.age(action.table.requests().now()))
        .map(|(_, terms)| terms.lease)
}

/// What the answer to a transaction means.
fn transacted(
    actions: &BTreeMap<usize, ManagedAction<'_>>,
    answer: Answer,
) -> Result<Attempt, Refusal> {
    if answer.is_success() {
        let mut members = answer.members();
        let Some(Value::Object(by_table)) = members.get_mut("ItemCollectionMetrics") else {
            return Ok(Attempt::Answered(answer));
        };
        for action in actions.values() {
            let metrics = by_table.get_mut(action.table.name()).and_then(Value::as_array_mut);
            for metrics in metrics.into_iter().flatten() {
                if let Some(key) = metrics["ItemCollectionKey"].as_object_mut() {
                    action.table.name_logically(key);
                }
            }
        }
        return Ok(Attempt::Answered(answer.with_body(members)));
    }
    if !answer.is_error("TransactionCanceledException") {
        return Ok(Attempt::Answered(answer));
    }
    let mut members = answer.members();
    let mut is_behind = false;
    let reasons = members.get_mut("CancellationReasons").and_then(Value::as_array_mut);
    for (at, reason) in reasons.into_iter().flatten().enumerate() {
        let Some(action) = actions.get(&at) else { continue };
        let is_condition = reason["Code"] == "ConditionalCheckFailed";
        if is_condition && action.terms.is_none() {
            return Err(Refusal::internal("dynashard: a key of the request was not understood"));
        }
        let Some(reason) = reason.as_object_mut() else { continue };
        if let Some(Value::Object(mut item)) = reason.remove("Item") {
            is_behind |= action.is_behind(&mut item);
            if action.asked_for_old {
                reason.insert("Item".to_owned(), item.into());
            }
        }
    }
    if is_behind {
        return Ok(Attempt::Again);
    }
    Ok(Attempt::Answered(answer.with_body(members)))
}
