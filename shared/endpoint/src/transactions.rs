//! Transactions: items of several tables, all or none.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_aws_operator::RawError;
use dynashard_core::{Among, Deadline, Lease};
use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use crate::call::{Answer, Call};
use crate::document::{Members, without_nulls, written};
use crate::guard::{On, Verb, guarded, only_removes, showing_own};
use crate::items::{Attempt, attempts};
use crate::parameters;
use crate::parts::{Part, note_reads, note_writes};
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::terms::{Terms, terms_of_keys};
use crate::upstream::{Upstream, long_deadline, refused, understood};

/// For how long the versions of a token's repeats are the same. DynamoDB keeps a token for ten minutes, and two executions that are
/// further apart must not give an item the same version (invariant I36).
const SLOT_SECS: u64 = 500;

/// How many slots a repeat may have been sent in.
const SLOTS: usize = 3;

/// The most actions of one transaction (DynamoDB API: `TransactWriteItems`).
const MAX_ACTIONS: usize = 100;

/// Of how many actions that only remove it is tried whether a repeat is of one that found no item: each doubles the requests by
/// which it is learned that a token is taken.
const MAX_GUESSED: usize = 3;

/// An action on an item of a managed table.
struct ManagedAction<'a> {
    table: &'a ManagedTable,
    /// `None` where the key was not understood.
    terms: Terms,
    on: On,
    asked_for_old: bool,
}

type Actions<'a> = BTreeMap<usize, ManagedAction<'a>>;

/// What the answer to a transaction means.
enum Outcome {
    Attempt(Attempt),
    /// It was cancelled since these actions, which only remove, found no item.
    Absent(BTreeSet<usize>),
}

/// `TransactWriteItems`
pub(crate) async fn write(
    upstream: &Upstream,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(first) = first_managed(upstream, &body)? else { return upstream.pass(call).await };
    parameters::check("TransactWriteItems", &body)?;
    check_length(&body)?;
    let deadline = long_deadline(first);
    let body = &body;
    let answer = attempts(first, deadline, || attempt(upstream, first, body, deadline)).await?;
    note_writes(managed_parts(upstream, body), &answer, deadline).await;
    Ok(answer)
}

/// Sends a transaction, and again where what only removes has found no item.
async fn attempt(
    upstream: &Upstream,
    first: &ManagedTable,
    body: &Members,
    deadline: Deadline,
) -> Result<Attempt, Refusal> {
    let token = body.get("ClientRequestToken").and_then(Value::as_str);
    let now_secs = first.requests().epoch_secs();
    let mut absent = BTreeSet::new();
    let mut guess = 0_usize;
    'absent: loop {
        let mut mismatch = None;
        let mut removing = Vec::new();
        // A repeat has to be the request that it repeats, to the letter, which was perhaps sent in an earlier slot.
        for slot in slots(now_secs).take(if token.is_some() { SLOTS } else { 1 }) {
            let drawn = |at: usize, action: &Value| match token {
                Some(token) => xxh64(format!("{token} {slot} {at} {action}").as_bytes(), 0),
                None => first.requests().draw_version().get(),
            };
            let (sent, actions) = guarded_actions(upstream, body, &absent, drawn, deadline).await?;
            let sent = written(&sent);
            let answer = match upstream.exchange("TransactWriteItems", sent, leases(&actions)).await
            {
                Ok(answer) => Answer::from(answer),
                Err(RawError::LeaseExpired) => return Ok(Attempt::Again),
                Err(error) => return Err(refused(&error)),
            };
            if answer.is_error("IdempotentParameterMismatchException") {
                mismatch = Some(answer);
                let removes = actions.into_iter().filter(|(_, action)| action.on != On::Anything);
                removing = removes.map(|(at, _)| at).take(MAX_GUESSED).collect();
                continue;
            }
            match transacted(&actions, answer)? {
                Outcome::Attempt(attempt) => return Ok(attempt),
                Outcome::Absent(found) => {
                    absent.extend(found);
                    continue 'absent;
                }
            }
        }
        // It is perhaps a repeat of what found no item for some of them.
        guess += 1;
        if guess < 1 << removing.len() {
            let guessed = removing.into_iter().enumerate().filter(|(bit, _)| guess >> bit & 1 == 1);
            absent = guessed.map(|(_, at)| at).collect();
            continue;
        }
        let answer = mismatch.ok_or_else(|| Refusal::internal("dynashard: nothing was sent"))?;
        return Ok(Attempt::Answered(answer));
    }
}

