//! The items of the main table.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, ConsumedCapacity, Get, KeysAndAttributes, Put,
    ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactGetItem,
    TransactWriteItem, Update,
};
use dynashard_core::ports::{
    Action, Adjusted, Arrival, BatchPage, Condition, Consistency, Expected, ItemStore, Metered,
    ShardPage, ShardQuery, SortRange, StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Adjustment, CellNumber, Fields, Generation, Lease, Owner, StoredItem, TableSchema, Version,
};
use dynashard_keys::{PhysicalKey, SortKey};
use futures_util::future::join_all;

use crate::attributes::{
    self, FORWARDED, GENERATION, UNVERSIONED, VERSION, decode_item, encode_item, number, sort_key,
    take_partition_key, take_sort_key,
};
use crate::clock::SystemClock;
use crate::error::{Refused, is_expired, of_read, of_write};
use crate::interceptors::{DateOverride, LeaseCheck};
use crate::owner;

/// How many writes look at once whether a date is taken: servers may differ, and each is to meet one of its own.
const PROBES: usize = 4;

/// The main table in DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoItemStore {
    client: Client,
    clock: SystemClock,
    table: String,
    schema: TableSchema,
    /// Whether an item whose generation or version cannot be read is read all the same.
    bears_damage: bool,
}

impl DynamoItemStore {
    /// The items of `table`. `clock` and `client` must share one [`ServerClock`](crate::ServerClock).
    pub fn new(client: Client, clock: SystemClock, table: String, schema: TableSchema) -> Self {
        Self { client, clock, table, schema, bears_damage: false }
    }

    /// The items as a verification reads them, which is to go on behind damage. An item whose generation or version is not a number counts
    /// as of the highest generation: every guarded write is refused by either.
    #[must_use]
    pub fn bearing_damage(self) -> Self {
        Self { bears_damage: true, ..self }
    }

    fn decode(&self, mut item: HashMap<String, AttributeValue>) -> Result<StoredItem, StoreError> {
        let is_damaged = |value: &AttributeValue| match value {
            AttributeValue::N(text) => text.parse::<u64>().is_err(),
            _ => true,
        };
        let own = [GENERATION, VERSION];
        if self.bears_damage && own.iter().any(|name| item.get(*name).is_some_and(is_damaged)) {
            item.remove(VERSION);
            item.insert(GENERATION.to_owned(), number(u64::MAX));
        }
        decode_item(item, &self.schema)
    }

    /// Whether a write that carries this date is taken: on a condition that never holds.
    async fn probe(&self, date_secs: u64) -> Result<bool, StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(owner::key(&self.schema)))
            .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", &self.schema.partition_key_name);
        let put = put.customize().interceptor(DateOverride(date_secs));
        // It cannot be, and was taken.
        let Err(error) = put.send().await else { return Ok(true) };
        if is_expired(&error) {
            return Ok(false);
        }
        match of_write(&error) {
            // A server looks at the condition after the date.
            Refused::Condition(_) | Refused::Cancelled(_) => Ok(true),
            Refused::Other(error) => Err(error),
        }
    }

    fn refused(&self, refused: Refused) -> StoreError {
        match refused {
            Refused::Other(error) => error,
            Refused::Cancelled(_) | Refused::Condition(None) => {
                StoreError::ConditionFailed { existing: None }
            }
            Refused::Condition(Some(found)) => match self.decode(found) {
                Ok(item) => StoreError::ConditionFailed { existing: Some(Box::new(item)) },
                Err(error) => error,
            },
        }
    }
}

