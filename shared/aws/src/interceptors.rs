use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

fn date_secs(context: &BeforeDeserializationInterceptorContextRef<'_>) -> Option<u64> {
    let date = httpdate::parse_http_date(context.response().headers().get("date")?).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}
