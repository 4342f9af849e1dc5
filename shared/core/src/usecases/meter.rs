//! What one environment sees of the traffic of its collections, and when it reports that.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use lru::LruCache;
use parking_lot::Mutex;
use xxhash_rust::xxh64::Xxh64;

use crate::decide::chance;
use crate::decide::evidence::COMPLETE_AFTER;
use crate::model::lease::{Dated, Moment};
use crate::model::ledger::sample::{self, RESENT_WITHIN, Samples};
use crate::model::ledger::{Addition, Bucket, CLASSES, Ledger, LedgerKind, Measures, Span};
use crate::model::policy::Access;

/// What one environment sees of the traffic of its collections.
pub(crate) struct Meter {
    state: Mutex<State>,
    /// How small a sample of operations is kept: that of a collection of one shard.
    level: u8,
}

/// An operation, when its request comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) partition: &'a PartitionKey,
    /// The item; none for a query.
    pub(crate) item: Option<&'a ItemKey>,
    pub(crate) access: Access,
    /// What it asks for, in write or read units, if that is known before it is done.
    pub(crate) units: Option<f64>,
    /// What it counts for, too: that of all that is written to indexes.
    pub(crate) beside: Option<&'a PartitionKey>,
}

/// What DynamoDB granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    /// To so many operations together, which are not none.
    pub(crate) operations: f64,
    /// Write or read units.
    pub(crate) units: f64,
}

impl Granted {
    /// Units for one operation.
    pub(crate) fn to_one(units: f64) -> Self {
        Self { operations: 1.0, units }
    }
}

/// What is due under a throttle.
#[derive(Debug)]
pub(crate) enum Due {
    /// A report.
    Report(Addition),
    /// A look at what others report.
    Look,
    /// The decision that this environment was elected to make: by now all have reported the second before.
    Decide,
}

struct State {
    collections: LruCache<PartitionKey, Traffic>,
    /// Operations that were refused for throttles, by the hash of their keys, and until when they may come
    /// again, on the boot clock.
    refused: LruCache<u64, Duration>,
    /// How much DynamoDB's clock is ahead of this one, in seconds; 0 where they agree.
    ahead_secs: i64,
}

/// One collection.
#[derive(Default)]
struct Traffic {
    /// What no ledger has yet, by the second and by the minute, oldest first.
    seconds: Vec<(Bucket, Measures)>,
    /// What clients would have asked for, by the second, whose writes are held.
    unhindered: Vec<(Bucket, Measures)>,
    minutes: Vec<(Bucket, Measures)>,
    ranking: Ranking,
    /// The sort keys of the last writes, oldest first, at most one in [`KEY_EVERY`], and when each came. All clocks count: that of
    /// a frozen environment may stand, and by what it wrote before it would decide on another epoch than the hot one.
    written: VecDeque<(Moment, SortKey)>,
    /// The writes that were answered, as far as they are of the sample and in no ledger yet.
    samples: Samples,
    /// How small a sample of them is reported, beyond that of so large a collection.
    level_above: u8,
    /// When that was changed.
    level_since: Option<Duration>,
    /// What a write, a get and a page of a query were granted of late.
    usual_units: [f64; 3],
    /// Since when it is throttled, and when that was last seen. Like all that is only compared with later moments
    /// of this environment, on the boot clock: the corrected one jumps when it is corrected.
    throttled: Option<(Duration, Duration)>,
    /// When this environment last reported, or might have, and when it may again.
    reported_at: Option<(Duration, Duration)>,
    /// When it is to decide.
    decides_at: Option<Duration>,
    /// When it last saw the ledger.
    looked_at: Option<Duration>,
    /// See [`chance::gain`].
    gain: Option<f64>,
    /// How many reports the last minute took, and for how many environments they stood.
    load_reports: (f64, f64),
    expired_heat: Vec<String>,
    expired_load: Vec<String>,
}

/// The hottest sort keys since the last report, by Space-Saving (Metwally, Agrawal and El Abbadi,
/// "Efficient Computation of Frequent and Top-k Elements in Data Streams"). A key's count begins anew when it takes the
/// place of another, so it is never too high.
#[derive(Default)]
struct Ranking {
    /// When it began, on the boot clock.
    since: Duration,
    places: Vec<Place>,
    operations: u32,
    units: f64,
}

