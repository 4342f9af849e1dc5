//! The errors that clients of the endpoint get.

use http::StatusCode;

/// An error, as clients get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) fault: Fault,
    pub(super) message: String,
}

/// The kinds of errors (`CloudWatch` API: "Errors" of the operations, and "Common Errors").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    AccessDenied,
    InvalidFormat,
    InvalidNextToken,
    InvalidParameterCombination,
    InvalidParameterValue,
    LimitExceeded,
    MissingParameter,
    RequestTooLarge,
    /// An alarm.
    ResourceNotFound,
    /// An insight rule.
    RuleNotFound,
    Serialization,
    UnknownOperation,
    Validation,
}

impl Fault {
    /// What the query protocol calls it.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::AccessDenied => "AccessDenied",
            Self::InvalidFormat => "InvalidFormat",
            Self::InvalidNextToken => "InvalidNextToken",
            Self::InvalidParameterCombination => "InvalidParameterCombination",
            Self::InvalidParameterValue => "InvalidParameterValue",
            Self::LimitExceeded => "LimitExceeded",
            Self::MissingParameter => "MissingParameter",
            Self::RequestTooLarge => "RequestEntityTooLarge",
            Self::ResourceNotFound => "ResourceNotFound",
            Self::RuleNotFound => "ResourceNotFoundException",
            Self::Serialization => "MalformedInput",
            Self::UnknownOperation => "InvalidAction",
            Self::Validation => "ValidationError",
        }
    }

    /// What the other protocols call it.
    pub(super) const fn shape(self) -> &'static str {
        match self {
            Self::AccessDenied => "AccessDeniedException",
            Self::InvalidFormat => "InvalidFormatFault",
            Self::InvalidNextToken => "InvalidNextToken",
            Self::InvalidParameterCombination => "InvalidParameterCombinationException",
            Self::InvalidParameterValue => "InvalidParameterValueException",
            Self::LimitExceeded => "LimitExceededFault",
            Self::MissingParameter => "MissingRequiredParameterException",
            Self::RequestTooLarge => "RequestEntityTooLargeException",
            Self::ResourceNotFound => "ResourceNotFound",
            Self::RuleNotFound => "ResourceNotFoundException",
            Self::Serialization => "SerializationException",
            Self::UnknownOperation => "UnknownOperationException",
            Self::Validation => "ValidationException",
        }
    }

    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::AccessDenied => StatusCode::FORBIDDEN,
            Self::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ResourceNotFound | Self::RuleNotFound => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl ApiError {
    pub(super) fn new(fault: Fault, message: String) -> Self {
        Self { fault, message }
    }

    /// A parameter has a value that it may not have.
    pub(super) fn invalid(parameter: &str, problem: &str) -> Self {
        Self::new(Fault::InvalidParameterValue, format!("The parameter {parameter} {problem}."))
    }

    pub(super) fn missing(parameter: &str) -> Self {
        Self::new(Fault::MissingParameter, format!("The parameter {parameter} is required."))
    }

    pub(super) fn combination(message: &str) -> Self {
        Self::new(Fault::InvalidParameterCombination, message.to_owned())
    }

    pub(super) fn unreadable(problem: &str) -> Self {
        Self::new(Fault::Serialization, problem.to_owned())
    }

    pub(super) fn no_operation() -> Self {
        Self::new(Fault::UnknownOperation, "the request names no operation".to_owned())
    }

    pub(super) fn too_large() -> Self {
        Self::new(Fault::RequestTooLarge, "a request has at most 1 MB".to_owned())
    }
}
