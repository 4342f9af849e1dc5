//! What watches requests on their way, and their answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat as Format};
use aws_smithy_runtime_api::box_error::BoxError;
use dynashard_core::ports::Clock;
use dynashard_core::{Lease, NoServerTime};

use crate::clock::{self, ServerClock, SystemClock};
use crate::signing::SigningTime;

/// Notes the `Date` of every answer.
#[derive(Debug)]
pub struct DateWatch {
    server_clock: ServerClock,
}

impl DateWatch {
    /// Notes them in this clock.
    pub fn new(server_clock: ServerClock) -> Self {
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

/// Dates a request by its lease, and holds it back once it is signed if its lease has run out, or if its date is ahead of
/// what the lease allows. The check runs after signing and before sending, so every request that is sent was signed before
/// its lease ended, and is executed within H of that if at all (protocol: "Lease").
#[derive(Debug)]
pub(crate) struct LeaseCheck {
    pub(crate) lease: Lease,
    pub(crate) clock: SystemClock,
}

impl Intercept for LeaseCheck {
    fn name(&self) -> &'static str {
        "LeaseCheck"
    }

    fn read_before_signing(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match self.lease.date_secs(self.clock.now()) {
            Ok(None) => {}
            Ok(Some(secs)) => {
                config.interceptor_state().store_put(SigningTime::of(secs));
            }
            Err(NoServerTime) => return Err(LeaseRanOut.into()),
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = self.clock.now();
        if !self.lease.is_live(now) {
            return Err(LeaseRanOut.into());
        }
        let date_secs = context.request().headers().get("x-amz-date").and_then(signing_secs);
        match date_secs.filter(|date_secs| !self.lease.allows_date(now, *date_secs)) {
            Some(_) => Err(DatedAhead.into()),
            None => Ok(()),
        }
    }
}

/// Dates a request so, in epoch seconds.
#[derive(Debug)]
pub(crate) struct DateOverride(pub(crate) u64);

impl Intercept for DateOverride {
    fn name(&self) -> &'static str {
        "DateOverride"
    }

    fn read_before_signing(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(SigningTime::of(self.0));
        Ok(())
    }
}

/// The error of the check of leases for a clock that is wrong, which `error.rs` looks for inside the SDK's error.
#[derive(Debug)]
pub struct DatedAhead;

impl fmt::Display for DatedAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock of this machine is ahead of DynamoDB's by seconds: nothing is written before it is right")
    }
}

impl std::error::Error for DatedAhead {}

/// The error of [`LeaseCheck`], which `error.rs` looks for inside the SDK's error.
#[derive(Debug)]
pub(crate) struct LeaseRanOut;

impl fmt::Display for LeaseRanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata lease ran out before the request was sent")
    }
}

impl std::error::Error for LeaseRanOut {}

/// The date of a signature, such as `20261125T074414Z`, in epoch seconds.
fn signing_secs(date: &str) -> Option<u64> {
    let parsed = DateTime::from_str(&with_separators(date)?, Format::DateTime).ok()?;
    u64::try_from(parsed.secs()).ok()
}

/// The date in the form of RFC 3339.
fn with_separators(date: &str) -> Option<String> {
    let part = |range: std::ops::Range<usize>| date.get(range);
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, second) = (part(9..11)?, part(11..13)?, part(13..15)?);
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// The `Date` of an answer, in epoch seconds.
pub fn date_secs(context: &BeforeDeserializationInterceptorContextRef<'_>) -> Option<u64> {
    clock::date_secs(context.response().headers().get("date")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_a_signature_is_read() {
        assert_eq!(signing_secs("20261125T074414Z"), Some(1_795_592_654));
        for wrong in ["", "20261325T074414Z", "2026-11-25T07:44:14Z"] {
            assert_eq!(signing_secs(wrong), None, "{wrong}");
        }
    }
}
