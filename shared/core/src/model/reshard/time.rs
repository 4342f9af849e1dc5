//! DynamoDB's time, and the waits of the protocol.

use std::time::Duration;

use crate::model::lease::leases_end;
use crate::model::settings::Settings;

/// A second of DynamoDB's clock, from the `Date` of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(pub u64);

impl ServerTime {
    /// What has certainly passed since `earlier`: `Date` headers are cut to whole seconds, so two
    /// that differ by n are only more than n - 1 seconds apart.
    pub fn certainly_since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0).saturating_sub(1))
    }

    /// The earliest second at which `wait` has certainly passed since this one.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        let whole_secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self(self.0.saturating_add(whole_secs).saturating_add(1))
    }
}

/// The waits of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// T': no lease outlives a change of metadata by more.
    pub leases_end: Duration,
    /// H: how long after its signing a request may still be executed.
    pub request_lifetime: Duration,
    /// By how much writes are dated back. Only with an age may H be short where DynamoDB itself takes part.
    pub signature_age: Duration,
}

/// The longest that an eventually consistent read of the table is assumed to lag behind (protocol: "Assumptions", A5).
const EVENTUAL_LAG: Duration = Duration::from_secs(30);

/// How many times as long as a close waits for A5 a read replica lags behind, at most (protocol: "Assumptions", A6).
const REPLICA_LAGS: u32 = 30;

/// V: how long after a transaction both its halves are visible at the latest (protocol: "Assumptions", A3).
const VISIBLE: Duration = Duration::from_secs(10);

/// The shortest H of requests that are not dated back, but on one machine: DynamoDB takes them for five minutes.
const SHORTEST_UNDATED: Duration = Duration::from_mins(6);

impl Waits {
    /// What passes between the end of the closing scan and the close. From the close on eventually consistent reads look
    /// at the new homes alone, so they have to see what arrived there (A5).
    pub fn before_close(&self) -> Duration {
        self.leases_end.max(self.assumed(EVENTUAL_LAG))
    }

    /// How long after the last change of a collection its read replicas are not asked, so that each has what has arrived at a new
    /// home (A6).
    pub(crate) fn replicas_catch_up(&self) -> Duration {
        REPLICA_LAGS * self.before_close()
    }

    /// For how long after `move` was seen a request under the old layout may be executed: it may be signed for T', and lives
    /// for H. In whole seconds, as it is stored.
    pub fn old_requests(&self) -> Duration {
        let time = self.leases_end + self.request_lifetime;
        Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
    }

    /// V, and T' at least.
    pub(crate) fn visible(&self) -> Duration {
        self.leases_end.max(self.assumed(VISIBLE))
    }

    /// What is assumed of DynamoDB. Where H is shorter than it can be there, for tests on one machine, it is taken to be as
    /// much shorter.
    fn assumed(&self, time: Duration) -> Duration {
        let is_one_machine =
            self.signature_age.is_zero() && self.request_lifetime < SHORTEST_UNDATED;
        if is_one_machine { time.min(self.request_lifetime / 32) } else { time }
    }

    /// The waits under these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            leases_end: leases_end(settings.lease_term),
            request_lifetime: settings.request_lifetime,
            signature_age: settings.signature_age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant I11.
    #[test]
    fn two_dates_prove_a_second_less_than_they_differ_by() {
        let wait = Duration::from_millis(6_050);
        let seen = ServerTime(100);
        assert_eq!(seen.plus(wait), ServerTime(108));
        assert!(ServerTime(107).certainly_since(seen) < wait);
        assert!(seen.plus(wait).certainly_since(seen) >= wait);
    }
}
