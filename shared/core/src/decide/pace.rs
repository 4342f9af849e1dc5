//! How fast items move: as fast as each source's partition takes it, and all of them together as the
//! operator allows.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_keys::ShardId;

use crate::model::policy::PartitionLimits;
use crate::model::settings::Settings;

/// The part of a partition's write units that moving takes at most, where nothing is throttled.
pub const MOVER_PART: f64 = 0.8;

/// What moving an item of up to 1 KB takes: two writes in a transaction, each at twice the price.
pub(crate) const LEAST_MOVE: Units = Units { at_source: 2.0, in_all: 4.0 };

/// How many items of up to 1 KB the mover takes from `from` to `to` shards in a second, at most, where clients ask the
/// shards that items come to for `writes` units a second.
///
/// The partitions of those that items leave, of those that they come to, and
/// [`Settings::mover_wcu`] bound it.
pub fn most_moves_per_sec(settings: &Settings, from: u32, to: u32, writes: f64) -> f64 {
    let (from, to) = (f64::from(from), f64::from(to));
    let (sources, destinations) = if to > from { (from, to - from) } else { (from - to, to) };
    let of_each = most_of(settings.partition);
    let left = destinations * f64::from(settings.partition.write_units) - writes;
    let of_sources = sources * of_each / LEAST_MOVE.at_source;
    let of_destinations =
        (destinations * of_each).min(left.max(0.0)) / (LEAST_MOVE.in_all - LEAST_MOVE.at_source);
    of_sources.min(of_destinations).min(f64::from(settings.mover_wcu) / LEAST_MOVE.in_all)
}

/// How fast one call may go through its shards. Each has a [`Pace`] of its own, since each is a
/// partition of its own, and what one throttles slows down no other. Together they keep to the units
/// that the operator allows.
#[derive(Debug)]
pub(crate) struct Paces {
    whole: Pace,
    shards: BTreeMap<ShardId, Pace>,
    /// Whether anything was begun since the call began.
    has_begun: bool,
    /// Whether it is kept from an earlier call. What others have noted since says more of the rates then.
    is_kept: bool,
}

/// What one request takes, in write units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Units {
    /// Of the shard that is gone through.
    pub(crate) at_source: f64,
    /// Of all shards.
    pub(crate) in_all: f64,
}

impl Units {
    /// What is charged for no write.
    pub(crate) const NONE: Self = Self { at_source: 0.0, in_all: 0.0 };
}

impl Paces {
    pub(crate) fn new(now: Duration) -> Self {
        let whole = Pace::steady(0.0, now);
        Self { whole, shards: BTreeMap::new(), has_begun: false, is_kept: false }
    }

    /// Goes on with these shards, each at the pace that it is noted to have had last, within
    /// `wcu_each`, of which `at_source` is the share of its own partition.
    pub(crate) fn take_up(
        &mut self,
        shards: impl Iterator<Item = (ShardId, Option<u32>)>,
        wcu_each: f64,
        at_source: f64,
        now: Duration,
    ) {
        let most = wcu_each * at_source;
        let mut before = std::mem::take(&mut self.shards);
        let is_kept = std::mem::take(&mut self.is_kept);
        self.shards = shards
            .map(|(shard, noted)| {
                let new = Pace::new(most, noted, now);
                let pace = match before.remove(&shard) {
                    Some(mut pace) if is_kept => {
                        pace.bring_up_to(now);
                        Pace { tokens: pace.tokens.min(0.0), ..new }
                    }
                    Some(pace) => pace,
                    None => new,
                };
                (shard, Pace { least_burst: LEAST_BURST * at_source, ..pace.within(most, now) })
            })
            .collect();
        let shards = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
        self.whole = self.whole.at_steady(wcu_each * f64::from(shards), now);
    }

    /// Spends what a request takes of this shard, and says how long to wait before it; spends nothing if
    /// that would not be shorter than `time`.
    pub(crate) fn spend_at(
        &mut self,
        shard: ShardId,
        units: Units,
        now: Duration,
        time: Duration,
    ) -> Option<Duration> {
        let pace = self.shards.get_mut(&shard)?;
        pace.spend_within(units.at_source, now, time)
    }

    /// Spends units of all shards together, when the request has waited for its own.
    pub(crate) fn spend_in_all(
        &mut self,
        shard: ShardId,
        units: Units,
        now: Duration,
        time: Duration,
    ) -> Option<Duration> {
        let wait = self.whole.spend_within(units.in_all, now, time);
        self.has_begun |= wait.is_some();
        if wait.is_none()
            && let Some(pace) = self.shards.get_mut(&shard)
        {
            pace.give_back(units.at_source, now);
        }
        wait
    }

    /// Takes note of a throttle, and back the `units` that were spent on what was refused: DynamoDB
    /// charges nothing for it.
    pub(crate) fn throttled(&mut self, shard: ShardId, units: Units, now: Duration) {
        self.whole.give_back(units.in_all, now);
        if let Some(pace) = self.shards.get_mut(&shard) {
            pace.throttled(units.at_source, now);
        }
    }

