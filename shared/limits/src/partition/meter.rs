//! All tables and indexes, with the limits of each and what it has taken.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use super::demand::{Kind, Resource, Throughput};
use super::limits::Limits;
use super::splits::{PartId, Splits};
use super::tally::{COUNT_HISTORY_SECS, Tally};

/// By name.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables(pub(super) BTreeMap<String, Table>);

impl Tables {
    pub(super) fn meter(&self, resource: Resource<'_>) -> Option<&Meter> {
        let table = self.0.get(resource.table)?;
        match resource.index {
            Some(index) => table.indexes.get(index),
            None => Some(&table.own),
        }
    }

    pub(super) fn meter_mut(&mut self, resource: Resource<'_>) -> Option<&mut Meter> {
        let table = self.0.get_mut(resource.table)?;
        match resource.index {
            Some(index) => table.indexes.get_mut(index),
            None => Some(&mut table.own),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) own: Meter,
    pub(super) indexes: BTreeMap<String, Meter>,
}

impl Table {
    pub(super) fn meters_mut(&mut self) -> impl Iterator<Item = &mut Meter> {
        std::iter::once(&mut self.own).chain(self.indexes.values_mut())
    }
}

/// The limits and counts of one table or index.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    /// By kind.
    sides: [Side; 2],
    /// Reads and writes meet the same partitions.
    pub(super) splits: Splits,
    /// What it was set to, by the second since which it holds.
    throughputs: BTreeMap<u64, Throughput>,
}

/// Those of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    /// `None` on demand.
    pub(super) provisioned: Option<Bucket>,
    /// `None` if it is provisioned, or warm enough for all of its partitions.
    pub(super) warm: Option<Bucket>,
    /// By partition, and part of it. What is not here is full.
    pub(super) partitions: BTreeMap<PartId, Bucket>,
    pub(super) tally: Tally,
}

impl Meter {
    pub(super) const fn of(&self, kind: Kind) -> &Side {
        &self.sides[kind as usize]
    }

    pub(super) const fn of_mut(&mut self, kind: Kind) -> &mut Side {
        &mut self.sides[kind as usize]
    }

    pub(super) fn set_throughput(
        &mut self,
        now: Duration,
        throughput: Throughput,
        limits: &Limits,
    ) {
        self.note_throughput(now.as_secs(), throughput);
        for kind in [Kind::Read, Kind::Write] {
            let (provisioned, warm) = match (throughput, kind) {
                (Throughput::OnDemand, _) => (None, limits.warm(kind)),
                (Throughput::Provisioned { rcu, .. }, Kind::Read) => (Some(rcu), None),
                (Throughput::Provisioned { wcu, .. }, Kind::Write) => (Some(wcu), None),
            };
            let side = self.of_mut(kind);
            for (bucket, units_per_sec, hold_secs) in [
                (&mut side.provisioned, provisioned, limits.burst_secs),
                (&mut side.warm, warm, UNBANKED_SECS),
            ] {
                *bucket = units_per_sec.map(|units_per_sec| match bucket {
                    Some(bucket) => bucket.at(now).with_rate(units_per_sec, hold_secs),
                    None => Bucket::full(now, units_per_sec, hold_secs),
                });
            }
        }
    }

    /// What it was set to at the end of a second; `None` before it was there.
    pub(super) fn throughput(&self, second: u64) -> Option<Throughput> {
        self.throughputs.range(..=second).next_back().map(|(_, throughput)| *throughput)
    }

    /// Keeps the values since the oldest second that has counts, and the one in force at its begin.
    fn note_throughput(&mut self, second: u64, throughput: Throughput) {
        self.throughputs.insert(second, throughput);
        let first = second.saturating_sub(COUNT_HISTORY_SECS);
        if let Some((since, _)) = self.throughputs.range(..=first).next_back() {
            self.throughputs = self.throughputs.split_off(&{ *since });
        }
    }

    /// Splits the partitions that were hot for long enough. A new part begins with nothing saved up.
    pub(super) fn split_hot_partitions(&mut self, now: Duration, limits: &Limits) {
        let Some(after_secs) = limits.split_after_secs else { return };
        for (part, second) in self.splits.split(now.as_secs(), after_secs.get().into()) {
            for kind in [Kind::Read, Kind::Write] {
                let (begin, units) = (Duration::from_secs(second), limits.partition_units(kind));
                let empty = Bucket::empty(begin, units, UNBANKED_SECS);
                self.of_mut(kind).partitions.insert(part, empty);
            }
        }
    }

    pub(super) fn forget_full_partitions(&mut self, now: Duration) {
        for side in &mut self.sides {
            side.partitions.retain(|_, bucket| !bucket.at(now).is_full());
        }
    }
}

/// What is not provisioned saves up no more than this: a partition, and a table or index on demand.
pub(super) const UNBANKED_SECS: u32 = 1;
