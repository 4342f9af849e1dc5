//! The records of the metadata table.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValue, TransactWriteItem, Update,
};
use dynashard_core::ports::{CollectionCatalog, CollectionsPage, Dated, MetadataStore, StoreError};
use dynashard_core::{
    Addition, CollectionMetadata, DecisionHistory, DecisionsPage, DirectoryItem, Generation, Grant,
    HistoryEntry, Job, Ledger, LedgerKind, Owner, Phase, TableSchema,
};
use dynashard_keys::{PartitionKey, RESERVED_PREFIX, ShardCount};

use crate::attributes::number;
use crate::directory;
use crate::error::{Refused, of_read, of_write};
use crate::interceptors::DateProbe;
use crate::jobs::{self, job_key, lane_key};
use crate::ledgers::{self, decisions_key, ledger_key};
use crate::owner;

/// The key attribute of the sparse index [`ACTIVE_INDEX`]. Its value is the same text for collections in which a
/// change of the shard count runs or is to be cleared up. Must be kept stable.
pub const ACTIVE_INDEX_PARTITION: &str = "_ds_active";

/// The key attribute of the sparse index [`DECISIONS_INDEX`], and its only value. Must be kept stable.
pub const DECISIONS_INDEX_PARTITION: &str = "_ds_decisions";

/// The value for collections that rest with more shards than their floor. Must be kept stable.
const GROWN: &str = "_ds_grown";

/// How many items the last change has moved. Items of which none has moved do not have it. Must be kept
/// stable.
const ITEMS_MOVED: &str = "_ds_moved";

/// The hashes of the keys that were enlisted under a grant: a set of 8 bytes of each, big-endian. Must be kept stable.
const COUNTED: &str = "collections";

/// The metadata table in DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoMetadataStore {
    client: Client,
    table: String,
    partition_key_name: String,
    main_table: String,
    main_schema: TableSchema,
}

impl DynamoMetadataStore {
    /// The metadata items of `table`, whose key has the same name as the main table's partition key.
    pub fn new(
        client: Client,
        table: String,
        main_table: String,
        main_schema: TableSchema,
    ) -> Self {
        let partition_key_name = main_schema.partition_key_name.clone();
        Self { client, table, partition_key_name, main_table, main_schema }
    }
}

#[async_trait]
impl MetadataStore for DynamoMetadataStore {
    async fn get(
        &self,
        partition: &PartitionKey,
    ) -> Result<Dated<Option<CollectionMetadata>>, StoreError> {
        let Dated { value, server_secs } = self.item(partition.to_string()).await?;
        let value = value.map(|item| decode(partition, &item)).transpose()?;
        Ok(Dated { value, server_secs })
    }

    async fn directory(&self) -> Result<Dated<Option<DirectoryItem>>, StoreError> {
        let Dated { value, server_secs } = self.item(DirectoryItem::KEY.to_owned()).await?;
        let value = value.map(|item| directory::decode(&item)).transpose()?;
        Ok(Dated { value, server_secs })
    }

