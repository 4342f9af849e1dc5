//! `CloudWatch`, as far as the functions and the alarms of a template use it.
//!
//! ```text
//!  any SDK --- cloudwatch --[wire]  three protocols, one document
//!                             |
//!                           [api]  operations
//!                  +----------+-----------+------------+
//!              [Metrics]            [insights]   [AlarmRegistry], which is [alarms]
//!        +---------+--------+           |
//!     [store]           [dynamodb]      |
//!  put, or logged by     what the front counts and throttles
//!  functions as [emf]
//! ```
//!
//! # What differs from `CloudWatch`
//!
//! - Values are there at once, and kept by the second for three hours, whatever their resolution.
//! - Units are read over, in requests and in answers.
//! - There are no percentiles, no metric math and no searches in `GetMetricData`; they are refused.

pub(crate) mod alarms;
mod api;
mod dynamodb;
mod emf;
mod insights;
mod metrics;
mod registry;
mod store;
mod wire;

pub(crate) use api::CloudWatchApi;
pub(crate) use emf::EmbeddedMetrics;
pub(crate) use metrics::{MetricId, MetricSource, Statistic, StatisticSet};
pub use registry::AlarmState;
pub(crate) use registry::{
    AlarmDescription, AlarmRegistry, MetricQuery, MetricStat, QuerySource, UnknownAlarm, Watched,
};
pub(crate) use store::MetricStore;

use dynamodb::DynamoDbMetrics;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// All metrics of a stack.
#[derive(Debug)]
pub(crate) struct Metrics {
    put: Arc<MetricStore>,
    dynamodb: DynamoDbMetrics,
}

impl Metrics {
    /// Those that are put into `put`, and those of the tables.
    pub(crate) fn new(
        put: Arc<MetricStore>,
        observed: crate::dynamodb::endpoint::Observed,
    ) -> Self {
        Self { put, dynamodb: DynamoDbMetrics::new(observed) }
    }

    /// The metrics that had a value within the history that ends in the epoch second `now`.
    fn list(&self, now: u64) -> BTreeSet<MetricId> {
        let mut metrics = self.put.list(now);
        metrics.extend(self.dynamodb.list(now.saturating_sub(store::HISTORY_SECS), now));
        metrics
    }
}

impl MetricSource for Metrics {
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        if metric.namespace == dynamodb::NAMESPACE {
            self.dynamodb.statistics(metric, seconds)
        } else {
            self.put.statistics(metric, seconds)
        }
    }
}
