//! What the tables have consumed and refused, by period, as CloudWatch counted it.

use std::collections::BTreeMap;

/// What the tables have consumed and refused, by time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// The length of a period, in seconds.
    pub period_secs: u32,
    /// What happened in each period, by the epoch second in which it began.
    pub periods: BTreeMap<u64, UsagePeriod>,
}

/// What happened in one period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UsagePeriod {
    /// The units that the main table consumed, those that moving items takes included.
    pub main: TableUnits,
    /// The units that its read replicas consumed.
    pub replicas: TableUnits,
    /// The units that its other global secondary indexes consumed.
    pub indexes: TableUnits,
    /// The units that the metadata table and its indexes consumed.
    pub metadata: TableUnits,
    /// The reads of the main table that were refused.
    pub throttled_reads: ThrottleCounts,
    /// The writes of the main table that were refused.
    pub throttled_writes: ThrottleCounts,
    /// The items that reshards have moved, where that is counted.
    pub items_moved: f64,
}

/// Units that a table consumed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TableUnits {
    /// Read units.
    pub reads: f64,
    /// Write units.
    pub writes: f64,
}

/// Requests that were refused, by the limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ThrottleCounts {
    /// That of a partition.
    pub partition: f64,
    /// The table's provisioned capacity.
    pub provisioned: f64,
    /// The account's.
    pub account: f64,
    /// The table's maximum on-demand throughput.
    pub on_demand: f64,
}

impl ThrottleCounts {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.partition + self.provisioned + self.account + self.on_demand
    }
}

impl Usage {
    /// All periods that begin at this epoch second or later, together.
    pub fn since(&self, from_secs: u64) -> UsagePeriod {
        self.periods
            .range(from_secs..)
            .fold(UsagePeriod::default(), |sum, (_, period)| sum.plus(period))
    }
}

impl UsagePeriod {
    /// The read units that answered for items: those of the main table and of its replicas.
    pub fn item_reads(&self) -> f64 {
        self.main.reads + self.replicas.reads
    }

    fn plus(self, other: &Self) -> Self {
        let units = |one: TableUnits, two: TableUnits| TableUnits {
            reads: one.reads + two.reads,
            writes: one.writes + two.writes,
        };
        let counts = |one: ThrottleCounts, two: ThrottleCounts| ThrottleCounts {
            partition: one.partition + two.partition,
            provisioned: one.provisioned + two.provisioned,
            account: one.account + two.account,
            on_demand: one.on_demand + two.on_demand,
        };
        Self {
            main: units(self.main, other.main),
            replicas: units(self.replicas, other.replicas),
            indexes: units(self.indexes, other.indexes),
            metadata: units(self.metadata, other.metadata),
            throttled_reads: counts(self.throttled_reads, other.throttled_reads),
            throttled_writes: counts(self.throttled_writes, other.throttled_writes),
            items_moved: self.items_moved + other.items_moved,
        }
    }
}
