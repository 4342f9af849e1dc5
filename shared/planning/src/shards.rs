//! The shards that a hot key needs, and where they meet.

use dynashard_keys::{Placement, ShardCount};

use crate::capacity::{Throughput, write_units_of_item};
use crate::cost::query_read_units;
use crate::workload::Workload;
use crate::{at_least_one, float};

/// The part of what its shards take that a key is to be asked for: the rest is head room. dynashard grows a collection
/// to the same part, and a test compares the two.
pub const TARGET_UTILIZATION: f64 = 0.7;

/// The simple formula of "Choosing the Right DynamoDB Partition Key": writes × item size in KB, rounded up, over 1,000.
pub fn by_simple_formula(writes_per_second: f64, item_bytes: u32) -> u64 {
    let units = writes_per_second * f64::from(write_units_of_item(item_bytes));
    at_least_one(units / Throughput::of_a_partition().write_units)
}

/// The shards that keep reads and writes of a key at [`TARGET_UTILIZATION`], by what it needs more of: reads and writes
/// of a partition have limits of their own.
pub fn with_head_room(of_key: Throughput) -> u64 {
    let one = Throughput::of_a_partition();
    // Divided as the functions do it, so that both round alike.
    let filled = |units: f64, most: f64| units / (TARGET_UTILIZATION * most);
    let writes = filled(of_key.write_units, one.write_units);
    at_least_one(writes.max(filled(of_key.read_units, one.read_units)))
}

/// What the hottest key is asked for at its peak, after so many months, with its queries. Each of them reads all of its
/// shards, which are so many.
pub fn peak_of_hottest_key(workload: &Workload, months: u32, shards: u32) -> Throughput {
    let of_query = query_read_units(workload.items_per_query, workload.item_bytes, shards);
    let queries = workload.queries_per_second * workload.growth_after(months) * workload.peak_ratio;
    let without = workload.peak_of_hottest_key(months);
    Throughput { read_units: without.read_units + queries * of_query, ..without }
}

/// The shards that the hottest key needs after so many months, with its queries if any number of shards
/// [carries](carrying) them, and without them otherwise.
pub fn needed(workload: &Workload, months: u32) -> u64 {
    carrying(workload, months)
        .unwrap_or_else(|| with_head_room(workload.peak_of_hottest_key(months)))
}

/// The shards that carry the hottest key and its queries after so many months. Each query reads all shards, and less of
/// each the more there are, but never less than half a unit: so there may be no such number.
pub fn carrying(workload: &Workload, months: u32) -> Option<u64> {
    let carries = |shards: u64| {
        let count = u32::try_from(shards).ok().filter(|count| *count <= ShardCount::MAX)?;
        // What all take is compared: a part of it, rounded, may be a little more than one takes.
        Some(with_head_room(peak_of_hottest_key(workload, months, count)) <= shards)
    };
    let mut shards = with_head_room(workload.peak_of_hottest_key(months));
    while let Some(is_enough) = carries(shards) {
        if is_enough {
            return Some(shards);
        }
        // One by one as long as a shard makes a difference.
        shards += (shards / 64).max(1);
    }
    None
}

/// The rule by which items find their shard, for a load that takes so many shards.
pub fn placement(workload: &Workload, shards: u64) -> Placement {
    const WASTE: f64 = 1.25;
    let rounded = float(shards.next_power_of_two());
    let never_again = workload.reads_per_second <= 0.0 && workload.hot_item_share <= 0.0;
    if workload.append_only && never_again {
        Placement::Random
    } else if workload.queries_per_second > 0.0 && rounded > WASTE * float(shards) {
        Placement::Jump
    } else {
        Placement::Xxh64
    }
}

/// The count that a collection gets that is to have at least so many shards; none if it cannot have them.
pub fn rounded(shards: u64, placement: Placement) -> Option<ShardCount> {
    let count = u32::try_from(shards).ok().and_then(|shards| ShardCount::new(shards).ok())?;
    Some(placement.round(count))
}

/// What is to be expected when keys that are hot fall on partitions by their hash, as DynamoDB has them.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Collisions {
    /// The chance that at least two of them share a partition.
    pub chance: f64,
    /// How many of them share theirs with another, on average.
    pub expected: f64,
}

/// The collisions of so many hot shards on so many partitions.
pub fn collisions(hot: u64, partitions: u64) -> Collisions {
    if hot <= 1 {
        return Collisions { chance: 0.0, expected: 0.0 };
    }
    let partitions = float(partitions.max(1));
    let mut all_alone = 1.0;
    for placed in 0..hot {
        all_alone *= (1.0 - float(placed) / partitions).max(0.0);
        // Far fewer than all shards make a collision certain.
        if all_alone < 1e-12 {
            break;
        }
    }
    let others = float(hot - 1);
    Collisions {
        chance: 1.0 - all_alone,
        expected: float(hot) * (1.0 - (others * (-1.0 / partitions).ln_1p()).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hot_shards_of_one_partition_collide_and_23_birthdays_do_by_half() {
        let certain = collisions(2, 1);
        assert!((certain.chance - 1.0).abs() < 1e-9 && (certain.expected - 2.0).abs() < 1e-9);
        let birthdays = collisions(23, 365);
        assert!((birthdays.chance - 0.507).abs() < 0.001, "{birthdays:?}");
        let crowd = collisions(u64::MAX, 1_000_000_000);
        assert!((crowd.chance - 1.0).abs() < 1e-9, "{crowd:?}, and at once");
    }

    #[test]
    fn regression_one_shard_on_one_partition_collided_with_what_is_no_number() {
        for (hot, partitions) in [(0, 1), (1, 1), (1, 4)] {
            let alone = collisions(hot, partitions);
            assert_eq!((alone.chance, alone.expected), (0.0, 0.0), "{hot} on {partitions}");
        }
    }

    #[test]
    fn more_shards_than_a_collection_can_have_are_none() {
        assert_eq!(rounded(65_536, Placement::Xxh64).map(ShardCount::get), Some(65_536));
        assert_eq!(rounded(65_537, Placement::Jump), None);
        assert_eq!(rounded(5, Placement::Xxh64).map(ShardCount::get), Some(8));
        assert_eq!(rounded(5, Placement::Random).map(ShardCount::get), Some(5));
    }
}