struct Place {
    hash: u64,
    hits: u32,
    units: f64,
    /// What its predecessors had.
    inherited: f64,
}

/// The collections that an environment meters: what comes up more seldom hardly adds to a load.
const METERED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");
/// The refused operations that it remembers.
const REMEMBERED_REFUSALS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");
/// The sort keys that it tells from each other.
const RANKED_KEYS: usize = 8;
/// The part of its units from which on a sort key is reported as the hottest.
const REPORTED_SHARE: f64 = 0.3;

/// How often an environment looks how many report, that does not report itself.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// From so long after the first throttle on. All who are to report have done so by then.
const LOOK_AFTER: Duration = Duration::from_secs(3);
/// The complete seconds in which reports are counted.
const COUNTED_SECS: u64 = 2;
/// How long after a throttle an environment goes on reporting.
const THROTTLED_FOR: Duration = Duration::from_secs(5);
/// How long after its end an environment reports a second, at most. They do not all come at once.
const REPORTS_WITHIN: Duration = Duration::from_millis(150);
/// For how long after the first throttle halves of seconds are reported: until it is decided on.
const HALVES_REPORTED: Duration = Duration::from_secs(4);
/// Clocks that differ by less are taken for equal: a `Date` is cut to seconds.
const CLOCKS_DIFFER_SECS: i64 = 2;
/// What is older was never reported, since nothing was throttled.
const SECONDS_KEPT: usize = 6;
/// Seconds that ended longer ago are not reported.
const SECONDS_REPORTED: Duration = Duration::from_secs(6);
/// What came longer ago has no part in which sort key is the hottest now.
const RANKED_FOR: Duration = Duration::from_secs(6);
const MINUTES_KEPT: usize = 3;
/// So many sort keys of the last writes are kept of a collection.
const KEYS_KEPT: usize = 60;
/// No two of them are of writes that came sooner one after the other.
const KEY_EVERY: Duration = Duration::from_millis(50);
/// What was written longer ago tells nothing.
const KEYS_TELL: Duration = Duration::from_secs(30);

impl Meter {
    /// One where a partition `takes` so many write units a second.
    pub(crate) fn new(takes: f64) -> Self {
        let state = Mutex::new(State {
            collections: LruCache::new(METERED_COLLECTIONS),
            refused: LruCache::new(REMEMBERED_REFUSALS),
            ahead_secs: 0,
        });
        Self { state, level: sample::level_of(takes) }
    }

    /// The time by DynamoDB's clock, as far as it is known.
    pub(crate) fn now(&self, now: Moment) -> Duration {
        self.state.lock().corrected(now)
    }

    /// Takes note of an operation that comes in, unless it is one that was refused a moment ago.
    pub(crate) fn arrived(&self, incoming: Incoming<'_>, now: Moment) {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let hash = incoming.item.map(hash);
        if hash.and_then(|hash| state.refused.pop(&hash)).is_some_and(|until| now.boot <= until) {
            return;
        }
        let seen = state.seen(incoming.partition);
        let usual = *seen.usual_units_of(incoming.access);
        let units = incoming.units.unwrap_or(if usual > 0.0 { usual } else { 1.0 });
        let note = |measures: &mut Measures| {
            let (operations, asked) = match incoming.access {
                Access::Write => (&mut measures.writes, &mut measures.write_units),
                Access::Get => (&mut measures.gets, &mut measures.get_units),
                Access::Query => (&mut measures.queries, &mut measures.query_units),
            };
            *operations += 1.0;
            *asked += units;
        };
        for partition in [Some(incoming.partition), incoming.beside].into_iter().flatten() {
            let seen = state.seen(partition);
            seen.note(at, note);
            let Some(hash) = hash else { continue };
            if now.boot > seen.ranking.since + RANKED_FOR {
                seen.ranking = Ranking { since: now.boot, ..Ranking::default() };
            }
            seen.ranking.add(hash, units);
        }
    }

