use std::sync::Arc;

use dynashard_core::ports::{AlarmControl, Clock, TableCapacity};
use dynashard_core::{
    CapacityDecision, CapacityOutcome, CapacityPolicy, CapacityReport, CapacityScaler,
    CapacityScaling, CapacitySide, Deadline, Error as CoreError, Reading, Rearm, ScalingMode,
};
use dynashard_lambda::EventHandler;
use dynashard_lambda::alarm::AlarmEvent;
use dynashard_lambda::metrics::{Counter, Metrics};
use lambda_runtime::Error;
use serde::Serialize;
use serde_json::Value;

/// The events of the scale function: alarms on the capacity of the main table lead to more of it,
/// the schedule looks for those whose event was lost, and all else is `events`'.
pub(crate) struct CapacityEvents<S, T> {
    events: S,
    table: T,
    clock: Arc<dyn Clock>,
    main_table: String,
    metrics: Metrics,
    policy: CapacityPolicy,
    mode: ScalingMode,
}

/// The outcome that Lambda returns, where `events` have outcomes of the type `O`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome<O> {
    /// That of the others.
    Other(O),
    /// What was decided about the capacity.
    Decided(CapacityView),
    /// Nothing was done, and why.
    Idle {
        /// A sentence without its full stop.
        nothing_done: String,
    },
    /// A schedule that found an alarm on the capacity raised.
    Swept {
        /// What the others did.
        partitions: O,
        /// What was decided about the capacity.
        capacity: CapacityView,
    },
}

/// A report for a person who sends an alarm by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CapacityView {
    dry_run: bool,
    reads: DecisionView,
    writes: DecisionView,
    outcome: String,
    alarms_set_back: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct DecisionView {
    code: &'static str,
    decision: String,
}

impl<S, T> CapacityEvents<S, T>
where
    S: EventHandler,
    T: TableCapacity + AlarmControl,
{
    /// Passes events to `events`, and acts on throttles by the capacity of `main_table`, which is
    /// `table`, if the operator wants the function to.
    pub(crate) fn new(
        events: S,
        (table, clock): (T, Arc<dyn Clock>),
        main_table: String,
        metrics: Metrics,
        (policy, mode): (CapacityPolicy, ScalingMode),
    ) -> Self {
        Self { events, table, clock, main_table, metrics, policy, mode }
    }

    async fn alarm(
        &self,
        alarm: &AlarmEvent,
        deadline: Deadline,
    ) -> Result<Outcome<S::Outcome>, Error> {
        if self.mode == ScalingMode::Off {
            return Ok(Outcome::Idle { nothing_done: "ScalingMode is off".to_owned() });
        }
        match alarm.capacity_window(&self.main_table, self.now().epoch_secs()) {
            Ok(window) => {
                let report = self.scaler().scale(window, deadline).await;
                Ok(Outcome::Decided(self.act_on(report)?))
            }
            // Sending the event again would change nothing.
            Err(refusal) => {
                tracing::warn!(reason = %refusal, "an alarm event was refused");
                self.metrics.count(self.now(), [(Counter::AlarmsRefused, 1)]);
                Ok(Outcome::Idle { nothing_done: refusal.to_string() })
            }
        }
    }

    async fn sweep(&self, deadline: Deadline) -> Result<Option<CapacityView>, Error> {
        match self.scaler().sweep(deadline).await.transpose() {
            Some(report) => self.act_on(report).map(Some),
            None => Ok(None),
        }
    }

    fn scaler(&self) -> CapacityScaler<'_, T> {
        CapacityScaler::new(&self.table, &*self.clock, self.policy, self.mode)
    }

    /// Logs and counts what was decided. If something could not be asked or changed, the invocation has to
    /// fail, so that Lambda counts the failure. The schedule looks again.
    fn act_on(&self, report: Result<CapacityReport, CoreError>) -> Result<CapacityView, Error> {
        match report {
            Ok(report) => {
                log(&report);
                self.metrics.count(self.now(), counts(&report));
                Ok(CapacityView::new(&report))
            }
            Err(error) => {
                tracing::error!(%error, "checking the table's capacity failed");
                self.metrics.count(self.now(), [(Counter::AlarmsFailed, 1)]);
                Err(error.into())
            }
        }
    }
}

impl<S, T> EventHandler for CapacityEvents<S, T>
where
    S: EventHandler,
    T: TableCapacity + AlarmControl,
{
    type Outcome = Outcome<S::Outcome>;

    async fn handle(
        &self,
        event: &str,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<Self::Outcome, Error> {
        let others = self.events.handle(event, request_id, deadline);
        if self.policy.scaling != CapacityScaling::Function {
            return others.await.map(Outcome::Other);
        }
        let shape = serde_json::from_str::<Value>(event).unwrap_or_default();
        if shape.get("source").and_then(Value::as_str) == Some("aws.events") {
            // If one fails, the other is looked at all the same.
            let (partitions, capacity) = (others.await, self.sweep(deadline).await);
            return Ok(match (partitions?, capacity?) {
                (partitions, Some(capacity)) => Outcome::Swept { partitions, capacity },
                (partitions, None) => Outcome::Other(partitions),
            });
        }
        match AlarmEvent::parse(&shape) {
            Ok(alarm) if alarm.is_of_capacity() && shape.get("requestContext").is_none() => {
                self.alarm(&alarm, deadline).await
            }
            _ => others.await.map(Outcome::Other),
        }
    }

    fn now(&self) -> Reading {
        self.events.now()
    }
}

impl CapacityView {
    fn new(report: &CapacityReport) -> Self {
        let of = |access| {
            let decision = report.of(access);
            DecisionView { code: decision.code(), decision: decision.to_string() }
        };
        Self {
            dry_run: report.mode == ScalingMode::DryRun,
            reads: of(CapacitySide::Reads),
            writes: of(CapacitySide::Writes),
            outcome: report.outcome.to_string(),
            alarms_set_back: report.rearm == Rearm::Done,
        }
    }
}

/// What a report counts.
fn counts(report: &CapacityReport) -> [(Counter, usize); 5] {
    let of = |is: fn(&CapacityDecision) -> bool| {
        CapacitySide::ALL.iter().filter(|access| is(&report.of(**access))).count()
    };
    let raises = of(|decision| matches!(decision, CapacityDecision::Raise { .. }));
    let with = |outcome| if report.outcome == outcome { raises } else { 0 };
    [
        (Counter::AlarmsHandled, 1),
        (Counter::CapacityRaised, with(CapacityOutcome::Raised)),
        (Counter::CapacityWouldRise, with(CapacityOutcome::WouldRise)),
        (
            Counter::CapacityAtCeiling,
            of(|decision| matches!(decision, CapacityDecision::AtCeiling { .. })),
        ),
        (Counter::AlarmsFailed, usize::from(matches!(report.rearm, Rearm::Failed(_)))),
    ]
}

/// Logs what was decided about each capacity.
fn log(report: &CapacityReport) {
    const MESSAGE: &str = "decided on the table's capacity";
    let outcome = report.outcome.to_string();
    for access in CapacitySide::ALL {
        let decided = report.of(access);
        let (access, code, decision) = (access.as_str(), decided.code(), decided.to_string());
        if let CapacityDecision::AtCeiling { .. } = decided {
            tracing::warn!(access, code, decision, outcome, "{MESSAGE}");
        } else {
            tracing::info!(access, code, decision, outcome, "{MESSAGE}");
        }
    }
    if let Rearm::Failed(error) = &report.rearm {
        tracing::error!(%error, "the alarms could not be reset to OK; the schedule checks them again");
    }
}
