//! Requests on one item.

use std::future::Future;
use std::time::Duration;

use dynashard_aws_operator::RawError;
use dynashard_core::Deadline;
use dynashard_core::ports::NativeTerms;
use dynashard_keys::PartitionKey;
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::document::Members;
use crate::guard::{On, Verb, guarded, only_removes, showing_generation};
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, deadline, refused};

/// What an attempt came to.
pub(crate) enum Attempt {
    /// The client is answered so.
    Answered(Answer),
    /// What was known was out of date: the same again, by what is known then.
    Again,
}

const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Makes attempts until one is answered.
pub(crate) async fn attempts<F>(
    table: &ManagedTable,
    deadline: Deadline,
    mut attempt: impl FnMut() -> F,
) -> Result<Answer, Refusal>
where
    F: Future<Output = Result<Attempt, Refusal>>,
{
    // The first is made at once: what was known a moment ago is read anew.
    let mut pause = Duration::ZERO;
    loop {
        if let Attempt::Answered(answer) = attempt().await? {
            return Ok(answer);
        }
        table.requests().wait(pause).await;
        pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        if deadline.remaining(table.requests().now()).is_zero() {
            let why = "dynashard: what is known of the table was out of date until the time was over; ask again";
            return Err(Refusal::unavailable(why));
        }
    }
}

/// `PutItem`, `UpdateItem`, `DeleteItem`.
pub(crate) async fn write(
    upstream: &Upstream,
    table: &ManagedTable,
    operation: &str,
    body: Members,
) -> Result<Answer, Refusal> {
    let verb = match operation {
        "PutItem" => Verb::Put,
        "UpdateItem" => Verb::Update,
        _ => Verb::Delete,
    };
    let partition = partition_of(table, &body, verb.image())?;
    let deadline = deadline(table);
    let (partition, body) = (&partition, &body);
    attempts(table, deadline, || async move {
        let terms = terms_of(table, partition.as_ref(), deadline).await?;
        let known = partition.as_ref().zip(terms.as_ref());
        // What only removes makes no item, which a version would. So where there is none it is sent again, without one.
        let ways: &[On] = if verb == Verb::Update && only_removes(body) {
            &[On::AnItem, On::Nothing]
        } else {
            &[On::Anything]
        };
        for (at, on) in ways.iter().enumerate() {
            let version = table.requests().draw_version().get();
            let guarded = guarded(verb, body.clone(), table, terms.as_ref(), (*on, version))?;
            let sent = Value::Object(guarded.body).to_string().into_bytes();
            let lease = terms.as_ref().map(|terms| terms.lease);
            let answer = match upstream.exchange(operation, sent, lease).await {
                Ok(answer) => Answer::from(answer),
                Err(RawError::LeaseExpired) => return Ok(Attempt::Again),
                Err(error) => return Err(refused(&error)),
            };
            let is_refused = known.is_some() && answer.is_error(CONDITION_FAILED);
            let found = is_refused.then(|| answer.members().contains_key("Item"));
            match (on, found) {
                (On::AnItem, Some(false)) if at + 1 < ways.len() => {}
                // Somebody has put one meanwhile.
                (On::Nothing, Some(true)) => return Ok(Attempt::Again),
                _ => return written(table, known, answer, guarded.asked_for_old),
            }
        }
        Ok(Attempt::Again)
    })
    .await
}

/// `GetItem`
pub(crate) async fn get(
    upstream: &Upstream,
    table: &ManagedTable,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let partition = partition_of(table, &body, "Key")?;
    let deadline = deadline(table);
    let (partition, body) = (&partition, &body);
    attempts(table, deadline, || async move {
        let mut body = body.clone();
        let terms = terms_of(table, partition.as_ref(), deadline).await?;
        let key = body.get_mut("Key").and_then(Value::as_object_mut);
        if let (Some(key), Some(terms)) = (key, &terms) {
            table.put_at(key, terms);
        }
        showing_generation(&mut body)?;
        let sent = Value::Object(body).to_string().into_bytes();
        let answer = upstream.exchange("GetItem", sent, None).await.map(Answer::from);
        let answer = answer.map_err(|error| refused(&error))?;
        match partition.as_ref().zip(terms.as_ref()) {
            Some(known) if answer.is_success() => Ok(read(table, known, answer)),
            _ => own_words(upstream, call, answer).await.map(Attempt::Answered),
        }
    })
    .await
}

