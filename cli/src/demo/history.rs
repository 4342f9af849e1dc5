//! What the demo has seen, moment by moment, and what follows from it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::Phase;
use dynashard_local::OperationCount;
use serde::Serialize;

use super::SETTLED_SHARE;
use super::offer::Counts;
use crate::numbers::float;

/// The operation that moves an item.
pub(super) const MOVE: &str = "TransactWriteItems";

/// Everything that was seen of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct History {
    /// Write units a second of one partition.
    pub(super) partition_wcu: u32,
    /// The hot keys, and the writes a second that are offered to each.
    pub(super) keys: Vec<(String, u32)>,
    /// In order of time.
    pub(super) samples: Vec<Sample>,
}

/// What was seen at one moment. Counts are since the start.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// Since the first offer.
    pub(super) at: Duration,
    /// Of each key, in the order of [`History::keys`].
    pub(super) keys: Vec<KeySample>,
    /// Writes that DynamoDB throttled, by reason. One that is tried again and again counts each
    /// time.
    pub(super) throttles: BTreeMap<String, u64>,
    /// What the main table carried out, by operation.
    pub(super) operations: BTreeMap<String, OperationCount>,
    /// The alarms of the stack by name, and the state of each.
    pub(super) alarms: BTreeMap<String, String>,
}

/// What was seen of one hot key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeySample {
    pub(super) counts: Counts,
    pub(super) collection: Collection,
}

/// A collection as its metadata and the job of its reshard tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Collection {
    /// The count in force.
    pub(super) shards: u32,
    pub(super) phase: Phase,
    /// The items that were moved so far, by all reshards.
    pub(super) moved: u64,
}

impl Collection {
    /// Before the first change.
    pub(super) const COLD: Self = Self { shards: 1, phase: Phase::Stable, moved: 0 };

    /// The counts that a running change leads from and to.
    pub(super) const fn change(&self) -> Option<(u32, u32)> {
        match self.phase {
            Phase::Stable => None,
            Phase::Forward { from, to } | Phase::Move { from, to } => Some((from.get(), to.get())),
        }
    }
}

/// When the growth counts as over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SettledRule {
    /// For how long no count may have changed.
    pub(super) quiet: Duration,
    /// The least share of what was offered that must have been absorbed in that time: what takes
    /// less has further to grow.
    pub(super) least_share: f64,
}

/// A shard count that came into force.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Step {
    pub(super) at_secs: f64,
    pub(super) shards: u32,
}

/// A change of a shard count, with times since the first write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Resharded {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) decided_secs: f64,
    /// From the first throttle of its key until the decision.
    pub(super) decided_after_throttle_secs: Option<f64>,
    /// From the decision until writes went to the new shards.
    pub(super) relief_secs: Option<f64>,
    /// When it closed, if the run waited for that.
    pub(super) closed_secs: Option<f64>,
    pub(super) items_moved: u64,
}

/// Means over a stretch of the run, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) offered: f64,
    pub(super) absorbed: f64,
    pub(super) throttled: f64,
    /// Transactions on the main table: each of them moves an item, or tries to.
    pub(super) moves: f64,
}

impl Sample {
    pub(super) fn throttled(&self) -> u64 {
        self.throttles.values().sum()
    }

    fn counts(&self, key: Option<usize>) -> (u64, u64) {
        let keys = self.keys.iter().enumerate();
        let keys = keys.filter(|(index, _)| key.is_none_or(|key| key == *index));
        keys.fold((0, 0), |(offered, absorbed), (_, key)| {
            (offered + key.counts.offered, absorbed + key.counts.absorbed)
        })
    }
}

impl History {
    /// The means between two samples, of one key or of all. Throttles and moves are not told apart by
    /// key.
    pub(super) fn rates(&self, from: usize, to: usize, key: Option<usize>) -> Rates {
        let (Some(a), Some(b)) = (self.samples.get(from), self.samples.get(to)) else {
            return Rates::default();
        };
        let secs = b.at.saturating_sub(a.at).as_secs_f64();
        if secs <= 0.0 {
            return Rates::default();
        }
        let (a_counts, b_counts) = (a.counts(key), b.counts(key));
        let per_sec = |from: u64, to: u64| float(to.saturating_sub(from)) / secs;
        Rates {
            offered: per_sec(a_counts.0, b_counts.0),
            absorbed: per_sec(a_counts.1, b_counts.1),
            throttled: per_sec(a.throttled(), b.throttled()),
            moves: float(self.carried_out(from, to, MOVE).requests) / secs,
        }
    }

    /// The rates of the second that ended with a sample.
    pub(super) fn rates_at(&self, at: usize, key: Option<usize>) -> Rates {
        self.rates(self.before(at, Duration::from_secs(1)), at, key)
    }

