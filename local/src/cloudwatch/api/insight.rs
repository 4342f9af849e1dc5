//! `GetInsightRuleReport` and `DescribeInsightRules`.

use serde_json::{Value, json};

use super::super::error::{ApiError, Fault};
use super::super::insights::{self, Period, ReportOrder, ReportRequest};
use super::super::wire::Members;
use super::page::{first_of_page, page, page_size};
use crate::dynamodb::endpoint::{InsightRule, Observed, RuleKeys};

/// The most contributors that may be asked for.
const MAX_CONTRIBUTORS: usize = 100;
/// How many contributors a report has by default.
const DEFAULT_CONTRIBUTORS: u64 = 10;
/// The most rules of a page.
const MAX_RULES: usize = 500;

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
    let wanted = input.whole("MaxContributorCount")?.unwrap_or(DEFAULT_CONTRIBUTORS);
    let max_contributors = usize::try_from(wanted).ok();
    let max_contributors = max_contributors
        .filter(|count| (1..=MAX_CONTRIBUTORS).contains(count))
        .ok_or_else(|| {
            let problem = format!("must be 1 to {MAX_CONTRIBUTORS}");
            ApiError::invalid("MaxContributorCount", &problem)
        })?;
    let order = match input.text("OrderBy")? {
        None | Some("Sum") => ReportOrder::Sum,
        Some("Maximum") => ReportOrder::Maximum,
        Some(_) => return Err(ApiError::invalid("OrderBy", "must be Sum or Maximum")),
    };
    let metrics = input.texts("Metrics")?;
    let metrics: Vec<_> = metrics
        .into_iter()
        .map(|name| {
            METRICS.iter().find(|metric| metric.name == name).ok_or_else(|| {
                let names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
                ApiError::invalid("Metrics", &format!("must be of {}", names.join(", ")))
            })
        })
        .collect::<Result<_, _>>()?;
    let rules = observed.insights().rules();
    let rule = rules.iter().find(|rule| rule.name == name).ok_or_else(|| {
        ApiError::new(Fault::RULE_NOT_FOUND, format!("There is no insight rule {name}."))
    })?;
    let request = ReportRequest { seconds: start..end, period_secs, max_contributors, order };
    Ok(reported(rule, &insights::report(observed, rule, &request), &metrics))
}

pub(super) fn describe(observed: &Observed, input: &Members<'_>) -> Result<Value, ApiError> {
    let size = page_size(input, "MaxResults", MAX_RULES)?;
    let (rules, next) = page(observed.insights().rules(), first_of_page(input)?, size);
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

/// A number that a report may give for each period.
struct ReportMetric {
    name: &'static str,
    of: fn(&Period) -> f64,
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 within half an hour")]
const METRICS: [ReportMetric; 7] = [
    ReportMetric { name: "UniqueContributors", of: |period| period.values.len() as f64 },
    ReportMetric { name: "MaxContributorValue", of: |period| period.maximum() as f64 },
    ReportMetric { name: "SampleCount", of: |period| period.sum() as f64 },
    ReportMetric { name: "Sum", of: |period| period.sum() as f64 },
    ReportMetric { name: "Minimum", of: |period| period.minimum() as f64 },
    ReportMetric { name: "Maximum", of: |period| period.maximum() as f64 },
    ReportMetric {
        name: "Average",
        of: |period| period.sum() as f64 / period.values.len().max(1) as f64,
    },
];

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 within half an hour")]
fn reported(rule: &InsightRule, report: &insights::Report, metrics: &[&ReportMetric]) -> Value {
    let contributors = report.contributors.iter().map(|contributor| {
        let datapoints = contributor
            .datapoints
            .iter()
            .map(|(start, value)| json!({ "Timestamp": start, "ApproximateValue": *value as f64 }));
        json!({
            "Keys": contributor.keys,
            "ApproximateAggregateValue": contributor.aggregate as f64,
            "Datapoints": datapoints.collect::<Vec<_>>(),
        })
    });
    let periods = report.periods.iter().filter(|_| !metrics.is_empty());
    let datapoints = periods.map(|(start, period)| {
        let mut point = json!({ "Timestamp": start });
        for metric in metrics {
            point[metric.name] = (metric.of)(period).into();
        }
        point
    });
    json!({
        "KeyLabels": rule.key_labels,
        "AggregationStatistic": "SUM",
        "AggregateValue": report.aggregate as f64,
        "ApproximateUniqueCount": report.unique_contributors,
        "Contributors": contributors.collect::<Vec<_>>(),
        "MetricDatapoints": datapoints.collect::<Vec<_>>(),
    })
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
