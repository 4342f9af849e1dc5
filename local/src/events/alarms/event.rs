//! The event that an alarm invokes a function with: "Invoke a Lambda function from an alarm" in
//! `CloudWatch`'s user guide.

use serde_json::{Value, json};

use crate::cloudwatch::{AlarmStatus, Transition, timestamp};
use crate::plan::{ACCOUNT_ID, MetricId, REGION};

/// The event of a transition, as JSON.
pub(super) fn of_transition(transition: &Transition) -> String {
    let Transition { alarm, metric_id, previous, status } = transition;
    let MetricId { namespace, name, dimensions } = &alarm.metric;
    let fill = alarm
        .fill
        .as_ref()
        .map(|fill| json!({ "id": fill.id, "expression": fill.expression(), "returnData": true }));
    let query = json!({
        "id": metric_id,
        "metricStat": {
            "metric": { "namespace": namespace, "name": name, "dimensions": dimensions },
            "period": alarm.schedule.period_secs,
            "stat": alarm.statistic.as_str(),
        },
        "returnData": fill.is_none(),
    });
    let metrics = fill.into_iter().chain([query]).collect::<Vec<_>>();
    let mut configuration = json!({ "metrics": metrics });
    if let Some(description) = &alarm.description {
        configuration["description"] = description.as_str().into();
    }
    json!({
        "source": "aws.cloudwatch",
        "alarmArn": alarm.arn(),
        "accountId": ACCOUNT_ID,
        "time": timestamp(status.since),
        "region": REGION,
        "alarmData": {
            "alarmName": alarm.name,
            "state": state(status),
            "previousState": state(previous),
            "configuration": configuration,
        },
    })
    .to_string()
}

fn state(status: &AlarmStatus) -> Value {
    let mut state = json!({
        "value": status.state.as_str(),
        "reason": status.reason,
        "timestamp": timestamp(status.since),
    });
    if let Some(data) = &status.reason_data {
        state["reasonData"] = data.as_str().into();
    }
    state
}
