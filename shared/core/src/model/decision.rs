//! A decision about a collection's shard count: what was decided, why, and the sentence that says so.

use std::fmt;

use dynashard_keys::{PartitionKey, ShardCount};

use crate::model::epochs::{Epochs, Extent};
use crate::model::policy::{Access, Hindrance};

/// What is to be done about a collection, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The collection.
    pub partition: PartitionKey,
    /// What its load is.
    pub diagnosis: Diagnosis,
    /// The access that it is about.
    pub access: Access,
    /// The count in force.
    pub count: ShardCount,
    /// What is to be done.
    pub action: CountChange,
    /// What of the collection that is about.
    pub extent: Extent,
    /// Why nothing is done although the diagnosis asks for it.
    pub hindrance: Option<Hindrance>,
    /// What kept the count from being larger.
    pub bound: Option<Bound>,
    /// What it was decided from.
    pub figures: Figures,
}

/// What a collection's load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Diagnosis {
    /// It is asked for more than its shards take.
    HotKey,
    /// It is asked for steadily more, and will soon be asked for more than its shards take.
    Ramp,
    /// One item has most of the demand, and an item lies in one shard however many there are.
    HotItem,
    /// Queries have most of the demand, and each reads every shard.
    HotQueries,
    /// It is asked for far less than its shards take: it shares a partition with what is hot.
    Neighbour,
    /// The table's provisioned capacity is used up.
    Table,
    /// The account's limit is reached.
    Account,
    /// The maximum on-demand throughput of the table is reached.
    MaxOnDemand,
    /// An index throttles.
    Index,
    /// A read replica of the table throttles, by a limit of its own.
    Replica,
    /// DynamoDB does not say which limit it is.
    UnknownLimit,
    /// Nobody knows yet what it is asked for.
    TooLittleEvidence,
    /// It was asked for far less than its shards take for hours.
    CooledDown,
    /// It may have few more epochs, and rests: one of them gets the count of its neighbour, with which it becomes one.
    ManyEpochs,
    /// It uses its shards, or may soon.
    InUse,
}

/// What is done about a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CountChange {
    /// Nothing.
    None,
    /// It gets so many shards, which are more.
    Grow(ShardCount),
    /// It goes back to so many shards as soon as the change to fewer has closed.
    TurnRound(ShardCount),
    /// It gets so many shards, which are fewer.
    Shrink(ShardCount),
}

/// What kept a count from being as large as the demand wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// `MaxShards`.
    MaxShards,
    /// No collection gets more than sixteen times its shards at once.
    Step,
}

/// What a decision was made from. Units are a second's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// The units that were asked for: operations, and not attempts.
    pub demand: f64,
    /// The units that are expected when a growth is in force, where that is more.
    pub expected: f64,
    /// The units that the shards are to take: what is expected, and what it may be more by the samples that it is known from.
    pub sized_for: f64,
    /// Whether clients wait for what is refused, so that they ask for less than they would.
    pub is_censored: bool,
    /// The units that DynamoDB granted.
    pub granted: f64,
    /// The units that its shards take.
    pub capacity: f64,
    /// The seconds over which it was looked at.
    pub seconds: u64,
    /// The part of the demand that the hottest item has.
    pub hottest_share: Option<f64>,
    /// The count that the demand wants; where there are [many epochs](Diagnosis::ManyEpochs), how many.
    pub wanted: u64,
    /// What a shrink costs and saves.
    pub payback: Option<Payback>,
}

/// What fewer shards save, and what getting there costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Payback {
    /// The items that are moved, about.
    pub items: f64,
    /// The write units that moving them takes.
    pub cost_wcu: f64,
    /// The read units that queries take less, an hour.
    pub saved_rcu_an_hour: f64,
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was to be done.
    NothingToDo,
    /// It is done: the change has begun.
    Begun,
    /// It would have begun, were it not for dry-run mode.
    DryRun,
    /// Somebody else has changed the collection meanwhile.
    Overtaken,
}

