//! The tables of a time series: what DynamoDB says of them, and the changes by which a rotation makes, cools and ends them.
//! Each call is one request, and may be sent again: what it was to do is done then.

use std::collections::BTreeMap;

use async_lock::Mutex;
use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    BillingMode, ExportFormat, ExportStatus, ExportType, GlobalSecondaryIndex,
    GlobalSecondaryIndexUpdate, LocalSecondaryIndex, PointInTimeRecoverySpecification,
    ProvisionedThroughput, ProvisionedThroughputDescription, SseSpecification, SseStatus,
    TableClass, TableDescription, Tag, TimeToLiveSpecification, UpdateGlobalSecondaryIndexAction,
    WarmThroughput,
};
use dynashard_aws::capacity::{provisioned, signed};
use dynashard_aws::error::{of_watch, service_error};
use dynashard_core::ports::{
    Change, Dated, List, ListPage, Listed, Record, RecordKey, RecordStore, StoreError, World,
};
use dynashard_core::{Addition, Group, Ledger, LedgerKind, TableSchema};
use dynashard_keys::PartitionKey;

use crate::inspection::{TableState, state_of};
use crate::operator::Operator;

/// The tag whose value is the name of the series that a table is of.
pub const SERIES_TAG: &str = "dynashard:series";

/// The tag of a new table that has yet to get what `CreateTable` cannot give it. Its value is the table that it is made like.
pub const LIKE_TAG: &str = "dynashard:like";

/// A table that may be one of a series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeriesTable {
    /// Its name.
    pub name: String,
    /// What DynamoDB says of it.
    pub state: TableState,
    /// The series that its tag names, if it has the tag.
    pub series: Option<String>,
    /// The table that it is still being made like.
    pub like: Option<String>,
}

/// An export of a table to S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketExport {
    /// DynamoDB is at it.
    Running,
    /// It has so many items.
    Complete(u64),
}

/// Exports of a table to a place in S3 that hold all that it had at the end of its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketExports {
    /// The last one of those that have not failed.
    pub last: Option<BucketExport>,
    /// How many are complete.
    pub complete: usize,
    /// How many exports of the table there are, to whatever place.
    pub all: usize,
}

/// A place in S3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// What the keys of all objects begin with; it may be empty.
    pub prefix: String,
}

/// The tables of series, with an operator's credentials.
#[derive(Debug)]
pub struct SeriesTables {
    client: Client,
    /// The series and the model of tables whose tags were read or set. New tags show some seconds late.
    known: Mutex<BTreeMap<String, Tags>>,
}

/// The values of [`SERIES_TAG`] and [`LIKE_TAG`].
type Tags = (Option<String>, Option<String>);

impl SeriesTables {
    /// As this operator sees them.
    pub fn of(operator: &Operator) -> Self {
        Self { client: operator.client.clone(), known: Mutex::default() }
    }

