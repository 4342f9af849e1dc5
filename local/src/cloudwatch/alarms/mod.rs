//! Alarms: metrics that are compared with a threshold, and functions that are invoked when what
//! they say changes.
//!
//! [`evaluation`] decides from the datapoints of a metric alone, [`reason`] and [`event`] put it
//! into `CloudWatch`'s words, and [`Alarms`] has the states, their transitions and their actions.

mod definition;
mod evaluation;
mod event;
mod formula;

mod reason;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use definition::{Actions, Comparison, Definition, MissingData, Schedule};
pub(crate) use formula::Formula;

pub(crate) use subject::{Queries, Query, Source, Stat, Subject};

use super::store::HISTORY_SECS;
use super::{AlarmDescription, AlarmRegistry, AlarmState, MetricSource, UnknownAlarm};
use crate::clock::{SharedClock, epoch_millis};
use crate::ids;
use crate::lambda::{Background, Invocation, Runtime};
use crate::plan::{ALARMS, Permission, function_arn};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;

/// The alarms of a stack, each in a state.
#[derive(Debug)]
pub(crate) struct Alarms {
    by_name: BTreeMap<String, Alarm>,
    permissions: Vec<Permission>,
    runtime: Arc<Runtime>,
    background: Arc<Background>,
    clock: SharedClock,
}

impl Alarms {
    /// The alarms as they are when they have just been made: without sufficient data.
    pub(crate) fn new(
        definitions: Vec<Definition>,
        permissions: Vec<Permission>,
        runtime: &Arc<Runtime>,
        background: &Arc<Background>,
        clock: &SharedClock,
    ) -> Self {
        let now = clock.now();
        for definition in &definitions {
            let secs = u64::from(definition.evaluation_periods) * definition.schedule.period_secs;
            if secs > HISTORY_SECS {
                tracing::warn!(
                    alarm = definition.name,
                    "the alarm looks back {secs} s, and metrics are kept for {HISTORY_SECS} s here: \
                     it will miss data, unless --alarm-period-secs shortens its periods"
                );
            }
        }
        let alarms = definitions.into_iter();
        Self {
            by_name: alarms.map(|it| (it.name.clone(), Alarm::new(it, now))).collect(),
            permissions,
            runtime: Arc::clone(runtime),
            background: Arc::clone(background),
            clock: Arc::clone(clock),
        }
    }

    /// Evaluates each alarm whenever it is due, until the evaluator is stopped.
    pub(crate) fn watch(self: &Arc<Self>, source: &Arc<dyn MetricSource>) -> Evaluator {
        let mut tasks = JoinSet::new();
        for name in self.by_name.keys() {
            let (alarms, source) = (Arc::clone(self), Arc::clone(source));
            let name = name.clone();
            tasks.spawn(async move {
                if let Some(alarm) = alarms.by_name.get(&name) {
                    alarms.keep_evaluating(alarm, source.as_ref()).await;
                }
            });
        }
        Evaluator { tasks }
    }

    /// The state of each alarm, in the order of their names.
    pub(crate) fn states(&self) -> Vec<(String, AlarmState)> {
        let alarms = self.by_name.iter();
        alarms.map(|(name, alarm)| (name.clone(), alarm.status().state)).collect()
    }

    /// Evaluates at each multiple of the alarm's interval. Those that have passed unnoticed, as on
    /// a machine that slept, are not made up for: only what the metric says now counts.
    async fn keep_evaluating(&self, alarm: &Alarm, source: &dyn MetricSource) {
        let interval = alarm.definition.schedule.interval_secs;
        let due_after = |secs: u64| (secs / interval + 1) * interval;
        let mut due = due_after(self.epoch_secs());
        loop {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(due);
            self.clock.sleep(time.duration_since(self.clock.now()).unwrap_or_default()).await;
            // A sleep may end a moment before its time on the wall clock, and must not evaluate the
            // period before a second time for it.
            let end = (self.epoch_secs() / interval * interval).max(due);
            self.evaluate(alarm, source, end);
            due = due_after(end);
        }
    }

    fn evaluate(&self, alarm: &Alarm, source: &dyn MetricSource, end: u64) {
        let definition = &alarm.definition;
        let evaluation = evaluation::evaluate(definition, source, end);
        if let Some(state) = evaluation.state {
            self.transition(alarm, state, |now| {
                let reason = reason::text(definition, &evaluation, state);
                (reason, Some(reason::data(definition, &evaluation, now)))
            });
        }
    }

