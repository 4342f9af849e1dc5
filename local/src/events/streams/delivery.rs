//! What to do with a batch after each answer: go on, wait, split or give up. Pure: the caller has
//! the clock and the function.
//!
//! The rules are Lambda's, from "Retain discarded records for a DynamoDB event source" and
//! "Configuring partial batch response with DynamoDB and Lambda" in its developer guide:
//!
//! - A batch that failed is tried again, up to `MaximumRetryAttempts` times, with growing pauses.
//! - With `BisectBatchOnFunctionError` a batch of several records is split in two instead, and one
//!   that failed from some record on is split there. Splitting consumes no retries.
//! - Where the function says from which record on it failed, those before it are done. Where that
//!   is the first record nothing is done, and the batch has failed as a whole.
//! - An invocation that does not come about, because all environments are busy, consumes no
//!   retries either.
//! - Records older than `MaximumRecordAgeInSeconds` are not given to the function.
//!
//! The guide does not say how long the pauses are. Here the first takes a second, and each further
//! one twice as long, up to a minute.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use crate::plan::RetryPolicy;

/// One batch on its way through attempts and splits, until nothing of it is left.
#[derive(Debug)]
pub(super) struct Delivery {
    policy: RetryPolicy,
    /// When each record was created.
    created: Vec<SystemTime>,
    /// What is left, in order. Only the first part is worked on, so that records stay in order.
    parts: VecDeque<Part>,
}

/// What comes next. Ranges are of the batch as it was at first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait, and ask again.
    Wait(Duration),
    /// Invoke the function with these records, and tell [`Delivery::answered`].
    Invoke(Range<usize>),
    /// Tell of these records that they were given up, and ask again.
    Discard(Discarded),
    /// The batch is done.
    Done,
}

/// Records that will not be tried any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Discarded {
    pub(super) records: Range<usize>,
    pub(super) reason: Reason,
    /// How often the function was invoked with these records as one batch.
    pub(super) invocations: u32,
}

/// Why records were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    RetryAttemptsExhausted,
    RecordAgeExceeded,
}

/// How an invocation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
    /// All records before this one, counted from the first that was given, succeeded.
    FailedFrom(usize),
    /// The function was not invoked.
    NotInvoked,
}

/// Consecutive records that are tried together.
#[derive(Debug)]
struct Part {
    records: Range<usize>,
    invocations: u32,
    retries: u32,
    /// How often it was paused.
    pauses: u32,
    /// The pause before the next attempt.
    pause: Option<Duration>,
}

impl Delivery {
    /// The delivery of a batch whose records were created at these times.
    pub(super) fn new(created: Vec<SystemTime>, policy: RetryPolicy) -> Self {
        let parts = VecDeque::from([Part::new(0..created.len())]);
        Self { policy, created, parts }
    }

    pub(super) fn next(&mut self, now: SystemTime) -> Step {
        let Some(part) = self.parts.front_mut() else {
            return Step::Done;
        };
        if part.records.is_empty() {
            self.parts.pop_front();
            return self.next(now);
        }
        let (records, invocations) = (part.records.clone(), part.invocations);
        let max_age = self.policy.max_age;
        // Clocks that disagree make no record old.
        let is_old = |record: &usize| {
            now.duration_since(self.created[*record]).is_ok_and(|age| age > max_age)
        };
        let old = records.clone().take_while(is_old).count();
        if old > 0 {
            part.records.start += old;
            let records = records.start..part.records.start;
            let reason = Reason::RecordAgeExceeded;
            return Step::Discard(Discarded { records, reason, invocations });
        }
        if self.policy.max_retries.is_some_and(|most| part.retries > most) {
            self.parts.pop_front();
            let reason = Reason::RetryAttemptsExhausted;
            return Step::Discard(Discarded { records, reason, invocations });
        }
        match part.pause.take() {
            Some(pause) => Step::Wait(pause),
            None => Step::Invoke(records),
        }
    }

