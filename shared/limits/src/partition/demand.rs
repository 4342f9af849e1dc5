//! What an operation asks of a table or an index.

use std::num::NonZeroU32;

use crate::units::Units;

/// Which of its two capacities an operation consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Read units.
    Read,
    /// Write units.
    Write,
}

/// The capacity mode of a table or global secondary index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// `PAY_PER_REQUEST`: its partitions limit it, and its warm throughput if [`Limits`](super::Limits) have one.
    OnDemand,
    /// `PROVISIONED`
    Provisioned {
        /// `ReadCapacityUnits`, a second.
        rcu: NonZeroU32,
        /// `WriteCapacityUnits`, a second.
        wcu: NonZeroU32,
    },
}

/// A table or a global secondary index: each has its own capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource<'a> {
    /// The table's name.
    pub table: &'a str,
    /// The global secondary index's name; `None` for the table itself. A local secondary index consumes
    /// its table's.
    pub index: Option<&'a str>,
}

impl<'a> Resource<'a> {
    /// A table.
    pub const fn table(table: &'a str) -> Self {
        Self { table, index: None }
    }

    /// A global secondary index of a table.
    pub const fn index(table: &'a str, index: &'a str) -> Self {
        Self { table, index: Some(index) }
    }
}

/// What one request asks of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand<'a> {
    /// The table or index.
    pub resource: Resource<'a>,
    /// The partition key in that table or index, as [`key_text`](crate::capacity::key_text) gives
    /// it. For a page of a `Scan`, the one where it begins.
    pub partition_key: &'a str,
    /// The sort key, where the request names one, in the same form. Reports of throttled items and
    /// splits for heat look at it.
    pub sort_key: Option<&'a str>,
    /// Read or write.
    pub kind: Kind,
    /// How much. A demand of nothing is always admitted and never counted.
    pub units: Units,
}
