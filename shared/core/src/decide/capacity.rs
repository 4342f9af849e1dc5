//! Whether the capacity of a provisioned main table has to rise. More shards do not help where that throttles ("Choosing the right
//! number of shards for your large-scale Amazon DynamoDB table": `UpdateTable`).
//!
//! Nothing here lowers a capacity. DynamoDB allows few decreases a day, and DynamoDB auto scaling knows how to spend them.

use crate::model::capacity::{
    CapacityDecision, CapacityMetrics, CapacityPeriod, CapacityPolicy, CapacityScaling,
    CapacitySide, TableThroughput,
};

/// Decides about one capacity of a table by what its metrics say, in periods of `period_secs`.
///
/// Only whole periods since the last increase count: what was throttled before it says nothing about
/// the capacity since. A refusal that DynamoDB puts down to the provisioned capacity is the table's.
/// Of a throttle without a reason, the consumption tells: at the provisioned capacity it was the
/// table, and below that a partition.
///
/// The new capacity has room for what was consumed and refused in the busiest period, at the
/// utilisation that DynamoDB auto scaling aims at by default. A refused request that comes again is
/// counted again, so this is a bound from above: it rises by a quarter at least, and doubles at most.
pub fn decide_capacity(
    access: CapacitySide,
    table: &TableThroughput,
    metrics: &CapacityMetrics,
    period_secs: u32,
    policy: CapacityPolicy,
    now_secs: u64,
) -> CapacityDecision {
    match policy.scaling {
        CapacityScaling::Off => return CapacityDecision::Off,
        CapacityScaling::AutoScaling => return CapacityDecision::AutoScaling,
        CapacityScaling::Function => {}
    }
    let Some(provisioned) = table.provisioned else { return CapacityDecision::OnDemand };
    if !table.is_active() {
        return CapacityDecision::Updating;
    }
    let (units, most) = (provisioned.of(access), policy.most.of(access));
    let periods = metrics.of(access);
    if periods.iter().all(|period| period.refused + period.unexplained <= 0.0) {
        return CapacityDecision::NotThrottled;
    }
    let since_secs = table.increased_secs.unwrap_or(0);
    let counts = |period: &&CapacityPeriod| {
        let end_secs = period.at_secs.saturating_add(period_secs.into());
        period.at_secs >= since_secs && end_secs <= now_secs
    };
    let busy = periods.iter().filter(counts).map(|period| Busy::of(period, period_secs, units));
    let busy = busy.collect::<Vec<_>>();
    if busy.iter().map(|period| period.by_table).sum::<f64>() < LEAST_THROTTLES {
        let elsewhere = busy.iter().map(|period| period.elsewhere).sum::<f64>();
        return if elsewhere < LEAST_THROTTLES {
            CapacityDecision::TooLittleEvidence
        } else {
            CapacityDecision::NotTheTable
        };
    }
    if units >= most {
        return CapacityDecision::AtCeiling { units };
    }
    let demand = busy.iter().map(|period| period.demand).fold(0.0, f64::max);
    let least = units.saturating_add(units.div_ceil(4));
    let to = whole_units(demand / UTILISATION).clamp(least, units.saturating_mul(2).max(least));
    CapacityDecision::Raise { from: units, to: to.min(most) }
}

/// Fewer throttled requests than this are a moment's, which a client's next attempt makes good.
const LEAST_THROTTLES: f64 = 5.0;

/// Which part of the capacity is to be in use (Developer Guide: "Managing throughput capacity
/// automatically with DynamoDB auto scaling": a target of 70 percent).
const UTILISATION: f64 = 0.7;

/// From which part of the capacity on a table counts as consuming all of it: metrics are sums of a
/// period, in which some moments are idle.
const AT_CAPACITY: f64 = 0.9;

/// A period as it bears on one capacity.
struct Busy {
    /// The requests that the table's capacity refused.
    by_table: f64,
    /// Those that something else did.
    elsewhere: f64,
    /// The units a second that would have been consumed, had the table refused none of them.
    demand: f64,
}

