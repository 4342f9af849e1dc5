//! The tables behind the endpoint, as far as they decide what a request costs and who pays.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;

use dynashard_limits::capacity::{Index, Projection};
use dynashard_limits::partition::{SortKeyType, Throughput};
use dynoxide::actions::{TableDescription, TableProvisionedThroughputDescription};
use dynoxide::types::{self, KeySchemaElement, KeyType, ProjectionType, ScalarAttributeType};
use dynoxide::{DynoxideError, Result};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use crate::dynamodb::engine::Store;

/// What is known of every table of the engine.
#[derive(Debug)]
pub(super) struct Tables {
    store: Store,
    known: RwLock<HashMap<String, Arc<Table>>>,
    /// Held from asking about a table until the answer is known, so that the latest answer stays.
    learning: Mutex<()>,
}

impl Tables {
    /// No tables are known before [`Self::learn`].
    pub(super) fn of(store: Store) -> Self {
        Self { store, known: RwLock::default(), learning: Mutex::default() }
    }

    /// A table by its name; `None` if the engine does not have it.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Table>> {
        self.known.read().get(name).map(Arc::clone)
    }

    /// Learns what the table is like by now, and reports it: `None` where it is gone. Blocks.
    pub(super) fn learn(&self, name: &str, report: impl Fn(Option<&Table>)) -> Result<()> {
        let _learning = self.learning.lock();
        let table = match self.store.describe_table(name) {
            Ok(description) => Some(Arc::new(Table::from(description))),
            Err(DynoxideError::ResourceNotFoundException(_)) => None,
            Err(error) => return Err(error),
        };
        report(table.as_deref());
        let mut known = self.known.write();
        match table {
            Some(table) => known.insert(name.to_owned(), table),
            None => known.remove(name),
        };
        Ok(())
    }
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) arn: String,
    pub(super) partition_key: String,
    pub(super) sort_key: Option<String>,
    /// The sort keys by which its item collections may be split for heat.
    pub(super) split_by: Option<SortKeyType>,
    pub(super) throughput: Throughput,
    pub(super) global_indexes: Vec<GlobalIndex>,
    pub(super) local_indexes: Vec<Index>,
    /// The `CreateTable` request of a table with the same keys and indexes.
    pub(super) create_request: Value,
}

/// A global secondary index. Local ones have neither a capacity nor a name that costs depend on.
#[derive(Debug)]
pub(super) struct GlobalIndex {
    pub(super) name: String,
    pub(super) arn: String,
    pub(super) throughput: Throughput,
    pub(super) index: Index,
}

impl From<TableDescription> for Table {
    fn from(description: TableDescription) -> Self {
        let create_request = create_request(&description);
        let split_by = split_by(&description);
        let (partition_key, sort_key) = split(&description.key_schema);
        let table_key: Vec<_> = partition_key.iter().chain(&sort_key).cloned().collect();
        let index = |key_schema: &[KeySchemaElement], projection| {
            let (partition_key, sort_key) = split(key_schema);
            let projection = read_projection(projection);
            Index { partition_key, sort_key, table_key: table_key.clone(), projection }
        };
        // The engine keeps what an index was provisioned with when the table is on demand again.
        let is_on_demand = description
            .billing_mode_summary
            .as_ref()
            .is_some_and(|summary| summary.billing_mode == "PAY_PER_REQUEST");
        let of_index = |provisioned: Option<&TableProvisionedThroughputDescription>| {
            throughput(provisioned.filter(|_| !is_on_demand))
        };
        let global_indexes = description.global_secondary_indexes.unwrap_or_default();
        let local_indexes = description.local_secondary_indexes.unwrap_or_default();
        Self {
            name: description.table_name,
            arn: description.table_arn,
            throughput: throughput(description.provisioned_throughput.as_ref()),
            global_indexes: global_indexes
                .into_iter()
                .map(|global| GlobalIndex {
                    index: index(&global.key_schema, global.projection),
                    name: global.index_name,
                    arn: global.index_arn,
                    throughput: of_index(global.provisioned_throughput.as_ref()),
                })
                .collect(),
            local_indexes: local_indexes
                .into_iter()
                .map(|local| index(&local.key_schema, local.projection))
                .collect(),
            partition_key: partition_key.into_iter().next().unwrap_or_default(),
            sort_key: sort_key.into_iter().next(),
            split_by,
            create_request,
        }
    }
}

