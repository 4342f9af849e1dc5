//! Chance that can be repeated.

/// splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Even over 0 to 1.
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(u32::MAX);
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// How many of events with this mean come about: as Poisson has it, and nearly so where there are many.
    pub(super) fn arrivals(&mut self, mean: f64) -> f64 {
        const MANY: f64 = 30.0;
        if mean < MANY {
            // Events follow each other until their time is over (Knuth).
            let (mut events, mut left) = (0.0, self.uniform());
            while left > (-mean).exp() {
                left *= self.uniform();
                events += 1.0;
            }
            return events;
        }
        // Twelve even draws have a variance of 1.
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (mean + mean.sqrt() * normal).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn regression_few_arrivals_were_none_or_too_many() {
        let mut chance = Chance::new(1);
        for mean in [0.01, 0.05, 0.2, 0.5, 2.0, 29.0, 40.0] {
            let sum = (0..100_000).map(|_| chance.arrivals(mean)).sum::<f64>();
            let off = sum / (100_000.0 * mean) - 1.0;
            assert!(off.abs() < 0.1, "{mean}: {off}");
        }
        assert!(chance.arrivals(0.0) < 1.0);
    }
}