    /// The names of all tables. Takes the permission `dynamodb:ListTables`.
    pub async fn names(&self) -> Result<Vec<String>, StoreError> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let page = self.client.list_tables().set_exclusive_start_table_name(after).send();
            let page = page.await.map_err(|e| of_watch("ListTables", &e))?;
            names.extend(page.table_names.unwrap_or_default());
            after = page.last_evaluated_table_name;
            if after.is_none() {
                return Ok(names);
            }
        }
    }

    /// A table with its tags; `None` if there is none, or it is being deleted. Tags of a series are read once. Takes the
    /// permissions `dynamodb:DescribeTable` and `dynamodb:ListTagsOfResource`.
    pub async fn table(&self, name: &str) -> Result<Option<SeriesTable>, StoreError> {
        let Some(found) = self.described(name).await? else { return Ok(None) };
        let state = state_of(&found);
        if state.status == "DELETING" {
            return Ok(None);
        }
        let known = self.known.lock().await.get(name).cloned();
        let (series, like) = if let Some(known) = known {
            known
        } else {
            let Some(tags) = self.tags(&state.arn).await? else { return Ok(None) };
            let of = |key| tags.iter().find(|tag| tag.key() == key).map(|tag| tag.value.clone());
            let tags = (of(SERIES_TAG), of(LIKE_TAG));
            if tags.0.is_some() {
                self.known.lock().await.insert(name.to_owned(), tags.clone());
            }
            tags
        };
        Ok(Some(SeriesTable { name: name.to_owned(), state, series, like }))
    }

    /// `CreateTable` of a table of a series with keys, indexes, capacity, class, stream, encryption, protection and tags of
    /// another one. [`LIKE_TAG`] says that the rest is to come.
    pub async fn create(&self, name: &str, like: &str, series: &str) -> Result<(), StoreError> {
        let Some(found) = self.described(like).await? else { return Ok(()) };
        let arn = found.table_arn.clone().unwrap_or_default();
        let tags = self.tags(&arn).await?.unwrap_or_default();
        // The first are AWS's own, and nobody else may set them.
        let is_copied = |tag: &Tag| {
            !tag.key().starts_with("aws:") && ![SERIES_TAG, LIKE_TAG].contains(&tag.key())
        };
        let own = [(SERIES_TAG, series), (LIKE_TAG, like)];
        let own = own.map(|(key, value)| Tag::builder().key(key).value(value).build());
        let tags = tags.into_iter().filter(is_copied).map(Ok).chain(own);
        let tags = tags.collect::<Result<Vec<_>, _>>().map_err(|e| misbuilt(&e))?;
        let units = provisioned(&found);
        let (local, global) = indexes(&found).map_err(|e| misbuilt(&e))?;
        let keys = found.key_schema().iter();
        let keys = keys.chain(local.iter().flat_map(LocalSecondaryIndex::key_schema));
        let keys = keys.chain(global.iter().flat_map(GlobalSecondaryIndex::key_schema));
        let keys = keys.map(|key| key.attribute_name.clone()).collect::<Vec<_>>();
        // An index that was deleted leaves its definitions behind, which `CreateTable` refuses.
        let definitions = found.attribute_definitions().iter();
        let definitions =
            definitions.filter(|definition| keys.contains(&definition.attribute_name));
        let encryption = found.sse_description.as_ref().filter(|sse| {
            matches!(
                sse.status,
                Some(SseStatus::Enabled | SseStatus::Updating | SseStatus::Enabling)
            )
        });
        let encryption = encryption.map(|sse| {
            let specification = SseSpecification::builder().enabled(true);
            let specification = specification.set_sse_type(sse.sse_type.clone());
            specification.set_kms_master_key_id(sse.kms_master_key_arn.clone()).build()
        });
        let mode = units.map_or(BillingMode::PayPerRequest, |_| BillingMode::Provisioned);
        let throughput = found.provisioned_throughput.as_ref().filter(|_| units.is_some());
        let request = self
            .client
            .create_table()
            .table_name(name)
            .set_attribute_definitions(Some(definitions.cloned().collect()))
            .set_key_schema(found.key_schema.clone())
            .set_local_secondary_indexes(some(local))
            .set_global_secondary_indexes(some(global))
            .billing_mode(mode)
            .set_provisioned_throughput(
                throughput.map(units_of).transpose().map_err(|e| misbuilt(&e))?,
            )
            .set_on_demand_throughput(found.on_demand_throughput.clone())
            .set_warm_throughput(warm(&found).filter(|_| units.is_none()))
            .set_stream_specification(found.stream_specification.clone())
            .set_sse_specification(encryption)
            .set_table_class(found.table_class_summary.and_then(|summary| summary.table_class))
            .set_deletion_protection_enabled(found.deletion_protection_enabled)
            .set_tags(Some(tags));
        let answer = request.send().await;
        if answer.is_ok() {
            let tags = (Some(series.to_owned()), Some(like.to_owned()));
            self.known.lock().await.insert(name.to_owned(), tags);
        }
        done("CreateTable", answer)
    }

    /// `UntagResource`: a table has all that the one has which it was made like.
    pub async fn settle(&self, table: &SeriesTable) -> Result<(), StoreError> {
        let request = self.client.untag_resource().resource_arn(&table.state.arn);
        done("UntagResource", request.tag_keys(LIKE_TAG).send().await)?;
        self.known.lock().await.insert(table.name.clone(), (table.series.clone(), None));
        Ok(())
    }

    /// `UpdateTimeToLive`: items expire by this attribute.
    pub async fn expire(&self, name: &str, attribute: &str) -> Result<(), StoreError> {
        let specification =
            TimeToLiveSpecification::builder().attribute_name(attribute).enabled(true);
        let specification = specification.build().map_err(|e| misbuilt(&e))?;
        let request = self.client.update_time_to_live().table_name(name);
        done("UpdateTimeToLive", request.time_to_live_specification(specification).send().await)
    }

    /// `UpdateContinuousBackups`: the table can be restored to any second of the last weeks, and exported to S3.
    pub async fn make_recoverable(&self, name: &str) -> Result<(), StoreError> {
        let recovery = PointInTimeRecoverySpecification::builder();
        let recovery = recovery.point_in_time_recovery_enabled(true).build();
        let request = self.client.update_continuous_backups().table_name(name);
        let request =
            request.point_in_time_recovery_specification(recovery.map_err(|e| misbuilt(&e))?);
        done("UpdateContinuousBackups", request.send().await)
    }

    /// `UpdateTable`: each request is paid for.
    pub async fn put_on_demand(&self, name: &str) -> Result<(), StoreError> {
        let request = self.client.update_table().table_name(name);
        done("UpdateTable", request.billing_mode(BillingMode::PayPerRequest).send().await)
    }

    /// `UpdateTable`: the table and its indexes are provisioned with so many read and write units a second at most.
    pub async fn lower(&self, table: &SeriesTable, most: (u64, u64)) -> Result<(), StoreError> {
        let SeriesTable { name, state, .. } = table;
        let lowered = |units: Option<(u64, u64)>| {
            let units = units.filter(|units| is_above(*units, most))?;
            Some(throughput((units.0.min(most.0), units.1.min(most.1))))
        };
        let of_table = lowered(state.provisioned).transpose().map_err(|e| misbuilt(&e))?;
        let updates = state.indexes.iter().filter_map(|index| {
            let update = |units| {
                let action = UpdateGlobalSecondaryIndexAction::builder().index_name(&index.name);
                let action = action.provisioned_throughput(units).build()?;
                Ok(GlobalSecondaryIndexUpdate::builder().update(action).build())
            };
            Some(lowered(index.provisioned)?.and_then(update))
        });
        let updates = updates.collect::<Result<Vec<_>, _>>().map_err(|e| misbuilt(&e))?;
        let request = self.client.update_table().table_name(name);
        let request = request.set_provisioned_throughput(of_table);
        let request = request.set_global_secondary_index_updates(some(updates));
        done("UpdateTable", request.send().await)
    }

    /// `UpdateTable`: the class for what is stored for long and rarely read.
    pub async fn make_infrequent(&self, name: &str) -> Result<(), StoreError> {
        let request = self.client.update_table().table_name(name);
        done("UpdateTable", request.table_class(TableClass::StandardInfrequentAccess).send().await)
    }

    /// `DeleteTable`.
    pub async fn delete(&self, name: &str) -> Result<(), StoreError> {
        done("DeleteTable", self.client.delete_table().table_name(name).send().await)
    }

    /// The exports of this very table to a place, as of a time (in epoch seconds) or later. Takes the permissions
    /// `dynamodb:ListExports` and `dynamodb:DescribeExport`.
    pub async fn exports(
        &self,
        state: &TableState,
        bucket: &Bucket,
        since: i64,
    ) -> Result<BucketExports, StoreError> {
        let (mut exports, mut last, mut after) = (BucketExports::default(), i64::MIN, None);
        loop {
            let page =
                self.client.list_exports().table_arn(&state.arn).set_next_token(after).send();
            let page = page.await.map_err(|e| of_watch("ListExports", &e))?;
            for arn in page.export_summaries().iter().filter_map(|export| export.export_arn()) {
                let export = self.client.describe_export().export_arn(arn).send().await;
                let export = export.map_err(|e| of_watch("DescribeExport", &e))?.export_description;
                let Some(export) = export else { continue };
                exports.all += 1;
                let id = export.table_id().filter(|id| !id.is_empty());
                let at = export.export_time().map_or(i64::MIN, aws_smithy_types::DateTime::secs);
                let is_of_it = id.is_some_and(|id| state.identity.starts_with(id))
                    && export.s3_bucket() == Some(&bucket.name)
                    && export.s3_prefix().unwrap_or_default() == bucket.prefix
                    && export.export_format() == Some(&ExportFormat::DynamodbJson)
                    && export.export_type() != Some(&ExportType::IncrementalExport)
                    && at >= since;
                let outcome = match export.export_status() {
                    Some(ExportStatus::InProgress) => BucketExport::Running,
                    Some(ExportStatus::Completed) => BucketExport::Complete(
                        export.item_count().and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX),
                    ),
                    _ => continue,
                };
                if !is_of_it {
                    continue;
                }
                exports.complete += usize::from(outcome != BucketExport::Running);
                if last <= at {
                    (last, exports.last) = (at, Some(outcome));
                }
            }
            after = page.next_token;
            if after.is_none() {
                return Ok(exports);
            }
        }
    }

    /// `ExportTableToPointInTime`, as of now. The same token begins one export, however often it is asked for.
    pub async fn begin_export(
        &self,
        state: &TableState,
        bucket: &Bucket,
        token: &str,
    ) -> Result<(), StoreError> {
        let request = self
            .client
            .export_table_to_point_in_time()
            .table_arn(&state.arn)
            .s3_bucket(&bucket.name)
            .set_s3_prefix(Some(bucket.prefix.clone()).filter(|prefix| !prefix.is_empty()))
            .export_format(ExportFormat::DynamodbJson)
            .client_token(token);
        done("ExportTableToPointInTime", request.send().await)
    }

    async fn described(&self, name: &str) -> Result<Option<TableDescription>, StoreError> {
        match self.client.describe_table().table_name(name).send().await {
            Ok(answer) => Ok(answer.table),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(of_watch("DescribeTable", &error)),
        }
    }

    /// The tags of a table; `None` if it is gone.
    async fn tags(&self, arn: &str) -> Result<Option<Vec<Tag>>, StoreError> {
        let (mut tags, mut after) = (Vec::new(), None);
        loop {
            let page = self.client.list_tags_of_resource().resource_arn(arn).set_next_token(after);
            let page = match page.send().await {
                Err(error) if is_gone(&error) => return Ok(None),
                answer => answer.map_err(|e| of_watch("ListTagsOfResource", &e))?,
            };
            tags.extend(page.tags.unwrap_or_default());
            after = page.next_token;
            if after.is_none() {
                return Ok(Some(tags));
            }
        }
    }
}