impl Busy {
    fn of(period: &CapacityPeriod, period_secs: u32, units: u64) -> Self {
        let secs = f64::from(period_secs.max(1));
        let is_at_capacity = period.consumed / secs >= as_f64(units) * AT_CAPACITY;
        let (by_table, elsewhere) = if is_at_capacity {
            (period.refused + period.unexplained, 0.0)
        } else {
            (period.refused, period.unexplained)
        };
        let mean = if period.requests > 0.0 { period.consumed / period.requests } else { 1.0 };
        Self { by_table, elsewhere, demand: (period.consumed + by_table * mean) / secs }
    }
}

#[expect(clippy::cast_precision_loss, reason = "capacities are far below 2^52 units a second")]
fn as_f64(units: u64) -> f64 {
    units as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast to an integer saturates, and the result is clamped"
)]
fn whole_units(units: f64) -> u64 {
    units.ceil() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::capacity::CapacityUnits;

    /// A period of writes that begins at 1,000 or later.
    fn busy(at_secs: u64, consumed: f64, refused: f64) -> CapacityPeriod {
        CapacityPeriod { at_secs, consumed, requests: consumed, refused, unexplained: 0.0 }
    }

    fn table(writes: u64) -> TableThroughput {
        TableThroughput {
            provisioned: Some(CapacityUnits { reads: 10, writes }),
            status: "ACTIVE".to_owned(),
            increased_secs: None,
        }
    }

    const POLICY: CapacityPolicy = CapacityPolicy {
        scaling: CapacityScaling::Function,
        most: CapacityUnits { reads: 10, writes: 400 },
    };

    fn writes(table: &TableThroughput, periods: &[CapacityPeriod]) -> CapacityDecision {
        let metrics = CapacityMetrics { reads: Vec::new(), writes: periods.to_vec() };
        decide_capacity(CapacitySide::Writes, table, &metrics, 60, POLICY, 2_000)
    }

    #[test]
    fn a_table_that_refuses_gets_room_for_what_it_refused() {
        for (consumed, refused, to, why) in [
            (6_000.0, 600.0, 158, "110 units a second are 70 % of that"),
            (6_000.0, 60.0, 145, "101 units"),
            (6_000.0, 60_000.0, 200, "it doubles at most"),
            (3_000.0, 600.0, 125, "it rises by a quarter at least"),
        ] {
            let raise = CapacityDecision::Raise { from: 100, to };
            assert_eq!(writes(&table(100), &[busy(1_800, consumed, refused)]), raise, "{why}");
        }
    }

    #[test]
    fn a_refused_request_takes_what_others_take_on_average() {
        let of_two = CapacityPeriod { requests: 3_000.0, ..busy(1_800, 6_000.0, 600.0) };
        let raise = CapacityDecision::Raise { from: 100, to: 172 };
        assert_eq!(writes(&table(100), &[of_two]), raise);
        let none_admitted = busy(1_800, 0.0, 6_600.0);
        let raise = CapacityDecision::Raise { from: 100, to: 158 };
        assert_eq!(writes(&table(100), &[none_admitted]), raise, "one unit each");
    }

    #[test]
    fn the_busiest_period_counts() {
        let periods =
            [busy(1_740, 6_000.0, 60.0), busy(1_800, 6_000.0, 600.0), busy(1_860, 0.0, 0.0)];
        assert_eq!(writes(&table(100), &periods), CapacityDecision::Raise { from: 100, to: 158 });
    }

    #[test]
    fn the_ceiling_is_never_passed() {
        let hot = [busy(1_800, 60_000.0, 60_000.0)];
        assert_eq!(writes(&table(390), &hot), CapacityDecision::Raise { from: 390, to: 400 });
        assert_eq!(writes(&table(399), &hot), CapacityDecision::Raise { from: 399, to: 400 });
        for units in [400, 500] {
            assert_eq!(writes(&table(units), &hot), CapacityDecision::AtCeiling { units });
        }
    }

    #[test]
    fn the_smallest_table_rises_too() {
        assert_eq!(
            writes(&table(1), &[busy(1_800, 60.0, 6.0)]),
            CapacityDecision::Raise { from: 1, to: 2 }
        );
    }

    #[test]
    fn what_is_older_than_the_last_increase_or_not_over_is_too_little() {
        let raised = TableThroughput { increased_secs: Some(1_801), ..table(100) };
        let hot = |at_secs| [busy(at_secs, 6_000.0, 600.0)];
        assert_eq!(writes(&raised, &hot(1_800)), CapacityDecision::TooLittleEvidence);
        assert_eq!(writes(&table(100), &hot(1_941)), CapacityDecision::TooLittleEvidence);
        assert_eq!(
            writes(&table(100), &[busy(1_800, 60.0, 4.0)]),
            CapacityDecision::TooLittleEvidence
        );
        assert!(matches!(writes(&raised, &hot(1_860)), CapacityDecision::Raise { .. }));
        assert!(matches!(writes(&table(100), &hot(1_940)), CapacityDecision::Raise { .. }));
    }

    #[test]
    fn of_a_throttle_without_a_reason_the_consumption_tells() {
        let unexplained =
            |consumed| CapacityPeriod { unexplained: 600.0, ..busy(1_800, consumed, 0.0) };
        assert_eq!(writes(&table(100), &[unexplained(3_000.0)]), CapacityDecision::NotTheTable);
        assert_eq!(
            writes(&table(100), &[unexplained(6_000.0)]),
            CapacityDecision::Raise { from: 100, to: 158 }
        );
    }

    #[test]
    fn what_rules_a_raise_out_is_told() {
        let hot = [busy(1_800, 6_000.0, 600.0)];
        let on_demand = TableThroughput { provisioned: None, ..table(100) };
        assert_eq!(writes(&on_demand, &hot), CapacityDecision::OnDemand);
        let updating = TableThroughput { status: "UPDATING".to_owned(), ..table(100) };
        assert_eq!(writes(&updating, &hot), CapacityDecision::Updating);
        assert_eq!(
            writes(&table(100), &[busy(1_800, 6_000.0, 0.0)]),
            CapacityDecision::NotThrottled
        );
        assert_eq!(writes(&table(100), &[]), CapacityDecision::NotThrottled);
        let metrics = CapacityMetrics { reads: Vec::new(), writes: hot.to_vec() };
        for (scaling, decision) in [
            (CapacityScaling::Off, CapacityDecision::Off),
            (CapacityScaling::AutoScaling, CapacityDecision::AutoScaling),
        ] {
            let policy = CapacityPolicy { scaling, ..POLICY };
            let of = |access| decide_capacity(access, &table(100), &metrics, 60, policy, 2_000);
            assert_eq!(CapacitySide::ALL.map(of), [decision; 2]);
        }
    }

    #[test]
    fn reads_and_writes_are_decided_on_apart() {
        let metrics = CapacityMetrics { reads: vec![busy(1_800, 600.0, 60.0)], writes: Vec::new() };
        let of = |access| decide_capacity(access, &table(100), &metrics, 60, POLICY, 2_000);
        let expected = [CapacityDecision::AtCeiling { units: 10 }, CapacityDecision::NotThrottled];
        assert_eq!(CapacitySide::ALL.map(of), expected);
    }

    proptest! {
        #[test]
        fn a_raise_is_a_quarter_to_twofold_and_within_the_ceiling(
            units in 1..40_000_u64,
            consumed in 0.0..1e9_f64,
            refused in 0.0..1e9_f64,
        ) {
            let most = CapacityUnits { reads: 1, writes: 30_000 };
            let policy = CapacityPolicy { most, ..POLICY };
            let periods = vec![busy(1_800, consumed, refused)];
            let metrics = CapacityMetrics { reads: Vec::new(), writes: periods };
            let decided =
                decide_capacity(CapacitySide::Writes, &table(units), &metrics, 60, policy, 2_000);
            if let CapacityDecision::Raise { from, to } = decided {
                prop_assert_eq!(from, units);
                prop_assert!(to > from && to <= 30_000 && to <= 2 * from, "{}", to);
                prop_assert!(to == 30_000 || 4 * to >= 5 * from, "{}", to);
            }
        }
    }
}
