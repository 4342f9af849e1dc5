//! The partitions of a provisioned table, by the rules that "Best Practices for Tables" gives.
//!
//! The current Developer Guide no longer prints the formulas, and that edition calls them "subject to change": they are
//! estimates. What has not changed is what one partition gives and holds
//! ([partition keys](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html)).

use serde::Serialize;

use crate::capacity::Throughput;
use crate::{at_least_one, float};

/// What one partition holds.
pub const PARTITION_BYTES: f64 = 10.0 * 1e9;

/// The partitions of a provisioned table: what throughput made, and what storage has split since. They never become fewer.
/// As JSON it is their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "u64")]
pub struct Partitions {
    /// Each of these was given an even part of the throughput.
    by_throughput: u64,
    /// How many they are by now.
    all: u64,
}

impl Partitions {
    /// Those of a new table: `reads / 3,000 + writes / 1,000`, rounded up.
    pub fn of_new_table(provisioned: Throughput) -> Self {
        Self::even(at_least_one(provisioned.in_partitions()))
    }

    /// So many, at least one, with even parts.
    pub fn even(count: u64) -> Self {
        let all = count.max(1);
        Self { by_throughput: all, all }
    }

    /// After the throughput was set to this: their number doubles until none has to give more than a partition can, and
    /// then their parts are even. If that takes no doubling, each keeps its part of the whole.
    #[must_use]
    pub fn provisioned(self, throughput: Throughput) -> Self {
        let mut after = self;
        while after.largest_part(throughput).in_partitions() > 1.0 + 1e-9 {
            after = Self::even(after.all * 2);
        }
        after
    }

    /// When they hold so many bytes: one that fills up is split.
    #[must_use]
    pub fn holding(self, bytes: f64) -> Self {
        Self { all: self.all.max(at_least_one(bytes / PARTITION_BYTES)), ..self }
    }

    /// How many they are.
    pub const fn count(self) -> u64 {
        self.all
    }

    /// What each of those gets that storage has split the least, or never.
    pub fn largest_part(self, provisioned: Throughput) -> Throughput {
        let splits = (self.all / self.by_throughput).ilog2();
        self.part_after(splits, provisioned)
    }

    /// What each of those gets that storage has split the most: both halves of a partition share what it had, and all
    /// others keep theirs. The same as [`largest_part`](Self::largest_part) if all were split as often.
    pub fn smallest_part(self, provisioned: Throughput) -> Throughput {
        let splits = self.all.div_ceil(self.by_throughput).next_power_of_two().ilog2();
        self.part_after(splits, provisioned)
    }

    fn part_after(self, splits: u32, provisioned: Throughput) -> Throughput {
        provisioned / (float(self.by_throughput) * 2.0_f64.powf(f64::from(splits)))
    }
}

impl From<Partitions> for u64 {
    fn from(partitions: Partitions) -> Self {
        partitions.count()
    }
}
