//! Requests around the core's use cases, made again while they are refused for the moment.

use std::time::Duration;

use dynashard_core::ports::StoreError;
use dynashard_core::{Code, Error, Kind};

use super::{Failure, PATIENCE};
use crate::clock::Stopwatch;

/// The pauses after refusals.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Makes a request again and again that was refused for the moment, for as long as that is anybody's
/// patience.
pub(super) async fn patiently<T>(
    attempt: impl AsyncFn() -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let mut patience = Patience::begin();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Asks again and again a question that the core asks once each time.
pub(super) async fn ask_patiently<T>(
    question: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut patience = Patience::begin();
    loop {
        match Box::pin(question()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                let may_pass = matches!(error.kind(), Kind::Throttled | Kind::Unavailable);
                if !patience.pause(may_pass).await {
                    return Err(error);
                }
            }
        }
    }
}

/// How often, and for how long, one request is made again.
pub(super) struct Patience {
    since: Stopwatch,
    pause: Duration,
    limit: Duration,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self::of(PATIENCE)
    }

    /// That ends after this time.
    pub(super) fn of(limit: Duration) -> Self {
        Self { since: Stopwatch::start(), pause: FIRST_PAUSE, limit }
    }

    /// Pauses, if what was refused may pass.
    pub(super) async fn bear(&mut self, error: StoreError) -> Result<(), Failure> {
        let may_pass = matches!(
            error,
            StoreError::Throttled(_)
                | StoreError::Conflict
                | StoreError::Unavailable(_)
                | StoreError::OutcomeUnknown(_)
        );
        if self.pause(may_pass).await { Ok(()) } else { Err(failure(error)) }
    }

    /// Pauses, and returns whether to ask again.
    pub(super) async fn pause(&mut self, may_pass: bool) -> bool {
        if !may_pass || self.since.elapsed() + self.pause > self.limit {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

fn failure(error: StoreError) -> Failure {
    let of = |code: Code, detail: String| Failure { code: code.as_str(), detail };
    match error {
        StoreError::Throttled(_) => {
            of(Code::Throttled, "DynamoDB throttles the requests; lower their rate".to_owned())
        }
        StoreError::Conflict | StoreError::LeaseExpired | StoreError::ConditionFailed { .. } => {
            of(Code::Contended, "other requests of the same item won".to_owned())
        }
        StoreError::Unavailable(why) | StoreError::OutcomeUnknown(why) => {
            of(Code::Unavailable, why)
        }
        StoreError::Corrupt(why) => of(Code::CorruptData, why),
        StoreError::Rejected(why) => of(Code::RequestRejected, why),
        StoreError::Misconfigured(why) => Failure::of_refusal(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `indexes --rewrite` ended at an item that has no room for its shard, each time, and blamed the permissions.
    #[test]
    fn regression_an_item_that_dynamodb_rejects_was_an_internal_error() {
        let code = |error| failure(error).code;
        assert_eq!(code(StoreError::Rejected("too large".to_owned())), "request_rejected");
    }

    /// All of them were internal errors, and to be mended by permissions.
    #[test]
    fn regression_credentials_that_had_expired_were_told_of_as_missing_permissions() {
        for (why, code, remedy) in [
            ("ExpiredTokenException: The security token is expired", "connection_failed", "renew"),
            ("AccessDeniedException: User is not authorized", "connection_failed", "permissions"),
            ("ResourceNotFoundException: no such table", "connection_failed", "names"),
            (
                "DescribeContributorInsights: AccessDeniedException: User is not authorized",
                "connection_failed",
                "permissions",
            ),
            ("a task panicked: ", "internal", ""),
        ] {
            let failure = failure(StoreError::Misconfigured(why.to_owned()));
            assert_eq!(failure.code, code, "{why}");
            let added = failure.detail.strip_prefix(why).expect("what was said comes first");
            assert!(added.contains(remedy) && added.is_empty() == remedy.is_empty(), "{added}");
        }
    }
}
