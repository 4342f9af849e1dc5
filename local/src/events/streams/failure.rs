//! What the on-failure destination is told of discarded records.

use std::time::SystemTime;

use serde_json::{Value, json};
use time::macros::format_description;

use super::delivery::{Discarded, Reason};
use super::record::Record;
use crate::clock;
use crate::events::timestamp_secs;
use crate::ids;
use crate::plan::function_arn;

/// The last invocation with records that were discarded.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) request_id: String,
    /// Whether it ended in an error, and not in an answer that names failures.
    pub(super) failed: bool,
}

/// Where discarded records came from and were to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) function: &'a str,
    pub(super) stream_arn: &'a str,
    pub(super) shard: &'a str,
}

/// The document of Lambda: "Example invocation record" of "Retain discarded records for a DynamoDB
/// event source". It says where the records are to be found, and holds none of them.
///
/// `records` are the discarded ones, in order; there is at least one. `attempt` is missing where
/// the function was never invoked with them, and then no response is told.
pub(super) fn document(
    origin: Origin<'_>,
    discarded: &Discarded,
    records: &[Record],
    attempt: Option<&Attempt>,
    now: SystemTime,
) -> Value {
    let mut document = json!({
        "requestContext": {
            // There is one even where nothing was requested.
            "requestId": attempt.map_or_else(ids::uuid, |attempt| attempt.request_id.clone()),
            "functionArn": function_arn(origin.function),
            "condition": match discarded.reason {
                Reason::RetryAttemptsExhausted => "RetryAttemptsExhausted",
                Reason::RecordAgeExceeded => "RecordAgeExceeded",
            },
            "approximateInvokeCount": discarded.invocations,
        },
        "version": "1.0",
        // Such as `2026-11-20T10:10:10.123Z`.
        "timestamp": clock::format(
            now,
            format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"),
        ),
    });
    if let Some(attempt) = attempt {
        let mut response = json!({ "statusCode": 200, "executedVersion": "$LATEST" });
        if attempt.failed {
            response["functionError"] = "Unhandled".into();
        }
        document["responseContext"] = response;
    }
    if let (Some(first), Some(last)) = (records.first(), records.last()) {
        document["DDBStreamBatchInfo"] = json!({
            "shardId": origin.shard,
            "startSequenceNumber": first.sequence_number,
            "endSequenceNumber": last.sequence_number,
            "approximateArrivalOfFirstRecord": timestamp_secs(first.created),
            "approximateArrivalOfLastRecord": timestamp_secs(last.created),
            "batchSize": records.len(),
            "streamArn": origin.stream_arn,
        });
    }
    document
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::record::testing::record;
    use super::*;

    #[test]
    fn a_document_has_the_shape_of_lambdas_own() {
        let origin = Origin { function: "Function", stream_arn: "arn:stream", shard: "shardId-1" };
        let discarded =
            Discarded { records: 0..2, reason: Reason::RetryAttemptsExhausted, invocations: 4 };
        let records = [record("a", 7, 1_795_169_400), record("b", 8, 1_795_169_401)];
        let attempt = Attempt { request_id: "id".to_owned(), failed: true };
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_169_410_020);
        let told = document(origin, &discarded, &records, Some(&attempt), now);
        assert_eq!(
            told,
            json!({
                "requestContext": {
                    "requestId": "id",
                    "functionArn": "arn:aws:lambda:us-east-1:123456789012:function:Function",
                    "condition": "RetryAttemptsExhausted",
                    "approximateInvokeCount": 4,
                },
                "responseContext": {
                    "statusCode": 200,
                    "executedVersion": "$LATEST",
                    "functionError": "Unhandled",
                },
                "version": "1.0",
                "timestamp": "2026-11-20T10:10:10.020Z",
                "DDBStreamBatchInfo": {
                    "shardId": "shardId-1",
                    "startSequenceNumber": "7",
                    "endSequenceNumber": "8",
                    "approximateArrivalOfFirstRecord": "2026-11-20T10:10:00Z",
                    "approximateArrivalOfLastRecord": "2026-11-20T10:10:01Z",
                    "batchSize": 2,
                    "streamArn": "arn:stream",
                },
            })
        );
        let attempt = Attempt { failed: false, ..attempt };
        let told = document(origin, &discarded, &records, Some(&attempt), now);
        assert!(told["responseContext"].get("functionError").is_none());

        let never = Discarded { reason: Reason::RecordAgeExceeded, invocations: 0, ..discarded };
        let told = document(origin, &never, &records, None, now);
        assert_eq!(told["requestContext"]["condition"], "RecordAgeExceeded");
        assert_eq!(told["requestContext"]["approximateInvokeCount"], 0);
        assert!(told["requestContext"]["requestId"].is_string());
        assert!(told.get("responseContext").is_none());
    }
}
