//! What CloudWatch counts of a stack.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, ScanBy,
};
use dynashard_core::ports::{StoreError, UsageSource};
use dynashard_core::{HeatWindow, Usage, UsagePeriod};

use dynashard_aws::ACTIVE_INDEX;
use dynashard_aws::alarm::date_time;
use dynashard_aws::error::of_watch;

/// The tables whose consumption is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredTables {
    /// The main table.
    pub main: String,
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
        let queries =
            MEASURES.iter().filter_map(|measure| measure.query(&self.tables, period_secs));
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
            add(&mut usage, answer.metric_data_results());
            page = answer.next_token;
            if page.is_none() {
                return Ok(usage);
            }
        }
    }
}

/// A metric that is asked for: its id in the request, whose it is, its name, and where its values go.
struct Measure(&'static str, Of, &'static str, fn(&mut UsagePeriod) -> &mut f64);

/// Whose metric it is.
#[derive(Debug, Clone, Copy)]
enum Of {
    Main,
    Metadata,
    MetadataIndex,
    Mover,
}

const READS: &str = "ConsumedReadCapacityUnits";
const WRITES: &str = "ConsumedWriteCapacityUnits";

/// "DynamoDB metrics and dimensions" in the Amazon DynamoDB Developer Guide, and docs/METRICS.md.
const MEASURES: [Measure; 15] = [
    Measure("main_reads", Of::Main, READS, |of| &mut of.main.reads),
    Measure("main_writes", Of::Main, WRITES, |of| &mut of.main.writes),
    Measure("metadata_reads", Of::Metadata, READS, |of| &mut of.metadata.reads),
    Measure("metadata_writes", Of::Metadata, WRITES, |of| &mut of.metadata.writes),
    Measure("index_reads", Of::MetadataIndex, READS, |of| &mut of.metadata.reads),
    Measure("index_writes", Of::MetadataIndex, WRITES, |of| &mut of.metadata.writes),
    Measure("r_partition", Of::Main, "ReadKeyRangeThroughputThrottleEvents", |of| {
        &mut of.throttled_reads.partition
    }),
    Measure("r_provisioned", Of::Main, "ReadProvisionedThroughputThrottleEvents", |of| {
        &mut of.throttled_reads.provisioned
    }),
    Measure("r_account", Of::Main, "ReadAccountLimitThrottleEvents", |of| {
        &mut of.throttled_reads.account
    }),
    Measure("r_on_demand", Of::Main, "ReadMaxOnDemandThroughputThrottleEvents", |of| {
        &mut of.throttled_reads.on_demand
    }),
    Measure("w_partition", Of::Main, "WriteKeyRangeThroughputThrottleEvents", |of| {
        &mut of.throttled_writes.partition
    }),
    Measure("w_provisioned", Of::Main, "WriteProvisionedThroughputThrottleEvents", |of| {
        &mut of.throttled_writes.provisioned
    }),
    Measure("w_account", Of::Main, "WriteAccountLimitThrottleEvents", |of| {
        &mut of.throttled_writes.account
    }),
    Measure("w_on_demand", Of::Main, "WriteMaxOnDemandThroughputThrottleEvents", |of| {
        &mut of.throttled_writes.on_demand
    }),
    Measure("items_moved", Of::Mover, "ItemsMoved", |of| &mut of.items_moved),
];

impl Measure {
    /// The query, unless nobody knows whom to ask about.
    fn query(&self, tables: &MeasuredTables, period_secs: u32) -> Option<MetricDataQuery> {
        let Self(id, of, metric, _) = self;
        let of_table = |table: &String| ("AWS/DynamoDB", vec![("TableName", table.clone())]);
        let (namespace, mut dimensions) = match of {
            Of::Main => of_table(&tables.main),
            Of::Metadata | Of::MetadataIndex => of_table(&tables.metadata),
            Of::Mover => ("dynashard", vec![("FunctionName", tables.rebalance_function.clone()?)]),
        };
        if matches!(of, Of::MetadataIndex) {
            dimensions.push(("GlobalSecondaryIndexName", ACTIVE_INDEX.to_owned()));
        }
        let dimensions = dimensions
            .into_iter()
            .map(|(name, value)| Dimension::builder().name(name).value(value).build());
        let metric = Metric::builder()
            .namespace(namespace)
            .metric_name(*metric)
            .set_dimensions(Some(dimensions.collect()));
        let statistic = MetricStat::builder()
            .metric(metric.build())
            .period(i32::try_from(period_secs).unwrap_or(i32::MAX))
            .stat("Sum");
        Some(MetricDataQuery::builder().id(*id).metric_stat(statistic.build()).build())
    }
}

fn add(usage: &mut Usage, results: &[MetricDataResult]) {
    for result in results {
        let measure = MEASURES.iter().find(|measure| Some(measure.0) == result.id());
        let Some(Measure(.., of)) = measure else { continue };
        for (at, value) in result.timestamps().iter().zip(result.values()) {
            let Ok(at_secs) = u64::try_from(at.secs()) else { continue };
            *of(usage.periods.entry(at_secs).or_default()) += *value;
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers")]
mod tests {
    use aws_sdk_cloudwatch::primitives::DateTime;

    use super::*;

    fn result(id: &str, values: &[(i64, f64)]) -> MetricDataResult {
        let times = values.iter().map(|(at, _)| DateTime::from_secs(*at)).collect();
        let numbers = values.iter().map(|(_, value)| *value).collect();
        MetricDataResult::builder()
            .id(id)
            .set_timestamps(Some(times))
            .set_values(Some(numbers))
            .build()
    }

    #[test]
    fn the_values_of_all_metrics_come_together_by_period() {
        let mut usage = Usage::default();
        add(
            &mut usage,
            &[
                result("main_writes", &[(60, 500.0), (120, 700.0)]),
                result("metadata_writes", &[(60, 3.0)]),
                result("index_writes", &[(60, 2.0)]),
                result("w_partition", &[(120, 40.0)]),
                result("unknown", &[(120, 9.0)]),
            ],
        );
        assert_eq!(usage.periods[&60].metadata.writes, 5.0, "the table's and its index's");
        assert_eq!(usage.since(0).main.writes, 1_200.0);
        assert_eq!(usage.since(61).throttled_writes.total(), 40.0);
        assert_eq!(usage.since(121), UsagePeriod::default());
    }

    #[test]
    fn moves_are_asked_for_only_where_the_function_is_known() {
        let tables = |function: Option<&str>| MeasuredTables {
            main: "items".to_owned(),
            metadata: "collections".to_owned(),
            rebalance_function: function.map(str::to_owned),
        };
        let asked = |tables: &MeasuredTables| {
            MEASURES.iter().filter(|measure| measure.query(tables, 60).is_some()).count()
        };
        assert_eq!((asked(&tables(None)), asked(&tables(Some("mover")))), (14, 15));
    }
}
