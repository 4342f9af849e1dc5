//! What DynamoDB says of tables, for an operator who wants to know whether all is in place.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeValue, ContributorInsightsStatus, DestinationStatus, IndexStatus, KeyType,
    LocalSecondaryIndexDescription, PointInTimeRecoveryStatus, ProjectionType, ReplicaDescription,
    StreamViewType, TableDescription, TableStatus, TimeToLiveStatus, VectorIndexDescription,
};
use dynashard_core::TableSchema;
use dynashard_keys::{RESERVED_PREFIX, Separator, SortKeyType};
use thiserror::Error;

use crate::credentials::ConnectError;
use crate::operator::Operator;
use dynashard_aws::capacity::{provisioned, units};
use dynashard_aws::error::{causes, is_without_answer, service_error};

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
    /// Its partition key.
    pub partition_key: Option<KeyAttribute>,
    /// Its sort key, if it has one.
    pub sort_key: Option<KeyAttribute>,
    /// Its global secondary indexes.
    pub indexes: Vec<IndexState>,
    /// The names of its local secondary indexes.
    pub local_indexes: Vec<String>,
    /// The names of its vector indexes.
    pub vector_indexes: Vec<String>,
    /// Its ARN.
    pub arn: String,
    /// What tells it from another table that had its name before: DynamoDB's id of it, and when it was
    /// made, in epoch seconds.
    pub identity: String,
    /// What its stream shows, in DynamoDB's word; `None` without a stream.
    pub stream_view: Option<String>,
    /// The regions of its replicas, if it is a global table.
    pub replicas: Vec<String>,
    /// The read and write units a second that it is provisioned with; `None` on demand.
    pub provisioned: Option<(u64, u64)>,
    /// The read and write units a second that it takes at once, without having to grow first; `None` if the server does not
    /// say.
    pub warm: Option<(u64, u64)>,
    /// The KMS key that it is encrypted with; `None` if that is one of DynamoDB's own.
    pub kms_key: Option<String>,
    /// Its table class, in DynamoDB's word: `STANDARD` or `STANDARD_INFREQUENT_ACCESS`.
    pub class: String,
    /// About how many items it holds: DynamoDB counts them every six hours.
    pub items: u64,
    /// About how many bytes they take.
    pub bytes: u64,
}

/// An attribute of a table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Its name.
    pub name: String,
    /// Its type in DynamoDB's letter: `S`, `N` or `B`.
    pub letter: String,
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
    /// The other attributes that it holds, unless it holds whole items; of an index of keys alone none.
    pub projected: Vec<String>,
    /// Whether it can be queried.
    pub is_active: bool,
    /// The read and write units a second that it is provisioned with; `None` on demand.
    pub provisioned: Option<(u64, u64)>,
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
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unseen {
    /// The credentials do not allow it.
    #[error("the credentials do not allow it")]
    NotPermitted,
    /// The server does not know the operation: it stands in for DynamoDB.
    #[error("this server does not know the operation")]
    NotSupported,
    /// The table does not exist.
    #[error("the table does not exist")]
    NotFound,
    /// Nobody answered, for this reason.
    #[error("{0}")]
    Unanswered(String),
    /// It failed for this reason.
    #[error("{0}")]
    Failed(String),
}

/// The names and types of the keys of a main and a metadata table, each by its name. Only the caller
/// knows the separator.
pub fn schema_of(
    main: (&str, &TableState),
    metadata: (&str, &TableState),
    separator: Separator,
) -> Result<TableSchema, ConnectError> {
    let schema = schema_of_main(main, separator)?;
    let ((main_table, _), (metadata_table, metadata)) = (main, metadata);
    if metadata.sort_key.is_some() {
        return Err(wrong(metadata_table, "has a sort key, so it is not a metadata table"));
    }
    let name = &schema.partition_key_name;
    if metadata.partition_key.as_ref().is_none_or(|key| key.name != *name) {
        let what = format!("does not have the partition key {name:?} of {main_table}");
        return Err(wrong(metadata_table, &what));
    }
    Ok(schema)
}

