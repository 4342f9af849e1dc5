//! How much more clients would ask for whose writes are held.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// What an environment has under way that holds what is throttled, for clients that wait for each answer before they ask again.
///
/// Such clients ask for no more than is granted, whatever they would ask for: that they wait is all that can be seen. Of `C`
/// clients, `H` of whose requests are held, `C - H` are as fast as they would be, so all would be granted `C / (C - H)` times as
/// much (the interactive response time law: Lazowska et al., "Quantitative System Performance", 3.3).
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The clients that ask at present, 0 where nobody counts them.
    clients: AtomicUsize,
    /// The requests that have come in and are not answered, in [parts](WHOLE).
    begun: AtomicUsize,
    /// Those of them that DynamoDB has been asked for.
    asked: AtomicUsize,
    /// How many are neither answered nor asked for, smoothed over answers.
    waiting: Mutex<f64>,
    /// The writes that were throttled and are not answered.
    throttled: AtomicUsize,
    /// How many there were since the start.
    throttled_in_all: AtomicU64,
}

/// The writes that an environment holds for its clients since DynamoDB has throttled them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldWrites {
    /// Those that are not answered.
    pub now: usize,
    /// All since the start.
    pub total: u64,
}

/// The parts of a request: a write of a batch is one of its parts.
const WHOLE: usize = 1_000;

/// How many times as much as is granted clients are believed to ask for at most: a full pool of connections may hide few that
/// ask for much, or many that ask seldom.
const MOST_TIMES: f64 = 8.0;

/// The weight of the newest answer.
const NEWEST: f64 = 0.1;

impl Held {
    /// Tells how many clients ask at present.
    pub(crate) fn tell(&self, clients: usize) {
        self.clients.store(clients, Ordering::Relaxed);
    }

    /// Counts one of `writes` that a request has as begun until what this returns is dropped.
    pub(crate) fn begin(&self, writes: usize) -> Counted<'_> {
        Counted::of(&self.begun, WHOLE / writes.max(1))
    }

    /// Counts one of `writes` that a request has as asked of DynamoDB until what this returns is dropped.
    pub(crate) fn ask(&self, writes: usize) -> Counted<'_> {
        Counted::of(&self.asked, WHOLE / writes.max(1))
    }

    /// Counts a write that was throttled as held until what this returns is dropped.
    pub(crate) fn hold(&self) -> Counted<'_> {
        self.throttled_in_all.fetch_add(1, Ordering::Relaxed);
        Counted::of(&self.throttled, 1)
    }

    /// The writes that are held.
    pub(crate) fn writes(&self) -> HeldWrites {
        let (now, total) = (&self.throttled, &self.throttled_in_all);
        HeldWrites { now: now.load(Ordering::Relaxed), total: total.load(Ordering::Relaxed) }
    }

    /// How many times as much as clients were granted they would have been if nothing were held; `None` where nobody counts
    /// them, or none waits.
    pub(crate) fn times(&self) -> Option<f64> {
        let clients = self.clients.load(Ordering::Relaxed);
        let (begun, asked) =
            (self.begun.load(Ordering::Relaxed), self.asked.load(Ordering::Relaxed));
        let now = float(begun.saturating_sub(asked)) / float(WHOLE);
        let mut waiting = self.waiting.lock();
        *waiting += NEWEST * (now - *waiting);
        Some(times(float(clients), *waiting)).filter(|times| clients > 0 && *times > 1.0)
    }
}

fn times(clients: f64, waiting: f64) -> f64 {
    clients / (clients - waiting).max(clients / MOST_TIMES)
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than an f64 counts exactly")]
fn float(count: usize) -> f64 {
    count as f64
}

/// Counts something as long as it is there.
pub(crate) struct Counted<'a> {
    counter: &'a AtomicUsize,
    parts: usize,
}

impl<'a> Counted<'a> {
    fn of(counter: &'a AtomicUsize, parts: usize) -> Self {
        counter.fetch_add(parts, Ordering::Relaxed);
        Self { counter, parts }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.parts, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times_of(clients: f64, waiting: f64) -> String {
        format!("{:.1}", times(clients, waiting))
    }

    #[test]
    fn clients_that_wait_would_ask_for_more_and_those_that_pause_for_little_more() {
        assert_eq!(times_of(16.0, 0.0), "1.0");
        // Of 110 that pause for a second between two writes, 10 wait where 100 a second are granted: they would ask for 110.
        assert_eq!(times_of(110.0, 10.0), "1.1");
        // Of 16 that do not pause, all but one wait.
        assert_eq!(
            (times_of(16.0, 14.0), times_of(16.0, 15.0)),
            ("8.0".to_owned(), "8.0".to_owned())
        );
        assert_eq!(times_of(1.0, 9.0), "8.0", "it never divides by nothing");
    }

    #[test]
    fn what_is_dropped_counts_no_more() {
        let held = Held::default();
        assert_eq!(held.times(), None, "nobody counts clients");
        held.tell(2);
        let begun = [held.begin(1), held.begin(2)];
        let asked = held.ask(2);
        let before = held.times().expect("one waits");
        drop((begun, asked));
        assert!(held.times().is_some_and(|after| after < before));
        let holds = [held.hold(), held.hold()];
        assert_eq!(held.writes(), HeldWrites { now: 2, total: 2 });
        drop(holds);
        assert_eq!(held.writes(), HeldWrites { now: 0, total: 2 });
    }
}
