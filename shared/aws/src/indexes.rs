//! The secondary indexes of the main table.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, IndexStatus, KeySchemaElement, KeyType, ProjectionType, ReturnConsumedCapacity,
    ScalarAttributeType, TableDescription,
};
use dynashard_core::ports::{
    Consistency, IndexEntry, IndexPart, IndexPlace, IndexRead, IndexStart, IndexStore, SortRange,
    StoreError,
};
use dynashard_core::{INDEX_SHARD, IndexAttribute, SecondaryIndex, TableSchema, Told};
use dynashard_keys::{ShardId, SortKeyType};

use crate::attributes::{
    FORWARDED, GENERATION, VERSION, decode_item, encode, number, sort_key, sort_key_of,
    take_partition_key, take_sort_key,
};
use crate::error::{of_read, of_watch};
use crate::items::{Expression, units};

/// The secondary indexes of the main table in DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoIndexStore {
    client: Client,
    table: String,
    schema: TableSchema,
}

impl DynamoIndexStore {
    /// The indexes of `table`.
    pub fn new(client: Client, table: String, schema: TableSchema) -> Self {
        Self { client, table, schema }
    }

    /// What an entry is, and where it lies.
    fn entry(
        &self,
        index: &SecondaryIndex,
        mut item: HashMap<String, AttributeValue>,
    ) -> Result<IndexEntry, StoreError> {
        let place = self.place(index, &mut item)?;
        Ok(IndexEntry { place, item: decode_item(item, &self.schema)? })
    }

    /// Takes the table's key out of an entry, or of the key of one, and says where it lies.
    fn place(
        &self,
        index: &SecondaryIndex,
        item: &mut HashMap<String, AttributeValue>,
    ) -> Result<IndexPlace, StoreError> {
        let at = take_partition_key(item, &self.schema)?;
        let sort = take_sort_key(item, &self.schema)?;
        let value = match index.sort_key.first() {
            None => None,
            Some(key) if key.name == self.schema.sort_key_name => Some(sort.clone()),
            Some(key) => Some(sort_key_of(item.get(&key.name).cloned(), &key.name)?),
        };
        let shard = index.is_write_sharded().then(|| shard_of(item)).transpose()?;
        Ok(IndexPlace { value, shard, at, sort })
    }

    fn start(&self, read: &IndexRead) -> Option<HashMap<String, AttributeValue>> {
        let IndexStart::Behind(IndexPlace { value, at, sort, .. }) = read.start.clone() else {
            return None;
        };
        let of_index = read.index.sort_key.first().map(|key| key.name.clone());
        let of_index = of_index.zip(value.as_ref().map(sort_key));
        let own = partition_key(read);
        // In an index by one of the table's own keys both say the same.
        let of_table = [
            (self.schema.partition_key_name.clone(), AttributeValue::S(at)),
            (self.schema.sort_key_name.clone(), sort_key(&sort)),
        ];
        Some(own.chain(of_index).chain(of_table).collect())
    }
}

#[async_trait]
impl IndexStore for DynamoIndexStore {
    async fn indexes(&self) -> Result<Vec<SecondaryIndex>, StoreError> {
        let answer = self.client.describe_table().table_name(&self.table).send().await;
        let table = answer.map_err(|e| of_watch("DescribeTable", &e))?.table;
        let table = table.ok_or_else(|| {
            StoreError::Unavailable("DescribeTable answered without the table".to_owned())
        })?;
        Ok(described(&table, &self.schema))
    }