    /// Takes in how the last [`Step::Invoke`] went.
    pub(super) fn answered(&mut self, outcome: Outcome) {
        let Some(mut part) = self.parts.pop_front() else {
            return;
        };
        if outcome != Outcome::NotInvoked {
            part.invocations += 1;
        }
        match outcome {
            Outcome::Succeeded => return,
            Outcome::NotInvoked => part.pause(),
            Outcome::FailedFrom(done @ 1..) if done < part.records.len() => {
                part.records.start += done;
                if self.policy.bisect {
                    part = Part::new(part.records);
                } else {
                    part.retry();
                }
            }
            Outcome::FailedFrom(_) | Outcome::Failed => {
                if self.policy.bisect && part.records.len() > 1 {
                    let middle = part.records.start + part.records.len() / 2;
                    self.parts.push_front(Part::new(middle..part.records.end));
                    part = Part::new(part.records.start..middle);
                } else {
                    part.retry();
                }
            }
        }
        self.parts.push_front(part);
    }
}

impl Part {
    fn new(records: Range<usize>) -> Self {
        Self { records, invocations: 0, retries: 0, pauses: 0, pause: None }
    }

    fn retry(&mut self) {
        self.retries += 1;
        self.pause();
    }

    fn pause(&mut self) {
        let (first, longest) = PAUSES;
        let factor = 1_u32.checked_shl(self.pauses).unwrap_or(u32::MAX);
        self.pause = Some(first.saturating_mul(factor).min(longest));
        self.pauses += 1;
    }
}

/// The first pause, and the longest that it doubles up to.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

#[cfg(test)]
mod tests {
    use Outcome::{Failed, FailedFrom, NotInvoked, Succeeded};
    use Reason::{RecordAgeExceeded, RetryAttemptsExhausted};

    use super::*;

    const CREATED: SystemTime = SystemTime::UNIX_EPOCH;

    fn policy(max_retries: Option<u32>, bisect: bool) -> RetryPolicy {
        RetryPolicy { max_retries, max_age: Duration::from_hours(1), bisect }
    }

    /// Follows a batch of `count` records through the outcomes of its invocations, and tells its
    /// steps: `0..3` for an invocation, `2s` for a pause, `-0..1 x4` for records given up after
    /// four invocations, `-0..1 old x0` for records that were too old.
    fn steps(count: usize, policy: RetryPolicy, outcomes: &[Outcome]) -> String {
        steps_of(&vec![CREATED; count], policy, outcomes)
    }

    fn steps_of(created: &[SystemTime], policy: RetryPolicy, outcomes: &[Outcome]) -> String {
        let mut delivery = Delivery::new(created.to_vec(), policy);
        let mut outcomes = outcomes.iter();
        let mut now = CREATED;
        let mut told = Vec::new();
        loop {
            match delivery.next(now) {
                Step::Wait(pause) => {
                    now += pause;
                    told.push(format!("{}s", pause.as_secs()));
                }
                Step::Invoke(records) => {
                    told.push(format!("{records:?}"));
                    let Some(outcome) = outcomes.next() else {
                        return told.join(" ");
                    };
                    delivery.answered(*outcome);
                }
                Step::Discard(Discarded { records, reason, invocations }) => {
                    let reason = match reason {
                        RetryAttemptsExhausted => "",
                        RecordAgeExceeded => " old",
                    };
                    told.push(format!("-{records:?}{reason} x{invocations}"));
                }
                Step::Done => {
                    assert_eq!(outcomes.next(), None, "done too early: {told:?}");
                    return told.join(" ") + " done";
                }
            }
        }
    }