#[async_trait]
impl ItemStore for DynamoItemStore {
    async fn get(
        &self,
        key: &PhysicalKey,
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        let projection = Projection::of(fields, &self.schema);
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(attributes::key(key, &self.schema)))
            .set_projection_expression(projection.text)
            .set_expression_attribute_names(projection.names)
            .consistent_read(consistency == Consistency::Strong)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let value = answer.item.map(|item| self.decode(item)).transpose()?;
        Ok(Metered { value, consumed_rcu: units(answer.consumed_capacity.as_slice()) })
    }

    async fn write(&self, write: &Write) -> Result<f64, StoreError> {
        let lease = LeaseCheck { lease: write.lease, clock: self.clock.clone() };
        let condition = Expression::of_condition(write.condition, &self.schema);
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        match &write.action {
            Action::Put(item) => self
                .client
                .put_item()
                .table_name(&self.table)
                .set_item(Some(encode_item(&write.key, item, &write.lease, &self.schema)))
                .condition_expression(condition.text)
                .set_expression_attribute_names(Some(condition.names))
                .set_expression_attribute_values(Some(condition.values))
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .customize()
                .interceptor(lease)
                .send()
                .await
                .map(|answer| units(answer.consumed_capacity.as_slice()))
                .map_err(|e| self.refused(of_write(&e))),
            Action::Delete => self
                .client
                .delete_item()
                .table_name(&self.table)
                .set_key(Some(attributes::key(&write.key, &self.schema)))
                .condition_expression(condition.text)
                .set_expression_attribute_names(Some(condition.names))
                .set_expression_attribute_values(Some(condition.values))
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .customize()
                .interceptor(lease)
                .send()
                .await
                .map(|answer| units(answer.consumed_capacity.as_slice()))
                .map_err(|e| self.refused(of_write(&e))),
        }
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        fields: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        let gets = keys.map(|key| {
            let projection = Projection::of(fields, &self.schema);
            let get = Get::builder()
                .table_name(&self.table)
                .set_key(Some(attributes::key(key, &self.schema)))
                .set_projection_expression(projection.text)
                .set_expression_attribute_names(projection.names)
                .build()
                .map_err(|e| rejected(&e))?;
            Ok::<_, StoreError>(TransactGetItem::builder().get(get).build())
        });
        let [one, other] = gets;
        let answer = self
            .client
            .transact_get_items()
            .transact_items(one?)
            .transact_items(other?)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let found = answer.responses.unwrap_or_default().into_iter().map(|response| {
            // An absent item may be left out, or come without attributes.
            let item = response.item.filter(|item| !item.is_empty());
            item.map(|item| self.decode(item)).transpose()
        });
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let value = <[_; 2]>::try_from(found).map_err(|_| {
            StoreError::Corrupt("DynamoDB did not answer a read of two items with two".to_owned())
        })?;
        let consumed_rcu = units(answer.consumed_capacity.as_deref().unwrap_or_default());
        Ok(Metered { value, consumed_rcu })
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError> {
        let lease = LeaseCheck { lease: transfer.lease, clock: self.clock.clone() };
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        let condition = Expression::of_condition(transfer.new_condition(), &self.schema);
        let arrival = match &transfer.arrival {
            Arrival::Copy(item) => TransactWriteItem::builder().put(
                Put::builder()
                    .table_name(&self.table)
                    .set_item(Some(encode_item(&transfer.new, item, &transfer.lease, &self.schema)))
                    .condition_expression(condition.text)
                    .set_expression_attribute_names(Some(condition.names))
                    .set_expression_attribute_values(Some(condition.values))
                    .return_values_on_condition_check_failure(all_old)
                    .build()
                    .map_err(|e| rejected(&e))?,
            ),
            Arrival::Present(_) => TransactWriteItem::builder().condition_check(
                ConditionCheck::builder()
                    .table_name(&self.table)
                    .set_key(Some(attributes::key(&transfer.new, &self.schema)))
                    .condition_expression(condition.text)
                    .set_expression_attribute_names(Some(condition.names))
                    .set_expression_attribute_values(Some(condition.values))
                    .return_values_on_condition_check_failure(all_old)
                    .build()
                    .map_err(|e| rejected(&e))?,
            ),
        };
        let condition = Expression::of_condition(transfer.old_condition(), &self.schema);
        let departure = TransactWriteItem::builder().put(
            Put::builder()
                .table_name(&self.table)
                .set_item(Some(encode_item(
                    &transfer.old,
                    &transfer.marker(),
                    &transfer.lease,
                    &self.schema,
                )))
                .condition_expression(condition.text)
                .set_expression_attribute_names(Some(condition.names))
                .set_expression_attribute_values(Some(condition.values))
                .build()
                .map_err(|e| rejected(&e))?,
        );
        let answer = self
            .client
            .transact_write_items()
            .transact_items(arrival.build())
            .transact_items(departure.build())
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .interceptor(lease)
            .send()
            .await;
        let refused = match answer {
            Ok(answer) => {
                let consumed_wcu = units(answer.consumed_capacity.as_deref().unwrap_or_default());
                return Ok(Transferred::Done { consumed_wcu });
            }
            Err(error) => of_write(&error),
        };
        match refused {
            Refused::Cancelled(mut parts) if !parts.is_empty() => {
                let at_new = parts.swap_remove(0).flatten();
                let at_new = at_new.map(|item| self.decode(item)).transpose()?;
                Ok(Transferred::Refused { at_new: at_new.map(Box::new) })
            }
            refused => Err(self.refused(refused)),
        }
    }

    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError> {
        let check = LeaseCheck { lease, clock: self.clock.clone() };
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        if let [adjustment] = adjustments {
            let expression = Expression::of_adjustment(adjustment);
            let answer = self
                .client
                .update_item()
                .table_name(&self.table)
                .set_key(Some(attributes::key(&adjustment.key, &self.schema)))
                .update_expression(update_of(adjustment))
                .condition_expression(expression.text)
                .set_expression_attribute_names(Some(expression.names))
                .set_expression_attribute_values(Some(expression.values))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(all_old)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .customize()
                .interceptor(check)
                .send()
                .await
                .map_err(|e| self.refused(of_write(&e)))?;
            let item = answer.attributes.map(|item| self.decode(item)).transpose()?;
            let consumed_wcu = units(answer.consumed_capacity.as_slice());
            return Ok(Adjusted { item, consumed_wcu });
        }
        let mut transaction = self.client.transact_write_items();
        for adjustment in adjustments {
            let expression = Expression::of_adjustment(adjustment);
            let update = Update::builder()
                .table_name(&self.table)
                .set_key(Some(attributes::key(&adjustment.key, &self.schema)))
                .update_expression(update_of(adjustment))
                .condition_expression(expression.text)
                .set_expression_attribute_names(Some(expression.names))
                .set_expression_attribute_values(Some(expression.values))
                .build()
                .map_err(|e| rejected(&e))?;
            transaction =
                transaction.transact_items(TransactWriteItem::builder().update(update).build());
        }
        let answer = transaction
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .interceptor(check)
            .send()
            .await
            .map_err(|e| self.refused(of_write(&e)))?;
        let consumed_wcu = units(answer.consumed_capacity.as_deref().unwrap_or_default());
        Ok(Adjusted { item: None, consumed_wcu })
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        fields: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        let projection = Projection::of(fields, &self.schema);
        let by_name = keys.iter().map(|key| attributes::key(key, &self.schema)).collect();
        let request = KeysAndAttributes::builder()
            .set_keys(Some(by_name))
            .set_projection_expression(projection.text)
            .set_expression_attribute_names(projection.names)
            .consistent_read(consistency == Consistency::Strong)
            .build()
            .map_err(|e| rejected(&e))?;
        let answer = self
            .client
            .batch_get_item()
            .request_items(&self.table, request)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| of_read(&e))?;

        // The answer has no order, so each item is matched by its key.
        let asked = keys
            .iter()
            .map(|key| ((key.partition.as_str(), &key.sort), key))
            .collect::<HashMap<_, _>>();
        let take_key = |item: &mut HashMap<String, AttributeValue>| {
            let partition = take_partition_key(item, &self.schema)?;
            let sort = take_sort_key(item, &self.schema)?;
            asked.get(&(partition.as_str(), &sort)).map(|key| PhysicalKey::clone(key)).ok_or_else(
                || {
                    StoreError::Corrupt(
                        "DynamoDB returned an item that was not requested".to_owned(),
                    )
                },
            )
        };
        let consumed_rcu = units(answer.consumed_capacity.as_deref().unwrap_or_default());
        let mut page = BatchPage { consumed_rcu, ..BatchPage::default() };
        for mut item in answer.responses.unwrap_or_default().remove(&self.table).unwrap_or_default()
        {
            let key = take_key(&mut item)?;
            match self.decode(item) {
                Ok(item) => page.items.push((key, item)),
                // The other items may belong to other collections.
                Err(StoreError::Corrupt(why)) => page.damaged.push((key, why)),
                Err(error) => return Err(error),
            }
        }
        let left = answer.unprocessed_keys.unwrap_or_default().remove(&self.table);
        for mut key in left.map(|left| left.keys).unwrap_or_default() {
            page.unprocessed.push(take_key(&mut key)?);
        }
        Ok(page)
    }

    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let TableSchema { partition_key_name, sort_key_name, .. } = &self.schema;
        let partition = AttributeValue::S(query.partition.as_str().to_owned());
        let mut condition = Expression::of_key(
            (partition_key_name.clone(), partition),
            sort_key_name.clone(),
            &query.range,
        );
        let projection = Projection::of(query.fields.as_ref(), &self.schema);
        condition.names.extend(projection.names.into_iter().flatten());
        let start = query.after.as_ref().map(|after| {
            let key = PhysicalKey { partition: query.partition.clone(), sort: after.clone() };
            attributes::key(&key, &self.schema)
        });
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .set_index_name(query.replica.map(|replica| replica.to_string()))
            .key_condition_expression(condition.text)
            .set_projection_expression(projection.text)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .scan_index_forward(query.ascending)
            .set_exclusive_start_key(start)
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX))
            .consistent_read(query.consistency == Consistency::Strong)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| of_read(&e))?;

        let items_read = u64::try_from(answer.scanned_count).unwrap_or_default();
        let consumed_rcu = units(answer.consumed_capacity.as_slice());
        let next = answer
            .last_evaluated_key
            .map(|mut key| take_sort_key(&mut key, &self.schema))
            .transpose()?;
        let items = answer
            .items
            .unwrap_or_default()
            .into_iter()
            .map(|mut item| {
                let sort = take_sort_key(&mut item, &self.schema)?;
                let item = self.decode(item).map_err(|error| of_item(&sort, error))?;
                Ok((sort, item))
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(ShardPage { items, next, items_read, consumed_rcu })
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        owner::read(&self.client, &self.table, &self.schema).await
    }

    async fn claim(&self, owner: &Owner) -> Result<(), StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(owner::encode(owner, &self.table, &self.schema)))
            .condition_expression("attribute_not_exists(#owner) OR #owner = :owner")
            .expression_attribute_names("#owner", owner::OWNER_ID)
            .expression_attribute_values(":owner", AttributeValue::S(owner.stack_id.clone()));
        put.send().await.map(drop).map_err(|e| match of_write(&e) {
            Refused::Condition(_) | Refused::Cancelled(_) => {
                StoreError::ConditionFailed { existing: None }
            }
            Refused::Other(error) => error,
        })
    }

    async fn takes_date(&self, date_secs: u64) -> Result<bool, StoreError> {
        let probes = (0..PROBES).map(|_| self.probe(date_secs));
        let answers = join_all(probes).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(answers.contains(&true))
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        owner::locally_indexed_bytes(&self.client, &self.table).await
    }
}

