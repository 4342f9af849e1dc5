//! How many requests reached the engine, what they consumed, and which were throttled.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_limits::partition::Kind;
use serde::{Deserialize, Serialize};

use super::cost::Charge;
use super::refusal::Hit;

/// What the `dynamodb` endpoint has counted since the stack started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// By table and operation, the requests that reached the engine. A batch or transaction counts
    /// once under each table that it names.
    pub tables: BTreeMap<String, BTreeMap<String, OperationCount>>,
    /// By table and reason, such as `TableWriteKeyRangeThroughputExceeded`, what met a limit of the
    /// table or of one of its global secondary indexes: a request, an item of a batch, or an action
    /// of a transaction.
    pub throttles: BTreeMap<String, BTreeMap<String, u64>>,
    /// By operation, the requests that reached the engine and named no table, such as `ListTables`.
    pub without_table: BTreeMap<String, u64>,
    /// The requests that were refused because of the age of their signature.
    pub refused: u64,
}

impl Counters {
    /// The requests of one operation, such as `PutItem`, that reached the engine for a table.
    pub fn requests(&self, table: &str, operation: &str) -> u64 {
        self.tables
            .get(table)
            .and_then(|operations| operations.get(operation))
            .map_or(0, |count| count.requests)
    }

    /// All requests that reached the engine for a table.
    pub fn table_requests(&self, table: &str) -> u64 {
        let operations = self.tables.get(table).into_iter();
        operations.flat_map(BTreeMap::values).map(|count| count.requests).sum()
    }

    /// What met a limit of a table or of its indexes, for whatever reason.
    pub fn table_throttles(&self, table: &str) -> u64 {
        self.throttles.get(table).into_iter().flat_map(BTreeMap::values).sum()
    }

    pub(super) fn count_request(&mut self, operation: &str, tables: &BTreeSet<String>) {
        if tables.is_empty() {
            *self.without_table.entry(operation.to_owned()).or_default() += 1;
        }
        for table in tables {
            self.count(table, operation).requests += 1;
        }
    }

    pub(super) fn count_consumed(&mut self, operation: &str, charges: &[Charge]) {
        for charge in charges {
            let count = self.count(&charge.table.name, operation);
            match charge.kind {
                Kind::Read => count.consumed_rcu += charge.units.as_f64(),
                Kind::Write => count.consumed_wcu += charge.units.as_f64(),
            }
        }
    }

    fn count(&mut self, table: &str, operation: &str) -> &mut OperationCount {
        let operations = self.tables.entry(table.to_owned()).or_default();
        operations.entry(operation.to_owned()).or_default()
    }

    pub(super) fn count_throttled(&mut self, hits: &[Hit]) {
        for hit in hits {
            let reasons = self.throttles.entry(hit.table.clone()).or_default();
            *reasons.entry(hit.reason.to_owned()).or_default() += 1;
        }
    }
}

/// What was counted of one operation on one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCount {
    /// Requests that reached the engine, failed ones included.
    pub requests: u64,
    /// Read capacity units that these consumed of the table and its indexes, whether or not they
    /// asked for `ReturnConsumedCapacity`. Statements of `PartiQL` are not among them.
    pub consumed_rcu: f64,
    /// Write capacity units, likewise.
    pub consumed_wcu: f64,
}
