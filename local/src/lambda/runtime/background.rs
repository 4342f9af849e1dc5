//! Asynchronous invocations: queued in memory, and tried again as Lambda does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::calls::Invocation;
use super::pool::{InvokeError, Pool};
use crate::clock::SharedClock;

/// The asynchronous invocations that have not ended. Those that have not when the stack ends are
/// lost.
#[derive(Debug)]
pub(crate) struct Background {
    clock: SharedClock,
    tasks: Mutex<JoinSet<()>>,
}

impl Background {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { clock, tasks: Mutex::default() }
    }

    /// Takes over an event: it is tried as often and, while all environments are busy, as long as the function's policy
    /// says.
    pub(crate) fn deliver(&self, pool: Arc<Pool>, event: Invocation) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(deliver(pool, event, Arc::clone(&self.clock)));
    }

    /// Ends when no invocation is left.
    #[cfg(test)]
    pub(super) async fn settled(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    /// Gives up what has not ended, and waits until nothing runs any more.
    pub(crate) async fn shutdown(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.try_join_next().is_some() {}
        if !tasks.is_empty() {
            tracing::warn!(events = tasks.len(), "asynchronous invocations are lost");
        }
        tasks.shutdown().await;
    }
}

/// The pauses before the second and the third attempt.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_mins(1), Duration::from_mins(2)];

/// The pauses while all environments are busy: the first, and the longest that it doubles up to.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

async fn deliver(pool: Arc<Pool>, event: Invocation, clock: SharedClock) {
    let received = clock.now();
    let (mut backoff, longest) = BACKOFF;
    let policy = pool.function.events;
    let retries = usize::try_from(policy.max_retries).unwrap_or(usize::MAX);
    let mut retries = RETRY_DELAYS.iter().take(retries);
    let is_too_old = || clock.now().duration_since(received).unwrap_or_default() >= policy.max_age;
    loop {
        let delay = match pool.invoke(event.clone()).await {
            Ok(completed) if !completed.failed => return,
            Ok(_) => match retries.next() {
                Some(delay) => *delay,
                None => return give_up(&pool, &event, "its last attempt failed"),
            },
            Err(InvokeError::Throttled) => {
                let delay = backoff;
                backoff = (backoff * 2).min(longest);
                delay
            }
            Err(InvokeError::Stopped) => {
                return give_up(&pool, &event, "the stack is shutting down");
            }
        };
        if !is_too_old() {
            clock.sleep(delay).await;
        }
        if is_too_old() {
            return give_up(&pool, &event, "it is too old");
        }
    }
}

fn give_up(pool: &Pool, event: &Invocation, reason: &str) {
    tracing::warn!(
        function = pool.function.name,
        request_id = event.request_id,
        reason,
        "an asynchronous invocation was given up"
    );
}
