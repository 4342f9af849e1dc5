//! What an alarm is: what it watches, when a value breaches, and whom it calls.

use super::subject::Subject;
use crate::cloudwatch::AlarmState;
use crate::plan::{ACCOUNT_ID, REGION};

/// An alarm of the template (`CloudWatch` API: `PutMetricAlarm`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) subject: Subject,
    pub(crate) schedule: Schedule,
    /// How many datapoints are evaluated, N of "M out of N"; at least one.
    pub(crate) evaluation_periods: u32,
    /// How many of them must breach, M of "M out of N"; all without it.
    pub(crate) datapoints_to_alarm: Option<u32>,
    pub(crate) comparison: Comparison,
    pub(crate) threshold: f64,
    pub(crate) missing_data: Option<MissingData>,
    pub(crate) actions_enabled: bool,
    pub(crate) actions: Actions,
}

impl Definition {
    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:cloudwatch:{REGION}:{ACCOUNT_ID}:alarm:{}", self.name)
    }

    /// The same alarm with periods of another length, at whose ends it is evaluated.
    pub(crate) fn with_period(mut self, secs: u64) -> Self {
        self.schedule = Schedule { period_secs: secs, interval_secs: secs };
        self
    }

    /// How many of the evaluated datapoints must breach.
    pub(super) fn least_breaching(&self) -> u32 {
        self.datapoints_to_alarm.unwrap_or(self.evaluation_periods)
    }

    /// How missing datapoints are treated. Alarms on metrics of DynamoDB ignore them unless they
    /// say otherwise ("Configuring how `CloudWatch` alarms treat missing data" in `CloudWatch`'s
    /// user guide).
    pub(super) fn treatment(&self) -> MissingData {
        let ignores = self.subject.is_of("AWS/DynamoDB");
        let default = if ignores { MissingData::Ignore } else { MissingData::Missing };
        self.missing_data.unwrap_or(default)
    }
}

/// How long the periods of an alarm are, and how often it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The length of the period that makes one datapoint.
    pub(crate) period_secs: u64,
    /// The time between two evaluations.
    pub(crate) interval_secs: u64,
}

impl Schedule {
    /// As `CloudWatch` does it: each minute, and every 10 seconds where the period is shorter than a
    /// minute ("Alarm evaluation" in its user guide).
    pub(crate) const fn of_period(secs: u64) -> Self {
        Self { period_secs: secs, interval_secs: if secs < 60 { 10 } else { 60 } }
    }
}

/// How a breaching value stands to the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    pub(crate) const ALL: [Self; 4] =
        [Self::Greater, Self::GreaterOrEqual, Self::Less, Self::LessOrEqual];

    /// As it stands in templates and answers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Greater => "GreaterThanThreshold",
            Self::GreaterOrEqual => "GreaterThanOrEqualToThreshold",
            Self::Less => "LessThanThreshold",
            Self::LessOrEqual => "LessThanOrEqualToThreshold",
        }
    }

    /// As reasons say it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Greater => "greater than",
            Self::GreaterOrEqual => "greater than or equal to",
            Self::Less => "less than",
            Self::LessOrEqual => "less than or equal to",
        }
    }

    pub(super) fn breaches(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Greater => value > threshold,
            Self::GreaterOrEqual => value >= threshold,
            Self::Less => value < threshold,
            Self::LessOrEqual => value <= threshold,
        }
    }
}

/// What stands in for datapoints that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingData {
    /// A datapoint that breaches.
    Breaching,
    /// Nothing, and the state is kept where they would decide.
    Ignore,
    /// Nothing, and the alarm has insufficient data where all are missing.
    Missing,
    /// A datapoint that does not breach.
    NotBreaching,
}

impl MissingData {
    pub(crate) const ALL: [Self; 4] =
        [Self::Breaching, Self::Ignore, Self::Missing, Self::NotBreaching];

    /// As it stands in templates and answers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Breaching => "breaching",
            Self::Ignore => "ignore",
            Self::Missing => "missing",
            Self::NotBreaching => "notBreaching",
        }
    }
}

/// The functions that an alarm invokes on its transition into each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) alarm: Vec<String>,
    pub(crate) ok: Vec<String>,
    pub(crate) insufficient_data: Vec<String>,
}

impl Actions {
    pub(super) fn on(&self, state: AlarmState) -> &[String] {
        match state {
            AlarmState::Alarm => &self.alarm,
            AlarmState::Ok => &self.ok,
            AlarmState::InsufficientData => &self.insufficient_data,
        }
    }
}
