//! The values of metrics over time, and where they come from.

use std::fmt;
use std::ops::Range;

use crate::plan::{MetricId, Statistic};

/// The values of a metric over some time, as `CloudWatch` keeps them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StatisticSet {
    pub(crate) sample_count: f64,
    pub(crate) sum: f64,
    pub(crate) minimum: f64,
    pub(crate) maximum: f64,
}

impl StatisticSet {
    /// `count` times the same value.
    pub(crate) fn of(value: f64, count: f64) -> Self {
        Self { sample_count: count, sum: value * count, minimum: value, maximum: value }
    }

    /// The values of both.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            sample_count: self.sample_count + other.sample_count,
            sum: self.sum + other.sum,
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
        }
    }

    /// The values of all sets; `None` without a set.
    pub(crate) fn merge_all(sets: impl IntoIterator<Item = Self>) -> Option<Self> {
        sets.into_iter().reduce(Self::merge)
    }

    pub(crate) fn get(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::SampleCount => self.sample_count,
            Statistic::Average => self.sum / self.sample_count,
            Statistic::Sum => self.sum,
            Statistic::Minimum => self.minimum,
            Statistic::Maximum => self.maximum,
        }
    }
}

/// Where the values of metrics come from.
pub(crate) trait MetricSource: fmt::Debug + Send + Sync {
    /// The values of `metric` in these epoch seconds; `None` if there are none.
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet>;
}
