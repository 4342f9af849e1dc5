//! The decisions about a collection that are kept.

use crate::model::decision::{Decision, Outcome};

/// The decisions about one collection that are kept, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecisionHistory {
    /// Raised by every change: the optimistic lock. 0 where nothing was stored yet.
    pub rev: u64,
    /// At most [`DecisionHistory::MAX_RECORDS`].
    pub records: Vec<DecisionRecord>,
}

/// One decision, as it is kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecisionRecord {
    /// When it was made first, in epoch seconds.
    pub at_secs: u64,
    /// When it was made last.
    pub last_secs: u64,
    /// How often it was made, and noted.
    pub times: u64,
    /// Who made it: `writer`, `endpoint`, `alarm` or `schedule`.
    pub by: String,
    /// [`Decision::code`].
    pub diagnosis: String,
    /// The access that it is about: `write`, `get` or `query`.
    pub access: String,
    /// `none`, `grow`, `turn_round` or `shrink`.
    pub action: String,
    /// What became of it: `begun`, `dry_run`, `overtaken` or `nothing_to_do`.
    pub outcome: String,
    /// Why nothing was done, if something was to be.
    pub hindrance: Option<String>,
    /// What kept the count from being larger: `max_shards` or `step`.
    pub bound: Option<String>,
    /// The count then.
    pub from: u64,
    /// The count to be, where it changes.
    pub to: Option<u64>,
    /// The units a second that were asked for.
    pub demand: u64,
    /// The units a second that were granted.
    pub granted: u64,
    /// The units a second that the shards take.
    pub capacity: u64,
    /// The percentage of the demand that the hottest item has.
    pub hottest_percent: Option<u64>,
    /// The sentence that says so.
    pub reason: String,
}

/// Who makes a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecidedBy {
    /// A function that writes, which DynamoDB throttled.
    Writer,
    /// An endpoint that speaks DynamoDB's own protocol, which DynamoDB throttled.
    Endpoint,
    /// An alarm on throttles.
    Alarm,
    /// The schedule.
    Schedule,
}

/// Of so many last records one may say the same as a new decision.
const LAST_LOOKED_AT: usize = 4;

/// A decision that says what the last one said is noted again after so many seconds.
const NOTED_EVERY_SECS: u64 = 60;

impl DecidedBy {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Endpoint => "endpoint",
            Self::Alarm => "alarm",
            Self::Schedule => "schedule",
        }
    }
}

impl DecisionHistory {
    /// How the key of the item begins; the partition key follows. Must be kept stable.
    pub const KEY_PREFIX: &str = "_ds_decisions#";

    /// The records that are kept of a collection: with all their figures they take a few kilobytes.
    pub const MAX_RECORDS: usize = 30;

    /// The history with a decision added, or nothing if it says the same as a moment ago.
    #[must_use]
    pub fn with(
        &self,
        decision: &Decision,
        outcome: Outcome,
        by: DecidedBy,
        now_secs: u64,
    ) -> Option<Self> {
        let new = DecisionRecord::new(decision, outcome, by, now_secs);
        let mut records = self.records.clone();
        // Environments that know of different states of the collection decide in turn.
        let mut last = records.iter_mut().rev().take(LAST_LOOKED_AT);
        match last.find(|record| record.says_the_same(&new)) {
            Some(same) if now_secs < same.last_secs.saturating_add(NOTED_EVERY_SECS) => {
                return None;
            }
            Some(same) => {
                let (at_secs, times) = (same.at_secs, same.times + 1);
                *same = DecisionRecord { at_secs, times, ..new };
            }
            None => records.push(new),
        }
        let surplus = records.len().saturating_sub(Self::MAX_RECORDS);
        records.drain(..surplus);
        Some(Self { rev: self.rev + 1, records })
    }
}

impl DecisionRecord {
    fn new(decision: &Decision, outcome: Outcome, by: DecidedBy, now_secs: u64) -> Self {
        let figures = decision.figures;
        Self {
            at_secs: now_secs,
            last_secs: now_secs,
            times: 1,
            by: by.as_str().to_owned(),
            diagnosis: decision.code().to_owned(),
            access: decision.access.as_str().to_owned(),
            action: decision.action.as_str().to_owned(),
            outcome: outcome.as_str().to_owned(),
            hindrance: decision.hindrance.map(|hindrance| hindrance.as_str().to_owned()),
            bound: decision.bound.map(|bound| bound.as_str().to_owned()),
            from: u64::from(decision.count.get()),
            to: decision.action.target().map(|to| u64::from(to.get())),
            demand: whole(figures.demand),
            granted: whole(figures.granted),
            capacity: whole(figures.capacity),
            hottest_percent: figures.hottest_share.map(|share| whole(share * 100.0)),
            reason: decision.to_string(),
        }
    }

    /// Whether it is the same decision again: a change that has begun is one of its own.
    fn says_the_same(&self, other: &Self) -> bool {
        let key = |record: &Self| {
            let Self { diagnosis, access, action, outcome, hindrance, from, to, .. } = record;
            (
                (diagnosis.clone(), access.clone(), action.clone()),
                (outcome.clone(), hindrance.clone(), *from, *to),
            )
        };
        self.outcome != Outcome::Begun.as_str() && key(self) == key(other)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, and not below zero"
)]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}
