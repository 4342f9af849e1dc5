//! Chance, by a seed.

use dynashard_core::ports::Entropy;
use dynashard_testkit::SeededEntropy;

/// Draws of one sequence of chance.
#[derive(Debug)]
pub(crate) struct Random(SeededEntropy);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// A number below a bound that is above zero.
    pub(crate) fn below(&self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.next_u64() % bound).unwrap_or_default()
    }

    /// A number from both bounds and everything between them.
    pub(crate) fn between(&self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Whether something happens that has this many chances in a hundred.
    pub(crate) fn percent(&self, chances: usize) -> bool {
        self.below(100) < chances
    }

    /// Whether something happens that has this many chances in ten thousand.
    pub(crate) fn rarely(&self, chances: usize) -> bool {
        self.below(10_000) < chances
    }

    /// So many of these, in an order of their own.
    pub(crate) fn sample<T: Copy>(&self, from: &[T], count: usize) -> Vec<T> {
        let mut rest = from.to_vec();
        let drawn = (0..count.min(from.len())).map(|_| rest.swap_remove(self.below(rest.len())));
        drawn.collect()
    }
}
