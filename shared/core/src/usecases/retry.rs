//! What is sent again, when, and for how long; and what an error of a store means to whoever asked.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::model::error::{Code, Error};
use crate::model::lease::{Deadline, Moment};
use crate::ports::{Clock, Entropy, StoreError};

/// Exponential back-off with full jitter: a delay drawn evenly between zero and a bound that
/// doubles with every attempt (AWS Architecture Blog, "Exponential Backoff And Jitter").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The bound of the first delay.
    pub(crate) base: Duration,
    /// The bound that no delay exceeds.
    pub(crate) cap: Duration,
}

impl Backoff {
    /// For requests that DynamoDB refused: its own answer takes a few milliseconds, and a partition
    /// refills every second.
    pub(crate) const STANDARD: Self =
        Self { base: Duration::from_millis(25), cap: Duration::from_secs(1) };

    /// The delay after attempt number `attempt` (from 0), given a uniformly random `draw`.
    pub(crate) fn delay(&self, attempt: u32, draw: u64) -> Duration {
        drawn(self.base.saturating_mul(2_u32.saturating_pow(attempt)).min(self.cap), draw)
    }
}

/// A part of this time, given a uniformly random `draw`.
pub(crate) fn drawn(bound: Duration, draw: u64) -> Duration {
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    let scaled = (u128::from(draw) * u128::from(nanos)) >> 64;
    Duration::from_nanos(u64::try_from(scaled).unwrap_or(nanos))
}

/// One operation's attempts: how many there were, and whether there is time for another.
pub(crate) struct Attempts<'a> {
    clock: &'a dyn Clock,
    entropy: &'a dyn Entropy,
    deadline: Deadline,
    backoff: Backoff,
    made: u32,
    at_most: u32,
    refreshes: u32,
    /// When the first fault was answered, on the boot clock.
    first_fault: Option<Duration>,
}

/// How often an operation may find that an item is ahead of the metadata before it gives up
/// (assumption A4 of the protocol).
const MAX_REFRESHES: u32 = 5;

impl<'a> Attempts<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, entropy: &'a dyn Entropy, deadline: Deadline) -> Self {
        let (backoff, at_most) = (Backoff::STANDARD, u32::MAX);
        Self {
            clock,
            entropy,
            deadline,
            backoff,
            made: 0,
            at_most,
            refreshes: 0,
            first_fault: None,
        }
    }

    /// These attempts with other pauses than the standard ones.
    pub(crate) fn pausing(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// These attempts, for an operation that gives up after so many attempts though there be time left.
    pub(crate) fn at_most(self, attempts: u32) -> Self {
        Self { at_most: attempts, ..self }
    }

    /// From now on, what is throttled is given up as late as the move of an item is.
    pub(crate) fn wait_as_for_a_move(&mut self) {
        self.deadline = self.deadline.of_settling();
    }

    /// For how long what is throttled may be tried yet.
    pub(crate) fn patience(&self, now: Moment) -> Duration {
        self.deadline.of_throttled().remaining(now)
    }

    /// Makes a request until it is answered, with a pause after each refusal. `why_late` says what
    /// could not be done if the deadline passes meanwhile.
    pub(crate) async fn make<T, F>(
        &mut self,
        request: impl Fn() -> F,
        why_late: &str,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match within(self.clock, self.deadline, request()).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => self.pause(refusal(error)?).await?,
                None => return Err(Error::new(Code::Unavailable, why_late)),
            }
        }
    }

    /// Waits before the next attempt, or returns `refusal` if there is to be none: the deadline
    /// leaves no time for it, or enough were made. What is throttled may have an earlier one
    /// ([`Deadline::of_throttled`]), and so may what is answered with faults ([`Deadline::if_faulty`]).
    pub(crate) async fn pause(&mut self, refusal: Error) -> Result<(), Error> {
        let delay = self.backoff.delay(self.made, self.entropy.next_u64());
        self.made = self.made.saturating_add(1);
        let is_spent = self.made >= self.at_most;
        let now = self.clock.now();
        let deadline = match refusal.code() {
            Code::Throttled => self.deadline.of_throttled(),
            _ if refusal.is_fault() => {
                self.deadline.of_faulty(*self.first_fault.get_or_insert(now.boot))
            }
            _ => self.deadline,
        };
        if is_spent || delay >= deadline.remaining(now) {
            return Err(refusal);
        }
        self.clock.sleep(delay).await;
        Ok(())
    }

    /// As [`Attempts::pause`], for an item that is ahead of the metadata: metadata is read again
    /// at once, but not for ever.
    pub(crate) async fn refresh(&mut self) -> Result<(), Error> {
        self.refreshes += 1;
        if self.refreshes > MAX_REFRESHES {
            return Err(Error::new(
                Code::MetadataBehind,
                "items carry a generation above their collection's metadata; \
                 was the metadata table restored or deleted alone?",
            ));
        }
        // Metadata that was not read again is not known to be behind.
        let why = "the collection was resharded, and no time is left to begin again";
        self.pause(Error::new(Code::DeadlineExceeded, why)).await
    }
}

