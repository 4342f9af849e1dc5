//! `PutMetricData`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::error::{ApiError, Fault};
use super::super::statistics::StatisticSet;
use super::super::store::{MAX_AHEAD_SECS, MetricStore};
use super::super::wire::Members;
use super::metrics::metric_id;
use crate::plan::MetricId;

pub(super) fn put(
    store: &MetricStore,
    input: &Members<'_>,
    now: Duration,
) -> Result<Value, ApiError> {
    let namespace = input.require("Namespace", Members::text)?;
    if namespace.starts_with("AWS/") {
        return Err(ApiError::invalid("Namespace", "must not begin with AWS/"));
    }
    let mut data = input.structures("MetricData")?;
    // Entities describe where metrics come from, and no operation here returns that.
    for entity in input.structures("EntityMetricData")? {
        data.extend(entity.structures("MetricData")?);
    }
    if data.is_empty() {
        return Err(ApiError::missing("MetricData"));
    }
    if data.len() > MAX_DATA {
        let problem = format!("has more than {MAX_DATA} members");
        return Err(ApiError::invalid("MetricData", &problem));
    }
    // All data are read before the first is stored, so that a request is stored whole or not at all.
    let data: Vec<_> =
        data.iter().map(|datum| read(namespace, datum, now)).collect::<Result<_, _>>()?;
    for (metric, second, values) in data {
        store
            .put(now.as_secs(), metric, second, values)
            .map_err(|full| ApiError::new(Fault::LIMIT_EXCEEDED, full.to_string()))?;
    }
    Ok(json!({}))
}

/// The most data of a request.
const MAX_DATA: usize = 1_000;
/// The most values of a datum.
const MAX_VALUES: usize = 150;
/// The greatest age of a value that is accepted: two weeks. Values older than the history are not kept.
const MAX_AGE: Duration = Duration::from_hours(14 * 24);
/// The greatest magnitude of a value: 2^360.
const MAX_VALUE: f64 = 2.348_542_582_773_833_2e108;

fn read(
    namespace: &str,
    datum: &Members<'_>,
    now: Duration,
) -> Result<(MetricId, u64, StatisticSet), ApiError> {
    let name = datum.require("MetricName", Members::text)?;
    let metric = metric_id(namespace, name, datum)?;
    let at = datum.timestamp("Timestamp")?.unwrap_or(now);
    if at > now + Duration::from_secs(MAX_AHEAD_SECS) || at + MAX_AGE < now {
        let problem = "must be a time within the past two weeks or the next two hours";
        return Err(ApiError::invalid(&datum.name("Timestamp"), problem));
    }
    Ok((metric, at.as_secs(), values(datum)?))
}

fn values(datum: &Members<'_>) -> Result<StatisticSet, ApiError> {
    let value = datum.number("Value")?;
    let values = datum.numbers("Values")?;
    let set = datum.structure("StatisticValues")?;
    match (value, values.is_empty(), set) {
        (Some(value), true, None) => Ok(StatisticSet::of(checked(datum, "Value", value)?, 1.0)),
        (None, false, None) => counted_values(datum, &values),
        (None, true, Some(set)) => statistic_values(&set),
        (None, true, None) => {
            let names = format!("{}, Values or StatisticValues", datum.name("Value"));
            Err(ApiError::missing(&names))
        }
        _ => Err(ApiError::combination(&format!(
            "Only one of {}, Values and StatisticValues may be given.",
            datum.name("Value")
        ))),
    }
}

/// Values, each with how often it occurred: once, unless `Counts` says otherwise.
fn counted_values(datum: &Members<'_>, values: &[f64]) -> Result<StatisticSet, ApiError> {
    let counts = datum.numbers("Counts")?;
    if !counts.is_empty() && counts.len() != values.len() {
        return Err(ApiError::combination("Values and Counts must have as many members."));
    }
    if values.len() > MAX_VALUES {
        let problem = format!("has more than {MAX_VALUES} members");
        return Err(ApiError::invalid(&datum.name("Values"), &problem));
    }
    let counts = counts.into_iter().chain(std::iter::repeat(1.0));
    let sets = values.iter().zip(counts).map(|(value, count)| {
        let value = checked(datum, "Values", *value)?;
        if checked(datum, "Counts", count)? < 0.0 {
            return Err(ApiError::invalid(&datum.name("Counts"), "must not be negative"));
        }
        Ok(StatisticSet::of(value, count))
    });
    let sets: Vec<_> = sets.collect::<Result<_, _>>()?;
    let happened = sets.into_iter().filter(|set| set.sample_count > 0.0);
    StatisticSet::merge_all(happened)
        .ok_or_else(|| ApiError::invalid(&datum.name("Counts"), "must not all be zero"))
}

fn statistic_values(set: &Members<'_>) -> Result<StatisticSet, ApiError> {
    let number = |name| checked(set, name, set.require(name, Members::number)?);
    let values = StatisticSet {
        sample_count: number("SampleCount")?,
        sum: number("Sum")?,
        minimum: number("Minimum")?,
        maximum: number("Maximum")?,
    };
    if values.sample_count <= 0.0 {
        return Err(ApiError::invalid(&set.name("SampleCount"), "must be greater than 0"));
    }
    if values.minimum > values.maximum {
        return Err(ApiError::invalid(&set.name("Minimum"), "must not be greater than Maximum"));
    }
    Ok(values)
}

fn checked(members: &Members<'_>, name: &str, value: f64) -> Result<f64, ApiError> {
    if value.abs() <= MAX_VALUE {
        return Ok(value);
    }
    Err(ApiError::invalid(&members.name(name), "must be a number between -2^360 and 2^360"))
}
