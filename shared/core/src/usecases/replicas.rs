//! Spreads reads that need not be strong over the table and its read replicas, away from what throttles.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::decide::replicas::{THROTTLED, UNREADABLE, source};
use crate::model::replica::Replica;
use crate::ports::{Clock, Entropy, StoreError};

/// What one environment has seen of the table and its replicas: until when each is left alone, on the boot clock. The first is the
/// table.
pub(crate) struct Replicas {
    rests_until: Mutex<Vec<Duration>>,
}

impl Replicas {
    /// So many of them, of which nothing is known yet.
    pub(crate) fn new(count: u32) -> Self {
        let sources = usize::try_from(count).unwrap_or(0) + 1;
        Self { rests_until: Mutex::new(vec![Duration::ZERO; sources]) }
    }

    /// Sends a request to the table or to one of them, and another at once where that throttles or cannot be read and somebody
    /// else may know better. Says who has answered.
    pub(crate) async fn ask<T, F>(
        &self,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
        request: impl Fn(Option<Replica>) -> F,
    ) -> Result<(T, Option<Replica>), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut refused = Vec::new();
        loop {
            let draw = entropy.next_u64();
            let at = source(&self.lock(), clock.now().boot, draw);
            let replica = u32::try_from(at).ok().filter(|at| *at > 0).map(Replica::nth);
            let error = match request(replica).await {
                Ok(answer) => return Ok((answer, replica)),
                Err(error) => error,
            };
            let now = clock.now().boot;
            match &error {
                StoreError::Throttled(_) => {
                    let mut rests_until = self.lock();
                    rest(&mut rests_until, at, now + THROTTLED);
                    if rests_until.iter().all(|until| *until > now) {
                        return Err(error);
                    }
                }
                // The index is not there, or not yet; or the role does not name it. The client hears nothing of that.
                StoreError::Rejected(_) | StoreError::Misconfigured(_) if replica.is_some() => {
                    rest(&mut self.lock(), at, now + UNREADABLE);
                    refused.push(at);
                }
                // The table refuses it as well, so replicas were right to.
                StoreError::Rejected(_) | StoreError::Misconfigured(_) => {
                    let mut rests_until = self.lock();
                    for at in refused {
                        rest(&mut rests_until, at, now);
                    }
                    return Err(error);
                }
                _ => return Err(error),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.rests_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rest(rests_until: &mut [Duration], at: usize, until: Duration) {
    if let Some(rests_until) = rests_until.get_mut(at) {
        *rests_until = until;
    }
}
