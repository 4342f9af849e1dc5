//! The capacity that a table is provisioned with.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, ScanBy,
};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{
    BillingMode, ProvisionedThroughput, ProvisionedThroughputDescription, TableDescription,
};
use dynashard_core::ports::{AlarmControl, CapacityUpdate, StoreError, TableCapacity};
use dynashard_core::{
    AlarmStatus, CapacityMetrics, CapacityPeriod, CapacitySide, CapacityUnits, HeatWindow,
    TableThroughput,
};

use crate::alarm::{CloudWatchAlarm, date_time};
use crate::error::{of_watch, service_error};

/// The capacity of a table by DynamoDB, its metrics by CloudWatch, and the alarms on them.
#[derive(Debug, Clone)]
pub struct DynamoTableCapacity {
    dynamodb: aws_sdk_dynamodb::Client,
    cloudwatch: aws_sdk_cloudwatch::Client,
    table: String,
    alarms: Vec<String>,
}

impl DynamoTableCapacity {
    /// The capacity of `table`, and the alarms of these names.
    pub(crate) fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        cloudwatch: aws_sdk_cloudwatch::Client,
        table: String,
        alarms: Vec<String>,
    ) -> Self {
        Self { dynamodb, cloudwatch, table, alarms }
    }

    fn alarm<'a>(&'a self, name: &'a str) -> CloudWatchAlarm<'a> {
        CloudWatchAlarm { cloudwatch: &self.cloudwatch, name }
    }
}

#[async_trait]
impl TableCapacity for DynamoTableCapacity {
    async fn throughput(&self) -> Result<TableThroughput, StoreError> {
        // The client sends every request once because of the writes. This one is safe to repeat.
        let again = aws_sdk_dynamodb::config::Builder::new().retry_config(RetryConfig::standard());
        let answer = self
            .dynamodb
            .describe_table()
            .table_name(&self.table)
            .customize()
            .config_override(again)
            .send()
            .await
            .map_err(|e| of_watch("DescribeTable", &e))?;
        let table = answer.table.ok_or_else(|| {
            StoreError::Unavailable("DescribeTable answered without the table".to_owned())
        })?;
        let increased = table.provisioned_throughput().and_then(|of| of.last_increase_date_time());
        Ok(TableThroughput {
            provisioned: provisioned(&table).map(|(reads, writes)| CapacityUnits { reads, writes }),
            status: table.table_status().map_or("", |status| status.as_str()).to_owned(),
            increased_secs: increased.and_then(|at| u64::try_from(at.secs()).ok()),
        })
    }

    async fn metrics(&self, window: HeatWindow) -> Result<CapacityMetrics, StoreError> {
        let queries = CapacitySide::ALL
            .iter()
            .flat_map(|access| MEASURES.iter().map(move |measure| (*access, measure)))
            .map(|(access, measure)| measure.query(access, &self.table, window.period_secs));
        let answer = self
            .cloudwatch
            .get_metric_data()
            .set_metric_data_queries(Some(queries.collect()))
            .start_time(date_time(window.from_secs))
            .end_time(date_time(window.to_secs))
            .scan_by(ScanBy::TimestampAscending)
            .send()
            .await
            .map_err(|e| of_watch("GetMetricData", &e))?;
        let results = answer.metric_data_results();
        let of = |access| periods(access, results);
        Ok(CapacityMetrics { reads: of(CapacitySide::Reads), writes: of(CapacitySide::Writes) })
    }

    async fn update(&self, to: CapacityUnits) -> Result<CapacityUpdate, StoreError> {
        let throughput = ProvisionedThroughput::builder()
            .read_capacity_units(signed(to.reads))
            .write_capacity_units(signed(to.writes))
            .build()
            .map_err(|e| StoreError::Rejected(e.to_string()))?;
        let request = self.dynamodb.update_table().table_name(&self.table);
        match request.provisioned_throughput(throughput).send().await {
            Ok(_) => Ok(CapacityUpdate::Accepted),
            Err(error) => match service_error(&error) {
                Some(("ResourceInUseException", _)) => Ok(CapacityUpdate::InUse),
                Some(("LimitExceededException", why)) => {
                    Ok(CapacityUpdate::LimitExceeded(why.to_owned()))
                }
                Some(("ValidationException", why)) if why.contains(NO_CHANGE) => {
                    Ok(CapacityUpdate::NoChange)
                }
                _ => Err(of_watch("UpdateTable", &error)),
            },
        }
    }
}

#[async_trait]
impl AlarmControl for DynamoTableCapacity {
    /// Raised is who of the alarms is; the periods are the longest.
    async fn status(&self) -> Result<AlarmStatus, StoreError> {
        let mut all =
            AlarmStatus { is_raised: false, period: Duration::ZERO, evaluation_periods: 1 };
        for name in &self.alarms {
            let one = self.alarm(name).status().await?;
            all = AlarmStatus {
                is_raised: all.is_raised || one.is_raised,
                period: all.period.max(one.period),
                evaluation_periods: all.evaluation_periods.max(one.evaluation_periods),
            };
        }
        Ok(all)
    }

