//! Metrics in requests and answers.

use super::super::error::ApiError;
use super::super::wire::{Document, Members, structure};
use crate::plan::MetricId;
use std::collections::BTreeMap;

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

/// The dimensions of a metric, as answers have them.
pub(super) fn dimensions(metric: &MetricId) -> Document {
    let dimensions = metric.dimensions.iter();
    Document::list(
        dimensions.map(|(name, value)| structure([("Name", name.into()), ("Value", value.into())])),
    )
}
