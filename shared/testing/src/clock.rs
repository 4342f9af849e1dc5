use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::Reading;
use dynashard_core::ports::Clock;

/// 2013-01-01T00:00:00Z: the first day of the flight records that ship with the project, in
/// epoch seconds.
const START_SECS: u64 = 1_356_998_400;

/// A clock that stands still until a test moves it. Clones show the same time.
///
/// Sleeping on it moves it: a sleep ends at once, and its duration has passed. Back-off so takes no
/// real time, and a deadline around a request that is never answered comes at once.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Times>>);

#[derive(Debug, Clone, Copy)]
struct Times {
    boot: Duration,
    wall: Duration,
    server: Duration,
}

impl ManualClock {
    /// A clock at the start of 2013, an hour after boot.
    pub fn new() -> Self {
        let start = Duration::from_secs(START_SECS);
        let times = Times { boot: Duration::from_hours(1), wall: start, server: start };
        Self(Arc::new(Mutex::new(times)))
    }

    /// Time passes, and all sources tell so.
    pub fn advance(&self, time: Duration) {
        let mut times = self.lock();
        times.boot += time;
        times.wall += time;
        times.server += time;
    }

    /// The boot clock alone goes on.
    pub fn advance_boot(&self, time: Duration) {
        self.lock().boot += time;
    }

    /// The wall clock alone goes on, as it does while a frozen environment's boot clock stands.
    pub fn advance_wall(&self, time: Duration) {
        self.lock().wall += time;
    }

    /// The server's clock alone goes on.
    pub fn advance_server(&self, time: Duration) {
        self.lock().server += time;
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Reading {
        let Times { boot, wall, server } = *self.lock();
        Reading { boot, wall, server_secs: Some(server.as_secs()) }
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}