    /// Takes note of units that DynamoDB granted.
    pub(crate) fn granted(
        &self,
        partition: &PartitionKey,
        access: Access,
        Granted { operations, units }: Granted,
        now: Moment,
    ) {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let seen = state.seen(partition);
        let (usual, each) = (seen.usual_units_of(access), units / operations);
        // A tenth of the average is of the last operation.
        let kept = 0.9_f64.powf(operations);
        *usual = if *usual > 0.0 { *usual * kept + each * (1.0 - kept) } else { each };
        seen.note(at, |measures| match access {
            Access::Write => measures.written_units += units,
            Access::Get | Access::Query => measures.read_units += units,
        });
    }

    /// Takes note of a write that is refused, or is throttled and held, which another environment would have refused.
    pub(crate) fn held(&self, partition: &PartitionKey, now: Moment) {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let seen = state.seen(partition);
        let units = seen.usual_units[0].max(1.0);
        seen.note(at, |measures| measures.refused_units += units);
    }

    /// Takes note of the write units that clients would have been granted instead of some that they were, had none of their writes
    /// been held.
    pub(crate) fn unhindered(&self, partition: &PartitionKey, units: f64, now: Moment) {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let kept = &mut state.seen(partition).unhindered;
        let measures = Measures { write_units: units, ..Measures::default() };
        add_at(kept, Bucket::of(Span::Second, at), &measures);
        let surplus = kept.len().saturating_sub(SECONDS_KEPT);
        kept.drain(..surplus);
    }

    /// Takes note of a throttle.
    pub(crate) fn throttled(&self, partition: &PartitionKey, now: Moment) {
        let mut state = self.state.lock();
        let (at, seen) = (now.boot, state.seen(partition));
        let since = seen.throttled.filter(|(_, last)| *last + THROTTLED_FOR >= at);
        if since.is_none() {
            seen.gain = None;
            (seen.level_above, seen.level_since) = (0, None);
        }
        seen.throttled = Some((since.map_or(at, |(since, _)| since), at));
    }

    /// Takes note of an operation that was answered as throttled. Its client may send it again, and demands
    /// no more by that.
    pub(crate) fn refused(&self, key: &ItemKey, now: Moment) {
        self.state.lock().refused.put(hash(key), now.boot + RESENT_WITHIN);
    }

    /// Takes note of a write that was done, or answered as throttled.
    pub(crate) fn answered(&self, key: &ItemKey, is_throttled: bool, now: Moment) {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let hash = hash(key);
        if is_throttled {
            state.refused.put(hash, now.boot + RESENT_WITHIN);
        }
        let seen = state.seen(&key.partition);
        if seen.written.back().is_none_or(|(last, _)| now.perhaps_since(*last) >= KEY_EVERY) {
            seen.written.push_back((now, key.sort.clone()));
            let surplus = seen.written.len().saturating_sub(KEYS_KEPT);
            seen.written.drain(..surplus);
        }
        if is_throttled {
            let units = seen.usual_units[0].max(1.0);
            seen.note(at, |measures| measures.refused_units += units);
        }
        if let Some(operation) = sample::sampled(hash, self.level, is_throttled) {
            seen.samples.entry(at.as_secs()).or_default().insert(operation);
            seen.samples.retain(|second, _| at.as_secs() < second + SECONDS_REPORTED.as_secs());
        }
    }

    /// The sort keys of some of the last writes to a collection, oldest first, whether they were done or throttled.
    pub(crate) fn written(&self, partition: &PartitionKey, now: Moment) -> Vec<SortKey> {
        let state = self.state.lock();
        let written = state.collections.peek(partition).map(|seen| &seen.written);
        let tell = |(at, _): &&(Moment, SortKey)| now.perhaps_since(*at) < KEYS_TELL;
        written.into_iter().flatten().filter(tell).map(|(_, sort)| sort.clone()).collect()
    }

    /// Has this environment decide on a collection when the last second is complete.
    pub(crate) fn decide_later(&self, partition: &PartitionKey, now: Moment) {
        let mut state = self.state.lock();
        let into = into_second(state.corrected(now));
        let wait = COMPLETE_AFTER.saturating_sub(into);
        state.seen(partition).decides_at = Some(now.boot + wait);
    }

