//! What a table is asked for.

use dynashard_core::Replica;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::capacity::{Throughput, read_units_of, write_units_of_item};

/// The load of a table, and of its hottest partition key. Rates are averages over a day unless their name says otherwise.
///
/// As JSON it has these names. Every field but `item_bytes` may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Items that are written in a second.
    #[serde(default)]
    pub writes_per_second: f64,
    /// Items that are read by their key in a second.
    #[serde(default)]
    pub reads_per_second: f64,
    /// Whether those reads are strongly consistent.
    #[serde(default)]
    pub consistent_reads: bool,
    /// Queries of the hottest key in a second.
    #[serde(default)]
    pub queries_per_second: f64,
    /// The items that a query returns.
    #[serde(default = "hundred")]
    pub items_per_query: u32,
    /// The size of an item with its key, in bytes, from 1 to 409,600.
    pub item_bytes: u32,
    /// How many times its average the load is at its peak.
    #[serde(default = "one")]
    pub peak_ratio: f64,
    /// The part of the load that the hottest partition key has.
    #[serde(default = "one")]
    pub hot_key_share: f64,
    /// The part of its key's writes that the hottest item has.
    #[serde(default)]
    pub hot_item_share: f64,
    /// How many partition keys are as hot as that.
    #[serde(default = "one_key")]
    pub hot_keys: u32,
    /// Whether new sort keys are above all others of their key, as times are.
    #[serde(default = "yes")]
    pub sort_keys_grow: bool,
    /// Whether items are only ever added, each under a sort key of its own.
    #[serde(default)]
    pub append_only: bool,
    /// By which part the load grows in a month: 0.1 is a tenth.
    #[serde(default)]
    pub growth_per_month: f64,
    /// How many months the plan looks ahead.
    #[serde(default = "year")]
    pub months: u32,
    /// After how many days items are deleted; never, if it is left out. Each write is taken for a new item.
    #[serde(default)]
    pub retention_days: Option<f64>,
    /// The items that are stored now.
    #[serde(default)]
    pub stored_items: u64,
    /// The partitions that a provisioned table has already; 0 for a new one.
    #[serde(default)]
    pub partitions: u32,
    /// Items that are loaded at first.
    #[serde(default)]
    pub bulk_items: u64,
    /// In how many minutes.
    #[serde(default = "half_an_hour")]
    pub bulk_minutes: u32,
    /// The read replicas of the table (`ReadReplicas`).
    #[serde(default)]
    pub read_replicas: u32,
}

/// The days of a month, as the price lists of AWS count them.
pub const DAYS_OF_A_MONTH: f64 = 30.0;

pub(crate) const SECONDS_OF_A_DAY: f64 = 86_400.0;
/// Far above what any table is asked for.
const MOST_PER_SECOND: f64 = 10e6;
const MOST_ITEM_BYTES: u32 = 409_600;

/// A figure that no load has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field} has to be {bounds}")]
pub struct WorkloadError {
    /// The field of [`Workload`].
    pub field: &'static str,
    /// What it may be.
    pub bounds: &'static str,
}

impl Workload {
    /// Refuses what no load can be.
    ///
    /// # Errors
    ///
    /// The first field that is out of its bounds.
    pub fn check(&self) -> Result<(), WorkloadError> {
        const RATE: &str = "from 0 to 10,000,000";
        const SHARE: &str = "above 0 and at most 1";
        let is_rate = |rate: f64| (0.0..=MOST_PER_SECOND).contains(&rate);
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        let retention = self.retention_days.unwrap_or(1.0);
        let all_hot = self.hot_key_share * f64::from(self.hot_keys);
        let checks = [
            ("writes_per_second", RATE, is_rate(self.writes_per_second)),
            ("reads_per_second", RATE, is_rate(self.reads_per_second)),
            ("queries_per_second", RATE, is_rate(self.queries_per_second)),
            (
                "writes_per_second",
                "above 0, unless reads_per_second, queries_per_second or bulk_items is",
                self.writes_per_second + self.reads_per_second + self.queries_per_second > 0.0
                    || self.bulk_items > 0,
            ),
            (
                "items_per_query",
                "from 1 to 1,000,000",
                (1..=1_000_000).contains(&self.items_per_query),
            ),
            ("item_bytes", "from 1 to 409,600", (1..=MOST_ITEM_BYTES).contains(&self.item_bytes)),
            ("peak_ratio", "from 1 to 1,000,000", (1.0..=1e6).contains(&self.peak_ratio)),
            ("hot_key_share", SHARE, is_share(self.hot_key_share)),
            ("hot_item_share", "from 0 to 1", (0.0..=1.0).contains(&self.hot_item_share)),
            ("hot_keys", "from 1 to 10,000", (1..=10_000).contains(&self.hot_keys)),
            (
                "hot_keys",
                "so few that all their shares together are at most 1",
                all_hot <= 1.0 + 1e-9,
            ),
            ("growth_per_month", "from 0 to 10", (0.0..=10.0).contains(&self.growth_per_month)),
            ("months", "from 1 to 120", (1..=120).contains(&self.months)),
            (
                "retention_days",
                "above 0 and at most 36,500",
                retention > 0.0 && retention <= 36_500.0,
            ),
            ("stored_items", "at most 10^13", self.stored_items <= 10_000_000_000_000),
            ("partitions", "at most 1,000,000", self.partitions <= 1_000_000),
            ("bulk_items", "at most 10^12", self.bulk_items <= 1_000_000_000_000),
            ("bulk_minutes", "from 1 to 100,000", (1..=100_000).contains(&self.bulk_minutes)),
            ("read_replicas", "from 0 to 5", self.read_replicas <= Replica::MOST),
            (
                "growth_per_month",
                "so small that the load stays below 10,000,000 a second until the last month",
                self.largest_rate() <= MOST_PER_SECOND,
            ),
        ];
        // NaN is in no range, so it is refused, too.
        let wrong = checks.into_iter().find(|(_, _, is_right)| !is_right);
        wrong.map_or(Ok(()), |(field, bounds, _)| Err(WorkloadError { field, bounds }))
    }

