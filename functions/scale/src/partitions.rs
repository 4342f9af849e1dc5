//! Throttles of partitions, by alarms and by the schedule.

use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dynashard_core::ports::{HeatAlarms, HeatSource};
use dynashard_core::{
    Access, AutoScaler, Deadline, Directory, Error as CoreError, HeatOutcome, HeatReport,
    HeatWindow, ScalingMode,
};
use dynashard_lambda::metrics::{Counter, Metrics};
use lambda_runtime::Error;

use crate::outcome::Outcome;
use crate::report::{HeatView, counts, decisions, log, log_collections};

/// The partitions of the main table, as one event looks at them.
pub(crate) struct Partitions<'a, W> {
    pub(crate) watch: &'a W,
    pub(crate) directory: &'a Directory,
    pub(crate) metrics: &'a Metrics,
    pub(crate) pass: &'a Mutex<Pass>,
}

/// A pass over the collections that may shrink, which may take several calls.
#[derive(Default)]
pub(crate) struct Pass {
    /// The key behind which it goes on.
    after: Option<String>,
    /// When it began, since the epoch.
    began: Duration,
    /// How long before that the last one had begun; nothing if nobody knows.
    since_last: Duration,
}

/// The time that is left when no further collection is looked at.
const TIME_TO_END: Duration = Duration::from_secs(5);

impl<W> Partitions<'_, W>
where
    W: HeatSource + HeatAlarms,
{
    /// Lets the collections grow whose keys were throttled in this window.
    pub(crate) async fn scale(
        &self,
        window: HeatWindow,
        access: Access,
        deadline: Deadline,
    ) -> Result<Outcome, Error> {
        self.outcome(self.autoscaler().scale(window, access, deadline).await)
    }

    /// Looks for alarms on partitions that are raised, and lets collections shrink.
    pub(crate) async fn sweep(&self, deadline: Deadline) -> Result<Outcome, Error> {
        let alarms = self.alarms(deadline).await;
        if let Err(error) = self.shrink(deadline).await {
            tracing::error!(%error, "checking which collections may shrink failed");
            self.count([(Counter::AlarmsFailed, 1)]);
        }
        alarms
    }

    async fn alarms(&self, deadline: Deadline) -> Result<Outcome, Error> {
        if self.directory.settings().scaling.mode == ScalingMode::Off {
            return Ok(Outcome::idle("ScalingMode is off"));
        }
        let mut outcome = Ok(Outcome::idle("no alarm is raised"));
        for access in [Access::Write, Access::Get] {
            let found = self.autoscaler().sweep(access, deadline).await.transpose();
            let Some(found) = found.map(|report| self.outcome(report)) else { continue };
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
        let mut pass = mem::take(&mut *self.pass.lock().unwrap_or_else(PoisonError::into_inner));
        if pass.after.is_none() {
            let (now, last) = (self.directory.now().wall, pass.began);
            let since_last = if last.is_zero() { last } else { now.saturating_sub(last) };
            pass = Pass { after: None, began: now, since_last };
        }
        while !by.remaining(self.directory.now()).is_zero() {
            let after = pass.after.as_deref();
            let page = self.autoscaler().shrink(after, pass.since_last, by).await;
            let (collections, after) = page.inspect_err(|_| self.keep(&mut pass))?;
            log_collections(&collections);
            self.count(decisions(&collections));
            pass.after = after;
            if pass.after.is_none() {
                break;
            }
        }
        self.keep(&mut pass);
        Ok(())
    }

    fn keep(&self, pass: &mut Pass) {
        *self.pass.lock().unwrap_or_else(PoisonError::into_inner) = mem::take(pass);
    }

    fn autoscaler(&self) -> AutoScaler<'_, W> {
        AutoScaler::new(self.watch, self.directory)
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

    fn count(&self, counted: impl IntoIterator<Item = (Counter, usize)>) {
        self.metrics.count(self.directory.now(), counted);
    }
}
