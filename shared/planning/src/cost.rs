//! What a load costs: reads of several shards, changes of their number, and a month.

use std::collections::BTreeMap;

use dynashard_core::{Settings, most_moves_per_sec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::capacity::{Throughput, read_units_of, write_units_of_item};
use crate::float;
use crate::workload::DAYS_OF_A_MONTH;

const HOURS_OF_A_MONTH: f64 = 24.0 * DAYS_OF_A_MONTH;
pub(crate) const SECONDS_OF_A_MONTH: f64 = 3_600.0 * HOURS_OF_A_MONTH;
pub(crate) const GB: f64 = 1e9;

/// Prices as `data/prices-us-east-1.json` has them.
#[derive(Debug, Clone, Deserialize)]
pub struct PriceList {
    /// The region.
    pub region: String,
    /// When the prices were looked up.
    pub date: String,
    prices: BTreeMap<String, Price>,
}

#[derive(Debug, Clone, Deserialize)]
struct Price {
    usd: f64,
    per: f64,
}

/// A price list lacks a price, or has one that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the price list has no price {0:?} above 0")]
pub struct NoPrice(&'static str);

/// The prices that a plan needs, in US dollars for one of each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prices {
    /// The region.
    pub region: String,
    /// When they were looked up.
    pub date: String,
    /// A write request unit, on demand.
    pub write_unit: f64,
    /// A read request unit, on demand.
    pub read_unit: f64,
    /// A provisioned write unit for an hour.
    pub write_unit_hour: f64,
    /// A provisioned read unit for an hour.
    pub read_unit_hour: f64,
    /// A GB for a month.
    pub gb_month: f64,
    /// A read request unit, on demand, of the infrequent-access class.
    pub infrequent_read_unit: f64,
    /// A GB for a month, of the infrequent-access class.
    pub infrequent_gb_month: f64,
}

impl Prices {
    /// Picks them from a list.
    ///
    /// # Errors
    ///
    /// [`NoPrice`] names the first one that is missing.
    pub fn of(list: &PriceList) -> Result<Self, NoPrice> {
        let of = |name: &'static str| {
            let price = list.prices.get(name).map(|price| price.usd / price.per);
            price.filter(|usd| usd.is_finite() && *usd > 0.0).ok_or(NoPrice(name))
        };
        Ok(Self {
            region: list.region.clone(),
            date: list.date.clone(),
            write_unit: of("dynamodb_write_units")?,
            read_unit: of("dynamodb_read_units")?,
            write_unit_hour: of("dynamodb_provisioned_write_unit_hours")?,
            read_unit_hour: of("dynamodb_provisioned_read_unit_hours")?,
            gb_month: of("dynamodb_storage_gb_months")?,
            infrequent_read_unit: of("dynamodb_infrequent_read_units")?,
            infrequent_gb_month: of("dynamodb_infrequent_storage_gb_months")?,
        })
    }

    /// What so many units cost on demand.
    pub fn of_units(&self, read_units: f64, write_units: f64) -> f64 {
        read_units * self.read_unit + write_units * self.write_unit
    }
}

/// What a month of 30 days costs, in US dollars, without free tiers and taxes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Month {
    /// The requests, on demand.
    pub on_demand_usd: f64,
    /// A table that is provisioned for the peak all the time.
    pub provisioned_usd: f64,
    /// The storage, in either case.
    pub storage_usd: f64,
    /// What of the first and the third is that of read replicas.
    pub replicas_usd: f64,
}

impl Month {
    /// A month of this load. Each of the read replicas is written as the table is, and holds as much.
    pub fn of(
        average: Throughput,
        peak: Throughput,
        bytes: f64,
        read_replicas: u32,
        prices: &Prices,
    ) -> Self {
        let replicas = f64::from(read_replicas);
        let written = |units: Throughput| Throughput {
            write_units: units.write_units * (1.0 + replicas),
            ..units
        };
        let (units, peak) = (written(average) * SECONDS_OF_A_MONTH, written(peak));
        let stored_usd = bytes / GB * prices.gb_month;
        let of_a_replica =
            prices.of_units(0.0, average.write_units * SECONDS_OF_A_MONTH) + stored_usd;
        // Whole units are provisioned, and at least one of each kind.
        let provisioned = |units: f64| float(crate::at_least_one(units)) * HOURS_OF_A_MONTH;
        Self {
            on_demand_usd: prices.of_units(units.read_units, units.write_units),
            provisioned_usd: provisioned(peak.read_units) * prices.read_unit_hour
                + provisioned(peak.write_units) * prices.write_unit_hour,
            storage_usd: stored_usd * (1.0 + replicas),
            replicas_usd: of_a_replica * replicas,
        }
    }
}

