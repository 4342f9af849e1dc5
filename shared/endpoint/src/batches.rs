//! Batches: items of several tables, each by itself.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use dynashard_core::{Among, Deadline, Lease};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::document::{Members, without_nulls, written};
use crate::guard::{check_own_names, read_strongly, showing_own};
use crate::items::{self, Attempt, attempts};
use crate::parameters;
use crate::parts::note_batch;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::terms::{Untold, terms_of_each_key};
use crate::upstream::{Upstream, long_deadline, refused, understood};
use crate::value;

/// The most writes of one batch (DynamoDB API: `BatchWriteItem`).
const MAX_WRITES: usize = 25;

/// The most keys of one batch (DynamoDB API: `BatchGetItem`).
const MAX_KEYS: usize = 100;

/// One write of a batch.
struct BatchWrite<'a> {
    table: &'a str,
    /// `PutRequest` or `DeleteRequest`.
    form: &'static str,
    request: Members,
}

/// What a batch of reads comes to.
struct Reads {
    /// Each with the generation of the collections that it reads.
    requests: Vec<(u64, Members)>,
    /// What they stand on.
    leases: Vec<Lease>,
    /// Whether each key is one of a collection that is known.
    is_understood: bool,
    /// The keys whose items cannot be read for now, as `UnprocessedKeys`.
    left: Members,
    why_left: Option<Refusal>,
}

/// For how long what keeps an item from being moved is tried again before its key is left.
const SETTLING: Duration = Duration::from_secs(2);

/// `BatchWriteItem`. Writes of managed tables are sent one by one, since a batch can carry no condition.
pub(crate) async fn write(
    upstream: &Upstream,
    call: &Call,
    mut body: Members,
) -> Result<Answer, Refusal> {
    let Some(Value::Object(tables)) = body.get("RequestItems").cloned() else {
        return upstream.pass(call).await;
    };
    let managed = upstream.managed(tables.keys().map(String::as_str))?;
    if managed.is_empty() {
        return upstream.pass(call).await;
    }
    parameters::check("BatchWriteItem", &body)?;
    let lengths = || tables.values().filter_map(Value::as_array).map(Vec::len);
    // DynamoDB refuses such a batch as a whole. Were it passed on, one that takes more would carry it out without a guard.
    if lengths().sum::<usize>() > MAX_WRITES || lengths().any(|writes| writes == 0) {
        return Err(Refusal::validation(format!(
            "1 validation error detected: Value at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: \
             [Member must have length less than or equal to {MAX_WRITES}, Member must have length greater than or equal to 1]"
        )));
    }
    let mut singles = Vec::new();
    for name in &managed {
        let Some(table) = upstream.table(name)? else { continue };
        singles.extend(writes(table, name, &tables[*name])?);
    }
    let rest = tables.iter().filter(|(name, _)| !managed.contains(name.as_str()));
    let rest = rest.map(|(name, writes)| (name.clone(), writes.clone())).collect::<Members>();
    let options = body.clone();
    // They come first: what DynamoDB refuses about them it refuses before it has written anything.
    let (mut others, mut left) = (None, Members::new());
    if !rest.is_empty() {
        body.insert("RequestItems".to_owned(), rest.clone().into());
        let answer = sent(upstream, "BatchWriteItem", body).await;
        if answer.is_passing() {
            left = rest;
        } else if !answer.is_success() {
            return Ok(answer);
        }
        others = Some(answer);
    }
    let written = join_all(
        singles.iter().map(|write| write_of_batch(upstream, write, (&options, singles.len()))),
    )
    .await;
    Ok(merged((others, left), singles, written))
}

/// The answer to a request, and what the client is told where there was none.
async fn sent(upstream: &Upstream, operation: &str, body: Members) -> Answer {
    let body = written(&body);
    let answer = upstream.exchange(operation, body, None).await;
    answer.map_or_else(|error| refused(&error).answer(), Answer::from)
}

async fn write_of_batch(
    upstream: &Upstream,
    write: &BatchWrite<'_>,
    (options, writes): (&Members, usize),
) -> Result<Answer, Refusal> {
    let Some(table) = upstream.table(write.table)? else {
        return Err(Refusal::internal("dynashard: a table of the batch is unknown"));
    };
    let mut body = write.request.clone();
    body.insert("TableName".to_owned(), write.table.into());
    for name in ["ReturnConsumedCapacity", "ReturnItemCollectionMetrics"] {
        if let Some(option) = options.get(name) {
            body.insert(name.to_owned(), option.clone());
        }
    }
    let operation = if write.form == "PutRequest" { "PutItem" } else { "DeleteItem" };
    items::write(upstream, table, operation, body, writes).await
}

