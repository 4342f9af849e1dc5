//! Counts as figures.

/// A count as a figure for people, which is exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^53")]
pub(crate) fn float(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