    /// Puts an alarm into a state, and calls its actions if it was in another. `reason` and the data
    /// behind it are asked for at the time of the transition.
    fn transition(
        &self,
        alarm: &Alarm,
        state: AlarmState,
        reason: impl FnOnce(SystemTime) -> (String, Option<String>),
    ) {
        // Held to the end, so that the actions of two transitions are called in their order.
        let mut status = alarm.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.state == state {
            return;
        }
        let since = self.clock.now();
        let (reason, reason_data) = reason(since);
        let previous =
            std::mem::replace(&mut *status, Status { state, reason, reason_data, since });
        let name = &alarm.definition.name;
        tracing::info!(alarm = name, state = state.as_str(), reason = status.reason, "an alarm");
        if alarm.definition.actions_enabled {
            self.act(alarm, &previous, &status);
        }
    }

    fn act(&self, alarm: &Alarm, previous: &Status, status: &Status) {
        let definition = &alarm.definition;
        let arn = definition.arn();
        for function in definition.actions.on(status.state) {
            let name = &definition.name;
            if !self.permissions.iter().any(|permission| permission.lets(&arn, function)) {
                tracing::error!(
                    alarm = name,
                    function,
                    "the alarm may not invoke the function: no AWS::Lambda::Permission of the \
                     template lets {} invoke it for {arn}",
                    ALARMS
                );
                continue;
            }
            let Some(pool) = self.runtime.pool(function) else {
                tracing::error!(alarm = name, function, "there is no such function to invoke");
                continue;
            };
            let event = event::of_transition(definition, &alarm.metric_id, previous, status);
            let event = Invocation {
                request_id: ids::uuid(),
                payload: Bytes::from(event),
                trace_header: Some(ids::trace_header(self.epoch_secs())),
                client_context: None,
                wants_log_tail: false,
            };
            self.background.deliver(Arc::clone(pool), event);
        }
    }

    fn epoch_secs(&self) -> u64 {
        epoch_millis(self.clock.now()) / 1000
    }
}

impl AlarmRegistry for Alarms {
    fn describe(&self) -> Vec<AlarmDescription> {
        self.by_name.values().map(Alarm::describe).collect()
    }

    fn set_state(
        &self,
        name: &str,
        state: AlarmState,
        reason: &str,
        reason_data: Option<&str>,
    ) -> Result<(), UnknownAlarm> {
        let alarm = self.by_name.get(name).ok_or_else(|| UnknownAlarm(name.to_owned()))?;
        self.transition(alarm, state, |_| (reason.to_owned(), reason_data.map(str::to_owned)));
        Ok(())
    }
}

/// The evaluation of all alarms, at work until [`Evaluator::stop`].
#[derive(Debug)]
pub(crate) struct Evaluator {
    tasks: JoinSet<()>,
}

impl Evaluator {
    /// Ends the evaluation, and returns when nothing of it runs any more. Functions that have been
    /// invoked are not waited for.
    pub(crate) async fn stop(mut self) {
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && !error.is_cancelled()
            {
                tracing::error!(%error, "the evaluation of an alarm failed");
            }
        }
    }
}

#[derive(Debug)]
struct Alarm {
    definition: Definition,
    /// What events call the metric where the template does not.
    metric_id: String,
    status: Mutex<Status>,
}

/// The state of an alarm, and since when and why it is in it.
#[derive(Clone, Debug)]
struct Status {
    state: AlarmState,
    reason: String,
    /// JSON.
    reason_data: Option<String>,
    since: SystemTime,
}

impl Alarm {
    fn new(definition: Definition, now: SystemTime) -> Self {
        let status = Status {
            state: AlarmState::InsufficientData,
            reason: reason::INITIAL.to_owned(),
            reason_data: None,
            since: now,
        };
        Self { definition, metric_id: ids::uuid(), status: Mutex::new(status) }
    }

    fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn describe(&self) -> AlarmDescription {
        let definition = &self.definition;
        let Status { state, reason, reason_data, since } = self.status();
        let arns = |functions: &[String]| functions.iter().map(|name| function_arn(name)).collect();
        AlarmDescription {
            name: definition.name.clone(),
            arn: definition.arn(),
            description: definition.description.clone(),
            state,
            state_reason: reason,
            state_reason_data: reason_data,
            state_updated: since,
            actions_enabled: definition.actions_enabled,
            alarm_actions: arns(&definition.actions.alarm),
            ok_actions: arns(&definition.actions.ok),
            insufficient_data_actions: arns(&definition.actions.insufficient_data),
            watched: definition.subject.describe(definition.schedule.period_secs),
            evaluation_periods: definition.evaluation_periods,
            datapoints_to_alarm: definition.datapoints_to_alarm,
            threshold: definition.threshold,
            comparison_operator: definition.comparison.as_str().to_owned(),
            treat_missing_data: definition.missing_data.map(|it| it.as_str().to_owned()),
        }
    }
}
