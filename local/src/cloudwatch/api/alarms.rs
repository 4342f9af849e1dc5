//! `DescribeAlarms` and `SetAlarmState`.

use super::super::wire::{Document, Members, structure};
use super::super::{AlarmDescription, AlarmRegistry, AlarmState, MetricStat, QuerySource, Watched};
use super::{ApiError, Fault, dimensions, first_of_page, page, page_size};
use serde_json::Value;

/// The most alarms of a page.
const MAX_RECORDS: usize = 100;

pub(super) fn describe(
    registry: &dyn AlarmRegistry,
    input: &Members<'_>,
) -> Result<Document, ApiError> {
    let names = input.texts("AlarmNames")?;
    let prefix = input.text("AlarmNamePrefix")?;
    if prefix.is_some() && !names.is_empty() {
        return Err(ApiError::combination("AlarmNames and AlarmNamePrefix exclude each other."));
    }
    let state = input.text("StateValue")?.map(|name| state(name, Fault::InvalidParameterValue));
    let state = state.transpose()?;
    let action = input.text("ActionPrefix")?;
    let types = input.texts("AlarmTypes")?;
    // Composite alarms there are none, and they are what these two ask for.
    let wants_composite =
        input.text("ChildrenOfAlarmName")?.is_some() || input.text("ParentsOfAlarmName")?.is_some();
    let is_wanted = |alarm: &AlarmDescription| {
        !wants_composite
            && (types.is_empty() || types.contains(&"MetricAlarm"))
            && (names.is_empty() || names.contains(&alarm.name.as_str()))
            && prefix.is_none_or(|prefix| alarm.name.starts_with(prefix))
            && state.is_none_or(|state| alarm.state == state)
            && action.is_none_or(|prefix| {
                let groups =
                    [&alarm.ok_actions, &alarm.alarm_actions, &alarm.insufficient_data_actions];
                groups.into_iter().flatten().any(|action| action.starts_with(prefix))
            })
    };
    let found = registry.describe().into_iter().filter(is_wanted).collect();
    let size = page_size(input, "MaxRecords", MAX_RECORDS)?;
    let (found, next) = page(found, first_of_page(input)?, size);
    Ok(structure([
        ("CompositeAlarms", Document::List(Vec::new())),
        ("MetricAlarms", found.iter().map(alarm_document).collect()),
        ("NextToken", next),
    ]))
}

pub(super) fn set_state(
    registry: &dyn AlarmRegistry,
    input: &Members<'_>,
) -> Result<Document, ApiError> {
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
    registry
        .set_state(name, state, reason, data)
        .map_err(|unknown| ApiError::new(Fault::ResourceNotFound, unknown.to_string()))?;
    Ok(structure([]))
}

fn state(name: &str, fault: Fault) -> Result<AlarmState, ApiError> {
    let text = "The parameter StateValue must be OK, ALARM or INSUFFICIENT_DATA.";
    AlarmState::parse(name).ok_or_else(|| ApiError::new(fault, text.to_owned()))
}

fn alarm_document(alarm: &AlarmDescription) -> Document {
    let updated = Document::timestamp(alarm.state_updated);
    let mut document = structure([
        ("AlarmName", (&alarm.name).into()),
        ("AlarmArn", (&alarm.arn).into()),
        ("AlarmDescription", alarm.description.as_ref().into()),
        ("ActionsEnabled", alarm.actions_enabled.into()),
        ("OKActions", Document::list(&alarm.ok_actions)),
        ("AlarmActions", Document::list(&alarm.alarm_actions)),
        ("InsufficientDataActions", Document::list(&alarm.insufficient_data_actions)),
        ("StateValue", alarm.state.as_str().into()),
        ("StateReason", (&alarm.state_reason).into()),
        ("StateReasonData", alarm.state_reason_data.as_ref().into()),
        ("StateUpdatedTimestamp", updated.clone()),
        ("StateTransitionedTimestamp", updated),
        ("EvaluationPeriods", alarm.evaluation_periods.into()),
        ("DatapointsToAlarm", alarm.datapoints_to_alarm.into()),
        ("Threshold", alarm.threshold.into()),
        ("ComparisonOperator", (&alarm.comparison_operator).into()),
        ("TreatMissingData", alarm.treat_missing_data.as_ref().into()),
    ]);
    if let Document::Structure(members) = &mut document {
        members.extend(watched(&alarm.watched));
    }
    document
}

fn watched(watched: &Watched) -> Vec<(String, Document)> {
    let members = match watched {
        Watched::Metric(stat) => structure([
            ("MetricName", (&stat.metric.name).into()),
            ("Namespace", (&stat.metric.namespace).into()),
            ("Statistic", (&stat.statistic).into()),
            ("Dimensions", dimensions(&stat.metric)),
            ("Period", stat.period_secs.into()),
        ]),
        Watched::Queries(queries) => {
            let queries = queries.iter().map(|query| {
                let (stat, expression, period) = match &query.source {
                    QuerySource::Metric(stat) => (metric_stat(stat), None, None),
                    QuerySource::Expression { expression, period_secs } => {
                        (Document::Null, Some(expression), *period_secs)
                    }
                };
                structure([
                    ("Id", (&query.id).into()),
                    ("MetricStat", stat),
                    ("Expression", expression.into()),
                    ("Label", query.label.as_ref().into()),
                    ("ReturnData", query.return_data.into()),
                    ("Period", period.into()),
                ])
            });
            structure([("Metrics", queries.collect())])
        }
    };
    match members {
        Document::Structure(members) => members,
        _ => Vec::new(),
    }
}

fn metric_stat(stat: &MetricStat) -> Document {
    let metric = structure([
        ("Namespace", (&stat.metric.namespace).into()),
        ("MetricName", (&stat.metric.name).into()),
        ("Dimensions", dimensions(&stat.metric)),
    ]);
    structure([
        ("Metric", metric),
        ("Period", stat.period_secs.into()),
        ("Stat", (&stat.statistic).into()),
    ])
}
