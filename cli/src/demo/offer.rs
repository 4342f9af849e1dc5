//! What the demo offers to one collection: an open loop over flights whose turn never passes until
//! they are written.

use std::collections::VecDeque;
use std::time::Duration;

/// Operations of one batch write at most: an answer takes a fraction of a second, so progress shows.
const BATCH: usize = 100;

/// What one collection may have under way, as time at the rate that is offered to it. A writer
/// holds on to what is throttled and tries it again, so without this bound a client that a partition
/// refuses would only pile up work in the functions.
const IN_FLIGHT: Duration = Duration::from_millis(500);

/// The offers to one collection.
///
/// The loop is open: at any time so many offers are due, whatever became of those before. An offer
/// takes the flight that was refused longest ago, or else the next one. While the collection has as
/// many batches under way as it may, offers wait, but no more of them than may be under way; those
/// beyond are refused, and their flights are offered later. So every flight is written in the end,
/// and no work piles up.
#[derive(Debug)]
pub(super) struct Offers {
    per_sec: u32,
    most_batches: usize,
    batches: usize,
    /// Offers that were due and could not be sent yet.
    waiting: usize,
    /// The flights that were refused and are to be offered again.
    again: VecDeque<usize>,
    /// The flight that was never offered yet.
    next: usize,
    counts: Counts,
}

/// What became of the offers to one collection so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Offers that were due.
    pub(super) offered: u64,
    /// Writes that the API acknowledged.
    pub(super) absorbed: u64,
    /// Offers that the API got and did not carry out: they are made again.
    pub(super) unprocessed: u64,
    /// Those of them that may have been stored all the same.
    pub(super) unknown: u64,
}

impl Offers {
    pub(super) fn new(per_sec: u32) -> Self {
        let in_flight = f64::from(per_sec) * IN_FLIGHT.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few batches"
        )]
        let most_batches = (in_flight as usize).div_ceil(BATCH).max(1);
        Self {
            per_sec,
            most_batches,
            batches: 0,
            waiting: 0,
            again: VecDeque::new(),
            next: 0,
            counts: Counts::default(),
        }
    }

    /// Batches that may be under way at once.
    pub(super) const fn most_batches(&self) -> usize {
        self.most_batches
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many different flights were offered to the API.
    pub(super) const fn flights(&self) -> usize {
        self.next
    }

    /// The batches to send when the loop has run for `elapsed`: flights by their numbers.
    pub(super) fn due(&mut self, elapsed: Duration) -> Vec<Vec<usize>> {
        let in_all = elapsed.as_millis() * u128::from(self.per_sec) / 1_000;
        let in_all = u64::try_from(in_all).unwrap_or(u64::MAX);
        let due = in_all.saturating_sub(self.counts.offered);
        self.counts.offered += due;
        let waiting = self.waiting.saturating_add(usize::try_from(due).unwrap_or(usize::MAX));
        let fits = (self.most_batches - self.batches) * BATCH;
        let sent = waiting.min(fits);
        self.waiting = (waiting - sent).min(self.most_batches * BATCH);
        let flights = (0..sent).map(|_| {
            self.again.pop_front().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            })
        });
        let flights = flights.collect::<Vec<_>>();
        self.begun(&flights)
    }

    /// The batches to send when nothing new is to be offered any more: what was refused.
    pub(super) fn rest(&mut self) -> Vec<Vec<usize>> {
        let fits = (self.most_batches - self.batches) * BATCH;
        let flights = self.again.drain(..fits.min(self.again.len())).collect::<Vec<_>>();
        self.begun(&flights)
    }

    fn begun(&mut self, flights: &[usize]) -> Vec<Vec<usize>> {
        let batches = flights.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>();
        self.batches += batches.len();
        batches
    }

    /// A batch of this many flights was answered, and these are to be offered again.
    pub(super) fn answered(&mut self, flights: usize, refused: Vec<usize>, unknown: usize) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        self.batches -= 1;
        self.counts.absorbed += count(flights - refused.len());
        self.counts.unprocessed += count(refused.len());
        self.counts.unknown += count(unknown);
        self.again.extend(refused);
    }

    /// Whether every flight that was offered is written.
    pub(super) fn is_done(&self) -> bool {
        self.batches == 0 && self.again.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn offers_come_at_the_rate_whatever_becomes_of_them() {
        let mut offers = Offers::new(400);
        let at = |millis| Duration::from_millis(millis);
        let sizes = |batches: Vec<Vec<usize>>| batches.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(offers.due(at(100))), [40]);
        assert_eq!(sizes(offers.due(at(400))), [100], "the second batch is the last that fits");
        assert_eq!(sizes(offers.due(at(900))), [0; 0], "they wait");
        assert_eq!(offers.counts().offered, 360);
        assert_eq!(offers.flights(), 140, "an offer that is not sent takes no flight");
        offers.answered(40, Vec::new(), 0);
        assert_eq!(sizes(offers.due(at(900))), [100], "nothing new is due");
    }

    #[test]
    fn no_more_offers_wait_than_may_be_under_way() {
        let mut offers = Offers::new(200);
        assert_eq!(offers.due(SECOND).len(), 1, "one batch at a time");
        for second in 2..100 {
            assert!(offers.due(second * SECOND).is_empty());
        }
        let mut written = 0;
        while !offers.is_done() {
            offers.answered(100, Vec::new(), 0);
            offers.due(99 * SECOND);
            written += 100;
        }
        assert_eq!(written, 200, "one batch was under way, and one waited");
    }

    #[test]
    fn what_was_refused_is_offered_again_before_what_is_new() {
        let mut offers = Offers::new(100);
        let batches = offers.due(SECOND / 10);
        assert_eq!(batches, [(0..10).collect::<Vec<_>>()]);
        offers.answered(10, vec![3, 7], 1);
        assert_eq!(offers.due(SECOND / 5), [[3, 7, 10, 11, 12, 13, 14, 15, 16, 17]]);
        let counts = Counts { offered: 20, absorbed: 8, unprocessed: 2, unknown: 1 };
        assert_eq!(offers.counts(), counts);
    }

    #[test]
    fn the_rest_is_what_was_refused_and_nothing_new() {
        let mut offers = Offers::new(100);
        assert_eq!(offers.due(SECOND / 2).len(), 1);
        assert!(!offers.is_done() && offers.rest().is_empty(), "a batch is under way");
        offers.answered(50, vec![1], 0);
        assert_eq!(offers.rest(), [[1]]);
        offers.answered(1, Vec::new(), 0);
        assert!(offers.rest().is_empty() && offers.is_done());
        assert_eq!((offers.flights(), offers.counts().absorbed), (50, 50));
    }
}