impl TableState {
    /// Whether the table or one of its indexes is provisioned with more read or write units than these.
    pub fn is_provisioned_above(&self, most: (u64, u64)) -> bool {
        let indexes = self.indexes.iter().map(|index| index.provisioned);
        indexes.chain([self.provisioned]).flatten().any(|units| is_above(units, most))
    }
}

/// What use cases need to read a plain table, which no metadata table belongs to: each collection is cold there.
pub fn world_of_plain_table(operator: &Operator, table: &str, schema: &TableSchema) -> World {
    let (items, clock) = (operator.items(table, schema), operator.clock());
    World::new(items, NoRecords, clock, dynashard_aws::OsEntropy)
}

/// The metadata of a table without any.
#[derive(Debug)]
struct NoRecords;

#[async_trait]
impl RecordStore for NoRecords {
    fn table(&self) -> &'static str {
        "none"
    }

    async fn read(&self, _: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        Ok(Dated { value: None, server_secs: None })
    }

    async fn commit(&self, _: &[Change]) -> Result<Dated<()>, StoreError> {
        Err(no_records())
    }

    async fn add(
        &self,
        _: &PartitionKey,
        _: LedgerKind,
        _: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        Err(no_records())
    }

    async fn raise(&self, _: &[Group]) -> Result<Dated<()>, StoreError> {
        Err(no_records())
    }

    async fn list(&self, _: List, _: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        Err(no_records())
    }
}

