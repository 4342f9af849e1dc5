use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use super::demand::{Demand, Kind, Resource};
use super::limits::Limits;
use super::meter::{Side, UNBANKED_SECS};
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
    pub(super) scope: Scope,
}

/// What a limit is about: a table or index as a whole, or one of its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// What it is provisioned with.
    Provisioned,
    /// What it takes on demand, without having to grow first.
    Warm,
    /// The partition of this range.
    Range(u32),
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
        let (now, units_per_sec) = (self.now, self.limits.partition_units(demand.kind));
        for (id, _) in self.limits_on(demand) {
            let bucket = match id.scope {
                Scope::Provisioned => side.provisioned.as_ref().map(|bucket| bucket.at(now)),
                Scope::Warm => side.warm.as_ref().map(|bucket| bucket.at(now)),
                Scope::Range(range) => Some(side.partitions.get(&range).map_or_else(
                    || Bucket::full(now, units_per_sec, UNBANKED_SECS),
                    |bucket| bucket.at(now),
                )),
            };
            if let Some(bucket) = bucket {
                self.asked_of(id, bucket).total += demand.units;
            }
        }
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

    /// The limits of the whole come first. In DynamoDB the request routers keep that limit, and only
    /// what passes them meets the partition (USENIX ATC 2022: "Amazon DynamoDB: A Scalable,
    /// Predictably Performant, and Fully Managed `NoSQL` Database Service", on global admission
    /// control).
    ///
    /// DynamoDB has no reason of its own for a table that is not warm: that has too few partitions for its load, so they
    /// refuse (Developer Guide: "Diagnosing throttling", whose other reasons are for provisioned tables, quotas and maxima).
    fn limits_on(&self, demand: &Demand<'a>) -> [(LimitId<'a>, Limit); 3] {
        let Demand { resource, kind, .. } = *demand;
        let range = self.limits.partition_of(demand.partition_key);
        [
            (LimitId { resource, kind, scope: Scope::Provisioned }, Limit::Provisioned),
            (LimitId { resource, kind, scope: Scope::Warm }, Limit::KeyRange),
            (LimitId { resource, kind, scope: Scope::Range(range) }, Limit::KeyRange),
        ]
    }

    fn asked_of(&mut self, id: LimitId<'a>, bucket: Bucket) -> &mut Asked {
        self.asked.entry(id).or_insert(Asked { bucket, total: Units::ZERO, running: Units::ZERO })
    }
}

impl Asked {
    fn refuses(&mut self, units: Units) -> bool {
        self.running += units;
        let admits_all = self.bucket.holds(self.total) || self.bucket.is_full();
        !admits_all && !self.bucket.holds(self.running)
    }
}
