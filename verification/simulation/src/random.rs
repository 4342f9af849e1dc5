//! Chance, by a seed.

use std::time::Duration;

use dynashard_core::ports::Entropy;
use dynashard_testkit::SeededEntropy;

/// Draws of one sequence of chance.
#[derive(Debug)]
pub(crate) struct Random(SeededEntropy);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    pub(crate) fn next_u64(&self) -> u64 {
        self.0.next_u64()
    }

    /// An even draw from `0..bound`, where `bound` is above zero.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// An even draw from both bounds and everything between them.
    pub(crate) fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// An index of a slice of this length, which is above zero.
    pub(crate) fn index(&self, length: usize) -> usize {
        let bound = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Whether something happens that has this many chances in a million.
    pub(crate) fn chance(&self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }

    pub(crate) fn duration(&self, least: Duration, most: Duration) -> Duration {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.between(nanos(least), nanos(most.max(least))))
    }

    /// A time of which the short ones are as likely as the long ones: first its order of magnitude
    /// is drawn, and then the time.
    pub(crate) fn any_scale(&self, most: Duration) -> Duration {
        let shift = u32::try_from(self.below(12)).unwrap_or(0);
        self.duration(Duration::ZERO, most / (1 << shift))
    }
}