    /// What this environment adds to the ledger of a throttled collection, if it is its turn. All shards
    /// together grant `capacity` units a second.
    pub(crate) fn heat_due(
        &self,
        partition: &PartitionKey,
        access: Access,
        capacity: f64,
        now: Moment,
        draw: u64,
    ) -> Option<Due> {
        let mut state = self.state.lock();
        let at = state.corrected(now);
        let seen = state.collections.get_mut(partition)?;
        let (since, last) = seen.throttled?;
        if last + THROTTLED_FOR < now.boot {
            return None;
        }
        if seen.decides_at.take_if(|decides_at| now.boot >= *decides_at).is_some() {
            return Some(Due::Decide);
        }
        let before = seen.reported_at;
        if before.is_some_and(|(_, next)| now.boot < next) {
            return None;
        }
        let before = before.map(|(at, _)| at);
        // A second is reported soon after its end, whenever the last report was. At first its halves are, so that less is
        // missing of environments that get no further request for a while.
        let into = into_second(at);
        let half = Duration::from_millis(500);
        let is_fresh = now.boot < since + HALVES_REPORTED;
        let end = if is_fresh && into < half { half } else { Duration::from_secs(1) };
        let next = end.saturating_sub(into);
        let spread = REPORTS_WITHIN.mul_f64(f64::from(draw.to_le_bytes()[0]) / 256.0);
        seen.reported_at = Some((now.boot, now.boot + next + spread));
        let mut seconds = std::mem::take(&mut seen.seconds);
        // Seldom used, it may have kept seconds of long ago; and some of a clock that was wrong.
        seconds.retain(|(bucket, _)| {
            bucket.start_secs <= at.as_secs() && at < bucket.end() + SECONDS_REPORTED
        });
        for (bucket, would_be) in seen.unhindered.drain(..) {
            let asked = seconds.iter_mut().find(|(of, _)| *of == bucket);
            if let Some((_, measures)) = asked.filter(|(_, m)| m.write_units > 0.0) {
                let times = (would_be.write_units / measures.write_units).max(1.0);
                measures.write_units *= times;
                measures.writes *= times;
            }
        }
        let units = seconds.iter().map(|(_, measures)| match access {
            Access::Write => (measures.write_units, measures.written_units),
            Access::Get | Access::Query => {
                (measures.get_units + measures.query_units, measures.read_units)
            }
        });
        let units = units.fold((0.0, 0.0), |(asked, granted), of| (asked + of.0, granted + of.1));
        // The first report holds what came before the throttle, too: many times as much as the next ones.
        let first = seconds.first().map_or(at, |(bucket, _)| bucket.start());
        let since_first = at.saturating_sub(first);
        let covered = before.map_or(since_first, |at| since_first.min(now.boot.saturating_sub(at)));
        let secs = covered.as_secs_f64().max(1.0);
        let a_second = (units.0 / secs, units.1 / secs);
        let throttled_secs = now.boot.saturating_sub(since).as_secs_f64();
        // Who reports twice as often has half the chance each time, whether it was granted anything or not.
        let throttled_secs = throttled_secs.max(1.0) / covered.as_secs_f64().clamp(0.25, 1.0);
        let chance = chance::under_throttle(a_second, capacity, throttled_secs);
        let chance = (chance * seen.gain.unwrap_or(1.0)).min(1.0);
        let next = Ranking { since: now.boot, ..Ranking::default() };
        let is_ranked = seen.ranking.operations > 1;
        let ranking = is_ranked.then(|| std::mem::replace(&mut seen.ranking, next));
        let level = (sample::level_of(capacity) + seen.level_above).max(self.level);
        let sampled = seen.take_samples(level, at);
        if !chance::is_drawn(chance, draw) {
            // What comes again may come to any environment, so all of them write down the same operations.
            if !sampled.is_empty() {
                let expired = std::mem::take(&mut seen.expired_heat);
                return Some(Due::Report(Addition { sampled, expired, ..Addition::default() }));
            }
            let is_due = seen.looked_at.is_none_or(|last| now.boot >= last + LOOK_EVERY);
            let looks = is_due && now.boot >= since + LOOK_AFTER;
            return looks.then_some(Due::Look);
        }
        let weight = 1.0 / chance;
        let mut added = seconds;
        for (_, measures) in &mut added {
            *measures = measures.times(weight);
        }
        let present = Bucket::of(Span::Second, at);
        let mut report = Measures { reports: 1.0, environments: weight, ..Measures::default() };
        let mut hottest = None;
        if let Some(ranking) = ranking {
            report.ranked_units = ranking.units * weight;
            hottest = ranking.hottest().map(|(class, units)| (present, class, units * weight));
        }
        add_at(&mut added, present, &report);
        let expired = std::mem::take(&mut seen.expired_heat);
        Some(Due::Report(Addition { added, hottest, sampled, expired }))
    }

