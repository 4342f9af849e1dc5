use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dynashard_api::response::Response;
use dynashard_core::ports::{Clock, Entropy, HeatAlarms, HeatSource, MetadataStore};
use dynashard_core::{
    Access, AutoScaler, Deadline, Error as CoreError, HeatOutcome, HeatReport, Reading, ScalingMode,
};
use dynashard_lambda::alarm::{AlarmEvent, AlarmRefusal};
use dynashard_lambda::metrics::{Counter, Metrics};
use dynashard_lambda::{EventHandler, Handler, Patience, answer};
use lambda_runtime::Error;
use serde::Serialize;
use serde_json::Value;

use crate::handler::ScaleHandler;
use crate::report::{HeatView, counts, decisions, log, log_collections};

/// The events of the scale function: requests, the alarms on throttles, and the schedule, which finds an alarm whose
/// event was lost and lets collections shrink.
pub(crate) struct ScaleEvents<W, M, C, E> {
    requests: ScaleHandler<M, C, E>,
    patience: Patience,
    watch: W,
    main_table: String,
    metrics: Metrics,
    /// Where the last look at the collections that may shrink has ended, if time ran out.
    shrink_after: Mutex<Option<String>>,
}

/// The time that is left when no further collection is looked at.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// The outcome that Lambda returns. After an alarm, only a person who sends one by hand reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    /// The answer to a request.
    Answered(Response),
    /// What was found throttled, and what was done about it.
    Acted(HeatView),
    /// Nothing was done, and why.
    Idle {
        /// A sentence without its full stop.
        nothing_done: String,
    },
}

impl<W, M, C, E> ScaleEvents<W, M, C, E>
where
    W: HeatSource + HeatAlarms,
    M: MetadataStore,
    C: Clock,
    E: Entropy,
{
    /// Passes requests to `requests`, and acts on the throttles of `main_table` that `watch` finds.
    pub(crate) fn new(
        requests: ScaleHandler<M, C, E>,
        watch: W,
        main_table: String,
        metrics: Metrics,
    ) -> Self {
        let patience = Patience::new(requests.now());
        Self { requests, patience, watch, main_table, metrics, shrink_after: Mutex::default() }
    }

    async fn alarm(&self, event: &Value, deadline: Deadline) -> Result<Outcome, Error> {
        let now_secs = self.now().epoch_secs();
        let window =
            AlarmEvent::parse(event).and_then(|event| event.window(&self.main_table, now_secs));
        match window {
            Ok((window, access)) => {
                self.outcome(self.autoscaler().scale(window, access, deadline).await)
            }
            Err(refusal) => Ok(self.refuse(&refusal)),
        }
    }

    async fn schedule(&self, deadline: Deadline) -> Result<Outcome, Error> {
        let alarms = self.alarms(deadline).await;
        if let Err(error) = self.shrink(deadline).await {
            tracing::error!(%error, "checking which collections may shrink failed");
            self.count([(Counter::AlarmsFailed, 1)]);
        }
        alarms
    }

    async fn alarms(&self, deadline: Deadline) -> Result<Outcome, Error> {
        if self.requests.directory().settings().scaling.mode == ScalingMode::Off {
            return Ok(idle("ScalingMode is off"));
        }
        let mut outcome = Ok(idle("no alarm is raised"));
        for access in [Access::Write, Access::Get] {
            let found = match self.autoscaler().sweep(access, deadline).await {
                Ok(None) => continue,
                Ok(Some(report)) => self.outcome(Ok(report)),
                Err(error) => self.outcome(Err(error)),
            };
            // What failed is to be tried again, whatever became of the other.
            if outcome.is_ok() {
                outcome = found;
            }
        }
        outcome
    }

    /// Looks at as many collections that may shrink as there is time for, from where the call before has ended.
    async fn shrink(&self, deadline: Deadline) -> Result<(), CoreError> {
        let by = deadline.earlier_by(TIME_TO_END);
        let mut next = self.shrink_after.lock().unwrap_or_else(PoisonError::into_inner).take();
        while !by.remaining(self.now()).is_zero() {
            let (collections, after) = self.autoscaler().shrink(next.as_deref(), by).await?;
            log_collections(&collections);
            self.count(decisions(&collections));
            next = after;
            if next.is_none() {
                break;
            }
        }
        *self.shrink_after.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    fn autoscaler(&self) -> AutoScaler<'_, W, M, C, E> {
        AutoScaler::new(&self.watch, self.requests.directory())
    }

    /// Sending the event again would change nothing, so a refusal is not an error.
    fn refuse(&self, refusal: &AlarmRefusal) -> Outcome {
        tracing::warn!(reason = %refusal, "an alarm event was refused");
        self.count([(Counter::AlarmsRefused, 1)]);
        idle(refusal.to_string())
    }

    /// If something could not be read or changed, the invocation fails, so that Lambda counts it. The schedule looks
    /// again.
    fn outcome(&self, result: Result<HeatReport, CoreError>) -> Result<Outcome, Error> {
        let report = match result {
            Ok(report) if report.mode == ScalingMode::Off => return Ok(idle("ScalingMode is off")),
            Ok(report) => report,
            Err(error) => {
                tracing::error!(%error, "reading the throttled keys failed");
                self.count([(Counter::AlarmsFailed, 1)]);
                return Err(error.into());
            }
        };
        log(&report);
        self.count(counts(&report));
        for collection in &report.collections {
            if let HeatOutcome::Failed(error) = &collection.outcome {
                return Err(error.clone().into());
            }
        }
        Ok(Outcome::Acted(HeatView::new(&report)))
    }

    fn count(&self, counted: impl IntoIterator<Item = (Counter, usize)>) {
        self.metrics.count(self.now(), counted);
    }
}

impl<W, M, C, E> EventHandler for ScaleEvents<W, M, C, E>
where
    W: HeatSource + HeatAlarms,
    M: MetadataStore,
    C: Clock,
    E: Entropy,
{
    type Outcome = Outcome;

    async fn handle(
        &self,
        event: &str,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<Outcome, Error> {
        // An event that is not JSON is answered like a malformed request.
        let shape = serde_json::from_str::<Value>(event).unwrap_or_default();
        if shape.get("source").and_then(Value::as_str) == Some("aws.events") {
            return self.schedule(deadline).await;
        }
        // Every request has a context. Nobody reads the answer to another event, so one that is not an
        // alarm is logged and counted.
        if shape.is_object() && shape.get("requestContext").is_none() {
            return self.alarm(&shape, deadline).await;
        }
        let response = answer(&self.requests, event, request_id, deadline, &self.patience).await;
        self.count(Counter::of_codes(response.reasons()));
        Ok(Outcome::Answered(response))
    }

    fn now(&self) -> Reading {
        self.requests.now()
    }
}

fn idle(why: impl Into<String>) -> Outcome {
    Outcome::Idle { nothing_done: why.into() }
}
