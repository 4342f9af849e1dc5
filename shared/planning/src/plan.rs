//! The whole plan for a workload.

use dynashard_core::{Epochs, Settings, Waits};
use serde::Serialize;

use crate::advice::Advice;
use crate::bulk_load::BulkLoad;
use crate::burst;
use crate::capacity::{Throughput, write_units_of_item};
use crate::cost::{Prices, Reshard, query_read_units};
use crate::partitions::Partitions;
use crate::series::TimeSeries;
use crate::shards::{self, Collisions};
use crate::stage::Stage;
use crate::table::TableNeeds;
use crate::workload::{Workload, WorkloadError};

/// What a workload takes now and later, and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// What was planned for.
    pub workload: Workload,
    /// Now.
    pub now: Stage,
    /// After as many months as the plan looks ahead.
    pub later: Stage,
    /// The bulk load, if there is one.
    pub bulk_load: Option<BulkLoad>,
    /// What the table as a whole has to take, if it is on demand.
    pub table: TableNeeds,
    /// For how many seconds the burst capacity of one provisioned partition would carry the hottest key without shards;
    /// none if it needs no burst, or more than one partition gives.
    pub burst_seconds: Option<f64>,
    /// The hot shards of all hot keys among the partitions of the last month.
    pub collisions: Collisions,
    /// What one query reads.
    pub query: Query,
    /// What growing from the present shards of one hot key to those of the last month moves, by the items that are stored then.
    pub reshard: Option<Reshard>,
    /// What it moves where sort keys grow and the key has many items: what is written until all writers know of the change. What was
    /// written before stays where it is.
    pub reshard_behind: Option<Reshard>,
    /// One table with time to live beside tables by period; none if items are kept for ever.
    pub time_series: Option<TimeSeries>,
    /// What to do.
    pub advice: Advice,
    /// What the dollars stand on.
    pub prices: Prices,
}

/// The read units of a query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Query {
    /// Of one shard.
    pub read_units_of_one_shard: f64,
    /// Of the shards of the last month.
    pub read_units: f64,
}

impl Plan {
    /// Plans for a workload.
    ///
    /// # Errors
    ///
    /// The first field that no load can have, and `hot_key_share` if the hottest key needs more shards than a collection
    /// can have.
    pub fn of(workload: &Workload, prices: &Prices) -> Result<Self, WorkloadError> {
        workload.check()?;
        let present =
            (workload.partitions > 0).then(|| Partitions::even(workload.partitions.into()));
        let bulk_load = (workload.bulk_items > 0).then(|| {
            let seconds = u64::from(workload.bulk_minutes) * 60;
            let then = workload.average(0).write_units * workload.peak_ratio;
            BulkLoad::of(workload.bulk_items, workload.item_bytes, seconds, then, present)
        });
        let loaded = bulk_load.map(|load| Partitions::even(load.partitions)).or(present);
        let in_the_end = shards::needed(workload, workload.months);
        let placement = shards::placement(workload, in_the_end);
        let now = Stage::of(workload, 0, loaded, placement, prices)?;
        let later = Stage::of(workload, workload.months, Some(now.partitions), placement, prices)?;
        let table = TableNeeds::of(&now, &later, bulk_load.as_ref());
        let hot_shards = u64::from(later.shards) * u64::from(workload.hot_keys);
        let items_of_key = later.items * workload.hot_key_share;
        let reshard = |items: f64| {
            let (item_bytes, replicas) = (workload.item_bytes, workload.read_replicas);
            Reshard::of(items, item_bytes, replicas, (now.shards, later.shards), prices)
        };
        // Growth of a random collection moves nothing.
        let moves = later.shards > now.shards && placement.is_calculated();
        let is_large = items_of_key >= crate::float(Epochs::LEAST_ITEMS_BEFORE_FIRST);
        let written_a_second =
            later.hottest_key.write_units / f64::from(write_units_of_item(workload.item_bytes));
        let until_known = Waits::of(&Settings::default()).leases_end.as_secs_f64();
        let of_query =
            |shards| query_read_units(workload.items_per_query, workload.item_bytes, shards);
        Ok(Self {
            workload: workload.clone(),
            bulk_load,
            table,
            burst_seconds: burst_seconds(&now),
            collisions: shards::collisions(hot_shards, later.partitions.count()),
            query: Query {
                read_units_of_one_shard: of_query(1),
                read_units: of_query(later.shards),
            },
            reshard: moves.then(|| reshard(items_of_key)),
            reshard_behind: (moves && is_large && workload.sort_keys_grow)
                .then(|| reshard(written_a_second * until_known)),
            time_series: TimeSeries::of(workload, &later, prices),
            advice: Advice::of(workload, placement, &table, bulk_load.as_ref(), &now, &later),
            now,
            later,
            prices: prices.clone(),
        })
    }
}

/// For how long a burst carries the hottest key without shards, in writes and in reads.
fn burst_seconds(stage: &Stage) -> Option<f64> {
    let (part, key) = (stage.of_the_smallest_partition, stage.hottest_key);
    let one = Throughput::of_a_partition();
    let kinds = [
        (part.write_units, key.write_units, one.write_units),
        (part.read_units, key.read_units, one.read_units),
    ];
    if kinds.iter().any(|(_, demand, most)| demand > most) {
        return None;
    }
    let seconds = kinds.map(|(part, demand, most)| burst::seconds(part, demand, most));
    seconds.into_iter().flatten().reduce(f64::min)
}
