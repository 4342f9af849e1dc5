//! What the datapoints of a metric say of an alarm's state.
//!
//! The rules are those of "Alarm evaluation" and "Configuring how `CloudWatch` alarms treat missing
//! data" in `CloudWatch`'s user guide; the tests hold their tables.

use std::ops::Range;

use super::AlarmState;
use crate::cloudwatch::statistics::MetricSource;
use crate::plan::{Alarm, MissingData};

/// The result of one evaluation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Evaluation {
    /// The new state; `None` keeps the current one.
    pub(super) state: Option<AlarmState>,
    /// The datapoints that decided, the newest first.
    pub(super) datapoints: Vec<Datapoint>,
}

/// One period of the metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Datapoint {
    /// When the period began, in seconds since the Unix epoch.
    pub(super) start: u64,
    /// What was measured in it, if anything.
    pub(super) value: Option<Value>,
}

/// What was measured in one period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) sample_count: f64,
}

/// Evaluates an alarm on the periods that end at `end`, in seconds since the Unix epoch.
pub(super) fn evaluate(alarm: &Alarm, source: &dyn MetricSource, end: u64) -> Evaluation {
    let range = retrieve(alarm, source, end);
    let datapoints = decisive(&range, alarm.evaluation_periods);
    let state = judge(alarm, &datapoints, end);
    Evaluation { state, datapoints }
}

/// How many datapoints more than its evaluation periods an alarm looks at, in case some are
/// missing. The user guide gives the number in its examples only: 5 for 3 evaluation periods.
const SPARE_DATAPOINTS: u32 = 2;

/// The datapoints of the evaluation range, the newest first.
fn retrieve(alarm: &Alarm, source: &dyn MetricSource, end: u64) -> Vec<Datapoint> {
    let period = alarm.schedule.period_secs;
    let starts = (1..=u64::from(alarm.evaluation_periods + SPARE_DATAPOINTS))
        .map_while(|age| end.checked_sub(age * period));
    let mut datapoints = starts
        .map(|start| {
            let value = measure(alarm, source, start..start + period);
            Datapoint { start, value }
        })
        .collect::<Vec<_>>();
    // Where nothing is measured at all, there is nothing to fill.
    if let Some(fill) = &alarm.fill
        && datapoints.iter().any(|datapoint| datapoint.value.is_some())
    {
        let filled = Value { value: fill.value, sample_count: 0.0 };
        for datapoint in &mut datapoints {
            datapoint.value.get_or_insert(filled);
        }
    }
    datapoints
}

fn measure(alarm: &Alarm, source: &dyn MetricSource, seconds: Range<u64>) -> Option<Value> {
    let values = source.statistics(&alarm.metric, seconds)?;
    let sample_count = values.sample_count;
    (sample_count > 0.0).then(|| Value { value: values.get(alarm.statistic), sample_count })
}

/// The newest datapoints, as many as are evaluated. Where these are too few, the newest missing ones
/// fill them up.
fn decisive(range: &[Datapoint], evaluation_periods: u32) -> Vec<Datapoint> {
    let wanted = evaluation_periods as usize;
    let real = range.iter().filter(|datapoint| datapoint.value.is_some()).count();
    let mut to_fill = wanted.saturating_sub(real);
    let chosen = range.iter().copied().filter(|datapoint| {
        let fills = datapoint.value.is_none() && to_fill > 0;
        to_fill -= usize::from(fills);
        fills || datapoint.value.is_some()
    });
    chosen.take(wanted).collect()
}

fn judge(alarm: &Alarm, datapoints: &[Datapoint], end: u64) -> Option<AlarmState> {
    let breaches = |value: f64| alarm.comparison.breaches(value, alarm.threshold);
    let is_breaching =
        |datapoint: &&Datapoint| datapoint.value.is_some_and(|measured| breaches(measured.value));
    let missing = datapoints.iter().filter(|datapoint| datapoint.value.is_none()).count();
    let breaching = datapoints.iter().filter(is_breaching).count();
    let not_breaching = datapoints.len() - missing - breaching;
    let least = alarm.least_breaching() as usize;
    let counted = |breaching| if breaching >= least { AlarmState::Alarm } else { AlarmState::Ok };
    let treatment = alarm.treatment();
    match treatment {
        MissingData::Breaching => Some(counted(breaching + missing)),
        MissingData::NotBreaching => Some(counted(breaching)),
        _ if breaching >= least || not_breaching > 0 => Some(counted(breaching)),
        // All that is left are too few datapoints that breach, and gaps.
        MissingData::Ignore => None,
        MissingData::Missing if breaching == 0 => Some(AlarmState::InsufficientData),
        MissingData::Missing => {
            // "Avoiding premature transitions to alarm state": the gaps could still be filled by
            // datapoints that do not breach, until the oldest one that does is old enough.
            let oldest = datapoints.iter().rfind(is_breaching)?;
            let age = (end - oldest.start) / alarm.schedule.period_secs;
            (age >= least as u64).then_some(AlarmState::Alarm)
        }
    }
}
