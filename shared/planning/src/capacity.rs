//! Capacity units: what an operation takes, and what a partition gives.
//!
//! From [read and write operations](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html)
//! of the Developer Guide.

use std::ops::{Div, Mul};

use dynashard_core::PartitionLimits;
use serde::Serialize;

/// The bytes of an item that a write unit pays for.
const WRITE_UNIT_BYTES: u32 = 1_024;
/// The bytes that a read unit pays for.
const READ_UNIT_BYTES: u32 = 4_096;

/// Capacity units a second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Throughput {
    /// Read capacity units a second.
    pub read_units: f64,
    /// Write capacity units a second.
    pub write_units: f64,
}

impl Throughput {
    /// What one partition gives at most: 3,000 read units and 1,000 write units a second.
    pub fn of_a_partition() -> Self {
        let PartitionLimits { write_units, read_units } = PartitionLimits::default();
        Self { read_units: f64::from(read_units), write_units: f64::from(write_units) }
    }

    /// The most of both, of reads and of writes.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            read_units: self.read_units.max(other.read_units),
            write_units: self.write_units.max(other.write_units),
        }
    }

    /// The capacity in whole units, rounded up.
    pub(crate) fn whole(self) -> Self {
        Self { read_units: self.read_units.ceil(), write_units: self.write_units.ceil() }
    }

    /// How many partitions this fills, as a fraction: reads and writes add up.
    pub fn in_partitions(self) -> f64 {
        let of_one = Self::of_a_partition();
        self.read_units / of_one.read_units + self.write_units / of_one.write_units
    }
}

impl Mul<f64> for Throughput {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { read_units: self.read_units * factor, write_units: self.write_units * factor }
    }
}

impl Div<f64> for Throughput {
    type Output = Self;

    fn div(self, parts: f64) -> Self {
        Self { read_units: self.read_units / parts, write_units: self.write_units / parts }
    }
}

/// The write units that a write of an item takes: one for each KB, rounded up.
pub fn write_units_of_item(item_bytes: u32) -> u32 {
    item_bytes.div_ceil(WRITE_UNIT_BYTES).max(1)
}

/// The read units that a read of so many bytes takes: one for each 4 KB, rounded up, or half of that if it is
/// eventually consistent.
pub fn read_units_of(bytes: f64, is_consistent: bool) -> f64 {
    let units = (bytes / f64::from(READ_UNIT_BYTES)).ceil().max(1.0);
    if is_consistent { units } else { units / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_rounded_up_to_units() {
        let writes = [1, 1_024, 1_025, 409_600].map(write_units_of_item);
        assert_eq!(writes, [1, 1, 2, 400]);
        // "Dynamo DB Sharding": an item of 5 or 8 KB takes two read units, one of 400 KB takes a hundred.
        let reads = [(1, 1.0), (4, 1.0), (5, 2.0), (8, 2.0), (400, 100.0)];
        for (kilobytes, units) in reads {
            let taken = read_units_of(f64::from(kilobytes) * 1_024.0, true);
            assert!((taken - units).abs() < f64::EPSILON, "{kilobytes} KB: {taken}");
        }
        assert!((read_units_of(1.0, false) - 0.5).abs() < f64::EPSILON);
    }
}