impl Decision {
    /// The stable name of the diagnosis.
    pub fn code(&self) -> &'static str {
        match (self.diagnosis, self.access) {
            (Diagnosis::HotKey, Access::Write) => "hot_key",
            (Diagnosis::HotKey, Access::Get | Access::Query) => "hot_reads",
            (Diagnosis::Ramp, _) => "ramp",
            (Diagnosis::HotItem, _) => "hot_item",
            (Diagnosis::HotQueries, _) => "hot_queries",
            (Diagnosis::Neighbour, _) => "neighbour",
            (Diagnosis::Table, _) => "table_capacity",
            (Diagnosis::Account, _) => "account_limit",
            (Diagnosis::MaxOnDemand, _) => "max_on_demand",
            (Diagnosis::Index, _) => "index",
            (Diagnosis::Replica, _) => "replica",
            (Diagnosis::UnknownLimit, _) => "unknown_limit",
            (Diagnosis::TooLittleEvidence, _) => "too_little_evidence",
            (Diagnosis::CooledDown, _) => "cooled_down",
            (Diagnosis::ManyEpochs, _) => "many_epochs",
            (Diagnosis::InUse, _) => "in_use",
        }
    }

    /// Whether people want to know of it: something is done, or would be, or has to be done by them.
    pub fn is_worth_a_note(&self) -> bool {
        !matches!(self.diagnosis, Diagnosis::TooLittleEvidence | Diagnosis::InUse)
            && (self.diagnosis != Diagnosis::CooledDown || self.action != CountChange::None)
    }
}

impl Decision {
    /// What is done, with what, and how far.
    fn fmt_action(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, wanted) = (self.count, self.figures.wanted);
        match self.action {
            CountChange::None => {}
            CountChange::Grow(to) => write!(f, "; it grows from {count} to {to}")?,
            CountChange::TurnRound(to) => {
                write!(f, "; it goes back to {to} shards once the running change has closed")?;
            }
            CountChange::Shrink(to) => write!(f, "; it shrinks from {count} to {to}")?,
        }
        if let Extent::Behind { boundary, .. } = &self.extent {
            // Quoted, so that logs can replace it (`LogKeys`).
            let boundary = boundary.to_string();
            write!(f, " behind {boundary:?}, and what there is stays where it is")?;
        }
        match self.bound {
            Some(Bound::MaxShards) => {
                write!(f, ", the most that MaxShards allows; the demand needs {wanted}")?;
            }
            Some(Bound::Step) => {
                write!(f, ", the most that one change may reach; the demand needs {wanted}")?;
            }
            None => {}
        }
        Ok(())
    }

    /// What Contributor Insights reports: it counts refusals.
    fn fmt_reported(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { capacity, hottest_share, .. } = self.figures;
        let (unit, shards) = (self.access.unit(), self.shards_take());
        if self.diagnosis == Diagnosis::HotItem {
            let share = hottest_share.unwrap_or_default() * 100.0;
            return write!(
                f,
                "one item has {share:.0}% of the refused requests, and an item lies in one shard: {}",
                self.remedy_of_item()
            );
        }
        write!(
            f,
            "DynamoDB refuses requests for more than the {capacity:.0} {unit} a second that {shards}, and \
             nobody has reported how many there are"
        )
    }

    /// What is said of write-sharded indexes, all of them together.
    fn fmt_of_indexes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { demand, capacity, .. } = self.figures;
        let count = self.count;
        let shards =
            if count == ShardCount::ONE { "shard, which takes" } else { "shards, which take" };
        write!(
            f,
            "a partition of a write-sharded index is at its limit: clients write {demand:.0} units a second, and a value of the \
             index has {count} {shards} {capacity:.0}"
        )
    }

    fn remedy_of_item(&self) -> &'static str {
        match self.access {
            Access::Write => {
                "if its writes add to a number, make it a counter (POST /counter); otherwise split it into several"
            }
            Access::Get | Access::Query => {
                "keep it in the item cache (ItemCacheSecs) for reads that need not be strong, or split it into several"
            }
        }
    }

    fn shards_take(&self) -> &'static str {
        if self.count == ShardCount::ONE { "its one shard takes" } else { "its shards take" }
    }
}

impl Diagnosis {
    /// Whether the limit is one that many partition keys share, so that it says nothing about one of them.
    pub fn is_of_a_shared_limit(self) -> bool {
        self.shared_limit().is_some()
    }

    /// What is said of such a limit.
    const fn shared_limit(self) -> Option<&'static str> {
        Some(match self {
            Self::Table => {
                "the table's provisioned capacity is used up, which more shards do not change"
            }
            Self::Account => {
                "the account's limit of table capacity is reached: ask AWS for a higher quota"
            }
            Self::MaxOnDemand => {
                "the table's maximum on-demand throughput is reached: raise that of the table"
            }
            Self::Index => "an index of the table throttles, whose keys dynashard does not choose",
            Self::Replica => {
                "a read replica of the table is at a limit of its own, which is not a partition's: raise that of the \
                 index, or lower ReadReplicas"
            }
            Self::UnknownLimit => "DynamoDB does not say which limit is reached",
            _ => return None,
        })
    }
}

