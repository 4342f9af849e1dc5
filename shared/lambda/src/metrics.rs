//! The functions' CloudWatch metrics. `docs/METRICS.md` says what to do about each.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_core::ports::Clock;
use dynashard_core::{
    Action, Code, Decision, Diagnosis, Error, Hindrance, Outcome, Reading, Telemetry,
};
use dynashard_keys::PartitionKey;
use serde_json::{Map, Value, json};

/// The namespace of the metrics. Must be kept stable: alarms and dashboards name it.
const NAMESPACE: &str = "dynashard";

/// The one dimension: the name of the function, which tells stacks apart too. Keys are not
/// dimensions: each value would be a metric of its own, and keys are the data of others.
const DIMENSION: &str = "FunctionName";

macro_rules! names {
    ($(#[doc = $about:literal])+ $kind:ident: $($(#[doc = $doc:literal])+ $name:ident;)+) => {
        $(#[doc = $about])+
        ///
        /// The names are those of the metrics: add, but never rename.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name of the metric.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

names! {
    /// What is counted.
    Counter:
    /// Events and schedules that found the alarm raised and were acted on.
    AlarmsHandled;
    /// Alarm events of another table, metric, state or shape.
    AlarmsRefused;
    /// Raised alarms that could not be acted on; the schedule looks again.
    AlarmsFailed;
    /// Raised alarms for which the report named no throttled key.
    ReportsWithoutContributors;
    /// Throttled keys that are not physical keys of this system.
    KeysOfNoCollection;
    /// Throttled collections whose reported shards do not exist.
    UnknownShards;
    /// Metadata, jobs and items that break a rule, each time that a function reads one.
    DamagedData;
    /// Requests that found items of a later generation than the metadata, however often they read it.
    MetadataBehind;
    /// Requests and sweeps that were refused since the function's settings differ from those that are pinned.
    SettingsMismatch;
    /// Growths that an alarm began.
    GrowthsBegun;
    /// Growths that an alarm or a writer would have begun outside dry-run mode.
    GrowthsWouldBegin;
    /// Throttled collections that `GrowKeys` does not let grow.
    GrowthsNotAllowed;
    /// Throttled collections that have as many shards as `MaxShards` allows.
    GrowthsAtMaxShards;
    /// Throttled collections that may not grow for another reason, or not yet.
    GrowthsRefused;
    /// Throttled collections that could not be read or changed.
    GrowthsFailed;
    /// Growths that are smaller than the demand wants, since `MaxShards` or the largest step bounds them.
    GrowthsBounded;
    /// Throttled collections of which one item has most of the demand.
    HotItems;
    /// Throttled collections whose demand is mostly that of queries.
    HotQueries;
    /// Throttled collections that are asked for far less than their shards take.
    Neighbours;
    /// Throttles by a limit that all partitions share: of the table, an index or the account.
    SharedLimits;
    /// Ledgers with figures that no function has written, or from the future.
    LedgersDamaged;
    /// Collections that began to shrink.
    ShrinksBegun;
    /// Collections that would have begun to shrink outside dry-run mode.
    ShrinksWouldBegin;
    /// Growths that a throttled writer began.
    WriterGrowths;
    /// Capacities of the main table that rise, reads and writes apart.
    CapacityRaised;
    /// Capacities that would rise outside dry-run mode.
    CapacityWouldRise;
    /// Capacities that throttle and are as high as the operator allows.
    CapacityAtCeiling;
    /// Sweeps that looked at all changes of shard counts, each minute.
    SweepsFinished;
    /// Records of the metadata table's stream that could not be acted on.
    StreamRecordsRefused;
    /// Changes of shard counts that were carried to their end.
    ReshardsFinished;
    /// Items that left their shard for another.
    ItemsMoved;
}

names! {
    /// What is measured.
    Gauge:
    /// For how many seconds a reshard has been running.
    ReshardAge;
    /// In how many seconds a reshard is expected to close.
    ReshardEta;
    /// The percentage of the source shards that the running scan of a reshard has finished.
    ReshardProgress;
    /// How many items of a reshard cannot be moved, since DynamoDB rejects them in their new shards.
    UnmovableItems;
}

impl Counter {
    /// The counter of what was decided.
    pub fn of_decision(decision: &Decision, outcome: Outcome) -> Option<Self> {
        let is_shrink = decision.diagnosis == Diagnosis::CooledDown;
        Some(match (outcome, decision.hindrance) {
            (Outcome::Begun, _) if is_shrink => Self::ShrinksBegun,
            (Outcome::DryRun, _) if is_shrink => Self::ShrinksWouldBegin,
            (Outcome::Begun, _) => Self::GrowthsBegun,
            (Outcome::DryRun, _) => Self::GrowthsWouldBegin,
            (_, Some(Hindrance::NotAllowed)) => Self::GrowthsNotAllowed,
            (_, Some(Hindrance::NotLarger)) => Self::GrowthsAtMaxShards,
            (Outcome::NothingToDo | Outcome::Overtaken, _) => match decision.diagnosis {
                Diagnosis::HotItem => Self::HotItems,
                Diagnosis::HotQueries => Self::HotQueries,
                Diagnosis::Neighbour => Self::Neighbours,
                shared if shared.is_of_a_shared_limit() => Self::SharedLimits,
                Diagnosis::CooledDown | Diagnosis::InUse => return None,
                _ => Self::GrowthsRefused,
            },
        })
    }

    /// The counter of failures for this reason, if an operator has to look at them.
    pub const fn of_code(code: Code) -> Option<Self> {
        match code {
            Code::CorruptData => Some(Self::DamagedData),
            Code::MetadataBehind => Some(Self::MetadataBehind),
            Code::SettingsMismatch => Some(Self::SettingsMismatch),
            _ => None,
        }
    }

    /// What these reasons of refusals count.
    pub fn of_codes(codes: &[Code]) -> BTreeMap<Self, usize> {
        let mut counted = BTreeMap::new();
        for counter in codes.iter().filter_map(|code| Self::of_code(*code)) {
            *counted.entry(counter).or_default() += 1;
        }
        counted
    }
}

impl Gauge {
    /// The unit, as CloudWatch calls it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::ReshardAge | Self::ReshardEta => "Seconds",
            Self::ReshardProgress => "Percent",
            Self::UnmovableItems => "Count",
        }
    }
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

    /// Counts what happened by `now`. A count of zero is left out, so that a metric has data only when
    /// something happened.
    pub fn count(&self, now: Reading, counted: impl IntoIterator<Item = (Counter, usize)>) {
        let happened = counted.into_iter().filter(|(_, times)| *times > 0);
        let metrics = happened.map(|(counter, times)| Metric {
            name: counter.as_str(),
            unit: "Count",
            value: json!(times),
        });
        self.write(now, &metrics.collect::<Vec<_>>());
    }

    /// Writes what was measured at `now`.
    pub fn measure(&self, now: Reading, measured: impl IntoIterator<Item = (Gauge, u64)>) {
        let metrics = measured.into_iter().map(|(gauge, value)| Metric {
            name: gauge.as_str(),
            unit: gauge.unit(),
            value: json!(value),
        });
        self.write(now, &metrics.collect::<Vec<_>>());
    }

    fn write(&self, now: Reading, metrics: &[Metric]) {
        if metrics.is_empty() {
            return;
        }
        let units =
            metrics.iter().map(|metric| json!({ "Name": metric.name, "Unit": metric.unit }));
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": u64::try_from(now.wall.as_millis()).unwrap_or(u64::MAX),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [[DIMENSION]],
                    "Metrics": units.collect::<Vec<_>>(),
                }],
            }),
        );
        line.insert(DIMENSION.to_owned(), json!(self.function));
        for metric in metrics {
            line.insert(metric.name.to_owned(), metric.value.clone());
        }
        let line = format!("{}\n", Value::Object(line));
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A request does not fail because the log is full or gone.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// One value of a line.
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: Value,
}

