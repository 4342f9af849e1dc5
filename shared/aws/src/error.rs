//! What the SDK's errors mean. The one place that decides whether a request may have been executed.

use std::collections::HashMap;
use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::scan::ScanError;
use aws_sdk_dynamodb::operation::transact_get_items::TransactGetItemsError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, CancellationReason, ThrottlingReason};
use dynashard_core::Throttle;
use dynashard_core::ports::StoreError;
use hyper_util::client::legacy::Error as HttpError;

use crate::interceptors::{DatedAhead, LeaseRanOut};

/// What a service error carries beside its code.
pub trait Details: ProvideErrorMetadata + StdError + 'static {
    /// Why it throttled.
    fn throttling_reasons(&self) -> &[ThrottlingReason];
    /// The item that a failed condition found, if the request asked for it.
    fn found(&self) -> Option<&HashMap<String, AttributeValue>>;
    /// Why a transaction was cancelled, for each of its parts.
    fn cancellation_reasons(&self) -> &[CancellationReason];
}

/// A failed condition, or any other error as the core knows it.
pub enum Refused {
    /// The condition failed, and this is what it found.
    Condition(Found),
    /// Of a transaction: of each part, whether its condition failed and what that found.
    Cancelled(Vec<Option<Found>>),
    /// Whatever else went wrong.
    Other(StoreError),
}

/// What a failed condition found, if there was an item and the request asked for it.
pub type Found = Option<HashMap<String, AttributeValue>>;

/// What a failed read means. It wrote nothing, so it may be sent again.
pub fn of_read<E: Details, R: std::fmt::Debug + 'static>(error: &SdkError<E, R>) -> StoreError {
    match of_write(error) {
        Refused::Other(StoreError::OutcomeUnknown(why)) => StoreError::Unavailable(why),
        Refused::Other(error) => error,
        Refused::Condition(_) | Refused::Cancelled(_) => {
            StoreError::ConditionFailed { existing: None }
        }
    }
}

/// What a failed write means. A write that DynamoDB refused, or that was never sent, certainly had no
/// effect. Any other may have been executed, or may yet be.
pub fn of_write<E: Details, R: std::fmt::Debug + 'static>(error: &SdkError<E, R>) -> Refused {
    Refused::Other(match error {
        SdkError::ServiceError(context) => return of_service(context.err()),
        _ if in_chain(error, <dyn StdError>::is::<LeaseRanOut>) => StoreError::LeaseExpired,
        _ if in_chain(error, <dyn StdError>::is::<DatedAhead>) => {
            StoreError::Misconfigured(DatedAhead.to_string())
        }
        _ if is_never_sent(error) => StoreError::Unavailable(describe(error)),
        SdkError::ConstructionFailure(_) => StoreError::Misconfigured(describe(error)),
        _ => StoreError::OutcomeUnknown(describe(error)),
    })
}

fn of_service<E: Details>(error: &E) -> Refused {
    let why = || {
        let (code, message) = code_and_message(error);
        format!("{code}: {message}")
    };
    Refused::Other(match error.code().unwrap_or_default() {
        "ConditionalCheckFailedException" => return Refused::Condition(error.found().cloned()),
        "TransactionCanceledException" => return cancelled(error.cancellation_reasons(), why()),
        code if is_throttle(code) => StoreError::Throttled(throttle(error.throttling_reasons())),
        "TransactionConflictException" | "TransactionInProgressException" => StoreError::Conflict,
        "ValidationException"
        | "SerializationException"
        | "ItemCollectionSizeLimitExceededException" => StoreError::Rejected(why()),
        "RequestExpired" => StoreError::Unavailable(why()),
        "InvalidSignatureException"
            if is_signed_at_another_time(error.message().unwrap_or_default()) =>
        {
            StoreError::Unavailable(why())
        }
        "ResourceNotFoundException"
        | "AccessDeniedException"
        | "InvalidSignatureException"
        | "UnrecognizedClientException"
        | "MissingAuthenticationTokenException"
        | "IncompleteSignatureException"
        | "ExpiredTokenException" => StoreError::Misconfigured(why()),
        // InternalServerError, ServiceUnavailable, and codes that DynamoDB may add.
        _ => StoreError::OutcomeUnknown(why()),
    })
}

