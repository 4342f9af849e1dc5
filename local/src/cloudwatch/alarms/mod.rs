//! Alarms: metrics that are compared with a threshold.
//!
//! [`evaluation`] decides from the datapoints of a metric alone, [`reason`] puts the decision into
//! `CloudWatch`'s words, and [`Alarms`] keeps the states and tells of their transitions.

mod evaluation;
mod reason;
#[cfg(test)]
mod tests;

pub(crate) use reason::timestamp;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::statistics::MetricSource;
use super::store::HISTORY_SECS;
use crate::clock::{SharedClock, since_epoch};
use crate::ids;
use crate::plan::{Alarm, with_names};

/// The alarms of a stack, each in a state.
#[derive(Debug)]
pub(crate) struct Alarms {
    by_name: BTreeMap<String, Watched>,
    transitions: mpsc::UnboundedSender<Transition>,
    clock: SharedClock,
}

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

/// An alarm has gone from one state into another.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) alarm: Arc<Alarm>,
    /// Names the metric in events: the template does not.
    pub(crate) metric_id: String,
    pub(crate) previous: AlarmStatus,
    pub(crate) status: AlarmStatus,
}

/// The template has no alarm of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the alarm {0} does not exist")]
pub(crate) struct UnknownAlarm(pub(crate) String);

impl Alarms {
    /// New alarms, which have insufficient data, and their transitions in order.
    pub(crate) fn new(
        alarms: Vec<Alarm>,
        clock: &SharedClock,
    ) -> (Self, mpsc::UnboundedReceiver<Transition>) {
        let now = clock.now();
        for alarm in &alarms {
            let secs = u64::from(alarm.evaluation_periods) * alarm.schedule.period_secs;
            if secs > HISTORY_SECS {
                tracing::warn!(
                    alarm = alarm.name,
                    "the alarm looks back {secs} s, and metrics are kept for {HISTORY_SECS} s here: \
                     it will miss data, unless --alarm-period-secs shortens its periods"
                );
            }
        }
        let by_name =
            alarms.into_iter().map(|alarm| (alarm.name.clone(), Watched::new(alarm, now)));
        let (transitions, received) = mpsc::unbounded_channel();
        (Self { by_name: by_name.collect(), transitions, clock: Arc::clone(clock) }, received)
    }

    /// Evaluates each alarm whenever it is due, as long as the tasks are there.
    pub(crate) fn watch(
        self: &Arc<Self>,
        source: &Arc<impl MetricSource + 'static>,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for name in self.by_name.keys() {
            let (alarms, source, name) = (Arc::clone(self), Arc::clone(source), name.clone());
            tasks.spawn(async move {
                alarms.keep_evaluating(&alarms.by_name[&name], source.as_ref()).await;
            });
        }
        tasks
    }

    /// Each alarm with its status, in the order of their names.
    pub(crate) fn list(&self) -> Vec<(Arc<Alarm>, AlarmStatus)> {
        let watched = self.by_name.values();
        watched.map(|watched| (Arc::clone(&watched.alarm), watched.status.lock().clone())).collect()
    }

    /// Puts an alarm into a state until its next evaluation (`CloudWatch` API: `SetAlarmState`). A
    /// transition has the actions of any other.
    ///
    /// `reason_data` is JSON, and is passed on as it is.
    pub(crate) fn set_state(
        &self,
        name: &str,
        state: AlarmState,
        reason: &str,
        reason_data: Option<&str>,
    ) -> Result<(), UnknownAlarm> {
        let watched = self.by_name.get(name).ok_or_else(|| UnknownAlarm(name.to_owned()))?;
        self.transition(watched, state, |_| (reason.to_owned(), reason_data.map(str::to_owned)));
        Ok(())
    }

    /// Evaluates an alarm on the periods that end at `end`, in seconds since the Unix epoch.
    fn evaluate(&self, watched: &Watched, source: &dyn MetricSource, end: u64) {
        let alarm = &watched.alarm;
        let evaluation = evaluation::evaluate(alarm, source, end);
        if let Some(state) = evaluation.state {
            self.transition(watched, state, |now| {
                let reason = reason::text(alarm, &evaluation, state);
                (reason, Some(reason::data(alarm, &evaluation, now)))
            });
        }
    }

    /// Evaluates at each multiple of the alarm's interval. Those that have passed unnoticed, as on
    /// a machine that slept, are not made up for: only what the metric says now counts.
    async fn keep_evaluating(&self, watched: &Watched, source: &dyn MetricSource) {
        let interval = watched.alarm.schedule.interval_secs;
        let due_after = |secs: u64| (secs / interval + 1) * interval;
        let mut due = due_after(self.epoch_secs());
        loop {
            self.clock.sleep_until(SystemTime::UNIX_EPOCH + Duration::from_secs(due)).await;
            // A sleep may end a moment before its time on the wall clock, and must not evaluate the
            // period before a second time for it.
            let end = (self.epoch_secs() / interval * interval).max(due);
            self.evaluate(watched, source, end);
            due = due_after(end);
        }
    }

    /// Puts an alarm into a state, and tells of it if the alarm was in another. `reason` returns the
    /// reason and the data behind it for the time of the transition.
    fn transition(
        &self,
        watched: &Watched,
        state: AlarmState,
        reason: impl FnOnce(SystemTime) -> (String, Option<String>),
    ) {
        // Held to the end, so that two transitions are told in their order.
        let mut status = watched.status.lock();
        if status.state == state {
            return;
        }
        let since = self.clock.now();
        let (reason, reason_data) = reason(since);
        let next = AlarmStatus { state, reason, reason_data, since };
        let name = &watched.alarm.name;
        tracing::info!(alarm = name, state = state.as_str(), reason = next.reason, "an alarm");
        // Without a receiver the stack is shutting down.
        let _ = self.transitions.send(Transition {
            alarm: Arc::clone(&watched.alarm),
            metric_id: watched.metric_id.clone(),
            previous: std::mem::replace(&mut *status, next.clone()),
            status: next,
        });
    }

    fn epoch_secs(&self) -> u64 {
        since_epoch(self.clock.now()).as_secs()
    }
}

/// An alarm with its status.
#[derive(Debug)]
struct Watched {
    alarm: Arc<Alarm>,
    metric_id: String,
    status: Mutex<AlarmStatus>,
}

impl Watched {
    fn new(alarm: Alarm, now: SystemTime) -> Self {
        let status = AlarmStatus {
            state: AlarmState::InsufficientData,
            reason: reason::INITIAL.to_owned(),
            reason_data: None,
            since: now,
        };
        let metric_id = alarm.fill.as_ref().map_or_else(ids::uuid, |fill| fill.metric_id.clone());
        Self { alarm: Arc::new(alarm), metric_id, status: Mutex::new(status) }
    }
}
