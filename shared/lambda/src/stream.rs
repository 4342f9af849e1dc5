//! Records of a table's stream, and which of them are to come again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A batch of records, as the event source mapping sends it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StreamEvent {
    /// In the order of the stream shard.
    #[serde(rename = "Records")]
    pub records: Vec<StreamRecord>,
}

/// One record. Only what is needed is read: a record is a hint, and the item is read again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StreamRecord {
    dynamodb: Change,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change {
    #[serde(default)]
    keys: BTreeMap<String, Value>,
    sequence_number: String,
}

impl StreamRecord {
    /// The text of a key attribute of type `S`.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.dynamodb.keys.get(name)?.get("S")?.as_str()
    }

    /// Where the record stands in its stream shard.
    pub fn sequence_number(&self) -> &str {
        &self.dynamodb.sequence_number
    }
}

/// The records that failed (`ReportBatchItemFailures`). The mapping goes on from the first of them;
/// none at all means that the batch is done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct BatchOutcome {
    #[serde(rename = "batchItemFailures")]
    failures: Vec<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Failure {
    #[serde(rename = "itemIdentifier")]
    sequence_number: String,
}

impl BatchOutcome {
    /// The batch with these records failed.
    pub fn failed<'a>(records: impl IntoIterator<Item = &'a StreamRecord>) -> Self {
        let failures = records
            .into_iter()
            .map(|record| Failure { sequence_number: record.sequence_number().to_owned() });
        Self { failures: failures.collect() }
    }

    /// Whether everything is done.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_record_is_read_and_reported() {
        let event = r#"{"Records":[{"eventID":"1","eventName":"MODIFY","eventVersion":"1.1",
            "eventSource":"aws:dynamodb","awsRegion":"us-east-1",
            "dynamodb":{"ApproximateCreationDateTime":1795220166,"Keys":{"pk":{"S":"audit"}},
            "NewImage":{"phase":{"S":"forward"}},"SequenceNumber":"111","SizeBytes":26,
            "StreamViewType":"NEW_AND_OLD_IMAGES"},"eventSourceARN":"arn:aws:dynamodb:..."}]}"#;
        let event = serde_json::from_str::<StreamEvent>(event).expect("an event");
        assert_eq!(event.records[0].key("pk"), Some("audit"));
        assert_eq!(event.records[0].key("sk"), None);
        let outcome = BatchOutcome::failed(&event.records);
        let text = serde_json::to_string(&outcome).expect("JSON");
        assert_eq!(text, r#"{"batchItemFailures":[{"itemIdentifier":"111"}]}"#);
        assert!(!outcome.is_complete());
        assert!(BatchOutcome::default().is_complete());
    }
}
