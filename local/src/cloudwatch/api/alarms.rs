//! `DescribeAlarms` and `SetAlarmState`.

use super::super::alarms::{AlarmState, AlarmStatus, Alarms};
use super::super::error::{ApiError, Fault};
use super::super::wire::{Document, Members, structure};
use super::metric::dimensions;
use super::page::{first_of_page, page, page_size};
use crate::plan::{Alarm, Fill, MissingData, function_arn};
use serde_json::Value;
use std::sync::Arc;

/// The most alarms of a page.
const MAX_RECORDS: usize = 100;

pub(super) fn describe(alarms: &Alarms, input: &Members<'_>) -> Result<Document, ApiError> {
    let names = input.texts("AlarmNames")?;
    let prefix = input.text("AlarmNamePrefix")?;
    if prefix.is_some() && !names.is_empty() {
        return Err(ApiError::combination("AlarmNames and AlarmNamePrefix exclude each other."));
    }
    let state = input.text("StateValue")?.map(|name| state(name, Fault::InvalidParameterValue));
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
    let size = page_size(input, "MaxRecords", MAX_RECORDS)?;
    let (found, next) = page(found, first_of_page(input)?, size);
    Ok(structure([
        ("CompositeAlarms", Document::List(Vec::new())),
        (
            "MetricAlarms",
            found.iter().map(|(alarm, status)| alarm_document(alarm, status)).collect(),
        ),
        ("NextToken", next),
    ]))
}

pub(super) fn set_state(alarms: &Alarms, input: &Members<'_>) -> Result<Document, ApiError> {
    let name = input.require("AlarmName", Members::text)?;
    let state = state(input.require("StateValue", Members::text)?, Fault::Validation)?;
    let reason = input.require("StateReason", Members::text)?;
    let data = input.text("StateReasonData")?;
    if let Some(data) = data
        && serde_json::from_str::<Value>(data).is_err()
    {
        let text = "The parameter StateReasonData must be JSON.".to_owned();
        return Err(ApiError::new(Fault::InvalidFormat, text));
    }
    alarms
        .set_state(name, state, reason, data)
        .map_err(|unknown| ApiError::new(Fault::ResourceNotFound, unknown.to_string()))?;
    Ok(structure([]))
}

fn state(name: &str, fault: Fault) -> Result<AlarmState, ApiError> {
    let text = "The parameter StateValue must be OK, ALARM or INSUFFICIENT_DATA.";
    AlarmState::parse(name).ok_or_else(|| ApiError::new(fault, text.to_owned()))
}

fn alarm_document(alarm: &Alarm, status: &AlarmStatus) -> Document {
    let updated = Document::timestamp(status.since);
    let actions = |names: &[String]| Document::list(names.iter().map(|name| function_arn(name)));
    let (metric, secs) = (&alarm.metric, alarm.schedule.period_secs);
    // What an alarm on an expression has in its `Metrics`.
    let alone = |part: Document| if alarm.fill.is_some() { Document::Null } else { part };
    structure([
        ("AlarmName", (&alarm.name).into()),
        ("AlarmArn", alarm.arn().into()),
        ("AlarmDescription", alarm.description.as_ref().into()),
        ("ActionsEnabled", alarm.actions_enabled.into()),
        ("OKActions", actions(&alarm.actions.ok)),
        ("AlarmActions", actions(&alarm.actions.alarm)),
        ("InsufficientDataActions", actions(&alarm.actions.insufficient_data)),
        ("StateValue", status.state.as_str().into()),
        ("StateReason", (&status.reason).into()),
        ("StateReasonData", status.reason_data.as_ref().into()),
        ("StateUpdatedTimestamp", updated.clone()),
        ("StateTransitionedTimestamp", updated),
        ("EvaluationPeriods", alarm.evaluation_periods.into()),
        ("DatapointsToAlarm", alarm.breaching_datapoints.into()),
        ("Threshold", alarm.threshold.into()),
        ("ComparisonOperator", alarm.comparison.as_str().into()),
        ("TreatMissingData", alarm.missing_data.map(MissingData::as_str).into()),
        ("MetricName", alone((&metric.name).into())),
        ("Namespace", alone((&metric.namespace).into())),
        ("Statistic", alone(alarm.statistic.as_str().into())),
        ("Dimensions", alone(dimensions(metric))),
        ("Period", alone(secs.into())),
        ("Metrics", alarm.fill.as_ref().map_or(Document::Null, |fill| queries(alarm, fill))),
    ])
}

/// The expression that an alarm watches, and its metric.
fn queries(alarm: &Alarm, fill: &Fill) -> Document {
    let metric = structure([
        ("Namespace", (&alarm.metric.namespace).into()),
        ("MetricName", (&alarm.metric.name).into()),
        ("Dimensions", dimensions(&alarm.metric)),
    ]);
    let stat = structure([
        ("Metric", metric),
        ("Period", alarm.schedule.period_secs.into()),
        ("Stat", alarm.statistic.as_str().into()),
    ]);
    Document::List(vec![
        structure([
            ("Id", (&fill.id).into()),
            ("Expression", fill.expression().into()),
            ("ReturnData", true.into()),
        ]),
        structure([
            ("Id", (&fill.metric_id).into()),
            ("MetricStat", stat),
            ("ReturnData", false.into()),
        ]),
    ])
}
