//! Metrics in requests and answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::error::ApiError;
use super::super::wire::Members;
use crate::plan::MetricId;

/// The most dimensions of a metric.
const MAX_DIMENSIONS: usize = 30;

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
