//! The functions' CloudWatch metrics. `docs/METRICS.md` says what to do about each.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use dynashard_core::ports::Clock;
use dynashard_core::{
    Code, CountChange, Decision, Diagnosis, Error, Hindrance, Moment, Outcome, Telemetry,
};
use dynashard_keys::PartitionKey;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// The namespace of the metrics. Must be kept stable: alarms and dashboards name it.
const NAMESPACE: &str = "dynashard";

/// The one dimension: the name of the function, which tells stacks apart too. Keys are not
/// dimensions: each value would be a metric of its own, and keys are the data of others.
const DIMENSION: &str = "FunctionName";

macro_rules! names {
    ($(#[doc = $about:literal])+ $kind:ident: $($(#[doc = $doc:literal])+ $name:ident, $by:literal, $remedy:literal;)+) => {
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

            /// When it has data, for the pages: the comment above it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// The functions that send it, for the pages.
            pub const fn by(self) -> &'static str {
                match self { $(Self::$name => $by,)+ }
            }

            /// What an operator does about it, for the pages, in Markdown.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)+ }
            }
        }
    };
}

names! {
    /// What is counted.
    Counter:
    /// An alarm on throttles was raised, and the function looked at what was throttled: because of an event, or of
    /// the schedule that finds lost events.
    AlarmsHandled, "`ScaleFunction`",
        "Nothing. If it continues while `GrowthsBegun` has no data, look at the metrics below";
    /// An alarm event was of another table, metric, state or shape. The log says which.
    AlarmsRefused, "`ScaleFunction`",
        "Correct the actions of the alarm that the log names";
    /// Contributor Insights, CloudWatch, a collection's metadata or the main table's capacity could not be read or
    /// changed. The schedule looks again within a minute.
    AlarmsFailed, "`ScaleFunction`",
        "If it continues, look for the reason in the log: permissions, or Contributor Insights turned off";
    /// The alarm was raised, and the report of throttled keys named none. The report lags behind, or an index or
    /// `PartiQL` was throttled, which the report does not count.
    ReportsWithoutContributors, "`ScaleFunction`",
        "Nothing, if it passes. Otherwise look at the table's throttle metrics by reason";
    /// Throttled keys that no collection can have, such as one that begins with `_ds_` or has a suffix that is never
    /// written.
    KeysOfNoCollection, "`ScaleFunction`",
        "Find the client that writes to the table around the application, and stop it";
    /// Throttled keys named only shards that their collections do not have.
    UnknownShards, "`ScaleFunction`",
        "Find the client that writes to the table around the application, and stop it";
    /// A metadata item, a job or an item breaks a rule or contradicts another, for example after an edit by hand. It
    /// is counted for each request, record, sweep and alarm that met the damage, and once for each state of a
    /// collection if a writer could not begin a growth. The log names the field. The functions change nothing on the
    /// strength of damaged data.
    DamagedData, "all",
        "Correct the item; `docs/DATA_MODEL.md` says what it holds. Until then requests that need it are answered \
         500, and a reshard whose job is damaged stands still";
    /// Requests, and movers, found items of a later generation than the metadata's, however often they read the
    /// metadata. Requests were answered 503 `metadata_behind`; a reshard cannot close. For a mover the log names the
    /// shard and the sort key.
    MetadataBehind, "`WriteFunction`, `ReadFunction`, `RebalanceFunction`",
        "Find out whether the metadata table was restored or deleted alone, and restore it to where it was";
    /// Requests and sweeps were refused, since the function's settings differ from those that are
    /// [pinned](OPERATIONS.md#changing-parameters). The log and the answers say which.
    SettingsMismatch, "all",
        "Deploy the function with the pinned settings, or change what is pinned with `dynashard settings`";
    /// Throttled collections began to grow because of an alarm, or a throttled writer has a shrink [turned
    /// round](SCALING.md#when-the-load-comes-back).
    GrowthsBegun, "`ScaleFunction`, `WriteFunction`",
        "Nothing";
    /// In dry-run mode, growths that an alarm or a writer would have begun. Counted at each alarm, and once for each
    /// state of a collection in each environment of the writer.
    GrowthsWouldBegin, "`ScaleFunction`, `WriteFunction`",
        "Set `ScalingMode` to `on` when the decisions in the log are what you want";
    /// Collections were throttled that [`GrowKeys`](PARAMETERS.md) does not name. It is counted at each alarm, and
    /// once for each state of a collection in each environment of the writer.
    GrowthsNotAllowed, "`ScaleFunction`, `WriteFunction`",
        "Add a pattern once all writers of the collection go through the API, or give its writers other keys";
    /// Throttled collections did not grow, since they have as many shards as `MaxShards` allows. Counted at each
    /// alarm, and about once a minute in each environment of the writer.
    GrowthsAtMaxShards, "`ScaleFunction`, `WriteFunction`",
        "Raise `MaxShards`, or let the clients of the collection send less";
    /// Throttled collections did not grow: a change is running or was made within the cooldown, the throttles are
    /// older than the last change, or too little is known of its load. It is counted at each alarm, and about once a
    /// minute in each environment of the writer.
    GrowthsRefused, "`ScaleFunction`, `WriteFunction`",
        "Nothing, if it passes. [`dynashard decisions`](COMMANDS.md#decisions) says why";
    /// The metadata or the [ledgers](SCALING.md#what-is-known-the-ledgers) of collections could not be read or
    /// changed. Writers and readers count it about once a minute for each collection and code in each environment, and
    /// the log says why.
    GrowthsFailed, "`ScaleFunction`, `WriteFunction`, `ReadFunction`",
        "Nothing, if it passes. Otherwise look at the metadata table's throttles and errors";
    /// Growths that the demand wants larger: `MaxShards` bounds them, or sixteen times the shards at once.
    GrowthsBounded, "`ScaleFunction`, `WriteFunction`",
        "If [`dynashard decisions`](COMMANDS.md#decisions) says `max_shards`, raise `MaxShards`";
    /// Throttled collections of which one item has most of the demand, or as much as a partition takes. It and the
    /// next three are counted at each alarm, and about once a minute in each environment of the writer.
    HotItems, "`ScaleFunction`, `WriteFunction`",
        "Make it a counter if its writes add to a number, split it into several, or keep it for reads (`ItemCacheSecs`): more shards do not help";
    /// Collections of which reads are throttled, mostly those of queries.
    HotQueries, "`ScaleFunction`",
        "Query smaller ranges, or cache them: more shards make queries dearer";
    /// Throttled collections that are asked for far less than their shards take: another key in the same partition is
    /// hot.
    Neighbours, "`ScaleFunction`, `WriteFunction`",
        "Nothing: DynamoDB separates the two";
    /// Minutes in which an environment was throttled by a limit which all partitions share: the table's capacity or
    /// maximum, an index's or the account's. The log says which, and one of the keys that met it.
    SharedLimits, "`WriteFunction`",
        "Raise that limit: more shards do not help";
    /// A [ledger](DATA_MODEL.md#ledgers) holds figures that no function has written, or from the future. They count
    /// for nothing in a growth, and keep the collection from shrinking.
    LedgersDamaged, "`WriteFunction`, `ReadFunction`",
        "Delete the item; it fills again";
    /// Collections that have cooled down began to shrink.
    ShrinksBegun, "`ScaleFunction`",
        "Nothing";
    /// In dry-run mode, shrinks that would have begun, at each look.
    ShrinksWouldBegin, "`ScaleFunction`",
        "Set `ShrinkMode` to `on` when the decisions are what you want";
    /// Collections began to grow because a writer met a throttle of their partition, or saw their load rise.
    WriterGrowths, "`WriteFunction`",
        "Nothing";
    /// The read or the write capacity of the main table [rises](OPERATIONS.md#capacity-of-a-provisioned-table), since
    /// it throttled. Both at once count twice.
    CapacityRaised, "`ScaleFunction`",
        "Nothing. Lower it yourself when the load is over";
    /// In dry-run mode, capacities that would rise. Counted at each alarm, and each minute while the alarm is raised.
    CapacityWouldRise, "`ScaleFunction`",
        "Set `ScalingMode` to `on` when the decisions in the log are what you want";
    /// The capacity of the main table throttles, and is as high as `MaxReadCapacityUnits` or `MaxWriteCapacityUnits`
    /// allows.
    CapacityAtCeiling, "`ScaleFunction`",
        "Raise that parameter, or make clients send less";
    /// Each minute, when the sweep has looked for changes of shard counts that came to a halt.
    SweepsFinished, "`RebalanceFunction`",
        "Nothing, as long as it has data. Without it, functions do not run, or no metric of any of them arrives: \
         [`sweeps-missing`](RUNBOOK.md#sweeps-missing)";
    /// Records of the metadata table's stream could not be acted on. They come again, and at last go to the failure
    /// queue.
    StreamRecordsRefused, "`RebalanceFunction`",
        "Look at the log, and at the queue `RebalanceFailures`";
    /// Changes of shard counts could not be carried on, for a reason that neither passes by itself nor counts as another
    /// metric: a permission is missing, or DynamoDB rejects too many items. The next sweep tries again.
    ChangesFailed, "`RebalanceFunction`",
        "The log says why: [`changes-failed`](RUNBOOK.md#changes-failed)";
    /// Changes of shard counts ended: the growth of a `random` collection when it is in force and leases on the old
    /// count have ended, any other change when its items are moved and its markers removed.
    ReshardsFinished, "`RebalanceFunction`",
        "Nothing. A reshard that moves items takes `RequestLifetimeSecs` and more. If `GrowthsBegun` and \
         `WriterGrowths` are ahead of it for much longer, `GET /collection` says how far a reshard is; look at the \
         function's errors";
    /// Items moved from their shard to another, as the job's checkpoints say.
    ItemsMoved, "`RebalanceFunction`",
        "Nothing. If it has no data while `ReshardProgress` is below 100, look at throttles of the main table and at \
         the function's errors";
}