impl CountChange {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Grow(_) => "grow",
            Self::TurnRound(_) => "turn_round",
            Self::Shrink(_) => "shrink",
        }
    }

    /// The count that it leads to.
    pub const fn target(self) -> Option<ShardCount> {
        match self {
            Self::None => None,
            Self::Grow(to) | Self::TurnRound(to) | Self::Shrink(to) => Some(to),
        }
    }
}

impl Bound {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxShards => "max_shards",
            Self::Step => "step",
        }
    }
}

impl Outcome {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NothingToDo => "nothing_to_do",
            Self::Begun => "begun",
            Self::DryRun => "dry_run",
            Self::Overtaken => "overtaken",
        }
    }
}

impl fmt::Display for Decision {
    /// A sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { demand, capacity, expected, hottest_share, seconds, wanted, .. } =
            self.figures;
        let is_censored = self.figures.is_censored;
        let (count, unit) = (self.count, self.access.unit());
        let shards = self.shards_take();
        match self.diagnosis {
            Diagnosis::HotKey | Diagnosis::HotItem if seconds == 0 => self.fmt_reported(f)?,
            Diagnosis::HotKey if is_censored => write!(
                f,
                "clients ask for at least {demand:.0} {unit} a second and for more if they need not wait for what is \
                 refused, and {shards} {capacity:.0}"
            )?,
            Diagnosis::HotKey => {
                write!(
                    f,
                    "clients ask for {demand:.0} {unit} a second, and {shards} {capacity:.0}"
                )?;
            }
            Diagnosis::Ramp => write!(
                f,
                "clients ask for {demand:.0} {unit} a second and soon for {expected:.0}, and {shards} \
                 {capacity:.0}"
            )?,
            Diagnosis::HotItem => {
                let share = hottest_share.unwrap_or_default() * 100.0;
                write!(
                    f,
                    "one item has {share:.0}% of the {demand:.0} {unit} a second, and an item lies in one \
                     shard: {}",
                    self.remedy_of_item()
                )?;
            }
            Diagnosis::HotQueries => write!(
                f,
                "queries ask for most of the {demand:.0} {unit} a second, and more shards make each of them \
                 dearer: query smaller ranges, or cache them"
            )?,
            Diagnosis::Neighbour => write!(
                f,
                "clients ask for {demand:.0} {unit} a second, and {shards} {capacity:.0}: another key in \
                 the same partition is hot, and DynamoDB separates the two by itself"
            )?,
            Diagnosis::Index if self.partition.is_reserved() => self.fmt_of_indexes(f)?,
            Diagnosis::Table
            | Diagnosis::Account
            | Diagnosis::MaxOnDemand
            | Diagnosis::Index
            | Diagnosis::Replica
            | Diagnosis::UnknownLimit => {
                f.write_str(self.diagnosis.shared_limit().unwrap_or_default())?;
            }
            Diagnosis::TooLittleEvidence => {
                let unit = if seconds == 1 { "second" } else { "seconds" };
                write!(f, "the ledger covers only {seconds} {unit} of demand")?;
            }
            Diagnosis::CooledDown => write!(
                f,
                "clients asked for {demand:.0} {unit} a second at most, and {shards} {capacity:.0}"
            )?,
            Diagnosis::ManyEpochs => write!(
                f,
                "it has {wanted} epochs, and may have {}: an older one gets the count of its neighbour",
                Epochs::MAX
            )?,
            Diagnosis::InUse if count == ShardCount::ONE => {
                f.write_str("its one shard is in use")?;
            }
            Diagnosis::InUse => write!(f, "its {count} shards are in use")?,
        }
        self.fmt_action(f)?;
        if let Some(Payback { items, cost_wcu, saved_rcu_an_hour }) = self.figures.payback {
            write!(
                f,
                "; moving about {items:.0} items takes {cost_wcu:.0} write units, and queries then take \
                 {saved_rcu_an_hour:.0} read units an hour less"
            )?;
        }
        match &self.hindrance {
            Some(hindrance) => write!(f, "; nothing is done: {hindrance}"),
            None => Ok(()),
        }
    }
}