    /// The latest sample that is at least this much older than another, or else the first.
    fn before(&self, at: usize, by: Duration) -> usize {
        let Some(end) = self.samples.get(at).and_then(|sample| sample.at.checked_sub(by)) else {
            return 0;
        };
        self.samples[..at].iter().rposition(|sample| sample.at <= end).unwrap_or(0)
    }

    /// What the present shards of a key take, in write units a second.
    pub(super) fn capacity(&self, at: usize, key: usize) -> f64 {
        let shards = self.samples.get(at).map_or(0, |sample| sample.keys[key].collection.shards);
        f64::from(shards) * f64::from(self.partition_wcu)
    }

    /// Between two samples, what was absorbed of a key's min(offered, capacity).
    pub(super) fn share(&self, from: usize, to: usize, key: usize) -> f64 {
        let rates = self.rates(from, to, Some(key));
        rates.absorbed / rates.offered.min(self.capacity(to, key)).max(f64::MIN_POSITIVE)
    }

    /// Whether no shard count changed, or was about to, between two samples. Items may be moving
    /// still: the count is in force from the beginning of that.
    pub(super) fn is_unchanged(&self, from: usize, to: usize) -> bool {
        let Some(samples) = self.samples.get(from..=to) else { return false };
        let shards = |sample: &Sample| {
            sample.keys.iter().map(|key| key.collection.shards).collect::<Vec<_>>()
        };
        samples.iter().all(|sample| {
            let mut phases = sample.keys.iter().map(|key| key.collection.phase);
            shards(sample) == shards(&samples[0])
                && phases.all(|phase| !matches!(phase, Phase::Forward { .. }))
        })
    }

    /// Whether the growth was over when the last sample was taken.
    pub(super) fn has_settled(&self, rule: SettledRule) -> bool {
        let Some(last) = self.samples.len().checked_sub(1) else { return false };
        let first = self.before(last, rule.quiet);
        let seen = self.samples[last].at.saturating_sub(self.samples[first].at);
        seen >= rule.quiet && self.is_unchanged(first, last) && self.is_absorbed(first, last, rule)
    }

    /// Whether each key took what was offered to it between two samples.
    pub(super) fn is_absorbed(&self, from: usize, to: usize, rule: SettledRule) -> bool {
        (0..self.keys.len()).all(|key| {
            let Rates { offered, absorbed, .. } = self.rates(from, to, Some(key));
            absorbed >= rule.least_share * offered
        })
    }

    /// When the last write was offered, in seconds.
    pub(super) fn load_secs(&self) -> f64 {
        self.samples.get(self.load_end()).map_or(0.0, |sample| sample.at.as_secs_f64())
    }

    /// From when on each key took what was offered to it, in the next seconds and on the whole until the last offer. None if
    /// it never did. A count has to be in force for that: at first a partition gives what it had saved up.
    pub(super) fn relieved_secs(&self) -> Option<f64> {
        /// What is absorbed comes in batches, and so do samples.
        const SOON: SettledRule = SettledRule { quiet: Duration::from_secs(3), least_share: 0.95 };
        let end = self.load_end();
        let on_the_whole = SettledRule { least_share: SETTLED_SHARE, ..SOON };
        let settled = self.last_step()?;
        let is_relieved = |from: &usize| {
            let until = self.samples[*from].at + SOON.quiet;
            let soon = self.samples.partition_point(|sample| sample.at < until);
            soon <= end
                && self.is_absorbed(*from, soon, SOON)
                && self.is_absorbed(*from, end, on_the_whole)
        };
        let at = |sample: usize| self.samples[sample].at.as_secs_f64();
        (0..end).filter(|from| at(*from) >= settled).find(is_relieved).map(at)
    }

    /// The first sample after which nothing more was offered.
    fn load_end(&self) -> usize {
        let offered = |sample: &Sample| sample.counts(None).0;
        let all = self.samples.last().map_or(0, offered);
        self.samples.partition_point(|sample| offered(sample) < all)
    }

    /// The shard counts of a key, in the order in which they came into force.
    pub(super) fn steps(&self, key: usize) -> Vec<Step> {
        let mut steps = Vec::<Step>::new();
        for sample in &self.samples {
            let shards = sample.keys[key].collection.shards;
            if shards > 0 && steps.last().is_none_or(|step| step.shards != shards) {
                steps.push(Step { at_secs: sample.at.as_secs_f64(), shards });
            }
        }
        steps
    }

    /// When a key was throttled first: more had been offered than its one partition can have taken by then, with what it had
    /// saved up in a second.
    pub(super) fn first_throttle(&self, key: usize) -> Option<Duration> {
        let throttled = self.samples.iter().find(|sample| {
            let taken = f64::from(self.partition_wcu) * (1.0 + sample.at.as_secs_f64());
            sample.throttled() > 0 && float(sample.keys[key].counts.offered) > taken
        });
        throttled.map(|sample| sample.at)
    }

