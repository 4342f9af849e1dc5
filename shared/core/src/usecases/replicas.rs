//! Spreads reads that need not be strong over the table and its read replicas, away from what throttles.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;

use crate::decide::replicas::{THROTTLED, UNREADABLE, source};
use crate::model::lease::Moment;
use crate::model::replica::Replica;
use crate::ports::{Clock, Entropy, StoreError};

/// What one environment has seen of the table, which is the first, and of its replicas: since when each is left alone, and for
/// how long. All clocks count: that of a frozen environment may stand.
pub(crate) struct Replicas {
    rests: Mutex<Vec<(Moment, Duration)>>,
}

impl Replicas {
    /// So many of them, of which nothing is known yet.
    pub(crate) fn new(count: u32) -> Self {
        let sources = usize::try_from(count).unwrap_or(0) + 1;
        Self { rests: Mutex::new(vec![(Moment::default(), Duration::ZERO); sources]) }
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
            let at = source(&left(&self.rests.lock(), clock.now()), draw);
            let replica = u32::try_from(at).ok().filter(|at| *at > 0).map(Replica::nth);
            let error = match request(replica).await {
                Ok(answer) => return Ok((answer, replica)),
                Err(error) => error,
            };
            let now = clock.now();
            match &error {
                StoreError::Throttled(_) => {
                    let mut rests = self.rests.lock();
                    rest(&mut rests, at, (now, THROTTLED));
                    if left(&rests, now).iter().all(|left| !left.is_zero()) {
                        return Err(error);
                    }
                }
                // The index is not there, or not yet; or the role does not name it. The client hears nothing of that.
                StoreError::Rejected(_) | StoreError::Misconfigured(_) if replica.is_some() => {
                    rest(&mut self.rests.lock(), at, (now, UNREADABLE));
                    refused.push(at);
                }
                // The table refuses it as well, so replicas were right to.
                StoreError::Rejected(_) | StoreError::Misconfigured(_) => {
                    let mut rests = self.rests.lock();
                    for at in refused {
                        rest(&mut rests, at, (now, Duration::ZERO));
                    }
                    return Err(error);
                }
                _ => return Err(error),
            }
        }
    }
}

/// For how long each is still left alone.
fn left(rests: &[(Moment, Duration)], now: Moment) -> Vec<Duration> {
    rests.iter().map(|(since, term)| term.saturating_sub(now.perhaps_since(*since))).collect()
}

fn rest(rests: &mut [(Moment, Duration)], at: usize, rest: (Moment, Duration)) {
    if let Some(at) = rests.get_mut(at) {
        *at = rest;
    }
}
