//! What is read next, so that the console stays within its budget of read units. Pure: it is told the time, and what
//! each look has cost.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_keys::PartitionKey;

/// What the console may consume at rest, in read units a second: for lists of collections, for decisions, and for
/// the ledgers of collections. Together less than one.
const LISTS_RCU: f64 = 0.15;
const DECISIONS_RCU: f64 = 0.3;
const RESTING_RCU: f64 = 0.5;

/// What the first look at everything may consume at once, of each of the three.
const FIRST_LOOK_RCU: f64 = 60.0;

/// The seconds of budget that are saved up while nothing is read.
const SAVED_SECS: f64 = 4.0;

/// How often lists are read at most, and how often one collection is.
const LISTS_EVERY: Duration = Duration::from_secs(2);
const DECISIONS_EVERY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const REST_EVERY: Duration = Duration::from_mins(1);

/// After a failed look, how long the console leaves DynamoDB alone.
const PAUSE: Duration = Duration::from_secs(5);

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// Which collections change, and which have grown.
    Lists,
    /// What was decided about all collections.
    Decisions,
    /// A collection that something happens to, or that somebody looks at.
    Look(PartitionKey),
    /// A collection at rest.
    Rest(PartitionKey),
}

/// What was read when, and what may be consumed.
#[derive(Debug)]
pub(crate) struct Schedule {
    lists: Budget,
    decisions: Budget,
    resting: Budget,
    active: Budget,
    lists_read: Option<Duration>,
    decisions_read: Option<Duration>,
    looked: BTreeMap<PartitionKey, Duration>,
    paused_until: Duration,
}

/// Units that flow in at a rate and are spent. What one look costs more than there is has to flow in before the next.
#[derive(Debug)]
struct Budget {
    per_sec: f64,
    level: f64,
    at: Duration,
}

impl Budget {
    fn new(per_sec: f64, level: f64) -> Self {
        Self { per_sec, level, at: Duration::ZERO }
    }

    fn is_open(&mut self, now: Duration) -> bool {
        let secs = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        // The first look may take as much as any other, once that is spent.
        let most = (self.per_sec * SAVED_SECS).max(self.level);
        self.level = (self.level + secs * self.per_sec).min(most);
        self.level > 0.0
    }
}

impl Schedule {
    /// Nothing was read. `active_rcu` is what collections may consume to which something happens, or at which somebody
    /// looks, in read units a second.
    pub(crate) fn new(active_rcu: f64) -> Self {
        Self {
            lists: Budget::new(LISTS_RCU, FIRST_LOOK_RCU),
            decisions: Budget::new(DECISIONS_RCU, FIRST_LOOK_RCU),
            resting: Budget::new(RESTING_RCU, FIRST_LOOK_RCU),
            active: Budget::new(active_rcu, active_rcu),
            lists_read: None,
            decisions_read: None,
            looked: BTreeMap::new(),
            paused_until: Duration::ZERO,
        }
    }

    /// What to read now, if anything. Of each collection it is told whether something happens to it.
    pub(crate) fn next<'a>(
        &mut self,
        now: Duration,
        collections: impl Iterator<Item = (&'a PartitionKey, bool)>,
    ) -> Option<Task> {
        if now < self.paused_until {
            return None;
        }
        let is_due = |read: Option<Duration>, every| read.is_none_or(|read| now >= read + every);
        let active_is_open = self.active.is_open(now);
        let resting_is_open = self.resting.is_open(now);
        if is_due(self.lists_read, LISTS_EVERY) && self.lists.is_open(now) {
            return Some(Task::Lists);
        }
        if is_due(self.decisions_read, DECISIONS_EVERY) && self.decisions.is_open(now) {
            return Some(Task::Decisions);
        }
        // Whoever waits longest comes next.
        let mut next = None::<(bool, Option<Duration>, &PartitionKey)>;
        for (partition, is_active) in collections {
            let looked = self.looked.get(partition).copied();
            let (is_open, every) = if is_active {
                (active_is_open, LOOK_EVERY)
            } else {
                (resting_is_open, REST_EVERY)
            };
            if !is_open || !is_due(looked, every) {
                continue;
            }
            let candidate = (!is_active, looked, partition);
            if next.is_none_or(|best| candidate < best) {
                next = Some(candidate);
            }
        }
        let (rests, _, partition) = next?;
        let partition = partition.clone();
        Some(if rests { Task::Rest(partition) } else { Task::Look(partition) })
    }

