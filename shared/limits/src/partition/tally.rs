//! What has happened, second by second and key by key.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Range;

use super::demand::Demand;
use super::refusal::Limit;
use crate::units::Units;

/// How long counts are kept: as long as CloudWatch keeps what it has by the second.
pub(super) const COUNT_HISTORY_SECS: u64 = 3 * 60 * 60;
/// How long throttled keys are kept.
pub(super) const KEY_HISTORY_SECS: u64 = 30 * 60;
/// How many throttled keys are counted separately within a second.
pub(super) const KEYS_PER_SECOND: usize = 64;

/// What happened to the demands of one kind on one table or index. Each field is a CloudWatch
/// metric, here named for writes (Developer Guide: "DynamoDB metrics and dimensions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The sum of `ConsumedWriteCapacityUnits`. An index consumes what writes to its table cost it.
    pub consumed: Units,
    /// The demands that were admitted: the sample count of `ConsumedWriteCapacityUnits`.
    pub admitted: u64,
    /// `WriteKeyRangeThroughputThrottleEvents`
    pub key_range_throttles: u64,
    /// `WriteProvisionedThroughputThrottleEvents`
    pub provisioned_throttles: u64,
}

impl Counts {
    /// `WriteThrottleEvents`: one for each demand that met a limit, whichever it was. A write that
    /// an index refused counts there and not at the table.
    pub const fn throttles(&self) -> u64 {
        self.key_range_throttles + self.provisioned_throttles
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |all, one| Self {
            consumed: all.consumed + one.consumed,
            admitted: all.admitted + one.admitted,
            key_range_throttles: all.key_range_throttles + one.key_range_throttles,
            provisioned_throttles: all.provisioned_throttles + one.provisioned_throttles,
        })
    }
}

/// A physical key that was throttled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThrottledKey {
    /// The partition key.
    pub partition_key: String,
    /// The sort key; `None` where keys are counted by partition key only.
    pub sort_key: Option<String>,
}

/// The history of one kind of demands on one table or index, by the second.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    counts: BTreeMap<u64, Counts>,
    pub(super) partition_keys: KeyHistory,
    pub(super) items: KeyHistory,
}

impl Tally {
    pub(super) fn admitted(&mut self, second: u64, units: Units) {
        let counts = self.counts_of(second);
        counts.admitted += 1;
        counts.consumed += units;
    }

    pub(super) fn charged(&mut self, second: u64, units: Units) {
        self.counts_of(second).consumed += units;
    }

    pub(super) fn refunded(&mut self, second: u64, units: Units) {
        if let Some(counts) = self.counts.get_mut(&second) {
            counts.consumed = counts.consumed.saturating_sub(units);
        }
    }

    pub(super) fn throttled(&mut self, second: u64, demand: &Demand<'_>, limit: Limit) {
        let counts = self.counts_of(second);
        match limit {
            Limit::KeyRange => counts.key_range_throttles += 1,
            Limit::Provisioned => counts.provisioned_throttles += 1,
        }
        let key = |sort_key: Option<&str>| ThrottledKey {
            partition_key: demand.partition_key.to_owned(),
            sort_key: sort_key.map(str::to_owned),
        };
        count(&mut self.partition_keys, second, key(None));
        if demand.sort_key.is_some() {
            count(&mut self.items, second, key(demand.sort_key));
        }
    }

    pub(super) fn per_second(&self, seconds: Range<u64>) -> impl Iterator<Item = (u64, Counts)> {
        within(&self.counts, &seconds).map(|(second, counts)| (*second, *counts))
    }

    fn counts_of(&mut self, second: u64) -> &mut Counts {
        entry(&mut self.counts, second, COUNT_HISTORY_SECS)
    }
}

/// How often keys were throttled, by the second.
type KeyHistory = BTreeMap<u64, BTreeMap<ThrottledKey, u64>>;

/// Counts a key of a second. Of these the most frequent are kept in constant memory, by the Space-Saving algorithm (Metwally,
/// Agrawal and El Abbadi, 2005): a new key takes the place of the rarest one, with its count, so that counts are never
/// too low, and too high by at most the number of all throttles over the places.
fn count(history: &mut KeyHistory, second: u64, key: ThrottledKey) {
    let counts = entry(history, second, KEY_HISTORY_SECS);
    if let Some(count) = counts.get_mut(&key) {
        *count += 1;
        return;
    }
    let mut inherited = 0;
    if counts.len() >= KEYS_PER_SECOND {
        let rarest = counts.iter().min_by_key(|(_, count)| **count).map(|(key, _)| key.clone());
        inherited = rarest.and_then(|rarest| counts.remove(&rarest)).unwrap_or(0);
    }
    counts.insert(key, inherited + 1);
}

/// The sum of these histories over `seconds`, the most throttled keys first and equals by key.
pub(super) fn most_throttled<'a>(
    tallies: impl Iterator<Item = &'a Tally>,
    history: impl Fn(&'a Tally) -> &'a KeyHistory,
    seconds: &Range<u64>,
    limit: usize,
) -> Vec<(ThrottledKey, u64)> {
    let mut totals = BTreeMap::<&ThrottledKey, u64>::new();
    for tally in tallies {
        for (key, throttles) in within(history(tally), seconds).flat_map(|(_, counts)| counts) {
            *totals.entry(key).or_default() += throttles;
        }
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by(|(one, more), (other, less)| less.cmp(more).then_with(|| one.cmp(other)));
    totals.truncate(limit);
    totals.into_iter().map(|(key, throttles)| (key.clone(), throttles)).collect()
}

/// The entry of `second`, which never is before an earlier one. What is older than `keep_secs` goes.
fn entry<T: Default>(history: &mut BTreeMap<u64, T>, second: u64, keep_secs: u64) -> &mut T {
    while let Some(oldest) = history.first_entry()
        && second.saturating_sub(*oldest.key()) >= keep_secs
    {
        oldest.remove();
    }
    history.entry(second).or_default()
}

/// Like `BTreeMap::range`, but a range that ends before it begins is empty, not a panic.
fn within<'a, T>(
    history: &'a BTreeMap<u64, T>,
    seconds: &Range<u64>,
) -> impl Iterator<Item = (&'a u64, &'a T)> + use<'a, T> {
    history.range(seconds.start..seconds.end.max(seconds.start))
}
