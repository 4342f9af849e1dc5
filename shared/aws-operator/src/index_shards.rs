//! Gives items the shard of write-sharded indexes that they would be written with now.

use aws_sdk_dynamodb::types::{AttributeValue as Sdk, ReturnConsumedCapacity};
use dynashard_aws::attributes::{FORWARDED, encode_attributes};
use dynashard_aws::error::{Refused, of_write};
use dynashard_core::ports::StoreError;
use dynashard_core::{AttributeValue, Attributes, INDEX_SHARD, IndexShards, TableSchema};
use dynashard_keys::{Number, ShardId, SortKey};

use crate::operator::Operator;

/// The shard that an item of a scan lacks. `None` of an item that has it, of a marker, and of what is the system's own.
pub fn lacking_shard(
    item: &Attributes,
    shards: IndexShards,
    schema: &TableSchema,
) -> Option<ShardId> {
    if item.contains_key(FORWARDED) {
        return None;
    }
    let AttributeValue::String(partition) = item.get(&schema.partition_key_name)? else {
        return None;
    };
    let sort = match item.get(&schema.sort_key_name)? {
        AttributeValue::String(text) => SortKey::string(text).ok()?,
        AttributeValue::Number(number) => SortKey::Number(number.clone()),
        _ => return None,
    };
    let shard = shards.shard_at(partition, &sort, schema.separator)?;
    let has_it = matches!(item.get(INDEX_SHARD), Some(AttributeValue::Number(number)) if *number == Number::from(u64::from(shard.get())));
    (!has_it).then_some(shard)
}

/// `UpdateItem`: gives the item of this key this shard, on condition that it is there and no marker. Returns the write units that
/// DynamoDB reported, those of indexes included; `None` where it is not there any more. Takes the permission `dynamodb:UpdateItem`.
/// It is sent once, and may be sent again.
///
/// It carries no guard and no version: the shard follows from the key of the item alone, so whoever moves or replaces the item
/// meanwhile gives it a shard that is read as well.
pub async fn put_index_shard(
    operator: &Operator,
    table: &str,
    item: &Attributes,
    shard: ShardId,
    schema: &TableSchema,
) -> Result<Option<f64>, StoreError> {
    let key = item
        .iter()
        .filter(|(name, _)| **name == schema.partition_key_name || **name == schema.sort_key_name);
    let key = key.map(|(name, value)| (name.clone(), value.clone())).collect::<Attributes>();
    let answer = operator
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(encode_attributes(&key).collect()))
        .update_expression("SET #s = :s")
        .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#f)")
        .expression_attribute_names("#s", INDEX_SHARD)
        .expression_attribute_names("#f", FORWARDED)
        .expression_attribute_names("#pk", &schema.partition_key_name)
        .expression_attribute_values(":s", Sdk::N(shard.to_string()))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    match answer {
        Ok(answer) => {
            let consumed = answer.consumed_capacity.and_then(|all| all.capacity_units);
            Ok(Some(consumed.unwrap_or_default()))
        }
        Err(error) => match of_write(&error) {
            Refused::Condition(_) | Refused::Cancelled(_) => Ok(None),
            Refused::Other(error) => Err(error),
        },
    }
}
