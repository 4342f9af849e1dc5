//! The actions of alarms: functions that are invoked on their transitions.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cloudwatch::{AlarmState, AlarmStatus, Transition, timestamp};
use crate::lambda::{Background, Pool};
use crate::plan::{ACCOUNT_ID, ALARMS, AlarmActions, MetricId, Permission, REGION};

/// Invokes the functions of alarms.
#[derive(Debug)]
pub(super) struct Actions {
    pub(super) permissions: Vec<Permission>,
    /// The pools of the functions by their names.
    pub(super) pools: BTreeMap<String, Arc<Pool>>,
    pub(super) background: Arc<Background>,
}

impl Actions {
    /// Acts on each transition until there are no more.
    pub(super) async fn follow(self, mut transitions: mpsc::UnboundedReceiver<Transition>) {
        while let Some(transition) = transitions.recv().await {
            self.act(&transition);
        }
    }

    /// Invokes the functions of one transition asynchronously, as far as they may be invoked.
    fn act(&self, transition: &Transition) {
        let alarm = &transition.alarm;
        if !alarm.actions_enabled {
            return;
        }
        let (name, arn) = (&alarm.name, alarm.arn());
        for function in functions(&alarm.actions, transition.status.state) {
            if !self.permissions.iter().any(|permission| permission.allows(ALARMS, &arn, function))
            {
                tracing::error!(
                    alarm = name,
                    function,
                    "the alarm may not invoke the function: no AWS::Lambda::Permission of the \
                     template lets {ALARMS} invoke it for {arn}"
                );
                continue;
            }
            let Some(pool) = self.pools.get(function) else {
                tracing::error!(
                    alarm = name,
                    function,
                    "the alarm names a function that does not run"
                );
                continue;
            };
            let event = pool.invocation(event(transition));
            self.background.deliver(Arc::clone(pool), event);
        }
    }
}

/// The functions that are invoked on a transition into `state`.
fn functions(actions: &AlarmActions, state: AlarmState) -> &[String] {
    match state {
        AlarmState::Alarm => &actions.alarm,
        AlarmState::Ok => &actions.ok,
        AlarmState::InsufficientData => &actions.insufficient_data,
    }
}

/// The event of a transition, as JSON: "Invoke a Lambda function from an alarm" in `CloudWatch`'s user
/// guide.
fn event(transition: &Transition) -> String {
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
