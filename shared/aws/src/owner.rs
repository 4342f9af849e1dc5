//! The item of the main table that names its owner.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Owner, TableSchema};
use dynashard_keys::SortKeyType;

use crate::error::{of_read, of_watch};

/// The id of the stack that owns the table. No other item has the attribute. Must be kept stable.
pub const OWNER_ID: &str = "_ds_owner";

/// The name of its metadata table. Must be kept stable.
const OWNER_METADATA: &str = "_ds_metadata";

/// A strongly consistent `GetItem`.
pub async fn read(
    client: &Client,
    main_table: &str,
    schema: &TableSchema,
) -> Result<Option<Owner>, StoreError> {
    let answer = client
        .get_item()
        .table_name(main_table)
        .set_key(Some(key(schema)))
        .consistent_read(true)
        .send()
        .await
        .map_err(|e| of_read(&e))?;
    answer.item.map(|item| decode(&item)).transpose()
}

/// The bytes of the main table and its local secondary indexes, where it has any.
pub(crate) async fn locally_indexed_bytes(
    client: &Client,
    main_table: &str,
) -> Result<Option<u64>, StoreError> {
    let answer = client.describe_table().table_name(main_table).send().await;
    let table = answer.map_err(|e| of_watch("DescribeTable", &e))?.table;
    let table = table.ok_or_else(|| {
        StoreError::Unavailable("DescribeTable answered without the table".to_owned())
    })?;
    let indexes = table.local_secondary_indexes();
    if indexes.is_empty() {
        return Ok(None);
    }
    // What DynamoDB does not say may be large.
    let of = |bytes: Option<i64>| bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(u64::MAX);
    let indexes = indexes.iter().map(|index| of(index.index_size_bytes));
    Ok(Some(indexes.fold(of(table.table_size_bytes), u64::saturating_add)))
}

/// The whole item.
pub(crate) fn encode(owner: &Owner, schema: &TableSchema) -> HashMap<String, AttributeValue> {
    let attributes = [(OWNER_ID, &owner.stack_id), (OWNER_METADATA, &owner.metadata_table)];
    let mut item = key(schema);
    item.extend(attributes.map(|(name, text)| (name.to_owned(), AttributeValue::S(text.clone()))));
    item
}

/// Its key.
pub fn key(schema: &TableSchema) -> HashMap<String, AttributeValue> {
    let sort = match schema.sort_key_type {
        SortKeyType::String => AttributeValue::S(Owner::KEY.to_owned()),
        SortKeyType::Number => AttributeValue::N("0".to_owned()),
    };
    HashMap::from([
        (schema.partition_key_name.clone(), AttributeValue::S(Owner::KEY.to_owned())),
        (schema.sort_key_name.clone(), sort),
    ])
}

fn decode(item: &HashMap<String, AttributeValue>) -> Result<Owner, StoreError> {
    let text = |name: &str| {
        let text = item.get(name).and_then(|value| value.as_s().ok());
        let key = Owner::KEY;
        let why =
            || format!("the item {key:?} of the main table is damaged: {name} is not a string");
        text.cloned().ok_or_else(|| StoreError::Corrupt(why()))
    };
    Ok(Owner { stack_id: text(OWNER_ID)?, metadata_table: text(OWNER_METADATA)? })
}