/// A cancelled transaction had no effect, whatever the reasons. They come in the order of its parts.
fn cancelled(reasons: &[CancellationReason], why: String) -> Refused {
    let codes = || reasons.iter().filter_map(CancellationReason::code);
    if codes().any(|code| code == "ConditionalCheckFailed") {
        let parts = reasons.iter().map(|reason| {
            let failed = reason.code() == Some("ConditionalCheckFailed");
            failed.then(|| reason.item().cloned())
        });
        return Refused::Cancelled(parts.collect());
    }
    Refused::Other(if codes().any(|code| code == "TransactionConflict") {
        StoreError::Conflict
    } else if codes().any(|code| THROTTLES.contains(&code)) {
        // Transactions do not say which limit was hit.
        StoreError::Throttled(Throttle::unknown())
    } else if let Some((code, reason)) = reasons.iter().find_map(rejection) {
        StoreError::Rejected(reason.message().map_or(why, |message| format!("{code}: {message}")))
    } else {
        StoreError::Unavailable(why)
    })
}

/// Why a part of a transaction is rejected for what is in it, with its code.
fn rejection(reason: &CancellationReason) -> Option<(&str, &CancellationReason)> {
    let code = reason.code()?;
    (code == "ValidationError" || code.starts_with("ItemCollection")).then_some((code, reason))
}

/// The reasons for which a part of a transaction is throttled.
const THROTTLES: [&str; 2] = ["ProvisionedThroughputExceeded", "ThrottlingError"];

/// What it means that `operation`, which reads throttles or changes an alarm, failed after the SDK's
/// retries. It may be repeated, so only errors that will not pass are told apart.
pub fn of_watch<E, R>(operation: &str, error: &SdkError<E, R>) -> StoreError
where
    E: ProvideErrorMetadata + StdError + 'static,
    R: std::fmt::Debug + 'static,
{
    let SdkError::ServiceError(context) = error else {
        let why = format!("{operation}: {}", describe(error));
        return match error {
            SdkError::ConstructionFailure(_) => StoreError::Misconfigured(why),
            _ => StoreError::Unavailable(why),
        };
    };
    let (code, message) = code_and_message(context.err());
    let why = format!("{operation}: {code}: {message}");
    // CloudWatch's codes come with and without "Exception", by protocol.
    match code.trim_end_matches("Exception") {
        "InvalidSignature" | "SignatureDoesNotMatch" if is_signed_at_another_time(message) => {
            StoreError::Unavailable(why)
        }
        "AccessDenied"
        | "ResourceNotFound"
        | "InvalidSignature"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClient"
        | "InvalidClientTokenId"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "ExpiredToken"
        | "Validation"
        | "ValidationError"
        | "InvalidParameterValue"
        | "InvalidParameterCombination"
        | "MissingParameter"
        | "MissingRequiredParameter"
        | "UnknownOperation" => StoreError::Misconfigured(why),
        _ => StoreError::Unavailable(why),
    }
}

/// The code and the message by which a service refused a request; `None` of any other failure.
pub fn service_error<E, R>(error: &SdkError<E, R>) -> Option<(&str, &str)>
where
    E: ProvideErrorMetadata,
{
    let SdkError::ServiceError(context) = error else { return None };
    Some(code_and_message(context.err()))
}

/// A refusal in one sentence that says what to do.
pub fn remedied(code: &str, message: &str) -> String {
    let message = first_line(message);
    let remedy = if is_signed_at_another_time(message) || code == "RequestExpired" {
        "the local clock is wrong: synchronise it with a time server"
    } else if is_throttle(code) || code.starts_with("Internal") || code == "ServiceUnavailable" {
        "run the command again"
    } else {
        "renew the credentials"
    };
    format!("{code}: {}; {remedy}", message.trim_end_matches('.'))
}

/// Whether a request was refused because there were too many.
pub fn is_throttle(code: &str) -> bool {
    matches!(
        code,
        "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "ThrottlingException"
            | "Throttling"
    )
}

/// Whether a request was refused because it was dated too long ago.
pub(crate) fn is_expired<E, R>(error: &SdkError<E, R>) -> bool
where
    E: ProvideErrorMetadata,
{
    service_error(error).is_some_and(|(code, message)| is_expired_by(code, message))
}

/// Whether a refusal with this code and this message is for a date that is too long ago.
pub fn is_expired_by(code: &str, message: &str) -> bool {
    code == "RequestExpired"
        || (code == "InvalidSignatureException" && is_signature_expired(message))
}

/// Whether this is the message for a signature that is too old.
pub fn is_signature_expired(message: &str) -> bool {
    message.starts_with("Signature expired")
}