/// The slot of this second, and those before it.
fn slots(epoch_secs: u64) -> impl Iterator<Item = u64> {
    (0..=epoch_secs / SLOT_SECS).rev()
}

/// `TransactGetItems`
pub(crate) async fn get(
    upstream: &Upstream,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(first) = first_managed(upstream, &body)? else { return upstream.pass(call).await };
    parameters::check("TransactGetItems", &body)?;
    check_length(&body)?;
    let deadline = long_deadline(first);
    let asked = &body;
    let answer = attempts(first, deadline, || async move {
        let mut body = asked.clone();
        let mut actions = Actions::new();
        let gets = body.get_mut("TransactItems").and_then(Value::as_array_mut);
        let mut managed = Vec::new();
        for (at, get) in gets.into_iter().flatten().enumerate() {
            let Some(get) = get.get_mut("Get").and_then(Value::as_object_mut) else { continue };
            let Some(table) = upstream.table_of(get)? else { continue };
            *get = without_nulls(std::mem::take(get));
            parameters::check("Get", get)?;
            managed.push((at, table, get));
        }
        let keys = managed.iter().map(|(_, table, get)| (*table, key_in(get, "Key")));
        let terms = terms_of_keys(keys.collect(), Among::Transaction, deadline).await?;
        for ((at, table, get), terms) in managed.into_iter().zip(terms) {
            let key = get.get_mut("Key").and_then(Value::as_object_mut);
            if let Some((key, (_, terms))) = key.zip(terms.as_ref()) {
                table.put_at(key, terms);
            }
            showing_own(get)?;
            let (on, asked_for_old) = (On::Anything, true);
            actions.insert(at, ManagedAction { table, terms, on, asked_for_old });
        }
        let sent = written(&body);
        let answer = upstream.exchange("TransactGetItems", sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        if is_late(&actions) && !have_same_terms(asked, &actions, deadline).await? {
            return Ok(Attempt::Again);
        }
        if !answer.is_success() {
            return Ok(Attempt::Answered(answer));
        }
        check_understood(&actions)?;
        let mut members = understood(&answer)?;
        let found = members.get_mut("Responses").and_then(Value::as_array_mut);
        for (at, found) in found.into_iter().flatten().enumerate() {
            let Some((found, action)) = found.as_object_mut().zip(actions.get(&at)) else {
                continue;
            };
            let Some(Value::Object(mut item)) = found.remove("Item") else { continue };
            let shown = action.shown(&mut item);
            if shown.is_behind {
                return Ok(Attempt::Again);
            }
            // Where nothing else is shown, DynamoDB would have shown no item.
            if !shown.is_marker && !item.is_empty() {
                found.insert("Item".to_owned(), item.into());
            }
        }
        Ok(Attempt::Answered(answer.with_body(&members)))
    })
    .await?;
    note_reads(managed_parts(upstream, asked), &answer).await;
    Ok(answer)
}

/// The actions of a transaction on items of managed tables, with their places.
fn managed_parts<'a, 'b>(
    upstream: &'a Upstream,
    body: &'b Members,
) -> Vec<(usize, Part<'a>, &'b Members)> {
    let actions = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
    let mut parts = Vec::new();
    for (at, action) in actions.enumerate() {
        for (form, request) in action.as_object().into_iter().flatten() {
            let Some(request) = request.as_object() else { continue };
            // A get names its item as a check does.
            let verb = verb_of(form).unwrap_or(Verb::Check);
            let Ok(Some(table)) = upstream.table_of(request) else { continue };
            let key = key_in(request, verb.image()).and_then(|key| table.key_of(key).ok()?);
            parts.extend(key.map(|key| (at, Part { table, key }, request)));
        }
    }
    parts
}

/// What an action of this form does.
fn verb_of(form: &str) -> Option<Verb> {
    match form {
        "Put" => Some(Verb::Put),
        "Update" => Some(Verb::Update),
        "Delete" => Some(Verb::Delete),
        "ConditionCheck" => Some(Verb::Check),
        _ => None,
    }
}

/// Refuses a transaction of more actions than DynamoDB takes now. Were it passed on, one that takes more would carry it out
/// without a guard.
fn check_length(body: &Members) -> Result<(), Refusal> {
    let actions = body.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    if actions <= MAX_ACTIONS {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length less than \
         or equal to {MAX_ACTIONS}"
    )))
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

