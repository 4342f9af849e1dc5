//! The errors that clients of the endpoint get.

use http::StatusCode;

/// An error, as clients get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) fault: Fault,
    pub(super) message: String,
}

/// A kind of errors (`CloudWatch` API: "Errors" of the operations, and "Common Errors"): what protocols call it, what
/// the query protocol called it and the aws command still does, and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) &'static str, pub(super) &'static str, pub(super) StatusCode);

const fn bad_request(shape: &'static str, code: &'static str) -> Fault {
    Fault(shape, code, StatusCode::BAD_REQUEST)
}

impl Fault {
    pub(super) const ACCESS_DENIED: Self =
        Self("AccessDeniedException", "AccessDenied", StatusCode::FORBIDDEN);
    pub(super) const INVALID_FORMAT: Self = bad_request("InvalidFormatFault", "InvalidFormat");
    pub(super) const INVALID_NEXT_TOKEN: Self = bad_request("InvalidNextToken", "InvalidNextToken");
    const INVALID_PARAMETER_COMBINATION: Self =
        bad_request("InvalidParameterCombinationException", "InvalidParameterCombination");
    pub(super) const INVALID_PARAMETER_VALUE: Self =
        bad_request("InvalidParameterValueException", "InvalidParameterValue");
    pub(super) const LIMIT_EXCEEDED: Self = bad_request("LimitExceededFault", "LimitExceeded");
    const MISSING_PARAMETER: Self =
        bad_request("MissingRequiredParameterException", "MissingParameter");
    const REQUEST_TOO_LARGE: Self = Self(
        "RequestEntityTooLargeException",
        "RequestEntityTooLarge",
        StatusCode::PAYLOAD_TOO_LARGE,
    );
    /// Of an alarm.
    pub(super) const RESOURCE_NOT_FOUND: Self =
        Self("ResourceNotFound", "ResourceNotFound", StatusCode::NOT_FOUND);
    /// Of an insight rule.
    pub(super) const RULE_NOT_FOUND: Self =
        Self("ResourceNotFoundException", "ResourceNotFoundException", StatusCode::NOT_FOUND);
    pub(super) const SERIALIZATION: Self = bad_request("SerializationException", "MalformedInput");
    pub(super) const UNKNOWN_OPERATION: Self =
        bad_request("UnknownOperationException", "InvalidAction");
    pub(super) const VALIDATION: Self = bad_request("ValidationException", "ValidationError");
}

impl ApiError {
    pub(super) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into() }
    }

    /// A parameter has a value that it may not have.
    pub(super) fn invalid(parameter: &str, problem: &str) -> Self {
        Self::new(Fault::INVALID_PARAMETER_VALUE, format!("The parameter {parameter} {problem}."))
    }

    pub(super) fn missing(parameter: &str) -> Self {
        Self::new(Fault::MISSING_PARAMETER, format!("The parameter {parameter} is required."))
    }

    pub(super) fn combination(message: &str) -> Self {
        Self::new(Fault::INVALID_PARAMETER_COMBINATION, message)
    }

    pub(super) fn unreadable(problem: &str) -> Self {
        Self::new(Fault::SERIALIZATION, problem)
    }

    pub(super) fn too_large() -> Self {
        Self::new(Fault::REQUEST_TOO_LARGE, "a request has at most 1 MB")
    }
}
