//! What writes and moves have cost, by the counters of the DynamoDB endpoint.

use std::collections::BTreeMap;

use dynashard_local::{Counters, OperationCount};
use serde::Serialize;

use super::history::{MOVE, difference};
use super::{MAIN_TABLE, METADATA_TABLE};
use crate::numbers::float;

/// What was counted in a part of the run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    /// Of the main table, by operation.
    operations: BTreeMap<String, OperationCount>,
    pub(super) metadata_requests: u64,
}

impl Counted {
    pub(super) fn between(before: &Counters, after: &Counters) -> Self {
        let main = |counters: &Counters| counters.tables.get(MAIN_TABLE).cloned();
        let (earlier, mut operations) =
            (main(before).unwrap_or_default(), main(after).unwrap_or_default());
        for (name, count) in &mut operations {
            *count = difference(*count, earlier.get(name).copied().unwrap_or_default());
        }
        let metadata = |counters: &Counters| counters.table_requests(METADATA_TABLE);
        Self { operations, metadata_requests: metadata(after) - metadata(before) }
    }

    pub(super) fn of(&self, operation: &str) -> OperationCount {
        self.operations.get(operation).copied().unwrap_or_default()
    }
}

/// What the reshards have cost beside the writes themselves.
///
/// The demo writes each flight once, deletes none and reads none while it loads, so the operations
/// tell who sent them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Moving {
    /// Items that were moved.
    pub(super) items: u64,
    /// The transactions that moved them, and those that came too late.
    pub(super) transactions: u64,
    pub(super) transactions_wcu: f64,
    /// Deletes of markers, of reshards that have closed.
    pub(super) markers_removed: u64,
    pub(super) markers_removed_wcu: f64,
    /// The pages that the mover read while flights were written.
    pub(super) pages: u64,
    pub(super) pages_rcu: f64,
    /// Reads of an old home before a write at the new one, while flights were written.
    pub(super) looks: u64,
    pub(super) looks_rcu: f64,
    /// Markers that writers put at old homes in `forward`.
    pub(super) markers_put: u64,
}

impl Moving {
    /// `items` were moved and `written` were written; `loading` is what was counted while they were,
    /// and `whole` what was until the end.
    pub(super) fn of(items: u64, written: u64, loading: &Counted, whole: &Counted) -> Self {
        let (transactions, removals) = (whole.of(MOVE), whole.of("DeleteItem"));
        let (pages, looks) = (loading.of("Query"), loading.of("GetItem"));
        Self {
            items,
            transactions: transactions.requests,
            transactions_wcu: transactions.consumed_wcu,
            markers_removed: removals.requests,
            markers_removed_wcu: removals.consumed_wcu,
            pages: pages.requests,
            pages_rcu: pages.consumed_rcu,
            looks: looks.requests,
            looks_rcu: looks.consumed_rcu,
            markers_put: loading.of("PutItem").requests.saturating_sub(written),
        }
    }

    /// Write units for each item that was moved, without the removal of its marker.
    pub(super) fn wcu_per_item(&self) -> f64 {
        self.transactions_wcu / float(self.items.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(operations: &[(&str, u64, f64, f64)], metadata_requests: u64) -> Counters {
        let main = operations.iter().map(|(name, requests, rcu, wcu)| {
            let count =
                OperationCount { requests: *requests, consumed_rcu: *rcu, consumed_wcu: *wcu };
            ((*name).to_owned(), count)
        });
        let metadata = OperationCount { requests: metadata_requests, ..OperationCount::default() };
        let metadata = BTreeMap::from([("GetItem".to_owned(), metadata)]);
        let tables =
            [(MAIN_TABLE.to_owned(), main.collect()), (METADATA_TABLE.to_owned(), metadata)];
        Counters { tables: BTreeMap::from(tables), ..Counters::default() }
    }

    #[test]
    fn what_moving_costs_is_told_apart_from_the_writes_by_the_operations() {
        let before = counters(&[("PutItem", 5, 0.0, 5.0)], 3);
        let loaded = [
            ("PutItem", 1_025, 0.0, 1_025.0),
            ("GetItem", 300, 300.0, 0.0),
            ("Query", 7, 21.0, 0.0),
            ("TransactWriteItems", 40, 0.0, 160.0),
        ];
        let after = counters(&loaded, 53);
        let later = [("TransactWriteItems", 101, 0.0, 404.0), ("DeleteItem", 90, 0.0, 90.0)];
        let end = counters(&[&loaded[..3], &later].concat(), 80);
        let loading = Counted::between(&before, &after);
        assert_eq!((loading.of("PutItem").requests, loading.metadata_requests), (1_020, 50));
        let moving = Moving::of(101, 1_000, &loading, &Counted::between(&before, &end));
        assert_eq!((moving.transactions, moving.markers_removed, moving.pages), (101, 90, 7));
        assert_eq!((moving.looks, moving.markers_put), (300, 20));
        assert!((moving.wcu_per_item() - 4.0).abs() < 1e-9);
    }
}
