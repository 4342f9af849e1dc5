//! When DynamoDB throttles: tables, their indexes, and the partitions behind both.
//!
//! A partition is a range of hashed partition keys. [`Partitions`] cuts the hashes of every table,
//! and of every global secondary index, into equal ranges and meters each by itself:
//!
//! - A partition takes 1,000 write and 3,000 read units a second, each kind metered alone, whatever
//!   the table's mode (Developer Guide: "Best practices for designing and using partition keys
//!   effectively in DynamoDB"; "Key range throughput exceeded (hot partitions)"). The units refill
//!   continuously, and one second's worth is all that can be saved up: burst capacity does not lift
//!   this limit (AWS re:Post: "How does DynamoDB handle spiky workloads in short intervals?").
//! - A provisioned table or index has its own limit beside those of its partitions. What it leaves
//!   unused is banked, up to 300 seconds of it, and may be spent at any rate (Developer Guide:
//!   "DynamoDB burst and adaptive capacity"). A new one begins with a full bank. The guide does not
//!   say so, but DynamoDB behaves so: a new table with 5 units takes hundreds of writes at once.
//! - A table or index on demand may have such a limit, too: its warm throughput, which it takes without having to grow first
//!   (Developer Guide: "Understanding DynamoDB warm throughput"). Beyond it is refused as by a partition, because DynamoDB has
//!   too few partitions for it. Here it does not grow.
//!
//! # What is admitted
//!
//! A request is admitted if every limit that it meets holds what the request asks of it in all, or
//! else holds as much as it ever can. The second case lets a large item or transaction pass a limit
//! smaller than itself: the limit then is in debt, and admits nothing until time has paid. AWS does
//! not say how it treats these; without the rule such a request could never pass. While smaller
//! requests keep a limit from filling up, the large one waits.
//!
//! A request is refused or admitted as a whole, and a refused one consumes nothing. So a transaction
//! is one request, and each item of a batch is one, too. A write and the writes that it causes in
//! indexes are one request: an index without capacity throttles its table's writes (Developer
//! Guide: "Using Global Secondary Indexes in DynamoDB", "Write capacity units").
//!
//! Where the true cost is known only after the engine has answered, admit what is known,
//! [`Partitions::charge`] what is missing and [`Partitions::refund`] what was too much.
//!
//! # Splits for heat
//!
//! With [`Limits::split_after_secs`] a partition that refused requests in each of so many seconds is split in two, between
//! two keys at the median of the requests that it got in these seconds, and each part has the limits of a partition. A part is
//! split again in the same way. AWS names neither the measure nor the time. It does say that DynamoDB never divides one item,
//! nor an item collection where the table has a local secondary index or where sort keys only rise or fall (Developer Guide:
//! "DynamoDB burst and adaptive capacity"). The last follows here by itself: a split comes, and all writes are still in one
//! part.
//!
//! Ours is that a global secondary index is split between its partition keys only, and that what names no sort key, as a
//! `Query`, meets the part in which its collection begins.
//!
//! # What is not modelled
//!
//! A table on demand does not grow by its load and has no maximum throughput, and the account has no quota.

mod bucket;
mod demand;
mod limits;
mod meter;
mod refusal;
mod splits;
mod tally;

pub use demand::{Demand, Kind, Resource, Throughput};
pub use dynashard_keys::SortKeyType;
pub use limits::Limits;
pub use refusal::{Limit, LimitHit, Refusal};
pub use tally::{Counts, ThrottledKey};

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::units::Units;
use bucket::Bucket;
use meter::{Table, Tables, UNBANKED_SECS};
use splits::PartId;
use tally::Tally;

/// The limits of all tables of one endpoint, and what passed and met them.
///
/// `now` is the time since any fixed moment. Counts are kept by its whole seconds, so the Unix epoch
/// makes them CloudWatch's timestamps. A `now` before an earlier one counts as that one.
///
/// Memory is bounded. A partition takes some only while it is not full, and where it is hot or split, for at most
/// [`Partitions::MOST_PARTS`]; counts are kept for
/// [`Partitions::COUNT_HISTORY_SECS`], and throttled keys for
/// [`Partitions::KEY_HISTORY_SECS`], the most throttled [`Partitions::KEYS_PER_SECOND`] of each
/// second.
#[derive(Debug, Clone)]
pub struct Partitions {
    limits: Limits,
    tables: Tables,
    latest: Duration,
}

/// Names one limit.
type LimitId<'a> = (Resource<'a>, Kind, Scope);

/// What is asked of each limit.
type Asked<'a> = BTreeMap<LimitId<'a>, Units>;