fn no_records() -> StoreError {
    StoreError::Misconfigured("a plain table has no metadata table".to_owned())
}

fn is_above(units: (u64, u64), most: (u64, u64)) -> bool {
    units.0 > most.0 || units.1 > most.1
}

/// A new table on demand takes so many read and write units at once, and more only if that is asked for
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>).
const NEW_TABLE: (i64, i64) = (12_000, 4_000);

/// What a table takes at once, if that is more than a new one does.
fn warm(found: &TableDescription) -> Option<WarmThroughput> {
    let warm = found.warm_throughput.as_ref()?;
    let units = (warm.read_units_per_second?, warm.write_units_per_second?);
    let is_more = units.0 > NEW_TABLE.0 || units.1 > NEW_TABLE.1;
    let request = WarmThroughput::builder().read_units_per_second(units.0.max(NEW_TABLE.0));
    is_more.then(|| request.write_units_per_second(units.1.max(NEW_TABLE.1)).build())
}

/// The indexes of a table, as those of a new one.
fn indexes(
    found: &TableDescription,
) -> Result<(Vec<LocalSecondaryIndex>, Vec<GlobalSecondaryIndex>), BuildError> {
    let is_provisioned = provisioned(found).is_some();
    let local = found.local_secondary_indexes().iter().map(|index| {
        LocalSecondaryIndex::builder()
            .set_index_name(index.index_name.clone())
            .set_key_schema(index.key_schema.clone())
            .set_projection(index.projection.clone())
            .build()
    });
    let global = found.global_secondary_indexes().iter().map(|index| {
        let units = index.provisioned_throughput.as_ref().filter(|_| is_provisioned);
        GlobalSecondaryIndex::builder()
            .set_index_name(index.index_name.clone())
            .set_key_schema(index.key_schema.clone())
            .set_projection(index.projection.clone())
            .set_provisioned_throughput(units.map(units_of).transpose()?)
            .set_on_demand_throughput(index.on_demand_throughput.clone())
            .build()
    });
    Ok((local.collect::<Result<_, _>>()?, global.collect::<Result<_, _>>()?))
}

