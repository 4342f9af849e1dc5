//! Contributor Insights for DynamoDB: which tables and indexes have them, the rules that report
//! their keys, and the operations about them, which the engine does not know.
//!
//! A setting takes effect at once: only the answer to the request that sets it says `ENABLING` or
//! `DISABLING`. There are no rules about accessed keys (`PKC` and `SKC`) whatever the mode: the partitions count the
//! keys that they throttle.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::call::without_arn;
use super::refusal::{Refusal, SERIALIZATION};
use super::tables::Table;
use crate::plan::{InsightsMode, by_name};

/// The setting of every table and global secondary index.
///
/// Times are those since the Unix epoch.
#[derive(Debug, Default)]
pub(crate) struct Insights {
    tables: Mutex<BTreeMap<String, Resources>>,
}

/// A table under `None`, and its global secondary indexes by their names.
type Resources = BTreeMap<Option<String>, Resource>;

#[derive(Debug, Default)]
struct Resource {
    /// The attributes of the partition key, as a report labels them.
    partition_key: String,
    /// Those of the sort key, if there is one.
    sort_key: Option<String>,
    enabled: Option<Enabled>,
    /// When the setting was last changed.
    changed: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Enabled {
    mode: InsightsMode,
    since: Duration,
}

/// A rule of `CloudWatch` that reports the most throttled keys of a table or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InsightRule {
    /// Such as `DynamoDBContributorInsights-PKT-Flights-1795169410000`.
    pub(crate) name: String,
    pub(crate) table: String,
    pub(crate) index: Option<String>,
    pub(crate) keys: RuleKeys,
    /// What the keys of a contributor are, in their order.
    pub(crate) key_labels: Vec<String>,
}

/// What a rule counts separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleKeys {
    PartitionKeys,
    Items,
}

impl Insights {
    /// All rules that there are.
    pub(crate) fn rules(&self) -> Vec<InsightRule> {
        let tables = self.tables.lock();
        let resources = tables.iter().flat_map(|(table, resources)| {
            resources.iter().flat_map(|(index, resource)| resource.rules(table, index.as_deref()))
        });
        resources.collect()
    }

    /// Enables them for a table, as far as it is there.
    pub(super) fn enable(&self, now: Duration, table: &str, mode: InsightsMode) {
        let mut tables = self.tables.lock();
        let resource = tables.get_mut(table).and_then(|resources| resources.get_mut(&None));
        if let Some(resource) = resource {
            resource.set(now, Some(mode));
        }
    }

    /// Learns of a table as it is by now, or forgets one that is gone.
    pub(super) fn set_table(&self, name: &str, table: Option<&Table>) {
        let mut tables = self.tables.lock();
        let mut old = tables.remove(name).unwrap_or_default();
        let Some(table) = table else { return };
        let own = (None, table.partition_key.clone(), table.sort_key.clone());
        let indexes = table.global_indexes.iter().map(|global| {
            let key = &global.index;
            let sort_key = (!key.sort_key.is_empty()).then(|| key.sort_key.join(","));
            (Some(global.name.clone()), key.partition_key.join(","), sort_key)
        });
        let resources =
            std::iter::once(own).chain(indexes).map(|(index, partition_key, sort_key)| {
                let setting = old.remove(&index).unwrap_or_default();
                (index, Resource { partition_key, sort_key, ..setting })
            });
        tables.insert(name.to_owned(), resources.collect());
    }

    /// Answers an operation about Contributor Insights; `None` for any other.
    pub(super) fn answer(
        &self,
        operation: &str,
        body: &[u8],
        now: Duration,
    ) -> Option<Result<Value, Refusal>> {
        Some(match operation {
            "DescribeContributorInsights" => read(body).and_then(|request| self.describe(&request)),
            "ListContributorInsights" => read(body).and_then(|request| self.list(&request)),
            "UpdateContributorInsights" => {
                read(body).and_then(|request| self.update(&request, now))
            }
            _ => return None,
        })
    }

    fn describe(&self, request: &Target) -> Result<Value, Refusal> {
        self.find(request, |table, index, resource| {
            let rules = resource.rules(table, index);
            let mut answer = resource.summary(table, index);
            answer["ContributorInsightsRuleList"] =
                rules.into_iter().map(|rule| rule.name).collect();
            if let Some(changed) = resource.changed {
                answer["LastUpdateDateTime"] = changed.as_secs_f64().into();
            }
            answer
        })
    }

    fn update(&self, request: &Update, now: Duration) -> Result<Value, Refusal> {
        let mode = request.contributor_insights_mode.as_deref();
        let invalid_mode = |name: &str| {
            let modes = "satisfy enum value set: [ACCESSED_AND_THROTTLED_KEYS, THROTTLED_KEYS]";
            invalid_value(&format!("'{name}'"), "contributorInsightsMode", modes)
        };
        let mode =
            mode.map(|name| by_name(InsightsMode::NAMES, name).ok_or_else(|| invalid_mode(name)));
        let mode = mode.transpose()?.unwrap_or(InsightsMode::AccessedAndThrottledKeys);
        let action = request.contributor_insights_action.as_deref();
        let (mode, status) = match action {
            Some("ENABLE") => (Some(mode), "ENABLING"),
            Some("DISABLE") => (None, "DISABLING"),
            _ => {
                let value =
                    action.map_or_else(|| "null".to_owned(), |action| format!("'{action}'"));
                let actions = "satisfy enum value set: [ENABLE, DISABLE]";
                return Err(invalid_value(&value, "contributorInsightsAction", actions));
            }
        };
        self.find(&request.target, |table, index, resource| {
            resource.set(now, mode);
            let mut answer = resource.summary(table, index);
            answer["ContributorInsightsStatus"] = status.into();
            answer
        })
    }

