//! The errors that the endpoint answers itself, in DynamoDB's words and shapes.

use bytes::Bytes;
use dynashard_limits::partition::{LimitHit, Throughput};
use dynashard_wire::CHECKSUM;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::cost::Charge;
use crate::server::{IntoResponse, Response};

/// An error that the endpoint answers itself.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    /// The error's type with its namespace, as in `__type`.
    kind: &'static str,
    message: String,
    /// The member of the error beside its message, if it has one.
    details: Option<(&'static str, Value)>,
}

/// The role of the function that signed a request does not allow it.
pub(super) const ACCESS_DENIED: &str = "com.amazon.coral.service#AccessDeniedException";

pub(super) const SERIALIZATION: &str = "com.amazon.coral.service#SerializationException";

/// The member that says why a transaction was cancelled, by action (DynamoDB API: `CancellationReason`).
const CANCELLATION: &str = "CancellationReasons";

impl Refusal {
    pub(super) const TOO_LARGE: Self =
        Self::without_words(StatusCode::PAYLOAD_TOO_LARGE, SERIALIZATION);
    pub(super) const BROKEN: Self = Self::without_words(StatusCode::BAD_REQUEST, SERIALIZATION);
    /// Two transactions with one token.
    pub(super) const MISMATCH: Self = Self::without_words(
        StatusCode::BAD_REQUEST,
        "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
    );
    /// A page of another machine asks.
    pub(super) const OF_ANOTHER_SITE: Self =
        Self::without_words(StatusCode::FORBIDDEN, ACCESS_DENIED);
    pub(super) const ENGINE_BROKE_OFF: Self = Self::without_words(
        StatusCode::INTERNAL_SERVER_ERROR,
        "com.amazonaws.dynamodb.v20120810#InternalServerError",
    );

    const fn without_words(status: StatusCode, kind: &'static str) -> Self {
        Self { status, kind, message: String::new(), details: None }
    }

    /// A bad request of this type.
    pub(super) const fn new(kind: &'static str, message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind, message, details: None }
    }

    pub(super) fn engine(error: &hyper_util::client::legacy::Error) -> Self {
        tracing::error!(error = error as &dyn std::error::Error, "the engine did not answer");
        Self::ENGINE_BROKE_OFF
    }

    /// A request of which nothing was admitted because of these limits; there is at least one.
    ///
    /// The exception is the same whatever the table's mode: the reasons tell the limit (DynamoDB
    /// API: `ProvisionedThroughputExceededException`).
    pub(super) fn throttled(hits: &[Hit]) -> Self {
        let reasons = hits.iter().map(|hit| json!({ "reason": hit.reason, "resource": hit.arn }));
        let mut distinct = Vec::new();
        for reason in reasons {
            if !distinct.contains(&reason) {
                distinct.push(reason);
            }
        }
        let message = hits.first().map_or(String::new(), |hit| hit.message.to_owned());
        let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
        let details = Some(("ThrottlingReasons", distinct.into()));
        Self { details, ..Self::new(kind, message) }
    }

    /// A request whose item breaks a rule.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("com.amazon.coral.validate#ValidationException", message.into())
    }

    /// A transaction that is not executed: by action, the code and the message of what keeps it from that.
    pub(super) fn cancelled(reasons: &[Option<(&'static str, &'static str)>]) -> Self {
        let codes = reasons.iter().map(|reason| reason.map_or("None", |(code, _)| code));
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.collect::<Vec<_>>().join(", ")
        );
        let reasons = reasons.iter().map(|reason| match reason {
            Some((code, message)) => json!({ "Code": code, "Message": message }),
            None => json!({ "Code": "None" }),
        });
        let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
        Self { details: Some((CANCELLATION, reasons.collect())), ..Self::new(kind, message) }
    }

    pub(super) fn response(&self) -> Response {
        // A cancelled transaction spells the member so; every other error has `message`.
        let message = match self.details {
            Some((CANCELLATION, _)) => "Message",
            _ => "message",
        };
        let mut body = json!({ "__type": self.kind, message: self.message });
        if let Some((name, details)) = &self.details {
            body[*name] = details.clone();
        }
        answer(self.status, body.to_string())
    }
}

/// An answer of the endpoint's own, with the headers that DynamoDB's have.
pub(super) fn answer(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let body = body.into();
    let checksum = HeaderValue::from(crc32fast::hash(&body));
    let content_type = HeaderValue::from_static("application/x-amz-json-1.0");
    (status, [(CONTENT_TYPE, content_type), (CHECKSUM, checksum)], body).into_response()
}

/// A limit that a demand met, with the words that an answer has for it.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    /// The table that the limit belongs to, or its index.
    pub(super) table: String,
    pub(super) reason: &'static str,
    /// The ARN of the table or index.
    arn: String,
    /// The code of a transaction's cancellation reason.
    pub(super) code: &'static str,
    pub(super) message: &'static str,
}

impl Hit {
    /// The limit that `charge` met.
    pub(super) fn of(hit: &LimitHit, charge: &Charge) -> Self {
        let (table, index) = (&charge.table, charge.index());
        let (arn, throughput) =
            index.map_or((&table.arn, table.throughput), |index| (&index.arn, index.throughput));
        let (code, message) = match (throughput, index.is_some()) {
            (Throughput::OnDemand, false) => ("ThrottlingError", ON_DEMAND_TABLE),
            (Throughput::OnDemand, true) => ("ThrottlingError", ON_DEMAND_INDEX),
            (Throughput::Provisioned { .. }, false) => {
                ("ProvisionedThroughputExceeded", PROVISIONED_TABLE)
            }
            (Throughput::Provisioned { .. }, true) => {
                ("ProvisionedThroughputExceeded", PROVISIONED_INDEX)
            }
        };
        let (table, arn) = (table.name.clone(), arn.clone());
        Self { table, reason: hit.reason, arn, code, message }
    }
}

// The messages that the DynamoDB API lists under `TransactionCanceledException`.
const ON_DEMAND_TABLE: &str = "Throughput exceeds the current capacity of your table or index. \
    DynamoDB is automatically scaling your table or index so please try again shortly. If \
    exceptions persist, check if you have a hot key: \
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html.";
const ON_DEMAND_INDEX: &str = "Throughput exceeds the current capacity for one or more global \
    secondary indexes. DynamoDB is automatically scaling your index so please try again shortly.";
const PROVISIONED_TABLE: &str = "The level of configured provisioned throughput for the table was \
    exceeded. Consider increasing your provisioning level with the UpdateTable API.";
const PROVISIONED_INDEX: &str = "The level of configured provisioned throughput for one or more \
    global secondary indexes of the table was exceeded. Consider increasing your provisioning \
    level for the under-provisioned global secondary indexes with the UpdateTable API.";