fn units_of(
    described: &ProvisionedThroughputDescription,
) -> Result<ProvisionedThroughput, BuildError> {
    ProvisionedThroughput::builder()
        .set_read_capacity_units(described.read_capacity_units)
        .set_write_capacity_units(described.write_capacity_units)
        .build()
}

fn throughput((reads, writes): (u64, u64)) -> Result<ProvisionedThroughput, BuildError> {
    let units = ProvisionedThroughput::builder().read_capacity_units(signed(reads));
    units.write_capacity_units(signed(writes)).build()
}

/// DynamoDB refuses empty lists.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// What became of a change. Where DynamoDB has made or deleted the table already, whoever looks again sees what is left to do.
/// While it is at another change of the table, this one is to be sent again.
fn done<T, E, R>(operation: &str, answer: Result<T, SdkError<E, R>>) -> Result<(), StoreError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let Err(error) = answer else { return Ok(()) };
    let code = service_error(&error).map(|(code, _)| code);
    match code {
        Some("ResourceNotFoundException" | "TableNotFoundException") => Ok(()),
        Some("ResourceInUseException") if operation == "CreateTable" => Ok(()),
        _ => Err(of_watch(operation, &error)),
    }
}

fn is_gone<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    service_error(error).is_some_and(|(code, _)| code == "ResourceNotFoundException")
}

