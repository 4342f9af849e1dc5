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