    /// Whether anything was begun since the call began.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// As the next call takes it up; nothing where this one has spent nothing and nothing is owed.
    pub(crate) fn kept(self) -> Option<Self> {
        let is_in_debt = |pace: &Pace| pace.tokens < 0.0;
        let is_owing = is_in_debt(&self.whole) || self.shards.values().any(is_in_debt);
        (self.has_begun || is_owing).then_some(Self { has_begun: false, is_kept: true, ..self })
    }

    /// For how long nothing was spent.
    pub(crate) fn idle_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.whole.as_of)
    }

    /// The present rate of a shard, in write units of its partition a second.
    pub(crate) fn rate(&self, shard: ShardId) -> f64 {
        self.shards.get(&shard).map_or(0.0, |pace| pace.rate)
    }
}

/// The most that moving takes of one partition, in write units a second.
pub(crate) fn most_of(partition: PartitionLimits) -> f64 {
    MOVER_PART * f64::from(partition.write_units)
}

/// The most that moving takes of one partition, in read units a second.
pub(crate) fn most_of_reads(partition: PartitionLimits) -> f64 {
    MOVER_PART * f64::from(partition.read_units)
}

/// A token bucket whose rate rises evenly while nothing is throttled and is halved when something is
/// (additive increase, multiplicative decrease), so that moving takes what the foreground leaves, and
/// a quarter of the most in any case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Write units a second.
    rate: f64,
    most: f64,
    /// The write units that may be saved up at any rate.
    least_burst: f64,
    /// Write units that may be spent at once. Negative after a spending beyond what there was.
    tokens: f64,
    /// When `tokens` and `rate` were brought up to date, on the boot clock.
    as_of: Duration,
    /// No second halving before this: one burst of throttles is one piece of news.
    deaf_until: Duration,
}

/// The share of the most that a mover begins with, and below which no throttle brings it.
///
/// A partition that its clients overload throttles whatever the mover does, and until the reshard
/// has closed the collection cannot begin the growth that would relieve it. So a mover that only took
/// what the foreground leaves would get nowhere where it matters most.
const LEAST_SHARE: f64 = 0.25;

/// The share of the most by which the rate rises every second.
const RISE_PER_SEC: f64 = 0.1;

/// For how long what was left unused may be spent later, at once: enough that a late wake-up, or the
/// end of a round, costs little.
const BURST_SECS: f64 = 0.05;

/// The write units that may be saved up at any rate: five moves of items of up to 1 KB, at both homes.
/// What is given back for a refusal must find room, or a mover beside an overloaded partition pays for
/// it.
const LEAST_BURST: f64 = 20.0;

/// How long a burst of throttles counts as one.
const ONE_BURST: Duration = Duration::from_secs(1);

impl Pace {
    /// A pace of at most so many units a second, that begins where it was noted to have been.
    fn new(most: f64, noted: Option<u32>, now: Duration) -> Self {
        let least = most * LEAST_SHARE;
        let rate = noted.map_or(least, |noted| f64::from(noted).clamp(least, most));
        Self { most, ..Self::steady(rate, now) }
    }

    /// A pace that nothing changes.
    pub(crate) fn steady(rate: f64, now: Duration) -> Self {
        let least_burst = LEAST_BURST;
        Self { rate, most: rate, least_burst, tokens: 0.0, as_of: now, deaf_until: now }
    }

    /// This pace under another most. One that nothing but the old most held back doubles at once, if the
    /// new one allows it.
    fn within(mut self, most: f64, now: Duration) -> Self {
        self.bring_up_to(now);
        let rate = if self.rate < self.most { self.rate } else { 2.0 * self.rate };
        Self { rate: rate.clamp(most * LEAST_SHARE, most), most, ..self }
    }

    fn at_steady(mut self, rate: f64, now: Duration) -> Self {
        self.bring_up_to(now);
        Self { tokens: self.tokens, as_of: self.as_of, ..Self::steady(rate, now) }
    }

    /// Spends `units`, and says how long to wait before what they are for.
    pub(crate) fn spend(&mut self, units: f64, now: Duration) -> Duration {
        let wait = self.wait_for(units, now);
        self.tokens -= units;
        wait
    }

    /// Spends `units` and says how long to wait, but spends nothing if the wait would not be shorter than `time`.
    fn spend_within(&mut self, units: f64, now: Duration, time: Duration) -> Option<Duration> {
        let wait = self.wait_for(units, now);
        (wait < time).then(|| self.spend(units, now))
    }

    fn give_back(&mut self, units: f64, now: Duration) {
        self.bring_up_to(now);
        self.tokens = (self.tokens + units).min(self.burst());
    }

    fn throttled(&mut self, units: f64, now: Duration) {
        self.give_back(units, now);
        if now < self.deaf_until {
            return;
        }
        self.rate = (self.rate / 2.0).max(self.most * LEAST_SHARE);
        self.tokens = self.tokens.min(0.0);
        self.deaf_until = now + ONE_BURST;
    }

