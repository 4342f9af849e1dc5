//! The event that an alarm invokes a function with: "Invoke a Lambda function from an alarm" in
//! `CloudWatch`'s user guide.

use super::Status;
use super::definition::Definition;
use super::reason::timestamp;
use crate::cloudwatch::MetricId;
use crate::template::{ACCOUNT_ID, REGION};
use serde::Serialize;
use std::collections::BTreeMap;

/// The event of the transition of an alarm from `previous` to `state`, as JSON.
///
/// `metric_id` tells a metric apart that the template gives no id.
pub(super) fn of_transition(
    definition: &Definition,
    metric_id: &str,
    previous: &Status,
    state: &Status,
) -> String {
    let MetricId { namespace, name, dimensions } = &definition.metric;
    let query = definition.query.as_ref();
    let event = Event {
        source: "aws.cloudwatch",
        alarm_arn: definition.arn(),
        account_id: ACCOUNT_ID,
        time: timestamp(state.since),
        region: REGION,
        alarm_data: AlarmData {
            alarm_name: &definition.name,
            state: state.into(),
            previous_state: previous.into(),
            configuration: Configuration {
                description: definition.description.as_deref(),
                metrics: [Metric {
                    id: query.map_or(metric_id, |query| query.id.as_str()),
                    label: query.and_then(|query| query.label.as_deref()),
                    metric_stat: MetricStat {
                        metric: MetricName { namespace, name, dimensions },
                        period: definition.schedule.period_secs,
                        stat: definition.statistic.as_str(),
                    },
                    return_data: true,
                }],
            },
        },
    };
    // Numbers and texts only: there is nothing that JSON could not say.
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

impl<'a> From<&'a Status> for State<'a> {
    fn from(status: &'a Status) -> Self {
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
    metrics: [Metric<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    metric_stat: MetricStat<'a>,
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
