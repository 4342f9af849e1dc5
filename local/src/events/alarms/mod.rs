//! The actions of alarms: functions that are invoked on their transitions.

mod event;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::cloudwatch::{AlarmState, Transition};
use crate::ids;
use crate::lambda::{Background, Invocation, Pool};
use crate::plan::{ALARMS, AlarmActions, Permission};

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
            let event = Invocation {
                request_id: ids::uuid(),
                payload: event::of_transition(transition).into(),
                trace_header: Some(pool.trace_header()),
                client_context: None,
                wants_log_tail: false,
            };
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
