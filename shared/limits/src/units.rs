//! Capacity units, counted exactly.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

/// Capacity units, read or write, counted exactly: an eventually consistent read takes half a unit,
/// and nothing takes less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Units {
    halves: u64,
}

impl Units {
    /// Nothing.
    pub const ZERO: Self = Self::halves(0);

    /// This many half units.
    pub const fn halves(halves: u64) -> Self {
        Self { halves }
    }

    /// This many whole units.
    pub const fn whole(units: u64) -> Self {
        Self::halves(units.saturating_mul(2))
    }

    /// The number of half units.
    pub const fn as_halves(self) -> u64 {
        self.halves
    }

    /// The number as it stands in `ConsumedCapacity` and in metrics.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^52 units, years of any table")]
    pub fn as_f64(self) -> f64 {
        self.halves as f64 / 2.0
    }

    /// What is left to pay of a cost of `self` once `paid` was paid.
    #[must_use]
    pub const fn saturating_sub(self, paid: Self) -> Self {
        Self::halves(self.halves.saturating_sub(paid.halves))
    }
}

impl Add for Units {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::halves(self.halves.saturating_add(other.halves))
    }
}

impl AddAssign for Units {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Units {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self::halves(self.halves.saturating_mul(times))
    }
}

impl Sum for Units {
    fn sum<I: Iterator<Item = Self>>(units: I) -> Self {
        units.fold(Self::ZERO, Self::add)
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = if self.halves.is_multiple_of(2) { "" } else { ".5" };
        write!(f, "{}{fraction}", self.halves / 2)
    }
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_add_up_exactly() {
        let total: Units = [Units::halves(1), Units::whole(3), Units::halves(2)].into_iter().sum();
        assert_eq!(total, Units::halves(9));
        assert_eq!(total.to_string(), "4.5");
        assert!((total.as_f64() - 4.5).abs() < f64::EPSILON);
        assert_eq!(total * 2, Units::whole(9));
        assert_eq!(Units::whole(9).to_string(), "9");
    }

    #[test]
    fn what_is_left_to_pay_is_never_negative() {
        assert_eq!(Units::whole(2).saturating_sub(Units::halves(1)), Units::halves(3));
        assert_eq!(Units::halves(1).saturating_sub(Units::whole(2)), Units::ZERO);
    }
}