    /// What this environment adds to the other ledger of a collection, once a minute.
    pub(crate) fn load_due(
        &self,
        partition: &PartitionKey,
        now: Moment,
        draw: u64,
    ) -> Option<Addition> {
        let mut state = self.state.lock();
        let present = Bucket::of(Span::Minute, state.corrected(now));
        let seen = state.collections.get_mut(partition)?;
        let is_over = |bucket: &Bucket| *bucket < present;
        if !seen.minutes.iter().any(|(bucket, _)| is_over(bucket)) {
            return None;
        }
        let (over, rest) = std::mem::take(&mut seen.minutes)
            .into_iter()
            .partition::<Vec<_>, _>(|(bucket, _)| is_over(bucket));
        seen.minutes = rest;
        let (reports, environments) = seen.load_reports;
        let chance = chance::at_rest(reports, environments);
        if !chance::is_drawn(chance, draw) {
            return None;
        }
        let weight = 1.0 / chance;
        let mut added = Vec::new();
        for (minute, measures) in over {
            let load = measures.of_load().times(weight);
            let report = Measures { reports: 1.0, environments: weight, ..load };
            let hour = Bucket::of(Span::Hour, Duration::from_secs(minute.start_secs));
            add_at(&mut added, minute, &report);
            add_at(&mut added, hour, &load);
        }
        let expired = std::mem::take(&mut seen.expired_load);
        Some(Addition { added, expired, ..Addition::default() })
    }

    /// Learns from a ledger that DynamoDB answered with: its time, how many report, and what is to be removed.
    pub(crate) fn learn(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        answer: &Dated<Ledger>,
        now: Moment,
    ) {
        let mut state = self.state.lock();
        if let Some(server_secs) = answer.server_secs {
            let ahead = i64::try_from(server_secs)
                .unwrap_or(i64::MAX)
                .saturating_sub_unsigned(now.epoch_secs());
            state.ahead_secs = if ahead.abs() < CLOCKS_DIFFER_SECS { 0 } else { ahead };
        }
        let at = state.corrected(now);
        let Some(seen) = state.collections.get_mut(partition) else { return };
        let expired = answer.value.expired(at);
        match kind {
            LedgerKind::Heat => {
                seen.expired_heat = expired;
                seen.looked_at = Some(now.boot);
                if seen.throttled.is_some_and(|(since, _)| now.boot >= since + LOOK_AFTER) {
                    let ago = |secs| at.saturating_sub(Duration::from_secs(secs));
                    let counted = (2..2 + COUNTED_SECS)
                        .map(|secs| answer.value.at(Span::Second, ago(secs)).reports);
                    #[expect(clippy::cast_precision_loss, reason = "a few")]
                    let per_sec = counted.sum::<f64>() / COUNTED_SECS as f64;
                    seen.gain = Some(chance::gain(seen.gain.unwrap_or(1.0), per_sec));
                    let sampled = answer.value.sampled.iter().filter(|((bucket, _), _)| {
                        (2..2 + COUNTED_SECS).any(|secs| bucket.start_secs == ago(secs).as_secs())
                    });
                    let sampled = sampled.map(|(_, operations)| operations.len()).sum::<usize>();
                    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
                    let per_sec = sampled as f64 / COUNTED_SECS as f64;
                    // What is counted may be of before the last change.
                    let counted = Duration::from_secs(2 + COUNTED_SECS);
                    if seen.level_since.is_none_or(|since| now.boot >= since + counted) {
                        let next = sample::next_level(seen.level_above, per_sec);
                        if next != seen.level_above {
                            seen.level_since = Some(now.boot);
                        }
                        seen.level_above = next;
                    }
                }
            }
            LedgerKind::Load => {
                let minute = Duration::from_mins(1);
                let last = answer.value.at(Span::Minute, at.saturating_sub(minute));
                seen.load_reports = (last.reports, last.environments);
                seen.expired_load = expired;
            }
        }
    }
}

