use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use dynashard_core::Lease;
use dynashard_core::ports::Clock;

use crate::clock::{ServerClock, SystemClock};

/// Notes the `Date` of every answer.
#[derive(Debug)]
pub(crate) struct DateWatch {
    server_clock: ServerClock,
}

impl DateWatch {
    pub(crate) fn new(server_clock: ServerClock) -> Self {
        Self { server_clock }
    }
}

impl Intercept for DateWatch {
    fn name(&self) -> &'static str {
        "DateWatch"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(secs) = date_secs(context) {
            self.server_clock.note(secs);
        }
        Ok(())
    }
}

/// Keeps the `Date` of one answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct DateProbe(Arc<AtomicU64>);

impl DateProbe {
    pub(crate) fn secs(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|secs| *secs > 0)
    }
}

impl Intercept for DateProbe {
    fn name(&self) -> &'static str {
        "DateProbe"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.store(date_secs(context).unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    }
}

/// What is seen of a request and its answer beside what the SDK returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Witnessed {
    /// The server that the request was sent to, as `host` or `host:port`.
    pub(crate) server: Option<String>,
    /// The `Date` of the answer, in epoch seconds.
    pub(crate) date_secs: Option<u64>,
}

/// Watches the one request that a client has under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerWatch(Arc<Mutex<Witnessed>>);

impl AnswerWatch {
    /// What was seen since the last time.
    pub(crate) fn take(&self) -> Witnessed {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut Witnessed)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Intercept for AnswerWatch {
    fn name(&self) -> &'static str {
        "AnswerWatch"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let uri = context.request().uri().parse::<http::Uri>().ok();
        self.note(|witnessed| witnessed.server = uri.as_ref().and_then(host_and_port));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date_secs = date_secs(context);
        self.note(|witnessed| witnessed.date_secs = date_secs);
        Ok(())
    }
}

/// Holds back a signed request whose lease has run out. The check runs after signing and before
/// sending, so every request that is sent was signed before its lease ended (protocol: "Lease").
#[derive(Debug)]
pub(crate) struct LeaseCheck {
    pub(crate) lease: Lease,
    pub(crate) clock: SystemClock,
}

impl Intercept for LeaseCheck {
    fn name(&self) -> &'static str {
        "LeaseCheck"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.lease.is_live(self.clock.now()) { Ok(()) } else { Err(LeaseRanOut.into()) }
    }
}

/// The error of [`LeaseCheck`], which `error.rs` looks for inside the SDK's error.
#[derive(Debug)]
pub(crate) struct LeaseRanOut;

impl fmt::Display for LeaseRanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata lease ran out before the request was sent")
    }
}

impl std::error::Error for LeaseRanOut {}

/// The authority of a URL without a user and a password, which nobody should see.
fn host_and_port(uri: &http::Uri) -> Option<String> {
    let host = uri.host()?;
    Some(match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn date_secs(context: &BeforeDeserializationInterceptorContextRef<'_>) -> Option<u64> {
    let date = httpdate::parse_http_date(context.response().headers().get("date")?).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_the_server_was_named_with_the_password_to_it() {
        for (url, server) in [
            ("http://user:password@127.0.0.1:8000/", "127.0.0.1:8000"),
            ("https://user@[::1]:8000", "[::1]:8000"),
            ("https://dynamodb.eu-west-1.amazonaws.com/", "dynamodb.eu-west-1.amazonaws.com"),
        ] {
            let named = host_and_port(&url.parse().expect("a URL"));
            assert_eq!(named.as_deref(), Some(server), "{url}");
        }
    }
}