/// What DynamoDB has described lacks what it asks for.
fn misbuilt(error: &BuildError) -> StoreError {
    StoreError::Corrupt(format!("the description of a table cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aws_config::BehaviorVersion;
    use aws_sdk_dynamodb::Config;
    use aws_sdk_dynamodb::config::{Credentials, Region};
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
    use aws_smithy_types::body::SdkBody;
    use serde_json::{Value, json};

    use super::*;
    use crate::inspection::IndexState;

    /// Exports of a table: of whom, to which bucket, prefix and form, in which state, of which time, and with how many items.
    type Export = (&'static str, &'static str, &'static str, &'static str, &'static str, u32, u32);

    const EXPORTS: [Export; 8] = [
        ("id-1", "archive", "events", "DYNAMODB_JSON", "COMPLETED", 99, 5),
        ("id-1", "archive", "events", "DYNAMODB_JSON", "COMPLETED", 100, 7),
        ("id-1", "archive", "events", "DYNAMODB_JSON", "COMPLETED", 200, 8),
        ("id-1", "archive", "events", "DYNAMODB_JSON", "FAILED", 300, 0),
        ("id-1", "archive", "tries", "DYNAMODB_JSON", "COMPLETED", 350, 8),
        ("id-1", "archive", "events", "ION", "COMPLETED", 370, 8),
        ("id-1", "other", "", "DYNAMODB_JSON", "COMPLETED", 400, 9),
        ("id-0", "archive", "events", "DYNAMODB_JSON", "COMPLETED", 500, 6),
    ];

    /// Answers as DynamoDB does, and knows of no tags yet.
    #[derive(Debug, Clone, Default)]
    struct Canned {
        made: Arc<std::sync::Mutex<Option<Value>>>,
    }

    impl HttpConnector for Canned {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            let body = serde_json::from_slice::<Value>(body).expect("JSON");
            let mut status = 200;
            let answer = match target.rsplit('.').next() {
                Some("ListExports") => {
                    let arns = 0..EXPORTS.len();
                    json!({ "ExportSummaries": arns.map(|n| json!({ "ExportArn": n.to_string() })).collect::<Vec<_>>() })
                }
                Some("DescribeExport") => {
                    let number =
                        body["ExportArn"].as_str().and_then(|arn| arn.parse::<usize>().ok());
                    let (id, bucket, prefix, format, status, time, items) =
                        EXPORTS[number.expect("its number")];
                    json!({ "ExportDescription": {
                        "TableId": id, "S3Bucket": bucket, "S3Prefix": prefix, "ExportFormat": format, "ExportStatus": status,
                        "ExportTime": time, "ItemCount": items, "ExportType": "FULL_EXPORT",
                    } })
                }
                Some("DescribeTable") => json!({ "Table": {
                    "TableName": body["TableName"], "TableStatus": "ACTIVE", "TableArn": "arn:aws:dynamodb:eu-west-1:1:table/t",
                    "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
                    "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
                } }),
                Some("ListTagsOfResource") => json!({ "Tags": [] }),
                Some("CreateTable") => {
                    *self.made.lock().expect("nobody panics") = Some(body);
                    json!({})
                }
                Some("UntagResource") => json!({}),
                Some("UpdateTable") => {
                    status = 400;
                    json!({ "__type": "com.amazonaws.dynamodb.v20120810#ResourceInUseException", "message": "busy" })
                }
                other => panic!("{other:?}"),
            };
            let answer = HttpResponse::new(
                status.try_into().expect("a status"),
                SdkBody::from(answer.to_string()),
            );
            HttpConnectorFuture::ready(Ok(answer))
        }
    }

    fn canned() -> (SeriesTables, Canned) {
        let canned = Canned::default();
        let connector = SharedHttpConnector::new(canned.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(Credentials::new("a", "b", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        let client = Client::from_conf(config.build());
        (SeriesTables { client, known: Mutex::default() }, canned)
    }

    #[tokio::test]
    async fn regression_any_export_to_the_bucket_counted_as_the_archive() {
        let (tables, _) = canned();
        let of = async |identity: &str, bucket: &str, prefix: &str| {
            let state = TableState { identity: identity.to_owned(), ..TableState::default() };
            let bucket = Bucket { name: bucket.to_owned(), prefix: prefix.to_owned() };
            let exports = tables.exports(&state, &bucket, 100).await.expect("exports");
            assert_eq!(exports.all, EXPORTS.len());
            (exports.last, exports.complete)
        };
        let complete = |items| Some(BucketExport::Complete(items));
        assert_eq!(of("id-1 100", "archive", "events").await, (complete(8), 2));
        assert_eq!(of("id-1 100", "other", "").await, (complete(9), 1));
        assert_eq!(of("id-1 100", "other", "events").await, (None, 0));
        assert_eq!(of("id-2 100", "archive", "events").await, (None, 0));
    }

    #[tokio::test]
    async fn regression_a_new_table_lost_its_series_while_its_tags_did_not_show() {
        let (tables, canned) = canned();
        tables.create("events-2026-12", "events-2026-11", "events").await.expect("it is made");
        let made = canned.made.lock().expect("nobody panics").clone().expect("a request");
        let tags = json!([
            { "Key": SERIES_TAG, "Value": "events" },
            { "Key": LIKE_TAG, "Value": "events-2026-11" },
        ]);
        assert_eq!(made["Tags"], tags);
        let look = async || tables.table("events-2026-12").await.expect("it shows").expect("one");
        let new = look().await;
        assert_eq!(new.series.as_deref(), Some("events"));
        assert_eq!(new.like.as_deref(), Some("events-2026-11"));
        tables.settle(&new).await.expect("it has no such tag any more");
        let settled = look().await;
        assert_eq!((settled.series.as_deref(), settled.like), (Some("events"), None));
    }

    #[tokio::test]
    async fn regression_a_change_that_was_refused_was_taken_as_done() {
        let busy = canned().0.put_on_demand("events-2026-10").await;
        assert!(matches!(busy, Err(StoreError::Unavailable(_))), "{busy:?}");
    }

    #[test]
    fn regression_indexes_stayed_high_under_a_table_that_was_low() {
        let index = |units| IndexState { provisioned: Some(units), ..IndexState::default() };
        let mut state = TableState { provisioned: Some((5, 1)), ..TableState::default() };
        state.indexes = vec![index((10, 1)), index((10, 2))];
        assert!(state.is_provisioned_above((10, 1)));
        assert!(!state.is_provisioned_above((10, 2)));
    }

    #[test]
    fn only_a_throughput_above_that_of_a_new_table_is_asked_for() {
        let warm_of = |reads, writes| {
            let units = aws_sdk_dynamodb::types::TableWarmThroughputDescription::builder();
            let units = units.read_units_per_second(reads).write_units_per_second(writes).build();
            let asked = warm(&TableDescription::builder().warm_throughput(units).build());
            asked.map(|asked| (asked.read_units_per_second, asked.write_units_per_second))
        };
        assert_eq!(warm_of(12_000, 4_000), None);
        assert_eq!(warm_of(5, 5_000), Some((Some(12_000), Some(5_000))));
    }
}
