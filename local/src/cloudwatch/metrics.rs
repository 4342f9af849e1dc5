//! All metrics of a stack.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::dynamodb;
use super::statistics::{MetricSource, StatisticSet};
use super::store::{HISTORY_SECS, MetricStore};
use crate::dynamodb::endpoint::Observed;
use crate::plan::MetricId;

/// The metrics that were put or logged, and those of the tables.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) put: Arc<MetricStore>,
    pub(crate) observed: Arc<Observed>,
}

impl Metrics {
    /// The metrics that had a value within the history that ends in the epoch second `now`.
    pub(super) fn list(&self, now: u64) -> BTreeSet<MetricId> {
        let mut metrics = self.put.list(now);
        metrics.extend(dynamodb::list(&self.observed, now.saturating_sub(HISTORY_SECS), now));
        metrics
    }
}

impl MetricSource for Metrics {
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet> {
        if metric.namespace == dynamodb::NAMESPACE {
            dynamodb::statistics(&self.observed, metric, seconds)
        } else {
            self.put.statistics(metric, seconds)
        }
    }
}
