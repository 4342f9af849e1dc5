//! What DynamoDB says of tables, for an operator who wants to know whether all is in place.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeValue, ContributorInsightsStatus, IndexStatus, KeySchemaElement,
    PointInTimeRecoveryStatus, ProjectionType, StreamViewType, TableStatus, TimeToLiveStatus,
};
use dynashard_core::TableSchema;
use dynashard_keys::{RESERVED_PREFIX, SortKeyType};

use crate::error::{is_without_answer, service_error};
use crate::operator::{Operator, causes};

/// A table as `DescribeTable` has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableState {
    /// Whether it can be used, also while it is being changed.
    pub is_active: bool,
    /// Its status in DynamoDB's word.
    pub status: String,
    /// Whether DynamoDB refuses to delete it.
    pub is_protected: bool,
    /// Whether its stream shows items as they were and as they are.
    pub streams_both_images: bool,
    /// Its global secondary indexes.
    pub indexes: Vec<IndexState>,
}

/// A global secondary index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexState {
    /// Its name.
    pub name: String,
    /// The attributes of its key: those of the partition key, then those of the sort key.
    pub key: Vec<String>,
    /// Whether it holds whole items.
    pub holds_all: bool,
    /// Whether it can be queried.
    pub is_active: bool,
}

/// A read that the operator commands send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialRead {
    /// `GetItem` of an item that nobody has.
    GetItem,
    /// `Query` of a partition that nobody has.
    Query,
    /// `Scan` of one item.
    Scan,
}

impl TrialRead {
    /// DynamoDB's name of the operation, which the permission has, too.
    pub fn operation(self) -> &'static str {
        match self {
            Self::GetItem => "GetItem",
            Self::Query => "Query",
            Self::Scan => "Scan",
        }
    }
}

/// Why something could not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unseen {
    /// The credentials do not allow it.
    NotPermitted,
    /// The server does not know the operation: it stands in for DynamoDB.
    NotSupported,
    /// There is no such table.
    NotFound,
    /// Nobody answered, for this reason.
    Unanswered(String),
    /// It failed for this reason.
    Failed(String),
}

impl Operator {
    /// What DynamoDB says of a table. Takes the permission `dynamodb:DescribeTable`.
    pub async fn table(&self, table: &str) -> Result<TableState, Unseen> {
        let answer = self.client.describe_table().table_name(table).send().await;
        let Some(found) = answer.map_err(|e| unseen(&e))?.table else {
            return Err(Unseen::Failed("DescribeTable answered nothing".to_owned()));
        };
        let status = found.table_status().cloned().unwrap_or(TableStatus::Creating);
        let stream = found.stream_specification();
        let indexes = found.global_secondary_indexes().iter().map(|index| IndexState {
            name: index.index_name().unwrap_or_default().to_owned(),
            key: attributes(index.key_schema()),
            holds_all: index.projection().and_then(|projection| projection.projection_type())
                == Some(&ProjectionType::All),
            is_active: matches!(
                index.index_status(),
                Some(IndexStatus::Active | IndexStatus::Updating)
            ),
        });
        Ok(TableState {
            is_active: matches!(status, TableStatus::Active | TableStatus::Updating),
            status: status.as_str().to_owned(),
            is_protected: found.deletion_protection_enabled() == Some(true),
            streams_both_images: stream.is_some_and(|stream| {
                stream.stream_enabled()
                    && stream.stream_view_type() == Some(&StreamViewType::NewAndOldImages)
            }),
            indexes: indexes.collect(),
        })
    }

