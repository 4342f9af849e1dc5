//! The partition keys of a table that are asked for and refused most, by CloudWatch Contributor Insights.

use aws_sdk_cloudwatch::types::InsightRuleContributor;
use dynashard_aws::SystemClock;
use dynashard_aws::alarm::date_time;
use dynashard_aws::client::cloudwatch_at;
use dynashard_aws::error::of_watch;
use dynashard_aws::heat::{THROTTLED_ITEMS, THROTTLED_PARTITION_KEYS, latest};
use dynashard_core::HeatWindow;
use dynashard_core::ports::{Clock, StoreError};

use crate::operator::Operator;

/// How the rules begin that DynamoDB makes for what is asked for most, refused or not, where insights are on in that mode
/// (Amazon DynamoDB Developer Guide, "How it works: Contributor Insights").
const ACCESSED_PARTITION_KEYS: &str = "DynamoDBContributorInsights-PKC-";
const ACCESSED_ITEMS: &str = "DynamoDBContributorInsights-SKC-";

/// Asks for the keys of one table. Works for any table whose insights are on.
#[derive(Debug, Clone)]
pub struct KeyInsights {
    dynamodb: aws_sdk_dynamodb::Client,
    cloudwatch: aws_sdk_cloudwatch::Client,
    clock: SystemClock,
    table: String,
}

/// What Contributor Insights know of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyReport {
    /// What is asked for most, if that is counted.
    pub accessed: Option<Ranking>,
    /// What is refused most.
    pub throttled: Ranking,
}

/// Keys, those with most first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// What all keys together have.
    pub sum: f64,
    /// The first of them.
    pub keys: Vec<RankedKey>,
}

/// A partition key, as DynamoDB has it.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedKey {
    /// The key.
    pub partition: String,
    /// How often it was asked for, or refused.
    pub count: f64,
    /// The sort key that has most of it, and how much, where the table has sort keys.
    pub hottest: Option<(String, f64)>,
}

impl KeyInsights {
    /// The keys of a table, of CloudWatch or of the server at `endpoint`, a URL, that stands in for it.
    pub fn of(operator: &Operator, endpoint: Option<&str>, table: &str) -> Self {
        Self {
            dynamodb: operator.client.clone(),
            cloudwatch: cloudwatch_at(endpoint, &operator.config),
            clock: operator.clock(),
            table: table.to_owned(),
        }
    }

    /// The time by the clock of this machine, in epoch seconds.
    pub fn now_secs(&self) -> u64 {
        self.clock.now().wall.as_secs()
    }

    /// The first keys in this time. `None` where insights are off. Takes the permissions `dynamodb:DescribeContributorInsights`
    /// and `cloudwatch:GetInsightRuleReport`.
    ///
    /// # Errors
    /// The table is not there, or AWS does not answer.
    pub async fn report(
        &self,
        window: HeatWindow,
        most: u8,
    ) -> Result<Option<KeyReport>, StoreError> {
        let request = self.dynamodb.describe_contributor_insights().table_name(&self.table);
        let answer = request.send().await;
        let answer = answer.map_err(|e| of_watch("DescribeContributorInsights", &e))?;
        let rules = answer.contributor_insights_rule_list.unwrap_or_default();
        let Some(throttled) = latest(&rules, THROTTLED_PARTITION_KEYS) else { return Ok(None) };
        let items = latest(&rules, THROTTLED_ITEMS);
        let throttled = self.ranking(throttled, items, window, most).await?;
        let accessed = match latest(&rules, ACCESSED_PARTITION_KEYS) {
            Some(keys) => {
                let items = latest(&rules, ACCESSED_ITEMS);
                Some(self.ranking(keys, items, window, most).await?)
            }
            None => None,
        };
        Ok(Some(KeyReport { accessed, throttled }))
    }

    async fn ranking(
        &self,
        keys: &str,
        items: Option<&str>,
        window: HeatWindow,
        most: u8,
    ) -> Result<Ranking, StoreError> {
        let (sum, keys) = self.contributors(keys, window, most.into()).await?;
        let items = match items {
            Some(rule) if !keys.is_empty() => self.contributors(rule, window, MOST).await?.1,
            _ => Vec::new(),
        };
        let keys = keys.iter().filter_map(|key| {
            let partition = key.keys().first()?;
            let of_key = items.iter().filter(|item| item.keys().first() == Some(partition));
            let named = of_key.filter_map(|item| Some((item.keys().get(1)?.clone(), count(item)?)));
            let hottest = named.max_by(|(_, one), (_, other)| one.total_cmp(other));
            Some(RankedKey { partition: partition.clone(), count: count(key)?, hottest })
        });
        Ok(Ranking { sum, keys: keys.collect() })
    }

    async fn contributors(
        &self,
        rule: &str,
        window: HeatWindow,
        most: i32,
    ) -> Result<(f64, Vec<InsightRuleContributor>), StoreError> {
        let request = self.cloudwatch.get_insight_rule_report().rule_name(rule);
        let request = request
            .start_time(date_time(window.from_secs))
            .end_time(date_time(window.to_secs))
            .period(i32::try_from(window.period_secs).unwrap_or(i32::MAX))
            .max_contributor_count(most)
            .order_by("Sum");
        let answer = request.send().await.map_err(|e| of_watch("GetInsightRuleReport", &e))?;
        let sum = answer.aggregate_value().unwrap_or_default();
        Ok((sum, answer.contributors.unwrap_or_default()))
    }
}

/// As many contributors as a report has at most (Amazon CloudWatch API, `GetInsightRuleReport`).
const MOST: i32 = 100;

fn count(contributor: &InsightRuleContributor) -> Option<f64> {
    contributor.approximate_aggregate_value()
}
