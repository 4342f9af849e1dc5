//! How many requests reached the engine, and the capacity that it said they consumed.

use super::call::Call;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What the `dynamodb` endpoint has counted since the stack started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// By table and operation, the requests that reached the engine. A batch or transaction counts
    /// once under each table that it names.
    pub tables: BTreeMap<String, BTreeMap<String, OperationCount>>,
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
}

/// What was counted of one operation on one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCount {
    /// Requests that reached the engine, failed ones included.
    pub requests: u64,
    /// Read capacity units of the requests that asked for `ReturnConsumedCapacity`.
    pub consumed_rcu: f64,
    /// Write capacity units of the requests that asked for `ReturnConsumedCapacity`.
    pub consumed_wcu: f64,
}

/// The counters of a running front.
#[derive(Debug, Default)]
pub(super) struct CounterStore {
    counters: Mutex<Counters>,
}

impl CounterStore {
    pub(super) fn snapshot(&self) -> Counters {
        self.with(|counters| counters.clone())
    }

    pub(super) fn refused(&self) {
        self.with(|counters| counters.refused += 1);
    }

    pub(super) fn requested(&self, call: &Call) {
        self.with(|counters| {
            if call.tables.is_empty() {
                *entry(&mut counters.without_table, &call.operation) += 1;
            }
            for table in &call.tables {
                let operations = entry(&mut counters.tables, table);
                entry(operations, &call.operation).requests += 1;
            }
        });
    }

    /// Adds what an answer says that `call` consumed. Errors and foreign shapes say nothing.
    pub(super) fn consumed(&self, call: &Call, answer: &[u8]) {
        let Ok(Answer { consumed_capacity }) = serde_json::from_slice(answer) else {
            return;
        };
        let capacities = match consumed_capacity {
            Some(OneOrMany::One(capacity)) => vec![capacity],
            Some(OneOrMany::Many(capacities)) => capacities,
            None => return,
        };
        self.with(|counters| {
            for capacity in capacities {
                let operations = entry(&mut counters.tables, &capacity.table_name);
                let count = entry(operations, &call.operation);
                if call.reads() {
                    count.consumed_rcu += capacity.capacity_units;
                } else {
                    count.consumed_wcu += capacity.capacity_units;
                }
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Counters) -> T) -> T {
        // Counters stay valid whoever panicked while holding them.
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counters)
    }
}

/// Does not copy the key of an entry that is there, which is nearly always.
fn entry<'a, T: Default>(map: &'a mut BTreeMap<String, T>, key: &str) -> &'a mut T {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), T::default());
    }
    map.get_mut(key).expect("the entry was inserted")
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    consumed_capacity: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Capacity),
    Many(Vec<Capacity>),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Capacity {
    table_name: String,
    capacity_units: f64,
}
