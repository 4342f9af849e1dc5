//! Requests on one item.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    NativeGot, NativeGuard, NativeKind, NativeRead, NativeSent, NativeTerms, NativeWrite, Required,
    StoreError,
};
use dynashard_core::{Code, Deadline, Error};
use dynashard_expression::uses;
use dynashard_keys::ItemKey;
use parking_lot::Mutex;
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::document::{Members, written};
use crate::guard::{Guarded, On, Verb, guarded, only_removes, read_strongly, showing_own};
use crate::outcome::{Outcome, ask_for_units, take_units, unanswered_read, unanswered_write};
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, read_deadline, refused, understood};
use crate::value::units_of_write;

/// What an attempt came to.
pub(crate) enum Attempt {
    /// The client is answered so.
    Answered(Answer),
    /// What was known was out of date: the same again, by what is known then.
    Again,
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
        table.requests().pause(pause).await;
        pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        if deadline.remaining(table.requests().now()).is_zero() {
            let why = "dynashard: what is known of the table was out of date until the time was over; ask again";
            return Err(Refusal::unavailable(why));
        }
    }
}

/// `PutItem`, `UpdateItem`, `DeleteItem`, or one of so many writes of a batch.
pub(crate) async fn write(
    upstream: &Upstream,
    table: &ManagedTable,
    operation: &str,
    body: Members,
    writes_of_request: usize,
) -> Result<Answer, Refusal> {
    let verb = match operation {
        "PutItem" => Verb::Put,
        "UpdateItem" => Verb::Update,
        _ => Verb::Delete,
    };
    let key = key_of(table, &body, verb.image())?;
    let only_removes = verb == Verb::Update && only_removes(&body);
    let last = Mutex::default();
    let write =
        ItemWrite { upstream, table, operation, verb, only_removes, body, writes_of_request, last };
    let Some(key) = key else { return write.in_own_words().await };
    let deadline = upstream.write_deadline(table);
    match table.requests().write(&key, &write, units_of_write(&write.body), deadline).await {
        Ok(answer) => answer,
        Err(error) => write.last_answer(&error),
    }
}

/// `GetItem`
pub(crate) async fn get(
    upstream: &Upstream,
    table: &ManagedTable,
    call: &Call,
    body: Members,
) -> Result<Answer, Refusal> {
    let Some(key) = key_of(table, &body, "Key")? else {
        return own_words(upstream, call, upstream.pass(call).await?).await;
    };
    let last = Mutex::default();
    let read = ItemRead { upstream, table, body, last };
    match table.requests().get(&key, &read, read_deadline(table)).await {
        Ok(NativeGot::Read { answer, existing, .. }) if existing.is_none() => {
            let answer = answer?;
            let mut members = answer.members();
            members.remove("Item");
            Ok(answer.with_body(&members))
        }
        Ok(NativeGot::Read { answer, .. }) => answer,
        Ok(NativeGot::Invalid(answer)) => own_words(upstream, call, answer?).await,
        Err(error) => read.last.into_inner().map_or_else(|| Err(Refusal::of(&error)), Ok),
    }
}

/// The answer to a read. What DynamoDB calls invalid it is asked again as the client has put it, so that it speaks of nothing else.
pub(crate) async fn own_words(
    upstream: &Upstream,
    call: &Call,
    answer: Answer,
) -> Result<Answer, Refusal> {
    let own = match answer {
        answer if answer.is_success() => answer,
        answer if answer.is_error("ValidationException") => upstream.pass(call).await?,
        answer => return Ok(answer),
    };
    if own.is_success() {
        return Err(Refusal::internal("dynashard: the request was not understood"));
    }
    Ok(own)
}

/// The key of a request on one item, `None` where DynamoDB says what is wrong with it.
fn key_of(table: &ManagedTable, body: &Members, image: &str) -> Result<Option<ItemKey>, Refusal> {
    body.get(image).and_then(Value::as_object).map_or(Ok(None), |item| table.key_of(item))
}

/// A write of one item.
struct ItemWrite<'a> {
    upstream: &'a Upstream,
    table: &'a ManagedTable,
    operation: &'a str,
    verb: Verb,
    /// Whether it is an update that makes no item where none is.
    only_removes: bool,
    body: Members,
    writes_of_request: usize,
    /// How DynamoDB has refused it last, for what may pass.
    last: Mutex<Option<Answer>>,
}