    #[test]
    fn a_batch_is_followed_to_its_end() {
        for (count, policy, outcomes, expected) in [
            (3, policy(Some(3), true), &[Succeeded][..], "0..3 done"),
            // A failure is tried again, with pauses that double.
            (3, policy(Some(3), false), &[Failed, Succeeded], "0..3 1s 0..3 done"),
            (
                3,
                policy(Some(2), false),
                &[Failed, Failed, Failed],
                "0..3 1s 0..3 2s 0..3 -0..3 x3 done",
            ),
            (3, policy(Some(0), false), &[Failed], "0..3 -0..3 x1 done"),
            // A split consumes no retries, and its halves are tried at once and in order.
            (
                5,
                policy(Some(1), true),
                &[Failed, Succeeded, Failed, Failed, Failed, Succeeded],
                "0..5 0..2 2..5 2..3 1s 2..3 -2..3 x2 3..5 done",
            ),
            (1, policy(Some(0), true), &[Failed], "0..1 -0..1 x1 done"),
            (2, policy(Some(0), true), &[Failed; 3], "0..2 0..1 -0..1 x1 1..2 -1..2 x1 done"),
            // What is before the first failure is done. With bisecting that is a split ...
            (
                4,
                policy(Some(0), true),
                &[FailedFrom(2), Failed, Failed, Succeeded],
                "0..4 2..4 2..3 -2..3 x1 3..4 done",
            ),
            // ... and without it a retry.
            (
                4,
                policy(Some(1), false),
                &[FailedFrom(2), FailedFrom(1)],
                "0..4 1s 2..4 -3..4 x2 done",
            ),
            (4, policy(Some(1), false), &[FailedFrom(2), Succeeded], "0..4 1s 2..4 done"),
            // A failure from the first record on is one of the whole batch.
            (
                4,
                policy(Some(0), true),
                &[FailedFrom(0), Succeeded, Succeeded],
                "0..4 0..2 2..4 done",
            ),
            (2, policy(Some(0), false), &[FailedFrom(0)], "0..2 -0..2 x1 done"),
            (2, policy(Some(0), false), &[FailedFrom(2)], "0..2 -0..2 x1 done"),
            // An invocation that did not come about consumes no retries, and splits nothing.
            (
                2,
                policy(Some(0), true),
                &[NotInvoked, NotInvoked, NotInvoked, Succeeded],
                "0..2 1s 0..2 2s 0..2 4s 0..2 done",
            ),
            (0, policy(Some(0), true), &[], " done"),
        ] {
            assert_eq!(steps(count, policy, outcomes), expected, "{policy:?} {outcomes:?}");
        }
    }

    #[test]
    fn pauses_grow_to_a_minute_and_retries_end_with_the_age() {
        let told = steps(1, policy(None, false), &[Failed; 65]);
        assert!(told.starts_with("0..1 1s 0..1 2s 0..1 4s 0..1 8s 0..1 16s 0..1 32s 0..1 60s "));
        // 63 seconds, and then 59 minutes.
        assert!(told.ends_with("60s 0..1 60s -0..1 old x65 done"), "{told}");
        let told = steps(1, policy(None, false), &[NotInvoked; 65]);
        assert!(told.ends_with("60s -0..1 old x0 done"), "{told}");
    }

    #[test]
    fn records_that_are_too_old_are_given_up_alone() {
        let old = CREATED - Duration::from_secs(3601);
        let just = CREATED - Duration::from_hours(1);
        let future = CREATED + Duration::from_secs(9);
        let policy = policy(Some(3), true);
        let created = [old, old, just, future];
        assert_eq!(steps_of(&created, policy, &[Succeeded]), "-0..2 old x0 2..4 done");
        assert_eq!(steps_of(&[old], policy, &[]), "-0..1 old x0 done");
        // One that grows too old while it is paused is not tried again.
        assert_eq!(
            steps_of(
                &[just, CREATED],
                RetryPolicy { bisect: false, ..policy },
                &[Failed, Succeeded]
            ),
            "0..2 1s -0..1 old x1 1..2 done"
        );
    }

    #[test]
    fn a_poison_record_anywhere_costs_no_other_record() {
        for count in 1..=10 {
            for poison in 0..count {
                for reports in [false, true] {
                    let policy = policy(Some(2), true);
                    let mut delivery = Delivery::new(vec![CREATED; count], policy);
                    let (mut done, mut discarded) = (Vec::new(), Vec::new());
                    loop {
                        match delivery.next(CREATED) {
                            Step::Wait(_) => {}
                            Step::Invoke(records) if records.contains(&poison) => {
                                let from = poison - records.start;
                                delivery.answered(if reports {
                                    done.extend(records.start..poison);
                                    FailedFrom(from)
                                } else {
                                    Failed
                                });
                            }
                            Step::Invoke(records) => {
                                done.extend(records);
                                delivery.answered(Succeeded);
                            }
                            Step::Discard(given_up) => discarded.push(given_up),
                            Step::Done => break,
                        }
                    }
                    let others: Vec<usize> = (0..count).filter(|one| *one != poison).collect();
                    // A failure at the first record splits where others have succeeded already.
                    done.dedup();
                    assert_eq!(done, others, "{count} {poison} {reports}");
                    let expected = Discarded {
                        records: poison..poison + 1,
                        reason: RetryAttemptsExhausted,
                        invocations: 3,
                    };
                    assert_eq!(discarded, [expected]);
                }
            }
        }
    }
}