/// `BatchGetItem`. Keys of managed tables are read by one request for each generation of their collections, which mostly
/// is one.
pub(crate) async fn get(
    upstream: &Upstream,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(Value::Object(tables)) = body.get("RequestItems") else {
        return upstream.pass(call).await;
    };
    let managed = upstream.managed(tables.keys().map(String::as_str))?;
    let mut found = Vec::new();
    for name in managed {
        found.extend(upstream.table(name)?.map(|table| (name, table)));
    }
    let Some((_, first)) = found.first() else { return upstream.pass(call).await };
    parameters::check("BatchGetItem", &body)?;
    check_keys(tables, &found)?;
    let now = first.requests().now();
    // As long as a write of a batch that has to move its item first.
    let deadline = long_deadline(first).if_throttled(Deadline::after(now, SETTLING));
    let (body, found) = (&body, &found);
    attempts(first, deadline, || async move {
        let mut joined: Option<(Answer, Members)> = None;
        let (mut failed, mut is_any_read) = (None, false);
        let reads = batch_gets(body, found, deadline).await?;
        let Reads { requests, leases, is_understood, left, why_left } = reads;
        let asked = requests.clone();
        let keys = requests.iter().map(|(_, request)| number_of_keys(request)).sum();
        let patience = deadline.remaining(first.requests().now());
        let _room = upstream.page_room().for_items(keys, patience).await?;
        for (generation, request) in requests {
            let keys = request.get("RequestItems").cloned().unwrap_or_default();
            let mut answer = sent(upstream, "BatchGetItem", request).await;
            if is_understood && answer.is_passing() {
                let left = Members::from_iter([("UnprocessedKeys".to_owned(), keys.clone())]);
                let left = Answer::own(200, String::new()).with_body(&left);
                failed = Some(std::mem::replace(&mut answer, left));
            } else {
                is_any_read = true;
            }
            if !answer.is_success() {
                return Ok(Attempt::Answered(answer));
            }
            if !is_understood {
                return Err(Refusal::internal(
                    "dynashard: a key of the request was not understood",
                ));
            }
            let members = understood(&answer)?;
            upstream.page_room().learn_of_answer(&answer.body, number_of_items(&members));
            let Some(members) = shown_items(body, found, (members, &keys), generation) else {
                return Ok(Attempt::Again);
            };
            match &mut joined {
                None => joined = Some((answer, members)),
                Some((_, into)) => join_reads(into, members),
            }
        }
        // Nothing was read at all, which a batch tells by the exception.
        if let Some(failed) = failed.filter(|_| !is_any_read) {
            note_batch(body, found, Err(&failed)).await;
            return Ok(Attempt::Answered(failed));
        }
        if let Some((why, (_, into))) = why_left.as_ref().zip(joined.as_mut()) {
            tracing::debug!(why = ?why, "keys of a batch are left");
            join_reads(into, Members::from_iter([("UnprocessedKeys".to_owned(), left.into())]));
        }
        let now = first.requests().now();
        // What comes late counts if nothing has changed (protocol: "Lease").
        let holds = leases.iter().all(|lease| lease.is_live(now))
            || batch_gets(body, found, deadline).await?.requests == asked;
        match joined {
            Some((answer, members)) if holds => {
                note_batch(body, found, Ok(&members)).await;
                Ok(Attempt::Answered(answer.with_body(&members)))
            }
            Some(_) => Ok(Attempt::Again),
            None => {
                Err(why_left.unwrap_or_else(|| Refusal::internal("dynashard: nothing was sent")))
            }
        }
    })
    .await
}

/// Refuses keys of managed tables that are not as many as DynamoDB takes, or no list.
fn check_keys(tables: &Members, found: &[(&str, &ManagedTable)]) -> Result<(), Refusal> {
    let keys = |name: &str| tables.get(name).and_then(|request| request.get("Keys"));
    for (name, _) in found {
        let length = match keys(name).filter(|keys| !keys.is_null()) {
            Some(Value::Array(keys)) => keys.len(),
            Some(_) => return Err(Refusal::serialization("the keys of a table are no list")),
            None => 0,
        };
        if length == 0 {
            return Err(refused_keys(name, "greater than or equal to 1"));
        }
    }
    let length = |name: &str| keys(name).and_then(Value::as_array).map_or(0, Vec::len);
    // Were they passed on, a DynamoDB that takes more would show them as they lie there.
    if tables.keys().map(|name| length(name)).sum::<usize>() > MAX_KEYS {
        let most = tables.keys().max_by_key(|name| length(name));
        let limit = format!("less than or equal to {MAX_KEYS}");
        return Err(refused_keys(most.map_or("", String::as_str), &limit));
    }
    Ok(())
}

