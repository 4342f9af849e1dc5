//! The commands of operators. They work on the tables through the same core as the functions, with
//! the caller's own AWS credentials.

pub(crate) mod adopt;
mod budget;
mod check;
pub(crate) mod complete;
mod connect;
mod console;
pub(crate) mod decisions;
pub(crate) mod doctor;
pub(crate) mod drawing;
pub(crate) mod export;
mod files;
mod forecast;
pub(crate) mod import;
pub(crate) mod indexes;
pub(crate) mod init;
pub(crate) mod keys;
mod output;
mod patience;
pub(crate) mod place;
pub(crate) mod plan;
mod planning;
pub(crate) mod query;
pub(crate) mod reshards;
pub(crate) mod rotate;
mod rows;
pub(crate) mod scale;
mod scan;
mod series;
pub(crate) mod settings;
mod shell;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod verify;

use std::process::ExitCode;
use std::time::Duration;

use dynashard_api::problem::Problem;
use dynashard_aws_operator::ConnectError;
use dynashard_core::{Code, Error};
use dynashard_keys::PartitionKey;
use serde::Serialize;

use self::output::Output;
use crate::signals::{INTERRUPTED, TerminationSignals};

pub(crate) use connect::settings_of;
pub(crate) use console::ConsoleConnectArgs;
pub(crate) use planning::prices;

/// For how long a request is sent again that was throttled or not answered.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a command could not do what was asked, in one line: with the code of the API, where it has
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code}: {detail}")]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) detail: String,
}

impl Failure {
    /// The tables or their stack could not be reached.
    fn connection(detail: String) -> Self {
        Self { code: "connection_failed", detail }
    }

    /// What the core calls internal. Where it is that AWS has refused a request, whose code comes first in what it said, or behind the
    /// operation, an operator can do something about it.
    fn of_refusal(detail: String) -> Self {
        const REMEDIES: [(&str, &str); 9] = [
            ("AccessDenied", "give the credentials the permissions of docs/SECURITY.md"),
            ("ExpiredToken", RENEW),
            ("IncompleteSignature", RENEW),
            ("InvalidClientTokenId", RENEW),
            ("InvalidSignature", RENEW),
            ("MissingAuthenticationToken", RENEW),
            ("SignatureDoesNotMatch", RENEW),
            ("UnrecognizedClient", RENEW),
            ("ResourceNotFound", "check the names of the tables, and the region"),
        ];
        const RENEW: &str = "renew the credentials";
        let heads = detail.splitn(3, ": ").take(2);
        let mut remedies = REMEDIES.iter();
        match remedies.find(|(code, _)| heads.clone().any(|head| head.starts_with(code))) {
            Some((_, remedy)) => Self::connection(format!("{detail}; {remedy}")),
            None => Self { code: Code::Internal.as_str(), detail },
        }
    }

    /// The arguments contradict each other, or ask for what must not be.
    fn bad_argument(detail: impl Into<String>) -> Self {
        Self { code: "bad_parameter", detail: detail.into() }
    }
}

/// Why a command has ended before it was done.
enum Stopped {
    /// By a signal.
    Interrupted,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stopped {
    fn from(failure: E) -> Self {
        Self::Failed(failure.into())
    }
}

/// The code of a command whose reader has closed stdout: that has what it wants.
const UNREAD: &str = "unread";

/// The signals that end a command.
fn signals() -> Result<TerminationSignals, Failure> {
    let failed = |error| Failure::connection(format!("signals cannot be waited for: {error}"));
    TerminationSignals::of_command().map_err(failed)
}

/// Does the work of a command; `None` if a signal has ended it before.
async fn until_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    let mut signals = signals()?;
    tokio::select! {
        done = work => done.map(Some),
        () = signals.received() => Ok(None),
    }
}

/// Ends a command whose work was done, was interrupted, or has failed, which is reported.
fn ended(
    mut output: Output,
    pk: Option<&PartitionKey>,
    done: Result<Option<()>, Failure>,
) -> ExitCode {
    let status = match done {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) => ExitCode::from(INTERRUPTED),
        Err(failure) => {
            output.failure(pk.map(PartitionKey::as_str), &failure);
            ExitCode::FAILURE
        }
    };
    output.end(status)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let detail = error.message().to_owned();
        match error.code() {
            Code::Internal => Self::of_refusal(detail),
            code => Self { code: code.as_str(), detail },
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code(), detail: problem.log_detail().to_owned() }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::connection(error.to_string())
    }
}

/// Reads `--pk`.
fn partition_key(text: &str) -> Result<PartitionKey, String> {
    PartitionKey::new(text).map_err(|e| e.to_string())
}
