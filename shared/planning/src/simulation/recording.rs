//! Writes that have happened, to be simulated again.

use std::collections::{BTreeMap, HashMap};

use crate::float;

/// The keys that are simulated, at most.
const MOST_KEYS: usize = 1_000;

/// Writes that happened: how many items of each partition key in each second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The keys with their writes by second, the busiest first.
    keys: Vec<(String, BTreeMap<u32, u32>)>,
    seconds: u64,
    left_out: u64,
}

impl Recording {
    /// Takes how many items of a partition key were written in a second. Time begins with the first second.
    ///
    /// Of more than a thousand keys only the busiest are simulated ([`Self::left_out`]): the others are far from any limit
    /// of a partition.
    pub fn of(writes: impl IntoIterator<Item = (String, i64, u32)>) -> Self {
        let mut keys = HashMap::<String, BTreeMap<i64, u32>>::new();
        for (key, second, items) in writes {
            let of_second = keys.entry(key).or_default().entry(second).or_default();
            *of_second = of_second.saturating_add(items);
        }
        let times = || keys.values().flat_map(BTreeMap::keys);
        let Some((first, last)) = times().min().copied().zip(times().max().copied()) else {
            return Self::default();
        };
        let since = |second: i64| u32::try_from(second.abs_diff(first)).unwrap_or(u32::MAX);
        let mut keys = keys
            .into_iter()
            .map(|(key, writes)| (key, writes.into_iter().map(|(at, n)| (since(at), n)).collect()))
            .collect::<Vec<_>>();
        // By the key where they are alike, so that a run can be repeated.
        keys.sort_by(|(one, of_one), (other, of_other)| {
            sum(of_other).cmp(&sum(of_one)).then_with(|| one.cmp(other))
        });
        let others = keys.split_off(keys.len().min(MOST_KEYS));
        let left_out = others.iter().map(|(_, writes)| sum(writes)).sum();
        Self { keys, seconds: last.abs_diff(first).saturating_add(1), left_out }
    }

    /// The recording with so many times the writes. What is left of a write goes to the next second of its key, so that also
    /// a tenth of one in each second is there in the sum.
    #[must_use]
    pub fn times(mut self, times: f64) -> Self {
        for (_, writes) in &mut self.keys {
            let mut left = 0.0;
            for items in writes.values_mut() {
                let whole = f64::from(*items) * times + left;
                let taken = whole.floor().clamp(0.0, f64::from(u32::MAX));
                left = whole - taken;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "bounded"
                )]
                let taken = taken as u32;
                *items = taken;
            }
        }
        self
    }

    /// The writes of keys that are not simulated.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) const fn seconds(&self) -> u64 {
        self.seconds
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(key, _)| key.as_str())
    }

    pub(super) fn shares(&self) -> Vec<f64> {
        let of_keys = self.keys.iter().map(|(_, writes)| float(sum(writes))).collect::<Vec<_>>();
        let all = of_keys.iter().sum::<f64>();
        of_keys.into_iter().map(|of_key| of_key / all).collect()
    }

    /// The most that one key is written in a second.
    pub(super) fn busiest(&self) -> f64 {
        let most = self.keys.iter().filter_map(|(_, writes)| writes.values().max()).max();
        most.copied().map_or(0.0, f64::from)
    }

    /// The items of one key in a second.
    pub(super) fn items(&self, second: u32, key: usize) -> u64 {
        self.keys[key].1.get(&second).copied().map_or(0, u64::from)
    }
}

fn sum(writes: &BTreeMap<u32, u32>) -> u64 {
    writes.values().copied().map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_scaled_and_loses_nothing_in_the_sum() {
        let writes = || (0..1_000).map(|second| ("a".to_owned(), second, 1));
        let of = |times| sum(&Recording::of(writes()).times(times).keys[0].1);
        assert_eq!([of(1.0), of(0.25), of(2.5), of(1_000.0)], [1_000, 250, 2_500, 1_000_000]);
    }
}