/// What a limit is about: a table or index as a whole, or one of its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// What it is provisioned with.
    Provisioned,
    /// What it takes on demand, without having to grow first.
    Warm,
    /// The partition of a range, or a part of it.
    Part(PartId),
}

impl Partitions {
    /// How long counts are kept, in seconds: as long as CloudWatch keeps what it has by the second
    /// (CloudWatch API: `GetMetricStatistics`).
    pub const COUNT_HISTORY_SECS: u64 = tally::COUNT_HISTORY_SECS;
    /// How long throttled keys are kept, in seconds.
    pub const KEY_HISTORY_SECS: u64 = tally::KEY_HISTORY_SECS;
    /// How many throttled partition keys, and how many throttled items, are counted separately within a
    /// second, for each resource and kind. Contributor Insights reports at most 25 of a period.
    pub const KEYS_PER_SECOND: usize = tally::KEYS_PER_SECOND;
    /// Into how many parts heat splits one partition at most. AWS names no bound.
    pub const MOST_PARTS: usize = splits::MOST_PARTS;

    /// No tables yet.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, tables: Tables(BTreeMap::new()), latest: Duration::ZERO }
    }

    /// Creates a table with its global secondary indexes, or changes their throughput. Indexes that
    /// are not named are gone.
    ///
    /// A provisioned limit keeps what it has banked when its rate changes, as far as it fits; a new
    /// one begins with a full bank. Partitions do not change.
    pub fn set_table<'a>(
        &mut self,
        now: Duration,
        name: &str,
        throughput: Throughput,
        indexes: impl IntoIterator<Item = (&'a str, Throughput)>,
    ) {
        self.advance(now);
        let (now, limits) = (self.latest, self.limits);
        let table = self.tables.0.entry(name.to_owned()).or_default();
        table.own.set_throughput(now, throughput, &limits);
        let mut old = std::mem::take(&mut table.indexes);
        for (index, throughput) in indexes {
            let mut meter = old.remove(index).unwrap_or_default();
            meter.set_throughput(now, throughput, &limits);
            table.indexes.insert(index.to_owned(), meter);
        }
    }

    /// Says by which sort keys the item collections of a table may be split for heat. `None`, as of a new table, where they may not:
    /// it has no sort key, or a local secondary index, whose collections DynamoDB does not split (Developer Guide: "DynamoDB burst
    /// and adaptive capacity"). Ours is that those of binary sort keys stay whole, too.
    pub fn split_by(&mut self, name: &str, sort_keys: Option<SortKeyType>) {
        if let Some(table) = self.tables.0.get_mut(name) {
            table.own.splits.sort_keys = sort_keys;
        }
    }

    /// Forgets a table, its indexes and their counts.
    pub fn remove_table(&mut self, name: &str) {
        self.tables.0.remove(name);
    }

    /// Admits a request as a whole, or refuses it as a whole and says which limits it met.
    ///
    /// Demands on tables and indexes that were not [set](Self::set_table) are neither limited nor
    /// counted: the engine does not know them either, and refuses them itself.
    pub fn admit(&mut self, now: Duration, demands: &[Demand<'_>]) -> Result<(), Refusal> {
        self.advance(now);
        let asked = self.asked(demands);
        let hits = if self.limits.are_enforced { self.hits(demands, &asked) } else { Vec::new() };
        self.note(demands);
        if !hits.is_empty() {
            for hit in &hits {
                let demand = &demands[hit.demand];
                self.tally(demand, |tally, second| tally.throttled(second, demand, hit.limit));
            }
            return Err(Refusal { hits });
        }
        self.take(&asked, demands);
        Ok(())
    }

    /// Admits a request, or several together, for all of which there is room without any debt, and
    /// says whether it did. Otherwise nothing changes and nothing counts as throttled: the caller
    /// may look at the request more closely before it has [`Self::admit`] decide.
    pub fn admit_if_room(&mut self, now: Duration, demands: &[Demand<'_>]) -> bool {
        self.advance(now);
        let asked = self.asked(demands);
        let mut asked_of = asked.iter();
        let has_room = !self.limits.are_enforced
            || asked_of
                .all(|(id, total)| self.bucket(*id).is_none_or(|bucket| bucket.holds(*total)));
        if has_room {
            self.take(&asked, demands);
            self.note(demands);
        }
        has_room
    }

    /// Takes what an admitted request turned out to cost beyond what was admitted, into debt where
    /// a limit holds less. The work is done, so there is nothing left to refuse.
    pub fn charge(&mut self, now: Duration, demands: &[Demand<'_>]) {
        self.advance(now);
        let asked = self.asked(demands);
        self.change(&asked, Bucket::take);
        for demand in demands {
            self.tally(demand, |tally, second| tally.charged(second, demand.units));
        }
    }

    /// Gives back what a request, admitted at `admitted_at`, turned out not to cost: its condition
    /// was false, or the request was invalid. Limits take back what they have room for, and the
    /// counts of that earlier second shrink; a refunded demand still counts as admitted.
    pub fn refund(&mut self, now: Duration, admitted_at: Duration, demands: &[Demand<'_>]) {
        self.advance(now);
        let asked = self.asked(demands);
        self.change(&asked, Bucket::give);
        for demand in demands {
            self.tally(demand, |tally, _| tally.refunded(admitted_at.as_secs(), demand.units));
        }
    }

    /// Every table, each followed by its global secondary indexes.
    pub fn resources(&self) -> impl Iterator<Item = Resource<'_>> {
        self.tables.0.iter().flat_map(|(name, table)| {
            let indexes = table.indexes.keys();
            let indexes = indexes.map(|index| Resource::index(name.as_str(), index.as_str()));
            std::iter::once(Resource::table(name.as_str())).chain(indexes)
        })
    }

    /// What was admitted and throttled, as CloudWatch tells it.
    pub fn statistics(&self) -> Statistics<'_> {
        Statistics { partitions: self }
    }

    /// Time does not go back, and whatever is full again needs no memory.
    fn advance(&mut self, now: Duration) {
        let is_new_second = now.as_secs() > self.latest.as_secs();
        self.latest = self.latest.max(now);
        if is_new_second {
            for meter in self.tables.0.values_mut().flat_map(Table::meters_mut) {
                meter.split_hot_partitions(now, &self.limits);
                meter.forget_full_partitions(now);
            }
        }
    }

    /// The limits that a demand meets, those of the whole first. In DynamoDB the request routers keep
    /// that limit, and only what passes them meets the partition (USENIX ATC 2022: "Amazon DynamoDB: A
    /// Scalable, Predictably Performant, and Fully Managed `NoSQL` Database Service", on global admission
    /// control).
    ///
    /// DynamoDB has no reason of its own for a table that is not warm: that has too few partitions for its load, so they
    /// refuse (Developer Guide: "Diagnosing throttling", whose other reasons are for provisioned tables, quotas and maxima).
    fn limits_on<'a>(&self, demand: &Demand<'a>) -> [(LimitId<'a>, Limit); 3] {
        let Demand { resource, kind, .. } = *demand;
        let range = self.limits.partition_of(demand.partition_key);
        let meter = self.tables.meter(resource);
        let part = meter.map_or((range, 0), |meter| meter.splits.part(range, demand));
        [
            ((resource, kind, Scope::Provisioned), Limit::Provisioned),
            ((resource, kind, Scope::Warm), Limit::KeyRange),
            ((resource, kind, Scope::Part(part)), Limit::KeyRange),
        ]
    }

    /// A limit as it is now, if the table or index has it.
    fn bucket(&mut self, (resource, kind, scope): LimitId<'_>) -> Option<&mut Bucket> {
        let (now, units_per_sec) = (self.latest, self.limits.partition_units(kind));
        let side = self.tables.meter_mut(resource)?.of_mut(kind);
        let bucket = match scope {
            Scope::Provisioned => side.provisioned.as_mut()?,
            Scope::Warm => side.warm.as_mut()?,
            Scope::Part(part) => {
                let full = || Bucket::full(now, units_per_sec, UNBANKED_SECS);
                side.partitions.entry(part).or_insert_with(full)
            }
        };
        *bucket = bucket.at(now);
        Some(bucket)
    }

    /// What the demands ask of each limit together.
    fn asked<'a>(&mut self, demands: &[Demand<'a>]) -> Asked<'a> {
        let mut asked = Asked::new();
        for demand in demands.iter().filter(|demand| demand.units > Units::ZERO) {
            for (id, _) in self.limits_on(demand) {
                if self.bucket(id).is_some() {
                    *asked.entry(id).or_default() += demand.units;
                }
            }
        }
        asked
    }

    /// Each demand that is refused, with the first limit that it meets. Where a limit cannot take all that the request asks
    /// of it, it refuses the demands from the one on that no longer fits.
    fn hits<'a>(&mut self, demands: &[Demand<'a>], asked: &Asked<'a>) -> Vec<LimitHit> {
        // What the demands ask that were looked at so far.
        let mut running = Asked::new();
        let mut hits = Vec::new();
        let some = demands.iter().enumerate().filter(|(_, demand)| demand.units > Units::ZERO);
        for (at, demand) in some {
            let met = self.limits_on(demand).into_iter().find(|(id, _)| {
                let Some(total) = asked.get(id) else { return false };
                let running = running.entry(*id).or_default();
                *running += demand.units;
                self.bucket(*id).is_some_and(|bucket| {
                    !bucket.holds(*total) && !bucket.is_full() && !bucket.holds(*running)
                })
            });
            let Some(((resource, _, scope), limit)) = met else { continue };
            hits.push(LimitHit::new(at, demand, limit));
            if let Scope::Part(part) = scope
                && self.limits.split_after_secs.is_some()
                && let Some(meter) = self.tables.meter_mut(resource)
            {
                meter.splits.refused(part, self.latest.as_secs());
            }
        }
        hits
    }

    /// Takes what admitted demands ask, and counts them.
    fn take<'a>(&mut self, asked: &Asked<'a>, demands: &[Demand<'a>]) {
        self.change(asked, Bucket::take);
        for demand in demands {
            self.tally(demand, |tally, second| tally.admitted(second, demand.units));
        }
    }

    /// Notes where requests lie, admitted or not: a partition that is hot is split by that.
    fn note(&mut self, demands: &[Demand<'_>]) {
        if self.limits.split_after_secs.is_none() {
            return;
        }
        for demand in demands.iter().filter(|demand| demand.units > Units::ZERO) {
            let range = self.limits.partition_of(demand.partition_key);
            if let Some(meter) = self.tables.meter_mut(demand.resource) {
                meter.splits.note(range, demand);
            }
        }
    }

    fn change(&mut self, asked: &Asked<'_>, change: fn(&mut Bucket, Units)) {
        for (id, total) in asked {
            if let Some(bucket) = self.bucket(*id) {
                change(bucket, *total);
            }
        }
    }

    fn tally(&mut self, demand: &Demand<'_>, count: impl FnOnce(&mut Tally, u64)) {
        let second = self.latest.as_secs();
        if demand.units > Units::ZERO
            && let Some(meter) = self.tables.meter_mut(demand.resource)
        {
            count(&mut meter.of_mut(demand.kind).tally, second);
        }
    }
}

