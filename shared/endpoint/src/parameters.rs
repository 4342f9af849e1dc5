//! The parameters that are known. Another may say where something is written, or what is to hold for that.

use crate::document::Members;
use crate::refusal::Refusal;

const CONDITION: &[&str] = &[
    "ConditionExpression",
    "ConditionalOperator",
    "Expected",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnConsumedCapacity",
    "ReturnItemCollectionMetrics",
    "ReturnValues",
    "ReturnValuesOnConditionCheckFailure",
    "TableName",
];

const PAGE: &[&str] = &[
    "AttributesToGet",
    "ConditionalOperator",
    "ConsistentRead",
    "ExclusiveStartKey",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "FilterExpression",
    "IndexName",
    "Limit",
    "ProjectionExpression",
    "ReturnConsumedCapacity",
    "Select",
    "TableName",
];

/// What every action of a transaction takes that writes or checks.
const ACTION: &[&str] = &[
    "ConditionExpression",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnValuesOnConditionCheckFailure",
    "TableName",
];

/// What each operation on items takes, and each part of a batch or a transaction (DynamoDB API), in two parts.
const KNOWN: &[(&str, &[&str], &[&str])] = &[
    ("PutItem", CONDITION, &["Item"]),
    ("UpdateItem", CONDITION, &["AttributeUpdates", "Key", "UpdateExpression"]),
    ("DeleteItem", CONDITION, &["Key"]),
    (
        "GetItem",
        &["AttributesToGet", "ConsistentRead", "ExpressionAttributeNames", "Key"],
        &["ProjectionExpression", "ReturnConsumedCapacity", "TableName"],
    ),
    (
        "Query",
        PAGE,
        &["KeyConditionExpression", "KeyConditions", "QueryFilter", "ScanIndexForward"],
    ),
    ("Scan", PAGE, &["ScanFilter", "Segment", "TotalSegments"]),
    (
        "BatchWriteItem",
        &["RequestItems", "ReturnConsumedCapacity"],
        &["ReturnItemCollectionMetrics"],
    ),
    ("BatchGetItem", &["RequestItems"], &["ReturnConsumedCapacity"]),
    (
        "TransactWriteItems",
        &["ClientRequestToken", "ReturnConsumedCapacity"],
        &["ReturnItemCollectionMetrics", "TransactItems"],
    ),
    ("TransactGetItems", &["ReturnConsumedCapacity"], &["TransactItems"]),
    ("PutRequest", &["Item"], &[]),
    ("DeleteRequest", &["Key"], &[]),
    (
        "KeysAndAttributes",
        &["AttributesToGet", "ConsistentRead", "ExpressionAttributeNames", "Keys"],
        &["ProjectionExpression"],
    ),
    ("Put", ACTION, &["Item"]),
    ("Update", ACTION, &["Key", "UpdateExpression"]),
    ("Delete", ACTION, &["Key"]),
    ("ConditionCheck", ACTION, &["Key"]),
    ("Get", &["ExpressionAttributeNames", "Key"], &["ProjectionExpression", "TableName"]),
];

/// Refuses a parameter that is not known, of a request on a managed table or of a part of one.
pub(crate) fn check(operation: &str, body: &Members) -> Result<(), Refusal> {
    let known = KNOWN.iter().find(|(name, ..)| *name == operation);
    let Some((_, one, other)) = known else { return Ok(()) };
    let is_known = |name: &String| one.iter().chain(*other).any(|known| known == name);
    match body.keys().find(|name| !is_known(name)) {
        Some(name) => Err(Refusal::validation(format!(
            "dynashard: the parameter {} of {operation} is not known, and not served for managed tables",
            dynashard_core::quoted(name)
        ))),
        None => Ok(()),
    }
}
