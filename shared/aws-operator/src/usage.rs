//! What CloudWatch counts of a stack.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, ScanBy,
};
use dynashard_core::ports::{StoreError, UsageSource};
use dynashard_core::{HeatWindow, Replica, Usage, UsagePeriod};

use dynashard_aws::alarm::date_time;
use dynashard_aws::error::of_watch;
use dynashard_aws::{ACTIVE_INDEX, DECISIONS_INDEX};

/// The tables whose consumption is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredTables {
    /// The main table.
    pub main: String,
    /// Its global secondary indexes, read replicas among them.
    pub main_indexes: Vec<String>,
    /// The metadata table.
    pub metadata: String,
    /// The physical name of `RebalanceFunction`, which counts the items that it moves. Without it nobody
    /// knows how many there were.
    pub rebalance_function: Option<String>,
}

/// What CloudWatch counts of the tables.
#[derive(Debug, Clone)]
pub struct CloudWatchUsage {
    cloudwatch: Client,
    tables: MeasuredTables,
}

impl CloudWatchUsage {
    pub(crate) fn new(cloudwatch: Client, tables: MeasuredTables) -> Self {
        Self { cloudwatch, tables }
    }
}

#[async_trait]
impl UsageSource for CloudWatchUsage {
    async fn usage(&self, window: HeatWindow) -> Result<Usage, StoreError> {
        let period_secs = window.period_secs.max(1);
        let measures = measures(&self.tables);
        let queries = measures.iter().map(|measure| measure.query(period_secs));
        let mut usage = Usage { period_secs, periods: BTreeMap::new() };
        let mut page = None;
        loop {
            let answer = self
                .cloudwatch
                .get_metric_data()
                .set_metric_data_queries(Some(queries.clone().collect()))
                .start_time(date_time(window.from_secs))
                .end_time(date_time(window.to_secs))
                .scan_by(ScanBy::TimestampAscending)
                .set_next_token(page)
                .send()
                .await
                .map_err(|e| of_watch("GetMetricData", &e))?;
            add(&mut usage, &measures, answer.metric_data_results());
            page = answer.next_token;
            if page.is_none() {
                return Ok(usage);
            }
        }
    }
}

/// Where the values of a metric go.
type Part = fn(&mut UsagePeriod) -> &mut f64;

