//! A clock that tests move.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::Moment;
use dynashard_core::ports::Clock;

/// 2013-01-01T00:00:00Z: the first day of the flight records that ship with the project, in
/// epoch seconds.
const START_SECS: u64 = 1_356_998_400;

/// A clock that stands still until a test moves it, or until everybody sleeps on it. Clones show
/// the same time.
///
/// When all that is left to do is to wait, time jumps to the end of the earliest sleep. Back-off so
/// takes no real time, a deadline around a request that is never answered comes at once, and what
/// sleeps side by side sleeps at the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    boot: Duration,
    wall: Duration,
    server: Duration,
    /// When each sleep ends, by its number, on the boot clock.
    sleeps: BTreeMap<u64, Duration>,
    sleeps_begun: u64,
    /// How often a sleeper looked since anything else happened to the clock. While something does, somebody is still at work.
    idle_polls: usize,
    /// After how many more readings time passes before the next, and how much.
    suspension: Option<(usize, Duration)>,
}

impl ManualClock {
    /// A clock at the start of 2013, an hour after boot.
    pub fn new() -> Self {
        let start = Duration::from_secs(START_SECS);
        Self(Arc::new(Mutex::new(State {
            boot: Duration::from_hours(1),
            wall: start,
            server: start,
            sleeps: BTreeMap::new(),
            sleeps_begun: 0,
            idle_polls: 0,
            suspension: None,
        })))
    }

    /// Time passes, and all sources tell so.
    pub fn advance(&self, time: Duration) {
        self.lock().advance(time);
    }

    /// The process that reads the clock is suspended for `time` between so many readings from now on and the next.
    pub fn suspend_after(&self, readings: usize, time: Duration) {
        self.lock().suspension = Some((readings, time));
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

    /// Nobody but a sleeper that looks whether time has come may lock without being noticed.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_unnoticed();
        state.idle_polls = 0;
        state
    }

    fn lock_unnoticed(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn advance(&mut self, time: Duration) {
        self.boot += time;
        self.wall += time;
        self.server += time;
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let mut state = self.lock();
        match &mut state.suspension {
            Some((0, time)) => {
                let time = *time;
                state.suspension = None;
                state.advance(time);
            }
            Some((readings, _)) => *readings -= 1,
            None => {}
        }
        Moment { boot: state.boot, wall: state.wall, server_secs: Some(state.server.as_secs()) }
    }

    async fn sleep(&self, duration: Duration) {
        Sleep::begin(self.clone(), duration).await;
    }
}

struct Sleep {
    clock: ManualClock,
    number: u64,
    until: Duration,
}

impl Sleep {
    fn begin(clock: ManualClock, duration: Duration) -> Self {
        let mut state = clock.lock();
        let (number, until) = (state.sleeps_begun, state.boot + duration);
        state.sleeps_begun += 1;
        state.sleeps.insert(number, until);
        drop(state);
        Self { clock, number, until }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.lock_unnoticed();
        let left = self.until.saturating_sub(state.boot);
        if !left.is_zero() {
            // A set of futures polls few that wake themselves before it lets others on, so one sleeper may be polled twice
            // before another is at all, and four times in a set of sets. In four turns of all sleepers everybody had one;
            // without activity, they all wait.
            state.idle_polls += 1;
            let all_wait = state.idle_polls > 4 * state.sleeps.len();
            let is_earliest = state.sleeps.values().all(|until| *until >= self.until);
            if !all_wait || !is_earliest {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            state.advance(left);
        }
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.lock().sleeps.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::future::{Either, join_all, select};

    use super::*;
    use crate::block_on;

    /// The time since `start`, on which all sources agree.
    fn elapsed(clock: &ManualClock, start: Moment) -> Duration {
        let now = clock.now();
        let elapsed = now.boot.saturating_sub(start.boot);
        assert_eq!(elapsed, now.wall.saturating_sub(start.wall));
        elapsed
    }

    #[test]
    fn sleeps_end_in_the_order_of_their_ends_and_at_their_time() {
        let clock = ManualClock::new();
        let start = clock.now();
        let ended = Mutex::new(Vec::new());
        let sleepers = [30, 10, 20].map(|secs| {
            let (clock, ended) = (&clock, &ended);
            async move {
                for _ in 0..2 {
                    clock.sleep(Duration::from_secs(secs)).await;
                    ended.lock().expect("no panic").push(elapsed(clock, start).as_secs());
                }
            }
        });
        block_on(join_all(sleepers));
        assert_eq!(*ended.lock().expect("no panic"), [10, 20, 20, 30, 40, 60]);
    }

    #[test]
    fn a_timeout_around_what_never_happens_comes_at_its_time() {
        let clock = ManualClock::new();
        let start = clock.now();
        let timed_out = block_on(async {
            let timeout = pin!(clock.sleep(Duration::from_secs(5)));
            matches!(select(pin!(pending::<()>()), timeout).await, Either::Right(_))
        });
        assert!(timed_out);
        assert_eq!(elapsed(&clock, start), Duration::from_secs(5));
    }

    #[test]
    fn a_sleep_that_was_given_up_holds_nobody_up() {
        let clock = ManualClock::new();
        let start = clock.now();
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(9));
        block_on(async {
            let _ = select(pin!(clock.sleep(short)), pin!(clock.sleep(long))).await;
            clock.sleep(long).await;
        });
        assert_eq!(elapsed(&clock, start), short + long);
    }
}