/// The error about a page names the damaged item.
fn of_item(sort: &SortKey, error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt(what) => {
            StoreError::Corrupt(format!("the item with sort key {:?}: {what}", sort.to_string()))
        }
        error => error,
    }
}

/// The condition that the item exists in this version. An item that another program wrote has no
/// version and counts as of version 0, as `decode_item` reads it.
fn push_version(
    text: &mut String,
    names: &mut HashMap<String, String>,
    values: &mut HashMap<String, AttributeValue>,
    version: Version,
    schema: &TableSchema,
) {
    let unversioned = if version == UNVERSIONED {
        names.insert("#pk".to_owned(), schema.partition_key_name.clone());
        "(attribute_exists(#pk) AND attribute_not_exists(#v)) OR "
    } else {
        ""
    };
    text.push_str(" AND (");
    text.push_str(unversioned);
    text.push_str("#v = :v) AND attribute_not_exists(#f)");
    names.insert("#v".to_owned(), VERSION.to_owned());
    values.insert(":v".to_owned(), number(version.get()));
}

/// The error of a request that cannot be built.
fn rejected(error: &BuildError) -> StoreError {
    StoreError::Rejected(error.to_string())
}

/// The units that an answer consumed, over all tables.
pub(crate) fn units(consumed: &[ConsumedCapacity]) -> f64 {
    consumed.iter().filter_map(|consumed| consumed.capacity_units).sum()
}

