//! What a query of an index asks for, and what that is to each shard.

use std::collections::BTreeSet;
use std::sync::Arc;

use dynashard_aws::attributes::{FORWARDED, GENERATION};
use dynashard_core::SecondaryIndex;
use dynashard_expression::{KeyCondition, KeyRange, Placeholders};
use dynashard_keys::{PartitionKey, PhysicalPartitionKey};
use serde_json::{Value, json};

use super::keys::{KeyNames, Scalar, Sequence};
use crate::document::Members;
use crate::evaluation::{Evaluation, flag, malformed, not_understood};
use crate::guard::{PageExpressions, check_size, page_expressions, put_placeholders};
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// What of a request says whether its client is told what it consumed.
pub(super) const CAPACITY: &str = "ReturnConsumedCapacity";

/// What a client asks for.
pub(super) struct Asked {
    pub(super) partition: PartitionKey,
    pub(super) index: Arc<SecondaryIndex>,
    pub(super) ascending: bool,
    /// The key behind which its page begins.
    pub(super) start: Option<Members>,
    pub(super) evaluation: Evaluation,
    /// What each shard is asked, but for its partition key, and for where it begins and ends.
    pub(super) request: Members,
    /// What stands for the partition key in it.
    pub(super) placeholder: String,
    /// Whether entries show the whole of their items.
    pub(super) are_whole: bool,
    pub(super) names: Arc<KeyNames>,
}

impl Asked {
    /// Reads a query that DynamoDB takes. What it does not take may be read, or not.
    pub(super) fn of(
        table: &ManagedTable,
        index: Arc<SecondaryIndex>,
        body: &Members,
        partition: &PartitionKey,
    ) -> Result<Self, Refusal> {
        let PageExpressions { filter, key_condition, projection, placeholders } =
            page_expressions(body.clone())?;
        let condition = key_condition.ok_or_else(|| not_understood("it has no key condition"))?;
        let condition =
            KeyCondition::parse(&condition, &placeholders).map_err(|error| malformed(&error))?;
        let evaluation =
            Evaluation::of(body, filter.as_deref(), projection.as_deref(), &placeholders)?;
        let mut request = Members::new();
        for member in ["TableName", "IndexName", "ScanIndexForward", "ConsistentRead", CAPACITY] {
            if let Some(value) = body.get(member) {
                request.insert(member.to_owned(), value.clone());
            }
        }
        let mut own = Placeholders::default();
        let placeholder = own.value(Value::Null);
        let ranges = condition.names().filter_map(|name| Some((name, condition.of(name)?)));
        let conditions = ranges.map(|(name, range)| {
            if name == table.partition_key_name() {
                format!("{} = {placeholder}", own.name(name))
            } else {
                condition_on(name, range, &mut own)
            }
        });
        let conditions = conditions.collect::<Vec<_>>().join(" AND ");
        request.insert("KeyConditionExpression".to_owned(), conditions.into());
        let are_whole = body.get("Select").is_some_and(|select| select == "ALL_ATTRIBUTES");
        if are_whole {
            request.insert("Select".to_owned(), "ALL_ATTRIBUTES".into());
        } else if let Some(projection) = beyond(&evaluation, &index) {
            let names = projection.iter().map(|name| own.name(name)).collect::<Vec<_>>();
            let text = names.join(", ");
            check_size(None, &text)?;
            request.insert("ProjectionExpression".to_owned(), text.into());
        }
        put_placeholders(&mut request, own);
        let start = match body.get("ExclusiveStartKey") {
            None => None,
            Some(Value::Object(start)) => Some(start),
            Some(_) => return Err(not_understood("its ExclusiveStartKey is not a key")),
        };
        let names = Arc::new(names(table, &index, partition));
        Ok(Self {
            names,
            partition: partition.clone(),
            index,
            ascending: flag(body, "ScanIndexForward")?.unwrap_or(true),
            start: start.cloned(),
            evaluation,
            request,
            placeholder,
            are_whole,
        })
    }

    /// The request to the shard of this partition key for so many entries behind this key.
    pub(super) fn of_shard(
        &self,
        table: &ManagedTable,
        at: &PhysicalPartitionKey,
        next: Option<&Members>,
        limit: usize,
    ) -> Result<Members, Refusal> {
        let physical = json!({ "S": at.as_str() });
        let mut body = self.request.clone();
        body.insert("Limit".to_owned(), limit.into());
        let values = body.get_mut("ExpressionAttributeValues").and_then(Value::as_object_mut);
        if let Some(values) = values {
            values.insert(self.placeholder.clone(), physical.clone());
        }
        if let Some(next) = next {
            let mut next = next.clone();
            // DynamoDB refuses the key of another collection. It takes that of no item, as it is here in all shards but one: the
            // guide asks for no more than that it lies in the range, and so does the engine that tests run against.
            if table.partition_of(&next)?.as_ref() == Some(&self.partition) {
                next.insert(table.partition_key_name().to_owned(), physical);
            }
            body.insert("ExclusiveStartKey".to_owned(), next.into());
        }
        Ok(body)
    }

    /// The place of a key behind which a page begins. `None` where it is of another index.
    pub(super) fn place(&self, key: &Members) -> Option<Sequence> {
        self.names.place.iter().map(|name| Scalar::of(key.get(name)?)).collect()
    }
}

fn names(table: &ManagedTable, index: &SecondaryIndex, partition: &PartitionKey) -> KeyNames {
    let own = table.partition_key_name();
    // Each shard has another one.
    let of_index = index.sort_key.iter().map(|key| &*key.name).filter(|name| *name != own);
    let place = of_index.chain([table.sort_key_name()]).map(str::to_owned).collect::<Vec<_>>();
    let common = index.keys().into_iter().map(str::to_owned);
    let common = common.filter(|name| name != own && !place.contains(name)).collect();
    KeyNames { partition: own.to_owned(), collection: partition.as_str().to_owned(), place, common }
}

/// What a key condition demands of an attribute, as DynamoDB reads it.
fn condition_on(name: &str, range: &KeyRange, own: &mut Placeholders) -> String {
    let name = own.name(name);
    let (comparator, value) = match range {
        KeyRange::Between(low, high) => {
            let (low, high) = (own.value(low.clone()), own.value(high.clone()));
            return format!("{name} BETWEEN {low} AND {high}");
        }
        KeyRange::BeginsWith(prefix) => {
            return format!("begins_with({name}, {})", own.value(prefix.clone()));
        }
        KeyRange::Equal(value) => ("=", value),
        KeyRange::Less(value) => ("<", value),
        KeyRange::AtMost(value) => ("<=", value),
        KeyRange::Greater(value) => (">", value),
        KeyRange::AtLeast(value) => (">=", value),
    };
    format!("{name} {comparator} {}", own.value(value.clone()))
}

/// The attributes that are asked for by name, where a client asks for one that the index does not project: DynamoDB fetches it, or
/// refuses that, as it would for the client. Otherwise what an index projects is read as a whole, which costs no more.
fn beyond<'a>(evaluation: &'a Evaluation, index: &'a SecondaryIndex) -> Option<BTreeSet<&'a str>> {
    let projection = evaluation.projection.as_ref()?;
    let mut names = projection.names();
    if names.iter().all(|name| index.projects(name)) {
        return None;
    }
    names.extend(index.keys());
    names.extend(evaluation.filter.as_ref().map(|filter| filter.names()).unwrap_or_default());
    names.extend([GENERATION, FORWARDED].iter().filter(|name| index.projects(name)));
    Some(names)
}
