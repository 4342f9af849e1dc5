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

    /// The values of all; `None` where there are none.
    pub(crate) fn merge_all(sets: impl IntoIterator<Item = Self>) -> Option<Self> {
        sets.into_iter().reduce(Self::merge)
    }
}

/// What is said of the values of a period (`CloudWatch` API: `Statistic`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    SampleCount,
    Average,
    Sum,
    Minimum,
    Maximum,
}

impl Statistic {
    /// All that there are. Percentiles and their like would take the single values.
    pub(crate) const ALL: [Self; 5] =
        [Self::SampleCount, Self::Average, Self::Sum, Self::Minimum, Self::Maximum];

    /// The statistic of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|statistic| statistic.as_str() == name)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::SampleCount => "SampleCount",
            Self::Average => "Average",
            Self::Sum => "Sum",
            Self::Minimum => "Minimum",
            Self::Maximum => "Maximum",
        }
    }

    pub(crate) fn of(self, set: &StatisticSet) -> f64 {
        match self {
            Self::SampleCount => set.sample_count,
            Self::Average => set.sum / set.sample_count,
            Self::Sum => set.sum,
            Self::Minimum => set.minimum,
            Self::Maximum => set.maximum,
        }
    }
}

/// Whoever has values of metrics.
pub(crate) trait MetricSource: fmt::Debug + Send + Sync {
    /// The values of `metric` in these epoch seconds, or `None` where there are none.
    fn statistics(&self, metric: &MetricId, seconds: Range<u64>) -> Option<StatisticSet>;
}
