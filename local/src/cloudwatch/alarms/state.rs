//! The states of alarms.

use std::time::SystemTime;

/// What an alarm says of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmState {
    /// The metric is within the threshold.
    Ok,
    /// The metric is outside the threshold.
    Alarm,
    /// The alarm is new, or its metric has too few values.
    InsufficientData,
}

impl AlarmState {
    /// The name in answers and events, such as `INSUFFICIENT_DATA`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Alarm => "ALARM",
            Self::InsufficientData => "INSUFFICIENT_DATA",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Ok, Self::Alarm, Self::InsufficientData]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// The state of an alarm, and since when and why it is in it.
#[derive(Clone, Debug)]
pub(crate) struct AlarmStatus {
    pub(crate) state: AlarmState,
    pub(crate) reason: String,
    /// JSON.
    pub(crate) reason_data: Option<String>,
    pub(crate) since: SystemTime,
}
