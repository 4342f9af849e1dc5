//! The age of a request's signature, as DynamoDB judges it.
//!
//! Only the signing time counts here. The signature itself is not verified: the stack has no
//! secrets to verify it with.

use std::time::{Duration, SystemTime};

use http::header::{AUTHORIZATION, DATE};
use http::request::Parts;
use time::PrimitiveDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use super::refusal::Refusal;
use crate::clock;
use crate::server::query_parameter;

/// Refuses a request that was signed more than `window` before `now`, more than 15 minutes after
/// it, or at a time that cannot be read. A request without a signing time passes.
pub(super) fn check(parts: &Parts, window: Duration, now: SystemTime) -> Result<(), Refusal> {
    let Some(text) = signing_time(parts) else {
        return Ok(());
    };
    let Some(signed) = parse(&text) else {
        return Err(Refusal::new(
            "com.amazon.coral.service#IncompleteSignatureException",
            format!("Date must be in ISO-8601 'basic format'. Got '{text}'."),
        ));
    };
    let message = if now > signed + window {
        format!(
            "Signature expired: {} is now earlier than {} ({} - {}.)",
            format(signed),
            format(now - window),
            format(now),
            span(window),
        )
    } else if signed > now + MAX_AHEAD {
        format!(
            "Signature not yet current: {} is still later than {} ({} + {}.)",
            format(signed),
            format(now + MAX_AHEAD),
            format(now),
            span(MAX_AHEAD),
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new("com.amazon.coral.service#InvalidSignatureException", message))
}

/// How far a client's clock may be ahead of the server's.
const MAX_AHEAD: Duration = Duration::from_mins(15);

/// ISO 8601 without separators, as AWS signatures have it.
const BASIC_FORMAT: StaticFormatDescription =
    format_description!("[year][month][day]T[hour][minute][second]Z");

/// The signing time as the request has it: in a header where the signature is in one,
/// otherwise in the query.
fn signing_time(parts: &Parts) -> Option<String> {
    if parts.headers.contains_key(AUTHORIZATION) {
        let header = parts.headers.get("x-amz-date").or_else(|| parts.headers.get(DATE))?;
        return Some(String::from_utf8_lossy(header.as_bytes()).into_owned());
    }
    query_parameter(&parts.uri, "X-Amz-Date")
}

fn parse(text: &str) -> Option<SystemTime> {
    match PrimitiveDateTime::parse(text, BASIC_FORMAT) {
        Ok(time) => Some(time.assume_utc().into()),
        // A Date header may be signed instead, in its own format.
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}

fn format(time: SystemTime) -> String {
    clock::format(time, BASIC_FORMAT)
}

/// A duration in the words of the error message.
fn span(duration: Duration) -> String {
    match duration.as_secs() {
        secs if secs % 60 == 0 => format!("{} min", secs / 60),
        secs => format!("{secs} sec"),
    }
}
