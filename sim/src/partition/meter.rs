use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use super::tally::Tally;
use super::{Kind, Throughput};

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
    reads: Side,
    writes: Side,
}

/// Those of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    /// `None` on demand.
    pub(super) provisioned: Option<Bucket>,
    /// By range. A partition that is not here is full.
    pub(super) partitions: BTreeMap<u32, Bucket>,
    pub(super) tally: Tally,
}

impl Meter {
    pub(super) const fn of(&self, kind: Kind) -> &Side {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
        }
    }

    pub(super) const fn of_mut(&mut self, kind: Kind) -> &mut Side {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        }
    }

    pub(super) fn set_throughput(
        &mut self,
        now: Duration,
        throughput: Throughput,
        burst_secs: u32,
    ) {
        let (rcu, wcu) = match throughput {
            Throughput::OnDemand => (None, None),
            Throughput::Provisioned { rcu, wcu } => (Some(rcu), Some(wcu)),
        };
        for (kind, units_per_sec) in [(Kind::Read, rcu), (Kind::Write, wcu)] {
            let provisioned = &mut self.of_mut(kind).provisioned;
            *provisioned = units_per_sec.map(|units_per_sec| match provisioned {
                Some(bucket) => bucket.at(now).with_rate(units_per_sec, burst_secs),
                None => Bucket::full(now, units_per_sec, 1).with_rate(units_per_sec, burst_secs),
            });
        }
    }

    pub(super) fn forget_full_partitions(&mut self, now: Duration) {
        for side in [&mut self.reads, &mut self.writes] {
            side.partitions.retain(|_, bucket| !bucket.at(now).is_full());
        }
    }
}
