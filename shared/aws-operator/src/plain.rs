//! Takes the system's own attributes off items, and its owner off a table, for a table that leaves the application.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue as Sdk, ReturnConsumedCapacity};
use dynashard_core::ports::StoreError;
use dynashard_core::{Attributes, Owner, TableSchema};

use dynashard_aws::attributes::{FORWARDED, GENERATION, VERSION, encode_attributes};
use dynashard_aws::error::{Refused, of_write};
use dynashard_aws::owner::{self, OWNER_ID};

use crate::operator::Operator;

/// What became of an item whose attributes were to be removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stripped {
    /// They are gone.
    Done {
        /// The write units that DynamoDB reported, those of indexes included.
        consumed_wcu: f64,
    },
    /// Somebody has written or deleted the item since, and nothing was changed.
    Changed,
}

/// `UpdateItem`: removes version and generation from an item that a scan has shown, on condition that
/// both are as they were and that it is not a marker. Everything else stays as it is by then, also what
/// somebody has written since. Takes the permission `dynamodb:UpdateItem`. It is sent once, and may be
/// sent again.
///
/// It has no guard, so it is for a table that no function writes to any more.
pub async fn strip(
    operator: &Operator,
    table: &str,
    item: &Attributes,
    schema: &TableSchema,
) -> Result<Stripped, StoreError> {
    let key = item
        .iter()
        .filter(|(name, _)| **name == schema.partition_key_name || **name == schema.sort_key_name);
    let key = key.map(|(name, value)| (name.clone(), value.clone())).collect::<Attributes>();
    let mut request = operator
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(encode_attributes(&key).collect()))
        .update_expression("REMOVE #v, #g")
        .expression_attribute_names("#v", VERSION)
        .expression_attribute_names("#g", GENERATION)
        .expression_attribute_names("#f", FORWARDED)
        .expression_attribute_names("#pk", &schema.partition_key_name)
        .return_consumed_capacity(ReturnConsumedCapacity::Total);
    // An item that was deleted is not to come back as an empty one.
    let mut conditions =
        vec!["attribute_exists(#pk)".to_owned(), "attribute_not_exists(#f)".to_owned()];
    let seen = item.iter().filter(|(name, _)| [VERSION, GENERATION].contains(&name.as_str()));
    let seen = seen.map(|(name, value)| (name.clone(), value.clone())).collect::<Attributes>();
    let seen = encode_attributes(&seen).collect::<HashMap<String, Sdk>>();
    for (name, short, value) in [(VERSION, "#v", ":v"), (GENERATION, "#g", ":g")] {
        if let Some(seen) = seen.get(name) {
            conditions.push(format!("{short} = {value}"));
            request = request.expression_attribute_values(value, seen.clone());
        } else {
            conditions.push(format!("attribute_not_exists({short})"));
        }
    }
    match request.condition_expression(conditions.join(" AND ")).send().await {
        Ok(answer) => {
            let consumed = answer.consumed_capacity.and_then(|all| all.capacity_units);
            Ok(Stripped::Done { consumed_wcu: consumed.unwrap_or_default() })
        }
        Err(error) => match of_write(&error) {
            Refused::Condition(_) | Refused::Cancelled(_) => Ok(Stripped::Changed),
            Refused::Other(error) => Err(error),
        },
    }
}

/// The stack that a main table belongs to; `None` if no stack has served it, or it was released.
pub async fn owner(
    operator: &Operator,
    table: &str,
    schema: &TableSchema,
) -> Result<Option<Owner>, StoreError> {
    owner::read(&operator.client, table, schema).await
}

/// `DeleteItem`: lets the next stack claim a main table. `false` where it does not belong to this owner any more.
pub async fn release(
    operator: &Operator,
    table: &str,
    schema: &TableSchema,
    owner: &Owner,
) -> Result<bool, StoreError> {
    let request = operator
        .client
        .delete_item()
        .table_name(table)
        .set_key(Some(owner::key(schema)))
        .condition_expression("#owner = :owner")
        .expression_attribute_names("#owner", OWNER_ID)
        .expression_attribute_values(":owner", Sdk::S(owner.stack_id.clone()));
    match request.send().await {
        Ok(_) => Ok(true),
        Err(error) => match of_write(&error) {
            Refused::Condition(_) | Refused::Cancelled(_) => Ok(false),
            Refused::Other(error) => Err(error),
        },
    }
}
