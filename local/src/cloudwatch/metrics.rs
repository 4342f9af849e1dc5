//! What a metric is, and what is asked of those who have values of one.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A metric: its namespace, its name and all of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MetricId {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dimensions: BTreeMap<String, String>,
}

/// The values of a metric over some time, as `CloudWatch` keeps them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StatisticSet {
    pub(crate) sample_count: f64,
    pub(crate) sum: f64,
    pub(crate) minimum: f64,
    pub(crate) maximum: f64,
}

/// Whoever has values of metrics.
pub(crate) trait MetricSource: fmt::Debug + Send + Sync {
    /// The values of `metric` in these epoch seconds, or `None` where there are none.
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet>;
}