names! {
    /// What is measured.
    Gauge:
    /// For how long a change of the shard count has been running, or, once it has closed, been cleared up: at the end of
    /// each slice and sweep, also of a failed one.
    ReshardAge, "`RebalanceFunction`",
        "Nothing, up to `RequestLifetimeSecs` and the time that moving takes. Beyond that, `GET /collection` and the \
         log say what it waits for";
    /// In how many seconds the reshard closes. No data until the estimate is possible.
    ReshardEta, "`RebalanceFunction`",
        "Nothing";
    /// How much of the source shards the present scan of the reshard has behind it. The estimate takes the sort keys
    /// of a shard to be spread evenly, and starts again with the closing scan.
    ReshardProgress, "`RebalanceFunction`",
        "Nothing";
    /// How many items of the reshard DynamoDB rejects in the shards that they are to move to. No data where there are
    /// none.
    UnmovableItems, "`RebalanceFunction`",
        "[Replace or delete them](RUNBOOK.md#reshard-age), or change the index. The log and `GET /collection` name \
         them";
}

impl Counter {
    /// The counter of what was decided.
    pub fn of_decision(decision: &Decision, outcome: Outcome) -> Option<Self> {
        let is_shrink = decision.diagnosis == Diagnosis::CooledDown;
        Some(match (outcome, decision.hindrance) {
            // It is neither, and its reshard counts like any.
            _ if decision.diagnosis == Diagnosis::ManyEpochs => return None,
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
    pub fn count(&self, now: Moment, counted: impl IntoIterator<Item = (Counter, usize)>) {
        let happened = counted.into_iter().filter(|(_, times)| *times > 0);
        let metrics = happened.map(|(counter, times)| Metric {
            name: counter.as_str(),
            unit: "Count",
            value: json!(times),
        });
        self.write(now, &metrics.collect::<Vec<_>>());
    }

    /// Writes what was measured at `now`.
    pub fn measure(&self, now: Moment, measured: impl IntoIterator<Item = (Gauge, u64)>) {
        let metrics = measured.into_iter().map(|(gauge, value)| Metric {
            name: gauge.as_str(),
            unit: gauge.unit(),
            value: json!(value),
        });
        self.write(now, &metrics.collect::<Vec<_>>());
    }

    fn write(&self, now: Moment, metrics: &[Metric]) {
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
        let mut out = self.out.lock();
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
            (CountChange::Grow(_), Outcome::Begun) => Some(Counter::WriterGrowths),
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
    use std::time::Duration;

    use dynashard_api::problem::Problem;
    use dynashard_api::response::Response;
    use dynashard_testkit::Output;

    use super::*;

    #[test]
    fn a_count_is_one_line_in_the_embedded_metric_format() {
        let output = Output::default();
        let metrics = Metrics::to("stack-ScaleFunction-1".to_owned(), output.clone());
        let now = Moment { wall: Duration::from_millis(1_795_167_000_490), ..Moment::default() };
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
        metrics.measure(Moment::default(), measured);
        let line = serde_json::from_str::<Value>(&output.text()).expect("JSON");
        let units = json!([
            { "Name": "ReshardEta", "Unit": "Seconds" },
            { "Name": "ReshardProgress", "Unit": "Percent" },
        ]);
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Metrics"], units);
        assert_eq!((&line["ReshardEta"], &line["ReshardProgress"]), (&json!(960), &json!(0)));
    }
}
