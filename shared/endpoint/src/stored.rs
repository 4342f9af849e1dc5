//! Items that were read by their types, in DynamoDB JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_core::{AttributeValue, Attributes, StoredItem, TableSchema, item_bytes};
use dynashard_keys::{PartitionKey, SortKey};
use serde_json::{Value, json};

use crate::document::Members;

/// The key of an item.
pub(crate) fn key(schema: &TableSchema, partition: &PartitionKey, sort: &SortKey) -> Members {
    let sort_value = match sort {
        SortKey::String(text) => json!({ "S": &**text }),
        SortKey::Number(number) => json!({ "N": number.to_string() }),
    };
    let partition_value = json!({ "S": partition.as_str() });
    Members::from_iter([
        (schema.partition_key_name.clone(), partition_value),
        (schema.sort_key_name.clone(), sort_value),
    ])
}

/// An item with its key, as DynamoDB shows it.
pub(crate) fn item(key: Members, item: StoredItem) -> Members {
    let attributes = item.attributes.into_iter().map(|(name, held)| (name, value(held)));
    attributes.chain(key).collect()
}

/// What an item takes for DynamoDB, in bytes, without what is ours of it.
pub(crate) fn size(
    schema: &TableSchema,
    partition: &PartitionKey,
    sort: &SortKey,
    attributes: &Attributes,
) -> usize {
    let sort = match sort {
        SortKey::String(text) => text.len(),
        SortKey::Number(number) => number.stored_bytes(),
    };
    let names = schema.partition_key_name.len() + schema.sort_key_name.len();
    names + partition.as_str().len() + sort + item_bytes(attributes)
}

fn value(held: AttributeValue) -> Value {
    match held {
        AttributeValue::String(text) => json!({ "S": text }),
        // DynamoDB writes all digits out.
        AttributeValue::Number(number) => json!({ "N": number.to_string() }),
        AttributeValue::Binary(bytes) => json!({ "B": STANDARD.encode(bytes) }),
        AttributeValue::Bool(truth) => json!({ "BOOL": truth }),
        AttributeValue::Null => json!({ "NULL": true }),
        AttributeValue::List(values) => {
            json!({ "L": values.into_iter().map(value).collect::<Vec<_>>() })
        }
        AttributeValue::Map(entries) => {
            let entries = entries.into_iter().map(|(name, held)| (name, value(held)));
            json!({ "M": entries.collect::<Members>() })
        }
        AttributeValue::StringSet(set) => json!({ "SS": set }),
        AttributeValue::NumberSet(set) => {
            json!({ "NS": set.iter().map(ToString::to_string).collect::<Vec<_>>() })
        }
        AttributeValue::BinarySet(set) => {
            json!({ "BS": set.iter().map(|bytes| STANDARD.encode(bytes)).collect::<Vec<_>>() })
        }
    }
}
