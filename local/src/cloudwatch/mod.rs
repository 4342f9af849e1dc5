//! `CloudWatch`, as far as the functions and the alarms of a template use it.

pub(crate) mod alarms;
mod metrics;
mod registry;

pub(crate) use metrics::{MetricId, MetricSource, StatisticSet};
pub(crate) use registry::{
    AlarmDescription, AlarmRegistry, AlarmState, MetricQuery, MetricStat, NoAlarms, QuerySource,
    UnknownAlarm, Watched,
};