    async fn query_index(&self, read: &IndexRead) -> Result<IndexPart, StoreError> {
        let index = &read.index;
        let mut condition = condition(read);
        let projection = read.fields.as_ref().map(|fields| {
            let own =
                [GENERATION, VERSION, FORWARDED].into_iter().filter(|own| index.projects(own));
            let names = fields.names().chain(index.keys()).chain(own).collect::<BTreeSet<_>>();
            let names = names.into_iter().enumerate();
            let names = names.map(|(at, name)| (format!("#f{at}"), name.to_owned()));
            let names = names.collect::<HashMap<_, _>>();
            let text = names.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            condition.names.extend(names);
            text
        });
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(&index.name)
            .key_condition_expression(condition.text)
            .set_projection_expression(projection)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .scan_index_forward(read.ascending)
            .set_exclusive_start_key(self.start(read))
            .limit(i32::try_from(read.limit).unwrap_or(i32::MAX))
            .consistent_read(read.consistency == Consistency::Strong)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| of_read(&e))?;
        let items_read = u64::try_from(answer.scanned_count).unwrap_or_default();
        let consumed_rcu = units(answer.consumed_capacity.as_slice());
        let next = answer.last_evaluated_key.map(|mut key| self.place(index, &mut key));
        let entries = answer.items.unwrap_or_default().into_iter();
        let entries = entries.map(|item| self.entry(index, item));
        Ok(IndexPart {
            entries: entries.collect::<Result<_, _>>()?,
            next: next.transpose()?,
            items_read,
            consumed_rcu,
        })
    }
}

/// The attributes of the partition key, with their values.
fn partition_key(read: &IndexRead) -> impl Iterator<Item = (String, AttributeValue)> + '_ {
    let keys = read.index.partition_key.iter().map(|key| key.name.clone());
    keys.map(|name| {
        let shard =
            read.shard.filter(|_| name == INDEX_SHARD).map(|shard| number(shard.get().into()));
        (name, shard.unwrap_or_else(|| encode(&read.partition)))
    })
}

/// The condition on the key.
fn condition(read: &IndexRead) -> Expression {
    let sort = read.index.sort_key.first().map(|key| key.name.clone()).unwrap_or_default();
    let (range, beyond) = match (&read.start, read.ascending) {
        (IndexStart::At { value, included: true }, true) => (SortRange::From(value.clone()), None),
        (IndexStart::At { value, included: true }, false) => (SortRange::To(value.clone()), None),
        (IndexStart::At { value, .. }, _) => (SortRange::All, Some(value)),
        (IndexStart::Range | IndexStart::Behind(_), _) => (read.range.clone(), None),
    };
    let mut partition = partition_key(read);
    let first = partition.next().unwrap_or_else(|| (String::new(), encode(&read.partition)));
    let mut condition = Expression::of_key(first, sort.clone(), &range);
    for (name, value) in partition {
        condition.text.push_str(" AND #second = :second");
        condition.names.insert("#second".to_owned(), name);
        condition.values.insert(":second".to_owned(), value);
    }
    if let Some(value) = beyond {
        condition.text.push_str(if read.ascending { " AND #sk > :a" } else { " AND #sk < :a" });
        condition.names.insert("#sk".to_owned(), sort);
        condition.values.insert(":a".to_owned(), sort_key(value));
    }
    condition
}

/// The shard of its value that an entry lies in.
fn shard_of(item: &HashMap<String, AttributeValue>) -> Result<ShardId, StoreError> {
    let shard = item.get(INDEX_SHARD).and_then(|value| value.as_n().ok()?.parse().ok());
    let wrong =
        || StoreError::Corrupt(format!("{INDEX_SHARD} of an entry is not the number of a shard"));
    shard.map(ShardId::new).ok_or_else(wrong)
}

/// The indexes of a table that is described so.
fn described(table: &TableDescription, schema: &TableSchema) -> Vec<SecondaryIndex> {
    let global = table.global_secondary_indexes().iter().map(|index| {
        let is_active =
            matches!(index.index_status(), Some(IndexStatus::Active | IndexStatus::Updating));
        (index.index_name(), index.key_schema(), index.projection(), Some(is_active))
    });
    let local = table
        .local_secondary_indexes()
        .iter()
        .map(|index| (index.index_name(), index.key_schema(), index.projection(), None));
    let all = global.chain(local);
    let all = all.filter_map(|(name, key, projection, is_active)| {
        let of = |of_type: &KeyType| {
            let elements = key.iter().filter(|element| element.key_type() == of_type);
            elements.map(|element| attribute(element, table)).collect()
        };
        let projection = projection?;
        let projects_all = *projection.projection_type()? == ProjectionType::All;
        let projected = || projection.non_key_attributes().iter().cloned().collect();
        let mut index = SecondaryIndex {
            name: name?.to_owned(),
            is_local: is_active.is_none(),
            is_active: is_active.unwrap_or(true),
            partition_key: of(&KeyType::Hash),
            sort_key: of(&KeyType::Range),
            table_keys: [schema.partition_key_name.clone(), schema.sort_key_name.clone()],
            tells: Told::default(),
            projected: (!projects_all).then(projected),
        };
        index.tells =
            Told { markers: index.projects(FORWARDED), generations: index.projects(GENERATION) };
        Some(index)
    });
    all.collect()
}

