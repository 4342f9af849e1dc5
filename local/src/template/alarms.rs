//! Alarms, and who may invoke a function.

use super::intrinsics::{FUNCTION, Scope};
use super::resource::Resource;
use super::yaml::{Node, Problem};
use crate::plan::{
    Alarm, AlarmActions, AlarmSchedule, ArnPattern, Comparison, Fill, MetricId, MissingData,
    Permission, Statistic, function_arn,
};
use std::collections::BTreeMap;

/// Reads an `AWS::CloudWatch::Alarm`. The ranges are those of `PutMetricAlarm`.
pub(super) fn alarm(resource: &Resource, scope: &Scope<'_>) -> Result<Alarm, Problem> {
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    properties.only(what, &PROPERTIES)?;
    let Watched { metric, fill, statistic, period_secs } = watched(properties, what)?;
    let evaluation_periods =
        whole_number(properties.require("EvaluationPeriods", what)?, "EvaluationPeriods", what)?;
    let breaching_datapoints = match properties.get("DatapointsToAlarm") {
        Some(node) => {
            let count = whole_number(node, "DatapointsToAlarm", what)?;
            if count > evaluation_periods {
                let text = format!("DatapointsToAlarm of {what} exceeds its EvaluationPeriods");
                return Err(Problem::at(node.line, text));
            }
            Some(count)
        }
        None => None,
    };
    let range = u64::from(evaluation_periods) * period_secs;
    let longest = if period_secs < 3600 { DAY_SECS } else { 7 * DAY_SECS };
    if range > longest {
        let text = format!(
            "the periods that {what} evaluates are {range} s together, and may be {longest} s"
        );
        return Err(Problem::at(properties.line, text));
    }
    let actions = |name: &str| functions(properties.get(name), name, what, scope);
    Ok(Alarm {
        name: text(properties, "AlarmName", what)?.unwrap_or_else(|| resource.id.clone()),
        description: text(properties, "AlarmDescription", what)?,
        metric,
        fill,
        statistic,
        schedule: AlarmSchedule::of_period(period_secs),
        evaluation_periods,
        breaching_datapoints,
        comparison: choice(
            properties.require("ComparisonOperator", what)?,
            "ComparisonOperator",
            what,
            &Comparison::ALL,
            Comparison::as_str,
        )?,
        threshold: threshold(properties.require("Threshold", what)?, what)?,
        missing_data: match properties.get("TreatMissingData") {
            Some(node) => {
                let known = &MissingData::ALL;
                Some(choice(node, "TreatMissingData", what, known, MissingData::as_str)?)
            }
            None => None,
        },
        actions_enabled: match properties.get("ActionsEnabled") {
            Some(node) => node.as_bool(&format!("ActionsEnabled of {what}"))?,
            None => true,
        },
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
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    properties
        .only(what, &["Action", "FunctionName", "Principal", "SourceAccount", "SourceArn"])?;
    let action = properties.require("Action", what)?;
    if !["lambda:InvokeFunction", "lambda:*"].contains(&action.as_text("Action")?) {
        let text =
            format!("the local stack knows the Action lambda:InvokeFunction only, at {what}");
        return Err(Problem::at(action.line, text));
    }
    let name = properties.require("FunctionName", what)?;
    let source_arn = match properties.get("SourceArn") {
        Some(node) => {
            let pattern = ArnPattern::parse(node.as_text(&format!("SourceArn of {what}"))?);
            let invalid = || Problem::at(node.line, format!("SourceArn of {what} is not an ARN"));
            Some(pattern.ok_or_else(invalid)?)
        }
        None => None,
    };
    Ok(Permission {
        function: function_named(name.as_text(&format!("FunctionName of {what}"))?, scope)
            .ok_or_else(|| {
                let text = format!("FunctionName of {what} must be a function of this template");
                Problem::at(name.line, text)
            })?,
        principal: properties
            .require("Principal", what)?
            .as_text(&format!("Principal of {what}"))?
            .to_owned(),
        source_account: text(properties, "SourceAccount", what)?,
        source_arn,
    })
}

const PROPERTIES: [&str; 18] = [
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "AlarmName",
    "ComparisonOperator",
    "DatapointsToAlarm",
    "Dimensions",
    "EvaluationPeriods",
    "InsufficientDataActions",
    "MetricName",
    "Metrics",
    "Namespace",
    "OKActions",
    "Period",
    "Statistic",
    "Tags",
    "Threshold",
    "TreatMissingData",
];

const DAY_SECS: u64 = 86_400;

/// What an alarm watches: a metric, as it is or filled.
struct Watched {
    metric: MetricId,
    fill: Option<Fill>,
    statistic: Statistic,
    period_secs: u64,
}

fn watched(properties: &Node, what: &str) -> Result<Watched, Problem> {
    let Some(queries) = properties.get("Metrics") else {
        return Ok(Watched {
            metric: metric(properties, what)?,
            fill: None,
            statistic: statistic(properties.require("Statistic", what)?, "Statistic", what)?,
            period_secs: period(properties.require("Period", what)?, what)?,
        });
    };
    let alone = ["Dimensions", "MetricName", "Namespace", "Period", "Statistic"];
    if let Some(other) = alone.iter().find(|name| properties.get(name).is_some()) {
        let text = format!("{what} has {other} beside Metrics; it belongs to one of the Metrics");
        return Err(Problem::at(queries.line, text));
    }
    let what = &format!("Metrics of {what}");
    let unknown = || {
        let text = format!("the local stack knows two {what} only: a metric m and FILL(m, NUMBER)");
        Problem::at(queries.line, text)
    };
    let (mut filled, mut measured) = (None, None);
    for query in queries.items(what)? {
        query.only(what, &["Expression", "Id", "Label", "MetricStat", "ReturnData"])?;
        let id = text(query, "Id", what)?.ok_or_else(unknown)?;
        let returns = query.get("ReturnData").map(|node| node.as_bool(what)).transpose()?;
        match (text(query, "Expression", what)?, query.get("MetricStat")) {
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
    stat.only(what, &["Metric", "Period", "Stat"])?;
    let of = stat.require("Metric", what)?;
    of.only(what, &["Dimensions", "MetricName", "Namespace"])?;
    Ok(Watched {
        metric: metric(of, what)?,
        fill: Some(Fill { id, metric_id, value: value.ok_or_else(unknown)? }),
        statistic: statistic(stat.require("Stat", what)?, "Stat", what)?,
        period_secs: period(stat.require("Period", what)?, what)?,
    })
}

fn metric(node: &Node, what: &str) -> Result<MetricId, Problem> {
    let required = |name: &str| {
        Ok(node.require(name, what)?.as_text(&format!("{name} of {what}"))?.to_owned())
    };
    let mut dimensions = BTreeMap::new();
    if let Some(list) = node.get("Dimensions") {
        let what = &format!("Dimensions of {what}");
        for dimension in list.items(what)? {
            dimension.only(what, &["Name", "Value"])?;
            let part = |name: &str| {
                let text = dimension.require(name, what)?.as_text(&format!("{name} of {what}"));
                Ok(text?.to_owned())
            };
            let name = part("Name")?;
            if dimensions.insert(name.clone(), part("Value")?).is_some() {
                return Err(Problem::at(dimension.line, format!("{what} have {name} twice")));
            }
        }
    }
    Ok(MetricId { namespace: required("Namespace")?, name: required("MetricName")?, dimensions })
}

fn statistic(node: &Node, name: &str, what: &str) -> Result<Statistic, Problem> {
    choice(node, name, what, &Statistic::ALL, Statistic::as_str)
}

fn period(node: &Node, what: &str) -> Result<u64, Problem> {
    let secs = u64::from(node.as_number(&format!("Period of {what}"))?);
    if [10, 20, 30].contains(&secs) || (secs > 0 && secs.is_multiple_of(60)) {
        return Ok(secs);
    }
    let text = format!("Period of {what} must be 10, 20, 30 or a multiple of 60");
    Err(Problem::at(node.line, text))
}

fn threshold(node: &Node, what: &str) -> Result<f64, Problem> {
    let number = node.as_text(&format!("Threshold of {what}"))?.parse().ok();
    number
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| Problem::at(node.line, format!("Threshold of {what} must be a number")))
}

/// A whole number of at least one.
fn whole_number(node: &Node, name: &str, what: &str) -> Result<u32, Problem> {
    let number = node.as_number_in(&format!("{name} of {what}"), 1..=i32::MAX)?;
    Ok(number.unsigned_abs())
}

/// The one of `known` whose name the node holds.
fn choice<T: Copy>(
    node: &Node,
    name: &str,
    what: &str,
    known: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T, Problem> {
    let given = node.as_text(&format!("{name} of {what}"))?;
    let found = known.iter().copied().find(|known| name_of(*known) == given);
    found.ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|known| name_of(*known)).collect();
        let known = known.join(", ");
        let text = format!("the local stack knows the {name} {known} only, not {given} of {what}");
        Problem::at(node.line, text)
    })
}

/// The actions of an alarm, each of which must be a function.
fn functions(
    node: Option<&Node>,
    name: &str,
    what: &str,
    scope: &Scope<'_>,
) -> Result<Vec<String>, Problem> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let what = &format!("{name} of {what}");
    let arns = node.items(what)?;
    if arns.len() > MAX_ACTIONS {
        return Err(Problem::at(node.line, format!("{what} may be {MAX_ACTIONS} at most")));
    }
    let function = |arn: &Node| {
        let text = arn.as_text(what)?;
        let named = function_named(text, scope).filter(|name| function_arn(name) == text);
        named.ok_or_else(|| {
            let text = format!(
                "the local stack knows actions that are functions of this template only: {what} \
                 must be !GetAtt Function.Arn, not {text}"
            );
            Problem::at(arn.line, text)
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

fn text(node: &Node, name: &str, what: &str) -> Result<Option<String>, Problem> {
    let text = node.get(name).map(|node| node.as_text(&format!("{name} of {what}")));
    Ok(text.transpose()?.map(str::to_owned))
}