/// What was admitted and throttled.
#[derive(Debug, Clone, Copy)]
pub struct Statistics<'a> {
    partitions: &'a Partitions,
}

impl<'a> Statistics<'a> {
    /// The capacity mode at the end of this second, as far back as counts are kept; `None` where the
    /// table or index was not there yet.
    pub fn throughput(self, resource: Resource<'_>, second: u64) -> Option<Throughput> {
        self.partitions.tables.meter(resource)?.throughput(second)
    }

    /// What was consumed and throttled in these whole seconds.
    pub fn counts(self, resource: Resource<'_>, kind: Kind, seconds: Range<u64>) -> Counts {
        self.per_second(resource, kind, seconds).map(|(_, counts)| counts).sum()
    }

    /// What was consumed and throttled, for each second that has counts, in order.
    pub fn per_second(
        self,
        resource: Resource<'_>,
        kind: Kind,
        seconds: Range<u64>,
    ) -> impl Iterator<Item = (u64, Counts)> + use<'a> {
        let meter = self.partitions.tables.meter(resource).map(|meter| meter.of(kind));
        meter.into_iter().flat_map(move |side| side.tally.per_second(seconds.clone()))
    }

    /// The partition keys that were throttled most in these whole seconds, with how often: at most
    /// `limit`, the most throttled first.
    ///
    /// This is the rule `DynamoDBContributorInsights-PKT`. Counts are exact while a second throttles
    /// at most [`Partitions::KEYS_PER_SECOND`] keys. Beyond, a key that made up more than its share of a
    /// second's throttles is never missed, and its count for that second is too high by at most
    /// that share.
    pub fn throttled_partition_keys(
        self,
        resource: Resource<'_>,
        kinds: &[Kind],
        seconds: Range<u64>,
        limit: usize,
    ) -> Vec<(ThrottledKey, u64)> {
        tally::most_throttled(
            self.tallies(resource, kinds),
            |tally| &tally.partition_keys,
            &seconds,
            limit,
        )
    }

    /// The most throttled items, by partition key and sort key: the rule
    /// `DynamoDBContributorInsights-SKT`. Demands without a sort key are not among them.
    pub fn throttled_items(
        self,
        resource: Resource<'_>,
        kinds: &[Kind],
        seconds: Range<u64>,
        limit: usize,
    ) -> Vec<(ThrottledKey, u64)> {
        tally::most_throttled(self.tallies(resource, kinds), |tally| &tally.items, &seconds, limit)
    }

    fn tallies(self, resource: Resource<'_>, kinds: &'a [Kind]) -> impl Iterator<Item = &'a Tally> {
        let meter = self.partitions.tables.meter(resource);
        kinds.iter().filter_map(move |kind| Some(&meter?.of(*kind).tally))
    }
}
