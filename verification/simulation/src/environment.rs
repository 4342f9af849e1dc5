//! Simulated processes: each has clocks of its own, and can be frozen and killed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use dynashard_core::Reading;
use dynashard_core::ports::Clock;

use crate::kernel::Kernel;
use crate::random::Random;
use crate::scenario::{Accidents, Rates};

/// 2013-01-01T00:00:00Z: where the simulated time begins, in epoch seconds.
pub(crate) const START_SECS: u64 = 1_356_998_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EnvironmentId(pub(crate) usize);

/// What a process is for: that decides what may befall it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The clients and the schedule, which are no part of what is tested.
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

    fn reading(&mut self, now: Duration) -> Reading {
        self.settle_freeze(now);
        Reading { boot: self.boot(now), wall: self.wall_at_zero + now, server_secs: self.last_date }
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

/// The clocks of one environment.
#[derive(Clone)]
pub(crate) struct LocalClock {
    kernel: Kernel,
    environment: EnvironmentId,
}

impl LocalClock {
    pub(crate) fn new(kernel: Kernel, environment: EnvironmentId) -> Self {
        Self { kernel, environment }
    }
}

impl Clock for LocalClock {
    fn now(&self) -> Reading {
        self.kernel.environment(self.environment, Environment::reading)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Sleep { clock: self.clone(), until: self.now().boot + duration, alarm: None }
    }
}

/// Sleeps by the boot clock: while that stands, nobody comes nearer to the end.
struct Sleep {
    clock: LocalClock,
    until: Duration,
    alarm: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(alarm) = self.alarm.take() {
            self.clock.kernel.cancel(alarm);
        }
        let left = self.until.saturating_sub(self.clock.now().boot);
        if left.is_zero() {
            return Poll::Ready(());
        }
        // Enough for the slowest clock, unless it stands still meanwhile.
        let kernel = self.clock.kernel.clone();
        let enough = left + left / 100 + Duration::from_nanos(1);
        let alarm = kernel.wake_at(kernel.now() + enough, context.waker().clone());
        self.alarm = Some(alarm);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.clock.kernel.cancel(alarm);
        }
    }
}
