//! One table whose items expire, beside a table for each day, week or month, which is deleted as a whole.

use serde::Serialize;

use crate::cost::{GB, Prices, SECONDS_OF_A_MONTH};
use crate::partitions::Partitions;
use crate::stage::Stage;
use crate::workload::{DAYS_OF_A_MONTH, SECONDS_OF_A_DAY, Workload};

/// Both ways to keep items for a time, in the last month of a plan. The writes cost the same: neither expiring items nor a table
/// that is deleted takes write units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeSeries {
    /// What each of several tables would hold: `day`, `week` or `month`.
    pub period: &'static str,
    /// How many of them there would be, the present one included.
    pub tables: u64,
    /// One table with time to live.
    pub one_table: Keeping,
    /// Tables by period, of which all but the present one are of the infrequent-access class and on demand.
    pub by_period: Keeping,
    /// Tables by period cost less on demand while the cooled ones are read with at most so many units a second on average; 0 if
    /// they cost more in any case.
    pub pays_below_read_units: f64,
}

/// What keeping the items takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Keeping {
    /// The bytes that AWS charges storage for.
    pub billed_bytes: f64,
    /// What they cost in a month, in US dollars.
    pub storage_usd: f64,
    /// The partitions that share what the table that is written to is provisioned with.
    pub partitions: u64,
    /// Capacity for the peak all the time, for a month, in US dollars.
    pub provisioned_usd: f64,
}

/// The next table is there for so many days before it is written to, with the capacity of the present one.
const DAYS_AHEAD: f64 = 1.0;
/// A period is short enough if retention is so many of them.
const FEWEST_TABLES: f64 = 2.0;
const PERIODS: [(&str, f64); 3] = [("month", DAYS_OF_A_MONTH), ("week", 7.0), ("day", 1.0)];