fn create_request(description: &TableDescription) -> Value {
    let global = description.global_secondary_indexes.iter().flatten();
    let global = global.map(|it| (&it.index_name, &it.key_schema, &it.projection));
    let local = description.local_secondary_indexes.iter().flatten();
    let local = local.map(|it| (&it.index_name, &it.key_schema, &it.projection));
    let schemas = global.clone().chain(local.clone()).map(|(_, key_schema, _)| key_schema);
    let keys = schemas.chain([&description.key_schema]).flatten();
    let keys: BTreeSet<_> = keys.map(|element| &element.attribute_name).collect();
    // An index that was deleted leaves its definitions behind, which `CreateTable` refuses.
    let attributes = description.attribute_definitions.iter();
    let attributes = attributes.filter(|attribute| keys.contains(&attribute.attribute_name));
    let mut request = json!({
        "TableName": description.table_name,
        "KeySchema": description.key_schema,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": attributes.collect::<Vec<_>>(),
    });
    let index = |(name, key_schema, projection)| json!({ "IndexName": name, "KeySchema": key_schema, "Projection": projection });
    let global: Vec<_> = global.map(index).collect();
    let local: Vec<_> = local.map(index).collect();
    for (member, indexes) in [("GlobalSecondaryIndexes", global), ("LocalSecondaryIndexes", local)]
    {
        // `CreateTable` refuses an empty list of indexes.
        if !indexes.is_empty() {
            request[member] = indexes.into();
        }
    }
    request
}

fn split_by(description: &TableDescription) -> Option<SortKeyType> {
    let has_local_index = description.local_secondary_indexes.iter().flatten().next().is_some();
    let (_, sort_key) = split(&description.key_schema);
    let mut attributes = description.attribute_definitions.iter();
    let attribute = attributes.find(|attribute| sort_key.contains(&attribute.attribute_name));
    match attribute?.attribute_type {
        ScalarAttributeType::S if !has_local_index => Some(SortKeyType::String),
        ScalarAttributeType::N if !has_local_index => Some(SortKeyType::Number),
        _ => None,
    }
}

/// The attributes of the partition key and those of the sort key.
fn split(key_schema: &[KeySchemaElement]) -> (Vec<String>, Vec<String>) {
    let (partition, sort): (Vec<_>, Vec<_>) =
        key_schema.iter().partition(|element| element.key_type == KeyType::HASH);
    let names = |elements: Vec<&KeySchemaElement>| {
        elements.into_iter().map(|element| element.attribute_name.clone()).collect()
    };
    (names(partition), names(sort))
}

fn read_projection(projection: types::Projection) -> Projection {
    match projection.projection_type {
        Some(ProjectionType::KEYS_ONLY) => Projection::KeysOnly,
        Some(ProjectionType::INCLUDE) => {
            Projection::Include(projection.non_key_attributes.unwrap_or_default())
        }
        Some(ProjectionType::ALL) | None => Projection::All,
    }
}

/// A table on demand is described with a throughput of zero.
fn throughput(provisioned: Option<&TableProvisionedThroughputDescription>) -> Throughput {
    let units = |units: u64| NonZeroU32::new(u32::try_from(units).unwrap_or(u32::MAX));
    let provisioned = provisioned.and_then(|provisioned| {
        let rcu = units(provisioned.read_capacity_units)?;
        let wcu = units(provisioned.write_capacity_units)?;
        Some(Throughput::Provisioned { rcu, wcu })
    });
    provisioned.unwrap_or(Throughput::OnDemand)
}