fn refused_keys(table: &str, limit: &str) -> Refusal {
    Refusal::validation(format!(
        "1 validation error detected: Value at 'RequestItems.{table}.member.Keys' failed to satisfy constraint: Member must have \
         length {limit}"
    ))
}

/// The requests that read what this one asks for.
async fn batch_gets(
    body: &Members,
    found: &[(&str, &ManagedTable)],
    deadline: Deadline,
) -> Result<Reads, Refusal> {
    let (mut leases, mut is_understood) = (Vec::new(), true);
    let mut by_generation = BTreeMap::<u64, Members>::new();
    let (mut left, mut why_left) = (Members::new(), None);
    let tables = tables_of(body);
    let keys = found.iter().flat_map(|(name, table)| {
        let keys = tables.and_then(|tables| tables.get(*name)?.get("Keys")?.as_array());
        keys.into_iter().flatten().map(|key| (*table, key.as_object()))
    });
    // In the order in which they stand in the request: both go by the names of the tables.
    let mut terms = terms_of_each_key(keys.collect(), Among::Reads, deadline).await.into_iter();
    for (name, request) in tables.into_iter().flatten() {
        let table = found.iter().find(|(managed, _)| managed == name).map(|(_, table)| *table);
        let Some(table) = table else {
            by_generation.entry(0).or_default().insert(name.clone(), request.clone());
            continue;
        };
        let mut request = without_nulls(request.as_object().cloned().unwrap_or_default());
        parameters::check("KeysAndAttributes", &request)?;
        showing_own(&mut request)?;
        let keys = request.remove("Keys");
        for key in keys.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let mut key = key.clone();
            let (mut generation, mut is_moving) = (0, false);
            let terms = match terms.next().unwrap_or(Ok(None)) {
                Ok(terms) => terms,
                Err(Untold { refusal, is_passing: true }) => {
                    leave(&mut left, name, tables, key);
                    why_left = Some(refusal);
                    continue;
                }
                Err(untold) => return Err(untold.refusal),
            };
            is_understood &= terms.is_some();
            if let Some(((_, terms), key)) = terms.zip(key.as_object_mut()) {
                table.put_at(key, &terms);
                (generation, is_moving) = (terms.generation.get(), terms.is_moving);
                leases.push(terms.lease);
            }
            let of_generation = by_generation.entry(generation).or_default();
            let entry = of_generation.entry(name.clone()).or_insert_with(|| {
                let mut entry = request.clone();
                entry.insert("Keys".to_owned(), json!([]));
                entry.into()
            });
            if let Some(entry) = entry.as_object_mut().filter(|_| is_moving) {
                read_strongly(entry)?;
            }
            if let Some(keys) = entry.get_mut("Keys").and_then(Value::as_array_mut) {
                keys.push(key);
            }
        }
    }
    let with = |tables: Members| {
        let mut body = body.clone();
        body.insert("RequestItems".to_owned(), tables.into());
        body
    };
    let requests = by_generation.into_iter().map(|(at, tables)| (at, with(tables))).collect();
    Ok(Reads { requests, leases, is_understood, left, why_left })
}

/// Has a client ask again for a key of a table, as it has asked.
fn leave(left: &mut Members, name: &str, tables: Option<&Members>, key: Value) {
    let entry = left.entry(name).or_insert_with(|| {
        let asked = tables.and_then(|tables| tables.get(name)?.as_object());
        let mut again = asked.cloned().unwrap_or_default();
        again.insert("Keys".to_owned(), json!([]));
        again.into()
    });
    if let Some(keys) = entry.get_mut("Keys").and_then(Value::as_array_mut) {
        keys.push(key);
    }
}

/// How many keys a batch of reads asks for.
fn number_of_keys(body: &Members) -> usize {
    let tables = tables_of(body).into_iter().flatten();
    tables.filter_map(|(_, of_table)| of_table["Keys"].as_array()).map(Vec::len).sum()
}

