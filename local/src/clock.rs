//! The time of day and waiting for it, passed in so that tests decide both.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;

/// Where the stack reads the time and waits for it to pass.
pub(crate) trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> SystemTime;

    /// Ends after `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Ends when this clock shows `time`, or at once if it has passed.
    fn sleep_until(&self, time: SystemTime) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.sleep(time.duration_since(self.now()).unwrap_or_default())
    }
}

/// The clock that one stack shares.
pub(crate) type SharedClock = Arc<dyn Clock>;

/// The machine's own clock.
#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The time since the Unix epoch; none for a time before it.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since the Unix epoch.
pub(crate) fn epoch_millis(time: SystemTime) -> u64 {
    u64::try_from(since_epoch(time).as_millis()).unwrap_or(u64::MAX)
}

/// A time in UTC as `format` writes it.
pub(crate) fn format(time: SystemTime, format: StaticFormatDescription) -> String {
    let text = OffsetDateTime::from(time).format(format);
    text.expect("UTC has all components of the format")
}

#[cfg(test)]
pub(crate) mod manual {
    //! A clock that only a test moves.

    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use tokio::sync::watch;

    use super::Clock;

    /// A clock that only [`ManualClock::advance`] moves.
    #[derive(Debug)]
    pub(crate) struct ManualClock {
        now: watch::Sender<SystemTime>,
        /// How many sleeps wait for a later time.
        sleepers: watch::Sender<usize>,
    }

    impl ManualClock {
        pub(crate) fn at(now: SystemTime) -> Arc<Self> {
            Arc::new(Self { now: watch::Sender::new(now), sleepers: watch::Sender::new(0) })
        }

        pub(crate) fn advance(&self, duration: Duration) {
            self.now.send_modify(|now| *now += duration);
        }

        /// Ends when at least `count` sleeps wait: only then may a test advance the clock.
        pub(crate) async fn sleeping(&self, count: usize) {
            self.sleepers
                .subscribe()
                .wait_for(|sleepers| *sleepers >= count)
                .await
                .expect("the clock outlives its sleepers");
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> SystemTime {
            *self.now.borrow()
        }

        fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let deadline = self.now() + duration;
            let mut now = self.now.subscribe();
            let asleep = Asleep::enter(self.sleepers.clone());
            Box::pin(async move {
                let _asleep = asleep;
                // An error means that the clock is gone, and then this sleep never ends.
                if now.wait_for(|now| *now >= deadline).await.is_err() {
                    std::future::pending::<()>().await;
                }
            })
        }
    }

    /// Counts one sleep for as long as it waits.
    struct Asleep(watch::Sender<usize>);

    impl Asleep {
        fn enter(sleepers: watch::Sender<usize>) -> Self {
            sleepers.send_modify(|count| *count += 1);
            Self(sleepers)
        }
    }

    impl Drop for Asleep {
        fn drop(&mut self) {
            self.0.send_modify(|count| *count -= 1);
        }
    }
}