/// The future's output, or `None` if the deadline passes first. Past the deadline nothing is begun.
pub(crate) async fn within<F: Future>(
    clock: &dyn Clock,
    deadline: Deadline,
    future: F,
) -> Option<F::Output> {
    let left = deadline.remaining(clock.now());
    if left.is_zero() {
        return None;
    }
    let timeout = clock.sleep(left);
    match select(pin!(future), pin!(timeout)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(((), _)) => None,
    }
}

/// The answer to one request that is not tried again, or the error `why` if the deadline passes first.
pub(crate) async fn once<T>(
    clock: &dyn Clock,
    deadline: Deadline,
    request: impl Future<Output = Result<T, StoreError>>,
    why: &'static str,
) -> Result<T, Error> {
    match within(clock, deadline, request).await {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(error.into()),
        None => Err(Error::new(Code::Unavailable, why)),
    }
}

/// What a request that is not sent again has failed with.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        refusal(error).unwrap_or_else(|error| error)
    }
}

/// What an error of a store means. `Ok`: the request did nothing and may be sent again, and this is the error when no time is
/// left for that. `Err`: another attempt would not help.
pub(crate) fn refusal(error: StoreError) -> Result<Error, Error> {
    match error {
        StoreError::Throttled(throttle) => Ok(Error::throttled(throttle)),
        StoreError::Conflict => {
            Ok(Error::new(Code::Contended, "a transaction on the same item was running"))
        }
        StoreError::LeaseExpired => Ok(Error::new(
            Code::Unavailable,
            "the metadata lease ran out before the request was sent",
        )),
        StoreError::Unavailable(why) => Ok(Error::fault(why)),
        StoreError::OutcomeUnknown(why) => Err(Error::new(Code::OutcomeUnknown, why)),
        StoreError::Corrupt(what) => Err(Error::new(Code::CorruptData, what)),
        StoreError::Rejected(why) => {
            Err(Error::new(Code::RequestRejected, format!("DynamoDB rejected a request: {why}")))
        }
        StoreError::Misconfigured(what) => Err(Error::new(Code::Internal, what)),
        StoreError::ConditionFailed { .. } => Err(Error::new(
            Code::Internal,
            "DynamoDB reports a failed condition on a request that had none",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_fill_the_range_up_to_a_doubling_bound() {
        let backoff = Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(100) };
        assert_eq!(backoff.delay(0, 0), Duration::ZERO);
        assert_eq!(backoff.delay(0, 1 << 63), Duration::from_millis(5));
        assert_eq!(backoff.delay(3, 1 << 63), Duration::from_millis(40));
        assert!(backoff.delay(4, u64::MAX) < Duration::from_millis(100));
        assert!(backoff.delay(u32::MAX, u64::MAX) > Duration::from_millis(99), "no overflow");
    }
}
