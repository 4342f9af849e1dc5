//! The event that an alarm invokes a function with: "Invoke a Lambda function from an alarm" in
//! `CloudWatch`'s user guide.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cloudwatch::{AlarmStatus, Transition, timestamp};
use crate::plan::{ACCOUNT_ID, MetricId, REGION};

/// The event of a transition, as JSON.
pub(super) fn of_transition(transition: &Transition) -> String {
    let Transition { alarm, metric_id, previous, status } = transition;
    let MetricId { namespace, name, dimensions } = &alarm.metric;
    let metric_stat = MetricStat {
        metric: MetricName { namespace, name, dimensions },
        period: alarm.schedule.period_secs,
        stat: alarm.statistic.as_str(),
    };
    let fill = alarm.fill.as_ref().map(|fill| Query {
        id: &fill.id,
        expression: Some(fill.expression()),
        metric_stat: None,
        return_data: true,
    });
    let query = Query {
        id: metric_id,
        expression: None,
        metric_stat: Some(metric_stat),
        return_data: fill.is_none(),
    };
    let event = Event {
        source: "aws.cloudwatch",
        alarm_arn: alarm.arn(),
        account_id: ACCOUNT_ID,
        time: timestamp(status.since),
        region: REGION,
        alarm_data: AlarmData {
            alarm_name: &alarm.name,
            state: status.into(),
            previous_state: previous.into(),
            configuration: Configuration {
                description: alarm.description.as_deref(),
                metrics: fill.into_iter().chain([query]).collect(),
            },
        },
    };
    // Numbers and texts only: JSON can express all of it.
    serde_json::to_string(&event).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    source: &'static str,
    alarm_arn: String,
    account_id: &'static str,
    time: String,
    region: &'static str,
    alarm_data: AlarmData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AlarmData<'a> {
    alarm_name: &'a str,
    state: State<'a>,
    previous_state: State<'a>,
    configuration: Configuration<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State<'a> {
    value: &'static str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_data: Option<&'a str>,
    timestamp: String,
}

impl<'a> From<&'a AlarmStatus> for State<'a> {
    fn from(status: &'a AlarmStatus) -> Self {
        Self {
            value: status.state.as_str(),
            reason: &status.reason,
            reason_data: status.reason_data.as_deref(),
            timestamp: timestamp(status.since),
        }
    }
}

#[derive(Serialize)]
struct Configuration<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    metrics: Vec<Query<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Query<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expression: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_stat: Option<MetricStat<'a>>,
    return_data: bool,
}

#[derive(Serialize)]
struct MetricStat<'a> {
    metric: MetricName<'a>,
    period: u64,
    stat: &'static str,
}

#[derive(Serialize)]
struct MetricName<'a> {
    namespace: &'a str,
    name: &'a str,
    dimensions: &'a BTreeMap<String, String>,
}
