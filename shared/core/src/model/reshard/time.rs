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
    /// T': no lease outlives a change of metadata by more. Also V: how long after a transaction both
    /// its halves are visible.
    pub leases_end: Duration,
    /// H: how long after its signing a request may still be executed.
    pub request_lifetime: Duration,
}

/// The longest that a replica which answers eventually consistent reads is assumed to lag behind (protocol: "Assumptions",
/// A5).
const REPLICA_LAG: Duration = Duration::from_secs(30);

impl Waits {
    /// What passes between the end of the closing scan and the close. From the close on eventually consistent reads look
    /// at the new homes alone, so every replica has to have what arrived there (A5). Where H is shorter, for tests on one
    /// machine, lags are taken to be as much shorter.
    pub(crate) fn before_close(&self) -> Duration {
        self.leases_end.max(REPLICA_LAG.min(self.request_lifetime / 32))
    }

    /// The waits under these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            leases_end: leases_end(settings.lease_term),
            request_lifetime: settings.request_lifetime,
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
