//! Time as use cases read it, deadlines, and leases on what was read (protocol: "Lease").

use std::time::Duration;

use crate::model::index_shards::IndexShards;

/// What the three clocks said at one moment.
///
/// Lambda freezes an environment between invocations, and a frozen monotonic clock would keep a
/// lease young for ever. So time is read from three sources, and the one that advanced most counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// `CLOCK_BOOTTIME`: monotonic, and goes on through suspension.
    pub boot: Duration,
    /// The wall clock, since the epoch. It may jump.
    pub wall: Duration,
    /// The latest `Date` header from DynamoDB, in epoch seconds, if any was seen yet.
    pub server_secs: Option<u64>,
}

impl Moment {
    /// How long ago `earlier` was by the local clock that advanced least: what certainly has passed.
    pub fn certainly_since(&self, earlier: Self) -> Duration {
        self.boot.saturating_sub(earlier.boot).min(self.wall.saturating_sub(earlier.wall))
    }

    /// How long ago `earlier` was by the clock that advanced most: what may have passed.
    ///
    /// `Date` headers are cut to whole seconds: two that differ by n are more than n - 1 seconds apart.
    pub fn perhaps_since(&self, earlier: Self) -> Duration {
        let server = match (earlier.server_secs, self.server_secs) {
            (Some(earlier), Some(now)) => {
                Duration::from_secs(now.saturating_sub(earlier).saturating_sub(1))
            }
            _ => Duration::ZERO,
        };
        self.boot
            .saturating_sub(earlier.boot)
            .max(self.wall.saturating_sub(earlier.wall))
            .max(server)
    }

    /// The wall clock in epoch seconds.
    pub fn epoch_secs(&self) -> u64 {
        self.wall.as_secs()
    }
}

/// The right to act on what was read, for a limited time (protocol: "Lease").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    since: Moment,
    term: Duration,
    signing: Signing,
    index_shards: Option<IndexShards>,
}

/// How requests under a lease are dated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Signing {
    /// By how much they are dated back (protocol: "Dates of writes").
    age: Duration,
    /// `CLOCK_BOOTTIME` when the read was answered: not before its `Date`.
    answered: Duration,
}

impl Lease {
    /// A lease on what a strong read returned.
    ///
    /// `before` is the clock's reading from before the request was sent. `server_secs` is the
    /// `Date` of the read's own answer: the latest `Date` from before may be as old as the last
    /// invocation, and what was read was true when the server answered.
    pub fn new(before: Moment, server_secs: Option<u64>, term: Duration) -> Self {
        let signing = Signing { answered: before.boot, ..Signing::default() };
        Self { since: Moment { server_secs, ..before }, term, signing, index_shards: None }
    }

    /// This lease of a read that was answered at `answered`. Writes under it are dated `age` ago.
    #[must_use]
    pub fn signed_ago(self, age: Duration, answered: Moment) -> Self {
        Self { signing: Signing { age, answered: answered.boot }, ..self }
    }

    /// This lease. Items that are written under it carry their shard of write-sharded indexes, if there are any.
    #[must_use]
    pub(crate) fn spread_over(self, index_shards: Option<IndexShards>) -> Self {
        Self { index_shards, ..self }
    }

    /// This lease of a read that was answered at `answered`. Writes under it carry what those under another one do.
    #[must_use]
    pub(crate) fn writing_as(self, other: &Self, answered: Moment) -> Self {
        self.signed_ago(other.signing.age, answered).spread_over(other.index_shards)
    }

    /// The shards of write-sharded indexes, if there are any.
    pub fn index_shards(&self) -> Option<IndexShards> {
        self.index_shards
    }

    /// The date that a write carries if it is signed now, in epoch seconds by DynamoDB's clock, whatever the local one says.
    /// It is never ahead of that, and behind by the time that the answer took. `None` where the clock of the machine is to
    /// tell, as writes are not dated back.
    ///
    /// # Errors
    /// The read told no time of DynamoDB's, so nothing can be dated by it.
    pub fn date_secs(&self, now: Moment) -> Result<Option<u64>, NoServerTime> {
        if self.signing.age.is_zero() {
            return Ok(None);
        }
        let since = self.since.server_secs.ok_or(NoServerTime)?;
        let passed = now.boot.saturating_sub(self.signing.answered).as_secs();
        Ok(Some((since + passed).saturating_sub(self.signing.age.as_secs())))
    }

    /// What the clocks said before the read was sent.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// The largest age that any of the clocks proves. That a lease lasts up to a second longer by the `Date` headers alone is
    /// what the second in T' = T(1 + rho) + 1 s is for.
    pub fn age(&self, now: Moment) -> Duration {
        now.perhaps_since(self.since)
    }

