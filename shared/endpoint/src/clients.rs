//! How many connections ask at present.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The connections that have asked something in this second or in the one before, the more of the two. Each is a client that
/// waits for its answer before it asks again.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    seconds: Mutex<Seconds>,
}

#[derive(Debug, Default)]
struct Seconds {
    now: u64,
    count: usize,
    before: usize,
}

/// When a connection has asked last, in epoch seconds.
#[derive(Debug, Default)]
pub(crate) struct LastAsked(AtomicU64);

impl Clients {
    /// Takes note of a request of a connection in this epoch second, and returns how many connections ask if it is its first
    /// one in that.
    pub(crate) fn asked(&self, last: &LastAsked, now: u64) -> Option<usize> {
        if last.0.swap(now, Ordering::Relaxed) == now {
            return None;
        }
        let mut seconds = self.seconds.lock();
        if now != seconds.now {
            let before = if now == seconds.now + 1 { seconds.count } else { 0 };
            *seconds = Seconds { now, count: 0, before };
        }
        seconds.count += 1;
        Some(seconds.count.max(seconds.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_once_a_second_and_one_that_is_silent_no_more() {
        let clients = Clients::default();
        let [one, two] = [LastAsked::default(), LastAsked::default()];
        assert_eq!((clients.asked(&one, 7), clients.asked(&one, 7)), (Some(1), None));
        assert_eq!(clients.asked(&two, 7), Some(2));
        assert_eq!(clients.asked(&one, 8), Some(2), "the second has only begun");
        assert_eq!(clients.asked(&one, 9), Some(1));
        assert_eq!(clients.asked(&two, 20), Some(1));
    }
}
