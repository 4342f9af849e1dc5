//! The clocks of the machine and of DynamoDB, and its randomness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use dynashard_core::Moment;
use dynashard_core::ports::{Clock, Entropy};

/// The time that DynamoDB's latest answer told this process.
#[derive(Debug, Clone, Default)]
pub struct ServerClock(Arc<AtomicU64>);

impl ServerClock {
    /// Notes a `Date`, in epoch seconds. Answers overtake each other, so it may go back a little;
    /// were it kept from that, one wrong `Date` would make every lease to come old.
    pub(crate) fn note(&self, epoch_secs: u64) {
        self.0.store(epoch_secs, Ordering::Relaxed);
    }

    fn latest(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|secs| *secs > 0)
    }
}

/// The machine's clocks and the server's.
#[derive(Debug, Clone)]
pub struct SystemClock {
    server: ServerClock,
}

impl SystemClock {
    /// A clock that takes the server's time from `server`.
    pub fn new(server: ServerClock) -> Self {
        Self { server }
    }

    /// Notes the `Date` of an answer, if it is one.
    pub fn note_date(&self, date: &str) {
        if let Some(secs) = date_secs(date) {
            self.server.note(secs);
        }
    }
}

/// A `Date` in epoch seconds.
pub(crate) fn date_secs(date: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(date).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let Clocks { boot, wall, .. } = Clocks::now();
        Moment { boot, wall, server_secs: self.server.latest() }
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// What the machine's clocks say at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks {
    /// Since the system started, but for the time that it slept.
    pub monotonic: Duration,
    /// Since the system started.
    pub boot: Duration,
    /// Since the epoch.
    pub wall: Duration,
}

impl Clocks {
    /// What they say now.
    pub fn now() -> Self {
        os::now()
    }

    /// For how long the monotonic clock stood while one of the others went on.
    pub(crate) fn frozen_since(self, earlier: Self) -> Duration {
        let boot = self.boot.saturating_sub(earlier.boot);
        let wall = self.wall.saturating_sub(earlier.wall);
        boot.max(wall).saturating_sub(self.monotonic.saturating_sub(earlier.monotonic))
    }
}

#[cfg(unix)]
mod os {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::Clocks;

    /// The clock that goes on while the system sleeps. On macOS that is the monotonic one, and what is frozen there shows by the
    /// wall clock alone.
    #[cfg(target_vendor = "apple")]
    const SINCE_BOOT: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const SINCE_BOOT: ClockId = ClockId::Boottime;

    pub(super) fn now() -> Clocks {
        Clocks {
            monotonic: read(ClockId::Monotonic),
            boot: read(SINCE_BOOT),
            wall: read(ClockId::Realtime),
        }
    }

    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        )
    }
}

/// The counter of Windows goes on while the system sleeps, so what is frozen there shows by the wall clock alone.
#[cfg(windows)]
mod os {
    use std::sync::LazyLock;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::Clocks;

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub(super) fn now() -> Clocks {
        let boot = START.elapsed();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clocks { monotonic: boot, boot, wall }
    }
}

/// The operating system's randomness. A generator seeded once would draw the same versions in two
/// environments that were restored from one snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn next_u64(&self) -> u64 {
        // The call fails only on systems without a random source, which Lambda's is not.
        getrandom::u64().unwrap_or_else(|error| panic!("the system has no randomness: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::Lease;

    use super::*;

    /// The latest of all dates was kept, so that a single one from the future made every later
    /// lease old at once, until that future came.
    #[test]
    fn regression_one_wrong_date_disabled_an_environment() {
        let server = ServerClock::default();
        let clock = SystemClock::new(server.clone());
        let now_secs = clock.now().epoch_secs();
        server.note(now_secs + 3_600);
        server.note(now_secs);
        let lease = Lease::new(clock.now(), Some(now_secs), Duration::from_secs(5));
        assert!(lease.is_fresh(clock.now()));
    }
}