/// The transaction with the guard in each action on a managed table. What only removes makes no item, which a version would: it is
/// sent without one where its item is known to be `absent`, and for an item alone otherwise.
async fn guarded_actions<'a>(
    upstream: &'a Upstream,
    body: &Members,
    absent: &BTreeSet<usize>,
    drawn: impl Fn(usize, &Value) -> u64,
    deadline: Deadline,
) -> Result<(Members, Actions<'a>), Refusal> {
    let mut body = body.clone();
    let mut actions = Actions::new();
    let all = body.get_mut("TransactItems").and_then(Value::as_array_mut);
    let mut managed = Vec::new();
    for (at, action) in all.into_iter().flatten().enumerate() {
        let version = drawn(at, action);
        let forms = action.as_object_mut().into_iter().flatten();
        for (form, request) in forms {
            let Some(members) = request.as_object() else { continue };
            let Some(table) = upstream.table_of(members)? else { continue };
            let verb = verb_of(form)
                .ok_or_else(|| Refusal::serialization(format!("{form} is not an action")))?;
            let members = without_nulls(members.clone());
            parameters::check(form, &members)?;
            check_required(at, verb, &members)?;
            managed.push((at, table, verb, members, version, request));
        }
    }
    let keys =
        managed.iter().map(|(_, table, verb, members, ..)| (*table, key_in(members, verb.image())));
    let terms = terms_of_keys(keys.collect(), Among::Transaction, deadline).await?;
    for ((at, table, verb, members, version, request), terms) in managed.into_iter().zip(terms) {
        let on = match verb {
            Verb::Update if absent.contains(&at) => On::Nothing,
            Verb::Update if only_removes(&members) => On::AnItem,
            _ => On::Anything,
        };
        let known = terms.as_ref().map(|(_, terms)| terms);
        let guarded = guarded(verb, members, table, known, (on, version))?;
        let asked_for_old = guarded.asked_for_old;
        *request = guarded.body.into();
        actions.insert(at, ManagedAction { table, terms, on, asked_for_old });
    }
    Ok((body, actions))
}

/// The key that an action names, or the item that holds it.
fn key_in<'a>(members: &'a Members, image: &str) -> Option<&'a Members> {
    members.get(image).and_then(Value::as_object)
}

/// Refuses an action without the expression that it needs (DynamoDB API: `ConditionCheck`, `Update`). With the guard it would have
/// one.
fn check_required(at: usize, verb: Verb, members: &Members) -> Result<(), Refusal> {
    let (expression, member) = match verb {
        Verb::Check => ("ConditionExpression", "conditionCheck.conditionExpression"),
        Verb::Update => ("UpdateExpression", "update.updateExpression"),
        Verb::Put | Verb::Delete => return Ok(()),
    };
    if members.contains_key(expression) {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "1 validation error detected: Value null at 'transactItems.{}.member.{member}' failed to satisfy constraint: Member \
         must not be null",
        at + 1
    )))
}

/// What an item of an action was before its own attributes were taken off.
struct Shown {
    /// It is of a later generation than what is known of its collection.
    is_behind: bool,
    is_marker: bool,
}

impl ManagedAction<'_> {
    /// Takes off what is ours of an item that was shown.
    fn shown(&self, item: &mut Members) -> Shown {
        let shown = self.table.shown(item);
        let known = self.terms.as_ref();
        let behind = known.filter(|(_, terms)| shown.generation > terms.generation.get());
        if let Some((partition, _)) = behind {
            self.table.requests().forget(partition);
        }
        Shown { is_behind: behind.is_some(), is_marker: shown.is_marker }
    }
}

/// The leases that a transaction stands on.
fn leases(actions: &Actions<'_>) -> Vec<Lease> {
    actions.values().filter_map(|action| Some(action.terms.as_ref()?.1.lease)).collect()
}

/// Whether one of them has run out.
fn is_late(actions: &Actions<'_>) -> bool {
    actions.values().any(|action| {
        let terms = action.terms.as_ref();
        terms.is_some_and(|(_, terms)| !terms.lease.is_live(action.table.requests().now()))
    })
}

/// Whether the gets of a transaction stand on now what they stood on when it was sent: what comes late counts then (protocol:
/// "Lease").
async fn have_same_terms(
    asked: &Members,
    actions: &Actions<'_>,
    deadline: Deadline,
) -> Result<bool, Refusal> {
    let key = |at: usize| key_in(asked["TransactItems"].get(at)?.get("Get")?.as_object()?, "Key");
    let keys = actions.iter().map(|(at, action)| (action.table, key(*at)));
    let now = terms_of_keys(keys.collect(), Among::Transaction, deadline).await?;
    let then = actions.values().map(|action| action.terms.as_ref());
    Ok(now.iter().zip(then).all(|(now, then)| match (now, then) {
        (Some((_, now)), Some((_, then))) => now.agree_with(then),
        (now, then) => now.is_none() && then.is_none(),
    }))
}

