//! What a client is told that did not go well.

use std::time::Duration;

use dynashard_api::problem::Problem;
use dynashard_aws_operator::{ConnectError, PinnedError};
use dynashard_core::Code;
use dynashard_keys::KeyError;
use thiserror::Error;

/// Why an operation did not do what was asked. Both stores answer with the codes of the API (docs/API.md).
#[derive(Debug, Error)]
pub enum ClientError {
    /// The value or the query has no key that DynamoDB takes.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is not a JSON object, or what was found is not one of its type.
    #[error("{what}: {source}")]
    Json {
        /// What was done.
        what: &'static str,
        /// The error of serde.
        source: serde_json::Error,
    },
    /// The operation was refused, or its outcome is unknown.
    #[error("{code}: {detail}")]
    Refused {
        /// The stable code, such as `throttled`. What stands between the client and the functions and answers
        /// without a code has that of its status: `http_403`.
        code: String,
        /// A sentence for people.
        detail: String,
        /// When to try again, where the API says so.
        retry_after: Option<Duration>,
    },
    /// Nothing was sent: no connection, no credentials, no such table, a URL that is none. Or a read was, and no answer came.
    #[error("{0}")]
    Connection(String),
}

impl ClientError {
    /// The code of the API, if it is one of its refusals.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Key(_) => Some(Code::BadKey.as_str()),
            Self::Json { .. } | Self::Connection(_) => None,
        }
    }

    /// Whether a write may have taken effect all the same, now or later: look, or repeat it under a
    /// [`Condition`](crate::Condition).
    pub fn is_outcome_unknown(&self) -> bool {
        self.code() == Some(Code::OutcomeUnknown.as_str())
    }

    pub(crate) fn refused(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Refused { code: code.into(), detail: detail.into(), retry_after: None }
    }
}

impl From<dynashard_core::Error> for ClientError {
    fn from(error: dynashard_core::Error) -> Self {
        Self::refused(error.code().as_str(), error.message())
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::refused(problem.code(), problem.log_detail())
    }
}

impl From<PinnedError> for ClientError {
    fn from(error: PinnedError) -> Self {
        match error {
            PinnedError::Unseen(why) => Self::Connection(why),
            PinnedError::NothingPinned => {
                Self::refused(Code::SettingsMismatch.as_str(), error.to_string())
            }
            PinnedError::Refused(error) => error.into(),
        }
    }
}

impl From<ConnectError> for ClientError {
    fn from(error: ConnectError) -> Self {
        Self::Connection(error.to_string())
    }
}
