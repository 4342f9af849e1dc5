//! The metadata table in DynamoDB: its records, and how each kind is written.

mod codec;
mod collection;
mod directory;
mod job;
mod ledgers;

use std::collections::HashMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, ReturnValue, TransactWriteItem, Update};
use dynashard_core::ports::{
    Change, CollectionCatalog, Dated, List, ListPage, Listed, Record, RecordKey, RecordStore, Seen,
    StoreError,
};
use dynashard_core::{
    Addition, Counted, DecisionHistory, Group, KeyHash, Ledger, LedgerKind, Segment, TableSchema,
};
use dynashard_keys::{PartitionKey, RESERVED_PREFIX};

use crate::attributes::number;
use crate::error::{Refused, of_read, of_write};
use crate::interceptors::DateProbe;
use crate::records::codec::{Field, Fill, Item, Reader};
pub use collection::ACTIVE as ACTIVE_INDEX_PARTITION;
pub use ledgers::DECISIONS_INDEX_PARTITION;

/// The sparse index of collections. Its only key attribute is [`ACTIVE_INDEX_PARTITION`]: a sort key takes 1,024 bytes,
/// and a partition key of the table may have more. Must be kept as the template has it.
pub const ACTIVE_INDEX: &str = "active";

/// The sparse index of decisions. It is one of its own, so that no number of decisions gets in the way of a change. Must
/// be kept as the template has it.
pub const DECISIONS_INDEX: &str = "decisions";

/// The hashes of a segment: a set of binary values. Must be kept stable.
const KEYS: &str = "_ds_keys";

/// The collections that were enlisted under a grant. Must be kept stable.
const COUNTED: &str = "collections";

/// The metadata table in DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoRecordStore {
    client: Client,
    table: String,
    partition_key_name: String,
}

impl DynamoRecordStore {
    /// The records of `table`, whose key has the same name as the main table's partition key.
    pub fn new(client: Client, table: String, main_schema: &TableSchema) -> Self {
        let partition_key_name = main_schema.partition_key_name.clone();
        Self { client, table, partition_key_name }
    }
}

#[async_trait]
impl RecordStore for DynamoRecordStore {
    fn table(&self) -> &str {
        &self.table
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        let date = DateProbe::default();
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, text(key))
            .consistent_read(true)
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let value = answer.item.map(|item| self.decode(key, item)).transpose()?;
        Ok(Dated { value, server_secs: date.secs() })
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        let requests = changes.iter().map(|change| self.request(change));
        let answered = match <[_; 1]>::try_from(requests.collect::<Result<Vec<_>, _>>()?) {
            Ok([only]) => self.send(only, &date).await,
            Err(all) => {
                let request = self.client.transact_write_items().set_transact_items(Some(all));
                let sent = request.customize().interceptor(date.clone()).send().await;
                sent.map(drop).map_err(|e| of_write(&e))
            }
        };
        answered.map_err(not_as_seen)?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let date = DateProbe::default();
        let (expression, names, values) = ledgers::addition(addition);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, text(&RecordKey::Ledger(partition.clone(), kind)))
            .update_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew)
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        let mut item = answer.attributes.unwrap_or_default();
        item.remove(&self.partition_key_name);
        Ok(Dated { value: ledgers::decode_ledger(item), server_secs: date.secs() })
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        let date = DateProbe::default();
        let placeholder = |group: &Group| format!("#{group}");
        let raised = groups.iter().map(placeholder);
        let raised =
            raised.map(|of| format!("#groups.{of} = if_not_exists(#groups.{of}, :zero) + :one"));
        let names = groups.iter().map(|group| (placeholder(group), group.to_string()));
        let names = names.chain([("#groups".to_owned(), directory::GROUPS.to_owned())]);
        self.client
            .update_item()
            .table_name(&self.table)
            .key(&self.partition_key_name, text(&RecordKey::Directory))
            .update_expression(format!("SET {}", raised.collect::<Vec<_>>().join(", ")))
            .condition_expression("attribute_exists(#groups)")
            .set_expression_attribute_names(Some(names.collect()))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":one", number(1))
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|e| not_as_seen(of_write(&e)))?;
        Ok(Dated { value: (), server_secs: date.secs() })
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        let (index, attribute, value) = match list {
            List::Resharding => (ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, ACTIVE_INDEX_PARTITION),
            List::Grown => (ACTIVE_INDEX, ACTIVE_INDEX_PARTITION, collection::GROWN),
            List::Decisions => {
                (DECISIONS_INDEX, DECISIONS_INDEX_PARTITION, DECISIONS_INDEX_PARTITION)
            }
        };
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
        self.page(answer.items(), next, |key, item| {
            if list == List::Decisions {
                let partition = of(key.strip_prefix(DecisionHistory::KEY_PREFIX).unwrap_or(key))?;
                let decisions = Some(ledgers::decode_decisions(&partition, item)?);
                return Ok(Some(Listed { partition, decisions }));
            }
            Ok(Some(Listed { partition: of(key)?, decisions: None }))
        })
    }
}