/// The read units of an ordered query of so many items over so many shards, read with eventual consistency.
///
/// Of several shards it reads 1 + 2 √(shards / items) items for each that it returns, about (docs/QUERIES.md), and of each
/// at least one, and half a unit.
pub fn query_read_units(items: u32, item_bytes: u32, shards: u32) -> f64 {
    let (items, shards) = (f64::from(items), f64::from(shards.max(1)));
    let read_for_each = if shards > 1.0 { 1.0 + 2.0 * (shards / items).sqrt() } else { 1.0 };
    let items_of_shard = (items * read_for_each / shards).max(1.0);
    let bytes_of_shard = items_of_shard * f64::from(item_bytes);
    shards * read_units_of(bytes_of_shard, false)
}

/// What moving a collection's items to another number of shards takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reshard {
    /// The items that move.
    pub items: f64,
    /// Write units: a transaction that puts the item and leaves a marker, and the removal of the marker.
    pub write_units: f64,
    /// Read units: each source is read twice, strongly consistent.
    pub read_units: f64,
    /// How long the mover takes at its fastest ([`most_moves_per_sec`]), with the template's settings.
    pub seconds: f64,
    /// The units, on demand, in US dollars.
    pub usd: f64,
}

/// The write units that one item takes to move, where it takes so many to write: a transaction that puts it and leaves a marker, and
/// the removal of the marker.
pub(crate) const fn units_of_move(units: u64) -> u64 {
    4 * units + 1
}

impl Reshard {
    /// A growth from `from` to `to` shards of a collection with so many items, in a table with so many read replicas.
    pub fn of(
        items: f64,
        item_bytes: u32,
        read_replicas: u32,
        (from, to): (u32, u32),
        prices: &Prices,
    ) -> Self {
        let moved = items * (1.0 - f64::from(from) / f64::from(to.max(from)));
        let units_of_item = write_units_of_item(item_bytes);
        let units = f64::from(units_of_item);
        let of_move = float(units_of_move(u64::from(units_of_item)));
        // A replica takes a plain write for each half of the transaction.
        let of_replica = 2.0 * units + 1.0;
        let write_units = moved * (of_move + f64::from(read_replicas) * of_replica);
        let read_units = 2.0 * items * f64::from(item_bytes) / 4_096.0;
        let per_sec = most_moves_per_sec(&Settings::default(), from, to, 0.0);
        Self {
            items: moved,
            write_units,
            read_units,
            seconds: if moved > 0.0 { moved * units / per_sec } else { 0.0 },
            usd: prices.of_units(read_units, write_units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Prices {
        Prices {
            region: String::new(),
            date: String::new(),
            write_unit: 0.0,
            read_unit: 0.0,
            write_unit_hour: 0.0,
            read_unit_hour: 0.0,
            gb_month: 0.0,
            infrequent_read_unit: 0.0,
            infrequent_gb_month: 0.0,
        }
    }

    #[test]
    fn a_replica_takes_the_writes_and_the_storage_once_more() {
        let prices = Prices { write_unit: 1e-6, read_unit: 1e-7, gb_month: 0.25, ..free() };
        let average = Throughput { read_units: 10.0, write_units: 10.0 };
        let of = |replicas| Month::of(average, average, 1e9, replicas, &prices);
        let (none, two) = (of(0), of(2));
        let is =
            |measured: f64, expected: f64| assert!((measured - expected).abs() < 1e-6, "{two:?}");
        is(none.replicas_usd, 0.0);
        is(two.on_demand_usd - none.on_demand_usd, 2.0 * 10.0 * SECONDS_OF_A_MONTH * 1e-6);
        is(two.storage_usd, 0.75);
        is(two.replicas_usd, two.on_demand_usd - none.on_demand_usd + 0.5);
        let moves = |replicas| Reshard::of(1_000.0, 1_000, replicas, (1, 2), &prices).write_units;
        is(moves(0), 500.0 * 5.0);
        is(moves(2), 500.0 * (5.0 + 2.0 * 3.0));
    }

    #[test]
    fn regression_many_sources_were_moved_faster_than_the_mover_may() {
        let prices = free();
        let seconds = |from| Reshard::of(10e6, 1_000, 0, (from, 2 * from), &prices).seconds;
        // Five million items of two units: one source gives 800 a second, and all together half of `MoverWriteUnits`.
        assert!((seconds(1) - 10e6 / 800.0).abs() < 1e-6, "{}", seconds(1));
        assert!((seconds(16) - 10e6 / 4_000.0).abs() < 1e-6, "{}", seconds(16));
    }
}
