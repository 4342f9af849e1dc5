//! A token bucket of capacity units.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::units::Units;

/// A token bucket whose tokens are capacity units. It may be in debt.
///
/// Levels are counted in half units times nanoseconds, in which every refill is a whole number:
/// nothing is ever rounded, however often time is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    units_per_sec: NonZeroU32,
    hold_secs: u32,
    level: i128,
    /// When `level` was right.
    as_of: Duration,
}

impl Bucket {
    /// A bucket that refills with `units_per_sec` and holds as much as comes in `hold_secs`, at
    /// least one second's worth, and holds it now.
    pub(super) fn full(now: Duration, units_per_sec: NonZeroU32, hold_secs: u32) -> Self {
        let empty = Self::empty(now, units_per_sec, hold_secs);
        Self { level: empty.capacity(), ..empty }
    }

    /// Such a bucket that holds nothing now.
    pub(super) const fn empty(now: Duration, units_per_sec: NonZeroU32, hold_secs: u32) -> Self {
        Self { units_per_sec, hold_secs, level: 0, as_of: now }
    }

    /// The bucket as it is at a later time.
    pub(super) fn at(&self, now: Duration) -> Self {
        let elapsed = now.saturating_sub(self.as_of).as_nanos();
        let refill =
            i128::try_from(elapsed).unwrap_or(i128::MAX).saturating_mul(self.halves_per_sec());
        let level = self.level.saturating_add(refill).min(self.capacity());
        Self { level, as_of: self.as_of.max(now), ..*self }
    }

    /// The bucket with another rate and size, with what it holds as far as that fits.
    pub(super) fn with_rate(&self, units_per_sec: NonZeroU32, hold_secs: u32) -> Self {
        let resized = Self { units_per_sec, hold_secs, ..*self };
        Self { level: self.level.min(resized.capacity()), ..resized }
    }

    pub(super) fn holds(&self, units: Units) -> bool {
        self.level >= level_of(units)
    }

    pub(super) fn is_full(&self) -> bool {
        self.level >= self.capacity()
    }

    /// Takes the units, into debt if there are fewer.
    pub(super) fn take(&mut self, units: Units) {
        self.level = self.level.saturating_sub(level_of(units));
    }

    /// Gives units back, as far as they fit.
    pub(super) fn give(&mut self, units: Units) {
        self.level = self.level.saturating_add(level_of(units)).min(self.capacity());
    }

    fn halves_per_sec(&self) -> i128 {
        i128::from(self.units_per_sec.get()) * HALVES_PER_UNIT
    }

    fn capacity(&self) -> i128 {
        self.halves_per_sec() * i128::from(self.hold_secs.max(1)) * NANOS_PER_SEC
    }
}

const HALVES_PER_UNIT: i128 = 2;
const NANOS_PER_SEC: i128 = 1_000_000_000;

fn level_of(units: Units) -> i128 {
    i128::from(units.as_halves()) * NANOS_PER_SEC
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_sec(units: u32) -> NonZeroU32 {
        NonZeroU32::new(units).expect("positive")
    }

    #[test]
    fn a_third_of_a_unit_is_not_lost_between_two_looks() {
        let mut bucket = Bucket::full(Duration::ZERO, per_sec(3), 1);
        bucket.take(Units::whole(3));
        // A nanosecond at a time or all at once: one unit is there after a third of a second.
        let third = Duration::from_nanos(333_333_333);
        let mut looked_at = bucket.clone();
        for nanos in (0..=333_333_333).step_by(1_000_003) {
            looked_at = looked_at.at(Duration::from_nanos(nanos));
        }
        assert_eq!(looked_at.at(third), bucket.at(third));
        assert!(!bucket.at(third).holds(Units::whole(1)));
        assert!(bucket.at(third + Duration::from_nanos(1)).holds(Units::whole(1)));
    }

    #[test]
    fn the_largest_of_everything_does_not_overflow() {
        let mut bucket = Bucket::full(Duration::ZERO, per_sec(u32::MAX), u32::MAX);
        for _ in 0..3 {
            bucket.take(Units::halves(u64::MAX));
        }
        bucket = bucket.at(Duration::MAX);
        assert!(bucket.is_full());
    }

    #[test]
    fn a_smaller_bucket_keeps_what_fits() {
        let now = Duration::ZERO;
        let bucket = Bucket::full(now, per_sec(100), 300);
        assert!(bucket.with_rate(per_sec(10), 300).is_full());
        assert!(bucket.with_rate(per_sec(1_000), 300).holds(Units::whole(30_000)));
        assert!(!bucket.with_rate(per_sec(1_000), 300).holds(Units::whole(30_001)));
    }
}