fn attribute(element: &KeySchemaElement, table: &TableDescription) -> IndexAttribute {
    let name = element.attribute_name();
    let mut definitions = table.attribute_definitions().iter();
    let definition = definitions.find(|definition| definition.attribute_name() == name);
    let r#type = definition.and_then(|definition| match definition.attribute_type() {
        ScalarAttributeType::S => Some(SortKeyType::String),
        ScalarAttributeType::N => Some(SortKeyType::Number),
        _ => None,
    });
    IndexAttribute { name: name.to_owned(), r#type }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{
        AttributeDefinition, GlobalSecondaryIndexDescription, LocalSecondaryIndexDescription,
        Projection,
    };

    use super::*;

    fn keys(names: &[(&str, KeyType)]) -> Vec<KeySchemaElement> {
        let element = |(name, of_type): &(&str, KeyType)| {
            let element = KeySchemaElement::builder().attribute_name(*name);
            element.key_type(of_type.clone()).build().expect("an element")
        };
        names.iter().map(element).collect()
    }

    fn projection(of: ProjectionType) -> Projection {
        Projection::builder().projection_type(of).non_key_attributes("x").build()
    }

    #[test]
    fn indexes_are_what_dynamodb_describes() {
        let global = |name: &str, status: IndexStatus, key| {
            let index = GlobalSecondaryIndexDescription::builder().index_name(name);
            let index = index.index_status(status).set_key_schema(Some(key));
            index.projection(projection(ProjectionType::Include)).build()
        };
        let local = LocalSecondaryIndexDescription::builder().index_name("local");
        let local =
            local.set_key_schema(Some(keys(&[("pk", KeyType::Hash), ("n", KeyType::Range)])));
        let definitions = [("pk", "S"), ("n", "N"), ("raw", "B")].map(|(name, letter)| {
            let definition = AttributeDefinition::builder().attribute_name(name);
            let letter = ScalarAttributeType::from(letter);
            definition.attribute_type(letter).build().expect("a definition")
        });
        let table = TableDescription::builder()
            .set_attribute_definitions(Some(definitions.into()))
            .local_secondary_indexes(local.projection(projection(ProjectionType::All)).build())
            .global_secondary_indexes(global(
                "made",
                IndexStatus::Updating,
                keys(&[("n", KeyType::Hash), ("raw", KeyType::Range)]),
            ))
            .global_secondary_indexes(global(
                "making",
                IndexStatus::Creating,
                keys(&[("n", KeyType::Hash), ("pk", KeyType::Hash)]),
            ))
            .build();
        let indexes = described(&table, &TableSchema::default());
        let [made, making, local] = indexes.as_slice() else { panic!("{indexes:?}") };
        assert!(local.is_local && local.is_active && local.is_by_collection());
        assert!(local.projects("whatever") && local.tells.markers);
        assert_eq!(local.sort_key, [attribute(&keys(&[("n", KeyType::Range)])[0], &table)]);
        assert_eq!(local.sort_key[0].r#type, Some(SortKeyType::Number));
        assert!(made.is_active && !made.is_local && !made.tells.markers);
        assert!(made.projects("x") && made.projects("raw") && !made.projects("y"));
        assert_eq!(made.sort_key[0].r#type, None, "it is binary");
        assert!(!making.is_active && making.partition_key.len() == 2);
    }
}
