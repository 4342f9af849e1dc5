//! What an alarm on the table's own capacity leads to.

use std::fmt;
use std::future::Future;

use crate::decide::capacity::decide_capacity;
use crate::model::capacity::{
    CapacityDecision, CapacityMetrics, CapacityPolicy, CapacityScaling, CapacitySide,
    CapacityUnits, TableThroughput,
};
use crate::model::error::Error;
use crate::model::heat::{HeatWindow, Rearm};
use crate::model::lease::Deadline;
use crate::model::policy::ScalingMode;
use crate::ports::{AlarmControl, CapacityUpdate, Clock, StoreError, TableCapacity};
use crate::usecases::retry::once;

/// Raises the capacity of a provisioned table that throttles, within a ceiling. It never lowers one.
///
/// An event says only when to look, and may repeat, come late or be lost. What to do follows from
/// what DynamoDB and CloudWatch say of the table.
pub struct CapacityScaler<'a, T> {
    table: &'a T,
    clock: &'a dyn Clock,
    policy: CapacityPolicy,
    mode: ScalingMode,
}

/// What was decided about a table's capacity, and what was done.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityReport {
    /// The mode in which it was decided.
    pub mode: ScalingMode,
    /// About its read units.
    pub reads: CapacityDecision,
    /// About its write units.
    pub writes: CapacityDecision,
    /// What was done.
    pub outcome: CapacityOutcome,
    /// What became of the alarms.
    pub rearm: Rearm,
}

impl CapacityReport {
    /// The decision about one kind of access.
    pub fn of(&self, access: CapacitySide) -> CapacityDecision {
        match access {
            CapacitySide::Reads => self.reads,
            CapacitySide::Writes => self.writes,
        }
    }
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacityOutcome {
    /// Nothing is to be raised.
    Unchanged,
    /// It would be raised, were it not for [`ScalingMode::DryRun`].
    WouldRise,
    /// DynamoDB raises it.
    Raised,
    /// Another has changed the table in the meantime, or is about to.
    Overtaken,
    /// DynamoDB allows no such change now, for this reason.
    Limited(String),
}

impl fmt::Display for CapacityOutcome {
    /// A sentence for the log, without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("nothing is changed"),
            Self::WouldRise => f.write_str("dry-run mode changes nothing"),
            Self::Raised => f.write_str("DynamoDB raises the capacity"),
            Self::Overtaken => f.write_str("somebody else is changing the table"),
            Self::Limited(why) => write!(f, "DynamoDB allows no change now: {why}"),
        }
    }
}

impl<'a, T: TableCapacity + AlarmControl> CapacityScaler<'a, T> {
    /// A scaler of the capacity of `table`.
    pub fn new(
        table: &'a T,
        clock: &'a dyn Clock,
        policy: CapacityPolicy,
        mode: ScalingMode,
    ) -> Self {
        Self { table, clock, policy, mode }
    }

    /// Acts on the throttles of `window`, for an alarm that was raised.
    pub async fn scale(
        &self,
        window: HeatWindow,
        deadline: Deadline,
    ) -> Result<CapacityReport, Error> {
        if let Some(decision) = self.standing() {
            return Ok(self.report([decision; 2], CapacityOutcome::Unchanged));
        }
        let seen = self.ask(self.table.throughput(), deadline).await?;
        let window = measurable(window);
        // Of a table that cannot be raised now, its metrics are of no interest.
        let metrics = if seen.provisioned.is_some() && seen.is_active() {
            self.ask(self.table.metrics(window), deadline).await?
        } else {
            CapacityMetrics::default()
        };
        let now_secs = self.clock.now().epoch_secs();
        let period_secs = window.period_secs;
        let decisions = CapacitySide::ALL.map(|access| {
            decide_capacity(access, &seen, &metrics, period_secs, self.policy, now_secs)
        });
        let outcome = match raised(&seen, decisions) {
            None => CapacityOutcome::Unchanged,
            Some(_) if self.mode == ScalingMode::DryRun => CapacityOutcome::WouldRise,
            Some(to) => self.update(&seen, to, deadline).await?,
        };
        let mut report = self.report(decisions, outcome);
        if report.outcome == CapacityOutcome::Raised {
            let reason = "dynashard raised the capacity; reset to notice further throttles";
            report.rearm = match self.ask(self.table.rearm(reason), deadline).await {
                Ok(()) => Rearm::Done,
                Err(error) => Rearm::Failed(error),
            };
        }
        Ok(report)
    }

