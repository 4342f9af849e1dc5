//! `GetInsightRuleReport` and `DescribeInsightRules`: Contributor Insights about the keys that tables throttle.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;

use dynashard_limits::partition::{Kind, Partitions, Resource};
use serde_json::{Value, json};

use super::super::error::{ApiError, Fault};
use super::super::wire::Members;
use super::metrics::page;
use crate::dynamodb::endpoint::{InsightRule, Observed, RuleKeys};

/// The most contributors that may be asked for.
const MAX_CONTRIBUTORS: usize = 100;
/// A report of DynamoDB's rules names at most so many, whatever is asked for.
const MAX_REPORTED: usize = 25;
/// The most rules of a page.
const MAX_RULES: usize = 500;

/// Reads and writes count alike, each throttled demand as one (`CloudWatch` API: `GetInsightRuleReport`).
pub(super) fn report(observed: &Observed, input: &Members<'_>) -> Result<Value, ApiError> {
    let name = input.require("RuleName", Members::text)?;
    let start = input.require("StartTime", Members::timestamp)?.as_secs();
    let end = input.require("EndTime", Members::timestamp)?.as_secs();
    if start >= end {
        return Err(ApiError::invalid("StartTime", "must be less than EndTime"));
    }
    let period_secs = input.require("Period", Members::whole)?;
    // As documented, any number of seconds: an alarm whose period was shortened asks for its own.
    if period_secs == 0 {
        return Err(ApiError::invalid("Period", "must be at least 1"));
    }
    let wanted = input.size("MaxContributorCount", MAX_CONTRIBUTORS)?.unwrap_or(10);
    // Contributors come in the order of their values over all periods, or of the greatest in one.
    let rank: fn(&[(u64, u64)]) -> u64 = match input.text("OrderBy")? {
        None | Some("Sum") => sum,
        Some("Maximum") => {
            |values| values.iter().map(|(_, value)| *value).max().unwrap_or_default()
        }
        Some(_) => return Err(ApiError::invalid("OrderBy", "must be Sum or Maximum")),
    };
    let metrics = input.texts("Metrics")?.into_iter().map(|name| {
        METRICS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let names = METRICS.map(|(name, _)| name).join(", ");
            ApiError::invalid("Metrics", &format!("must be of {names}"))
        })
    });
    let metrics = metrics.collect::<Result<Vec<_>, _>>()?;
    let rules = observed.insights.rules();
    let rule = rules.iter().find(|rule| rule.name == name).ok_or_else(|| {
        ApiError::new(Fault::RULE_NOT_FOUND, format!("There is no insight rule {name}."))
    })?;

    // The periods of which keys may still be known.
    let first = end.saturating_sub(Partitions::KEY_HISTORY_SECS).max(start);
    let step = usize::try_from(period_secs).unwrap_or(usize::MAX);
    let mut contributors = BTreeMap::<Vec<String>, Vec<(u64, u64)>>::new();
    let (mut aggregate, mut datapoints) = (0, Vec::new());
    for start in (first / period_secs * period_secs..end).step_by(step) {
        let counts = throttled(observed, rule, start..start + period_secs);
        if counts.is_empty() {
            continue;
        }
        let values = counts.iter().map(|(_, count)| *count).collect::<Vec<_>>();
        aggregate += values.iter().sum::<u64>();
        let mut point = json!({ "Timestamp": start });
        for (name, of) in &metrics {
            point[name] = of(&values).into();
        }
        datapoints.extend((!metrics.is_empty()).then_some(point));
        for (keys, count) in counts {
            contributors.entry(keys).or_default().push((start, count));
        }
    }
    let unique_contributors = contributors.len();
    let mut contributors = contributors.into_iter().collect::<Vec<_>>();
    contributors.sort_by_key(|(_, values)| Reverse(rank(values)));
    let contributors = contributors.iter().take(wanted.min(MAX_REPORTED)).map(|(keys, values)| {
        let datapoints = values
            .iter()
            .map(|(start, value)| json!({ "Timestamp": start, "ApproximateValue": float(*value) }));
        json!({
            "Keys": keys,
            "ApproximateAggregateValue": float(sum(values)),
            "Datapoints": datapoints.collect::<Vec<_>>(),
        })
    });
    Ok(json!({
        "KeyLabels": rule.key_labels,
        "AggregationStatistic": "SUM",
        "AggregateValue": float(aggregate),
        "ApproximateUniqueCount": unique_contributors,
        "Contributors": contributors.collect::<Vec<_>>(),
        "MetricDatapoints": datapoints,
    }))
}

pub(super) fn describe(observed: &Observed, input: &Members<'_>) -> Result<Value, ApiError> {
    let size = input.size("MaxResults", MAX_RULES)?.unwrap_or(MAX_RULES);
    let (rules, next) = page(observed.insights.rules(), input, size)?;
    let rules = rules.iter().map(|rule| {
        json!({
            "Name": rule.name,
            "State": "ENABLED",
            "Schema": r#"{"Name":"CloudWatchLogRule","Version":1}"#,
            "Definition": definition(rule),
            "ManagedRule": true,
        })
    });
    Ok(json!({ "InsightRules": rules.collect::<Vec<_>>(), "NextToken": next }))
}

/// A number that a report may give for each period, of the contributors' values, the greatest first.
type ReportMetric = (&'static str, fn(&[u64]) -> f64);

#[expect(clippy::cast_precision_loss, reason = "there are fewer contributors")]
const METRICS: [ReportMetric; 7] = [
    ("UniqueContributors", |values| values.len() as f64),
    ("MaxContributorValue", |values| float(values[0])),
    ("SampleCount", |values| float(values.iter().sum())),
    ("Sum", |values| float(values.iter().sum())),
    ("Minimum", |values| float(values[values.len() - 1])),
    ("Maximum", |values| float(values[0])),
    ("Average", |values| float(values.iter().sum()) / values.len() as f64),
];

/// The keys that a rule counts, by how often they were throttled, the most throttled first.
fn throttled(
    observed: &Observed,
    rule: &InsightRule,
    seconds: std::ops::Range<u64>,
) -> Vec<(Vec<String>, u64)> {
    let resource = Resource { table: &rule.table, index: rule.index.as_deref() };
    let kinds = [Kind::Read, Kind::Write];
    let counts = observed.partitions(|partitions| match rule.keys {
        RuleKeys::PartitionKeys => {
            partitions.statistics().throttled_partition_keys(resource, &kinds, seconds, usize::MAX)
        }
        RuleKeys::Items => {
            partitions.statistics().throttled_items(resource, &kinds, seconds, usize::MAX)
        }
    });
    let keys = |(key, count): (dynashard_limits::partition::ThrottledKey, u64)| {
        (iter::once(key.partition_key).chain(key.sort_key).collect(), count)
    };
    counts.into_iter().map(keys).collect()
}

fn sum(values: &[(u64, u64)]) -> u64 {
    values.iter().map(|(_, value)| value).sum()
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 within half an hour")]
fn float(count: u64) -> f64 {
    count as f64
}

/// The definition of a rule, in a schema of our own: AWS does not show that of a managed rule.
fn definition(rule: &InsightRule) -> String {
    let resource = match &rule.index {
        Some(index) => format!("table/{}/index/{index}", rule.table),
        None => format!("table/{}", rule.table),
    };
    let counts = match rule.keys {
        RuleKeys::PartitionKeys => "the most throttled partition keys",
        RuleKeys::Items => "the most throttled items",
    };
    json!({
        "Resource": resource,
        "Contribution": { "Keys": rule.key_labels, "Of": counts },
        "AggregateOn": "Count",
    })
    .to_string()
}
