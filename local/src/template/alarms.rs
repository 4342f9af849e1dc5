//! Alarms, and who may invoke a function.

use std::collections::BTreeMap;

use super::intrinsics::{FUNCTION, Scope};
use super::named::Named;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{
    Alarm, AlarmActions, AlarmSchedule, Comparison, Fill, MetricId, MissingData, Permission,
    Statistic, TextPattern, function_arn,
};

/// Reads an `AWS::CloudWatch::Alarm`. The ranges are those of `PutMetricAlarm`.
pub(super) fn alarm(resource: &Resource, scope: &Scope<'_>) -> Result<Alarm, Problem> {
    let properties = resource.properties(PROPERTIES)?;
    let what = &properties.what;
    let Watched { metric, fill, statistic, period_secs } = watched(&properties)?;
    let evaluation_periods = whole_number(&properties.require("EvaluationPeriods")?)?;
    let breaching_datapoints = properties.optional("DatapointsToAlarm", |node| {
        let count = whole_number(node)?;
        if count > evaluation_periods {
            let text = format!("DatapointsToAlarm of {what} exceeds its EvaluationPeriods");
            return Err(node.problem(text));
        }
        Ok(count)
    })?;
    let range = u64::from(evaluation_periods) * period_secs;
    let longest = if period_secs < 3600 { DAY_SECS } else { 7 * DAY_SECS };
    if range > longest {
        return Err(properties.problem(format!(
            "the periods that {what} evaluates are {range} s together, and may be {longest} s"
        )));
    }
    let actions = |name: &str| {
        let actions = properties.optional(name, |actions| functions(actions, scope))?;
        Ok(actions.unwrap_or_default())
    };
    let name = properties.optional("AlarmName", Named::owned)?;
    Ok(Alarm {
        name: name.unwrap_or_else(|| resource.id.clone()),
        description: properties.optional("AlarmDescription", Named::owned)?,
        metric,
        fill,
        statistic,
        schedule: AlarmSchedule::of_period(period_secs),
        evaluation_periods,
        breaching_datapoints,
        comparison: properties.require("ComparisonOperator")?.choice(Comparison::NAMES)?,
        threshold: threshold(&properties.require("Threshold")?)?,
        missing_data: properties
            .optional("TreatMissingData", |node| node.choice(MissingData::NAMES))?,
        actions_enabled: properties.optional("ActionsEnabled", Named::flag)?.unwrap_or(true),
        actions: AlarmActions {
            alarm: actions("AlarmActions")?,
            ok: actions("OKActions")?,
            insufficient_data: actions("InsufficientDataActions")?,
        },
    })
}

/// Reads an `AWS::Lambda::Permission`. The stack checks the permissions of alarms and of the HTTP
/// API, so one for another principal changes nothing.
pub(super) fn permission(resource: &Resource, scope: &Scope<'_>) -> Result<Permission, Problem> {
    let properties =
        resource.properties("Action FunctionName Principal SourceAccount SourceArn")?;
    properties.require("Action")?.choice(&[("lambda:InvokeFunction", ()), ("lambda:*", ())])?;
    let name = properties.require("FunctionName")?;
    Ok(Permission {
        function: function_named(name.text()?, scope)
            .ok_or_else(|| name.wrong("a function of this template"))?,
        principal: properties.require("Principal")?.owned()?,
        source_account: properties.optional("SourceAccount", Named::owned)?,
        source_arn: properties.optional("SourceArn", |node| {
            TextPattern::of_arn(node.text()?)
                .ok_or_else(|| node.problem(format!("{} is not an ARN", node.what)))
        })?,
    })
}

const PROPERTIES: &str = "ActionsEnabled AlarmActions AlarmDescription AlarmName ComparisonOperator \
    DatapointsToAlarm Dimensions EvaluationPeriods InsufficientDataActions MetricName Metrics Namespace \
    OKActions Period Statistic Tags Threshold TreatMissingData";

const DAY_SECS: u64 = 86_400;

/// What an alarm watches: a metric, as it is or filled.
struct Watched {
    metric: MetricId,
    fill: Option<Fill>,
    statistic: Statistic,
    period_secs: u64,
}

