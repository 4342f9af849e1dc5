//! All metrics of a stack.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::dynamodb::{self, DynamoDbMetrics};
use super::statistics::{MetricSource, StatisticSet};
use super::store::{HISTORY_SECS, MetricStore};
use crate::dynamodb::endpoint::Observed;
use crate::plan::MetricId;

/// The metrics that were put or logged, and those of the tables.
#[derive(Debug)]
pub(crate) struct Metrics {
    put: Arc<MetricStore>,
    dynamodb: DynamoDbMetrics,
}

impl Metrics {
    pub(crate) fn new(put: Arc<MetricStore>, observed: Observed) -> Self {
        Self { put, dynamodb: DynamoDbMetrics::new(observed) }
    }

    /// The metrics that had a value within the history that ends in the epoch second `now`.
    pub(super) fn list(&self, now: u64) -> BTreeSet<MetricId> {
        let mut metrics = self.put.list(now);
        metrics.extend(self.dynamodb.list(now.saturating_sub(HISTORY_SECS), now));
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
