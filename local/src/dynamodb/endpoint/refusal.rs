//! The errors that the endpoint answers itself, in DynamoDB's words and shapes.

use bytes::Bytes;
use dynashard_limits::partition::{LimitHit, Throughput};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::cost::Charge;
use crate::access::AccessDenied;
use crate::server::{IntoResponse, Response};

/// An error that the endpoint answers itself.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The error's type with its namespace, as in `__type`.
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) details: Details,
}

/// The members of an error beside its message.
#[derive(Debug)]
pub(super) enum Details {
    None,
    /// The limits that a request met.
    Throttling(Vec<ThrottlingReason>),
    /// Why a transaction was cancelled, by action.
    Cancellation(Vec<CancellationReason>),
}

pub(super) const SERIALIZATION: &str = "com.amazon.coral.service#SerializationException";

/// A limit that a request met (DynamoDB API: `ThrottlingReason`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ThrottlingReason {
    reason: &'static str,
    /// The ARN of the table or index.
    resource: String,
}

/// What an action has to do with the end of its transaction (DynamoDB API: `CancellationReason`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CancellationReason {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

impl CancellationReason {
    const NONE: Self = Self { code: "None", message: None };
}

impl Refusal {
    pub(super) const TOO_LARGE: Self =
        Self::without_words(StatusCode::PAYLOAD_TOO_LARGE, SERIALIZATION);
    pub(super) const BROKEN: Self = Self::without_words(StatusCode::BAD_REQUEST, SERIALIZATION);
    /// Two transactions with one token.
    pub(super) const MISMATCH: Self = Self::without_words(
        StatusCode::BAD_REQUEST,
        "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
    );
    pub(super) const ENGINE_BROKE_OFF: Self = Self::without_words(
        StatusCode::INTERNAL_SERVER_ERROR,
        "com.amazonaws.dynamodb.v20120810#InternalServerError",
    );

    const fn without_words(status: StatusCode, kind: &'static str) -> Self {
        Self { status, kind, message: String::new(), details: Details::None }
    }

    /// A bad request of this type.
    pub(super) const fn new(kind: &'static str, message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind, message, details: Details::None }
    }

    pub(super) fn engine(error: &hyper_util::client::legacy::Error) -> Self {
        tracing::error!(error = error as &dyn std::error::Error, "the engine did not answer");
        Self::ENGINE_BROKE_OFF
    }

    /// A request that the role of the function that signed it does not allow.
    pub(super) fn access_denied(denied: &AccessDenied) -> Self {
        Self::new("com.amazon.coral.service#AccessDeniedException", denied.to_string())
    }

    /// A request of which nothing was admitted because of these limits; there is at least one.
    ///
    /// The exception is the same whatever the table's mode: the reasons tell the limit (DynamoDB
    /// API: `ProvisionedThroughputExceededException`).
    pub(super) fn throttled(hits: &[Hit]) -> Self {
        let mut reasons = Vec::new();
        for hit in hits {
            if !reasons.contains(&hit.reason) {
                reasons.push(hit.reason.clone());
            }
        }
        let message = hits.first().map_or(String::new(), |hit| hit.message.to_owned());
        let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
        Self { details: Details::Throttling(reasons), ..Self::new(kind, message) }
    }

    /// A transaction that was not admitted; `hits` has the first limit that each action met.
    pub(super) fn cancelled(hits: &[Option<&Hit>]) -> Self {
        let reason = |hit: &Hit| CancellationReason { code: hit.code, message: Some(hit.message) };
        Self::cancelled_for(
            hits.iter().map(|hit| hit.map_or(CancellationReason::NONE, reason)).collect(),
        )
    }

    /// A request whose item breaks a rule.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("com.amazon.coral.validate#ValidationException", message.into())
    }

    /// A transaction of which some actions break a rule: by action, the one that it breaks.
    pub(super) fn invalid_actions(messages: &[Option<&'static str>]) -> Self {
        let reason =
            |message| CancellationReason { code: "ValidationError", message: Some(message) };
        Self::cancelled_for(
            messages.iter().map(|text| text.map_or(CancellationReason::NONE, reason)).collect(),
        )
    }

    fn cancelled_for(reasons: Vec<CancellationReason>) -> Self {
        let codes: Vec<_> = reasons.iter().map(|reason| reason.code).collect();
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        );
        let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
        Self { details: Details::Cancellation(reasons), ..Self::new(kind, message) }
    }

    pub(super) fn response(&self) -> Response {
        answer(self.status, serde_json::to_vec(&Body::of(self)).unwrap_or_default())
    }
}

/// An answer of the endpoint's own, with the headers that DynamoDB's have.
pub(super) fn answer(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let body = body.into();
    let checksum = HeaderValue::from(crc32fast::hash(&body));
    let content_type = HeaderValue::from_static("application/x-amz-json-1.0");
    (status, [(CONTENT_TYPE, content_type), (CHECKSUM, checksum)], body).into_response()
}

/// The checksum of a body, which clients compare.
pub(super) const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-crc32");

/// A limit that a demand met, with the words that an answer has for it.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    table: String,
    reason: ThrottlingReason,
    /// The code of a transaction's cancellation reason.
    code: &'static str,
    message: &'static str,
}

impl Hit {
    /// The limit that `charge` met.
    pub(super) fn of(hit: &LimitHit, charge: &Charge) -> Self {
        let index = charge.index();
        let (arn, throughput) = index
            .map_or((&charge.table.arn, charge.table.throughput), |index| {
                (&index.arn, index.throughput)
            });
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
        let reason = ThrottlingReason { reason: hit.reason(), resource: arn.clone() };
        Self { table: charge.table.name.clone(), reason, code, message }
    }

    /// The table that the limit belongs to, or its index.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    pub(super) const fn reason(&self) -> &'static str {
        self.reason.reason
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

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "__type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// A cancelled transaction spells the member so; every other error has `message`.
    #[serde(rename = "Message", skip_serializing_if = "Option::is_none")]
    cancellation: Option<&'a str>,
    #[serde(rename = "ThrottlingReasons", skip_serializing_if = "Option::is_none")]
    throttling_reasons: Option<&'a [ThrottlingReason]>,
    #[serde(rename = "CancellationReasons", skip_serializing_if = "Option::is_none")]
    cancellation_reasons: Option<&'a [CancellationReason]>,
}

impl<'a> Body<'a> {
    fn of(refusal: &'a Refusal) -> Self {
        let message = Some(refusal.message.as_str());
        let plain = Self {
            kind: refusal.kind,
            message,
            cancellation: None,
            throttling_reasons: None,
            cancellation_reasons: None,
        };
        match &refusal.details {
            Details::None => plain,
            Details::Throttling(reasons) => Self { throttling_reasons: Some(reasons), ..plain },
            Details::Cancellation(reasons) => Self {
                message: None,
                cancellation: message,
                cancellation_reasons: Some(reasons),
                ..plain
            },
        }
    }
}