    fn wait_for(&mut self, units: f64, now: Duration) -> Duration {
        self.bring_up_to(now);
        // For what is more than can be saved up, the waiting comes afterwards.
        let saved_up = units.min(self.burst());
        let secs = (saved_up - self.tokens).max(0.0) / self.rate;
        Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX)
    }

    fn bring_up_to(&mut self, now: Duration) {
        let secs = now.saturating_sub(self.as_of).as_secs_f64();
        self.as_of = self.as_of.max(now);
        self.rate = (self.rate + secs * RISE_PER_SEC * self.most).min(self.most);
        self.tokens = (self.tokens + secs * self.rate).min(self.burst());
    }

    fn burst(&self) -> f64 {
        (self.rate * BURST_SECS).max(self.least_burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn a_mover_that_is_never_throttled_comes_to_its_most_and_stays_there() {
        let mut pace = Pace::new(100.0, None, START);
        let mut now = START;
        let mut spent = 0.0;
        while now < START + Duration::from_mins(2) {
            now += pace.spend(4.0, now);
            spent += 4.0;
        }
        assert!((pace.rate - 100.0).abs() < 0.001);
        let budget = 120.0 * 100.0;
        assert!(spent >= 0.95 * budget && spent <= 1.01 * budget, "{spent} of {budget}");
    }

    #[test]
    fn a_throttle_halves_the_rate_and_a_burst_of_them_halves_it_once() {
        let mut pace = Pace::new(100.0, None, START);
        let now = START + Duration::from_mins(1);
        pace.spend(0.0, now);
        for _ in 0..50 {
            pace.throttled(0.0, now);
        }
        assert!((pace.rate - 50.0).abs() < 0.001);
        let later = now + Duration::from_secs(1);
        pace.throttled(0.0, later);
        assert!((pace.rate - 30.0).abs() < 0.001, "rose to 60, and was halved");
    }

    /// Nothing of a large item's debt was paid while no call was at work, and a call that could begin nothing forgot it.
    #[test]
    fn regression_a_debt_was_not_paid_between_calls_and_then_forgotten() {
        const SHARD: ShardId = ShardId::new(0);
        let units = Units { at_source: 780.0, in_all: 1_560.0 };
        let shards = || [(SHARD, None)].into_iter();
        let (mut now, time) = (START, Duration::from_secs(10));
        let mut paces = Paces::new(now);
        let mut moved = 0.0;
        // A sweep a minute, for two hours.
        for _ in 0..120 {
            paces.take_up(shards(), 10.0, 0.5, now);
            let turn = paces.spend_at(SHARD, units, now, time);
            if turn.and_then(|_| paces.spend_in_all(SHARD, units, now, time)).is_some() {
                moved += units.in_all;
            }
            paces = paces.kept().unwrap_or_else(|| Paces::new(now));
            now += Duration::from_mins(1);
        }
        let budget = 10.0 * 7_200.0;
        assert!(moved >= 0.5 * budget && moved <= 1.05 * budget, "{moved} of {budget}");
    }

    /// It had waited for leases to end, and then spent a second's worth in one go.
    #[test]
    fn regression_a_mover_that_had_waited_began_with_a_burst() {
        let mut pace = Pace::new(400.0, None, START);
        let now = START + Duration::from_mins(1);
        let mut at_once = 0;
        while pace.spend(4.0, now).is_zero() {
            at_once += 1;
        }
        assert_eq!(at_once, 5, "a twentieth of a second's");
    }

    #[test]
    fn what_there_is_no_time_for_is_not_spent() {
        let mut pace = Pace::new(400.0, None, START);
        let time = Duration::from_millis(400);
        let moves = std::iter::from_fn(|| pace.spend_within(4.0, START, time)).take(1_000).count();
        assert_eq!(moves, 9, "at a quarter of the most one each 40 ms");
        assert!(pace.spend_within(4.0, START + time, time).is_some(), "there is no debt");
    }

    /// A source that clients overloaded refused seven of eight moves. Each refusal was paid for as if
    /// it had moved an item, at a tenth of the pace, and a reshard of some thousand items would have
    /// taken hours, with its collection throttled and unable to grow.
    #[test]
    fn regression_a_mover_paid_for_refusals_and_starved_beside_an_overloaded_partition() {
        const PAUSE: Duration = Duration::from_millis(100);
        let mut pace = Pace::new(100.0, None, START);
        let (mut now, mut moved, mut attempts) = (START, 0.0, 0_u32);
        while now < START + Duration::from_mins(2) {
            now += pace.spend(4.0, now);
            attempts += 1;
            if attempts % 8 == 0 {
                moved += 4.0;
            } else {
                pace.throttled(4.0, now);
                // Sixteen items pause side by side.
                now += PAUSE / 16;
            }
        }
        let least = 120.0 * 100.0 * LEAST_SHARE;
        assert!(moved >= 0.9 * least, "{moved} units in two minutes, of {least} at least");
    }
}
