//! Throttles of partitions, by alarms and by the schedule.

use std::sync::PoisonError;
use std::time::Duration;

use dynashard_core::ports::{
    AlarmControl, Clock, Entropy, HeatAlarms, HeatSource, MetadataStore, TableCapacity,
};
use dynashard_core::{
    Access, AutoScaler, Deadline, Error as CoreError, HeatOutcome, HeatReport, ScalingMode,
};
use dynashard_lambda::alarm::AlarmEvent;
use dynashard_lambda::metrics::Counter;
use lambda_runtime::Error;

use crate::handler::{Outcome, ScaleHandler};
use crate::report::{HeatView, counts, decisions, log, log_collections};

/// The time that is left when no further collection is looked at.
const TIME_TO_END: Duration = Duration::from_secs(5);

impl<W, T, M, C, E> ScaleHandler<W, T, M, C, E>
where
    W: HeatSource + HeatAlarms,
    T: TableCapacity + AlarmControl,
    M: MetadataStore,
    C: Clock,
    E: Entropy,
{
    /// Acts on an alarm on the throttles of partitions, if it is one.
    pub(crate) async fn on_partitions_alarm(
        &self,
        alarm: &AlarmEvent,
        deadline: Deadline,
    ) -> Result<Outcome, Error> {
        match alarm.window(&self.main_table, self.now().epoch_secs()) {
            Ok((window, access)) => {
                self.outcome(self.autoscaler().scale(window, access, deadline).await)
            }
            Err(refusal) => Ok(self.refuse(&refusal)),
        }
    }

    /// Looks for alarms on partitions that are raised, and lets collections shrink.
    pub(crate) async fn sweep_partitions(&self, deadline: Deadline) -> Result<Outcome, Error> {
        let alarms = self.alarms(deadline).await;
        if let Err(error) = self.shrink(deadline).await {
            tracing::error!(%error, "checking which collections may shrink failed");
            self.count([(Counter::AlarmsFailed, 1)]);
        }
        alarms
    }

    async fn alarms(&self, deadline: Deadline) -> Result<Outcome, Error> {
        if self.directory().settings().scaling.mode == ScalingMode::Off {
            return Ok(Outcome::idle("ScalingMode is off"));
        }
        let mut outcome = Ok(Outcome::idle("no alarm is raised"));
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
        AutoScaler::new(&self.watch, self.directory())
    }

    /// If something could not be read or changed, the invocation fails, so that Lambda counts it. The schedule looks
    /// again.
    fn outcome(&self, result: Result<HeatReport, CoreError>) -> Result<Outcome, Error> {
        let report = match result {
            Ok(report) if report.mode == ScalingMode::Off => {
                return Ok(Outcome::idle("ScalingMode is off"));
            }
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
}
