//! Metrics, as templates and requests name them.

use std::collections::BTreeMap;

/// A metric: its namespace, its name and all of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MetricId {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dimensions: BTreeMap<String, String>,
}

/// How the values of a period become one (`CloudWatch` API: `Statistic`). Percentiles are missing:
/// they would take the single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    SampleCount,
    Average,
    Sum,
    Minimum,
    Maximum,
}

impl Statistic {
    pub(crate) const ALL: [Self; 5] =
        [Self::SampleCount, Self::Average, Self::Sum, Self::Minimum, Self::Maximum];

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
}
