//! The capacity of a provisioned main table: what it is, what its metrics say, and what was decided about it.

use std::fmt;

/// Read units and write units a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapacityUnits {
    /// Read units a second.
    pub reads: u64,
    /// Write units a second.
    pub writes: u64,
}

impl CapacityUnits {
    /// The units of one kind of access.
    pub fn of(self, access: CapacitySide) -> u64 {
        match access {
            CapacitySide::Reads => self.reads,
            CapacitySide::Writes => self.writes,
        }
    }
}

/// Which of its two capacities a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapacitySide {
    /// Read units.
    Reads,
    /// Write units.
    Writes,
}

impl CapacitySide {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Reads, Self::Writes];

    /// The word for it: `reads` or `writes`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

/// Who raises the capacity of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CapacityScaling {
    /// Nobody.
    #[default]
    Off,
    /// The scale function, when the table throttles.
    Function,
    /// DynamoDB auto scaling, by its own alarms.
    AutoScaling,
}

/// What the operator set about the capacity of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapacityPolicy {
    /// Who raises it.
    pub scaling: CapacityScaling,
    /// It is never raised beyond this.
    pub most: CapacityUnits,
}

/// What DynamoDB says of a table's throughput.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableThroughput {
    /// What it is provisioned with; `None` on demand.
    pub provisioned: Option<CapacityUnits>,
    /// Its status in DynamoDB's word.
    pub status: String,
    /// When its capacity was last raised, in epoch seconds.
    pub increased_secs: Option<u64>,
}

impl TableThroughput {
    /// Whether DynamoDB takes a change of the table now.
    pub fn is_active(&self) -> bool {
        self.status == "ACTIVE"
    }
}

/// What one period of a table's metrics says of one kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CapacityPeriod {
    /// When it begins, in epoch seconds.
    pub at_secs: u64,
    /// The units that were consumed in it.
    pub consumed: f64,
    /// The requests that consumed them.
    pub requests: f64,
    /// The requests that the table's provisioned capacity refused.
    pub refused: f64,
    /// The requests that were throttled, and no metric says why.
    pub unexplained: f64,
}

/// What the metrics of a table say, period by period.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CapacityMetrics {
    /// Of reads.
    pub reads: Vec<CapacityPeriod>,
    /// Of writes.
    pub writes: Vec<CapacityPeriod>,
}

impl CapacityMetrics {
    /// The periods of one kind of access.
    pub fn of(&self, access: CapacitySide) -> &[CapacityPeriod] {
        match access {
            CapacitySide::Reads => &self.reads,
            CapacitySide::Writes => &self.writes,
        }
    }
}

/// What is to become of one capacity of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityDecision {
    /// It rises.
    Raise {
        /// The units a second until now.
        from: u64,
        /// The units a second to be.
        to: u64,
    },
    /// It throttles, and is as high as the operator allows.
    AtCeiling {
        /// The units a second that it has.
        units: u64,
    },
    /// Nothing was throttled.
    NotThrottled,
    /// Something was throttled: too little, before the last increase, or in a period that is not over.
    TooLittleEvidence,
    /// A partition throttled: the table consumed less than it is provisioned with.
    NotTheTable,
    /// The table has no provisioned capacity.
    OnDemand,
    /// The table is being changed already.
    Updating,
    /// DynamoDB auto scaling raises it.
    AutoScaling,
    /// The operator does not want it raised.
    Off,
}

impl CapacityDecision {
    /// The stable code of the reason. Logs and answers have it: add, but never rename.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Raise { .. } => "raise",
            Self::AtCeiling { .. } => "at_ceiling",
            Self::NotThrottled => "not_throttled",
            Self::TooLittleEvidence => "too_little_evidence",
            Self::NotTheTable => "not_the_table",
            Self::OnDemand => "on_demand",
            Self::Updating => "updating",
            Self::AutoScaling => "auto_scaling",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for CapacityDecision {
    /// A sentence for the log, without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raise { from, to } => {
                write!(f, "the capacity is to rise from {from} to {to} units a second")
            }
            Self::AtCeiling { units } => {
                write!(f, "the table throttles at {units} units a second, the most that is allowed")
            }
            Self::NotThrottled => f.write_str("nothing was throttled"),
            Self::TooLittleEvidence => {
                f.write_str("too few requests were throttled since the capacity was last raised")
            }
            Self::NotTheTable => {
                f.write_str("the table consumed less than its capacity, so a partition throttled")
            }
            Self::OnDemand => f.write_str("the table is on demand"),
            Self::Updating => f.write_str("the table is being changed"),
            Self::AutoScaling => f.write_str("DynamoDB auto scaling raises the capacity"),
            Self::Off => f.write_str("CapacityScaling is off, so the capacity stays"),
        }
    }
}