/// Whether nobody answered a request, or not in time.
pub fn is_without_answer<E, R>(error: &SdkError<E, R>) -> bool {
    matches!(error, SdkError::DispatchFailure(_) | SdkError::TimeoutError(_))
}

fn throttle(reasons: &[ThrottlingReason]) -> Throttle {
    reasons
        .iter()
        .find_map(|r| Some(Throttle::from_reason(r.reason()?, r.resource().map(str::to_owned))))
        .unwrap_or_else(Throttle::unknown)
}

/// Whether something failed since no connection came to be, or since there were no credentials to sign with, so that nothing was
/// sent.
pub fn is_never_sent(error: &(dyn StdError + 'static)) -> bool {
    in_chain(error, |cause| is_without_connection(cause) || cause.is::<CredentialsError>())
}

/// Whether no connection came to be, so that nothing was sent: the host is unknown, nobody listens
/// there, the connection took too long, or TLS could not be agreed on.
fn is_without_connection(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<HttpError>().is_some_and(HttpError::is_connect)
}

/// Whether a signature was refused for its time alone: the request came late, or a clock is wrong. A
/// signature by other credentials is refused with the same code (AWS Identity and Access Management
/// User Guide, "Troubleshoot Signature Version 4 signed requests for AWS APIs").
fn is_signed_at_another_time(message: &str) -> bool {
    is_signature_expired(message) || message.starts_with("Signature not yet current")
}

fn code_and_message<E: ProvideErrorMetadata>(error: &E) -> (&str, &str) {
    (error.code().unwrap_or("unknown"), first_line(error.message().unwrap_or_default()))
}

/// What may be printed of a message. Where a signature does not match, the lines after the first
/// repeat the request, with the security token.
fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

fn in_chain(
    error: &(dyn StdError + 'static),
    is: impl Fn(&(dyn StdError + 'static)) -> bool,
) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if is(error) {
            return true;
        }
        next = error.source();
    }
    false
}

fn describe(error: &(dyn StdError + 'static)) -> String {
    causes(error)
}

/// An error and what led to it, in one line.
pub fn causes(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

macro_rules! details {
    ($($error:ident $($found:ident)? $([$cancelled:ident])?;)+) => {$(
        impl Details for $error {
            fn throttling_reasons(&self) -> &[ThrottlingReason] {
                match self {
                    Self::ProvisionedThroughputExceededException(e) => e.throttling_reasons(),
                    Self::RequestLimitExceeded(e) => e.throttling_reasons(),
                    Self::ThrottlingException(e) => e.throttling_reasons(),
                    _ => &[],
                }
            }

            fn found(&self) -> Option<&HashMap<String, AttributeValue>> {
                $(if let Self::$found(e) = self { return e.item(); })?
                None
            }

            fn cancellation_reasons(&self) -> &[CancellationReason] {
                $(if let Self::$cancelled(e) = self { return e.cancellation_reasons(); })?
                &[]
            }
        }
    )+};
}

details! {
    PutItemError ConditionalCheckFailedException;
    DeleteItemError ConditionalCheckFailedException;
    UpdateItemError ConditionalCheckFailedException;
    GetItemError;
    QueryError;
    ScanError;
    BatchGetItemError;
    TransactGetItemsError [TransactionCanceledException];
    TransactWriteItemsError [TransactionCanceledException];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message went on with the canonical request, which has the security token, and whoever had
    /// a wrong clock was told to look at the credentials.
    #[test]
    fn regression_a_refusal_printed_the_security_token() {
        let mismatch = "The request signature we calculated does not match.\n\n\
            The Canonical String should have been\nx-amz-security-token:secret";
        assert_eq!(
            remedied("InvalidSignatureException", mismatch),
            "InvalidSignatureException: The request signature we calculated does not match; renew \
             the credentials"
        );
        for (code, message, remedy) in [
            ("SignatureDoesNotMatch", "Signature expired: a is now earlier than b", "clock"),
            ("InvalidSignatureException", "Signature not yet current: a is later", "clock"),
            ("RequestExpired", "Request has expired.", "clock"),
            ("Throttling", "Rate exceeded", "again"),
            ("ExpiredToken", "The security token included in the request is expired", "renew"),
        ] {
            let text = remedied(code, message);
            assert!(text.rsplit_once("; ").is_some_and(|(_, r)| r.contains(remedy)), "{text}");
        }
    }
}