impl ItemWrite<'_> {
    /// Has DynamoDB say what is wrong with it. It never happens.
    async fn in_own_words(&self) -> Result<Answer, Refusal> {
        let guarded = guarded(self.verb, self.body.clone(), self.table, None, (On::Anything, 0))?;
        let answer = self.exchange(self.operation, guarded.body, None).await;
        let answer = answer.map_err(|error| refused(&error))?;
        if answer.is_error("ConditionalCheckFailedException") || answer.is_success() {
            // The guard that never holds was judged, so DynamoDB takes a key that was not understood here.
            let why = "dynashard: the key of the request was not understood";
            return Err(Refusal::internal(why));
        }
        Ok(answer)
    }

    /// What is left of an update of nothing: its condition.
    fn without_update(&self) -> Members {
        let mut body = self.body.clone();
        for name in ["AttributeUpdates", "UpdateExpression", "ReturnValues"] {
            body.remove(name);
        }
        let condition = body.get("ConditionExpression").and_then(Value::as_str);
        let condition = condition.unwrap_or_default().to_owned();
        for name in ["ExpressionAttributeNames", "ExpressionAttributeValues"] {
            let Some(Value::Object(placeholders)) = body.get_mut(name) else { continue };
            placeholders.retain(|placeholder, _| uses(&condition, placeholder));
            if placeholders.is_empty() {
                body.remove(name);
            }
        }
        body
    }

    async fn exchange(
        &self,
        operation: &str,
        body: Members,
        terms: Option<&NativeTerms>,
    ) -> Result<Answer, dynashard_aws_operator::RawError> {
        let sent = written(&body);
        let lease = terms.map(|terms| terms.lease);
        self.upstream.exchange(operation, sent, lease).await.map(Answer::from)
    }

    /// What the client is told of a write that the core has given up: what DynamoDB has refused it with, where that may pass.
    fn last_answer(self, error: &Error) -> Result<Answer, Refusal> {
        let may_pass = matches!(error.code(), Code::Throttled | Code::Contended);
        let last = self.last.into_inner().filter(|_| may_pass);
        last.map_or_else(|| Err(Refusal::of(error)), Ok)
    }

    /// What a refused condition tells the client, and the core.
    fn refused(&self, answer: Answer, asked_for_old: bool) -> NativeSent<Result<Answer, Refusal>> {
        let mut members = answer.members();
        let mut existing = None;
        if let Some(Value::Object(mut found)) = members.remove("Item") {
            existing = Some(self.table.existing(&mut found));
            if asked_for_old {
                members.insert("Item".to_owned(), found.into());
            }
        }
        NativeSent::Refused { answer: Ok(answer.with_body(&members)), existing }
    }

    /// What a write that was carried out tells the client, and the core.
    fn done(&self, answer: Answer, asked_for_units: bool) -> NativeSent<Result<Answer, Refusal>> {
        let mut members = answer.members();
        let consumed_wcu = take_units(&mut members, asked_for_units);
        if let Some(Value::Object(mut attributes)) = members.remove("Attributes") {
            let is_marker = self.table.shown(&mut attributes).is_marker;
            if !attributes.is_empty() && !is_marker {
                members.insert("Attributes".to_owned(), attributes.into());
            }
        }
        let metrics = members.get_mut("ItemCollectionMetrics");
        let key = metrics.and_then(|metrics| metrics.get_mut("ItemCollectionKey"));
        if let Some(key) = key.and_then(Value::as_object_mut) {
            self.table.name_logically(key);
        }
        NativeSent::Done { answer: Ok(answer.with_body(&members)), consumed_wcu }
    }
}