    fn largest_rate(&self) -> f64 {
        let rate = self.writes_per_second.max(self.reads_per_second).max(self.queries_per_second);
        rate * self.peak_ratio * self.growth_after(self.months)
    }

    /// By which factor the load has grown after so many months.
    pub fn growth_after(&self, months: u32) -> f64 {
        (1.0 + self.growth_per_month).powf(f64::from(months))
    }

    /// What the whole table is asked for on average, after so many months. Queries are planned for by themselves.
    pub fn average(&self, months: u32) -> Throughput {
        let of_read = read_units_of(f64::from(self.item_bytes), self.consistent_reads);
        let now = Throughput {
            read_units: self.reads_per_second * of_read,
            write_units: self.writes_per_second * f64::from(write_units_of_item(self.item_bytes)),
        };
        now * self.growth_after(months)
    }

    /// What the hottest key is asked for at its peak, after so many months, without its queries.
    pub fn peak_of_hottest_key(&self, months: u32) -> Throughput {
        self.average(months) * self.peak_ratio * self.hot_key_share
    }

    /// The items that are stored after so many months.
    pub fn items_after(&self, months: u32) -> f64 {
        let kept_days = self.retention_days.unwrap_or(f64::INFINITY);
        let of_month = |month: u32| {
            // A month's items are there for as long as retention lasts, in whole or in part.
            let age_days = f64::from(months - month - 1) * DAYS_OF_A_MONTH;
            let days = (kept_days - age_days).clamp(0.0, DAYS_OF_A_MONTH);
            self.writes_per_second * self.growth_after(month) * SECONDS_OF_A_DAY * days
        };
        let written = (0..months).map(of_month).sum::<f64>();
        let first_are_kept = f64::from(months) * DAYS_OF_A_MONTH < kept_days;
        let first = if first_are_kept { self.stored_items + self.bulk_items } else { 0 };
        crate::float(first) + written
    }

    /// What they take, in bytes.
    pub fn bytes_after(&self, months: u32) -> f64 {
        self.items_after(months) * f64::from(self.item_bytes)
    }

    /// What AWS charges storage for, in bytes: an item's own and 100 for its place in the index of its partition
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>).
    pub fn billed_bytes_after(&self, months: u32) -> f64 {
        const OF_INDEX: f64 = 100.0;
        self.items_after(months) * (f64::from(self.item_bytes) + OF_INDEX)
    }
}

const fn one() -> f64 {
    1.0
}

const fn one_key() -> u32 {
    1
}

const fn hundred() -> u32 {
    100
}

const fn year() -> u32 {
    12
}

const fn half_an_hour() -> u32 {
    30
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Spoil = fn(&mut Workload);

    fn of_writes(writes_per_second: f64, item_bytes: u32) -> Workload {
        let load = json!({ "writes_per_second": writes_per_second, "item_bytes": item_bytes });
        serde_json::from_value(load).expect("a load")
    }

    #[test]
    fn figures_that_no_load_has_are_refused_by_name() {
        let right = of_writes(5_000.0, 1_024);
        assert_eq!(right.check(), Ok(()));
        let wrong: [(&str, Spoil); 13] = [
            ("read_replicas", |w| w.read_replicas = 6),
            ("writes_per_second", |w| w.writes_per_second = 0.0),
            ("writes_per_second", |w| w.writes_per_second = -1.0),
            ("writes_per_second", |w| w.writes_per_second = f64::NAN),
            ("reads_per_second", |w| w.reads_per_second = f64::INFINITY),
            ("item_bytes", |w| w.item_bytes = 0),
            ("item_bytes", |w| w.item_bytes = 409_601),
            ("peak_ratio", |w| w.peak_ratio = 0.5),
            ("hot_key_share", |w| w.hot_key_share = 0.0),
            ("hot_keys", |w| w.hot_keys = 2),
            ("growth_per_month", |w| w.growth_per_month = 9.0),
            ("months", |w| w.months = 0),
            ("retention_days", |w| w.retention_days = Some(0.0)),
        ];
        for (field, spoil) in wrong {
            let mut workload = right.clone();
            spoil(&mut workload);
            assert_eq!(workload.check().map_err(|error| error.field), Err(field), "{workload:?}");
        }
    }

    #[test]
    fn items_pile_up_until_they_are_deleted() {
        let mut workload = of_writes(1.0, 100);
        let month = DAYS_OF_A_MONTH * SECONDS_OF_A_DAY;
        assert!((workload.items_after(3) - 3.0 * month).abs() < 1.0);
        assert!((workload.bytes_after(3) - 300.0 * month).abs() < 1.0);
        assert!((workload.billed_bytes_after(3) - 600.0 * month).abs() < 1.0, "100 more for each");
        workload.retention_days = Some(45.0);
        assert!((workload.items_after(3) - 1.5 * month).abs() < 1.0);
        workload.stored_items = 1_000;
        assert!((workload.items_after(1) - month - 1_000.0).abs() < 1.0);
        assert!((workload.items_after(3) - 1.5 * month).abs() < 1.0, "those are gone by then");
    }
}
