//! `ListMetrics`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::error::ApiError;
use super::super::metrics::Metrics;
use super::super::wire::Members;
use super::metric::metric_json;
use super::page::{first_of_page, page};
use crate::plan::MetricId;

/// The metrics of a page.
const PAGE: usize = 500;

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
    let (found, next) = page(found, first_of_page(input)?, PAGE);
    let found = found.iter().map(metric_json).collect::<Vec<_>>();
    Ok(json!({ "Metrics": found, "NextToken": next }))
}
