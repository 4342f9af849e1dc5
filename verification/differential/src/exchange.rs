//! One operation with both answers, made comparable.

use serde_json::{Map, Value};

use crate::side::Answer;

/// An operation and its two answers, after what DynamoDB leaves open is brought into one order.
#[derive(Debug, Clone)]
pub struct Exchange {
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
    pub fn new(operation: &str, request: Value, plain: Answer, other: Answer) -> Self {
        let [plain, other] = [plain, other].map(|mut answer| {
            sort_sets(&mut answer.body);
            if operation == "BatchGetItem" {
                sort_responses(&mut answer.body);
            }
            answer
        });
        Self { operation: operation.to_owned(), request, plain, other }
    }

    /// Whether both answers are the same, to the letter.
    pub fn agrees(&self) -> bool {
        self.plain == self.other
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

fn sort_responses(body: &mut Value) {
    let tables = body.get_mut("Responses").and_then(Value::as_object_mut);
    for items in tables.into_iter().flat_map(Map::values_mut).filter_map(Value::as_array_mut) {
        items.sort_by_cached_key(Value::to_string);
    }
}
