//! One operation with both answers, made comparable.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::side::{Answer, Setting};
use crate::table::GLOBAL_INDEX;

/// An operation and its two answers, after what DynamoDB leaves open is brought into one order.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// How the other side's table is kept.
    pub setting: Setting,
    /// Such as `PutItem`.
    pub operation: String,
    /// The request, as the plain side got it.
    pub request: Value,
    /// What the plain side answered.
    pub plain: Answer,
    /// What the other side answered.
    pub other: Answer,
}

impl Exchange {
    /// Sets have no order, nor have the items of a batch. Everything else has one while a collection has one shard.
    pub fn new(
        setting: Setting,
        operation: &str,
        request: Value,
        plain: Answer,
        other: Answer,
    ) -> Self {
        let [plain, other] = [plain, other].map(|mut answer| {
            sort_sets(&mut answer.body);
            drop_position(&mut answer.body);
            match operation {
                "BatchGetItem" => sort_responses(&mut answer.body),
                "TransactGetItems" => drop_bare_keys(&mut answer.body),
                _ => {}
            }
            answer
        });
        Self { setting, operation: operation.to_owned(), request, plain, other }
    }

    /// Whether both answers are the same, to the letter.
    pub fn agrees(&self) -> bool {
        self.plain == self.other
    }

    /// What kind of difference it is: differences of one kind most likely have one cause.
    pub fn kind(&self) -> String {
        let [plain, other] = [&self.plain, &self.other].map(|answer| {
            let message = answer.body.get("message").or_else(|| answer.body.get("Message"));
            let message = message.and_then(Value::as_str).unwrap_or_default();
            format!("{} {} {}", answer.status, answer.exception(), without_names(message))
        });
        let names = [&self.plain, &self.other].map(|answer| answer.body.as_object());
        let members = names.into_iter().flatten().flat_map(Map::keys);
        let differing =
            members.filter(|name| self.plain.body.get(*name) != self.other.body.get(*name));
        let differing = differing.map(String::as_str).collect::<BTreeSet<_>>();
        let differing = differing.into_iter().collect::<Vec<_>>().join(", ");
        let Self { operation, .. } = self;
        if plain == other {
            format!("{operation} {plain}in {differing}")
        } else {
            format!("{operation} {plain} | {other}")
        }
    }

    /// Whether one side may have written what the other has not, so that nothing behind it can be compared.
    pub fn parts(&self) -> bool {
        let writes = !self.operation.contains("Get")
            && self.operation != "Query"
            && self.operation != "Scan";
        let refused = [&self.plain, &self.other].map(|answer| answer.status >= 300);
        writes && (refused[0] != refused[1] || self.operation == "BatchWriteItem" && refused[0])
    }

    /// The name of the exception that the plain side or the other one answered with.
    pub(crate) fn exceptions(&self) -> [&str; 2] {
        [&self.plain, &self.other].map(Answer::exception)
    }
}

impl Answer {
    /// The name of the exception, without what stands before its `#`; nothing in a success.
    pub fn exception(&self) -> &str {
        let full = self.body.get("__type").and_then(Value::as_str).unwrap_or_default();
        full.rsplit('#').next().unwrap_or_default()
    }
}

/// Whether it asks for a page of the whole table, or of an index by another key than the table's.
pub(crate) fn is_of_all_keys(operation: &str, request: &Value) -> bool {
    operation == "Scan" || operation == "Query" && request["IndexName"] == GLOBAL_INDEX
}

/// A message without what it quotes, lists or counts.
fn without_names(message: &str) -> String {
    let mut closing = None;
    let mut kept = String::new();
    for sign in message.chars() {
        match (closing, sign) {
            (Some(end), _) if sign == end => closing = None,
            (Some(_), _) | (None, '0'..='9') => {}
            (None, '{') => closing = Some('}'),
            (None, '[') => closing = Some(']'),
            (None, '"' | '\'') => closing = Some(sign),
            (None, _) => kept.push(sign),
        }
    }
    kept.chars().take(140).collect()
}

/// Takes away where in the text the engine's reader of JSON was, which DynamoDB does not say.
fn drop_position(body: &mut Value) {
    for member in ["message", "Message"] {
        if let Some(Value::String(message)) = body.get_mut(member)
            && let Some(at) = message.find(" at line ")
        {
            message.truncate(at);
        }
    }
}

fn sort_sets(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(sort_sets),
        Value::Object(members) => {
            let is_one = members.len() == 1;
            for (name, inner) in members {
                match inner {
                    Value::Array(elements)
                        if is_one && ["SS", "NS", "BS"].contains(&name.as_str()) =>
                    {
                        elements.sort_by_cached_key(Value::to_string);
                    }
                    inner => sort_sets(inner),
                }
            }
        }
        _ => {}
    }
}

/// Takes away items of which only the key is shown. The engine shows it beside all that a transaction projects, other than DynamoDB,
/// and so beside what the endpoint has it project.
fn drop_bare_keys(body: &mut Value) {
    for found in body.get_mut("Responses").and_then(Value::as_array_mut).into_iter().flatten() {
        let item = found.get("Item").and_then(Value::as_object);
        if item.is_some_and(|item| item.keys().all(|name| ["pk", "sk"].contains(&name.as_str()))) {
            *found = Value::Object(Map::new());
        }
    }
}

fn sort_responses(body: &mut Value) {
    let tables = body.get_mut("Responses").and_then(Value::as_object_mut);
    for items in tables.into_iter().flat_map(Map::values_mut).filter_map(Value::as_array_mut) {
        items.sort_by_cached_key(Value::to_string);
    }
}
