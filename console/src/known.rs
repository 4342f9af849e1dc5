//! What the console has seen so far. Nothing is read here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dynashard_core::{
    Code, CollectionMetadata, DecisionHistory, Job, Ledger, Measures, Phase, Span, Usage,
};
use dynashard_keys::PartitionKey;
use serde::Serialize;

use crate::course::Course;

/// The collections that the console keeps in memory. Of more it says how many there are.
const MOST_COLLECTIONS: usize = 5_000;

/// A second, or a decision, that is older no longer makes its collection one that something happens to.
const RECENT_SECS: u64 = 20;

/// The seconds that the console keeps of what it has seen by the second.
pub(crate) const LIVE_SECS: u64 = 300;

/// Over how many seconds the rate is told at which the console reads.
const SPENT_OVER: Duration = Duration::from_mins(1);

/// After how long CloudWatch has counted what happened, and the local stack.
const LAG_SECS: u64 = 180;
const LOCAL_LAG_SECS: u64 = 1;

/// How long what CloudWatch counts is kept.
const USAGE_SECS: u64 = 3_660;

/// Something that does not work, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The stable code of what failed.
    pub code: String,
    /// A sentence that says what failed, and what to do.
    pub detail: String,
}

impl Trouble {
    /// What failed, by its stable code.
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into() }
    }
}

/// What is known of one collection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collection {
    /// `None` until it was read, and where it does not exist.
    pub(crate) metadata: Option<CollectionMetadata>,
    pub(crate) job: Option<Job>,
    /// How its changes went on.
    pub(crate) course: Course,
    /// The last that was read of either ledger.
    pub(crate) heat: Ledger,
    pub(crate) load: Ledger,
    /// What was seen by the second.
    pub(crate) live: BTreeMap<u64, Measures>,
    /// Whether the index lists it as one that changes.
    pub(crate) is_listed: bool,
    /// When the parts were read, by the boot clock.
    pub(crate) metadata_read: Option<Duration>,
    pub(crate) load_read: Option<Duration>,
    /// When the ledger of the load was read, in epoch seconds: of what came later it says nothing.
    pub(crate) load_secs: Option<u64>,
    pub(crate) decisions_read: Option<Duration>,
    /// When any of it was read last, in epoch seconds.
    pub(crate) read_secs: Option<u64>,
    /// Why it could not be read.
    pub(crate) trouble: Option<Trouble>,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) collections: BTreeMap<PartitionKey, Collection>,
    pub(crate) histories: BTreeMap<PartitionKey, DecisionHistory>,
    pub(crate) usage: Usage,
    /// Until when it is complete, in epoch seconds.
    pub(crate) usage_until: u64,
    /// What cannot be read, by what was to be read.
    pub(crate) troubles: BTreeMap<&'static str, Trouble>,
    /// Collections beyond those that are kept.
    pub(crate) left_out: usize,
    pub(crate) total_rcu: f64,
    damaged_lists: Vec<String>,
    damaged_decisions: Vec<String>,
    spent: VecDeque<(Duration, f64)>,
}

impl Collection {
    /// Whether something happens to it, so that it is looked at each second.
    pub(crate) fn is_active(&self, now_secs: u64) -> bool {
        let changes = self.metadata.as_ref().is_some_and(|of| of.phase != Phase::Stable);
        let is_recent = |at: &u64| at.saturating_add(RECENT_SECS) >= now_secs;
        changes || self.is_listed || self.live.keys().next_back().is_some_and(is_recent)
    }

    /// Whether there is no such collection: somebody has asked for it, and has perhaps mistyped.
    pub(crate) fn is_nowhere(&self) -> bool {
        let code = Code::CollectionNotFound.as_str();
        self.trouble.as_ref().is_some_and(|trouble| trouble.code == code)
    }

    /// Takes in what the heat ledger says of the last seconds. What others report later makes a second larger.
    pub(crate) fn note_heat(&mut self, heat: Ledger, now: Duration) {
        for (bucket, measures) in heat.of(Span::Second, now) {
            self.live.insert(bucket.start_secs, *measures);
        }
        let oldest = now.as_secs().saturating_sub(LIVE_SECS);
        self.live = self.live.split_off(&oldest);
        self.heat = heat;
    }
}

impl Known {
    /// The collection, which is known from now on.
    pub(crate) fn collection(&mut self, partition: &PartitionKey) -> &mut Collection {
        self.collections.entry(partition.clone()).or_default()
    }

    /// The collection of a list, unless there are too many already.
    fn listed(&mut self, partition: &PartitionKey) -> Option<&mut Collection> {
        let is_full = self.collections.len() >= MOST_COLLECTIONS;
        (!is_full || self.collections.contains_key(partition)).then(|| self.collection(partition))
    }

    /// Takes in which collections change, and which have grown.
    pub(crate) fn note_lists(
        &mut self,
        changing: &BTreeSet<PartitionKey>,
        grown: &BTreeSet<PartitionKey>,
        damaged: Vec<String>,
    ) {
        for (partition, collection) in &mut self.collections {
            collection.is_listed = changing.contains(partition);
        }
        let mut left_out = 0;
        for partition in changing.union(grown) {
            match self.listed(partition) {
                Some(collection) => collection.is_listed = changing.contains(partition),
                None => left_out += 1,
            }
        }
        self.left_out = left_out;
        self.damaged_lists = damaged;
        self.troubles.remove(LISTS);
    }

    /// Takes in what was decided about all collections.
    pub(crate) fn note_histories(
        &mut self,
        histories: BTreeMap<PartitionKey, DecisionHistory>,
        damaged: Vec<String>,
    ) {
        for (partition, history) in histories {
            // What is about all indexes is about no collection.
            if partition.is_reserved() || self.listed(&partition).is_some() {
                self.note_history(partition, history);
            }
        }
        self.damaged_decisions = damaged;
        self.troubles.remove(DECISIONS);
    }

