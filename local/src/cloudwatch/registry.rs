//! The alarms, as the endpoint shows and sets them.

use super::MetricId;
use std::fmt;
use std::time::SystemTime;

/// Whoever has the alarms of the stack.
pub(crate) trait AlarmRegistry: fmt::Debug + Send + Sync {
    /// Every alarm as it is now, in the order of their names.
    fn describe(&self) -> Vec<AlarmDescription>;

    /// Puts an alarm into a state until its next evaluation (`CloudWatch` API: `SetAlarmState`). A
    /// transition has the actions that any other has.
    ///
    /// `reason_data` is JSON, and is passed on as it is.
    fn set_state(
        &self,
        name: &str,
        state: AlarmState,
        reason: &str,
        reason_data: Option<&str>,
    ) -> Result<(), UnknownAlarm>;
}

/// There is no alarm of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no alarm {0}")]
pub(crate) struct UnknownAlarm(pub(crate) String);

/// What an alarm says of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmState {
    /// The metric is within the threshold.
    Ok,
    /// It is outside.
    Alarm,
    /// The alarm has just been made, or there are no values to say it of.
    InsufficientData,
}

impl AlarmState {
    /// As it stands in answers and events, such as `INSUFFICIENT_DATA`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Alarm => "ALARM",
            Self::InsufficientData => "INSUFFICIENT_DATA",
        }
    }

    /// The state of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Ok, Self::Alarm, Self::InsufficientData]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// What `DescribeAlarms` answers of one alarm (`CloudWatch` API: `MetricAlarm`). Names of choices
/// stand as the template has them.
#[derive(Clone, Debug)]
pub(crate) struct AlarmDescription {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) description: Option<String>,
    pub(crate) state: AlarmState,
    pub(crate) state_reason: String,
    /// JSON.
    pub(crate) state_reason_data: Option<String>,
    pub(crate) state_updated: SystemTime,
    pub(crate) actions_enabled: bool,
    /// The ARNs of what is called on the transition into each state.
    pub(crate) alarm_actions: Vec<String>,
    pub(crate) ok_actions: Vec<String>,
    pub(crate) insufficient_data_actions: Vec<String>,
    pub(crate) watched: Watched,
    pub(crate) evaluation_periods: u32,
    pub(crate) datapoints_to_alarm: Option<u32>,
    pub(crate) threshold: f64,
    /// Such as `GreaterThanThreshold`.
    pub(crate) comparison_operator: String,
    /// Such as `notBreaching`; `None` where the template says nothing.
    pub(crate) treat_missing_data: Option<String>,
}

/// What an alarm compares with its threshold.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    Metric(MetricStat),
    /// Queries, one of which returns data.
    Queries(Vec<MetricQuery>),
}

/// A statistic of a metric over periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricStat {
    pub(crate) metric: MetricId,
    pub(crate) period_secs: u64,
    /// Such as `Sum`.
    pub(crate) statistic: String,
}

/// One query of an alarm over several metrics (`CloudWatch` API: `MetricDataQuery`).
#[derive(Clone, Debug)]
pub(crate) struct MetricQuery {
    pub(crate) id: String,
    pub(crate) label: Option<String>,
    pub(crate) return_data: bool,
    pub(crate) source: QuerySource,
}

/// Where the values of a query come from.
#[derive(Clone, Debug)]
pub(crate) enum QuerySource {
    Metric(MetricStat),
    /// Metric math over the ids of other queries.
    Expression {
        expression: String,
        period_secs: Option<u64>,
    },
}