#[async_trait]
impl NativeWrite for ItemWrite<'_> {
    type Answer = Result<Answer, Refusal>;

    fn kind(&self) -> NativeKind {
        let is = |name: &str| self.body.get(name).is_some_and(|value| value != "NONE");
        let depends = is("ConditionExpression") || is("Expected") || is("ReturnValues");
        match self.verb {
            Verb::Delete => NativeKind::Delete,
            Verb::Put if !depends => NativeKind::Replace,
            _ => NativeKind::Depend,
        }
    }

    fn writes_of_request(&self) -> usize {
        self.writes_of_request
    }

    /// Whether an attribute by which items expire is named at all: of an update that errs on the safe side.
    fn may_expire(&self, ttl_attributes: &BTreeSet<String>) -> bool {
        match self.body.get("Item").and_then(Value::as_object) {
            Some(item) => ttl_attributes.iter().any(|name| item.contains_key(name)),
            None if self.verb == Verb::Update && !ttl_attributes.is_empty() => {
                let text = Value::Object(self.body.clone()).to_string();
                ttl_attributes.iter().any(|name| text.contains(name.as_str()))
            }
            None => false,
        }
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        guard: NativeGuard,
    ) -> Result<NativeSent<Self::Answer>, StoreError> {
        // What only removes makes no item, which a version would. So where there is none it is sent again, without one.
        let ways = match (self.only_removes, guard.required) {
            (true, Required::Anything) => vec![On::AnItem, On::Nothing],
            (true, Required::NoMarker) => vec![On::Live, On::Nothing],
            (_, required) => vec![on(required)],
        };
        let mut ways = ways.into_iter().peekable();
        loop {
            let Some(way) = ways.next() else { return Err(StoreError::Conflict) };
            // Whatever DynamoDB makes of an update of nothing, it must make no item without a generation.
            let is_of_nothing = way == On::Nothing && guard.required != Required::Anything;
            let (verb, operation, body) = if self.only_removes && is_of_nothing {
                (Verb::Delete, "DeleteItem", self.without_update())
            } else {
                (self.verb, self.operation, self.body.clone())
            };
            let with = (way, guard.version.get());
            let guarded = guarded(verb, body, self.table, Some(terms), with);
            let Guarded { mut body, asked_for_old } = match guarded {
                Ok(guarded) => guarded,
                Err(refusal) => return Ok(NativeSent::Invalid(Err(refusal))),
            };
            let asked_for_units = ask_for_units(&mut body);
            let answer = self.exchange(operation, body, Some(terms)).await;
            let answer = answer.map_err(unanswered_write)?;
            match Outcome::of(answer) {
                Outcome::Done(answer) => return Ok(self.done(answer, asked_for_units)),
                Outcome::Passed(answer) => return Ok(NativeSent::Invalid(Ok(answer))),
                Outcome::Again(error, answer) => {
                    *self.last.lock() = Some(answer);
                    return Err(error);
                }
                Outcome::Refused(answer) => {
                    let sent = self.refused(answer, asked_for_old);
                    let NativeSent::Refused { existing, .. } = &sent else { return Ok(sent) };
                    match (way, existing) {
                        // Nothing is there: the other way.
                        (On::AnItem | On::Live, None) if ways.peek().is_some() => {}
                        // Somebody has put one meanwhile.
                        (On::Nothing, Some(_)) if self.only_removes => {
                            return Err(StoreError::Conflict);
                        }
                        _ => return Ok(sent),
                    }
                }
            }
        }
    }
}

/// What a write is meant for by what the core requires.
fn on(required: Required) -> On {
    match required {
        Required::Anything => On::Anything,
        Required::NoMarker => On::NoMarker,
        Required::Live => On::Live,
        Required::Version(version) => On::Version(version.get()),
        Required::Nothing => On::Nothing,
    }
}

/// A read of one item.
struct ItemRead<'a> {
    upstream: &'a Upstream,
    table: &'a ManagedTable,
    body: Members,
    /// How DynamoDB has refused it last, for what may pass.
    last: Mutex<Option<Answer>>,
}

#[async_trait]
impl NativeRead for ItemRead<'_> {
    type Answer = Result<Answer, Refusal>;

    fn is_strong(&self) -> bool {
        self.body.get("ConsistentRead").is_some_and(|strong| strong == true)
    }

    async fn send(
        &self,
        terms: &NativeTerms,
        strong: bool,
    ) -> Result<NativeGot<Self::Answer>, StoreError> {
        let mut body = self.body.clone();
        let key = body.get_mut("Key").and_then(Value::as_object_mut);
        if let Some(key) = key {
            self.table.put_at(key, terms);
        }
        if strong
            && !self.is_strong()
            && let Err(refusal) = read_strongly(&mut body)
        {
            return Ok(NativeGot::Invalid(Err(refusal)));
        }
        if let Err(refusal) = showing_own(&mut body) {
            return Ok(NativeGot::Invalid(Err(refusal)));
        }
        let asked_for_units = ask_for_units(&mut body);
        let sent = written(&body);
        let answer = self.upstream.exchange("GetItem", sent, None).await.map(Answer::from);
        match Outcome::of(answer.map_err(unanswered_read)?) {
            Outcome::Done(answer) => {
                let mut members = match understood(&answer) {
                    Ok(members) => members,
                    Err(refusal) => return Ok(NativeGot::Invalid(Err(refusal))),
                };
                let consumed_rcu = take_units(&mut members, asked_for_units);
                let item = members.get_mut("Item").and_then(Value::as_object_mut);
                let existing = item.map(|item| self.table.existing(item));
                let answer = Ok(answer.with_body(&members));
                Ok(NativeGot::Read { answer, existing, consumed_rcu })
            }
            Outcome::Again(error, answer) => {
                *self.last.lock() = Some(answer);
                Err(error)
            }
            Outcome::Refused(answer) | Outcome::Passed(answer) => {
                Ok(NativeGot::Invalid(Ok(answer)))
            }
        }
    }
}
