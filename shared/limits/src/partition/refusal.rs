//! What was refused, and by which limit.

use thiserror::Error;

use super::demand::{Demand, Kind};

/// Which limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// A partition's: the key is hot.
    KeyRange,
    /// What the table or index is provisioned with.
    Provisioned,
}

/// One demand of a refused request, and the limit that it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitHit {
    /// The demand's position in the request.
    pub demand: usize,
    /// The limit.
    pub limit: Limit,
    /// The reason as it stands in `ThrottlingReasons` (DynamoDB API: `ThrottlingReason`), such as
    /// `TableWriteKeyRangeThroughputExceeded`.
    pub reason: &'static str,
}

impl LimitHit {
    pub(super) const fn new(position: usize, demand: &Demand<'_>, limit: Limit) -> Self {
        let reason = match (demand.resource.index.is_some(), demand.kind, limit) {
            (false, Kind::Read, Limit::KeyRange) => "TableReadKeyRangeThroughputExceeded",
            (false, Kind::Read, Limit::Provisioned) => "TableReadProvisionedThroughputExceeded",
            (false, Kind::Write, Limit::KeyRange) => "TableWriteKeyRangeThroughputExceeded",
            (false, Kind::Write, Limit::Provisioned) => "TableWriteProvisionedThroughputExceeded",
            (true, Kind::Read, Limit::KeyRange) => "IndexReadKeyRangeThroughputExceeded",
            (true, Kind::Read, Limit::Provisioned) => "IndexReadProvisionedThroughputExceeded",
            (true, Kind::Write, Limit::KeyRange) => "IndexWriteKeyRangeThroughputExceeded",
            (true, Kind::Write, Limit::Provisioned) => "IndexWriteProvisionedThroughputExceeded",
        };
        Self { demand: position, limit, reason }
    }
}

/// A request was not admitted and has consumed nothing. Trying again later may help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.first().reason)]
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
