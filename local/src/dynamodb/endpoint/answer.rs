//! What the engine's answers say, and what is changed of them and of requests.

use std::collections::BTreeMap;

use bytes::Bytes;
use dynashard_limits::Units;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// How a request ended, as far as its cost depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The engine did what it was asked to.
    Done,
    /// It looked at the items, and a condition kept it from executing.
    ConditionFailed,
    /// It refused the request before looking at an item.
    Invalid,
    /// It failed, so the fate of the request is unknown.
    Unknown,
}

impl Outcome {
    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        if status.is_success() {
            return Self::Done;
        }
        if status.is_server_error() {
            return Self::Unknown;
        }
        let error: Value = serde_json::from_slice(body).unwrap_or_default();
        let kind = error["__type"].as_str().unwrap_or_default();
        match kind.rsplit_once('#').map_or(kind, |(_, name)| name) {
            "ConditionalCheckFailedException" | "TransactionCanceledException" => {
                Self::ConditionFailed
            }
            _ => Self::Invalid,
        }
    }
}

/// The members of a request or an answer. Their values are not looked into.
#[derive(Debug)]
pub(super) struct JsonMembers<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> JsonMembers<'a> {
    /// `None` if the body is not a JSON object.
    pub(super) fn of(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().map(Self)
    }

    /// A member; `None` where it is absent or has another shape.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The object that they make.
    pub(super) fn to_body(&self) -> Option<Bytes> {
        serde_json::to_vec(&self.0).ok().map(Bytes::from)
    }
}

/// The body with one member set to this value; `None` if the body is not a JSON object.
pub(super) fn with_member(body: &[u8], name: &str, value: &Value) -> Option<Bytes> {
    let value = serde_json::value::to_raw_value(value).ok()?;
    let mut members = JsonMembers::of(body)?;
    members.0.insert(name.to_owned(), &value);
    members.to_body()
}

/// What a page consumed, as the engine says.
pub(super) fn consumed(answer: &JsonMembers<'_>) -> Option<Units> {
    let capacity = answer.get::<Value>("ConsumedCapacity")?;
    let capacity_units = capacity["CapacityUnits"].as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a page costs a few hundred units, which are whole halves"
    )]
    let halves = (capacity_units * 2.0).round() as u64;
    Some(Units::halves(halves))
}

/// Adds the actions that one side of a batch left unprocessed to those of the other.
pub(super) fn merge_unprocessed(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, more) in more {
                match into.get_mut(&name) {
                    Some(into) => merge_unprocessed(into, more),
                    None => drop(into.insert(name, more)),
                }
            }
        }
        (Value::Array(into), Value::Array(more)) => into.extend(more),
        // The members beside the keys of a table are the same on both sides.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outcome_follows_from_the_status_and_the_kind_of_error() {
        let of = |status, kind: &str| {
            Outcome::of(status, json!({ "__type": kind }).to_string().as_bytes())
        };
        let bad = StatusCode::BAD_REQUEST;
        assert_eq!(of(StatusCode::OK, ""), Outcome::Done);
        assert_eq!(
            of(bad, "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"),
            Outcome::ConditionFailed
        );
        assert_eq!(of(bad, "TransactionCanceledException"), Outcome::ConditionFailed);
        assert_eq!(of(bad, "com.amazon.coral.validate#ValidationException"), Outcome::Invalid);
        assert_eq!(Outcome::of(bad, b"not JSON"), Outcome::Invalid);
        assert_eq!(of(StatusCode::INTERNAL_SERVER_ERROR, ""), Outcome::Unknown);
    }

    #[test]
    fn a_member_is_set_beside_the_others_which_stay_to_the_letter() {
        let body = br#"{"B":{"z":1.50,"a":"\u00e9"},"A":"NONE"}"#;
        let changed = with_member(body, "A", &json!("TOTAL")).expect("an object");
        assert_eq!(changed, r#"{"A":"TOTAL","B":{"z":1.50,"a":"\u00e9"}}"#);
        assert_eq!(with_member(b"[]", "A", &json!(1)), None);
    }

    #[test]
    fn what_two_sides_left_unprocessed_is_joined_by_table() {
        let mut into = json!({ "A": [1], "B": { "Keys": [2], "ConsistentRead": true } });
        let more = json!({ "A": [3], "B": { "Keys": [4], "ConsistentRead": true }, "C": [5] });
        merge_unprocessed(&mut into, more);
        assert_eq!(
            into,
            json!({ "A": [1, 3], "B": { "Keys": [2, 4], "ConsistentRead": true }, "C": [5] })
        );
    }
}