impl TimeSeries {
    /// Compares both; `None` if items are kept for ever.
    pub fn of(workload: &Workload, last: &Stage, prices: &Prices) -> Option<Self> {
        let retention = workload.retention_days?;
        let (period, days) = PERIODS
            .into_iter()
            .find(|(_, days)| retention >= FEWEST_TABLES * days)
            .unwrap_or(("day", 1.0));
        let billed_bytes = workload.billed_bytes_after(last.month);
        let bytes_of_item = billed_bytes / last.items.max(1.0);
        // What a month writes, counted from 0, in half of a period.
        let half_of = |month: u32| {
            let items =
                workload.writes_per_second * workload.growth_after(month) * SECONDS_OF_A_DAY;
            items * bytes_of_item * days / 2.0
        };
        let age = f64::from(last.month) * DAYS_OF_A_MONTH;
        let of_retention = crate::at_least_one(retention / days) + 1;
        // Half of a period is on average in the present table. Half of one is kept beyond its time, for the rest of its table: it was
        // written when the load was what it was then.
        let hot = half_of(last.month.saturating_sub(1)).min(billed_bytes);
        let expired = (1..=last.month)
            .rev()
            .find(|month| f64::from(*month) * DAYS_OF_A_MONTH <= age - retention);
        let of_half = ((age - retention) / (days / 2.0)).clamp(0.0, 1.0);
        let beyond = half_of(expired.unwrap_or(1) - 1) * of_half;
        let cooled = billed_bytes - hot + beyond;
        let one_usd = billed_bytes / GB * prices.gb_month;
        let series_usd = hot / GB * prices.gb_month + cooled / GB * prices.infrequent_gb_month;
        // Where such reads cost no more, any number of them pays.
        let premium = (prices.infrequent_read_unit - prices.read_unit).max(f64::EPSILON);
        let pays = (one_usd - series_usd).max(0.0) / premium / SECONDS_OF_A_MONTH;
        let of_one_period = 2.0 * half_of(last.month.saturating_sub(1)) / bytes_of_item
            * f64::from(workload.item_bytes);
        let provisioned = last.cost.provisioned_usd;
        Some(Self {
            period,
            // Where nothing was stored before, nothing is older than the load.
            tables: if workload.stored_items > 0 {
                of_retention
            } else {
                of_retention.min(crate::at_least_one(age / days))
            },
            one_table: Keeping {
                billed_bytes,
                storage_usd: one_usd,
                partitions: last.partitions.count(),
                provisioned_usd: provisioned,
            },
            by_period: Keeping {
                billed_bytes: hot + cooled,
                storage_usd: series_usd,
                partitions: Partitions::of_new_table(last.peak).holding(of_one_period).count(),
                provisioned_usd: provisioned * (1.0 + DAYS_AHEAD / days),
            },
            pays_below_read_units: pays,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Plan;

    fn prices() -> Prices {
        let list = serde_json::from_str(include_str!("../../../data/prices-us-east-1.json"));
        Prices::of(&list.expect("a list")).expect("prices")
    }

    fn compared(retention_days: Option<f64>, months: u32) -> Option<TimeSeries> {
        let load = json!({ "writes_per_second": 100.0, "item_bytes": 924, "months": months, "retention_days": retention_days });
        let workload = serde_json::from_value(load).expect("a load");
        Plan::of(&workload, &prices()).expect("a plan").time_series
    }

    fn is_near(figure: f64, expected: f64) {
        assert!((figure / expected - 1.0).abs() < 1e-9, "{figure} is not {expected}");
    }

    #[test]
    fn tables_by_period_hold_more_and_cost_less_while_old_ones_are_rarely_read() {
        assert_eq!(compared(None, 12), None);
        let year = compared(Some(360.0), 24).expect("a comparison");
        assert_eq!((year.period, year.tables), ("month", 13));
        // 100 items of 1,024 bytes a second with their place in the index: 265.4 GB a month.
        let month = 100.0 * 86_400.0 * 30.0 * 1_024.0;
        is_near(year.one_table.billed_bytes, 12.0 * month);
        is_near(year.by_period.billed_bytes, 12.5 * month);
        is_near(year.one_table.storage_usd, 12.0 * month / 1e9 * 0.25);
        is_near(year.by_period.storage_usd, month / 1e9 * (0.5 * 0.25 + 12.0 * 0.1));
        let saved = year.one_table.storage_usd - year.by_period.storage_usd;
        is_near(year.pays_below_read_units, saved / (30e-9 * 86_400.0 * 30.0));
        assert!(year.by_period.partitions < year.one_table.partitions);
        is_near(year.by_period.provisioned_usd, year.one_table.provisioned_usd * 31.0 / 30.0);
    }

    /// What is kept beyond its time was reckoned at what the last month writes.
    #[test]
    fn regression_what_is_kept_too_long_was_taken_for_as_much_as_is_written_now() {
        let load = json!({ "writes_per_second": 100.0, "item_bytes": 924, "months": 12, "retention_days": 90.0, "growth_per_month": 0.3 });
        let workload: Workload = serde_json::from_value(load).expect("a load");
        let series =
            Plan::of(&workload, &prices()).expect("a plan").time_series.expect("items expire");
        let of_month = |month: i32| 100.0 * 86_400.0 * 30.0 * 1_024.0 * 1.3_f64.powi(month);
        is_near(series.one_table.billed_bytes, of_month(9) + of_month(10) + of_month(11));
        is_near(series.by_period.billed_bytes - series.one_table.billed_bytes, of_month(8) / 2.0);
    }

    #[test]
    fn a_period_is_short_enough_for_what_is_kept() {
        for (retention, expected) in [
            (90.0, ("month", 4)),
            (60.0, ("month", 3)),
            // As long as the load goes on, and for longer.
            (359.0, ("month", 12)),
            (360.0, ("month", 12)),
            (3_600.0, ("month", 12)),
            (59.0, ("week", 10)),
            (13.0, ("day", 14)),
            (0.5, ("day", 2)),
        ] {
            let found = compared(Some(retention), 12).expect("a comparison");
            assert_eq!((found.period, found.tables), expected, "{retention} days");
        }
        // What is kept for less than a period beyond its time costs more than it saves.
        assert!(compared(Some(0.5), 12).expect("a comparison").pays_below_read_units < 1e-9);
    }
}
