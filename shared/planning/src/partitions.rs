//! The partitions of a provisioned table, by the rules that "Best Practices for Tables" gives.
//!
//! The current Developer Guide no longer prints the formulas, and that edition calls them "subject to change": they are
//! estimates. What has not changed is what one partition gives and holds
//! ([partition keys](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html)).

use crate::capacity::Throughput;
use crate::{at_least_one, float};

/// What one partition holds.
pub const PARTITION_BYTES: f64 = 10.0 * 1e9;

/// The partitions of a new table: `reads / 3,000 + writes / 1,000`, rounded up.
pub fn initial(provisioned: Throughput) -> u64 {
    at_least_one(provisioned.in_partitions())
}

/// The partitions of a table whose provisioned throughput is raised: their number doubles until it is enough. It never
/// falls.
pub fn after_raising(partitions: u64, provisioned: Throughput) -> u64 {
    let needed = initial(provisioned);
    let mut partitions = partitions.max(1);
    while partitions < needed {
        partitions *= 2;
    }
    partitions
}

/// The partitions that so many bytes fill.
pub fn for_storage(bytes: f64) -> u64 {
    at_least_one(bytes / PARTITION_BYTES)
}

/// What a table of so many partitions holds, in bytes.
pub fn bytes_of(partitions: u64) -> f64 {
    float(partitions) * PARTITION_BYTES
}

/// What each of a table's partitions may take when none has been split by storage: an even part.
pub fn even_part(provisioned: Throughput, partitions: u64) -> Throughput {
    provisioned / float(partitions.max(1))
}

/// What each of the two partitions gets that come from one which filled up. All others keep theirs.
pub fn half_after_split(of_one: Throughput) -> Throughput {
    of_one / 2.0
}
