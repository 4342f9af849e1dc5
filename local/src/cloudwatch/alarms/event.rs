//! The event that an alarm invokes a function with: "Invoke a Lambda function from an alarm" in
//! `CloudWatch`'s user guide.

use super::Status;
use super::definition::Definition;
use super::reason::timestamp;
use super::subject::{Source, Stat, Subject};
use crate::cloudwatch::MetricId;
use crate::plan::{ACCOUNT_ID, REGION};
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
    let period = definition.schedule.period_secs;
    let metrics = match &definition.subject {
        Subject::Metric(stat) => vec![Metric {
            id: metric_id,
            label: None,
            source: MetricSource::of_stat(stat, period),
            return_data: true,
        }],
        Subject::Queries(queries) => {
            let metrics = queries.iter().map(|query| Metric {
                id: &query.id,
                label: query.label.as_deref(),
                source: match &query.source {
                    Source::Metric(stat) => MetricSource::of_stat(stat, period),
                    Source::Expression { text, .. } => MetricSource::Expression(text),
                },
                return_data: query.return_data,
            });
            metrics.collect()
        }
    };
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
                metrics,
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
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(flatten)]
    source: MetricSource<'a>,
    return_data: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum MetricSource<'a> {
    MetricStat(MetricStat<'a>),
    Expression(&'a str),
}

impl<'a> MetricSource<'a> {
    fn of_stat(stat: &'a Stat, period: u64) -> Self {
        let MetricId { namespace, name, dimensions } = &stat.metric;
        Self::MetricStat(MetricStat {
            metric: MetricName { namespace, name, dimensions },
            period,
            stat: stat.statistic.as_str(),
        })
    }
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