    /// When the last shard count came into force, in seconds.
    pub(super) fn last_step(&self) -> Option<f64> {
        let last = |key| Some(self.steps(key).last()?.at_secs);
        (0..self.keys.len()).filter_map(last).max_by(f64::total_cmp)
    }

    /// The changes of a key's count, in order.
    pub(super) fn reshards(&self, key: usize) -> Vec<Resharded> {
        let mut reshards = Vec::<Resharded>::new();
        let (mut begun, mut moved_before) = (Duration::ZERO, 0);
        for sample in &self.samples {
            let (at, collection) = (sample.at, sample.keys[key].collection);
            if let Some((from, to)) = collection.change()
                && reshards.last().is_none_or(|last| last.closed_secs.is_some())
            {
                (begun, moved_before) = (at, collection.moved);
                let after_throttle = self.first_throttle(key).and_then(|at| begun.checked_sub(at));
                reshards.push(Resharded {
                    from,
                    to,
                    decided_secs: begun.as_secs_f64(),
                    decided_after_throttle_secs: after_throttle.map(|after| after.as_secs_f64()),
                    relief_secs: None,
                    closed_secs: None,
                    items_moved: 0,
                });
            }
            let Some(last) = reshards.last_mut().filter(|last| last.closed_secs.is_none()) else {
                continue;
            };
            last.items_moved = collection.moved - moved_before;
            if collection.shards == last.to {
                last.relief_secs.get_or_insert(at.saturating_sub(begun).as_secs_f64());
            }
            if collection.phase == Phase::Stable {
                last.closed_secs = Some(at.as_secs_f64());
            }
        }
        reshards
    }

    /// What the main table carried out of one operation between two samples.
    pub(super) fn carried_out(&self, from: usize, to: usize, operation: &str) -> OperationCount {
        let count = |sample: usize| {
            let counts = self.samples.get(sample).map(|sample| &sample.operations);
            counts.and_then(|counts| counts.get(operation)).copied().unwrap_or_default()
        };
        difference(count(to), count(from))
    }
}