    /// Whether a request that is dated so, in epoch seconds, is executed within H of now, if at all: DynamoDB takes a
    /// request for so long after its date, not after its signing (protocol: "Assumptions", A2). Where the read told no
    /// time of DynamoDB's, that is not known to be wrong.
    pub fn allows_date(&self, now: Moment, date_secs: u64) -> bool {
        let passed = now.boot.saturating_sub(self.since.boot).as_secs() + 1;
        let age_secs = self.signing.age.as_secs();
        self.since
            .server_secs
            .is_none_or(|since| date_secs + age_secs <= since + passed + MOST_AHEAD_SECS)
    }

    /// Whether the lease may still be acted on.
    pub fn is_live(&self, now: Moment) -> bool {
        self.age(now) < self.term
    }

    /// Whether nobody needs to renew it yet: it is in the first half of its term, and an operation may begin on it for a while.
    pub(crate) fn is_young(&self, now: Moment) -> bool {
        self.age(now) < Self::renewed_every(self.term)
    }

    /// What passes at least between two reads by which somebody who always has requests renews a lease of this term.
    pub fn renewed_every(term: Duration) -> Duration {
        (term / 2).min(fresh_for(term) / 4 * 3)
    }

    /// Whether an operation may begin on it. The last part of the term is kept for the answer: a write that is answered after
    /// its lease has an unknown outcome, however well it went.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.age(now) < fresh_for(self.term)
    }
}

/// For how long operations may begin: a quarter of the term is kept, and a second at least of one that has that to spare.
fn fresh_for(term: Duration) -> Duration {
    let quarter = term / 4;
    let kept = if term >= 2 * LEAST_KEPT { quarter.max(LEAST_KEPT) } else { quarter };
    term.saturating_sub(kept)
}

/// So long an answer of DynamoDB's may take that nothing is wrong with.
const LEAST_KEPT: Duration = Duration::from_secs(1);

/// Nothing can be dated by a read that told no time of DynamoDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoServerTime;

/// How far ahead of DynamoDB's clock a write may be dated. With the seconds that the read of its lease may have taken it is
/// no more than what the shortest H has to spare beyond the age that DynamoDB accepts.
const MOST_AHEAD_SECS: u64 = 5;

/// T': how long after a change of metadata the last lease on what was before may live. A hundredth is
/// for clocks that run apart, and a second for what [`Lease::age`] forgives.
pub fn leases_end(lease_term: Duration) -> Duration {
    lease_term + lease_term / 100 + Duration::from_secs(1)
}

/// The moment by which a request must have answered, on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Duration,
    /// When what is still throttled is given up.
    throttled: Duration,
    /// When what is throttled is given up where a write has to wait for the move of an item.
    settling: Duration,
    /// Until when a write waits for its turn at a shard that is full, and that others write to.
    full: Duration,
    /// For how long, from its first fault on, what DynamoDB answers with faults is tried.
    faulty: Duration,
}

impl Deadline {
    /// `time` from now.
    pub fn after(now: Moment, time: Duration) -> Self {
        let at = now.boot + time;
        Self { at, throttled: at, settling: at, full: at, faulty: Duration::MAX }
    }

    /// This deadline, but what is still throttled at `limit` is given up then. A client that is told so comes
    /// back when the partition has more to give, and holds nothing meanwhile.
    #[must_use]
    pub fn if_throttled(self, limit: Self) -> Self {
        let throttled = self.throttled.min(limit.at);
        Self { throttled, settling: throttled, full: self.full.min(throttled), ..self }
    }

    /// This deadline, but what is throttled while an item moves is given up at `limit`. That is once for each
    /// item, and whoever came back instead would try in vain at its new home first, and pay for that.
    #[must_use]
    pub fn if_settling(self, limit: Self) -> Self {
        Self { settling: limit.at.max(self.throttled), ..self }
    }

    /// This deadline, but no write waits longer than until `limit` for its turn at a shard that is full, and that others write to.
    #[must_use]
    pub fn if_full(self, limit: Self) -> Self {
        Self { full: self.full.min(limit.at), ..self }
    }

    /// This deadline, but what DynamoDB answers with faults is given up `time` after the first of them. Most pass at once, and
    /// whoever waits for the others holds a client and an environment.
    #[must_use]
    pub fn if_faulty(self, time: Duration) -> Self {
        Self { faulty: self.faulty.min(time), ..self }
    }

    /// The deadline of what met its first fault at this time on the boot clock.
    pub(crate) fn of_faulty(self, since: Duration) -> Self {
        Self { at: since.saturating_add(self.faulty).min(self.at), ..self }
    }

    /// The moment by which a write gives up that has to wait for its turn at such a shard.
    pub(crate) fn of_full(self) -> Self {
        Self { at: self.full.min(self.at), ..self }
    }

