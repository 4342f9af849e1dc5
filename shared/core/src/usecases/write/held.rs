//! How much more clients would ask for whose writes are held.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The writes of an environment that holds what is throttled, for clients that wait for each answer before they ask again.
///
/// Such clients ask for no more than is granted, whatever they would ask for: that they wait is all that can be seen. Of `C`
/// clients, `H` of whose writes are held, `C - H` are as fast as they would be, so all would ask for `C / (C - H)` times as much
/// (the interactive response time law: Lazowska et al., "Quantitative System Performance", 3.3).
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The clients that ask at present, 0 where nobody counts them.
    clients: AtomicUsize,
    /// The writes that have come in and are not answered.
    begun: AtomicUsize,
    /// Those of them that DynamoDB has been asked for.
    asked: AtomicUsize,
    /// How many are held, smoothed over arrivals.
    held: Mutex<f64>,
}

/// How many times as much as is granted clients are believed to ask for at most: a full pool of connections may hide few that
/// ask for much, or many that ask seldom.
const MOST_TIMES: f64 = 8.0;

/// The weight of the newest arrival.
const NEWEST: f64 = 0.1;

impl Held {
    /// Tells how many clients ask at present.
    pub(crate) fn tell(&self, clients: usize) {
        self.clients.store(clients, Ordering::Relaxed);
    }

    /// Counts a write as begun until what this returns is dropped.
    pub(crate) fn begin(&self) -> Counted<'_> {
        Counted::in_(&self.begun)
    }

    /// Counts a write as asked of DynamoDB until what this returns is dropped.
    pub(crate) fn ask(&self) -> Counted<'_> {
        Counted::in_(&self.asked)
    }

    /// How many times as much as a write that comes in would be asked for if none were held.
    pub(crate) fn times(&self) -> f64 {
        let clients = self.clients.load(Ordering::Relaxed);
        let (begun, asked) =
            (self.begun.load(Ordering::Relaxed), self.asked.load(Ordering::Relaxed));
        let now = float(begun.saturating_sub(asked));
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held += NEWEST * (now - *held);
        times(float(clients), *held)
    }
}

fn times(clients: f64, held: f64) -> f64 {
    if clients < 1.0 {
        return 1.0;
    }
    (clients / (clients - held).max(clients / MOST_TIMES)).max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than an f64 counts exactly")]
fn float(count: usize) -> f64 {
    count as f64
}

/// Counts something as long as it is there.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn in_(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times_of(clients: f64, held: f64) -> f64 {
        (times(clients, held) * 100.0).round() / 100.0
    }

    #[test]
    fn clients_that_wait_would_ask_for_more_and_those_that_pause_for_little_more() {
        // Nobody counts clients, or none waits.
        assert_eq!((times_of(0.0, 5.0), times_of(16.0, 0.0)), (1.0, 1.0));
        // Of 110 that pause for a second between two writes, 10 wait where 100 a second are granted: they would ask for 110.
        assert_eq!(times_of(110.0, 10.0), 1.1);
        // Of 16 that do not pause, all but one wait.
        assert_eq!((times_of(16.0, 14.0), times_of(16.0, 15.0)), (8.0, 8.0));
        assert_eq!(times_of(1.0, 9.0), 8.0, "it never divides by nothing");
    }

    #[test]
    fn what_is_dropped_counts_no_more() {
        let held = Held::default();
        held.tell(4);
        let begun = [held.begin(), held.begin()];
        let asked = held.ask();
        let before = held.times();
        drop((begun, asked));
        assert!(before > 1.0 && held.times() < before);
    }
}