/// A metric that is asked for.
#[derive(Debug)]
struct Measure {
    /// Its id in the request.
    id: String,
    namespace: &'static str,
    dimensions: Vec<(&'static str, String)>,
    metric: &'static str,
    to: Part,
}

/// What is counted of a table or an index: the metric, and where its values go.
type Counted = (&'static str, Part);

const READS: &str = "ConsumedReadCapacityUnits";
const WRITES: &str = "ConsumedWriteCapacityUnits";

const MAIN: [Counted; 10] = [
    (READS, |of| &mut of.main.reads),
    (WRITES, |of| &mut of.main.writes),
    ("ReadKeyRangeThroughputThrottleEvents", |of| &mut of.throttled_reads.partition),
    ("ReadProvisionedThroughputThrottleEvents", |of| &mut of.throttled_reads.provisioned),
    ("ReadAccountLimitThrottleEvents", |of| &mut of.throttled_reads.account),
    ("ReadMaxOnDemandThroughputThrottleEvents", |of| &mut of.throttled_reads.on_demand),
    ("WriteKeyRangeThroughputThrottleEvents", |of| &mut of.throttled_writes.partition),
    ("WriteProvisionedThroughputThrottleEvents", |of| &mut of.throttled_writes.provisioned),
    ("WriteAccountLimitThrottleEvents", |of| &mut of.throttled_writes.account),
    ("WriteMaxOnDemandThroughputThrottleEvents", |of| &mut of.throttled_writes.on_demand),
];
const REPLICA: [Counted; 2] =
    [(READS, |of| &mut of.replicas.reads), (WRITES, |of| &mut of.replicas.writes)];
const INDEX: [Counted; 2] =
    [(READS, |of| &mut of.indexes.reads), (WRITES, |of| &mut of.indexes.writes)];
const METADATA: [Counted; 2] =
    [(READS, |of| &mut of.metadata.reads), (WRITES, |of| &mut of.metadata.writes)];

/// What is asked for. CloudWatch counts an index apart from its table: "DynamoDB metrics and dimensions" in the Amazon DynamoDB
/// Developer Guide, and docs/METRICS.md.
fn measures(tables: &MeasuredTables) -> Vec<Measure> {
    let of_table = |table: &String, index: Option<&str>| {
        let index = index.map(|index| ("GlobalSecondaryIndexName", index.to_owned()));
        std::iter::once(("TableName", table.clone())).chain(index).collect::<Vec<_>>()
    };
    let is_replica =
        |name: &String| Replica::first(Replica::MOST).any(|replica| replica.to_string() == *name);
    let mut asked = vec![(of_table(&tables.main, None), &MAIN[..])];
    for index in &tables.main_indexes {
        let counted = if is_replica(index) { &REPLICA } else { &INDEX };
        asked.push((of_table(&tables.main, Some(index)), counted));
    }
    for index in [None, Some(ACTIVE_INDEX), Some(DECISIONS_INDEX)] {
        asked.push((of_table(&tables.metadata, index), &METADATA));
    }
    let of_tables = asked.into_iter().flat_map(|(dimensions, counted)| {
        counted.iter().map(move |(metric, to)| ("AWS/DynamoDB", dimensions.clone(), *metric, *to))
    });
    let items: Part = |of| &mut of.items_moved;
    let mover = tables.rebalance_function.iter().map(|function| {
        ("dynashard", vec![("FunctionName", function.clone())], "ItemsMoved", items)
    });
    let all = of_tables.chain(mover).enumerate();
    all.map(|(place, (namespace, dimensions, metric, to))| Measure {
        id: format!("m{place}"),
        namespace,
        dimensions,
        metric,
        to,
    })
    .collect()
}

impl Measure {
    fn query(&self, period_secs: u32) -> MetricDataQuery {
        let dimensions = self
            .dimensions
            .iter()
            .map(|(name, value)| Dimension::builder().name(*name).value(value).build());
        let metric = Metric::builder()
            .namespace(self.namespace)
            .metric_name(self.metric)
            .set_dimensions(Some(dimensions.collect()));
        let statistic = MetricStat::builder()
            .metric(metric.build())
            .period(i32::try_from(period_secs).unwrap_or(i32::MAX))
            .stat("Sum");
        MetricDataQuery::builder().id(&self.id).metric_stat(statistic.build()).build()
    }
}

fn add(usage: &mut Usage, measures: &[Measure], results: &[MetricDataResult]) {
    for result in results {
        let measure = measures.iter().find(|measure| Some(measure.id.as_str()) == result.id());
        let Some(Measure { to, .. }) = measure else { continue };
        for (at, value) in result.timestamps().iter().zip(result.values()) {
            let Ok(at_secs) = u64::try_from(at.secs()) else { continue };
            *to(usage.periods.entry(at_secs).or_default()) += *value;
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers")]
mod tests {
    use aws_sdk_cloudwatch::primitives::DateTime;

    use super::*;

    fn tables(main_indexes: &[&str], rebalance_function: Option<&str>) -> MeasuredTables {
        MeasuredTables {
            main: "items".to_owned(),
            main_indexes: main_indexes.iter().map(|&name| name.to_owned()).collect(),
            metadata: "collections".to_owned(),
            rebalance_function: rebalance_function.map(str::to_owned),
        }
    }

    /// What CloudWatch answers for a metric of a table, or of its index.
    fn result(
        measures: &[Measure],
        (table, index): (&str, Option<&str>),
        metric: &str,
        values: &[(i64, f64)],
    ) -> MetricDataResult {
        let names = std::iter::once(table).chain(index).collect::<Vec<_>>();
        let found = measures.iter().find(|of| {
            of.metric == metric && of.dimensions.iter().map(|(_, name)| name).eq(names.iter())
        });
        let times = values.iter().map(|(at, _)| DateTime::from_secs(*at)).collect();
        let numbers = values.iter().map(|(_, value)| *value).collect();
        MetricDataResult::builder()
            .id(&found.expect("it is asked for").id)
            .set_timestamps(Some(times))
            .set_values(Some(numbers))
            .build()
    }

    #[test]
    fn the_values_of_all_metrics_come_together_by_period() {
        let measures = measures(&tables(&[], None));
        let result = |of, metric, values: &[_]| result(&measures, of, metric, values);
        let mut usage = Usage::default();
        let unknown = MetricDataResult::builder().id("unknown").build();
        let results = [
            result(("items", None), WRITES, &[(60, 500.0), (120, 700.0)]),
            result(("collections", None), WRITES, &[(60, 3.0)]),
            result(("collections", Some("active")), WRITES, &[(60, 2.0)]),
            result(("collections", Some("decisions")), WRITES, &[(60, 1.0)]),
            result(("items", None), "WriteKeyRangeThroughputThrottleEvents", &[(120, 40.0)]),
            unknown,
        ];
        add(&mut usage, &measures, &results);
        assert_eq!(usage.periods[&60].metadata.writes, 6.0, "the table's and its indexes'");
        assert_eq!(usage.since(0).main.writes, 1_200.0);
        assert_eq!(usage.since(61).throttled_writes.total(), 40.0);
        assert_eq!(usage.since(121), UsagePeriod::default());
    }

    /// What replicas answered was shown as reads that nobody had served, and what indexes took cost nothing.
    #[test]
    fn regression_what_indexes_of_the_main_table_took_was_left_out() {
        let measures = measures(&tables(&["replica-1", "by-country"], None));
        let result = |of, metric, values: &[_]| result(&measures, of, metric, values);
        let mut usage = Usage::default();
        let results = [
            result(("items", None), READS, &[(60, 10.0)]),
            result(("items", Some("replica-1")), READS, &[(60, 30.0)]),
            result(("items", Some("by-country")), WRITES, &[(60, 7.0)]),
        ];
        add(&mut usage, &measures, &results);
        let minute = usage.periods[&60];
        assert_eq!((minute.item_reads(), minute.indexes.writes), (40.0, 7.0));
    }

    #[test]
    fn moves_are_asked_for_only_where_the_function_is_known() {
        let asked = |function| measures(&tables(&[], function)).len();
        assert_eq!((asked(None), asked(Some("mover"))), (16, 17));
    }
}