    /// The moment by which what is throttled is given up while an item moves.
    pub(crate) fn of_settling(self) -> Self {
        Self { throttled: self.settling, ..self }
    }

    /// The moment by which what is still throttled is given up: the deadline itself, if it was not told
    /// [another](Self::if_throttled).
    pub(crate) fn of_throttled(self) -> Self {
        Self { at: self.throttled.min(self.at), ..self }
    }

    /// A deadline that comes `time` before this one.
    #[must_use]
    pub fn earlier_by(self, time: Duration) -> Self {
        Self { at: self.at.saturating_sub(time), ..self }
    }

    /// The time that is left; zero once it has passed.
    pub fn remaining(&self, now: Moment) -> Duration {
        self.at.saturating_sub(now.boot)
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            at: self.at.min(other.at),
            throttled: self.throttled.min(other.throttled),
            full: self.full.min(other.full),
            settling: self.settling.min(other.settling),
            faulty: self.faulty.min(other.faulty),
        }
    }
}

/// An answer, and the epoch second that the server put into its `Date` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dated<T> {
    /// What was answered.
    pub value: T,
    /// When, by the server's clock; `None` where the answer had no such header.
    pub server_secs: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(5);

    fn reading(boot: u64, wall: u64, server_secs: Option<u64>) -> Moment {
        Moment { boot: Duration::from_secs(boot), wall: Duration::from_secs(wall), server_secs }
    }

    #[test]
    fn a_write_is_dated_by_the_clock_of_dynamodb_and_never_ahead_of_it() {
        let age = Duration::from_secs(270);
        // The local clock is a year behind, and the answer took three seconds.
        let lease = Lease::new(reading(100, 1_000, None), Some(1_700_000_000), TERM);
        assert_eq!(lease.date_secs(reading(104, 1_004, None)), Ok(None), "not dated");
        let lease = lease.signed_ago(age, reading(103, 1_003, None));
        for (boot, date) in [(103, 1_699_999_730), (104, 1_699_999_731), (108, 1_699_999_735)] {
            assert_eq!(lease.date_secs(reading(boot, 9, None)), Ok(Some(date)));
            assert!(lease.allows_date(reading(boot, 9, None), date));
        }
        assert!(!lease.allows_date(reading(104, 9, None), 1_700_000_000), "signed without the age");
        let unknown = Lease::new(reading(100, 1_000, None), None, TERM);
        let unknown = unknown.signed_ago(age, reading(103, 1_003, None));
        assert_eq!(unknown.date_secs(reading(103, 1_003, None)), Err(NoServerTime));
    }

    #[test]
    fn any_clock_that_advanced_ends_a_lease() {
        let lease = Lease::new(reading(100, 1_000, None), Some(1_000), TERM);
        assert!(lease.is_live(reading(104, 1_004, Some(1_004))));
        assert!(!lease.is_live(reading(105, 1_000, Some(1_000))), "boot clock");
        assert!(!lease.is_live(reading(100, 1_005, Some(1_000))), "wall clock");
        assert!(lease.is_live(reading(100, 1_000, Some(1_005))), "perhaps only just over 4 s");
        assert!(!lease.is_live(reading(100, 1_000, Some(1_006))), "DynamoDB's clock");
    }

    #[test]
    fn a_lease_of_one_second_outlives_the_turn_of_a_second() {
        let lease = Lease::new(reading(100, 1_000, None), Some(1_000), Duration::from_secs(1));
        assert!(lease.is_live(reading(100, 1_000, Some(1_001))));
    }

    #[test]
    fn no_operation_begins_in_the_last_quarter_of_a_lease() {
        let lease = Lease::new(reading(100, 1_000, None), None, TERM);
        let after = |millis: u64| Moment {
            boot: Duration::from_millis(100_000 + millis),
            ..reading(0, 1_000, None)
        };
        assert!(lease.is_fresh(after(3_749)));
        assert!(!lease.is_fresh(after(3_750)));
        assert!(lease.is_live(after(3_750)));
    }

    #[test]
    fn a_wall_clock_that_jumps_back_does_not_prolong_a_lease() {
        let lease = Lease::new(reading(100, 1_000, None), None, TERM);
        assert_eq!(lease.age(reading(103, 10, None)), Duration::from_secs(3));
    }

    #[test]
    fn regression_a_date_from_the_last_invocation_made_every_new_lease_old() {
        // The environment slept ten minutes: the last Date it saw is from before.
        let before = reading(700, 1_600, Some(1_000));
        let lease = Lease::new(before, Some(1_600), TERM);
        assert!(lease.is_live(reading(700, 1_600, Some(1_600))));
    }
}
