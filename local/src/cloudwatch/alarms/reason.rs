//! Why an alarm is in its state, in the words and in the JSON of `CloudWatch`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use time::macros::format_description;

use super::AlarmState;
use super::evaluation::{Evaluation, Value};
use crate::clock;
use crate::plan::{Alarm, Comparison, MissingData};

/// The reason of an alarm before its first evaluation.
pub(super) const INITIAL: &str = "Unchecked: Initial alarm creation";

/// Why the alarm goes into `state`.
pub(super) fn text(alarm: &Alarm, evaluation: &Evaluation, state: AlarmState) -> String {
    let datapoints = &evaluation.datapoints;
    let missing = datapoints.iter().filter(|datapoint| datapoint.value.is_none()).count();
    if state == AlarmState::InsufficientData {
        return format!("Insufficient Data: {} unknown.", counted(missing, "datapoint"));
    }
    let treated = || {
        let treatment = match alarm.treatment() {
            MissingData::Breaching => "Breaching",
            MissingData::NotBreaching => "NonBreaching",
            MissingData::Ignore => "Ignored",
            MissingData::Missing => "Missing",
        };
        let gaps = counted(missing, "missing datapoint");
        format!("{gaps} treated as [{treatment}]")
    };
    if missing == datapoints.len() {
        let periods = plural(missing, "period");
        let treated = treated();
        return format!(
            "Threshold Crossed: no datapoints were received for {periods} and {treated}."
        );
    }
    let breaching = state == AlarmState::Alarm;
    let supports =
        |measured: &Value| alarm.comparison.breaches(measured.value, alarm.threshold) == breaching;
    let supporting: Vec<_> = datapoints
        .iter()
        .filter_map(|datapoint| {
            let measured = datapoint.value.filter(supports)?;
            Some(format!("{:?} ({})", measured.value, short(datapoint.start)))
        })
        .collect();
    let mut parts = Vec::new();
    if !supporting.is_empty() {
        let count = supporting.len();
        let datapoints = match alarm.breaching_datapoints {
            Some(_) => {
                format!("{count} out of the last {} datapoints", alarm.evaluation_periods)
            }
            None => plural(count, "datapoint"),
        };
        let verb = if count == 1 { "was" } else { "were" };
        let not = if breaching { "" } else { "not " };
        let values = supporting.join(", ");
        let words = words(alarm.comparison);
        let threshold = alarm.threshold;
        parts.push(format!(
            "{datapoints} [{values}] {verb} {not}{words} the threshold ({threshold:?})"
        ));
    }
    if missing > 0 {
        parts.push(treated());
    }
    let minimum = alarm.breaching_datapoints.map(|to_alarm| {
        let (least, transition) = if breaching {
            (to_alarm, "OK -> ALARM")
        } else {
            (alarm.evaluation_periods - to_alarm + 1, "ALARM -> OK")
        };
        let least = plural(least as usize, "datapoint");
        format!(" (minimum {least} for {transition} transition)")
    });
    format!("Threshold Crossed: {}{}.", parts.join(" and "), minimum.unwrap_or_default())
}

/// The data behind the reason, as JSON.
pub(super) fn data(alarm: &Alarm, evaluation: &Evaluation, now: SystemTime) -> String {
    let datapoints = &evaluation.datapoints;
    let received = || datapoints.iter().rev().filter(|datapoint| datapoint.value.is_some());
    let data = ReasonData {
        version: "1.0",
        query_date: timestamp(now),
        start_date: received().next().map(|oldest| timestamp(at(oldest.start))),
        statistic: alarm.statistic.as_str(),
        period: alarm.schedule.period_secs,
        recent_datapoints: received()
            .filter_map(|datapoint| datapoint.value)
            .map(|it| it.value)
            .collect(),
        threshold: alarm.threshold,
        evaluated_datapoints: datapoints
            .iter()
            .map(|datapoint| EvaluatedDatapoint {
                timestamp: timestamp(at(datapoint.start)),
                sample_count: datapoint.value.map(|measured| measured.sample_count),
                value: datapoint.value.map(|measured| measured.value),
            })
            .collect(),
    };
    // Numbers and texts only: JSON can express all of it.
    serde_json::to_string(&data).unwrap_or_default()
}

/// A time as alarms write it: `2026-11-20T10:10:10.123+0000`.
pub(crate) fn timestamp(time: SystemTime) -> String {
    clock::format(
        time,
        format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]+0000"
        ),
    )
}

/// The beginning of a period as reasons write it: `20/11/26 10:10:00`.
fn short(secs: u64) -> String {
    clock::format(
        at(secs),
        format_description!("[day]/[month]/[year repr:last_two] [hour]:[minute]:[second]"),
    )
}

fn at(secs: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
}

/// A comparison as reasons say it.
const fn words(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Greater => "greater than",
        Comparison::GreaterOrEqual => "greater than or equal to",
        Comparison::Less => "less than",
        Comparison::LessOrEqual => "less than or equal to",
    }
}

/// `1 datapoint`, `2 datapoints`.
fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `1 datapoint was`, `2 datapoints were`.
fn counted(count: usize, noun: &str) -> String {
    format!("{} {}", plural(count, noun), if count == 1 { "was" } else { "were" })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReasonData {
    version: &'static str,
    query_date: String,
    /// The beginning of the oldest datapoint, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_date: Option<String>,
    statistic: &'static str,
    period: u64,
    /// The values that were received, the oldest first.
    recent_datapoints: Vec<f64>,
    threshold: f64,
    /// All that was evaluated, gaps included, the newest first.
    evaluated_datapoints: Vec<EvaluatedDatapoint>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EvaluatedDatapoint {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_count: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
}
