//! How a load is spread over keys, or over shards: pure figures.

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::numbers::float;

/// The spread of rows over the keys that have any.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) distinct: usize,
    /// The share of the rows that the busiest key has, 0 to 1. Of the load that all rows stand for, one partition
    /// has to take at least this.
    pub(super) largest_share: f64,
    /// As many keys with the same load each would be as uneven: 1 / Σ share².
    pub(super) effective: f64,
}

/// Whether items are as even over shards as chance would have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Evenness {
    pub(super) chi_square: f64,
    pub(super) degrees_of_freedom: u32,
    /// How often a fair rule would be at least as uneven.
    pub(super) p_value: f64,
}

impl Spread {
    /// Of the rows of each key.
    pub(super) fn of(rows: impl IntoIterator<Item = u64>) -> Self {
        let rows = rows.into_iter().filter(|n| *n > 0).map(float).collect::<Vec<_>>();
        let all = rows.iter().sum::<f64>().max(1.0);
        let squares = rows.iter().map(|n| (n / all).powi(2)).sum::<f64>();
        Self {
            distinct: rows.len(),
            largest_share: rows.iter().copied().fold(0.0, f64::max) / all,
            effective: if squares > 0.0 { 1.0 / squares } else { 0.0 },
        }
    }
}

impl Evenness {
    /// Pearson's chi-square test of the items in each shard, or `None` where it says nothing: of one shard, and
    /// with fewer than five items to expect in each.
    pub(super) fn of(items: &[u64]) -> Option<Self> {
        let degrees_of_freedom =
            u32::try_from(items.len()).ok()?.checked_sub(1).filter(|n| *n > 0)?;
        let expected = float(items.iter().sum::<u64>()) / float(items.len());
        if expected < 5.0 {
            return None;
        }
        let chi_square = items.iter().map(|n| (float(*n) - expected).powi(2) / expected).sum();
        let distribution = ChiSquared::new(f64::from(degrees_of_freedom)).ok()?;
        Some(Self { chi_square, degrees_of_freedom, p_value: distribution.sf(chi_square) })
    }

    /// What the test says, in words.
    pub(super) fn verdict(&self) -> &'static str {
        if self.is_uneven() {
            "the items are not spread fairly"
        } else {
            "as even as chance would have it"
        }
    }

    /// Whether a fair rule is hard to believe in.
    pub(super) fn is_uneven(&self) -> bool {
        self.p_value < 0.001
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_says_what_the_busiest_key_takes() {
        let even = Spread::of([5, 5, 0, 5, 5]);
        assert_eq!((even.distinct, even.largest_share, even.effective), (4, 0.25, 4.0));
        let hot = Spread::of([97, 1, 1, 1]);
        assert!(
            (0.969..0.971).contains(&hot.largest_share) && (1.0..1.1).contains(&hot.effective),
            "{hot:?}"
        );
        assert_eq!(Spread::of([]), Spread { distinct: 0, largest_share: 0.0, effective: 0.0 });
    }

    /// The critical values of the tables in textbooks: 3 degrees of freedom, 7.815 at 5%.
    #[test]
    fn the_chi_square_test_gives_the_values_of_the_tables() {
        let evenness = Evenness::of(&[100, 100, 100, 100]).expect("enough items");
        assert!(evenness.chi_square < 1e-9 && (evenness.p_value - 1.0).abs() < 1e-9);
        // (20² + 20²) / 100 = 8.
        let uneven = Evenness::of(&[120, 80, 100, 100]).expect("enough items");
        assert!(
            (uneven.chi_square - 8.0).abs() < 1e-9 && (0.045..0.047).contains(&uneven.p_value),
            "{uneven:?}"
        );
        assert!(!uneven.is_uneven());
        assert!(Evenness::of(&[200, 0, 100, 100]).expect("enough items").is_uneven());
        assert_eq!(Evenness::of(&[100]), None);
        assert_eq!(Evenness::of(&[4, 4, 4]), None, "too few to say anything");
    }
}
