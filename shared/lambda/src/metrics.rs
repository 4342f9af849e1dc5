//! What the functions count, as CloudWatch metrics. `docs/METRICS.md` says what to do about each.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_core::ports::Clock;
use dynashard_core::{Growth, Reading, Telemetry};
use dynashard_keys::PartitionKey;
use serde_json::{Map, Value, json};

/// The namespace of the metrics. Must be kept stable: alarms and dashboards name it.
const NAMESPACE: &str = "dynashard";

/// The one dimension: the name of the function, which tells stacks apart too. Keys are no
/// dimensions, since each value would be a metric of its own, and the data of others besides.
const DIMENSION: &str = "FunctionName";

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {
        /// What is counted. The names are those of the metrics: add, but never rename.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Counter {
            /// Every counter.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name of the metric.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

counters! {
    /// Events and schedules that found the alarm raised and were acted on.
    AlarmsHandled;
    /// Alarm events of another table, metric, state or shape.
    AlarmsRefused;
    /// Raised alarms that could not be acted on; Lambda sends the event again.
    AlarmsFailed;
    /// Raised alarms for which the report named no throttled key.
    ReportsWithoutContributors;
    /// Throttled keys that are no physical keys of this system.
    UnshardedKeys;
    /// Throttled collections without metadata.
    UnknownCollections;
    /// Throttled collections of which only shards were named that they do not have.
    UnknownShards;
    /// Throttled collections whose metadata breaks a rule.
    DamagedMetadata;
    /// Growths that an alarm began.
    GrowthsBegun;
    /// Growths that an alarm or a writer would have begun, were it not for dry-run mode.
    GrowthsWouldBegin;
    /// Throttled collections that may not grow, or not yet.
    GrowthsRefused;
    /// Throttled collections that could not be read or changed.
    GrowthsFailed;
    /// Growths that a throttled writer began.
    WriterGrowths;
    /// Records of the metadata table's stream that could not be acted on.
    StreamRecordsRefused;
    /// Changes of shard counts that were carried to their end.
    ReshardsFinished;
}

/// Writes metrics in CloudWatch's Embedded Metric Format, a line of JSON each time, which Lambda's
/// log passes on to CloudWatch. Clones write to the same place.
#[derive(Clone)]
pub struct Metrics {
    function: String,
    out: Arc<Mutex<dyn Write + Send>>,
}

impl Metrics {
    /// The metrics of the function of this name, on its standard output.
    pub fn to_stdout(function: String) -> Self {
        Self::to(function, io::stdout())
    }

    /// The metrics of the function of this name, written to `out`.
    pub fn to(function: String, out: impl Write + Send + 'static) -> Self {
        Self { function, out: Arc::new(Mutex::new(out)) }
    }

    /// Counts what happened by `now`. What happened no times is left out, so that a metric has data
    /// only where there was something.
    pub fn count(&self, now: Reading, counted: impl IntoIterator<Item = (Counter, usize)>) {
        let counted = counted.into_iter().filter(|(_, times)| *times > 0).collect::<Vec<_>>();
        if counted.is_empty() {
            return;
        }
        let names =
            counted.iter().map(|(counter, _)| json!({ "Name": counter.as_str(), "Unit": "Count" }));
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": u64::try_from(now.wall.as_millis()).unwrap_or(u64::MAX),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [[DIMENSION]],
                    "Metrics": names.collect::<Vec<_>>(),
                }],
            }),
        );
        line.insert(DIMENSION.to_owned(), json!(self.function));
        for (counter, times) in &counted {
            line.insert(counter.as_str().to_owned(), json!(times));
        }
        let line = format!("{}\n", Value::Object(line));
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that takes nothing more is no reason to fail a request.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// Logs and counts what writers do about throttles.
pub struct WriterTelemetry<C> {
    metrics: Metrics,
    clock: C,
}

impl<C: Clock> WriterTelemetry<C> {
    /// Telemetry in these metrics, at the time of this clock.
    pub fn new(metrics: Metrics, clock: C) -> Self {
        Self { metrics, clock }
    }
}

impl<C: Clock> Telemetry for WriterTelemetry<C> {
    fn writer_growth(&self, partition: &PartitionKey, growth: Growth) {
        let counter = match growth {
            Growth::Begun { .. } => Counter::WriterGrowths,
            Growth::WouldBegin { .. } => Counter::GrowthsWouldBegin,
            Growth::Refused(_) | Growth::Overtaken => return,
        };
        let partition_key = partition.as_str();
        tracing::info!(partition_key, decision = %growth, "a writer found a collection throttled");
        self.metrics.count(self.clock.now(), [(counter, 1)]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use dynashard_testing::Output;

    use super::*;

    #[test]
    fn a_count_is_one_line_in_the_embedded_metric_format() {
        let output = Output::default();
        let metrics = Metrics::to("stack-ScaleFunction-1".to_owned(), output.clone());
        let now = Reading { wall: Duration::from_millis(1_795_167_000_490), ..Reading::default() };
        let counted =
            [(Counter::AlarmsHandled, 1), (Counter::UnshardedKeys, 0), (Counter::GrowthsBegun, 3)];
        metrics.count(now, counted);
        metrics.count(now, [(Counter::DamagedMetadata, 0)]);
        let text = output.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.ends_with('\n'));
        let expected = json!({
            "_aws": {
                "Timestamp": 1_795_167_000_490_u64,
                "CloudWatchMetrics": [{
                    "Namespace": "dynashard",
                    "Dimensions": [["FunctionName"]],
                    "Metrics": [
                        { "Name": "AlarmsHandled", "Unit": "Count" },
                        { "Name": "GrowthsBegun", "Unit": "Count" },
                    ],
                }],
            },
            "FunctionName": "stack-ScaleFunction-1",
            "AlarmsHandled": 1,
            "GrowthsBegun": 3,
        });
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(expected));
    }

    #[test]
    fn every_metric_has_its_line_in_the_documentation() {
        let page = include_str!("../../../docs/METRICS.md");
        let documented = page.lines().filter_map(|line| {
            let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
            let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
            let is_whole = cells.len() == 7 && cells.iter().skip(1).take(5).all(|c| !c.is_empty());
            is_whole.then(|| name.to_owned())
        });
        let counted = Counter::ALL.iter().map(|counter| counter.as_str().to_owned());
        assert_eq!(documented.collect::<BTreeSet<_>>(), counted.collect::<BTreeSet<_>>());
    }
}
