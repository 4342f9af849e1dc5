//! Chance that can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};

use dynashard_core::ports::Entropy;

/// Chance that can be repeated: splitmix64 (Steele, Lea and Flood, 2014). Two seeds never give the
/// same sequence, so two writers of one test never draw the same versions in step.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence of this seed, from its beginning.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_seed_zero_is_the_published_one() {
        let entropy = SeededEntropy::new(0);
        let drawn = [entropy.next_u64(), entropy.next_u64(), entropy.next_u64()];
        assert_eq!(drawn, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
    }
}
