//! `GetMetricData` and `GetMetricStatistics`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::error::{ApiError, Fault};
use super::super::statistics::{MetricSource, StatisticSet};
use super::super::store::{HISTORY_SECS, MAX_AHEAD_SECS};
use super::super::wire::Members;
use super::metrics::metric_id;
use crate::plan::{MetricId, Statistic, by_name};

/// The most queries of a request.
const MAX_QUERIES: usize = 500;
/// The most values of a page of `GetMetricData`.
const MAX_DATAPOINTS: usize = 100_800;
/// The most values that `GetMetricStatistics` answers; it has no pages.
const MAX_STATISTICS: usize = 1_440;

/// Answers statistics of metrics, a page at a time.
pub(super) fn get(
    metrics: &dyn MetricSource,
    input: &Members<'_>,
    now: Duration,
) -> Result<Value, ApiError> {
    let queries = input.structures("MetricDataQueries")?;
    if queries.is_empty() {
        return Err(ApiError::missing("MetricDataQueries"));
    }
    if queries.len() > MAX_QUERIES {
        let problem = format!("has more than {MAX_QUERIES} members");
        return Err(ApiError::invalid("MetricDataQueries", &problem));
    }
    let mut ids = BTreeSet::new();
    let queries = queries.iter().map(Query::read).collect::<Result<Vec<_>, _>>()?;
    if let Some(query) = queries.iter().find(|query| !ids.insert(query.id)) {
        let problem = format!("holds the id {} twice", query.id);
        return Err(ApiError::invalid("MetricDataQueries", &problem));
    }
    let range = TimeRange::read(input)?;
    let is_ascending = match input.text("ScanBy")? {
        None | Some("TimestampDescending") => false,
        Some("TimestampAscending") => true,
        Some(_) => {
            let problem = "must be TimestampDescending or TimestampAscending";
            return Err(ApiError::invalid("ScanBy", problem));
        }
    };
    let mut skip = input.first_of_page()?;
    let size = input.size("MaxDatapoints", MAX_DATAPOINTS)?.unwrap_or(MAX_DATAPOINTS);
    let (first, mut room) = (skip, size);
    let mut has_more = false;
    let mut results = Vec::new();
    for query in queries.iter().filter(|query| query.returns_data) {
        let mut points = range.datapoints(metrics, &query.metric, query.period_secs, now);
        if !is_ascending {
            points.reverse();
        }
        let before = skip.min(points.len());
        skip -= before;
        let rest = points.len() - before;
        let taken = rest.min(room);
        room -= taken;
        has_more |= rest > taken;
        let points = &points[before..before + taken];
        let values = points.iter().map(|(_, set)| set.get(query.statistic));
        results.push(json!({
            "Id": query.id,
            "Label": query.label.unwrap_or(&query.metric.name),
            "Timestamps": points.iter().map(|(second, _)| *second).collect::<Vec<_>>(),
            "Values": values.collect::<Vec<_>>(),
            "StatusCode": if rest > taken { "PartialData" } else { "Complete" },
        }));
    }
    let next = has_more.then(|| (first + size).to_string());
    Ok(json!({ "MetricDataResults": results, "NextToken": next }))
}

/// Answers statistics of one metric, all at once and in order of time.
pub(super) fn statistics(
    metrics: &dyn MetricSource,
    input: &Members<'_>,
    now: Duration,
) -> Result<Value, ApiError> {
    let namespace = input.require("Namespace", Members::text)?;
    let name = input.require("MetricName", Members::text)?;
    let metric = metric_id(namespace, name, input)?;
    let range = TimeRange::read(input)?;
    let period_secs = period(input)?;
    if !input.texts("ExtendedStatistics")?.is_empty() {
        let problem = "is not supported by the local stack: it keeps no percentiles";
        return Err(ApiError::invalid("ExtendedStatistics", problem));
    }
    let wanted = input.texts("Statistics")?;
    if wanted.is_empty() {
        return Err(ApiError::missing("Statistics"));
    }
    let wanted: Vec<_> = wanted
        .into_iter()
        .map(|name| statistic(&input.name("Statistics"), name))
        .collect::<Result<_, _>>()?;
    let requested = range.starts(period_secs, now).count();
    if requested > MAX_STATISTICS {
        return Err(ApiError::combination(&format!(
            "You have requested up to {requested} datapoints, which exceeds the limit of \
             {MAX_STATISTICS}. You may reduce the datapoints requested by increasing Period, or \
             decreasing the time range."
        )));
    }
    let points = range.datapoints(metrics, &metric, period_secs, now);
    let points = points.into_iter().map(|(second, set)| {
        let mut point = json!({ "Timestamp": second });
        for statistic in &wanted {
            point[statistic.as_str()] = set.get(*statistic).into();
        }
        point
    });
    Ok(json!({ "Label": name, "Datapoints": points.collect::<Vec<_>>() }))
}