#[async_trait]
impl CollectionCatalog for DynamoRecordStore {
    async fn collections(&self, after: Option<&str>) -> Result<ListPage<PartitionKey>, StoreError> {
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
        // Jobs and other items of the system.
        let is_another = |key: &str| key.starts_with(RESERVED_PREFIX);
        self.page(answer.items(), next, |key, _| (!is_another(key)).then(|| of(key)).transpose())
    }
}

impl DynamoRecordStore {
    /// The request that carries out one change, as a part of a transaction.
    fn request(&self, change: &Change) -> Result<TransactWriteItem, StoreError> {
        let Change { key, seen, next } = change;
        let mut condition = Condition::of(seen, &self.partition_key_name);
        let part = TransactWriteItem::builder();
        let part = if let Some(next) = next {
            let expression = condition.update_to(seen, next);
            let update = Update::builder()
                .table_name(&self.table)
                .key(&self.partition_key_name, text(key))
                .update_expression(expression)
                .set_condition_expression(condition.text)
                .set_expression_attribute_names(filled(condition.names))
                .set_expression_attribute_values(filled(condition.values));
            part.update(update.build().map_err(|e| rejected(&e))?)
        } else {
            let delete = Delete::builder()
                .table_name(&self.table)
                .key(&self.partition_key_name, text(key))
                .set_condition_expression(condition.text)
                .set_expression_attribute_names(filled(condition.names))
                .set_expression_attribute_values(filled(condition.values));
            part.delete(delete.build().map_err(|e| rejected(&e))?)
        };
        Ok(part.build())
    }

    /// Sends one change by itself.
    async fn send(&self, change: TransactWriteItem, date: &DateProbe) -> Result<(), Refused> {
        if let Some(update) = change.update {
            let request = self
                .client
                .update_item()
                .table_name(update.table_name)
                .set_key(Some(update.key))
                .update_expression(update.update_expression)
                .set_condition_expression(update.condition_expression)
                .set_expression_attribute_names(update.expression_attribute_names)
                .set_expression_attribute_values(update.expression_attribute_values);
            let sent = request.customize().interceptor(date.clone()).send().await;
            sent.map_err(|e| of_write(&e))?;
        } else if let Some(delete) = change.delete {
            let request = self
                .client
                .delete_item()
                .table_name(delete.table_name)
                .set_key(Some(delete.key))
                .set_condition_expression(delete.condition_expression)
                .set_expression_attribute_names(delete.expression_attribute_names)
                .set_expression_attribute_values(delete.expression_attribute_values);
            let sent = request.customize().interceptor(date.clone()).send().await;
            sent.map_err(|e| of_write(&e))?;
        }
        Ok(())
    }