/// As [`schema_of`], of a main table whose metadata table is not known.
pub(crate) fn schema_of_main(
    (main_table, main): (&str, &TableState),
    separator: Separator,
) -> Result<TableSchema, ConnectError> {
    let partition_key =
        main.partition_key.as_ref().ok_or_else(|| wrong(main_table, "has no partition key"))?;
    let sort_key = main
        .sort_key
        .as_ref()
        .ok_or_else(|| wrong(main_table, "has no sort key, so it is not a main table"))?;
    if partition_key.letter != "S" {
        return Err(wrong(main_table, "has a partition key that is not a string"));
    }
    let sort_key_type = sort_key
        .letter
        .parse::<SortKeyType>()
        .map_err(|_| wrong(main_table, "has a sort key that is neither a string nor a number"))?;
    let schema = TableSchema {
        partition_key_name: partition_key.name.clone(),
        sort_key_name: sort_key.name.clone(),
        sort_key_type,
        separator,
    };
    schema
        .check()
        .map_err(|e| wrong(main_table, &format!("cannot be the main table: {}", e.message())))?;
    Ok(schema)
}

fn wrong(table: &str, what: &str) -> ConnectError {
    ConnectError(format!("table {table} {what}"))
}

/// Looks at tables with an operator's credentials.
#[derive(Debug, Clone)]
pub struct Inspector {
    client: Client,
}

impl Inspector {
    /// An inspector with this operator's credentials.
    pub fn of(operator: &Operator) -> Self {
        Self { client: operator.client.clone() }
    }

    /// As [`schema_of`], of tables as DynamoDB describes them now.
    pub async fn schema(
        &self,
        main_table: &str,
        metadata_table: &str,
        separator: Separator,
    ) -> Result<TableSchema, ConnectError> {
        let (main, metadata) =
            (self.described(main_table).await?, self.described(metadata_table).await?);
        schema_of((main_table, &main), (metadata_table, &metadata), separator)
    }

    pub(crate) async fn described(&self, table: &str) -> Result<TableState, ConnectError> {
        let found = self.table(table).await;
        found.map_err(|error| ConnectError(format!("DescribeTable of table {table}: {error}")))
    }

