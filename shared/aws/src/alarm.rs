//! Alarms of CloudWatch.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{MetricAlarm, StateValue};
use dynashard_core::AlarmStatus;
use dynashard_core::ports::{AlarmControl, StoreError};

use crate::error::of_watch;

/// An alarm by its name.
pub(crate) struct CloudWatchAlarm<'a> {
    pub(crate) cloudwatch: &'a aws_sdk_cloudwatch::Client,
    pub(crate) name: &'a str,
}

#[async_trait]
impl AlarmControl for CloudWatchAlarm<'_> {
    async fn status(&self) -> Result<AlarmStatus, StoreError> {
        let answer = self
            .cloudwatch
            .describe_alarms()
            .alarm_names(self.name)
            .send()
            .await
            .map_err(|e| of_watch("DescribeAlarms", &e))?;
        let alarm = answer.metric_alarms().first().ok_or_else(|| {
            StoreError::Misconfigured(format!("CloudWatch has no metric alarm named {}", self.name))
        })?;
        Ok(AlarmStatus {
            is_raised: alarm.state_value() == Some(&StateValue::Alarm),
            period: period(alarm),
            evaluation_periods: count(alarm.evaluation_periods()),
        })
    }

    async fn rearm(&self, reason: &str) -> Result<(), StoreError> {
        self.cloudwatch
            .set_alarm_state()
            .alarm_name(self.name)
            .state_value(StateValue::Ok)
            .state_reason(reason)
            .send()
            .await
            .map_err(|e| of_watch("SetAlarmState", &e))?;
        Ok(())
    }
}

/// A time as CloudWatch takes it.
pub fn date_time(epoch_secs: u64) -> DateTime {
    DateTime::from_secs(i64::try_from(epoch_secs).unwrap_or(i64::MAX))
}

/// The longest period of what the alarm watches: one metric, or several under one expression.
fn period(alarm: &MetricAlarm) -> Duration {
    let of_metrics = alarm
        .metrics()
        .iter()
        .filter_map(|query| query.period().or_else(|| query.metric_stat()?.period()));
    let secs = alarm.period().into_iter().chain(of_metrics).max();
    Duration::from_secs(count(secs).into())
}

fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1).max(1)
}