struct Query<'a> {
    id: &'a str,
    label: Option<&'a str>,
    metric: MetricId,
    period_secs: u64,
    statistic: Statistic,
    returns_data: bool,
}

impl<'a> Query<'a> {
    fn read(query: &Members<'a>) -> Result<Self, ApiError> {
        let id = query.require("Id", Members::text)?;
        let is_word = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word || !id.starts_with(|c: char| c.is_ascii_lowercase()) {
            let problem = "must be letters, digits and underscores behind a lowercase letter";
            return Err(ApiError::invalid(&query.name("Id"), problem));
        }
        if query.text("Expression")?.is_some() {
            let problem = "is not supported by the local stack: ask for each metric by itself";
            return Err(ApiError::invalid(&query.name("Expression"), problem));
        }
        let stat = query.require("MetricStat", Members::structure)?;
        let metric = stat.require("Metric", Members::structure)?;
        let namespace = metric.require("Namespace", Members::text)?;
        let name = metric.require("MetricName", Members::text)?;
        Ok(Self {
            id,
            label: query.text("Label")?,
            metric: metric_id(namespace, name, &metric)?,
            period_secs: period(&stat)?,
            statistic: statistic(&stat.name("Stat"), stat.require("Stat", Members::text)?)?,
            returns_data: query.boolean("ReturnData")?.unwrap_or(true),
        })
    }
}

fn statistic(parameter: &str, name: &str) -> Result<Statistic, ApiError> {
    by_name(Statistic::NAMES, name).ok_or_else(|| {
        let problem = format!(
            "must be SampleCount, Average, Sum, Minimum or Maximum: the local stack keeps no {name}"
        );
        ApiError::invalid(parameter, &problem)
    })
}

fn period(members: &Members<'_>) -> Result<u64, ApiError> {
    match members.require("Period", Members::whole)? {
        period @ (1 | 5 | 10 | 20 | 30) => Ok(period),
        period if period > 0 && period.is_multiple_of(60) => Ok(period),
        _ => {
            let problem = "must be 1, 5, 10, 20, 30 or a multiple of 60";
            Err(ApiError::invalid(&members.name("Period"), problem))
        }
    }
}

/// A range of epoch seconds, without its end.
struct TimeRange {
    start: u64,
    end: u64,
}

impl TimeRange {
    fn read(input: &Members<'_>) -> Result<Self, ApiError> {
        let start = input.require("StartTime", Members::timestamp)?.as_secs();
        let end = input.require("EndTime", Members::timestamp)?;
        let end = end.as_secs() + u64::from(end.subsec_nanos() > 0);
        if start >= end {
            let text = "The parameter StartTime must be less than the parameter EndTime.";
            return Err(ApiError::new(Fault::VALIDATION, text));
        }
        Ok(Self { start, end })
    }

    /// The periods in which there may be values, which begin at multiples of their length.
    fn starts(&self, period_secs: u64, now: Duration) -> impl Iterator<Item = u64> + use<> {
        let oldest = now.as_secs().saturating_sub(HISTORY_SECS);
        let latest = now.as_secs() + MAX_AHEAD_SECS + 1;
        let first = self.start.max(oldest) / period_secs * period_secs;
        let step = usize::try_from(period_secs).unwrap_or(usize::MAX);
        (first..self.end.min(latest)).step_by(step)
    }

    fn datapoints(
        &self,
        metrics: &dyn MetricSource,
        metric: &MetricId,
        period_secs: u64,
        now: Duration,
    ) -> Vec<(u64, StatisticSet)> {
        self.starts(period_secs, now)
            .filter_map(|start| {
                Some((start, metrics.statistics(metric, start..start + period_secs)?))
            })
            .collect()
    }
}