    /// Notes what was read, and the read units that it consumed.
    pub(crate) fn done(&mut self, task: &Task, now: Duration, consumed_rcu: f64) {
        let budget = match task {
            Task::Lists => &mut self.lists,
            Task::Decisions => &mut self.decisions,
            Task::Look(_) => &mut self.active,
            Task::Rest(_) => &mut self.resting,
        };
        budget.level -= consumed_rcu;
        match task {
            Task::Lists => self.lists_read = Some(now),
            Task::Decisions => self.decisions_read = Some(now),
            Task::Look(partition) | Task::Rest(partition) => {
                self.looked.insert(partition.clone(), now);
            }
        }
    }

    /// Notes that DynamoDB refused or did not answer: whoever is throttled has more need of it.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.paused_until = now + PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u32) -> Vec<PartitionKey> {
        (0..count).map(|n| PartitionKey::new(format!("key {n}")).expect("a key")).collect()
    }

    /// Runs for so many seconds, with what each task costs, and returns what each second consumed.
    fn run(
        secs: u64,
        keys: &[PartitionKey],
        is_active: impl Fn(&PartitionKey) -> bool,
        cost: impl Fn(&Task) -> f64,
    ) -> (Vec<f64>, BTreeMap<PartitionKey, u64>) {
        let mut schedule = Schedule::new(10.0);
        let mut looks = BTreeMap::new();
        let of_second = (0..secs).map(|second| {
            let now = Duration::from_secs(1_000 + second);
            let mut consumed = 0.0;
            while let Some(task) = schedule.next(now, keys.iter().map(|key| (key, is_active(key))))
            {
                if let Task::Look(key) | Task::Rest(key) = &task {
                    *looks.entry(key.clone()).or_default() += 1;
                }
                schedule.done(&task, now, cost(&task));
                consumed += cost(&task);
            }
            consumed
        });
        (of_second.collect(), looks)
    }

    /// Histories and ledgers of 4 KB, the largest that they are.
    fn cost(task: &Task) -> f64 {
        match task {
            Task::Lists => 1.5,
            Task::Decisions => 50.0,
            Task::Look(_) => 3.0,
            Task::Rest(_) => 2.0,
        }
    }

    #[test]
    fn a_hundred_collections_at_rest_take_less_than_a_unit_a_second() {
        let keys = keys(100);
        let (consumed, looks) = run(7_200, &keys, |_| false, cost);
        let first = consumed[..300].iter().sum::<f64>();
        let rest = consumed[300..].iter().sum::<f64>() / 6_900.0;
        assert!(rest <= 1.0, "{rest}");
        assert!(rest >= 0.7, "what may be read is read: {rest}");
        assert!(
            first <= 3.0 * FIRST_LOOK_RCU + 300.0,
            "the first looks, and a unit a second: {first}"
        );
        assert_eq!(looks.len(), 100, "each has its turn");
        let (least, most) = (looks.values().min(), looks.values().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{looks:?}");
    }

    #[test]
    fn what_is_looked_at_comes_each_second_within_its_own_budget() {
        let keys = keys(1_000);
        let (consumed, looks) = run(600, &keys, |key| key == &keys[7], cost);
        assert!(looks[&keys[7]] >= 590, "{}", looks[&keys[7]]);
        let rest = consumed[300..].iter().sum::<f64>() / 300.0;
        assert!(rest <= 3.0 + 1.0, "{rest}");
        let (consumed, _) = run(600, &keys, |_| true, cost);
        let rest = consumed[300..].iter().sum::<f64>() / 300.0;
        assert!((9.0..=11.0).contains(&rest), "however many there are: {rest}");
    }

    #[test]
    fn a_table_that_throttles_is_left_alone_for_a_while() {
        let mut schedule = Schedule::new(10.0);
        let now = Duration::from_secs(1_000);
        assert_eq!(schedule.next(now, std::iter::empty()), Some(Task::Lists));
        schedule.failed(now);
        assert_eq!(schedule.next(now + Duration::from_secs(4), std::iter::empty()), None);
        assert!(schedule.next(now + PAUSE, std::iter::empty()).is_some());
    }
}