    /// Asks the alarms themselves, since events can be lost and an alarm can stay raised without
    /// another transition. `None` where none is raised, or nothing is to be raised.
    pub async fn sweep(&self, deadline: Deadline) -> Result<Option<CapacityReport>, Error> {
        if self.standing().is_some() {
            return Ok(None);
        }
        let alarm = self.ask(self.table.status(), deadline).await?;
        if !alarm.is_raised {
            return Ok(None);
        }
        let now_secs = self.clock.now().epoch_secs();
        let window = HeatWindow::of_alarm(now_secs, None, alarm.period, now_secs);
        self.scale(window, deadline).await.map(Some)
    }

    /// What is decided whatever the table is like.
    fn standing(&self) -> Option<CapacityDecision> {
        match (self.mode, self.policy.scaling) {
            (ScalingMode::Off, _) | (_, CapacityScaling::Off) => Some(CapacityDecision::Off),
            (_, CapacityScaling::AutoScaling) => Some(CapacityDecision::AutoScaling),
            (_, CapacityScaling::Function) => None,
        }
    }

    /// `UpdateTable` takes no condition, so the table is looked at once more before it: what another
    /// has raised since would be lowered. While a change of its own is under way, DynamoDB refuses.
    async fn update(
        &self,
        seen: &TableThroughput,
        to: CapacityUnits,
        deadline: Deadline,
    ) -> Result<CapacityOutcome, Error> {
        if self.ask(self.table.throughput(), deadline).await? != *seen {
            return Ok(CapacityOutcome::Overtaken);
        }
        Ok(match self.ask(self.table.update(to), deadline).await? {
            CapacityUpdate::Accepted => CapacityOutcome::Raised,
            CapacityUpdate::InUse | CapacityUpdate::NoChange => CapacityOutcome::Overtaken,
            CapacityUpdate::LimitExceeded(why) => CapacityOutcome::Limited(why),
        })
    }

    fn report(
        &self,
        [reads, writes]: [CapacityDecision; 2],
        outcome: CapacityOutcome,
    ) -> CapacityReport {
        CapacityReport { mode: self.mode, reads, writes, outcome, rearm: Rearm::NotNeeded }
    }

    /// One answer by the deadline.
    async fn ask<A>(
        &self,
        question: impl Future<Output = Result<A, StoreError>>,
        deadline: Deadline,
    ) -> Result<A, Error> {
        once(self.clock, deadline, question, "DynamoDB or CloudWatch did not answer in time").await
    }
}

/// The capacity that the decisions make of what was seen, if they raise any of it.
fn raised(seen: &TableThroughput, decisions: [CapacityDecision; 2]) -> Option<CapacityUnits> {
    let seen = seen.provisioned?;
    let [reads, writes] = decisions.map(|decision| match decision {
        CapacityDecision::Raise { to, .. } => Some(to),
        _ => None,
    });
    (reads.is_some() || writes.is_some()).then(|| CapacityUnits {
        reads: reads.unwrap_or(seen.reads),
        writes: writes.unwrap_or(seen.writes),
    })
}

/// The periods in which CloudWatch gives metrics.
const PERIODS_SECS: [u32; 6] = [60, 30, 20, 10, 5, 1];

/// The longest time that is measured. What was earlier says little about the demand now.
const LONGEST_SECS: u64 = 900;

/// The window in whole periods of a metric.
fn measurable(window: HeatWindow) -> HeatWindow {
    let fits = |period: &&u32| **period <= window.period_secs;
    let period_secs = PERIODS_SECS.iter().find(fits).copied().unwrap_or(1);
    let earliest = window.to_secs.saturating_sub(LONGEST_SECS);
    let from_secs = window.from_secs.max(earliest);
    HeatWindow { from_secs: from_secs - from_secs % u64::from(period_secs), period_secs, ..window }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_measured_in_periods_that_cloudwatch_has() {
        let of = |from_secs, to_secs, period_secs| {
            let window = measurable(HeatWindow { from_secs, to_secs, period_secs });
            (window.from_secs, window.to_secs, window.period_secs)
        };
        assert_eq!(of(10_025, 10_210, 60), (10_020, 10_210, 60));
        assert_eq!(of(10_025, 10_031, 2), (10_025, 10_031, 1));
        assert_eq!(of(10_029, 10_061, 7), (10_025, 10_061, 5));
        assert_eq!(of(0, 100_000, 60), (99_060, 100_000, 60), "a quarter of an hour at most");
        assert_eq!(of(0, 1, 0), (0, 1, 1));
    }
}
