use aws_sdk_cloudwatch::types::InsightRuleContributor;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use dynashard_core::ports::{AlarmControl, HeatSource, StoreError};
use dynashard_core::{AlarmStatus, HeatWindow, HotKey, Throttles};

use crate::alarm::{CloudWatchAlarm, date_time};
use crate::capacity::DynamoTableCapacity;
use crate::error::of_watch;

/// How the rules begin that DynamoDB makes for the most throttled partition keys; the table's name
/// and a timestamp follow (Amazon DynamoDB Developer Guide, "How it works: Contributor Insights").
const THROTTLED_PARTITION_KEYS: &str = "DynamoDBContributorInsights-PKT-";

/// The contributors that are asked for. Throttled keys beyond them come up when these have grown.
const MAX_CONTRIBUTORS: i32 = 25;

/// The throttled keys of a table, by Contributor Insights, and the CloudWatch alarm on them.
#[derive(Debug, Clone)]
pub struct CloudWatchHeat {
    dynamodb: aws_sdk_dynamodb::Client,
    cloudwatch: aws_sdk_cloudwatch::Client,
    table: String,
    alarm: String,
}

impl CloudWatchHeat {
    /// The throttles of `table`, and the alarm named `alarm`.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        cloudwatch: aws_sdk_cloudwatch::Client,
        table: String,
        alarm: String,
    ) -> Self {
        Self { dynamodb, cloudwatch, table, alarm }
    }

    /// The capacity of the same table, with the alarms of these names, by the same clients.
    pub fn table_capacity(&self, alarms: Vec<String>) -> DynamoTableCapacity {
        let (dynamodb, cloudwatch) = (self.dynamodb.clone(), self.cloudwatch.clone());
        DynamoTableCapacity::new(dynamodb, cloudwatch, self.table.clone(), alarms)
    }

    fn alarm(&self) -> CloudWatchAlarm<'_> {
        CloudWatchAlarm { cloudwatch: &self.cloudwatch, name: &self.alarm }
    }

    /// The name of the rule, which carries a timestamp and so must be asked for.
    async fn rule(&self) -> Result<String, StoreError> {
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
        let rules = answer.contributor_insights_rule_list().iter();
        let rules = rules.filter(|rule| rule.starts_with(THROTTLED_PARTITION_KEYS));
        // Of several, that with the latest timestamp: insights were turned off and on again.
        rules.max().cloned().ok_or_else(|| {
            StoreError::Misconfigured(format!(
                "Contributor Insights has no rule for throttled partition keys of the table {}; \
                 turn it on for the table",
                self.table
            ))
        })
    }
}

impl HeatSource for CloudWatchHeat {
    async fn throttled_keys(&self, window: HeatWindow) -> Result<Vec<HotKey>, StoreError> {
        let rule = self.rule().await?;
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
        Ok(answer.contributors().iter().filter_map(|c| hot_key(c, window)).collect())
    }
}

impl AlarmControl for CloudWatchHeat {
    async fn status(&self) -> Result<AlarmStatus, StoreError> {
        self.alarm().status().await
    }

    async fn rearm(&self, reason: &str) -> Result<(), StoreError> {
        self.alarm().rearm(reason).await
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
    Some(HotKey { partition, throttles })
}