/// What was counted of an operation after an earlier count.
pub(super) fn difference(count: OperationCount, earlier: OperationCount) -> OperationCount {
    OperationCount {
        requests: count.requests.saturating_sub(earlier.requests),
        consumed_rcu: count.consumed_rcu - earlier.consumed_rcu,
        consumed_wcu: count.consumed_wcu - earlier.consumed_wcu,
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::ShardCount;

    use super::*;

    const RULE: SettledRule = SettledRule { quiet: Duration::from_secs(4), least_share: 0.9 };

    fn count(shards: u32) -> ShardCount {
        ShardCount::new(shards).expect("a count")
    }

    fn forward(from: u32, to: u32) -> Collection {
        let phase = Phase::Forward { from: count(from), to: count(to) };
        Collection { shards: from, phase, moved: 0 }
    }

    fn moving(from: u32, to: u32, moved: u64) -> Collection {
        Collection { shards: to, phase: Phase::Move { from: count(from), to: count(to) }, moved }
    }

    fn stable(shards: u32, moved: u64) -> Collection {
        Collection { shards, phase: Phase::Stable, moved }
    }

    /// One key that is offered 800 writes a second, with these absorbed and the collection as it was,
    /// second by second.
    fn seen(seconds: &[(u64, Collection)]) -> History {
        let mut counts = Counts::default();
        let mut samples = Vec::new();
        for (second, (absorbed, collection)) in (0..).zip(seconds) {
            counts.absorbed += absorbed;
            counts.offered = 800 * second;
            let moves = OperationCount { requests: 30 * second, ..OperationCount::default() };
            samples.push(Sample {
                at: Duration::from_secs(second),
                keys: vec![KeySample { counts, collection: *collection }],
                throttles: BTreeMap::from([("hot".to_owned(), 100 * second)]),
                operations: BTreeMap::from([(MOVE.to_owned(), moves)]),
                alarms: BTreeMap::new(),
            });
        }
        History { partition_wcu: 200, keys: vec![("EWR".to_owned(), 800)], samples }
    }

    /// The history of a collection with these shards, in which nothing moves.
    fn history(seconds: &[(u64, u32)]) -> History {
        let seconds = seconds.iter().map(|(absorbed, shards)| (*absorbed, stable(*shards, 0)));
        seen(&seconds.collect::<Vec<_>>())
    }

    #[test]
    fn rates_are_means_over_the_time_between_two_samples() {
        let history = history(&[(0, 1), (200, 1), (400, 2), (600, 4)]);
        let rates = history.rates(1, 3, Some(0));
        let means = Rates { offered: 800.0, absorbed: 500.0, throttled: 100.0, moves: 30.0 };
        assert_eq!(rates, means);
        assert_eq!(history.rates_at(3, None), history.rates(2, 3, None));
        assert_eq!(history.rates(3, 3, None), Rates::default());
    }

    #[test]
    fn a_collection_that_takes_what_is_offered_has_settled_and_one_at_its_limit_has_not() {
        assert!(!history(&[(0, 1), (200, 1), (200, 1), (200, 1), (200, 1)]).has_settled(RULE));
        assert!(history(&[(0, 8), (780, 8), (780, 8), (780, 8), (780, 8)]).has_settled(RULE));
        assert!(!history(&[(0, 8), (700, 8), (700, 8), (700, 8), (700, 8)]).has_settled(RULE));
    }

    #[test]
    fn what_changed_or_is_about_to_has_not_settled() {
        let settled = [(0, 2), (400, 4), (800, 4), (800, 4), (800, 4), (800, 4)];
        assert!(history(&settled).has_settled(RULE));
        assert!(!history(&settled[..5]).has_settled(RULE), "a change four seconds ago");
        assert!(!history(&settled[1..5]).has_settled(RULE), "not seen for long enough");
        let mut about_to = history(&settled);
        about_to.samples[5].keys[0].collection = forward(4, 16);
        assert!(!about_to.has_settled(RULE));
        let mut still_moving = history(&settled);
        still_moving.samples[5].keys[0].collection = moving(2, 4, 90);
        assert!(still_moving.has_settled(RULE), "the count is in force");
        assert!(!history(&[]).has_settled(RULE));
    }

    #[test]
    fn a_reshard_has_begun_come_into_force_and_closed() {
        let mut history = seen(&[
            (0, Collection::COLD),
            (0, stable(1, 0)),
            (0, forward(1, 4)),
            (0, moving(1, 4, 0)),
            (0, moving(1, 4, 50)),
            (0, stable(4, 60)),
            (0, Collection { moved: 60, ..forward(4, 16) }),
            (0, moving(4, 16, 75)),
        ]);
        // It throttles from the first second on.
        let first = Resharded {
            from: 1,
            to: 4,
            decided_secs: 2.0,
            decided_after_throttle_secs: Some(1.0),
            relief_secs: Some(1.0),
            closed_secs: Some(5.0),
            items_moved: 60,
        };
        let second = Resharded {
            from: 4,
            to: 16,
            decided_secs: 6.0,
            decided_after_throttle_secs: Some(5.0),
            relief_secs: Some(1.0),
            closed_secs: None,
            items_moved: 15,
        };
        assert_eq!(history.reshards(0), [first.clone(), second]);
        history.samples.truncate(3);
        let begun = Resharded { relief_secs: None, closed_secs: None, items_moved: 0, ..first };
        assert_eq!(history.reshards(0), [begun]);
    }

    #[test]
    fn a_growth_that_moves_nothing_comes_into_force_as_it_closes() {
        let history = seen(&[(0, stable(1, 0)), (0, forward(1, 2)), (0, stable(2, 0))]);
        let grown = &history.reshards(0)[0];
        assert_eq!((grown.decided_secs, grown.relief_secs), (1.0, Some(1.0)));
        assert_eq!((grown.closed_secs, grown.items_moved), (Some(2.0), 0));
    }

    #[test]
    fn a_key_is_throttled_when_more_was_offered_than_its_partition_can_have_taken() {
        // 200 that were saved up and 200 a second, of 800 a second.
        let history =
            seen(&[(0, Collection::COLD), (400, Collection::COLD), (200, Collection::COLD)]);
        assert_eq!(history.first_throttle(0), Some(Duration::from_secs(1)));
        assert_eq!(seen(&[(0, Collection::COLD)]).first_throttle(0), None);
    }

    #[test]
    fn regression_settled_counts_passed_for_relief() {
        let taken = [0, 200, 200, 200, 200, 800, 900, 800, 0, 1_600, 800];
        let mut history = history(&taken.map(|taken| (taken, 8)));
        // The machine stood still for a second, and made up for it.
        assert_eq!(history.relieved_secs(), Some(4.0));
        let last = history.samples[10].clone();
        history.samples.push(Sample { at: Duration::from_mins(1), ..last });
        assert_eq!((history.load_secs(), history.relieved_secs()), (10.0, Some(4.0)));
        history.samples.truncate(6);
        assert_eq!(history.relieved_secs(), None);
    }

    #[test]
    fn steps_are_the_changes_of_the_count() {
        let history = history(&[(0, 0), (0, 1), (0, 1), (0, 2), (0, 4), (0, 4)]);
        let step = |secs: u64, shards| Step { at_secs: float(secs), shards };
        assert_eq!(history.steps(0), [step(1, 1), step(3, 2), step(4, 4)]);
        assert_eq!(history.last_step(), Some(4.0));
    }
}
