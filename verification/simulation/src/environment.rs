//! Simulated processes: each has clocks of its own, and can be frozen and killed.

use std::time::Duration;

use dynashard_core::Moment;

use crate::random::Random;
use crate::scenario::{Accidents, Rates};

/// 2013-01-01T00:00:00Z: where the simulated time begins, in epoch seconds.
pub(crate) const START_SECS: u64 = 1_356_998_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EnvironmentId(pub(crate) usize);

/// What a process is for: that decides what may befall it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The clients and the schedule, which are not under test.
    World,
    /// Runs operations of clients and operators.
    Function,
    /// Runs the rebalancer.
    Rebalancer,
}

/// One process and its clocks.
#[derive(Debug)]
pub(crate) struct Environment {
    role: Role,
    started: Duration,
    boot_at_start: Duration,
    /// How much faster or slower than time the boot clock goes, in parts per million.
    drift_ppm: i64,
    /// The wall clock when the simulated time began.
    wall_at_zero: Duration,
    /// Whether the boot clock stands while the process is frozen. Lambda's does.
    boot_stops: bool,
    /// For how long the boot clock stood.
    stood: Duration,
    frozen: Option<(Duration, Duration)>,
    last_date: Option<u64>,
    killed: bool,
}

impl Environment {
    /// A process that starts now. Its boot clock keeps to the protocol's rho, a hundredth; its wall
    /// clock is wrong by at most `wall_skew`.
    pub(crate) fn start(role: Role, random: &Random, now: Duration, wall_skew: Duration) -> Self {
        let epoch = Duration::from_secs(START_SECS);
        Self {
            role,
            started: now,
            boot_at_start: random.duration(Duration::from_secs(1), Duration::from_hours(9)),
            drift_ppm: i64::try_from(random.below(18_000)).unwrap_or(0) - 9_000,
            wall_at_zero: epoch.saturating_sub(wall_skew)
                + random.duration(Duration::ZERO, wall_skew * 2),
            boot_stops: random.chance(500_000),
            stood: Duration::ZERO,
            frozen: None,
            last_date: None,
            killed: false,
        }
    }

    pub(crate) fn is_awake(&self, now: Duration) -> bool {
        self.frozen.is_none_or(|(_, until)| until <= now)
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed
    }

    pub(crate) fn kill(&mut self) {
        self.killed = true;
    }

    pub(crate) fn freeze(&mut self, now: Duration, until: Duration) {
        self.settle_freeze(now);
        self.frozen = Some((now, until));
    }

    pub(crate) fn thaw(&mut self, now: Duration) {
        if let Some((_, until)) = &mut self.frozen {
            *until = now.min(*until);
        }
    }

    /// Takes note of a `Date` header.
    pub(crate) fn saw_date(&mut self, secs: u64) {
        self.last_date = self.last_date.max(Some(secs));
    }

    /// What may befall the process, if anything.
    pub(crate) fn accidents(&self, rates: &Rates) -> Option<Accidents> {
        match self.role {
            Role::World => None,
            Role::Function => Some(rates.functions),
            Role::Rebalancer => Some(rates.rebalancers),
        }
    }

    pub(crate) fn reading(&mut self, now: Duration) -> Moment {
        self.settle_freeze(now);
        Moment { boot: self.boot(now), wall: self.wall_at_zero + now, server_secs: self.last_date }
    }

    fn boot(&self, now: Duration) -> Duration {
        let run = now.saturating_sub(self.started).saturating_sub(self.stood);
        let nanos = i128::try_from(run.as_nanos()).unwrap_or(i128::MAX);
        let told = nanos + nanos * i128::from(self.drift_ppm) / 1_000_000;
        self.boot_at_start + Duration::from_nanos(u64::try_from(told).unwrap_or(0))
    }

    /// A process only runs when it is not frozen, so a freeze that is over is noted before its
    /// clocks are read.
    fn settle_freeze(&mut self, now: Duration) {
        if let Some((since, until)) = self.frozen.take()
            && self.boot_stops
        {
            self.stood += until.min(now).saturating_sub(since);
        }
    }
}
