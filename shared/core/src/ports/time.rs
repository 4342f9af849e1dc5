//! Time and chance.

use std::future::Future;
use std::time::Duration;

use crate::model::lease::Reading;

/// Time, as three clocks tell it.
pub trait Clock: Send + Sync {
    /// Reads the clocks.
    fn now(&self) -> Reading;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Chance.
pub trait Entropy: Send + Sync {
    /// A uniformly random number. Versions are drawn from it, so two environments must never draw
    /// the same sequence.
    fn next_u64(&self) -> u64;
}