    /// What DynamoDB says of a table. Takes the permission `dynamodb:DescribeTable`.
    pub async fn table(&self, table: &str) -> Result<TableState, Unseen> {
        let answer = self.client.describe_table().table_name(table).send().await;
        match answer.map_err(|e| unseen(&e))?.table {
            Some(found) => Ok(state_of(&found)),
            None => Err(Unseen::Failed("DescribeTable answered nothing".to_owned())),
        }
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

    /// The read and write units a second that the account allows one table. Takes the permission
    /// `dynamodb:DescribeLimits`.
    pub async fn table_quota(&self) -> Result<(u64, u64), Unseen> {
        let answer = self.client.describe_limits().send().await.map_err(|e| unseen(&e))?;
        let reads = answer.table_max_read_capacity_units();
        Ok((unsigned(reads), unsigned(answer.table_max_write_capacity_units())))
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

    /// The resource-based policy of a table, if it has one. Takes the permission
    /// `dynamodb:GetResourcePolicy`.
    pub async fn resource_policy(&self, table_arn: &str) -> Result<Option<String>, Unseen> {
        match self.client.get_resource_policy().resource_arn(table_arn).send().await {
            Ok(answer) => Ok(answer.policy),
            Err(error) => match service_error(&error) {
                Some(("PolicyNotFoundException", _)) => Ok(None),
                _ => Err(unseen(&error)),
            },
        }
    }

    /// The regions of a global table of the version 2017.11.29, if this is one: `DescribeTable` does not name
    /// them. Takes the permission `dynamodb:DescribeGlobalTable`.
    pub async fn legacy_replicas(&self, table: &str) -> Result<Option<Vec<String>>, Unseen> {
        match self.client.describe_global_table().global_table_name(table).send().await {
            Ok(answer) => {
                let group =
                    answer.global_table_description.and_then(|found| found.replication_group);
                let regions = group.unwrap_or_default().into_iter();
                Ok(Some(regions.filter_map(|replica| replica.region_name).collect()))
            }
            Err(error) => match service_error(&error) {
                Some(("GlobalTableNotFoundException", _)) => Ok(None),
                _ => Err(unseen(&error)),
            },
        }
    }

    /// The Kinesis streams that get the changes of a table's items. Takes the permission
    /// `dynamodb:DescribeKinesisStreamingDestination`.
    pub async fn kinesis_streams(&self, table: &str) -> Result<Vec<String>, Unseen> {
        let request = self.client.describe_kinesis_streaming_destination().table_name(table);
        let answer = request.send().await.map_err(|e| unseen(&e))?;
        let active = answer.kinesis_data_stream_destinations().iter().filter(|destination| {
            matches!(
                destination.destination_status(),
                Some(DestinationStatus::Active | DestinationStatus::Enabling)
            )
        });
        Ok(active.filter_map(|destination| Some(destination.stream_arn()?.to_owned())).collect())
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

    /// As [`Self::try_main`], of the metadata table. A scan reads one item, and drops it.
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

/// What a description says of a table.
pub(crate) fn state_of(found: &TableDescription) -> TableState {
    let status = found.table_status().cloned().unwrap_or(TableStatus::Creating);
    let stream = found.stream_specification();
    let indexes = found.global_secondary_indexes().iter().map(|index| IndexState {
        name: index.index_name().unwrap_or_default().to_owned(),
        key: names(index.key_schema(), |element| Some(element.attribute_name())),
        holds_all: index.projection().and_then(|projection| projection.projection_type())
            == Some(&ProjectionType::All),
        projected: index
            .projection()
            .map(|projection| projection.non_key_attributes().to_vec())
            .unwrap_or_default(),
        is_active: matches!(
            index.index_status(),
            Some(IndexStatus::Active | IndexStatus::Updating)
        ),
        provisioned: index.provisioned_throughput().and_then(units),
    });
    TableState {
        is_active: matches!(status, TableStatus::Active | TableStatus::Updating),
        status: status.as_str().to_owned(),
        is_protected: found.deletion_protection_enabled() == Some(true),
        streams_both_images: stream.is_some_and(|stream| {
            stream.stream_enabled()
                && stream.stream_view_type() == Some(&StreamViewType::NewAndOldImages)
        }),
        partition_key: key_attribute(found, &KeyType::Hash),
        sort_key: key_attribute(found, &KeyType::Range),
        indexes: indexes.collect(),
        local_indexes: names(
            found.local_secondary_indexes(),
            LocalSecondaryIndexDescription::index_name,
        ),
        vector_indexes: names(found.vector_indexes(), VectorIndexDescription::index_name),
        arn: found.table_arn().unwrap_or_default().to_owned(),
        identity: format!(
            "{} {}",
            found.table_id().unwrap_or_default(),
            found.creation_date_time().map_or(0, aws_sdk_dynamodb::primitives::DateTime::secs)
        ),
        stream_view: stream
            .filter(|stream| stream.stream_enabled())
            .map(|stream| stream.stream_view_type().map_or("", |view| view.as_str()).to_owned()),
        replicas: names(found.replicas(), ReplicaDescription::region_name),
        provisioned: provisioned(found),
        warm: found.warm_throughput().and_then(|warm| {
            let units = (warm.read_units_per_second()?, warm.write_units_per_second()?);
            Some((u64::try_from(units.0).ok()?, u64::try_from(units.1).ok()?))
        }),
        kms_key: found
            .sse_description()
            .and_then(|description| description.kms_master_key_arn())
            .map(str::to_owned),
        class: found
            .table_class_summary()
            .and_then(|summary| summary.table_class())
            .map_or("STANDARD", |class| class.as_str())
            .to_owned(),
        items: unsigned(found.item_count()),
        bytes: unsigned(found.table_size_bytes()),
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

/// The attribute of the key that is of this kind.
fn key_attribute(table: &TableDescription, kind: &KeyType) -> Option<KeyAttribute> {
    let element = table.key_schema().iter().find(|element| element.key_type() == kind)?;
    let name = element.attribute_name();
    let mut definitions = table.attribute_definitions().iter();
    let definition = definitions.find(|definition| definition.attribute_name() == name)?;
    let letter = definition.attribute_type().as_str().to_owned();
    Some(KeyAttribute { name: name.to_owned(), letter })
}

fn unsigned(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

fn names<T>(all: &[T], name: impl Fn(&T) -> Option<&str>) -> Vec<String> {
    all.iter().map(|one| name(one).unwrap_or_default().to_owned()).collect()
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
