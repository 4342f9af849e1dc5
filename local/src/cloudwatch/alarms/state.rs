//! The states of alarms.

use std::time::SystemTime;

use crate::plan::with_names;

with_names! {
    /// What an alarm says of its metric.
    pub enum AlarmState {
        /// The metric is within the threshold.
        Ok = "OK",
        /// The metric is outside the threshold.
        Alarm = "ALARM",
        /// The alarm is new, or its metric has too few values.
        InsufficientData = "INSUFFICIENT_DATA",
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