/// How many items it was answered.
fn number_of_items(answer: &Members) -> usize {
    let tables = answer.get("Responses").and_then(Value::as_object).into_iter().flatten();
    tables.filter_map(|(_, items)| items.as_array()).map(Vec::len).sum()
}

fn tables_of(body: &Members) -> Option<&Members> {
    body.get("RequestItems").and_then(Value::as_object)
}

/// These members of an answer to this batch, which was asked for these keys, without what is ours, or `None` where an item is of a
/// later generation than this, or has moved since from where it was read.
fn shown_items(
    body: &Members,
    found: &[(&str, &ManagedTable)],
    (mut members, keys): (Members, &Value),
    generation: u64,
) -> Option<Members> {
    for (name, table) in found {
        let items = members.get_mut("Responses").and_then(|all| all.get_mut(*name));
        let (mut behind, mut has_moved) = (None, false);
        if let Some(items) = items.and_then(Value::as_array_mut) {
            items.retain_mut(|item| {
                let Some(item) = item.as_object_mut() else { return true };
                let shown = table.shown(item);
                // No marker of this generation lies where its item is to be read, but where that could not be moved before.
                has_moved |= shown.is_marker && generation > 0 && shown.generation == generation;
                if shown.generation > generation {
                    behind = Some(table.partition_of(item).ok().flatten());
                }
                !shown.is_marker
            });
        }
        if let Some(partition) = behind {
            // A projection need not show whose item it is.
            let asked = keys[*name]["Keys"].as_array().into_iter().flatten();
            let asked = asked.filter_map(|key| {
                let mut key = key.as_object()?.clone();
                table.name_logically(&mut key);
                table.partition_of(&key).ok().flatten()
            });
            match partition {
                Some(partition) => table.requests().forget(&partition),
                None => asked.for_each(|partition| table.requests().forget(&partition)),
            }
            return None;
        }
        if has_moved {
            return None;
        }
        let left = members.get_mut("UnprocessedKeys").and_then(|all| all.get_mut(*name));
        let Some(Value::Object(left)) = left else { continue };
        for key in left.get_mut("Keys").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(key) = key.as_object_mut() {
                table.name_logically(key);
            }
        }
        // The client is to repeat what it has asked for, not what was put beside it.
        let asked = body.get("RequestItems").and_then(|all| all.get(*name)?.as_object());
        let mut again = asked.cloned().unwrap_or_default();
        again.extend(left.remove("Keys").map(|keys| ("Keys".to_owned(), keys)));
        *left = again;
    }
    Some(members)
}

/// The writes of a managed table, each of which DynamoDB would take by itself.
fn writes<'a>(
    table: &ManagedTable,
    name: &'a str,
    writes: &Value,
) -> Result<Vec<BatchWrite<'a>>, Refusal> {
    let mut keys = HashSet::new();
    let mut singles = Vec::new();
    let writes = writes.as_array();
    let writes =
        writes.ok_or_else(|| Refusal::serialization("the writes of a table are no list"))?;
    for write in writes {
        let given =
            write.as_object().into_iter().flatten().filter(|(_, request)| !request.is_null());
        let given = given.collect::<Vec<_>>();
        let [(form, Value::Object(request))] = given.as_slice() else {
            return Err(Refusal::validation(
                "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported \
                 datatypes",
            ));
        };
        let (form, image) = match form.as_str() {
            "PutRequest" => ("PutRequest", "Item"),
            "DeleteRequest" => ("DeleteRequest", "Key"),
            _ => return Err(Refusal::serialization("a write is neither a put nor a delete")),
        };
        let request = without_nulls(request.clone());
        parameters::check(form, &request)?;
        let nothing = Members::new();
        let item = request.get(image).and_then(Value::as_object).unwrap_or(&nothing);
        let is_key = form == "DeleteRequest";
        value::check(table, item, is_key)?;
        check_own_names(item)?;
        if !is_key {
            value::check_movable(item)?;
        }
        // A number may be written in many ways. An item without a key DynamoDB refuses itself.
        if table.key_of(item)?.is_some_and(|key| !keys.insert(key)) {
            return Err(Refusal::validation("Provided list of item keys contains duplicates"));
        }
        singles.push(BatchWrite { table: name, form, request });
    }
    Ok(singles)
}