    /// Whether a table can be restored to any second of the last weeks. Takes the permission
    /// `dynamodb:DescribeContinuousBackups`.
    pub async fn is_recoverable(&self, table: &str) -> Result<bool, Unseen> {
        let answer = self.client.describe_continuous_backups().table_name(table).send().await;
        let answer = answer.map_err(|e| unseen(&e))?;
        let backups = answer.continuous_backups_description();
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description());
        let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status());
        Ok(status == Some(&PointInTimeRecoveryStatus::Enabled))
    }

    /// The attribute by which items of a table expire, if they do. Takes the permission
    /// `dynamodb:DescribeTimeToLive`.
    pub async fn ttl_attribute(&self, table: &str) -> Result<Option<String>, Unseen> {
        let answer = self.client.describe_time_to_live().table_name(table).send().await;
        let answer = answer.map_err(|e| unseen(&e))?;
        let description = answer.time_to_live_description().filter(|description| {
            matches!(
                description.time_to_live_status(),
                Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
            )
        });
        Ok(description.and_then(|description| description.attribute_name()).map(str::to_owned))
    }

    /// Whether Contributor Insights name the throttled keys of a table. Takes the permission
    /// `dynamodb:DescribeContributorInsights`.
    pub async fn has_contributor_insights(&self, table: &str) -> Result<bool, Unseen> {
        let answer = self.client.describe_contributor_insights().table_name(table).send().await;
        let answer = answer.map_err(|e| unseen(&e))?;
        // Both modes name throttled keys.
        Ok(matches!(
            answer.contributor_insights_status(),
            Some(ContributorInsightsStatus::Enabled | ContributorInsightsStatus::Enabling)
        ))
    }

    /// Sends a read of the main table, to see whether it is permitted. It finds nothing, and costs
    /// half a read unit.
    pub async fn try_main(
        &self,
        read: TrialRead,
        table: &str,
        schema: &TableSchema,
    ) -> Result<(), Unseen> {
        self.try_read(read, table, &schema.partition_key_name, key_of_nobody(schema)).await
    }

    /// As [`Operator::try_main`], of the metadata table. A scan reads one item, and drops it.
    pub async fn try_metadata(
        &self,
        read: TrialRead,
        table: &str,
        schema: &TableSchema,
    ) -> Result<(), Unseen> {
        let mut key = key_of_nobody(schema);
        key.remove(&schema.sort_key_name);
        self.try_read(read, table, &schema.partition_key_name, key).await
    }

    async fn try_read(
        &self,
        read: TrialRead,
        table: &str,
        partition_key_name: &str,
        key: HashMap<String, AttributeValue>,
    ) -> Result<(), Unseen> {
        match read {
            TrialRead::GetItem => {
                let request = self.client.get_item().table_name(table).set_key(Some(key));
                request.send().await.map(drop).map_err(|e| unseen(&e))
            }
            TrialRead::Query => {
                let request = self
                    .client
                    .query()
                    .table_name(table)
                    .key_condition_expression("#pk = :pk")
                    .expression_attribute_names("#pk", partition_key_name)
                    .expression_attribute_values(":pk", nobody())
                    .limit(1);
                request.send().await.map(drop).map_err(|e| unseen(&e))
            }
            TrialRead::Scan => {
                let request = self.client.scan().table_name(table).limit(1);
                request.send().await.map(drop).map_err(|e| unseen(&e))
            }
        }
    }
}

/// The key of an item of the main table that nobody has: no collection's key begins with the reserved
/// prefix, and the system has no such item either.
pub(crate) fn key_of_nobody(schema: &TableSchema) -> HashMap<String, AttributeValue> {
    let sort_key = match schema.sort_key_type {
        SortKeyType::String => nobody(),
        SortKeyType::Number => AttributeValue::N("0".to_owned()),
    };
    HashMap::from([
        (schema.partition_key_name.clone(), nobody()),
        (schema.sort_key_name.clone(), sort_key),
    ])
}

fn nobody() -> AttributeValue {
    AttributeValue::S(format!("{RESERVED_PREFIX}nobody"))
}

fn attributes(key: &[KeySchemaElement]) -> Vec<String> {
    key.iter().map(|element| element.attribute_name().to_owned()).collect()
}

fn unseen<E, R>(error: &SdkError<E, R>) -> Unseen
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let Some((code, message)) = service_error(error) else {
        let why = causes(error);
        return if is_without_answer(error) {
            Unseen::Unanswered(why)
        } else {
            Unseen::Failed(why)
        };
    };
    match code {
        "AccessDeniedException" | "AccessDenied" => Unseen::NotPermitted,
        "UnknownOperationException" | "UnknownOperation" => Unseen::NotSupported,
        "ResourceNotFoundException" | "TableNotFoundException" => Unseen::NotFound,
        _ => Unseen::Failed(format!("{code}: {message}")),
    }
}
