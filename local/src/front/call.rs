//! What one request asks of which tables, read without building its items.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashMap};

/// The operation and tables of a request, as far as they can be told: a request that makes no sense
/// names none, and the engine says what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The last part of `X-Amz-Target`, such as `PutItem`; empty where there is none.
    pub(super) operation: String,
    /// Every table that the request names, each once.
    pub(super) tables: BTreeSet<String>,
    /// Whether the answer will carry `ConsumedCapacity`.
    pub(super) wants_capacity: bool,
}

impl Call {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let (_, operation) = target.and_then(|target| target.split_once('.')).unwrap_or_default();
        let names: Names<'_> = serde_json::from_slice(body).unwrap_or_default();
        let batch = names.request_items.into_iter().flat_map(HashMap::into_keys);
        let transaction = names
            .transact_items
            .into_iter()
            .flatten()
            .flat_map(HashMap::into_values)
            .filter_map(|action| action.table_name);
        Self {
            operation: operation.to_owned(),
            tables: names
                .table_name
                .into_iter()
                .chain(batch)
                .chain(transaction)
                .map(without_arn)
                .collect(),
            wants_capacity: names.return_consumed_capacity.is_some_and(|level| level != "NONE"),
        }
    }

    /// Whether the operation consumes read capacity, where it consumes any.
    pub(super) fn reads(&self) -> bool {
        matches!(
            self.operation.as_str(),
            "BatchGetItem" | "GetItem" | "Query" | "Scan" | "TransactGetItems"
        )
    }
}

/// The members of a request that name tables or ask for capacity.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Names<'a> {
    table_name: Option<String>,
    /// Of a batch: its keys are the tables.
    #[serde(borrow)]
    request_items: Option<HashMap<String, &'a RawValue>>,
    /// Of a transaction: each entry holds one action under the action's name.
    transact_items: Option<Vec<HashMap<String, Action>>>,
    return_consumed_capacity: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Action {
    table_name: Option<String>,
}

/// A table may be named by its ARN as well.
fn without_arn(name: String) -> String {
    match name.rsplit_once(":table/") {
        Some((_, name)) => name.to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &str, body: &str) -> Call {
        let mut headers = HeaderMap::new();
        let target = format!("DynamoDB_20120810.{operation}");
        headers.insert("x-amz-target", target.parse().expect("a header value"));
        Call::read(&headers, body.as_bytes())
    }

    fn tables(body: &str) -> Vec<String> {
        call("Any", body).tables.into_iter().collect()
    }

    #[test]
    fn tables_are_found_wherever_a_request_names_them() {
        assert_eq!(tables(r#"{"TableName":"A","Item":{"TableName":{"S":"x"}}}"#), ["A"]);
        assert_eq!(
            tables(r#"{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/A"}"#),
            ["A"]
        );
        assert_eq!(
            tables(r#"{"RequestItems":{"A":[{"PutRequest":{}}],"B":{"Keys":[]}}}"#),
            ["A", "B"]
        );
        assert_eq!(
            tables(
                r#"{"TransactItems":[{"Put":{"TableName":"A"}},{"Update":{"TableName":"B"}},{"Put":{"TableName":"A"}}]}"#
            ),
            ["A", "B"]
        );
    }

    #[test]
    fn a_request_that_makes_no_sense_names_no_table() {
        for body in ["", "[]", "{", r#"{"TableName":7}"#, "\u{0}"] {
            assert!(tables(body).is_empty(), "{body}");
        }
        assert_eq!(Call::read(&HeaderMap::new(), b"{}").operation, "");
    }

    #[test]
    fn capacity_is_wanted_where_it_is_asked_for() {
        assert!(call("GetItem", r#"{"ReturnConsumedCapacity":"TOTAL"}"#).wants_capacity);
        assert!(!call("GetItem", r#"{"ReturnConsumedCapacity":"NONE"}"#).wants_capacity);
        assert!(!call("GetItem", "{}").wants_capacity);
        assert!(call("GetItem", "{}").reads());
        assert!(!call("PutItem", "{}").reads());
    }
}
