//! What the engine's answers say, and what is changed of them and of requests.

use dynashard_limits::Units;
use dynashard_wire::members::JsonMembers;
use http::StatusCode;
use serde_json::Value;

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