/// What a change does to a cell, by the placeholders of its condition.
fn update_of(adjustment: &Adjustment) -> String {
    let adds = (0..adjustment.change.adds.len()).map(|at| format!("#a{at} :a{at}"));
    format!("SET #v = :v ADD {}", adds.collect::<Vec<_>>().join(", "))
}

/// The projection of a read, with its placeholders: the key, the system's own attributes, and the
/// named fields. Without fields nothing is projected, and the read returns everything.
#[derive(Default)]
struct Projection {
    text: Option<String>,
    names: Option<HashMap<String, String>>,
}

impl Projection {
    fn of(fields: Option<&Fields>, schema: &TableSchema) -> Self {
        let Some(fields) = fields else { return Self::default() };
        let own =
            [&schema.partition_key_name, &schema.sort_key_name, GENERATION, VERSION, FORWARDED];
        // DynamoDB refuses a projection that names an attribute twice.
        let names = own.into_iter().chain(fields.names()).collect::<BTreeSet<_>>();
        let names = names.into_iter().enumerate();
        let names = names.map(|(at, name)| (format!("#f{at}"), name.to_owned()));
        let names = names.collect::<HashMap<_, _>>();
        let placeholders = names.keys().map(String::as_str).collect::<Vec<_>>();
        Self { text: Some(placeholders.join(", ")), names: Some(names) }
    }
}