impl State {
    fn corrected(&self, now: Moment) -> Duration {
        let ahead = Duration::from_secs(self.ahead_secs.unsigned_abs());
        if self.ahead_secs < 0 { now.wall.saturating_sub(ahead) } else { now.wall + ahead }
    }

    fn seen(&mut self, partition: &PartitionKey) -> &mut Traffic {
        self.collections.get_or_insert_mut_ref(partition, Traffic::default)
    }
}

impl Traffic {
    fn usual_units_of(&mut self, access: Access) -> &mut f64 {
        let [write, get, query] = &mut self.usual_units;
        match access {
            Access::Write => write,
            Access::Get => get,
            Access::Query => query,
        }
    }

    /// The samples that no ledger has yet, as small as `level` says.
    fn take_samples(&mut self, level: u8, at: Duration) -> Vec<(Bucket, u8, BTreeSet<u32>)> {
        let mut samples = std::mem::take(&mut self.samples);
        let oldest = at.saturating_sub(SECONDS_REPORTED).as_secs();
        samples.retain(|second, _| (oldest..=at.as_secs()).contains(second));
        let samples = samples.into_iter();
        let samples = samples.map(|(start_secs, mut operations)| {
            operations.retain(|operation| sample::is_of(*operation, level));
            (Bucket { span: Span::Second, start_secs }, level, operations)
        });
        samples.filter(|(_, _, operations)| !operations.is_empty()).collect()
    }

    fn note(&mut self, at: Duration, note: impl Fn(&mut Measures)) {
        for (span, kept) in [(Span::Second, SECONDS_KEPT), (Span::Minute, MINUTES_KEPT)] {
            let buckets = if span == Span::Second { &mut self.seconds } else { &mut self.minutes };
            let mut measures = Measures::default();
            note(&mut measures);
            add_at(buckets, Bucket::of(span, at), &measures);
            let surplus = buckets.len().saturating_sub(kept);
            buckets.drain(..surplus);
        }
    }
}

impl Ranking {
    fn add(&mut self, hash: u64, units: f64) {
        self.operations = self.operations.saturating_add(1);
        self.units += units;
        if let Some(place) = self.places.iter_mut().find(|place| place.hash == hash) {
            place.hits += 1;
            place.units += units;
            return;
        }
        let mut inherited = 0.0;
        if self.places.len() == RANKED_KEYS {
            let all = self.places.iter().enumerate();
            let least = all.min_by(|(_, a), (_, b)| a.total().total_cmp(&b.total()));
            if let Some(at) = least.map(|(at, _)| at) {
                inherited = self.places.swap_remove(at).total();
            }
        }
        self.places.push(Place { hash, hits: 1, units, inherited });
    }

    /// The hottest sort key, if it came more than once and had a good part of all units: the class of its
    /// hash, and its units.
    fn hottest(&self) -> Option<(u16, f64)> {
        let hottest = self.places.iter().max_by(|a, b| a.units.total_cmp(&b.units))?;
        let class = u16::try_from(hottest.hash % u64::from(CLASSES)).unwrap_or_default();
        (hottest.hits > 1 && hottest.units >= REPORTED_SHARE * self.units)
            .then_some((class, hottest.units))
    }
}

impl Place {
    fn total(&self) -> f64 {
        self.units + self.inherited
    }
}

fn add_at(buckets: &mut Vec<(Bucket, Measures)>, bucket: Bucket, measures: &Measures) {
    if measures.is_empty() {
        return;
    }
    match buckets.iter_mut().find(|(at, _)| *at == bucket) {
        Some((_, seen)) => seen.add(measures),
        None => buckets.push((bucket, *measures)),
    }
}

/// How long a second has lasted.
fn into_second(at: Duration) -> Duration {
    at.saturating_sub(Duration::from_secs(at.as_secs()))
}

fn hash(key: &ItemKey) -> u64 {
    let mut hasher = Xxh64::new(0);
    hasher.update(key.partition.as_str().as_bytes());
    hasher.update(&[0]);
    hasher.update(key.sort.to_string().as_bytes());
    hasher.digest()
}

#[cfg(test)]
mod tests;
