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

/// Whose metric it is.
#[derive(Debug, Clone, Copy)]
enum Of {
    Main,
    Metadata,
    MetadataIndex,
    Mover,
}

/// A metric that is asked for, and where its values go.
struct Measure {
    /// Its id in the request.
    id: &'static str,
    of: Of,
    metric: &'static str,
    add: fn(&mut UsagePeriod, f64),
}

const fn measure(
    id: &'static str,
    of: Of,
    metric: &'static str,
    add: fn(&mut UsagePeriod, f64),
) -> Measure {
    Measure { id, of, metric, add }
}

const READS: &str = "ConsumedReadCapacityUnits";
const WRITES: &str = "ConsumedWriteCapacityUnits";

/// "DynamoDB metrics and dimensions" in the Amazon DynamoDB Developer Guide, and docs/METRICS.md.
const MEASURES: [Measure; 15] = [
    measure("main_reads", Of::Main, READS, |period, value| period.main.reads += value),
    measure("main_writes", Of::Main, WRITES, |period, value| period.main.writes += value),
    measure("metadata_reads", Of::Metadata, READS, |period, value| period.metadata.reads += value),
    measure("metadata_writes", Of::Metadata, WRITES, |period, value| {
        period.metadata.writes += value;
    }),
    measure("index_reads", Of::MetadataIndex, READS, |period, value| {
        period.metadata.reads += value;
    }),
    measure("index_writes", Of::MetadataIndex, WRITES, |period, value| {
        period.metadata.writes += value;
    }),
    measure("r_partition", Of::Main, "ReadKeyRangeThroughputThrottleEvents", |period, value| {
        period.throttled_reads.partition += value;
    }),
    measure(
        "r_provisioned",
        Of::Main,
        "ReadProvisionedThroughputThrottleEvents",
        |period, value| {
            period.throttled_reads.provisioned += value;
        },
    ),
    measure("r_account", Of::Main, "ReadAccountLimitThrottleEvents", |period, value| {
        period.throttled_reads.account += value;
    }),
    measure("r_on_demand", Of::Main, "ReadMaxOnDemandThroughputThrottleEvents", |period, value| {
        period.throttled_reads.on_demand += value;
    }),
    measure("w_partition", Of::Main, "WriteKeyRangeThroughputThrottleEvents", |period, value| {
        period.throttled_writes.partition += value;
    }),
    measure(
        "w_provisioned",
        Of::Main,
        "WriteProvisionedThroughputThrottleEvents",
        |period, value| {
            period.throttled_writes.provisioned += value;
        },
    ),
    measure("w_account", Of::Main, "WriteAccountLimitThrottleEvents", |period, value| {
        period.throttled_writes.account += value;
    }),
    measure(
        "w_on_demand",
        Of::Main,
        "WriteMaxOnDemandThroughputThrottleEvents",
        |period, value| {
            period.throttled_writes.on_demand += value;
        },
    ),
    measure("items_moved", Of::Mover, "ItemsMoved", |period, value| period.items_moved += value),
];

impl Measure {
    /// The query, unless nobody knows whom to ask about.
    fn query(&self, tables: &MeasuredTables, period_secs: u32) -> Option<MetricDataQuery> {
        let dimension =
            |name: &str, value: &str| Dimension::builder().name(name).value(value).build();
        let metric = Metric::builder().metric_name(self.metric);
        let metric = match self.of {
            Of::Main => {
                metric.namespace("AWS/DynamoDB").dimensions(dimension("TableName", &tables.main))
            }
            Of::Metadata => metric
                .namespace("AWS/DynamoDB")
                .dimensions(dimension("TableName", &tables.metadata)),
            Of::MetadataIndex => metric
                .namespace("AWS/DynamoDB")
                .dimensions(dimension("TableName", &tables.metadata))
                .dimensions(dimension("GlobalSecondaryIndexName", ACTIVE_INDEX)),
            Of::Mover => metric
                .namespace("dynashard")
                .dimensions(dimension("FunctionName", tables.rebalance_function.as_ref()?)),
        };
        let statistic = MetricStat::builder()
            .metric(metric.build())
            .period(i32::try_from(period_secs).unwrap_or(i32::MAX))
            .stat("Sum");
        Some(MetricDataQuery::builder().id(self.id).metric_stat(statistic.build()).build())
    }
}

fn add(usage: &mut Usage, results: &[MetricDataResult]) {
    for result in results {
        let measure = MEASURES.iter().find(|measure| Some(measure.id) == result.id());
        let Some(measure) = measure else { continue };
        for (at, value) in result.timestamps().iter().zip(result.values()) {
            let Ok(at_secs) = u64::try_from(at.secs()) else { continue };
            (measure.add)(usage.periods.entry(at_secs).or_default(), *value);
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
