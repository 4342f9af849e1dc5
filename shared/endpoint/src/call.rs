//! A call and its answer.

use bytes::Bytes;
use dynashard_aws_operator::RawAnswer;
use serde_json::Value;

use crate::document::{self, Members, written};

/// What a client asks.
#[derive(Debug, Clone)]
pub struct Call {
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// The body.
    pub body: Bytes,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    /// The id that DynamoDB gave the request, if it was asked.
    pub request_id: Option<String>,
    /// When, by DynamoDB's clock, if it was asked.
    pub date: Option<String>,
}

/// The errors that say nothing of the request.
const PASSING: [&str; 5] = [
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "TransactionConflictException",
    "ServiceUnavailable",
];

impl Answer {
    /// An answer that DynamoDB has no part in.
    pub(crate) fn own(status: u16, body: String) -> Self {
        Self { status, body: body.into(), request_id: None, date: None }
    }

    /// This answer with another body.
    pub(crate) fn with_body(self, body: &Members) -> Self {
        Self { body: written(body), ..self }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status == 200
    }

    /// The members of the body, or none if it is something else than an object, which of an answer to a read is an error
    /// ([`understood`](crate::upstream::understood)).
    pub(crate) fn members(&self) -> Members {
        document::read(&self.body).unwrap_or_default()
    }

    /// Whether it is an error that may pass: a batch names what met it as not processed.
    pub(crate) fn is_passing(&self) -> bool {
        self.status >= 500 || PASSING.iter().any(|name| self.is_error(name))
    }

    /// Whether it is an error of this type.
    pub(crate) fn is_error(&self, name: &str) -> bool {
        let members = if self.status == 400 { self.members() } else { Members::new() };
        let kind = members.get("__type").and_then(Value::as_str).unwrap_or_default();
        kind.rsplit_once('#').map_or(kind, |(_, kind)| kind) == name
    }
}

impl From<RawAnswer> for Answer {
    fn from(answer: RawAnswer) -> Self {
        let RawAnswer { status, request_id, date, body } = answer;
        Self { status, body, request_id, date }
    }
}