    /// What was enabled or disabled once, a page at a time.
    fn list(&self, request: &List) -> Result<Value, Refusal> {
        let page = match request.max_results {
            None => MAX_PAGE,
            Some(page @ 1..=MAX_PAGE) => page,
            Some(page) => {
                return Err(Refusal::invalid(format!(
                    "MaxResults must be 1 to {MAX_PAGE}, not {page}"
                )));
            }
        };
        let first = request.next_token.as_deref().map_or(Ok(0), |token| {
            token.parse::<usize>().map_err(|_| Refusal::invalid("Invalid NextToken"))
        })?;
        let wanted = request.table_name.as_deref().map(without_arn);
        let tables = self.tables.lock();
        if let Some(table) = wanted.filter(|table| !tables.contains_key(*table)) {
            return Err(not_found(table, None));
        }
        let tables = tables.iter().filter(|(name, _)| wanted.is_none_or(|table| table == *name));
        let resources = tables.flat_map(|(name, resources)| {
            let known = resources.iter().filter(|(_, resource)| resource.changed.is_some());
            known.map(move |(index, resource)| resource.summary(name, index.as_deref()))
        });
        let mut summaries = resources.skip(first).take(page + 1).collect::<Vec<_>>();
        let has_more = summaries.len() > page;
        summaries.truncate(page);
        let mut answer = json!({ "ContributorInsightsSummaries": summaries });
        if has_more {
            answer["NextToken"] = (first + page).to_string().into();
        }
        Ok(answer)
    }

    /// What `act` makes of the table or index that a request is about.
    fn find(
        &self,
        Target { table_name, index_name }: &Target,
        act: impl FnOnce(&str, Option<&str>, &mut Resource) -> Value,
    ) -> Result<Value, Refusal> {
        let table = table_name.as_deref().map(without_arn);
        let table = table.ok_or_else(|| invalid_value("null", "tableName", "not be null"))?;
        let mut tables = self.tables.lock();
        let resources = tables.get_mut(table).ok_or_else(|| not_found(table, None))?;
        let resource = resources.get_mut(index_name);
        let resource = resource.ok_or_else(|| not_found(table, index_name.as_deref()))?;
        Ok(act(table, index_name.as_deref(), resource))
    }
}

impl Resource {
    /// Enables them, or disables them without a mode. Its rules are as old as its being enabled.
    fn set(&mut self, now: Duration, mode: Option<InsightsMode>) {
        let since = self.enabled.map_or(now, |enabled| enabled.since);
        self.enabled = mode.map(|mode| Enabled { mode, since });
        self.changed = Some(now);
    }

    /// The names are AWS's (Developer Guide: "`CloudWatch` contributor insights for DynamoDB: how it
    /// works"); that of an index is ours, since the guide gives no example.
    fn rules(&self, table: &str, index: Option<&str>) -> Vec<InsightRule> {
        let Some(Enabled { since, .. }) = self.enabled else { return Vec::new() };
        let resource = index.map_or_else(|| table.to_owned(), |index| format!("{table}-{index}"));
        let rule = |kind: &str, keys, sort_key: Option<&String>| InsightRule {
            name: format!("DynamoDBContributorInsights-{kind}-{resource}-{}", since.as_millis()),
            table: table.to_owned(),
            index: index.map(str::to_owned),
            keys,
            key_labels: std::iter::once(&self.partition_key).chain(sort_key).cloned().collect(),
        };
        let items = self.sort_key.as_ref().map(|key| rule("SKT", RuleKeys::Items, Some(key)));
        std::iter::once(rule("PKT", RuleKeys::PartitionKeys, None)).chain(items).collect()
    }

    fn summary(&self, table: &str, index: Option<&str>) -> Value {
        let status = if self.enabled.is_some() { "ENABLED" } else { "DISABLED" };
        let mut summary = json!({ "TableName": table, "ContributorInsightsStatus": status });
        if let Some(index) = index {
            summary["IndexName"] = index.into();
        }
        if let Some(Enabled { mode, .. }) = self.enabled {
            summary["ContributorInsightsMode"] = mode.as_str().into();
        }
        summary
    }
}

/// The most that `ListContributorInsights` answers at a time.
const MAX_PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Target {
    table_name: Option<String>,
    index_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Update {
    #[serde(flatten)]
    target: Target,
    contributor_insights_action: Option<String>,
    contributor_insights_mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct List {
    table_name: Option<String>,
    next_token: Option<String>,
    max_results: Option<usize>,
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::new(SERIALIZATION, error.to_string()))
}

fn invalid_value(value: &str, at: &str, constraint: &str) -> Refusal {
    Refusal::invalid(format!(
        "1 validation error detected: Value {value} at '{at}' failed to satisfy constraint: Member must {constraint}"
    ))
}

fn not_found(table: &str, index: Option<&str>) -> Refusal {
    let index = index.map(|index| format!(" index: {index}")).unwrap_or_default();
    Refusal::new(
        "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
        format!("Requested resource not found: Table: {table}{index} not found"),
    )
}
