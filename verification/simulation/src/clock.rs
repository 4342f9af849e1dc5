//! The port of time, as one simulated process sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::Moment;
use dynashard_core::ports::Clock;

use crate::environment::{Environment, EnvironmentId};
use crate::kernel::Kernel;

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

#[async_trait]
impl Clock for LocalClock {
    fn now(&self) -> Moment {
        self.kernel.environment(self.environment, Environment::reading)
    }

    async fn sleep(&self, duration: Duration) {
        Sleep { clock: self.clone(), until: self.now().boot + duration, alarm: None }.await;
    }
}

/// Sleeps by the boot clock: while that stands, no time is slept.
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
