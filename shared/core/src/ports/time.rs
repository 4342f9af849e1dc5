//! Time and chance.

use std::time::Duration;

use async_trait::async_trait;

use crate::model::lease::Moment;

/// Time, as three clocks tell it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Reads the clocks.
    fn now(&self) -> Moment;

    /// Completes after `duration`.
    async fn sleep(&self, duration: Duration);
}

/// Chance.
pub trait Entropy: Send + Sync {
    /// A uniformly random number. Versions are drawn from it, so two environments must never draw
    /// the same sequence.
    fn next_u64(&self) -> u64;
}
