//! How long an environment goes on trying what DynamoDB throttles.

use std::time::Duration;

use dynashard_core::Moment;
use parking_lot::Mutex;

/// For how long an environment goes on trying what DynamoDB throttles, in requests for single items: a
/// retry budget, as in [Handling Overload](https://sre.google/sre-book/handling-overload/).
///
/// An environment that tries waits for most of the time, and serves nobody else. If each request to a hot
/// key were tried for seconds, those that are too many would take all environments that the account has, and
/// cold keys would wait for them. So trying in vain takes about a tenth of an environment's time, and what it
/// has no patience for is answered 429 after one attempt.
#[derive(Debug)]
pub struct Patience(Mutex<Left>);

#[derive(Debug, Clone, Copy)]
struct Left {
    time: Duration,
    /// When that was left.
    as_of: Moment,
}

/// The most that is saved up.
const MOST: Duration = Duration::from_millis(250);

/// Less is of no use: it is over before the next attempt.
const LEAST: Duration = Duration::from_millis(50);

/// The part of its time that an environment spends on trying, at most: one of so many.
const ONE_OF: u32 = 10;

impl Patience {
    /// An environment's that has tried nothing yet.
    pub fn new(now: Moment) -> Self {
        Self(Mutex::new(Left { time: MOST, as_of: now }))
    }

    /// For how long the next request may be tried, from its first attempt on.
    pub fn left(&self, now: Moment) -> Duration {
        let mut left = self.0.lock();
        // The boot clock may stand while the environment is frozen.
        let boot = now.boot.saturating_sub(left.as_of.boot);
        let passed = boot.max(now.wall.saturating_sub(left.as_of.wall));
        *left = Left { time: left.time.saturating_add(passed / ONE_OF).min(MOST), as_of: now };
        if left.time < LEAST { Duration::ZERO } else { left.time }
    }

    /// Takes note of so much of what was left that a request was tried for in vain.
    pub fn spend(&self, time: Duration) {
        let mut left = self.0.lock();
        left.time = left.time.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        let boot = Duration::from_millis(millis);
        Moment { boot, wall: boot, server_secs: None }
    }

    /// Each attempt was paid for, the first one too, and earned less than it cost: where a hot key's requests
    /// followed each other nothing was ever tried again, cold keys' included.
    #[test]
    fn regression_an_environment_that_served_a_hot_key_had_no_patience_left_for_any() {
        let patience = Patience::new(at(0));
        let (mut now, mut tried) = (0, Duration::ZERO);
        while now < 60_000 {
            let left = patience.left(at(now));
            // The first attempt takes five milliseconds.
            let took = Duration::from_millis(5).max(left);
            patience.spend(took.min(left));
            tried += left;
            now += u64::try_from(took.as_millis()).expect("small");
        }
        let most = MOST + Duration::from_secs(6);
        assert!(tried <= most && tried >= most.mul_f64(0.8), "{tried:?} of a minute");
    }

    /// Lambda freezes an environment between its requests.
    #[test]
    fn regression_an_environment_that_was_frozen_got_no_patience_back() {
        let patience = Patience::new(at(0));
        patience.spend(Duration::from_secs(9));
        let thawed = Moment { wall: Duration::from_mins(1), ..at(0) };
        assert_eq!(patience.left(thawed), MOST);
    }

    #[test]
    fn what_was_saved_up_is_no_more_than_the_most_and_little_is_none() {
        let patience = Patience::new(at(0));
        patience.spend(Duration::from_secs(9));
        assert_eq!(patience.left(at(400)), Duration::ZERO);
        assert_eq!(patience.left(at(1_000)), Duration::from_millis(100));
        assert_eq!(patience.left(at(60_000)), MOST);
    }
}
