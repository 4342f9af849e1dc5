//! The partitions of every table, shared by all requests.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_limits::Units;
use dynashard_limits::partition::{Demand, Limits, Partitions};
use parking_lot::Mutex;

use super::cost::Charge;
use super::refusal::Hit;
use super::tables::Table;

/// Admits requests, and keeps what they consumed and where they were refused.
///
/// `now` is the time since the Unix epoch, so that what is counted carries CloudWatch's timestamps.
#[derive(Debug)]
pub(super) struct Meter {
    partitions: Mutex<Partitions>,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self { partitions: Mutex::new(Partitions::new(limits)) }
    }

    /// Creates or changes a table, or forgets one that is gone.
    pub(super) fn set_table(&self, now: Duration, name: &str, table: Option<&Table>) {
        self.with(|partitions| match table {
            Some(table) => {
                let indexes = table.global_indexes.iter();
                let indexes = indexes.map(|index| (index.name.as_str(), index.throughput));
                partitions.set_table(now, name, table.throughput, indexes);
                partitions.split_by(name, table.split_by);
            }
            None => partitions.remove_table(name),
        });
    }

    /// Admits all of the charges, or none. The error lists the limits that were met, in order: each
    /// with the position of the charge that met it.
    pub(super) fn admit(&self, now: Duration, charges: &[Charge]) -> Result<(), Vec<(usize, Hit)>> {
        let demands: Vec<_> = charges.iter().map(Charge::demand).collect();
        let admitted = self.with(|partitions| partitions.admit(now, &demands));
        admitted.map_err(|refusal| {
            let hits = refusal.hits().iter();
            hits.map(|hit| (hit.demand, Hit::of(hit, &charges[hit.demand]))).collect()
        })
    }

    /// Admits all of the charges if there is room for all, and says whether it did. Otherwise
    /// nothing changes or counts as throttled.
    pub(super) fn admit_if_room(&self, now: Duration, charges: &[Charge]) -> bool {
        let demands: Vec<_> = charges.iter().map(Charge::demand).collect();
        self.with(|partitions| partitions.admit_if_room(now, &demands))
    }

    /// Charges what is due beyond what was admitted at `admitted_at`, and gives back what was
    /// admitted beyond what is due.
    pub(super) fn settle<'a>(
        &self,
        now: Duration,
        admitted_at: Duration,
        admitted: &'a [Charge],
        due: &'a [Charge],
    ) {
        // By the key, which says the partition, in a table or index: what was admitted, and what is due.
        let mut accounts = BTreeMap::<_, (Demand<'_>, Units, Units)>::new();
        let mut account = |charge: &'a Charge, admitted, due| {
            let demand = charge.demand();
            let payer = (demand.resource, demand.partition_key, demand.sort_key, demand.kind);
            let account = accounts.entry(payer).or_insert((demand, Units::ZERO, Units::ZERO));
            account.1 += admitted;
            account.2 += due;
        };
        for charge in admitted {
            account(charge, charge.units, Units::ZERO);
        }
        for charge in due {
            account(charge, Units::ZERO, charge.units);
        }
        let difference = |of: fn(Units, Units) -> Units| {
            let accounts = accounts.values();
            let demands = accounts
                .map(|(demand, admitted, due)| Demand { units: of(*admitted, *due), ..*demand });
            demands.collect::<Vec<_>>()
        };
        let missing = difference(|admitted, due| due.saturating_sub(admitted));
        let excess = difference(Units::saturating_sub);
        self.with(|partitions| {
            partitions.charge(now, &missing);
            partitions.refund(now, admitted_at, &excess);
        });
    }

    /// Calls `look` with the partitions.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Partitions) -> T) -> T {
        let mut partitions = self.partitions.lock();
        look(&mut partitions)
    }
}