/// An expression with its placeholders. Names get placeholders, since many are reserved words.
pub(crate) struct Expression {
    pub(crate) text: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Expression {
    /// The guard of every write, with what the operation itself expects.
    fn of_condition(condition: Condition, schema: &TableSchema) -> Self {
        let mut text = "(attribute_not_exists(#g) OR #g <= :g)".to_owned();
        let mut names = HashMap::from([("#g".to_owned(), GENERATION.to_owned())]);
        let mut values = HashMap::from([(":g".to_owned(), number(condition.generation.get()))]);
        if condition.expected != Expected::Any {
            names.insert("#f".to_owned(), FORWARDED.to_owned());
        }
        match condition.expected {
            Expected::Any => {}
            Expected::Absent => {
                text.push_str(" AND (attribute_not_exists(#pk) OR attribute_exists(#f))");
                names.insert("#pk".to_owned(), schema.partition_key_name.clone());
            }
            Expected::Live => {
                text.push_str(" AND attribute_exists(#pk) AND attribute_not_exists(#f)");
                names.insert("#pk".to_owned(), schema.partition_key_name.clone());
            }
            Expected::Version(version) => {
                push_version(&mut text, &mut names, &mut values, version, schema);
            }
            Expected::Unchanged { version, generation } => {
                push_version(&mut text, &mut names, &mut values, version, schema);
                // An item that another program wrote counts as of generation 0.
                text.push_str(if generation == Generation::default() {
                    " AND (attribute_not_exists(#g) OR #g = :seen)"
                } else {
                    " AND #g = :seen"
                });
                values.insert(":seen".to_owned(), number(generation.get()));
            }
            Expected::LiveIn(generation) => {
                text.push_str(" AND #g = :seen AND attribute_not_exists(#f)");
                values.insert(":seen".to_owned(), number(generation.get()));
            }
            Expected::Marker => text.push_str(" AND attribute_exists(#f)"),
        }
        Self { text, names, values }
    }

    /// The guard, and the conditions of a change of a cell; with the placeholders of what it does.
    fn of_adjustment(adjustment: &Adjustment) -> Self {
        let Adjustment { version, change, .. } = adjustment;
        let mut names = HashMap::from([
            ("#g".to_owned(), GENERATION.to_owned()),
            ("#v".to_owned(), VERSION.to_owned()),
            ("#n".to_owned(), CellNumber::Value.name().to_owned()),
        ]);
        let mut values = HashMap::from([(":v".to_owned(), number(version.get()))]);
        let is_there =
            if change.creates { "attribute_not_exists(#n)" } else { "attribute_exists(#n)" };
        // No collection of a cell is ever resharded.
        let mut terms = vec!["attribute_not_exists(#g)".to_owned(), is_there.to_owned()];
        let mut placed = |kind: &str, at: usize, which: CellNumber, value: Option<i128>| {
            names.insert(format!("#{kind}{at}"), which.name().to_owned());
            let value = value.map(|value| AttributeValue::N(value.to_string()));
            values.extend(value.map(|value| (format!(":{kind}{at}"), value)));
        };
        for (at, (which, by)) in change.adds.iter().enumerate() {
            placed("a", at, *which, Some(*by));
        }
        for (at, (which, least)) in change.at_least.iter().enumerate() {
            placed("l", at, *which, Some(*least));
            terms.push(format!("#l{at} >= :l{at}"));
        }
        for (at, (which, value)) in change.equals.iter().enumerate() {
            placed("e", at, *which, Some(*value));
            terms.push(format!("#e{at} = :e{at}"));
        }
        for (at, which) in change.lacks.iter().enumerate() {
            placed("x", at, *which, None);
            terms.push(format!("attribute_not_exists(#x{at})"));
        }
        Self { text: terms.join(" AND "), names, values }
    }

    /// The condition of a query: on the partition key, with its name, and on the sort key of this name.
    pub(crate) fn of_key(
        (name, partition): (String, AttributeValue),
        sort_key_name: String,
        range: &SortRange,
    ) -> Self {
        let mut text = "#pk = :pk".to_owned();
        let mut names = HashMap::from([("#pk".to_owned(), name)]);
        let mut values = HashMap::from([(":pk".to_owned(), partition)]);
        let mut value = |name: &str, value| {
            values.insert(name.to_owned(), value);
        };
        text.push_str(match range {
            SortRange::All => "",
            SortRange::BeginsWith(prefix) => {
                value(":a", AttributeValue::S(prefix.clone()));
                " AND begins_with(#sk, :a)"
            }
            SortRange::From(from) => {
                value(":a", sort_key(from));
                " AND #sk >= :a"
            }
            SortRange::To(to) => {
                value(":a", sort_key(to));
                " AND #sk <= :a"
            }
            SortRange::Between(from, to) => {
                value(":a", sort_key(from));
                value(":b", sort_key(to));
                " AND #sk BETWEEN :a AND :b"
            }
        });
        if *range != SortRange::All {
            names.insert("#sk".to_owned(), sort_key_name);
        }
        Self { text, names, values }
    }
}