fn watched(properties: &Named<'_>) -> Result<Watched, Problem> {
    let Some(queries) = properties.get("Metrics") else {
        return Ok(Watched {
            metric: metric(properties)?,
            fill: None,
            statistic: properties.require("Statistic")?.choice(Statistic::NAMES)?,
            period_secs: period(&properties.require("Period")?)?,
        });
    };
    let alone = ["Dimensions", "MetricName", "Namespace", "Period", "Statistic"];
    if let Some(other) = alone.iter().find(|name| properties.get(name).is_some()) {
        let what = &properties.what;
        return Err(queries.problem(format!(
            "{what} has {other} beside Metrics; it belongs to one of the Metrics"
        )));
    }
    let unknown = || {
        let what = &queries.what;
        let text = format!("the local stack knows two {what} only: a metric m and FILL(m, NUMBER)");
        queries.problem(text)
    };
    let (mut filled, mut measured) = (None, None);
    for query in queries.items()? {
        query.only("Expression Id Label MetricStat ReturnData")?;
        let id = query.optional("Id", Named::owned)?.ok_or_else(unknown)?;
        let returns = query.optional("ReturnData", Named::flag)?;
        match (query.optional("Expression", Named::owned)?, query.get("MetricStat")) {
            (Some(expression), None) if returns != Some(false) => filled = Some((id, expression)),
            (None, Some(stat)) if returns == Some(false) => measured = Some((id, stat)),
            _ => return Err(unknown()),
        }
    }
    let ((id, expression), (metric_id, stat)) = filled.zip(measured).ok_or_else(unknown)?;
    let call = expression.strip_prefix("FILL(").and_then(|rest| rest.strip_suffix(')'));
    let (of, value) = call.and_then(|call| call.split_once(',')).ok_or_else(unknown)?;
    let value = value.trim().parse().ok().filter(|value: &f64| value.is_finite());
    if of.trim() != metric_id {
        return Err(unknown());
    }
    let of = stat.only("Metric Period Stat")?.require("Metric")?;
    Ok(Watched {
        metric: metric(of.only("Dimensions MetricName Namespace")?)?,
        fill: Some(Fill { id, metric_id, value: value.ok_or_else(unknown)? }),
        statistic: stat.require("Stat")?.choice(Statistic::NAMES)?,
        period_secs: period(&stat.require("Period")?)?,
    })
}

fn metric(of: &Named<'_>) -> Result<MetricId, Problem> {
    let mut dimensions = BTreeMap::new();
    for dimension in of.optional("Dimensions", Named::items)?.into_iter().flatten() {
        let (name, value) =
            (dimension.only("Name Value")?.require("Name")?.owned()?, dimension.require("Value")?);
        if dimensions.insert(name.clone(), value.owned()?).is_some() {
            return Err(dimension.problem(format!("{} have {name} twice", dimension.what)));
        }
    }
    Ok(MetricId {
        namespace: of.require("Namespace")?.owned()?,
        name: of.require("MetricName")?.owned()?,
        dimensions,
    })
}

fn period(node: &Named<'_>) -> Result<u64, Problem> {
    let secs = u64::from(node.number()?);
    if [10, 20, 30].contains(&secs) || (secs > 0 && secs.is_multiple_of(60)) {
        return Ok(secs);
    }
    Err(node.wrong("10, 20, 30 or a multiple of 60"))
}

fn threshold(node: &Named<'_>) -> Result<f64, Problem> {
    let number = node.text()?.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| node.wrong("a number"))
}

/// A whole number of at least one.
fn whole_number(node: &Named<'_>) -> Result<u32, Problem> {
    Ok(node.number_in(1..=i32::MAX)?.unsigned_abs())
}

/// The actions of an alarm, each of which must be a function.
fn functions(actions: &Named<'_>, scope: &Scope<'_>) -> Result<Vec<String>, Problem> {
    let (what, arns) = (&actions.what, actions.items()?);
    if arns.len() > MAX_ACTIONS {
        return Err(actions.problem(format!("{what} may be {MAX_ACTIONS} at most")));
    }
    let function = |arn: &Named<'_>| {
        let text = arn.text()?;
        let named = function_named(text, scope).filter(|name| function_arn(name) == text);
        named.ok_or_else(|| {
            arn.problem(format!(
                "the local stack knows actions that are functions of this template only: {what} \
                 must be !GetAtt Function.Arn, not {text}"
            ))
        })
    };
    arns.iter().map(function).collect()
}

/// The most actions that an alarm may have for each state.
const MAX_ACTIONS: usize = 5;

/// The function of the template with this name or ARN.
fn function_named(text: &str, scope: &Scope<'_>) -> Option<String> {
    let name = text.rsplit(':').next()?;
    let is_function = scope.resources.get(name).is_some_and(|kind| kind == FUNCTION);
    (is_function && (text == name || text == function_arn(name))).then(|| name.to_owned())
}
