//! What the endpoint answers itself, in DynamoDB's words and shapes where it has them.

use dynashard_core::{Code, Error, Kind};
use dynashard_wire::signature::UNKNOWN_KEY;
use serde_json::json;

use crate::call::Answer;

/// An error that the endpoint answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: u16,
    /// The type with its namespace, as in `__type`.
    kind: &'static str,
    message: String,
}

impl Refusal {
    /// The request breaks a rule: sending it again is in vain.
    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(400, "com.amazon.coral.validate#ValidationException", message)
    }

    /// The body is no request.
    pub(crate) fn serialization(message: impl Into<String>) -> Self {
        Self::new(400, "com.amazon.coral.service#SerializationException", message)
    }

    /// Nothing was executed, and sending it again may help.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "com.amazonaws.dynamodb.v20120810#ServiceUnavailable", message)
    }

    /// A limit of DynamoDB's would refuse it, so it was not executed.
    fn throttled(message: impl Into<String>) -> Self {
        let kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
        Self::new(400, kind, message)
    }

    /// It may have been executed, or something is wrong that sending it again does not mend.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "com.amazonaws.dynamodb.v20120810#InternalServerError", message)
    }

    /// Who asked may not.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(400, "com.amazon.coral.service#UnrecognizedClientException", message)
    }

    /// The signature does not count. SDKs set their clocks right by the name of the error.
    pub(crate) fn unsigned(why: &str) -> Self {
        let message = format!("dynashard: {why}");
        if why == UNKNOWN_KEY {
            return Self::denied(message);
        }
        Self::new(400, "com.amazon.coral.service#InvalidSignatureException", message)
    }

    /// There is no such operation.
    pub(crate) fn unknown_operation() -> Self {
        Self::new(400, "com.amazon.coral.service#UnknownOperationException", "")
    }

    /// An endpoint asks an endpoint.
    pub(crate) fn looped() -> Self {
        let message = "dynashard: the request came from an endpoint such as this one, which is to ask DynamoDB: give it --upstream";
        Self { status: 508, ..Self::internal(message) }
    }

    /// What the core says.
    pub(crate) fn of(error: &Error) -> Self {
        let mut message = format!("dynashard: {}: {}", error.code().as_str(), error.message());
        if error.code() == Code::Internal {
            message.push_str(
                "; see that the managed table and its metadata table exist, and that the endpoint's role may use both",
            );
        }
        match error.kind() {
            Kind::Unavailable => Self::unavailable(message),
            Kind::Throttled => Self::throttled(message),
            // It is certainly not done, and asking again is in vain until the item is repaired.
            _ if error.code() == Code::UnmovableItem => Self::validation(message),
            Kind::Invalid => Self::validation(message),
            _ => Self::internal(message),
        }
    }

    fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    /// The name of the type, without its namespace.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.rsplit_once('#').map_or(self.kind, |(_, name)| name)
    }

    /// Whether nothing was executed, and sending it again may help.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.status == 503
    }

    pub(crate) fn answer(&self) -> Answer {
        let body = json!({ "__type": self.kind, "message": self.message });
        Answer::own(self.status, body.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SDKs set their clocks right by the name of the error, and were told of credentials that nobody has.
    #[test]
    fn regression_a_clock_that_was_wrong_was_told_of_as_an_unknown_key() {
        assert_eq!(Refusal::unsigned(UNKNOWN_KEY).name(), "UnrecognizedClientException");
        assert_eq!(Refusal::unsigned("it is late").name(), "InvalidSignatureException");
    }

    /// A client that is told 500 takes it that the write may have happened.
    #[test]
    fn regression_what_certainly_did_not_happen_was_of_unknown_fate() {
        for (code, status) in [
            (Code::SettingsMismatch, 503),
            (Code::MetadataBehind, 503),
            (Code::DeadlineExceeded, 503),
            (Code::Unavailable, 503),
            (Code::Throttled, 400),
            (Code::BadKey, 400),
            (Code::UnmovableItem, 400),
            (Code::OutcomeUnknown, 500),
            (Code::Internal, 500),
        ] {
            assert_eq!(Refusal::of(&Error::new(code, "why")).answer().status, status, "{code:?}");
        }
    }
}
