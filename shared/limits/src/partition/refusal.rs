use thiserror::Error;

use super::demand::{Demand, Kind, Resource};

/// Which limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// A partition's: the key is hot.
    KeyRange,
    /// What the table or index is provisioned with.
    Provisioned,
}

/// One demand of a refused request, and the limit that it met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitHit {
    /// The demand's position in the request.
    pub demand: usize,
    /// The limit.
    pub limit: Limit,
    /// Read or write.
    pub kind: Kind,
    /// The table.
    pub table: String,
    /// The global secondary index, if the limit is one's.
    pub index: Option<String>,
    /// The partition key in that table or index.
    pub partition_key: String,
}

impl LimitHit {
    /// The reason as it stands in `ThrottlingReasons` (DynamoDB API: `ThrottlingReason`), such as
    /// `TableWriteKeyRangeThroughputExceeded`.
    pub const fn reason(&self) -> &'static str {
        match (self.index.is_some(), self.kind, self.limit) {
            (false, Kind::Read, Limit::KeyRange) => "TableReadKeyRangeThroughputExceeded",
            (false, Kind::Read, Limit::Provisioned) => "TableReadProvisionedThroughputExceeded",
            (false, Kind::Write, Limit::KeyRange) => "TableWriteKeyRangeThroughputExceeded",
            (false, Kind::Write, Limit::Provisioned) => "TableWriteProvisionedThroughputExceeded",
            (true, Kind::Read, Limit::KeyRange) => "IndexReadKeyRangeThroughputExceeded",
            (true, Kind::Read, Limit::Provisioned) => "IndexReadProvisionedThroughputExceeded",
            (true, Kind::Write, Limit::KeyRange) => "IndexWriteKeyRangeThroughputExceeded",
            (true, Kind::Write, Limit::Provisioned) => "IndexWriteProvisionedThroughputExceeded",
        }
    }

    /// The table or index whose limit it is.
    pub fn resource(&self) -> Resource<'_> {
        Resource { table: &self.table, index: self.index.as_deref() }
    }

    pub(super) fn new(position: usize, demand: &Demand<'_>, limit: Limit) -> Self {
        Self {
            demand: position,
            limit,
            kind: demand.kind,
            table: demand.resource.table.to_owned(),
            index: demand.resource.index.map(str::to_owned),
            partition_key: demand.partition_key.to_owned(),
        }
    }
}

/// A request was not admitted and has consumed nothing. Trying again later may help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {}", self.first().resource(), self.first().reason())]
pub struct Refusal {
    /// Never empty.
    pub(super) hits: Vec<LimitHit>,
}

impl Refusal {
    /// Every demand that met a limit, in the order of the request, with the first limit it met.
    pub fn hits(&self) -> &[LimitHit] {
        &self.hits
    }

    /// The first demand that met a limit.
    pub fn first(&self) -> &LimitHit {
        &self.hits[0]
    }
}
