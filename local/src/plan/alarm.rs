//! Alarms: what each watches, when a value breaches, and which functions it invokes.

use super::metric::{MetricId, Statistic};
use super::names::alarm_arn;
use super::with_names::with_names;

/// An alarm of the template (`CloudWatch` API: `PutMetricAlarm`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alarm {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) metric: MetricId,
    pub(crate) fill: Option<Fill>,
    pub(crate) statistic: Statistic,
    pub(crate) schedule: AlarmSchedule,
    /// How many datapoints are evaluated, N of "M out of N"; at least one.
    pub(crate) evaluation_periods: u32,
    /// How many of them must breach, M of "M out of N"; all without it.
    pub(crate) breaching_datapoints: Option<u32>,
    pub(crate) comparison: Comparison,
    pub(crate) threshold: f64,
    pub(crate) missing_data: Option<MissingData>,
    pub(crate) actions_enabled: bool,
    pub(crate) actions: AlarmActions,
}

impl Alarm {
    pub(crate) fn arn(&self) -> String {
        alarm_arn(&self.name)
    }

    /// This alarm with periods of another length, at whose ends it is evaluated.
    pub(crate) fn with_period(mut self, secs: u64) -> Self {
        self.schedule = AlarmSchedule { period_secs: secs, interval_secs: secs };
        self
    }

    /// How many of the evaluated datapoints must breach.
    pub(crate) fn least_breaching(&self) -> u32 {
        self.breaching_datapoints.unwrap_or(self.evaluation_periods)
    }

    /// How missing datapoints are treated. Alarms on metrics of DynamoDB ignore them, whatever they say: so the reference of
    /// `PutMetricAlarm` has it. (The user guide lets an alarm choose otherwise. What gets by with the stricter of the two
    /// gets by with both.) An expression is in no namespace.
    pub(crate) fn treatment(&self) -> MissingData {
        if self.fill.is_none() && self.metric.namespace == "AWS/DynamoDB" {
            return MissingData::Ignore;
        }
        self.missing_data.unwrap_or(MissingData::Missing)
    }
}

/// The expression `FILL(metric, value)`, which an alarm may watch in place of its metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fill {
    /// The id of the expression.
    pub(crate) id: String,
    /// The id of the metric.
    pub(crate) metric_id: String,
    /// What stands for a period without data.
    pub(crate) value: f64,
}

impl Fill {
    pub(crate) fn expression(&self) -> String {
        format!("FILL({}, {})", self.metric_id, self.value)
    }
}

/// How long the periods of an alarm are, and how often it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlarmSchedule {
    /// The length of the period that makes one datapoint.
    pub(crate) period_secs: u64,
    /// The time between two evaluations.
    pub(crate) interval_secs: u64,
}

impl AlarmSchedule {
    /// As `CloudWatch` does it: each minute, and every 10 seconds where the period is shorter than a
    /// minute ("Alarm evaluation" in its user guide).
    pub(crate) const fn of_period(secs: u64) -> Self {
        Self { period_secs: secs, interval_secs: if secs < 60 { 10 } else { 60 } }
    }
}

with_names! {
    /// How a value must compare with the threshold to breach it.
    pub(crate) enum Comparison {
        Greater = "GreaterThanThreshold",
        GreaterOrEqual = "GreaterThanOrEqualToThreshold",
        Less = "LessThanThreshold",
        LessOrEqual = "LessThanOrEqualToThreshold",
    }
}

impl Comparison {
    pub(crate) fn breaches(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Greater => value > threshold,
            Self::GreaterOrEqual => value >= threshold,
            Self::Less => value < threshold,
            Self::LessOrEqual => value <= threshold,
        }
    }
}

with_names! {
    /// How an alarm treats missing datapoints.
    pub(crate) enum MissingData {
        /// As datapoints that breach.
        Breaching = "breaching",
        /// The alarm keeps its state where they would decide.
        Ignore = "ignore",
        /// The alarm has insufficient data where all are missing.
        Missing = "missing",
        /// As datapoints that do not breach.
        NotBreaching = "notBreaching",
    }
}

/// The names of the functions that an alarm invokes on its transition into each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlarmActions {
    pub(crate) alarm: Vec<String>,
    pub(crate) ok: Vec<String>,
    pub(crate) insufficient_data: Vec<String>,
}
