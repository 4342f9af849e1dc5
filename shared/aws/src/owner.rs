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

/// The name of the main table that it is said of. Must be kept stable.
const OWNER_MAIN: &str = "_ds_main";

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
    answer.item.map(|item| decode(&item, main_table)).transpose()
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
pub(crate) fn encode(
    owner: &Owner,
    main_table: &str,
    schema: &TableSchema,
) -> HashMap<String, AttributeValue> {
    let attributes = [
        (OWNER_ID, owner.stack_id.as_str()),
        (OWNER_METADATA, &owner.metadata_table),
        (OWNER_MAIN, main_table),
    ];
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mut item = key(schema);
    item.extend(attributes.map(|(name, value)| (name.to_owned(), text(value))));
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

fn decode(item: &HashMap<String, AttributeValue>, main_table: &str) -> Result<Owner, StoreError> {
    let text = |name: &str| {
        let text = item.get(name).and_then(|value| value.as_s().ok());
        let key = Owner::KEY;
        let why =
            || format!("the item {key:?} of the main table is damaged: {name} is not a string");
        text.cloned().ok_or_else(|| StoreError::Corrupt(why()))
    };
    // Software of before has not said it.
    let said_of = item.get(OWNER_MAIN).and_then(|value| value.as_s().ok());
    let is_of_this_table = said_of.is_some_and(|name| name == main_table);
    let (stack_id, metadata_table) = (text(OWNER_ID)?, text(OWNER_METADATA)?);
    Ok(Owner { stack_id, metadata_table, is_of_this_table })
}
