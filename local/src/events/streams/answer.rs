//! What a function's answer to a batch means.

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
        Ok(Value::Null) => return Outcome::Succeeded,
        Ok(Value::Object(mut answer)) => answer.remove("batchItemFailures"),
        _ => return Outcome::Failed,
    };
    match failures {
        None | Some(Value::Null) => Outcome::Succeeded,
        Some(Value::Array(failures)) if failures.is_empty() => Outcome::Succeeded,
        Some(Value::Array(failures)) => {
            let positions = failures.iter().map(|failure| position(failure, batch));
            // One that cannot be found makes it unclear which others failed.
            positions
                .collect::<Option<Vec<usize>>>()
                .and_then(|positions| positions.into_iter().min())
                .map_or(Outcome::Failed, Outcome::FailedFrom)
        }
        Some(_) => Outcome::Failed,
    }
}

/// The place of a record in its batch: batches are in the order of sequence numbers.
fn position(failure: &Value, batch: &[Record]) -> Option<usize> {
    let number = failure.get("itemIdentifier")?.as_str()?;
    batch.iter().position(|record| record.sequence_number == number)
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