    fn decode(&self, key: &RecordKey, mut item: Item) -> Result<Record, StoreError> {
        item.remove(&self.partition_key_name);
        Ok(match key {
            RecordKey::Directory => Record::Directory(directory::decode(&item)?),
            RecordKey::Segment(_) => {
                let what = "a segment of the directory";
                let Hashes(segment) = Reader { what, item: &item }.get(KEYS)?;
                Record::Segment(segment)
            }
            RecordKey::Collection(of) => Record::Collection(collection::decode(of, &item)?),
            RecordKey::Job(of) => Record::Job(job::decode(of, &item)?),
            RecordKey::Lane(..) => {
                Record::Call(Reader { what: "the item of a lane", item: &item }.get("call")?)
            }
            RecordKey::Ledger(..) => Record::Ledger(ledgers::decode_ledger(item)),
            RecordKey::Decisions(of) => Record::Decisions(ledgers::decode_decisions(of, &item)?),
            RecordKey::Grant(_) => {
                let what = "the item of a grant";
                Record::Grant(Counted(Reader { what, item: &item }.or_default(COUNTED)?))
            }
        })
    }

    /// A page of items of which `entry` makes what is listed, if anything. The damaged are told, and the others listed:
    /// they are of other collections.
    fn page<T>(
        &self,
        items: &[Item],
        next: Option<String>,
        entry: impl Fn(&str, &Item) -> Result<Option<T>, StoreError>,
    ) -> Result<ListPage<T>, StoreError> {
        let mut page = ListPage { entries: Vec::new(), damaged: Vec::new(), next };
        for item in items {
            let key = self.key_of(item)?;
            match entry(&key, item) {
                Ok(entry) => page.entries.extend(entry),
                Err(StoreError::Corrupt(why)) => {
                    page.damaged.push(format!("the item {key:?} of the metadata table: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    fn key_of(&self, item: &Item) -> Result<String, StoreError> {
        let key = item.get(&self.partition_key_name).and_then(|key| key.as_s().ok());
        let corrupt =
            || StoreError::Corrupt("an item of the metadata table without its key".to_owned());
        key.cloned().ok_or_else(corrupt)
    }
}

/// The condition of a change, with the names and values of the condition and of the expression that makes it.
struct Condition {
    text: Option<String>,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Condition {
    fn of(seen: &Seen, partition_key_name: &str) -> Self {
        let mut condition = Self { text: None, names: HashMap::new(), values: HashMap::new() };
        match seen {
            Seen::Anything => {}
            Seen::Nothing => {
                condition.text = Some("attribute_not_exists(#pk)".to_owned());
                condition.names.insert("#pk".to_owned(), partition_key_name.to_owned());
            }
            Seen::Record(seen) => {
                let terms = lock(seen).into_iter().map(|(name, value)| {
                    let (placeholder, seen) = (condition.name(name), format!(":seen_{name}"));
                    let Some(value) = value else {
                        return format!("attribute_not_exists({placeholder})");
                    };
                    let term = format!("{placeholder} = {seen}");
                    condition.values.insert(seen, value);
                    term
                });
                condition.text = Some(terms.collect::<Vec<_>>().join(" AND "));
            }
        }
        condition
    }

    /// The expression that makes the record `next` of nothing, or of another one of its kind. What software of a later version has
    /// added stays.
    fn update_to(&mut self, seen: &Seen, next: &Record) -> String {
        let mut item = encode(next);
        match (seen, next) {
            (_, Record::Segment(_)) => {
                self.values.extend(item.remove(KEYS).map(|keys| (":keys".to_owned(), keys)));
                return format!("ADD {} :keys", self.name(KEYS));
            }
            // Counters are made with the first, and never put in place of others.
            (seen, Record::Directory(next)) => {
                let had = matches!(seen, Seen::Record(seen)
                    if matches!(&**seen, Record::Directory(seen) if seen.groups().is_some()));
                let groups = next.groups().filter(|_| !had).map(directory::encode_groups);
                item.extend(groups.map(|groups| (directory::GROUPS.to_owned(), groups)));
            }
            _ => {}
        }
        let is_gone = |name: &&&str| !item.contains_key(**name);
        let removes = optional(next).iter().filter(is_gone);
        let removes = removes.map(|name| self.name(name)).collect::<Vec<_>>();
        let sets = item.into_iter().map(|(name, value)| {
            let value_name = format!(":{name}");
            let term = format!("{} = {value_name}", self.name(&name));
            self.values.insert(value_name, value);
            term
        });
        let mut expression = format!("SET {}", sets.collect::<Vec<_>>().join(", "));
        if !removes.is_empty() {
            expression.extend([" REMOVE ", &removes.join(", ")]);
        }
        expression
    }

    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }
}

/// The attributes of a record, without its key.
fn encode(record: &Record) -> Item {
    match record {
        Record::Directory(item) => directory::encode(item),
        Record::Collection(metadata) => collection::encode(metadata),
        Record::Job(job) => job::encode(job),
        Record::Call(call) => job::encode_call(*call),
        Record::Decisions(history) => ledgers::encode_decisions(history),
        Record::Grant(Counted(hashes)) => {
            let mut item = Item::new();
            item.put_unless_default(COUNTED, hashes);
            item
        }
        Record::Segment(segment) => {
            let mut item = Item::new();
            item.put(KEYS, &Hashes(segment.clone()));
            item
        }
        // Ledgers are added to, and never changed.
        Record::Ledger(_) => Item::new(),
    }
}

/// The attributes that must be as they were seen for a record to be changed, each with what it must be ([`Record::lock`]).
/// `None`: it must not be there.
fn lock(record: &Record) -> Vec<(&'static str, Option<AttributeValue>)> {
    let names = match record {
        Record::Directory(_) => directory::LOCK,
        Record::Collection(_) => collection::LOCK,
        Record::Job(_) => job::LOCK,
        Record::Decisions(_) => ledgers::LOCK,
        Record::Grant(_) => return vec![(COUNTED, encode(record).remove(COUNTED))],
        Record::Call(_) | Record::Ledger(_) | Record::Segment(_) => &[],
    };
    names.iter().copied().zip(record.lock().into_iter().map(|value| Some(number(value)))).collect()
}

/// The attributes that a record has only at times.
fn optional(record: &Record) -> &'static [&'static str] {
    match record {
        Record::Collection(_) => collection::OPTIONAL,
        // A conversion takes them away.
        Record::Directory(_) => &[directory::COLLECTIONS],
        _ => &[],
    }
}

/// What a segment lists, as a set of binary values.
struct Hashes(Segment);

impl Field for Hashes {
    fn encode(&self) -> AttributeValue {
        let hashes = self.0.hashes().map(|hash| Blob::new(hash.bytes()));
        AttributeValue::Bs(hashes.collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let hashes = value.as_bs().map_err(|_| "is not a set of binary values")?;
        let hashes = hashes.iter().map(|hash| <[u8; KeyHash::BYTES]>::try_from(hash.as_ref()));
        let hashes = hashes.collect::<Result<Vec<_>, _>>();
        let hashes =
            hashes.map_err(|_| format!("holds a value that has not {} bytes", KeyHash::BYTES))?;
        Ok(Self(Segment::of(hashes.into_iter().map(KeyHash::stored))))
    }
}

fn text(key: &RecordKey) -> AttributeValue {
    AttributeValue::S(key.to_string())
}

/// The collection that a key is of.
fn of(key: &str) -> Result<PartitionKey, StoreError> {
    if key == PartitionKey::INDEX_SHARDS {
        return Ok(PartitionKey::of_index_shards());
    }
    PartitionKey::new(key).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// DynamoDB refuses maps of names and values that are empty.
fn filled<V>(map: HashMap<String, V>) -> Option<HashMap<String, V>> {
    Some(map).filter(|map| !map.is_empty())
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
