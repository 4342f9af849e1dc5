//! What the demo offers to one collection: an open loop over flights whose turn never passes until
//! they are written.

use std::collections::VecDeque;
use std::time::Duration;

/// Operations of one batch write at most.
const BATCH: usize = 200;

/// How long a flight waits that was refused. The functions take one that comes back at once for the same operation,
/// and not for demand.
const COMES_BACK_AFTER: Duration = Duration::from_secs(6);

/// The offers to one collection.
///
/// The loop is open: at any time so many offers are due, whatever became of those before. An offer
/// takes the flight that was refused longest ago, if that was a while ago, or else the next one. While the collection has as
/// many batches under way as it may, offers wait, but no more of them than may be under way; those
/// beyond are refused, and their flights are offered later. So every flight is written in the end,
/// and no work piles up.
#[derive(Debug, Default)]
pub(super) struct Offers {
    per_sec: u32,
    /// Batches that may be under way at once.
    pub(super) most_batches: usize,
    batches: usize,
    /// Offers that were due and could not be sent yet.
    waiting: usize,
    /// The flights that were refused and are to be offered again, and when that was.
    again: VecDeque<(Duration, usize)>,
    /// How many different flights were offered to the target.
    pub(super) flights: usize,
    pub(super) counts: Counts,
}

/// What became of the offers to one collection so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Offers that were due.
    pub(super) offered: u64,
    /// Writes that the target acknowledged.
    pub(super) absorbed: u64,
    /// Offers that the target got and did not carry out: they are made again.
    pub(super) unprocessed: u64,
    /// Those of them that may have been stored all the same.
    pub(super) unknown: u64,
}

impl Offers {
    /// Offers at a rate. What is under way at once is what is offered in `in_flight`: as long as a batch is tried that stays
    /// throttled. With less, a client that a partition refuses would offer only what that takes, and nobody could tell what
    /// it wants; with more, it would pile up work where it is tried.
    pub(super) fn new(per_sec: u32, in_flight: Duration) -> Self {
        let in_flight = f64::from(per_sec) * in_flight.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few batches"
        )]
        let most_batches = (in_flight as usize).div_ceil(BATCH).max(1);
        Self { per_sec, most_batches, ..Self::default() }
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
            let is_back =
                |(refused, _): &mut (Duration, usize)| *refused + COMES_BACK_AFTER <= elapsed;
            let refused = self.again.pop_front_if(is_back);
            refused.map_or_else(
                || {
                    self.flights += 1;
                    self.flights - 1
                },
                |(_, flight)| flight,
            )
        });
        let flights = flights.collect::<Vec<_>>();
        self.begun(&flights)
    }

    /// The batches to send when nothing new is to be offered any more: what was refused.
    pub(super) fn rest(&mut self) -> Vec<Vec<usize>> {
        let fits = (self.most_batches - self.batches) * BATCH;
        let flights = self.again.drain(..fits.min(self.again.len()));
        let flights = flights.map(|(_, flight)| flight).collect::<Vec<_>>();
        self.begun(&flights)
    }

    fn begun(&mut self, flights: &[usize]) -> Vec<Vec<usize>> {
        let batches = flights.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>();
        self.batches += batches.len();
        batches
    }

    /// A batch of this many flights was answered when the loop had run for `elapsed`, and these are to be offered
    /// again.
    pub(super) fn answered(
        &mut self,
        elapsed: Duration,
        flights: usize,
        refused: Vec<usize>,
        unknown: usize,
    ) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        self.batches -= 1;
        self.counts.absorbed += count(flights - refused.len());
        self.counts.unprocessed += count(refused.len());
        self.counts.unknown += count(unknown);
        self.again.extend(refused.into_iter().map(|flight| (elapsed, flight)));
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
    const IN_FLIGHT: Duration = Duration::from_millis(2_500);

    #[test]
    fn offers_come_at_the_rate_whatever_becomes_of_them() {
        // Two batches may be under way.
        let mut offers = Offers::new(160, IN_FLIGHT);
        let at = |millis| Duration::from_millis(millis);
        let sizes = |batches: Vec<Vec<usize>>| batches.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(offers.due(at(500))), [80]);
        assert_eq!(sizes(offers.due(at(2_000))), [200], "the second batch is the last that fits");
        assert_eq!(sizes(offers.due(at(4_000))), [0; 0], "they wait");
        assert_eq!(offers.counts.offered, 640);
        assert_eq!(offers.flights, 280, "an offer that is not sent takes no flight");
        offers.answered(at(4_000), 80, Vec::new(), 0);
        assert_eq!(sizes(offers.due(at(4_000))), [200], "nothing new is due");
    }

    #[test]
    fn no_more_offers_wait_than_may_be_under_way() {
        let mut offers = Offers::new(80, IN_FLIGHT);
        assert_eq!(offers.due(3 * SECOND).len(), 1, "one batch at a time");
        for second in 4..100 {
            assert!(offers.due(second * SECOND).is_empty());
        }
        let mut written = 0;
        while !offers.is_done() {
            offers.answered(99 * SECOND, 200, Vec::new(), 0);
            offers.due(99 * SECOND);
            written += 200;
        }
        assert_eq!(written, 400, "one batch was under way, and one waited");
    }

    #[test]
    fn what_was_refused_a_while_ago_is_offered_again_before_what_is_new() {
        let mut offers = Offers::new(100, IN_FLIGHT);
        let batches = offers.due(SECOND / 10);
        assert_eq!(batches, [(0..10).collect::<Vec<_>>()]);
        offers.answered(SECOND / 10, 10, vec![3, 7], 1);
        assert_eq!(offers.due(SECOND / 5), [(10..20).collect::<Vec<_>>()], "a moment ago");
        offers.answered(SECOND / 5, 10, Vec::new(), 0);
        assert_eq!(offers.due(7 * SECOND)[0][..3], [3, 7, 20]);
        let counts = Counts { offered: 700, absorbed: 18, unprocessed: 2, unknown: 1 };
        assert_eq!(offers.counts, counts);
    }

    #[test]
    fn the_rest_is_what_was_refused_and_nothing_new() {
        let mut offers = Offers::new(100, IN_FLIGHT);
        assert_eq!(offers.due(SECOND / 2).len(), 1);
        assert!(!offers.is_done() && offers.rest().is_empty(), "a batch is under way");
        offers.answered(SECOND, 50, vec![1], 0);
        assert_eq!(offers.rest(), [[1]]);
        offers.answered(SECOND, 1, Vec::new(), 0);
        assert!(offers.rest().is_empty() && offers.is_done());
        assert_eq!((offers.flights, offers.counts.absorbed), (50, 50));
    }
}