    /// Takes in what was decided about one collection. The index lags behind what is read of one.
    pub(crate) fn note_history(&mut self, partition: PartitionKey, history: DecisionHistory) {
        let seen = self.histories.get(&partition).map_or(0, |seen| seen.rev);
        if history.rev >= seen {
            self.histories.insert(partition, history);
        }
    }

    /// Takes in what CloudWatch counted.
    pub(crate) fn note_usage(&mut self, usage: Usage, now_secs: u64) {
        let period = u64::from(usage.period_secs);
        let lag = if period < 60 { LOCAL_LAG_SECS } else { LAG_SECS };
        self.usage.period_secs = usage.period_secs;
        self.usage.periods.extend(usage.periods);
        self.usage.periods = self.usage.periods.split_off(&now_secs.saturating_sub(USAGE_SECS));
        let counted = self.usage.periods.last_key_value().map_or(0, |(at, _)| at + period);
        self.usage_until = counted.max(now_secs.saturating_sub(lag)).min(now_secs);
        self.troubles.remove(USAGE);
    }

    /// Takes in what a look has consumed.
    pub(crate) fn note_spent(&mut self, now: Duration, consumed_rcu: f64) {
        self.total_rcu += consumed_rcu;
        self.spent.push_back((now, consumed_rcu));
        while self.spent.front().is_some_and(|(at, _)| *at + SPENT_OVER < now) {
            self.spent.pop_front();
        }
    }

    /// The read units a second that the last minute took.
    pub(crate) fn spent_per_sec(&self, now: Duration) -> f64 {
        let recent = self.spent.iter().filter(|(at, _)| *at + SPENT_OVER >= now);
        // The sum of nothing is -0 otherwise, and people would see its sign.
        recent.fold(0.0, |sum, (_, units)| sum + units) / SPENT_OVER.as_secs_f64()
    }

    /// What is damaged, as somebody has edited it by hand.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = &String> {
        self.damaged_lists.iter().chain(&self.damaged_decisions)
    }

    /// Whether something happens to a collection.
    pub(crate) fn is_active(&self, partition: &PartitionKey, now_secs: u64) -> bool {
        let newest = self
            .histories
            .get(partition)
            .and_then(|history| history.records.iter().map(|record| record.last_secs).max());
        self.collections.get(partition).is_some_and(|of| of.is_active(now_secs))
            || newest.is_some_and(|at| at.saturating_add(RECENT_SECS) >= now_secs)
    }
}

/// What is read, as troubles name it.
pub(crate) const CONNECTION: &str = "connection";
pub(crate) const LISTS: &str = "lists";
pub(crate) const COLLECTIONS: &str = "collections";
pub(crate) const DECISIONS: &str = "decisions";
pub(crate) const USAGE: &str = "usage";

#[cfg(test)]
mod tests {
    use dynashard_core::{Bucket, DecisionRecord};

    use super::*;

    fn key(text: &str) -> PartitionKey {
        PartitionKey::new(text).expect("a key")
    }

    #[test]
    fn seconds_add_up_over_looks_and_grow_with_later_reports() {
        let ledger = |seconds: &[(u64, f64)]| Ledger {
            buckets: seconds
                .iter()
                .map(|(start_secs, write_units)| {
                    let bucket = Bucket { span: Span::Second, start_secs: *start_secs };
                    (bucket, Measures { write_units: *write_units, ..Measures::default() })
                })
                .collect(),
            ..Ledger::default()
        };
        let mut collection = Collection::default();
        collection.note_heat(ledger(&[(1_000, 5.0), (1_001, 6.0)]), Duration::from_secs(1_002));
        collection.note_heat(ledger(&[(1_001, 9.0), (1_002, 1.0)]), Duration::from_secs(1_003));
        let seen = collection.live.values().map(|of| of.write_units).collect::<Vec<_>>();
        assert_eq!(seen, [5.0, 9.0, 1.0]);
        assert!(collection.is_active(1_020) && !collection.is_active(1_023));
        collection.note_heat(Ledger::default(), Duration::from_secs(1_302));
        assert_eq!(collection.live.len(), 1, "the oldest are dropped");
    }

    #[test]
    fn regression_nothing_spent_was_shown_with_a_minus() {
        assert!(Known::default().spent_per_sec(Duration::ZERO).is_sign_positive());
    }

    #[test]
    fn a_late_page_of_the_index_takes_nothing_back() {
        let history = |rev| {
            let record = DecisionRecord { last_secs: 1_000 + rev, ..DecisionRecord::default() };
            DecisionHistory { rev, records: vec![record] }
        };
        let mut known = Known::default();
        known.note_history(key("EWR"), history(3));
        known.note_histories(
            [(key("EWR"), history(2)), (key("JFK"), history(1))].into(),
            Vec::new(),
        );
        assert_eq!(known.histories[&key("EWR")].rev, 3);
        assert!(known.is_active(&key("EWR"), 1_010) && !known.is_active(&key("EWR"), 1_100));
        assert_eq!(known.collections.len(), 2, "whoever was decided about is shown");
    }

    #[test]
    fn a_table_of_many_collections_does_not_fill_the_memory() {
        let grown = (0..6_000).map(|n| key(&format!("key {n}"))).collect::<BTreeSet<_>>();
        let mut known = Known::default();
        known.note_lists(&BTreeSet::new(), &grown, Vec::new());
        assert_eq!((known.collections.len(), known.left_out), (5_000, 1_000));
    }
}
