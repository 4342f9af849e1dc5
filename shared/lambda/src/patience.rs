use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::Reading;

/// For how long an environment goes on trying what DynamoDB throttles, in requests for single items: a
/// retry budget, as in [Handling Overload](https://sre.google/sre-book/handling-overload/).
///
/// An environment that tries waits for most of the time, and serves nobody else. If each request to a hot
/// key were tried for seconds, those that are too many would take all environments that the account has,
/// and cold keys would wait for them. So trying takes a tenth of an environment's time at most, and what it
/// has no patience for is answered 429 at once.
#[derive(Debug)]
pub struct Patience(Mutex<Left>);

#[derive(Debug, Clone, Copy)]
struct Left {
    time: Duration,
    /// When that was left, on the boot clock.
    as_of: Duration,
}

/// The most that is saved up.
const MOST: Duration = Duration::from_millis(250);

/// The part of its time that an environment spends on trying, at most: one of so many.
const ONE_OF: u32 = 10;

impl Patience {
    /// An environment's that has tried nothing yet.
    pub fn new(now: Reading) -> Self {
        Self(Mutex::new(Left { time: MOST, as_of: now.boot }))
    }

    /// What is left of it.
    pub fn left(&self, now: Reading) -> Duration {
        let mut left = self.lock();
        let earned = now.boot.saturating_sub(left.as_of) / ONE_OF;
        *left = Left { time: (left.time + earned).min(MOST), as_of: left.as_of.max(now.boot) };
        left.time
    }

    /// Takes note of a request that was tried for so long, in vain.
    pub fn spend(&self, time: Duration) {
        let mut left = self.lock();
        left.time = left.time.saturating_sub(time);
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Reading {
        let boot = Duration::from_millis(millis);
        Reading { boot, wall: boot, server_secs: None }
    }

    #[test]
    fn trying_in_vain_takes_a_tenth_of_an_environments_time() {
        let patience = Patience::new(at(0));
        let (mut now, mut tried) = (0, Duration::ZERO);
        while now < 60_000 {
            let left = patience.left(at(now));
            patience.spend(left);
            tried += left;
            now += u64::try_from(left.as_millis()).expect("small") + 5;
        }
        let most = MOST + Duration::from_secs(6);
        assert!(tried <= most && tried >= most.mul_f64(0.9), "{tried:?} of a minute");
    }

    #[test]
    fn what_was_saved_up_is_no_more_than_the_most() {
        let patience = Patience::new(at(0));
        patience.spend(Duration::from_secs(9));
        assert_eq!(patience.left(at(0)), Duration::ZERO);
        assert_eq!(patience.left(at(1_000)), Duration::from_millis(100));
        assert_eq!(patience.left(at(60_000)), MOST);
    }
}
