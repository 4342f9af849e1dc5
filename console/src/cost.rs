//! What units cost. Pure.

use dynashard_core::{TableUnits, Usage};
use serde::Serialize;

/// The write units that moving one item of up to 1 KB takes: a transaction on both homes, and the removal of the
/// marker (docs/COST.md).
pub(crate) const MOVE_WCU: f64 = 5.0;

/// What request units cost on demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// One write request unit, in USD.
    pub write_units_usd: f64,
    /// One read request unit, in USD.
    pub read_units_usd: f64,
}

impl Prices {
    pub(crate) fn of_writes(self, units: f64) -> f64 {
        units * self.write_units_usd
    }

    fn of(self, units: TableUnits) -> f64 {
        self.of_writes(units.writes) + units.reads * self.read_units_usd
    }
}

/// What the last hour has consumed, and what that costs on demand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LastHour {
    clients: Share,
    system: Share,
    /// Whether the moves of items are told apart: otherwise they are among the clients' writes.
    moves_are_known: bool,
    /// The seconds that it was looked at.
    over_secs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Share {
    write_units: f64,
    read_units: f64,
    usd: Option<f64>,
}

/// Tells the clients' units from the system's own: what the metadata table takes, and what moving items takes.
pub(crate) fn last_hour(
    usage: &Usage,
    moves_are_known: bool,
    prices: Option<Prices>,
    now_secs: u64,
) -> Option<LastHour> {
    let (first, _) = usage.periods.first_key_value()?;
    let since = now_secs.saturating_sub(3_600);
    let sum = usage.since(since);
    let moving = (sum.items_moved * MOVE_WCU).min(sum.main.writes);
    let share = |units: TableUnits| Share {
        write_units: units.writes.round(),
        read_units: units.reads.round(),
        usd: prices.map(|prices| prices.of(units)),
    };
    Some(LastHour {
        clients: share(TableUnits {
            writes: sum.main.writes - moving + sum.replicas.writes + sum.indexes.writes,
            reads: sum.item_reads() + sum.indexes.reads,
        }),
        system: share(TableUnits {
            writes: sum.metadata.writes + moving,
            reads: sum.metadata.reads,
        }),
        moves_are_known,
        over_secs: now_secs.saturating_sub((*first).max(since)),
    })
}

#[cfg(test)]
mod tests {
    use dynashard_core::UsagePeriod;

    use super::*;

    #[test]
    fn the_systems_own_units_are_the_metadata_and_the_moves() {
        let period = UsagePeriod {
            main: TableUnits { writes: 1_500.0, reads: 200.0 },
            replicas: TableUnits { writes: 30.0, reads: 20.0 },
            indexes: TableUnits { writes: 7.0, reads: 5.0 },
            metadata: TableUnits { writes: 40.0, reads: 8.0 },
            items_moved: 100.0,
            ..UsagePeriod::default()
        };
        let usage = Usage { period_secs: 60, periods: [(5_000, period), (1_000, period)].into() };
        let prices = Prices { write_units_usd: 0.625e-6, read_units_usd: 0.125e-6 };
        let hour = last_hour(&usage, true, Some(prices), 6_000).expect("it was counted");
        assert_eq!((hour.clients.write_units, hour.clients.read_units), (1_037.0, 225.0));
        assert_eq!((hour.system.write_units, hour.system.read_units), (540.0, 8.0));
        assert!(hour.clients.usd.is_some_and(|usd| (usd - 676.25e-6).abs() < 1e-12), "{hour:?}");
        assert_eq!(hour.over_secs, 3_600);
        assert_eq!(last_hour(&Usage::default(), true, None, 6_000), None);
    }
}
