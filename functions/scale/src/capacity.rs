//! Throttles by the capacity of the table itself, by alarms and by the schedule.

use dynashard_core::ports::{AlarmControl, Clock, TableCapacity};
use dynashard_core::{
    CapacityDecision, CapacityOutcome, CapacityPolicy, CapacityReport, CapacityScaler,
    CapacityScaling, CapacitySide, Deadline, Error as CoreError, HeatWindow, Rearm, ScalingMode,
};
use dynashard_lambda::alarm::AlarmEvent;
use dynashard_lambda::metrics::{Counter, Metrics};
use lambda_runtime::Error;
use serde::Serialize;

/// The capacity of the main table, and who raises it.
pub(crate) struct Capacity<T> {
    /// The table.
    pub(crate) table: T,
    /// Who raises it, and how far.
    pub(crate) policy: CapacityPolicy,
    /// Whether the function acts at all.
    pub(crate) mode: ScalingMode,
    /// Where it is counted what was decided.
    pub(crate) metrics: Metrics,
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

impl<T: TableCapacity + AlarmControl> Capacity<T> {
    /// Whether an alarm is on the capacity, and this function acts on that.
    pub(crate) fn is_watched_by(&self, alarm: &AlarmEvent) -> bool {
        self.is_ours() && alarm.is_of_capacity()
    }

    /// Decides by what was throttled in this window.
    pub(crate) async fn scale(
        &self,
        window: HeatWindow,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<CapacityView, Error> {
        self.told(self.scaler(clock).scale(window, deadline).await, clock)
    }

    /// Looks whether an alarm on the capacity is raised.
    pub(crate) async fn sweep(
        &self,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Option<CapacityView>, Error> {
        if !self.is_ours() {
            return Ok(None);
        }
        let found = self.scaler(clock).sweep(deadline).await.transpose();
        found.map(|report| self.told(report, clock)).transpose()
    }

    fn is_ours(&self) -> bool {
        self.policy.scaling == CapacityScaling::Function
    }

    fn scaler<'a>(&'a self, clock: &'a dyn Clock) -> CapacityScaler<'a, T> {
        CapacityScaler::new(&self.table, clock, self.policy, self.mode)
    }

    /// Logs and counts what was decided. If something could not be asked or changed, the invocation has to
    /// fail, so that Lambda counts the failure. The schedule looks again.
    fn told(
        &self,
        report: Result<CapacityReport, CoreError>,
        clock: &dyn Clock,
    ) -> Result<CapacityView, Error> {
        match report {
            Ok(report) => {
                log(&report);
                self.metrics.count(clock.now(), counts(&report));
                Ok(CapacityView::new(&report))
            }
            Err(error) => {
                tracing::error!(%error, "checking the table's capacity failed");
                self.metrics.count(clock.now(), [(Counter::AlarmsFailed, 1)]);
                Err(error.into())
            }
        }
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