/// One answer of the batch of the other tables, with what is left of it if it failed, and of single writes.
fn merged(
    (others, left): (Option<Answer>, Members),
    singles: Vec<BatchWrite<'_>>,
    written: Vec<Result<Answer, Refusal>>,
) -> Answer {
    let is_any_written = others.as_ref().is_some_and(Answer::is_success);
    let members = others.as_ref().filter(|_| is_any_written).map(Answer::members);
    let mut members = members.unwrap_or_default();
    let mut unprocessed = members.remove("UnprocessedItems").unwrap_or_else(|| json!({}));
    merge(&mut unprocessed, left.into());
    let mut unprocessed_writes = 0;
    let all = singles.len();
    let mut last = None;
    for (write, answer) in singles.into_iter().zip(written) {
        let answer = answer.unwrap_or_else(|refusal| refusal.answer());
        if answer.is_success() {
            let mut single = answer.members();
            if let Some(capacity) = single.remove("ConsumedCapacity") {
                add_capacity(&mut members, capacity);
            }
            if let Some(metrics) = single.remove("ItemCollectionMetrics") {
                let by_table = members.entry("ItemCollectionMetrics").or_insert_with(|| json!({}));
                // One of each collection.
                let key = &metrics["ItemCollectionKey"];
                let known = by_table[write.table].as_array().into_iter().flatten();
                if !known.map(|known| &known["ItemCollectionKey"]).any(|known| known == key) {
                    merge(by_table, json!({ write.table: [metrics] }));
                }
            }
        } else if answer.is_passing() {
            unprocessed_writes += 1;
            merge(&mut unprocessed, json!({ write.table: [{ write.form: write.request }] }));
        } else {
            // As a batch is refused for one of its writes.
            return answer;
        }
        last = Some(answer);
    }
    // Nothing was done at all, which a batch tells by the exception.
    if unprocessed_writes == all
        && !is_any_written
        && let Some(failed) = others.as_ref().or(last.as_ref())
    {
        return failed.clone();
    }
    members.insert("UnprocessedItems".to_owned(), unprocessed);
    let answer = others
        .filter(Answer::is_success)
        .or(last)
        .unwrap_or_else(|| Answer::own(200, String::new()));
    Answer { status: 200, ..answer }.with_body(&members)
}

/// Joins what two requests of a batch of reads answered.
fn join_reads(into: &mut Members, more: Members) {
    for (name, mut more) in more {
        match (name.as_str(), &mut more) {
            ("ConsumedCapacity", Value::Array(all)) => {
                for of_table in std::mem::take(all) {
                    add_capacity(into, of_table);
                }
            }
            ("UnprocessedKeys", Value::Object(tables)) => {
                let left = into.entry(name).or_insert_with(|| json!({}));
                for (table, of_table) in tables {
                    // What is read of the keys is in both as the client has asked.
                    let known = left.get_mut(table).and_then(|known| known["Keys"].as_array_mut());
                    match (known, of_table["Keys"].as_array()) {
                        (Some(keys), Some(more)) => keys.extend(more.iter().cloned()),
                        _ => left[table.as_str()] = of_table.take(),
                    }
                }
            }
            _ => merge(into.entry(name).or_insert(Value::Null), more),
        }
    }
}

/// Adds what a part of a batch consumed to what the batch has of its table.
fn add_capacity(members: &mut Members, capacity: Value) {
    let all = members.entry("ConsumedCapacity").or_insert_with(|| json!([]));
    let Some(all) = all.as_array_mut() else { return };
    let table = capacity["TableName"].clone();
    match all.iter_mut().find(|of_table| of_table["TableName"] == table) {
        Some(of_table) => add_numbers(of_table, capacity),
        None => all.push(capacity),
    }
}

/// Adds numbers member by member.
fn add_numbers(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, more) in more {
                match into.get_mut(&name) {
                    Some(into) => add_numbers(into, more),
                    None => drop(into.insert(name, more)),
                }
            }
        }
        (into @ Value::Number(_), more @ Value::Number(_)) => {
            *into = json!(into.as_f64().unwrap_or_default() + more.as_f64().unwrap_or_default());
        }
        _ => {}
    }
}

/// Joins lists, and objects member by member.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, more) in more {
                match into.get_mut(&name) {
                    Some(into) => merge(into, more),
                    None => drop(into.insert(name, more)),
                }
            }
        }
        (Value::Array(into), Value::Array(more)) => into.extend(more),
        (into @ Value::Null, more) => *into = more,
        _ => {}
    }
}
