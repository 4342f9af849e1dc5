//! How many units a second the command may consume.

use std::time::Duration;

/// A token bucket that is charged before a request, with what that is expected to take, and corrected
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Budget {
    units_per_sec: f64,
    /// Below zero for as long as the next request has to wait.
    balance: f64,
    as_of: Duration,
}

impl Budget {
    /// One with a second's units to begin with, and never more.
    pub(super) fn new(units_per_sec: u32, now: Duration) -> Self {
        let units_per_sec = f64::from(units_per_sec);
        Self { units_per_sec, balance: units_per_sec, as_of: now }
    }

    /// Takes so many units, and says how long to wait before the request.
    pub(super) fn take(&mut self, units: f64, now: Duration) -> Duration {
        let gained = now.saturating_sub(self.as_of).as_secs_f64() * self.units_per_sec;
        self.balance = (self.balance + gained).min(self.units_per_sec) - units;
        self.as_of = now;
        Duration::from_secs_f64((-self.balance / self.units_per_sec).max(0.0))
    }

    /// Puts right what a request was expected to take.
    pub(super) fn correct(&mut self, expected: f64, actual: f64) {
        self.balance += expected - actual;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_what_others_took() {
        let at = Duration::from_secs;
        let mut budget = Budget::new(100, at(0));
        assert_eq!(budget.take(100.0, at(0)), at(0), "a second's units are there at once");
        assert_eq!(budget.take(50.0, at(0)), Duration::from_millis(500));
        assert_eq!(budget.take(50.0, at(1)), at(0), "what was waited for is there");
        budget.correct(50.0, 250.0);
        assert_eq!(budget.take(0.0, at(1)), at(2));
        assert_eq!(budget.take(100.0, at(100)), at(0), "no more than a second's are saved");
        assert_eq!(budget.take(100.0, at(100)), at(1));
    }
}