/// Logs and counts what throttled requests lead to, beside being answered.
pub struct HeatTelemetry {
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl HeatTelemetry {
    /// Telemetry in these metrics, at the time of this clock.
    pub fn new(metrics: Metrics, clock: Arc<dyn Clock>) -> Self {
        Self { metrics, clock }
    }
}

impl Telemetry for HeatTelemetry {
    fn decided(&self, decision: &Decision, outcome: Outcome) {
        log_decision(decision, outcome);
        let counter = match (decision.action, outcome) {
            (Action::Grow(_), Outcome::Begun) => Some(Counter::WriterGrowths),
            _ => Counter::of_decision(decision, outcome),
        };
        let bounded = decision.bound.map(|_| Counter::GrowthsBounded);
        let each_once = counter.into_iter().chain(bounded).map(|counter| (counter, 1));
        self.metrics.count(self.clock.now(), each_once);
    }

    fn failed(&self, partition: &PartitionKey, error: &Error) {
        let partition_key = partition.as_str();
        tracing::error!(partition_key, %error, "reporting or deciding on a collection's load failed");
        let counter = Counter::of_code(error.code()).unwrap_or(Counter::GrowthsFailed);
        self.metrics.count(self.clock.now(), [(counter, 1)]);
    }

    fn ledger_damaged(&self, partition: &PartitionKey, figures: usize) {
        let partition_key = partition.as_str();
        tracing::warn!(
            partition_key,
            figures,
            "a ledger holds figures that no function has written, or that are from the future: growth ignores \
             them, and the collection does not shrink until the item is deleted"
        );
        self.metrics.count(self.clock.now(), [(Counter::LedgersDamaged, 1)]);
    }
}

/// Logs what was decided about a collection.
pub fn log_decision(decision: &Decision, outcome: Outcome) {
    let partition_key = decision.partition.as_str();
    let (diagnosis, action) = (decision.code(), decision.action.as_str());
    let (outcome, reason) = (outcome.as_str(), decision.to_string());
    tracing::info!(
        partition_key,
        diagnosis,
        action,
        outcome,
        reason,
        "decided on the shards of a collection"
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use dynashard_api::problem::Problem;
    use dynashard_api::response::Response;
    use dynashard_testkit::Output;

    use super::*;

    #[test]
    fn a_count_is_one_line_in_the_embedded_metric_format() {
        let output = Output::default();
        let metrics = Metrics::to("stack-ScaleFunction-1".to_owned(), output.clone());
        let now = Reading { wall: Duration::from_millis(1_795_167_000_490), ..Reading::default() };
        let counted = [
            (Counter::AlarmsHandled, 1),
            (Counter::KeysOfNoCollection, 0),
            (Counter::GrowthsBegun, 3),
        ];
        metrics.count(now, counted);
        metrics.count(now, [(Counter::DamagedData, 0)]);
        metrics.measure(now, []);
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
    fn what_an_operator_has_to_look_at_is_counted() {
        for code in Code::ALL {
            let response = Problem::from(Error::new(*code, "")).respond("request-1", 0);
            let counted = Counter::of_codes(response.reasons()).into_iter().collect::<Vec<_>>();
            let expected = match code {
                Code::CorruptData => vec![(Counter::DamagedData, 1)],
                Code::MetadataBehind => vec![(Counter::MetadataBehind, 1)],
                Code::SettingsMismatch => vec![(Counter::SettingsMismatch, 1)],
                _ => Vec::new(),
            };
            assert_eq!(counted, expected, "{code:?}");
        }
        let codes = [Code::Throttled, Code::MetadataBehind, Code::CorruptData, Code::CorruptData];
        let batch = Response::empty(200).because_of(codes);
        let counted = Counter::of_codes(batch.reasons());
        assert_eq!(counted, [(Counter::DamagedData, 2), (Counter::MetadataBehind, 1)].into());
    }

    #[test]
    fn a_measurement_has_the_unit_that_cloudwatch_knows() {
        let output = Output::default();
        let metrics = Metrics::to("f".to_owned(), output.clone());
        let measured = [(Gauge::ReshardEta, 960), (Gauge::ReshardProgress, 0)];
        metrics.measure(Reading::default(), measured);
        let line = serde_json::from_str::<Value>(&output.text()).expect("JSON");
        let units = json!([
            { "Name": "ReshardEta", "Unit": "Seconds" },
            { "Name": "ReshardProgress", "Unit": "Percent" },
        ]);
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Metrics"], units);
        assert_eq!((&line["ReshardEta"], &line["ReshardProgress"]), (&json!(960), &json!(0)));
    }

    #[test]
    fn every_metric_has_its_line_in_the_documentation() {
        let page = include_str!("../../../docs/METRICS.md");
        let documented = page.lines().filter_map(|line| {
            let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
            let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
            let is_whole = cells.len() == 7 && cells.iter().skip(1).take(5).all(|c| !c.is_empty());
            is_whole.then(|| (name, cells[2]))
        });
        let counted = Counter::ALL.iter().map(|counter| (counter.as_str(), "Count"));
        let measured = Gauge::ALL.iter().map(|gauge| (gauge.as_str(), gauge.unit()));
        let all = counted.chain(measured).collect::<BTreeSet<_>>();
        assert_eq!(documented.collect::<BTreeSet<_>>(), all);
    }
}
