//! What a function's answer to a batch means.

use serde::Deserialize;
use serde_json::Value;

use super::delivery::Outcome;
use super::record::Record;
use crate::lambda::Completed;

/// Reads the answer to `batch`.
///
/// With `reports_failures` the answer names the records that failed, by the rules of "Configuring
/// partial batch response with DynamoDB and Lambda": of several the one with the lowest sequence
/// number counts, no list or an empty one is a success, and an answer that names nothing of the
/// batch fails it as a whole. Otherwise any answer that is not an error is a success.
pub(super) fn read(completed: &Completed, reports_failures: bool, batch: &[Record]) -> Outcome {
    if completed.failed {
        return Outcome::Failed;
    }
    if !reports_failures || completed.payload.iter().all(u8::is_ascii_whitespace) {
        return Outcome::Succeeded;
    }
    let failures = match serde_json::from_slice(&completed.payload) {
        Ok(Value::Object(mut answer)) => answer.remove("batchItemFailures").unwrap_or_default(),
        Ok(Value::Null) => Value::Null,
        _ => return Outcome::Failed,
    };
    let Ok(failures) = serde_json::from_value::<Option<Vec<Failure>>>(failures) else {
        return Outcome::Failed;
    };
    // Batches are in the order of sequence numbers. A record that cannot be found makes it unclear which others failed.
    let position = |Failure { item_identifier }: Failure| {
        batch.iter().position(|record| record.sequence_number == item_identifier)
    };
    match failures.unwrap_or_default().into_iter().map(position).collect::<Option<Vec<_>>>() {
        Some(positions) => {
            positions.into_iter().min().map_or(Outcome::Succeeded, Outcome::FailedFrom)
        }
        None => Outcome::Failed,
    }
}

/// A record that failed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    item_identifier: String,
}

#[cfg(test)]
mod tests {
    use super::super::record::testing::record;
    use super::*;

    #[test]
    fn answers_mean_what_they_mean_on_lambda() {
        let batch: Vec<Record> = [7, 8, 9].map(|number| record("a", number, 0)).into();
        for (answer, expected) in [
            ("", Outcome::Succeeded),
            ("null", Outcome::Succeeded),
            ("{}", Outcome::Succeeded),
            (r#"{"other":[1]}"#, Outcome::Succeeded),
            (r#"{"batchItemFailures":null}"#, Outcome::Succeeded),
            (r#"{"batchItemFailures":[]}"#, Outcome::Succeeded),
            (r#"{"batchItemFailures":[{"itemIdentifier":"8"}]}"#, Outcome::FailedFrom(1)),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"9"},{"itemIdentifier":"8"}]}"#,
                Outcome::FailedFrom(1),
            ),
            (r#"{"batchItemFailures":[{"itemIdentifier":"7"}]}"#, Outcome::FailedFrom(0)),
            (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, Outcome::Failed),
            (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, Outcome::Failed),
            (r#"{"batchItemFailures":[{"itemIdentifier":"10"}]}"#, Outcome::Failed),
            (r#"{"batchItemFailures":[{"itemIdentifier":8}]}"#, Outcome::Failed),
            (r#"{"batchItemFailures":[{"sequenceNumber":"8"}]}"#, Outcome::Failed),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"9"},{"itemIdentifier":""}]}"#,
                Outcome::Failed,
            ),
            (r#"{"batchItemFailures":"8"}"#, Outcome::Failed),
            (r#""done""#, Outcome::Failed),
            ("[]", Outcome::Failed),
            ("{", Outcome::Failed),
        ] {
            let payload = answer.as_bytes().to_vec().into();
            let completed = Completed { payload, failed: false, log_tail: None };
            assert_eq!(read(&completed, true, &batch), expected, "{answer}");
            assert_eq!(read(&completed, false, &batch), Outcome::Succeeded, "{answer}");
        }
        let payload = r#"{"batchItemFailures":[]}"#.into();
        let completed = Completed { payload, failed: true, log_tail: None };
        assert_eq!(read(&completed, true, &batch), Outcome::Failed, "an error is an error");
    }
}
