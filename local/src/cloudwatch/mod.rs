//! `CloudWatch`, as far as the functions and the alarms of a template use it.

mod metrics;

pub(crate) use metrics::{MetricId, MetricSource, StatisticSet};
