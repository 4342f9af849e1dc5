//! The keys that CloudWatch Contributor Insights saw throttled, and the alarms on them.

use async_trait::async_trait;
use aws_sdk_cloudwatch::types::InsightRuleContributor;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use dynashard_core::ports::{AlarmControl, HeatAlarms, HeatSource, StoreError};
use dynashard_core::{Access, HeatWindow, HotKey, Throttles};

use crate::alarm::{CloudWatchAlarm, date_time};
use crate::capacity::DynamoTableCapacity;
use crate::error::of_watch;

/// How the rules begin that DynamoDB makes for the most throttled partition keys; the table's name
/// and a timestamp follow (Amazon DynamoDB Developer Guide, "How it works: Contributor Insights").
pub const THROTTLED_PARTITION_KEYS: &str = "DynamoDBContributorInsights-PKT-";

/// How the rules begin for the most throttled items, by both keys.
pub const THROTTLED_ITEMS: &str = "DynamoDBContributorInsights-SKT-";

/// The contributors that are asked for: as many as a report has at most (Amazon CloudWatch API, `GetInsightRuleReport`). Throttled keys
/// beyond them come up when these have grown. The cells of a counter are among them until it has enough.
const MAX_CONTRIBUTORS: i32 = 100;

/// The throttled keys of a table, by Contributor Insights, and the CloudWatch alarm on them.
#[derive(Debug, Clone)]
pub struct CloudWatchHeat {
    dynamodb: aws_sdk_dynamodb::Client,
    cloudwatch: aws_sdk_cloudwatch::Client,
    table: String,
    alarms: ThrottleAlarms,
}

/// The name of an alarm that a stack does without.
const NO_ALARM: &str = "none";

/// The names of the alarms on throttles; `none` where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleAlarms {
    /// Of that on writes.
    pub writes: String,
    /// Of that on reads.
    pub reads: String,
}

impl ThrottleAlarms {
    fn on(&self, access: Access) -> &str {
        match access {
            Access::Write => &self.writes,
            Access::Get | Access::Query => &self.reads,
        }
    }
}

impl CloudWatchHeat {
    /// The throttles of `table`, and the alarms of these names.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        cloudwatch: aws_sdk_cloudwatch::Client,
        table: String,
        alarms: ThrottleAlarms,
    ) -> Self {
        Self { dynamodb, cloudwatch, table, alarms }
    }

    /// The capacity of the same table, with the alarms of these names, by the same clients.
    pub fn table_capacity(&self, alarms: Vec<String>) -> DynamoTableCapacity {
        let (dynamodb, cloudwatch) = (self.dynamodb.clone(), self.cloudwatch.clone());
        DynamoTableCapacity::new(dynamodb, cloudwatch, self.table.clone(), alarms)
    }

    /// The names of the rules, which carry timestamps and so must be asked for.
    async fn rules(&self) -> Result<Vec<String>, StoreError> {
        // The client sends every request once because of the writes. This one is safe to repeat.
        let again = aws_sdk_dynamodb::config::Builder::new().retry_config(RetryConfig::standard());
        let answer = self
            .dynamodb
            .describe_contributor_insights()
            .table_name(&self.table)
            .customize()
            .config_override(again)
            .send()
            .await
            .map_err(|e| of_watch("DescribeContributorInsights", &e))?;
        Ok(answer.contributor_insights_rule_list.unwrap_or_default())
    }

    async fn report(
        &self,
        rule: &str,
        window: HeatWindow,
    ) -> Result<Vec<InsightRuleContributor>, StoreError> {
        let answer = self
            .cloudwatch
            .get_insight_rule_report()
            .rule_name(rule)
            .start_time(date_time(window.from_secs))
            .end_time(date_time(window.to_secs))
            .period(i32::try_from(window.period_secs).unwrap_or(i32::MAX))
            .max_contributor_count(MAX_CONTRIBUTORS)
            .order_by("Sum")
            .send()
            .await
            .map_err(|e| of_watch("GetInsightRuleReport", &e))?;
        Ok(answer.contributors.unwrap_or_default())
    }
}

#[async_trait]
impl HeatSource for CloudWatchHeat {
    async fn throttled_keys(&self, window: HeatWindow) -> Result<Vec<HotKey>, StoreError> {
        let rules = self.rules().await?;
        let keys = latest(&rules, THROTTLED_PARTITION_KEYS).ok_or_else(|| {
            StoreError::Misconfigured(format!(
                "Contributor Insights has no rule for throttled partition keys of the table {}; \
                 turn it on for the table",
                self.table
            ))
        })?;
        let contributors = self.report(keys, window).await?;
        if contributors.is_empty() {
            return Ok(Vec::new());
        }
        let items = match latest(&rules, THROTTLED_ITEMS) {
            Some(rule) => Some(self.report(rule, window).await?),
            None => None,
        };
        let hottest_item = |partition: &str| {
            let items = items.as_ref()?.iter();
            let of_key = items.filter(|item| item.keys().first().is_some_and(|k| k == partition));
            let counts = of_key.filter_map(InsightRuleContributor::approximate_aggregate_value);
            counts.reduce(f64::max)
        };
        let keys = contributors.iter().filter_map(|contributor| {
            let key = hot_key(contributor, window)?;
            Some(HotKey { hottest_item: hottest_item(&key.partition), ..key })
        });
        Ok(keys.collect())
    }
}

/// Of several rules that begin so, that with the latest timestamp: insights were turned off and on again.
pub fn latest<'a>(rules: &'a [String], prefix: &str) -> Option<&'a str> {
    rules.iter().filter(|rule| rule.starts_with(prefix)).max().map(String::as_str)
}

impl HeatAlarms for CloudWatchHeat {
    fn alarm(&self, access: Access) -> Box<dyn AlarmControl + '_> {
        Box::new(CloudWatchAlarm { cloudwatch: &self.cloudwatch, name: self.alarms.on(access) })
    }

    fn is_there(&self, access: Access) -> bool {
        self.alarms.on(access) != NO_ALARM
    }
}

/// A contributor of the rule, whose first key is the partition key. One without datapoints counts as
/// throttled when the window began, so that it is never taken for recent.
fn hot_key(contributor: &InsightRuleContributor, window: HeatWindow) -> Option<HotKey> {
    let partition = contributor.keys().first()?.clone();
    let mut throttles = contributor
        .datapoints()
        .iter()
        .filter_map(|datapoint| {
            let at_secs = u64::try_from(datapoint.timestamp()?.secs()).ok()?;
            Some(Throttles { at_secs, count: datapoint.approximate_value()? })
        })
        .collect::<Vec<_>>();
    if throttles.is_empty() {
        let count = contributor.approximate_aggregate_value()?;
        throttles.push(Throttles { at_secs: window.from_secs, count });
    }
    Some(HotKey { partition, throttles, hottest_item: None })
}
