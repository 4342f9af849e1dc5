//! `DescribeAlarms` and `SetAlarmState`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::alarms::{AlarmState, AlarmStatus, Alarms};
use super::super::error::{ApiError, Fault};
use super::super::wire::Members;
use super::metrics::{metric_json, page};
use crate::clock::epoch_millis;
use crate::plan::{Alarm, MissingData, by_name, function_arn};

/// The most alarms of a page.
const MAX_RECORDS: usize = 100;

pub(super) fn describe(alarms: &Alarms, input: &Members<'_>) -> Result<Value, ApiError> {
    let names = input.texts("AlarmNames")?;
    let prefix = input.text("AlarmNamePrefix")?;
    if prefix.is_some() && !names.is_empty() {
        return Err(ApiError::combination("AlarmNames and AlarmNamePrefix exclude each other."));
    }
    let state = input.text("StateValue")?.map(|name| state(name, Fault::INVALID_PARAMETER_VALUE));
    let state = state.transpose()?;
    let action = input.text("ActionPrefix")?;
    let types = input.texts("AlarmTypes")?;
    // These two ask for composite alarms, which the stack does not have.
    let wants_composite =
        input.text("ChildrenOfAlarmName")?.is_some() || input.text("ParentsOfAlarmName")?.is_some();
    let is_wanted = |(alarm, status): &(Arc<Alarm>, AlarmStatus)| {
        !wants_composite
            && (types.is_empty() || types.contains(&"MetricAlarm"))
            && (names.is_empty() || names.contains(&alarm.name.as_str()))
            && prefix.is_none_or(|prefix| alarm.name.starts_with(prefix))
            && state.is_none_or(|state| status.state == state)
            && action.is_none_or(|prefix| {
                let actions = &alarm.actions;
                let groups = [&actions.ok, &actions.alarm, &actions.insufficient_data];
                groups.into_iter().flatten().any(|name| function_arn(name).starts_with(prefix))
            })
    };
    let found = alarms.list().into_iter().filter(is_wanted).collect();
    let size = input.size("MaxRecords", MAX_RECORDS)?.unwrap_or(MAX_RECORDS);
    let (found, next) = page(found, input, size)?;
    let found = found.iter().map(|(alarm, status)| described(alarm, status));
    Ok(json!({
        "CompositeAlarms": [],
        "MetricAlarms": found.collect::<Vec<_>>(),
        "NextToken": next,
    }))
}

pub(super) fn set_state(alarms: &Alarms, input: &Members<'_>) -> Result<Value, ApiError> {
    let name = input.require("AlarmName", Members::text)?;
    let state = state(input.require("StateValue", Members::text)?, Fault::VALIDATION)?;
    let reason = input.require("StateReason", Members::text)?;
    let data = input.text("StateReasonData")?;
    if let Some(data) = data
        && serde_json::from_str::<Value>(data).is_err()
    {
        let text = "The parameter StateReasonData must be JSON.";
        return Err(ApiError::new(Fault::INVALID_FORMAT, text));
    }
    alarms
        .set_state(name, state, reason, data)
        .map_err(|unknown| ApiError::new(Fault::RESOURCE_NOT_FOUND, unknown.to_string()))?;
    Ok(json!({}))
}

fn state(name: &str, fault: Fault) -> Result<AlarmState, ApiError> {
    let text = "The parameter StateValue must be OK, ALARM or INSUFFICIENT_DATA.";
    by_name(AlarmState::NAMES, name).ok_or_else(|| ApiError::new(fault, text))
}

fn described(alarm: &Alarm, status: &AlarmStatus) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "the milliseconds of any date are exact")]
    let updated = epoch_millis(status.since) as f64 / 1e3;
    let actions =
        |names: &[String]| names.iter().map(|name| function_arn(name)).collect::<Vec<_>>();
    let mut described = json!({
        "AlarmName": alarm.name,
        "AlarmArn": alarm.arn(),
        "AlarmDescription": alarm.description,
        "ActionsEnabled": alarm.actions_enabled,
        "OKActions": actions(&alarm.actions.ok),
        "AlarmActions": actions(&alarm.actions.alarm),
        "InsufficientDataActions": actions(&alarm.actions.insufficient_data),
        "StateValue": status.state.as_str(),
        "StateReason": status.reason,
        "StateReasonData": status.reason_data,
        "StateUpdatedTimestamp": updated,
        "StateTransitionedTimestamp": updated,
        "EvaluationPeriods": alarm.evaluation_periods,
        "DatapointsToAlarm": alarm.breaching_datapoints,
        "Threshold": alarm.threshold,
        "ComparisonOperator": alarm.comparison.as_str(),
        "TreatMissingData": alarm.missing_data.map(MissingData::as_str),
    });
    let (period, statistic) = (alarm.schedule.period_secs, alarm.statistic.as_str());
    let mut metric = metric_json(&alarm.metric);
    if let Some(fill) = &alarm.fill {
        // The expression that the alarm watches, and its metric.
        let stat = json!({ "Metric": metric, "Period": period, "Stat": statistic });
        described["Metrics"] = json!([
            { "Id": fill.id, "Expression": fill.expression(), "ReturnData": true },
            { "Id": fill.metric_id, "MetricStat": stat, "ReturnData": false },
        ]);
    } else {
        metric["Period"] = period.into();
        metric["Statistic"] = statistic.into();
        for (name, part) in metric.as_object_mut().into_iter().flatten() {
            described[name] = part.take();
        }
    }
    described
}
