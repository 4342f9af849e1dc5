//! What is live at places of the table: an index does not tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynashard_aws::attributes::{FORWARDED, GENERATION};
use dynashard_core::Deadline;
use dynashard_keys::SortKey;
use serde_json::{Value, json};

use crate::call::Answer;
use crate::document::Members;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, refused, understood};

/// A place of the table: the partition key that DynamoDB holds it under, and the sort key.
pub(crate) type Spot = (String, SortKey);

/// What was found at some places.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those of them where something is live.
    pub(crate) live: BTreeSet<Spot>,
    /// The generation of what was found at each place, markers included.
    pub(crate) generations: BTreeMap<Spot, u64>,
    /// What DynamoDB says that each request consumed.
    pub(crate) consumed: Vec<Value>,
}

/// How many items a `BatchGetItem` reads (DynamoDB API).
const MOST_GETS: usize = 100;

/// How long to wait at most before what DynamoDB has left over of a batch is asked for again.
const PAUSE: Duration = Duration::from_millis(40);

/// Looks at these places by strongly consistent reads. `capacity` is the client's `ReturnConsumedCapacity`.
pub(crate) async fn look(
    upstream: &Upstream,
    table: &ManagedTable,
    spots: BTreeSet<Spot>,
    capacity: Option<&Value>,
    deadline: Deadline,
) -> Result<Found, NoPage> {
    let (partition_key, sort_key) = (table.partition_key_name(), table.sort_key_name());
    let names = json!({ "#p": partition_key, "#s": sort_key, "#g": GENERATION, "#f": FORWARDED });
    let mut found = Found::default();
    let mut wanted = spots.into_iter().collect::<Vec<_>>();
    while !wanted.is_empty() {
        in_time(table, deadline)?;
        let batch = wanted.split_off(wanted.len().saturating_sub(MOST_GETS));
        let of_type = table.schema().sort_key_type.as_str();
        let keys = batch.iter().map(|(at, sort)| {
            json!({ partition_key: { "S": at }, sort_key: { of_type: sort.to_string() } })
        });
        let gets = json!({ "Keys": keys.collect::<Vec<_>>(), "ConsistentRead": true,
            "ProjectionExpression": "#p, #s, #g, #f", "ExpressionAttributeNames": names });
        let mut body = json!({ "RequestItems": { table.name(): gets } });
        if let Some(capacity) = capacity {
            body["ReturnConsumedCapacity"] = capacity.clone();
        }
        let answer = upstream.exchange("BatchGetItem", body.to_string().into_bytes(), None).await;
        let answer = Answer::from(answer.map_err(|error| refused(&error))?);
        if !answer.is_success() {
            return Err(NoPage::Refused(answer));
        }
        let answer = understood(&answer)?;
        found.consumed.extend(answer.get("ConsumedCapacity").and_then(|all| all.get(0)).cloned());
        let spot_of = |key: &Members| {
            let at = key.get(partition_key)?["S"].as_str()?.to_owned();
            Some((at, table.sort_key(key.get(sort_key)?)?))
        };
        let items = answer.get("Responses").and_then(|tables| tables[table.name()].as_array());
        for item in items.into_iter().flatten().filter_map(Value::as_object) {
            let shown = table.shown(&mut item.clone());
            let Some(spot) = spot_of(item) else { continue };
            found.generations.insert(spot.clone(), shown.generation);
            if !shown.is_marker {
                found.live.insert(spot);
            }
        }
        let left = answer.get("UnprocessedKeys").map(|tables| &tables[table.name()]["Keys"]);
        let left = left.and_then(Value::as_array).into_iter().flatten();
        let left = left.filter_map(|key| spot_of(key.as_object()?)).collect::<Vec<_>>();
        if !left.is_empty() {
            table.requests().pause(PAUSE).await;
            wanted.extend(left);
        }
    }
    Ok(found)
}

/// Refuses to go on with a page for which no time is left.
pub(crate) fn in_time(table: &ManagedTable, deadline: Deadline) -> Result<(), NoPage> {
    if deadline.remaining(table.requests().now()).is_zero() {
        let why = "dynashard: the page could not be read in time; ask for less, or again";
        return Err(Refusal::unavailable(why).into());
    }
    Ok(())
}