    async fn rearm(&self, reason: &str) -> Result<(), StoreError> {
        for name in &self.alarms {
            self.alarm(name).rearm(reason).await?;
        }
        Ok(())
    }
}

/// How DynamoDB refuses an update to what a table has already.
const NO_CHANGE: &str = "will not change";

/// A metric of a table that is asked for, of reads and of writes.
struct Measure {
    /// Its id in the request, before which stands the kind of access.
    id: &'static str,
    /// The metric's name, in front of which stands `Read` or `Write`; of consumption, in the middle.
    metric: fn(&str) -> String,
    statistic: &'static str,
}

const MEASURES: [Measure; 7] = [
    Measure { id: "consumed", metric: consumed, statistic: "Sum" },
    Measure { id: "requests", metric: consumed, statistic: "SampleCount" },
    Measure { id: "throttled", metric: |of| format!("{of}ThrottleEvents"), statistic: "Sum" },
    Measure {
        id: "provisioned",
        metric: |of| format!("{of}ProvisionedThroughputThrottleEvents"),
        statistic: "Sum",
    },
    Measure {
        id: "key_range",
        metric: |of| format!("{of}KeyRangeThroughputThrottleEvents"),
        statistic: "Sum",
    },
    Measure {
        id: "account",
        metric: |of| format!("{of}AccountLimitThrottleEvents"),
        statistic: "Sum",
    },
    Measure {
        id: "on_demand",
        metric: |of| format!("{of}MaxOnDemandThroughputThrottleEvents"),
        statistic: "Sum",
    },
];

fn consumed(of: &str) -> String {
    format!("Consumed{of}CapacityUnits")
}

impl Measure {
    fn query(&self, access: CapacitySide, table: &str, period_secs: u32) -> MetricDataQuery {
        let name = match access {
            CapacitySide::Reads => "Read",
            CapacitySide::Writes => "Write",
        };
        let metric = Metric::builder()
            .namespace("AWS/DynamoDB")
            .metric_name((self.metric)(name))
            .dimensions(Dimension::builder().name("TableName").value(table).build());
        let statistic = MetricStat::builder()
            .metric(metric.build())
            .period(i32::try_from(period_secs).unwrap_or(i32::MAX))
            .stat(self.statistic);
        let query = MetricDataQuery::builder().id(query_id(access, self.id));
        query.metric_stat(statistic.build()).build()
    }
}

/// The id of a query: letters, digits and underscores behind a small letter.
fn query_id(access: CapacitySide, measure: &str) -> String {
    format!("{}_{measure}", access.as_str())
}

/// The periods of one kind of access in which anything happened.
fn periods(access: CapacitySide, results: &[MetricDataResult]) -> Vec<CapacityPeriod> {
    let mut periods = BTreeMap::<u64, CapacityPeriod>::new();
    let mut each = |measure: &str, add: fn(&mut CapacityPeriod, f64)| {
        let id = query_id(access, measure);
        for result in results.iter().filter(|result| result.id() == Some(&id)) {
            for (at, value) in result.timestamps().iter().zip(result.values()) {
                let Ok(at_secs) = u64::try_from(at.secs()) else { continue };
                let period = periods.entry(at_secs).or_default();
                add(period, *value);
                period.at_secs = at_secs;
            }
        }
    };
    each("consumed", |period, value| period.consumed += value);
    each("requests", |period, value| period.requests += value);
    each("provisioned", |period, value| period.refused += value);
    each("throttled", |period, value| period.unexplained += value);
    // All throttles were counted, and those that have a reason come off.
    for reason in ["provisioned", "key_range", "account", "on_demand"] {
        each(reason, |period, value| period.unexplained -= value);
    }
    let known = periods.into_values();
    known.map(|of| CapacityPeriod { unexplained: of.unexplained.max(0.0), ..of }).collect()
}

/// Units in the SDK's type.
pub fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// What a table is provisioned with. On demand its capacity is given as zero, or not at all.
pub fn provisioned(table: &TableDescription) -> Option<(u64, u64)> {
    let mode = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    if mode == Some(&BillingMode::PayPerRequest) {
        return None;
    }
    units(table.provisioned_throughput()?)
}

/// What a table or an index is provisioned with. On demand these are given as zero.
pub fn units(of: &ProvisionedThroughputDescription) -> Option<(u64, u64)> {
    let units = (unsigned(of.read_capacity_units()), unsigned(of.write_capacity_units()));
    (units != (0, 0)).then_some(units)
}

fn unsigned(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}
