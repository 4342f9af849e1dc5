//! Metrics in requests and answers, and `ListMetrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::error::ApiError;
use super::super::metrics::Metrics;
use super::super::wire::Members;
use crate::plan::MetricId;

/// The metrics of a page.
const PAGE: usize = 500;
/// The most dimensions of a metric.
const MAX_DIMENSIONS: usize = 30;

pub(super) fn list(
    metrics: &Metrics,
    input: &Members<'_>,
    now: Duration,
) -> Result<Value, ApiError> {
    let namespace = input.text("Namespace")?;
    let name = input.text("MetricName")?;
    let filters = input.structures("Dimensions")?;
    let filters: Vec<_> = filters
        .iter()
        .map(|filter| Ok((filter.require("Name", Members::text)?, filter.text("Value")?)))
        .collect::<Result<_, ApiError>>()?;
    let is_wanted = |metric: &MetricId| {
        namespace.is_none_or(|namespace| metric.namespace == namespace)
            && name.is_none_or(|name| metric.name == name)
            && filters.iter().all(|(name, wanted)| {
                let value = metric.dimensions.get(*name);
                value.is_some_and(|value| wanted.is_none_or(|wanted| value == wanted))
            })
    };
    // All are recently active: none is listed longer than its values are kept.
    let found: Vec<_> = metrics.list(now.as_secs()).into_iter().filter(is_wanted).collect();
    let (found, next) = page(found, input, PAGE)?;
    let found = found.iter().map(metric_json).collect::<Vec<_>>();
    Ok(json!({ "Metrics": found, "NextToken": next }))
}

/// The metric of these names (`CloudWatch` API: `Metric`).
pub(super) fn metric_id(
    namespace: &str,
    name: &str,
    members: &Members<'_>,
) -> Result<MetricId, ApiError> {
    let mut dimensions = BTreeMap::new();
    for dimension in members.structures("Dimensions")? {
        let name = dimension.require("Name", Members::text)?;
        let value = dimension.require("Value", Members::text)?;
        if dimensions.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(ApiError::invalid(&dimension.name("Name"), "is there twice"));
        }
    }
    if dimensions.len() > MAX_DIMENSIONS {
        let problem = format!("has more than {MAX_DIMENSIONS} members");
        return Err(ApiError::invalid(&members.name("Dimensions"), &problem));
    }
    Ok(MetricId { namespace: namespace.to_owned(), name: name.to_owned(), dimensions })
}

/// A metric, as answers have it.
pub(super) fn metric_json(metric: &MetricId) -> Value {
    let dimensions = metric.dimensions.iter();
    let dimensions = dimensions.map(|(name, value)| json!({ "Name": name, "Value": value }));
    json!({
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Dimensions": dimensions.collect::<Vec<_>>(),
    })
}

/// The items of the page that a request asks for, and the token of the next one. Tokens are the index of a page's
/// first item.
pub(super) fn page<T>(
    items: Vec<T>,
    input: &Members<'_>,
    size: usize,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let first = input.first_of_page()?;
    let has_more = items.len() > first.saturating_add(size);
    let next = has_more.then(|| (first + size).to_string());
    Ok((items.into_iter().skip(first).take(size).collect(), next))
}
