//! Bulk loads, and what they leave behind: partitions among which a smaller capacity is then spread thinly.
//!
//! "Best Practices for Tables", "Consider Workload Uniformity When Adjusting Provisioned Throughput".

use serde::Serialize;

use crate::capacity::{Throughput, write_units_of_item};
use crate::partitions::Partitions;

/// What a bulk load takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BulkLoad {
    /// The write units a second that finish it in time.
    pub write_units_per_second: u64,
    /// The write units a second to two significant digits, as the article prints it. Rounded down, it takes a little longer.
    pub rounded_write_units_per_second: u64,
    /// The partitions of the table with the exact capacity.
    pub partitions: u64,
    /// Those with the rounded capacity.
    pub rounded_partitions: u64,
    /// What each partition gives in write units a second when the table's capacity is lowered afterwards.
    pub then_of_a_partition: f64,
    /// What each of the rounded number of partitions gives then.
    pub then_of_a_rounded_partition: f64,
}

impl BulkLoad {
    /// The load of so many items in so many seconds into a table that takes `then` write units a second afterwards: a new
    /// one, or one that has partitions.
    pub fn of(
        items: u64,
        item_bytes: u32,
        seconds: u64,
        then: f64,
        table: Option<Partitions>,
    ) -> Self {
        let units = items.saturating_mul(u64::from(write_units_of_item(item_bytes)));
        let exact = units.div_ceil(seconds.max(1));
        let rounded = to_two_digits(exact);
        let partitions_of = |write_units: u64| {
            let loading = Throughput { read_units: 0.0, write_units: crate::float(write_units) };
            table
                .map_or_else(|| Partitions::of_new_table(loading), |had| had.provisioned(loading))
                .count()
        };
        let (partitions, rounded_partitions) = (partitions_of(exact), partitions_of(rounded));
        Self {
            write_units_per_second: exact,
            rounded_write_units_per_second: rounded,
            partitions,
            rounded_partitions,
            then_of_a_partition: then / crate::float(partitions),
            then_of_a_rounded_partition: then / crate::float(rounded_partitions),
        }
    }
}

/// The nearest number of two significant digits.
fn to_two_digits(number: u64) -> u64 {
    let unit = 10_u64.pow(number.max(1).ilog10().saturating_sub(1));
    (number + unit / 2) / unit * unit
}
