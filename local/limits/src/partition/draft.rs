use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use super::demand::{Demand, Kind, Resource};
use super::limits::Limits;
use super::meter::Side;
use super::refusal::Limit;
use crate::units::Units;

/// A request that is being weighed. The limits in it are copies, so nothing has happened yet.
pub(super) struct Draft<'a> {
    now: Duration,
    limits: Limits,
    asked: BTreeMap<LimitId<'a>, Asked>,
}

/// Names one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LimitId<'a> {
    pub(super) resource: Resource<'a>,
    pub(super) kind: Kind,
    /// The partition; `None` for what the table or index is provisioned with.
    pub(super) range: Option<u32>,
}

/// What a request asks of one limit.
struct Asked {
    bucket: Bucket,
    total: Units,
    /// Of that, what the demands ask that were looked at so far.
    running: Units,
}

impl<'a> Draft<'a> {
    pub(super) const fn new(now: Duration, limits: Limits) -> Self {
        Self { now, limits, asked: BTreeMap::new() }
    }

    /// Adds a demand on a table or index, whose limits of the demand's kind are `side`.
    pub(super) fn ask(&mut self, demand: &Demand<'a>, side: &Side) {
        if demand.units == Units::ZERO {
            return;
        }
        let [(provisioned, _), (partition, _)] = self.limits_on(demand);
        let now = self.now;
        if let Some(bucket) = &side.provisioned {
            self.asked_of(provisioned, || bucket.at(now)).total += demand.units;
        }
        let known = partition.range.and_then(|range| side.partitions.get(&range));
        let units_per_sec = self.limits.partition_units(demand.kind);
        let full = || Bucket::full(now, units_per_sec, PARTITION_HOLD_SECS);
        let bucket = || known.map_or_else(full, |bucket| bucket.at(now));
        self.asked_of(partition, bucket).total += demand.units;
    }

    /// The first limit that refuses this demand. Call it once for each demand, in order.
    ///
    /// Where a limit cannot take all that the request asks of it, it refuses the demands from the
    /// one on that no longer fits.
    pub(super) fn refuses(&mut self, demand: &Demand<'a>) -> Option<Limit> {
        if demand.units == Units::ZERO {
            return None;
        }
        self.limits_on(demand)
            .into_iter()
            .find(|(id, _)| self.asked.get_mut(id).is_some_and(|asked| asked.refuses(demand.units)))
            .map(|(_, limit)| limit)
    }

    /// Whether every limit holds all that the request asks of it.
    pub(super) fn has_room(&self) -> bool {
        self.asked.values().all(|asked| asked.bucket.holds(asked.total))
    }

    /// The limits as the admitted request leaves them.
    pub(super) fn into_taken(self) -> impl Iterator<Item = (LimitId<'a>, Bucket)> {
        self.asked.into_iter().map(|(id, mut asked)| {
            asked.bucket.take(asked.total);
            (id, asked.bucket)
        })
    }

    /// The limits once they have back what is asked of them.
    pub(super) fn into_given(self) -> impl Iterator<Item = (LimitId<'a>, Bucket)> {
        self.asked.into_iter().map(|(id, mut asked)| {
            asked.bucket.give(asked.total);
            (id, asked.bucket)
        })
    }

    /// What is provisioned comes first. In DynamoDB the request routers keep that limit, and only
    /// what passes them meets the partition (USENIX ATC 2022: "Amazon DynamoDB: A Scalable,
    /// Predictably Performant, and Fully Managed `NoSQL` Database Service", on global admission
    /// control).
    fn limits_on(&self, demand: &Demand<'a>) -> [(LimitId<'a>, Limit); 2] {
        let Demand { resource, kind, .. } = *demand;
        let range = self.limits.partition_of(demand.partition_key);
        [
            (LimitId { resource, kind, range: None }, Limit::Provisioned),
            (LimitId { resource, kind, range: Some(range) }, Limit::KeyRange),
        ]
    }

    fn asked_of(&mut self, id: LimitId<'a>, bucket: impl FnOnce() -> Bucket) -> &mut Asked {
        self.asked.entry(id).or_insert_with(|| Asked {
            bucket: bucket(),
            total: Units::ZERO,
            running: Units::ZERO,
        })
    }
}

/// A partition never saves up more than this.
const PARTITION_HOLD_SECS: u32 = 1;

impl Asked {
    fn refuses(&mut self, units: Units) -> bool {
        self.running += units;
        let admits_all = self.bucket.holds(self.total) || self.bucket.is_full();
        !admits_all && !self.bucket.holds(self.running)
    }
}
