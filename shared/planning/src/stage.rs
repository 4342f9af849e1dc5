//! The table in one month.

use dynashard_keys::{Placement, ShardCount};
use serde::Serialize;

use crate::capacity::{Throughput, write_units_of_item};
use crate::cost::{Month, Prices, query_read_units};
use crate::partitions::Partitions;
use crate::shards;
use crate::workload::{Workload, WorkloadError};

/// The table in one month.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stage {
    /// How many months from now.
    pub month: u32,
    /// What the table is asked for on average, queries included.
    pub average: Throughput,
    /// What it is asked for at its peak.
    pub peak: Throughput,
    /// What the hottest key is asked for at its peak, with the queries of its shards.
    pub hottest_key: Throughput,
    /// The items that are stored.
    pub items: f64,
    /// What they take.
    pub bytes: f64,
    /// The partitions of a table that is provisioned for the peak, and has ever been.
    pub partitions: Partitions,
    /// What each of them gives that storage has not split, or the least often.
    pub of_a_partition: Throughput,
    /// What each of them gives that storage has split the most often.
    pub of_the_smallest_partition: Throughput,
    /// The shards of the hottest key by the simple formula, from its peak.
    pub shards_by_simple_formula: u64,
    /// The shards that leave it head room.
    pub shards_with_head_room: u64,
    /// Those, as the placement rounds them.
    pub shards: u32,
    /// What the month costs.
    pub cost: Month,
}

impl Stage {
    /// The stage after so many months: of a new table, or of one that had partitions before.
    ///
    /// # Errors
    ///
    /// `hot_key_share`, if the hottest key needs more shards than a collection can have.
    pub fn of(
        workload: &Workload,
        month: u32,
        before: Option<Partitions>,
        placement: Placement,
        prices: &Prices,
    ) -> Result<Self, WorkloadError> {
        let needed = shards::needed(workload, month);
        let count = shards::rounded(needed, placement).ok_or(WorkloadError {
            field: "hot_key_share",
            bounds: "so small that the hottest key does with the 65,536 shards that a collection can have",
        })?;
        let hottest_key = shards::peak_of_hottest_key(workload, month, count.get());
        let average = with_queries(workload, month, count);
        let peak = average * workload.peak_ratio;
        let bytes = workload.bytes_after(month);
        let partitions = before
            .map_or_else(|| Partitions::of_new_table(peak), |had| had.provisioned(peak))
            .holding(bytes);
        Ok(Self {
            month,
            average,
            peak,
            hottest_key,
            items: workload.items_after(month),
            bytes,
            partitions,
            of_a_partition: partitions.largest_part(peak),
            of_the_smallest_partition: partitions.smallest_part(peak),
            shards_by_simple_formula: shards::by_simple_formula(
                hottest_key.write_units / f64::from(write_units_of_item(workload.item_bytes)),
                workload.item_bytes,
            ),
            shards_with_head_room: needed,
            shards: count.get(),
            cost: Month::of(
                average,
                peak,
                workload.billed_bytes_after(month),
                workload.read_replicas,
                prices,
            ),
        })
    }
}

fn with_queries(workload: &Workload, month: u32, shards: ShardCount) -> Throughput {
    let of_query = query_read_units(workload.items_per_query, workload.item_bytes, shards.get());
    // The other hot keys are queried as the hottest is.
    let of_all = f64::from(workload.hot_keys);
    let queries = workload.queries_per_second * of_all * workload.growth_after(month);
    let average = workload.average(month);
    Throughput { read_units: average.read_units + queries * of_query, ..average }
}