    async fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        let change = directory::Change::of(seen, next);
        self.client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(DirectoryItem::KEY.to_owned()))
            .update_expression(change.text)
            .condition_expression(change.condition)
            .set_expression_attribute_names(Some(change.names))
            .set_expression_attribute_values(Some(change.values))
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        owner::read(&self.client, &self.main_table, &self.main_schema).await
    }

    async fn claim(&self, stack_id: &str) -> Result<(), StoreError> {
        let (stack_id, metadata_table) = (stack_id.to_owned(), self.table.clone());
        let item = owner::encode(&Owner { stack_id, metadata_table }, &self.main_schema);
        self.client
            .put_item()
            .table_name(&self.main_table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", &self.partition_key_name)
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(())
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        owner::locally_indexed_bytes(&self.client, &self.main_table).await
    }

    async fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> Result<Dated<()>, StoreError> {
        let put = |item, key: String| {
            Put::builder()
                .table_name(&self.table)
                .set_item(Some(item))
                .item(&self.partition_key_name, AttributeValue::S(key))
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", &self.partition_key_name)
                .build()
                .map(|put| TransactWriteItem::builder().put(put).build())
                .map_err(|e| rejected(&e))
        };
        let change = directory::Change::of(seen, next);
        let list = Update::builder()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(DirectoryItem::KEY.to_owned()))
            .update_expression(change.text)
            .condition_expression(change.condition)
            .set_expression_attribute_names(Some(change.names))
            .set_expression_attribute_values(Some(change.values))
            .build()
            .map_err(|e| rejected(&e))?;
        let date = DateProbe::default();
        let job = job.map(|job| put(jobs::encode(job), job_key(&job.partition))).transpose()?;
        let mut parts = vec![
            put(encode(metadata), metadata.partition.to_string())?,
            TransactWriteItem::builder().update(list).build(),
        ];
        parts.extend(job);
        self.client
            .transact_write_items()
            .set_transact_items(Some(parts))
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn count_enlisting(&self, grant: &Grant, hash: u64) -> Result<(), StoreError> {
        let hash = Blob::new(hash.to_be_bytes());
        self.client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(grant.key().to_owned()))
            .update_expression("ADD #counted :hashes")
            .condition_expression(
                "attribute_not_exists(#counted) OR size(#counted) < :most OR contains(#counted, :hash)",
            )
            .expression_attribute_names("#counted", COUNTED)
            .expression_attribute_values(":hashes", AttributeValue::Bs(vec![hash.clone()]))
            .expression_attribute_values(":hash", AttributeValue::B(hash))
            .expression_attribute_values(":most", number(u64::from(grant.most())))
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(())
    }

    async fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        let change = Change::of(seen, next);
        self.client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(next.partition.to_string()))
            .update_expression(change.text)
            .condition_expression(AS_SEEN)
            .set_expression_attribute_names(Some(change.names))
            .set_expression_attribute_values(Some(change.values))
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        let Dated { value, server_secs } = self.item(job_key(partition)).await?;
        let value = value.map(|item| jobs::decode(partition, &item)).transpose()?;
        Ok(Dated { value, server_secs })
    }

    async fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(jobs::encode(job)))
            .item(&self.partition_key_name, AttributeValue::S(job_key(&job.partition)));
        let put = match seen_job {
            None => put
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", &self.partition_key_name),
            Some(seen) => put
                .condition_expression(JOB_AS_SEEN)
                .set_expression_attribute_names(Some(job_lock_names()))
                .set_expression_attribute_values(Some(job_lock_values(seen))),
        };
        let put = put.build().map_err(|e| rejected(&e))?;
        self.update_with(seen, next, TransactWriteItem::builder().put(put).build()).await
    }

    async fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let delete = Delete::builder()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(job_key(&seen_job.partition)))
            .condition_expression(JOB_AS_SEEN)
            .set_expression_attribute_names(Some(job_lock_names()))
            .set_expression_attribute_values(Some(job_lock_values(seen_job)))
            .build()
            .map_err(|e| rejected(&e))?;
        self.update_with(seen, next, TransactWriteItem::builder().delete(delete).build()).await
    }

    async fn save_job(&self, seen: &Job, next: &Job) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(jobs::encode(next)))
            .item(&self.partition_key_name, AttributeValue::S(job_key(&next.partition)))
            .condition_expression(JOB_AS_SEEN)
            .set_expression_attribute_names(Some(job_lock_names()))
            .set_expression_attribute_values(Some(job_lock_values(seen)))
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        call: u64,
    ) -> Result<(), StoreError> {
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(jobs::encode_call(call)))
            .item(&self.partition_key_name, lane_key(partition, lane))
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(())
    }

    async fn remove_lane(&self, partition: &PartitionKey, lane: u32) -> Result<(), StoreError> {
        self.client
            .delete_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, lane_key(partition, lane))
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(())
    }

    async fn resharding(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        self.listed(ACTIVE_INDEX_PARTITION, after).await
    }

    async fn grown(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        self.listed(GROWN, after).await
    }

    async fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
    ) -> Result<Dated<Ledger>, StoreError> {
        let Dated { value, server_secs } = self.item(ledger_key(partition, kind)).await?;
        let value = value.map(|item| self.ledger_of(item)).unwrap_or_default();
        Ok(Dated { value, server_secs })
    }

    async fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let date = DateProbe::default();
        let (text, names, values) = ledgers::addition(addition);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(ledger_key(partition, kind)))
            .update_expression(text)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew)
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        let value = answer.attributes.map(|item| self.ledger_of(item)).unwrap_or_default();
        Ok(Dated { value, server_secs: date.secs() })
    }

    async fn decisions(&self, partition: &PartitionKey) -> Result<DecisionHistory, StoreError> {
        let Dated { value, .. } = self.item(decisions_key(partition)).await?;
        let history = value.map(|item| ledgers::decode_decisions(partition, &item)).transpose()?;
        Ok(history.unwrap_or_default())
    }

    async fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
    ) -> Result<(), StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(ledgers::encode_decisions(next)))
            .item(&self.partition_key_name, AttributeValue::S(decisions_key(partition)))
            .item(
                DECISIONS_INDEX_PARTITION,
                AttributeValue::S(DECISIONS_INDEX_PARTITION.to_owned()),
            );
        let put = if seen.rev == 0 {
            put.condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", &self.partition_key_name)
        } else {
            put.condition_expression("#rev = :seen")
                .expression_attribute_names("#rev", ledgers::REV)
                .expression_attribute_values(":seen", number(seen.rev))
        };
        put.send().await.map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(())
    }

    async fn all_decisions(&self, after: Option<&str>) -> Result<DecisionsPage, StoreError> {
        let (items, next) = self.index_page(DECISIONS_LIST, after).await?;
        let mut page = DecisionsPage { next, ..DecisionsPage::default() };
        for (key, item) in items {
            let partition = key.strip_prefix(DecisionHistory::KEY_PREFIX).unwrap_or(&key);
            let history = PartitionKey::new(partition)
                .map_err(|error| StoreError::Corrupt(error.to_string()))
                .and_then(|of| Ok((of.clone(), ledgers::decode_decisions(&of, &item)?)));
            match history {
                Ok(history) => page.histories.push(history),
                Err(StoreError::Corrupt(why)) => {
                    page.damaged.push(format!("the item {key:?}: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}

#[async_trait]
impl CollectionCatalog for DynamoMetadataStore {
    async fn collections(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        let start = after.map(|key| {
            let key = AttributeValue::S(key.to_owned());
            HashMap::from([(self.partition_key_name.clone(), key)])
        });
        let answer = self
            .client
            .scan()
            .table_name(&self.table)
            .projection_expression("#pk")
            .expression_attribute_names("#pk", &self.partition_key_name)
            .consistent_read(true)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let next = answer.last_evaluated_key().map(|key| self.key_of(key)).transpose()?;
        let mut page = CollectionsPage { next, ..CollectionsPage::default() };
        for item in answer.items() {
            let key = self.key_of(item)?;
            // Jobs and other items of the system.
            if !key.starts_with(RESERVED_PREFIX) {
                match PartitionKey::new(&key) {
                    Ok(partition) => page.partitions.push(partition),
                    // The others are of other collections.
                    Err(error) => page.damaged.push(format!("the metadata item {key:?}: {error}")),
                }
            }
        }
        Ok(page)
    }
}

impl DynamoMetadataStore {
    /// One page of the collections that the index [`ACTIVE_INDEX`] lists under a value.
    async fn listed(
        &self,
        value: &'static str,
        after: Option<&str>,
    ) -> Result<CollectionsPage, StoreError> {
        let list = List { index: ACTIVE_INDEX, attribute: ACTIVE_INDEX_PARTITION, value };
        let (items, next) = self.index_page(list, after).await?;
        let mut page = CollectionsPage { next, ..CollectionsPage::default() };
        for (key, _) in items {
            match PartitionKey::new(&key) {
                Ok(partition) => page.partitions.push(partition),
                // The others are of other collections.
                Err(error) => page.damaged.push(format!("the index entry {key:?}: {error}")),
            }
        }
        Ok(page)
    }

    /// One page of a list, each item with its key, and the key behind which the next one begins.
    async fn index_page(
        &self,
        List { index, attribute, value }: List,
        after: Option<&str>,
    ) -> Result<(Vec<(String, HashMap<String, AttributeValue>)>, Option<String>), StoreError> {
        let start = after.map(|key| {
            HashMap::from([
                (attribute.to_owned(), AttributeValue::S(value.to_owned())),
                (self.partition_key_name.clone(), AttributeValue::S(key.to_owned())),
            ])
        });
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(index)
            .key_condition_expression("#list = :list")
            .expression_attribute_names("#list", attribute)
            .expression_attribute_values(":list", AttributeValue::S(value.to_owned()))
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let next = answer.last_evaluated_key().map(|key| self.key_of(key)).transpose()?;
        let items = answer.items.unwrap_or_default().into_iter();
        let items = items.map(|item| Ok((self.key_of(&item)?, item)));
        Ok((items.collect::<Result<Vec<_>, _>>()?, next))
    }

    fn key_of(&self, item: &HashMap<String, AttributeValue>) -> Result<String, StoreError> {
        let key = item.get(&self.partition_key_name).and_then(|key| key.as_s().ok());
        let corrupt =
            || StoreError::Corrupt("an item of the metadata table without its key".to_owned());
        key.cloned().ok_or_else(corrupt)
    }

    fn ledger_of(&self, mut item: HashMap<String, AttributeValue>) -> Ledger {
        item.remove(&self.partition_key_name);
        ledgers::decode_ledger(item)
    }

    /// What lies under a key.
    async fn item(
        &self,
        key: String,
    ) -> Result<Dated<Option<HashMap<String, AttributeValue>>>, StoreError> {
        let date = DateProbe::default();
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(key))
            .consistent_read(true)
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        Ok(Dated { value: answer.item, server_secs: date.secs() })
    }

    /// The change of a metadata item together with a change of its job.
    async fn update_with(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        of_job: TransactWriteItem,
    ) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        let change = Change::of(seen, next);
        let update = Update::builder()
            .table_name(&self.table)
            .key(&self.partition_key_name, AttributeValue::S(next.partition.to_string()))
            .update_expression(change.text)
            .condition_expression(AS_SEEN)
            .set_expression_attribute_names(Some(change.names))
            .set_expression_attribute_values(Some(change.values))
            .build()
            .map_err(|e| rejected(&e))?;
        self.client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().update(update).build())
            .transact_items(of_job)
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }
}

/// The items of one sparse index that have one value.
#[derive(Clone, Copy)]
struct List {
    index: &'static str,
    attribute: &'static str,
    value: &'static str,
}

const DECISIONS_LIST: List = List {
    index: DECISIONS_INDEX,
    attribute: DECISIONS_INDEX_PARTITION,
    value: DECISIONS_INDEX_PARTITION,
};

/// The update expression that brings a metadata item to its new state, with the names and values of
/// the expression and of its condition, [`AS_SEEN`].
struct Change {
    text: String,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Change {
    fn of(seen: &CollectionMetadata, next: &CollectionMetadata) -> Self {
        let item = encode(next);
        let mut names = HashMap::new();
        let mut placeholder = |name: &str| {
            let placeholder = format!("#{}", name.trim_start_matches('_'));
            names.insert(placeholder.clone(), name.to_owned());
            placeholder
        };
        let mut sets = Vec::new();
        let mut values = HashMap::from([
            (":seen_rev".to_owned(), number(seen.rev)),
            (":seen_last_updated".to_owned(), number(seen.last_updated_secs)),
        ]);
        let removes = OPTIONAL
            .iter()
            .filter(|name| !item.contains_key(**name))
            .map(|name| placeholder(name))
            .collect::<Vec<_>>();
        for (name, value) in item {
            let placeholder = placeholder(&name);
            let value_name = placeholder.replacen('#', ":", 1);
            sets.push(format!("{placeholder} = {value_name}"));
            values.insert(value_name, value);
        }
        let mut text = format!("SET {}", sets.join(", "));
        if !removes.is_empty() {
            text.push_str(" REMOVE ");
            text.push_str(&removes.join(", "));
        }
        Self { text, names, values }
    }
}

/// The condition of every change of a metadata item: the optimistic lock.
const AS_SEEN: &str = "#rev = :seen_rev AND #last_updated = :seen_last_updated";

/// The condition of every change of a job.
const JOB_AS_SEEN: &str = "#generation = :seen_generation AND #rev = :seen_rev";

fn job_lock_names() -> HashMap<String, String> {
    [("#generation", jobs::GENERATION), ("#rev", jobs::REV)]
        .map(|(placeholder, name)| (placeholder.to_owned(), name.to_owned()))
        .into()
}

fn job_lock_values(seen: &Job) -> HashMap<String, AttributeValue> {
    [(":seen_generation", seen.generation.get()), (":seen_rev", seen.rev)]
        .map(|(placeholder, value)| (placeholder.to_owned(), number(value)))
        .into()
}

/// The error of a request that cannot be built.
fn rejected(error: &BuildError) -> StoreError {
    StoreError::Rejected(error.to_string())
}

/// What a refused change returns about the item.
fn not_as_seen(refused: Refused) -> StoreError {
    match refused {
        Refused::Condition(_) | Refused::Cancelled(_) => {
            StoreError::ConditionFailed { existing: None }
        }
        Refused::Other(error) => error,
    }
}

/// Present, and true, from the close of a change until its job is removed. Must be kept stable.
const CLEANUP_PENDING: &str = "cleanup_pending";

/// The largest shard count ever. Items that earlier software wrote do not have it. Must be kept
/// stable.
const LARGEST_COUNT: &str = "_ds_max_shards";

/// The attributes that a metadata item has only at times.
const OPTIONAL: [&str; 5] = ["from", "to", CLEANUP_PENDING, ACTIVE_INDEX_PARTITION, ITEMS_MOVED];

/// The sparse index of collections. Its only key attribute is [`ACTIVE_INDEX_PARTITION`]: a sort key takes 1,024 bytes,
/// and a partition key of the table may have more. Must be kept as the template has it.
pub const ACTIVE_INDEX: &str = "active";

/// The sparse index of decisions. It is one of its own, so that no number of decisions gets in the way of a change. Must
/// be kept as the template has it.
pub const DECISIONS_INDEX: &str = "decisions";

/// The attributes of a metadata item, without its key. Their names must be kept stable.
fn encode(metadata: &CollectionMetadata) -> HashMap<String, AttributeValue> {
    let count = |count: ShardCount| number(u64::from(count.get()));
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let history = metadata.shard_history.iter().map(HistoryEntry::to_string).collect();
    let mut item = HashMap::from([
        ("number_of_shards".to_owned(), count(metadata.number_of_shards)),
        ("last_updated".to_owned(), number(metadata.last_updated_secs)),
        ("shard_history".to_owned(), AttributeValue::Ss(history)),
        ("generation".to_owned(), number(metadata.generation.get())),
        ("phase".to_owned(), text(metadata.phase.as_str())),
        ("placement".to_owned(), text(metadata.placement.as_str())),
        ("rev".to_owned(), number(metadata.rev)),
        ("min_shards".to_owned(), count(metadata.min_shards)),
        (LARGEST_COUNT.to_owned(), count(metadata.largest_count)),
    ]);
    if let Phase::Forward { from, to } | Phase::Move { from, to } = metadata.phase {
        item.insert("from".to_owned(), count(from));
        item.insert("to".to_owned(), count(to));
    }
    if metadata.cleanup_pending {
        item.insert(CLEANUP_PENDING.to_owned(), AttributeValue::Bool(true));
    }
    if metadata.needs_rebalancing() {
        item.insert(ACTIVE_INDEX_PARTITION.to_owned(), text(ACTIVE_INDEX_PARTITION));
    } else if metadata.may_shrink() {
        item.insert(ACTIVE_INDEX_PARTITION.to_owned(), text(GROWN));
    }
    if metadata.items_moved > 0 {
        item.insert(ITEMS_MOVED.to_owned(), number(metadata.items_moved));
    }
    item
}

/// Reads a metadata item. The error names the wrong field.
fn decode(
    partition: &PartitionKey,
    item: &HashMap<String, AttributeValue>,
) -> Result<CollectionMetadata, StoreError> {
    let fields = Fields { partition, item };
    let placement = fields.text("placement")?.parse().map_err(|e| fields.wrong("placement", e))?;
    let number_of_shards = fields.count("number_of_shards")?;
    let phase = match fields.text("phase")? {
        "stable" => {
            if let Some(field) = ["from", "to"].into_iter().find(|field| item.contains_key(*field))
            {
                return Err(fields.wrong(field, "is there, although the phase is stable"));
            }
            Phase::Stable
        }
        "forward" => Phase::Forward { from: fields.count("from")?, to: fields.count("to")? },
        "move" => Phase::Move { from: fields.count("from")?, to: fields.count("to")? },
        other => return Err(fields.wrong("phase", format!("{other:?} is not a phase"))),
    };
    let mut metadata = CollectionMetadata {
        partition: partition.clone(),
        number_of_shards,
        last_updated_secs: fields.number("last_updated")?,
        shard_history: fields.history("shard_history")?,
        generation: Generation::new(fields.number("generation")?),
        phase,
        placement,
        rev: fields.number("rev")?,
        min_shards: fields.count("min_shards")?,
        largest_count: number_of_shards,
        cleanup_pending: match item.get(CLEANUP_PENDING) {
            None => false,
            Some(AttributeValue::Bool(cleanup_pending)) => *cleanup_pending,
            Some(_) => return Err(fields.wrong(CLEANUP_PENDING, "is not a boolean")),
        },
        items_moved: match item.get(ITEMS_MOVED) {
            None => 0,
            Some(_) => fields.number(ITEMS_MOVED)?,
        },
    };
    metadata.largest_count = match item.get(LARGEST_COUNT) {
        Some(_) => fields.count(LARGEST_COUNT)?,
        None => metadata.most_shards(),
    };
    Ok(metadata)
}

struct Fields<'a> {
    partition: &'a PartitionKey,
    item: &'a HashMap<String, AttributeValue>,
}

impl<'a> Fields<'a> {
    fn wrong(&self, field: &str, why: impl std::fmt::Display) -> StoreError {
        StoreError::Corrupt(format!(
            "the metadata item of {:?} is damaged: {field}: {why}",
            self.partition
        ))
    }

    fn text(&self, field: &str) -> Result<&'a str, StoreError> {
        match self.item.get(field) {
            Some(AttributeValue::S(text)) => Ok(text),
            Some(_) => Err(self.wrong(field, "is not a string")),
            None => Err(self.wrong(field, "is missing")),
        }
    }

    fn number(&self, field: &str) -> Result<u64, StoreError> {
        match self.item.get(field) {
            Some(AttributeValue::N(text)) => {
                text.parse().map_err(|_| self.wrong(field, format!("{text} is not a whole number")))
            }
            Some(_) => Err(self.wrong(field, "is not a number")),
            None => Err(self.wrong(field, "is missing")),
        }
    }

    fn count(&self, field: &str) -> Result<ShardCount, StoreError> {
        let count = self.number(field)?;
        ShardCount::new(u32::try_from(count).unwrap_or(u32::MAX)).map_err(|e| self.wrong(field, e))
    }

    fn history(&self, field: &str) -> Result<Vec<HistoryEntry>, StoreError> {
        let entries = match self.item.get(field) {
            Some(AttributeValue::Ss(entries)) => entries,
            Some(_) => return Err(self.wrong(field, "is not a string set")),
            None => return Err(self.wrong(field, "is missing")),
        };
        let mut history = entries
            .iter()
            .map(|entry| entry.parse::<HistoryEntry>().map_err(|e| self.wrong(field, e)))
            .collect::<Result<Vec<_>, _>>()?;
        // A set has no order of its own.
        history.sort_unstable();
        Ok(history)
    }
}
