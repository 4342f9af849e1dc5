//! What `CloudWatch` sees of DynamoDB.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use dynashard_limits::partition::{Limits, Partitions};
use parking_lot::Mutex;

use super::insights::Insights;
use super::meter::Meter;

/// What is counted and set of the tables. It may outlive the endpoint, since it holds on to nothing
/// that the engine waits for.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(super) meter: Meter,
    /// The requests that were refused as a whole.
    pub(crate) throttled_requests: ThrottledRequests,
    pub(crate) insights: Insights,
}

impl Observed {
    /// Of no tables yet.
    pub(crate) fn of(limits: Limits) -> Self {
        Self {
            meter: Meter::new(limits),
            throttled_requests: ThrottledRequests::default(),
            insights: Insights::default(),
        }
    }

    /// Calls `look` with the partitions: what was consumed and throttled in each second, and which
    /// keys met a limit. Requests wait until it returns.
    pub(crate) fn partitions<T>(&self, look: impl FnOnce(&Partitions) -> T) -> T {
        self.meter.with(|partitions| look(partitions))
    }
}

#[cfg(test)]
impl Observed {
    /// Calls `change` with the partitions, in place of requests.
    pub(crate) fn change_partitions<T>(&self, change: impl FnOnce(&mut Partitions) -> T) -> T {
        self.meter.with(change)
    }

    /// Enables Contributor Insights for a table with the key `pk` and `sk`.
    pub(crate) fn enable_insights(&self, table: &str, now: std::time::Duration) {
        self.insights.set_table(
            table,
            Some(&super::tables::Table {
                name: table.to_owned(),
                arn: String::new(),
                partition_key: "pk".to_owned(),
                sort_key: Some("sk".to_owned()),
                split_by: None,
                throughput: dynashard_limits::partition::Throughput::OnDemand,
                global_indexes: Vec::new(),
                local_indexes: Vec::new(),
                create_request: serde_json::Value::Null,
            }),
        );
        self.insights.enable(now, table, crate::plan::InsightsMode::ThrottledKeys);
    }

    /// Counts a request that was throttled as a whole.
    pub(crate) fn throttle_request(&self, tables: &[&str], operation: &str, second: u64) {
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        self.throttled_requests.count(&tables, operation, second);
    }
}

/// The requests that were refused as a whole because of a limit, by table, operation and second: of
/// a batch, only one of which nothing was admitted (Developer Guide: "DynamoDB metrics and
/// dimensions", `ThrottledRequests`). The partitions count demands, not requests.
///
/// Counts are kept as long as theirs. Only operations that have a cost can be throttled, and only
/// for tables that there are, so the number of entries is bounded too.
#[derive(Debug, Default)]
pub(crate) struct ThrottledRequests {
    seconds: Mutex<BTreeMap<(String, String), BTreeMap<u64, u64>>>,
}

impl ThrottledRequests {
    /// How many there were in these epoch seconds, in each second that had any.
    pub(crate) fn per_second(
        &self,
        table: &str,
        operation: &str,
        seconds: Range<u64>,
    ) -> Vec<(u64, u64)> {
        let counts = self.seconds.lock();
        let counts = counts.get(&(table.to_owned(), operation.to_owned()));
        let range = seconds.start..seconds.end.max(seconds.start);
        counts
            .into_iter()
            .flat_map(|counts| counts.range(range.clone()))
            .map(|(second, count)| (*second, *count))
            .collect()
    }

    /// The tables and operations of which a request was throttled since `second`.
    pub(crate) fn since(&self, second: u64) -> Vec<(String, String)> {
        let counts = self.seconds.lock();
        let recent = counts.iter().filter(|(_, counts)| counts.range(second..).next().is_some());
        recent.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn count(&self, tables: &BTreeSet<String>, operation: &str, second: u64) {
        let mut counts = self.seconds.lock();
        for table in tables {
            let own = counts.entry((table.clone(), operation.to_owned())).or_default();
            *own.entry(second).or_default() += 1;
            let first = second.saturating_sub(Partitions::COUNT_HISTORY_SECS);
            if own.first_key_value().is_some_and(|(oldest, _)| *oldest < first) {
                *own = own.split_off(&first);
            }
        }
    }
}
