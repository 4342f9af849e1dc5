//! How often one environment asks a shard that is full.

use std::num::NonZeroUsize;
use std::time::Duration;

use dynashard_keys::PhysicalPartitionKey;
use lru::LruCache;
use parking_lot::Mutex;

use crate::model::lease::Moment;

/// The rates at which one environment writes to the shards that have refused a write of it.
///
/// A shard that is full refuses whatever is too much, and each refusal costs the client, the function and DynamoDB as much
/// as a write. So a writer that was refused asks that shard no more often than it is granted, and a little more:
/// of [`GRANTED`] writes it expects one to be refused. By that it notices at once when the shard has more to give, and the
/// shard stays full. Whoever finds no turn in time is answered as DynamoDB would have answered.
///
/// A shard that refuses nothing has no rate, and no shard waits for another.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// The rate of a shard that has just refused, in writes a second.
    first: f64,
    /// From which rate on an environment has a shard to itself.
    alone: f64,
    shards: Mutex<LruCache<PhysicalPartitionKey, Rate>>,
}

/// Writes a second, as a token bucket that is fed with them.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_sec: f64,
    /// The writes that may be sent at once; less than none, if turns are given away that have not come yet.
    tokens: f64,
    /// When `tokens` was brought up to date. All clocks count: that of a frozen environment may stand, while its shard has
    /// been idle.
    as_of: Moment,
    /// Since when there is a rate, on the boot clock. What was sent before tells nothing of it.
    since: Duration,
    refused_at: Moment,
    /// The revision of the collection's metadata. Under another one the shard is asked for something else.
    rev: u64,
    /// When a write had to wait for its turn, or was turned away.
    held_back_at: Option<Moment>,
}

/// What a writer may do about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paced {
    /// It may write after so long.
    In(Duration),
    /// Its turn does not come in time.
    TooLate,
}

/// One write is refused for so many that are granted.
const GRANTED: f64 = 4.0;

/// By how much (as a logarithm) the rate grows in [`HORIZON`] while all is granted. It falls [`GRANTED`] times as steeply while all is
/// refused. So it grows twentyfold in a second.
const RISE: f64 = 0.3;

/// Over which time the rate looks back.
const HORIZON: Duration = Duration::from_millis(100);

/// The rate of a shard that has just refused, as a part of what a partition takes, and the least that it is.
const FIRST: f64 = 0.4;
const LEAST_FIRST: f64 = 10.0;

/// The part of what a partition takes from which on whoever is granted it has the partition to itself.
const ALONE: f64 = 0.25;

/// How seldom a shard is asked at least, in writes a second. With less it would take too long to notice that others have left.
const LEAST: f64 = 1.0;

/// For how long the rate may grow after it has held a write back. One that holds nothing back need not grow.
const HELD_BACK: Duration = Duration::from_secs(2);

/// For how long turns that nobody takes are saved up: as long as a partition saves up units.
const SAVED: Duration = Duration::from_secs(1);

/// How long after its last refusal a shard has no rate any more, if the rate has held nothing back since.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// The shards whose rates are known. They come and go with the collections that throttle.
const SHARDS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

impl Pacing {
    /// `takes` is what a partition takes, in write units a second.
    pub(super) fn new(takes: f64) -> Self {
        Self {
            first: (FIRST * takes).max(LEAST_FIRST),
            alone: ALONE * takes,
            shards: Mutex::new(LruCache::new(SHARDS)),
        }
    }

    /// When the next write to this shard may be sent, if that is within the first of these times, or within the second where
    /// hardly anybody else writes to it. The turn is taken with that. `rev` is the revision of the collection's metadata.
    pub(super) fn turn(
        &self,
        shard: &PhysicalPartitionKey,
        rev: impl FnOnce() -> u64,
        patience: Duration,
        alone: Duration,
        now: Moment,
    ) -> Paced {
        let mut shards = self.shards.lock();
        let Some(rate) = shards.get_mut(shard) else { return Paced::In(Duration::ZERO) };
        if rate.is_forgotten(now) || rate.rev != rev() {
            shards.pop(shard);
            return Paced::In(Duration::ZERO);
        }
        rate.bring_up_to(now);
        let wait = ((1.0 - rate.tokens) / rate.per_sec).max(0.0);
        if wait > 0.0 {
            rate.held_back_at = Some(now);
        }
        let is_alone = rate.per_sec >= self.alone;
        let patience = if is_alone { alone.max(patience) } else { patience };
        if wait > 0.0 && wait >= patience.as_secs_f64() {
            return Paced::TooLate;
        }
        rate.tokens -= 1.0;
        Paced::In(Duration::from_secs_f64(wait))
    }

    /// Whether a turn that was asked for then, on the boot clock, may still be taken: the shard has not refused its first write since.
    pub(super) fn holds(&self, shard: &PhysicalPartitionKey, asked: Duration) -> bool {
        self.shards.lock().peek(shard).is_none_or(|rate| rate.since < asked)
    }

    /// Takes note that a write was granted.
    pub(super) fn granted(&self, shard: &PhysicalPartitionKey, now: Moment) {
        if let Some(rate) = self.shards.lock().get_mut(shard)
            && rate.held_back_at.is_some_and(|at| now.perhaps_since(at) < HELD_BACK)
        {
            rate.change(1.0, now);
        }
    }

    /// Takes note that a write was refused which was sent at this time, on the boot clock.
    pub(super) fn refused(
        &self,
        shard: &PhysicalPartitionKey,
        rev: u64,
        sent: Duration,
        now: Moment,
    ) {
        let new = || Rate {
            rev,
            per_sec: self.first,
            tokens: 0.0,
            as_of: now,
            since: now.boot,
            refused_at: now,
            held_back_at: None,
        };
        let mut shards = self.shards.lock();
        let rate = shards.get_or_insert_mut_ref(shard, new);
        rate.refused_at = now;
        // The partition has saved up nothing either.
        rate.tokens = rate.tokens.min(0.0);
        if sent > rate.since {
            rate.change(-GRANTED, now);
        }
    }
}

impl Rate {
    /// One write's part of what changes the rate in [`HORIZON`].
    fn change(&mut self, weight: f64, now: Moment) {
        self.bring_up_to(now);
        let writes = (self.per_sec * HORIZON.as_secs_f64()).max(1.0);
        let per_sec = (self.per_sec * (weight * RISE / writes).exp()).clamp(LEAST, MOST);
        if self.tokens < 0.0 {
            // Turns that were given away come when they were to.
            self.tokens *= per_sec / self.per_sec;
        }
        self.per_sec = per_sec;
    }

    /// Whether it has neither learned something nor held something back for so long that it tells nothing any more.
    fn is_forgotten(&self, now: Moment) -> bool {
        let needed_at = [Some(self.refused_at), self.held_back_at];
        needed_at.into_iter().flatten().all(|at| now.perhaps_since(at) > FORGOTTEN)
    }

    fn bring_up_to(&mut self, now: Moment) {
        let secs = now.perhaps_since(self.as_of).as_secs_f64();
        if now.boot > self.as_of.boot {
            self.as_of = now;
        }
        let saved = (self.per_sec * SAVED.as_secs_f64()).max(1.0);
        self.tokens = (self.tokens + secs * self.per_sec).min(saved);
    }
}

/// No environment writes so much.
const MOST: f64 = 1e9;

#[cfg(test)]
mod tests;