/// Refuses to answer what DynamoDB has carried out on a key that was not understood.
fn check_understood(actions: &Actions<'_>) -> Result<(), Refusal> {
    if actions.values().all(|action| action.terms.is_some()) {
        return Ok(());
    }
    Err(not_understood())
}

fn not_understood() -> Refusal {
    Refusal::internal("dynashard: a key of the request was not understood")
}

/// What the answer to a transaction means.
fn transacted(actions: &Actions<'_>, answer: Answer) -> Result<Outcome, Refusal> {
    let is_late = is_late(actions);
    if answer.is_success() {
        check_understood(actions)?;
        if is_late {
            // What it has written may have been moved before it was there (invariant I6).
            return Err(Refusal::internal(
                "dynashard: DynamoDB answered after a metadata lease had run out, and whether what it has written counts is unknown",
            ));
        }
        return Ok(Outcome::Attempt(Attempt::Answered(named_logically(actions, answer))));
    }
    if !answer.is_error("TransactionCanceledException") {
        return Ok(Outcome::Attempt(Attempt::Answered(answer)));
    }
    let mut members = answer.members();
    let mut is_behind = is_late;
    let mut absent = BTreeSet::new();
    let reasons = members.get_mut("CancellationReasons").and_then(Value::as_array_mut);
    for (at, reason) in reasons.into_iter().flatten().enumerate() {
        let Some((reason, action)) = reason.as_object_mut().zip(actions.get(&at)) else { continue };
        let is_condition = reason.get("Code").is_some_and(|code| code == "ConditionalCheckFailed");
        if is_condition && action.terms.is_none() {
            return Err(not_understood());
        }
        let item = reason.remove("Item");
        match action.on {
            On::AnItem if is_condition && item.is_none() => drop(absent.insert(at)),
            // Somebody has put one meanwhile.
            On::Nothing if is_condition && item.is_some() => is_behind = true,
            _ => {}
        }
        if let Some(Value::Object(mut item)) = item {
            let shown = action.shown(&mut item);
            is_behind |= shown.is_behind;
            if action.asked_for_old && !shown.is_marker {
                reason.insert("Item".to_owned(), item.into());
            }
        }
    }
    Ok(if is_behind {
        Outcome::Attempt(Attempt::Again)
    } else if !absent.is_empty() {
        Outcome::Absent(absent)
    } else {
        Outcome::Attempt(Attempt::Answered(answer.with_body(&members)))
    })
}

/// The answer to a transaction that was carried out, with the client's own keys.
fn named_logically(actions: &Actions<'_>, answer: Answer) -> Answer {
    let mut members = answer.members();
    let Some(Value::Object(by_table)) = members.get_mut("ItemCollectionMetrics") else {
        return answer;
    };
    for (name, metrics) in by_table {
        let action = actions.values().find(|action| action.table.name() == name);
        for metrics in metrics.as_array_mut().into_iter().flatten() {
            let key = metrics.get_mut("ItemCollectionKey").and_then(Value::as_object_mut);
            if let Some((key, action)) = key.zip(action) {
                action.table.name_logically(key);
            }
        }
    }
    answer.with_body(&members)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long DynamoDB keeps a token (DynamoDB API: `TransactWriteItems`).
    const TOKEN_SECS: u64 = 600;

    /// A repeat has the versions of what it repeats as long as DynamoDB knows the token. What is sent with it later is executed
    /// anew, and has others.
    #[test]
    fn a_token_that_is_used_again_gives_the_same_versions_for_ten_minutes() {
        let began = 1_795_374_531;
        for first_secs in began..began + SLOT_SECS {
            let first = slots(first_secs).next();
            for repeated in [0, 1, SLOT_SECS - 1, SLOT_SECS, TOKEN_SECS] {
                let tried = slots(first_secs + repeated).take(SLOTS);
                assert!(tried.map(Some).any(|slot| slot == first), "after {repeated} seconds");
            }
            for again in [TOKEN_SECS, 2 * TOKEN_SECS] {
                assert_ne!(slots(first_secs + again).next(), first, "after {again} seconds");
            }
        }
    }
}
