//! Metrics, as templates and requests name them.

use std::collections::BTreeMap;

use super::with_names::with_names;

/// A metric: its namespace, its name and all of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MetricId {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dimensions: BTreeMap<String, String>,
}

with_names! {
    /// How the values of a period become one (`CloudWatch` API: `Statistic`). Percentiles are missing:
    /// they would take the single values.
    pub(crate) enum Statistic {
        SampleCount = "SampleCount",
        Average = "Average",
        Sum = "Sum",
        Minimum = "Minimum",
        Maximum = "Maximum",
    }
}