/// The answer to a read. What DynamoDB calls invalid it is asked again as the client has put it, so that it speaks of nothing else.
pub(crate) async fn own_words(
    upstream: &Upstream,
    call: &Call,
    answer: Answer,
) -> Result<Answer, Refusal> {
    if !answer.is_error("ValidationException") {
        return Ok(answer);
    }
    let own = upstream.pass(call).await?;
    if own.is_success() {
        return Err(Refusal::internal(format!(
            "dynashard: the request was not understood: {}",
            answer.members().get("message").and_then(Value::as_str).unwrap_or_default()
        )));
    }
    Ok(own)
}

/// What a request carries on the collection of a key that DynamoDB takes.
pub(crate) async fn terms_of(
    table: &ManagedTable,
    partition: Option<&PartitionKey>,
    deadline: Deadline,
) -> Result<Option<NativeTerms>, Refusal> {
    match partition {
        Some(partition) => table.terms(partition, deadline).await.map(Some),
        None => Ok(None),
    }
}

/// The collection of a request on one item.
pub(crate) fn partition_of(
    table: &ManagedTable,
    body: &Members,
    image: &str,
) -> Result<Option<PartitionKey>, Refusal> {
    body.get(image).and_then(Value::as_object).map_or(Ok(None), |item| table.partition_of(item))
}

/// What the answer to a write means.
fn written(
    table: &ManagedTable,
    known: Option<(&PartitionKey, &NativeTerms)>,
    answer: Answer,
    asked_for_old: bool,
) -> Result<Attempt, Refusal> {
    if answer.is_success() {
        return Ok(Attempt::Answered(shown_in(table, answer)));
    }
    if !answer.is_error(CONDITION_FAILED) {
        return Ok(Attempt::Answered(answer));
    }
    let Some((partition, terms)) = known else {
        // The guard that never holds was judged, so DynamoDB takes a key that was not understood here.
        return Err(Refusal::internal("dynashard: the key of the request was not understood"));
    };
    let mut members = answer.members();
    if let Some(Value::Object(mut found)) = members.remove("Item") {
        let shown = table.shown(&mut found);
        if shown.generation > terms.generation.get() {
            table.requests().forget(partition);
            return Ok(Attempt::Again);
        }
        if asked_for_old {
            members.insert("Item".to_owned(), found.into());
        }
    }
    Ok(Attempt::Answered(answer.with_body(members)))
}

/// The answer to a write without what is ours.
fn shown_in(table: &ManagedTable, answer: Answer) -> Answer {
    let mut members = answer.members();
    if !members.contains_key("Attributes") && !members.contains_key("ItemCollectionMetrics") {
        return answer;
    }
    if let Some(Value::Object(mut attributes)) = members.remove("Attributes") {
        table.shown(&mut attributes);
        if !attributes.is_empty() {
            members.insert("Attributes".to_owned(), attributes.into());
        }
    }
    let metrics = members.get_mut("ItemCollectionMetrics");
    let key = metrics.and_then(|metrics| metrics.get_mut("ItemCollectionKey"));
    if let Some(key) = key.and_then(Value::as_object_mut) {
        table.name_logically(key);
    }
    answer.with_body(members)
}

/// What the answer to a read means.
fn read(
    table: &ManagedTable,
    (partition, terms): (&PartitionKey, &NativeTerms),
    answer: Answer,
) -> Attempt {
    if !terms.lease.is_live(table.requests().now()) {
        return Attempt::Again;
    }
    let mut members = answer.members();
    let Some(item) = members.get_mut("Item").and_then(Value::as_object_mut) else {
        return Attempt::Answered(answer);
    };
    if table.shown(item).generation > terms.generation.get() {
        table.requests().forget(partition);
        return Attempt::Again;
    }
    Attempt::Answered(answer.with_body(members))
}
