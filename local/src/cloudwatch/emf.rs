//! Metrics in the logs of functions: the Embedded Metric Format (`CloudWatch` User Guide:
//! "Specification: Embedded metric format").

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::statistics::StatisticSet;
use super::store::MetricStore;
use crate::clock::{SharedClock, since_epoch};
use crate::plan::MetricId;

/// Puts the metrics that functions log into a store.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddedMetrics {
    pub(crate) store: Arc<MetricStore>,
    pub(crate) clock: SharedClock,
}

impl EmbeddedMetrics {
    /// Reads a line that `function` has logged. Few of them are metrics.
    ///
    /// A line that has the mark of a metric and breaks the format is left out, as by `CloudWatch`,
    /// and the log says so.
    pub(crate) fn read(&self, function: &str, line: &str) {
        if !(line.starts_with('{') && line.contains("\"_aws\"")) {
            return;
        }
        let now = since_epoch(self.clock.now()).as_secs();
        let metrics = match parse(line) {
            Ok(metrics) => metrics,
            Err(problem) => {
                tracing::warn!(function, problem, "a logged metric is left out");
                return;
            }
        };
        for (metric, second, values) in metrics {
            if let Err(error) = self.store.put(now, metric, second, values) {
                tracing::warn!(function, %error, "a logged metric is left out");
            }
        }
    }
}

/// The most values that a metric of one line may have.
const MAX_VALUES: usize = 100;
/// The most dimensions of a metric.
const MAX_DIMENSIONS: usize = 30;

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "Timestamp")]
    timestamp_millis: u64,
    #[serde(rename = "CloudWatchMetrics")]
    directives: Vec<Directive>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Directive {
    namespace: String,
    dimensions: Vec<Vec<String>>,
    metrics: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: String,
}

/// The metrics of a line, with the epoch second of each: one for each set of dimensions.
fn parse(line: &str) -> Result<Vec<(MetricId, u64, StatisticSet)>, String> {
    let members: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    // A line that has the mark deeper down only is an ordinary line.
    let Some(metadata) = members.get("_aws").filter(|aws| aws.get("CloudWatchMetrics").is_some())
    else {
        return Ok(Vec::new());
    };
    let Metadata { timestamp_millis, directives } =
        Metadata::deserialize(metadata).map_err(|error| format!("_aws: {error}"))?;
    let second = timestamp_millis / 1000;
    let mut metrics = Vec::new();
    for Directive { namespace, dimensions, metrics: definitions } in directives {
        if namespace.is_empty() || namespace.starts_with("AWS/") {
            return Err(format!("the namespace '{namespace}' is not one of an application"));
        }
        for Definition { name } in definitions {
            let values = values(&members, &name)?;
            for names in &dimensions {
                let dimensions = pick(&members, names)?;
                let metric =
                    MetricId { namespace: namespace.clone(), name: name.clone(), dimensions };
                metrics.push((metric, second, values));
            }
        }
    }
    Ok(metrics)
}

fn values(members: &Map<String, Value>, name: &str) -> Result<StatisticSet, String> {
    let target = members.get(name).ok_or_else(|| format!("the member {name} is missing"))?;
    let values = target.as_array().map_or_else(|| std::slice::from_ref(target), Vec::as_slice);
    if values.len() > MAX_VALUES {
        return Err(format!("{name} has more than {MAX_VALUES} values"));
    }
    let values = values.iter().map(|value| value.as_f64().filter(|value| value.is_finite()));
    let values: Option<Vec<_>> = values.collect();
    values
        .and_then(|values| {
            StatisticSet::merge_all(values.into_iter().map(|value| StatisticSet::of(value, 1.0)))
        })
        .ok_or_else(|| format!("{name} is neither a number nor a list of numbers"))
}

fn pick(
    members: &Map<String, Value>,
    names: &[String],
) -> Result<BTreeMap<String, String>, String> {
    if names.len() > MAX_DIMENSIONS {
        return Err(format!("a metric has more than {MAX_DIMENSIONS} dimensions"));
    }
    let dimensions = names.iter().map(|name| {
        let value = members.get(name).and_then(Value::as_str);
        let value = value.ok_or_else(|| format!("the dimension {name} is not a string"))?;
        Ok((name.clone(), value.to_owned()))
    });
    dimensions.collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::cloudwatch::statistics::MetricSource;

    const NOW: u64 = 1_795_000_000;

    fn rig() -> (EmbeddedMetrics, Arc<MetricStore>) {
        let store = Arc::new(MetricStore::default());
        let clock = ManualClock::at(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
        (EmbeddedMetrics { store: Arc::clone(&store), clock }, store)
    }

    fn line() -> Value {
        json!({
            "_aws": {
                "Timestamp": NOW * 1000 + 999,
                "CloudWatchMetrics": [{
                    "Namespace": "dynashard",
                    "Dimensions": [["Function", "Placement"], ["Function"], []],
                    "Metrics": [{ "Name": "Growths", "Unit": "Count" }, { "Name": "Latency" }],
                }],
            },
            "Function": "Scale",
            "Placement": "xxh64",
            "Growths": 2,
            "Latency": [1.5, 4.5],
            "message": "grown",
        })
    }

    #[test]
    fn a_line_has_a_metric_for_each_of_its_sets_of_dimensions() {
        let (metrics, store) = rig();
        metrics.read("Scale", &line().to_string());
        assert_eq!(store.list(NOW).len(), 6);
        let read = |name: &str, dimensions: &[(&str, &str)]| {
            let dimensions =
                dimensions.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let metric = MetricId {
                namespace: "dynashard".to_owned(),
                name: name.to_owned(),
                dimensions: dimensions.collect(),
            };
            store.statistics(&metric, NOW..NOW + 1).expect("values")
        };
        assert_eq!(read("Growths", &[("Function", "Scale")]), StatisticSet::of(2.0, 1.0));
        let latency = read("Latency", &[("Function", "Scale"), ("Placement", "xxh64")]);
        assert_eq!((latency.sample_count, latency.sum), (2.0, 6.0));
        assert_eq!((latency.minimum, latency.maximum), (1.5, 4.5));
        assert_eq!(read("Latency", &[]), latency);
    }

    #[test]
    fn lines_that_are_not_metrics_and_broken_metrics_are_left_out() {
        let (metrics, store) = rig();
        let broken = |change: fn(&mut Value)| {
            let mut line = line();
            change(&mut line);
            line.to_string()
        };
        for line in [
            "START".to_owned(),
            r#"{"message":"no \"_aws\" here"}"#.to_owned(),
            r#"{"_aws":7}"#.to_owned(),
            r#"{"_aws":{"CloudWatchMetrics":7,"Timestamp":1}}"#.to_owned(),
            broken(|line| line["Growths"] = json!("two")),
            broken(|line| line["Latency"] = json!([])),
            broken(|line| line["Latency"] = json!(vec![1; 101])),
            broken(|line| line["Function"] = json!(1)),
            broken(|line| line["_aws"]["Timestamp"] = json!(-1)),
            broken(|line| {
                line["_aws"]["CloudWatchMetrics"][0]["Namespace"] = json!("AWS/DynamoDB");
            }),
            broken(|line| line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"] = json!("x")),
        ] {
            metrics.read("Scale", &line);
            assert!(store.list(NOW).is_empty(), "{line}");
        }
    }
}
