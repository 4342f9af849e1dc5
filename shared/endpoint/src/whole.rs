//! What of a page of a whole table, or of an index of it, its client is shown where some collections are listed.

use std::collections::BTreeMap;

use dynashard_aws::attributes::FORWARDED;
use dynashard_core::{Deadline, NativeShards, Place};
use dynashard_keys::PartitionKey;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;

use crate::call::Answer;
use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::{Upstream, refused};

/// What DynamoDB has shown, without what is ours of it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) item: Members,
    /// The partition key that DynamoDB holds it under.
    pub(crate) at: String,
    /// 0 where none is shown.
    pub(crate) generation: u64,
}

/// Which items of a page count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Those of collections that are not listed: what is listed is read apart, since its items may move past the page.
    OfUnlisted,
    /// Of collections that are listed those that are at home, and those that have not come there yet.
    AtHome,
}

/// How many entries of an index are looked up in the table at once.
const LOOKED_UP: usize = 16;

impl Counted {
    /// What counts. `None` where an item shows that what is known of its collection is out of date: it is not, any more.
    ///
    /// A collection is looked up behind the page: whatever was not listed then had not moved before.
    pub(crate) async fn of(
        self,
        upstream: &Upstream,
        table: &ManagedTable,
        found: Vec<Found>,
        deadline: Deadline,
    ) -> Result<Option<Vec<Found>>, Refusal> {
        let mut known = BTreeMap::<PartitionKey, NativeShards>::new();
        let mut partitions = Vec::with_capacity(found.len());
        for found in &found {
            let partition = table.partition_of(&found.item)?;
            if let Some(partition) = partition.as_ref().filter(|it| !known.contains_key(*it)) {
                let shards = table.requests().shards_of(partition, deadline).await;
                let shards = shards.map_err(|error| Refusal::of(&error))?;
                known.insert(partition.clone(), shards);
            }
            partitions.push(partition);
        }
        let mut placed = Vec::new();
        for (found, partition) in found.into_iter().zip(partitions) {
            // No client has an item under a key that is not one.
            let Some(partition) = partition else { continue };
            let shards = &known[&partition];
            if found.generation > shards.generation().get() {
                table.requests().forget(&partition);
                return Ok(None);
            }
            let place = match table.key_of(&found.item)? {
                _ if !shards.is_listed() => Place::Home,
                _ if self == Self::OfUnlisted => Place::Elsewhere,
                Some(key) => shards.place_of(&key, &found.at),
                None => Place::Elsewhere,
            };
            if place != Place::Elsewhere {
                placed.push((found, shards, place));
            }
        }
        let looked_up = placed.into_iter().map(|(found, shards, place)| async move {
            let counts = place == Place::Home && !shards.may_hold_markers()
                || counts_in_table(upstream, table, &found, shards, place).await?;
            Ok::<_, Refusal>(counts.then_some(found))
        });
        let counted = stream::iter(looked_up.collect::<Vec<_>>()).buffered(LOOKED_UP);
        let counted = counted.try_collect::<Vec<_>>().await?;
        Ok(Some(counted.into_iter().flatten().collect()))
    }
}

/// Whether what was found in a shard that is not its home for good counts, by what is in the table. A marker has the keys of the
/// table and nothing else of a client, so what shows more is not one.
async fn counts_in_table(
    upstream: &Upstream,
    table: &ManagedTable,
    found: &Found,
    shards: &NativeShards,
    place: Place,
) -> Result<bool, Refusal> {
    let names = [table.partition_key_name(), table.sort_key_name()];
    let is_bare = found.item.keys().all(|name| names.contains(&name.as_str()));
    if is_bare && !is_live(upstream, table, found, &found.at).await? {
        return Ok(false);
    }
    let home = table.key_of(&found.item)?.and_then(|key| shards.new_home(&key));
    match home.filter(|_| place == Place::OldHome) {
        // New wins, and is in the index itself.
        Some(home) => Ok(!is_live(upstream, table, found, home.as_str()).await?),
        None => Ok(true),
    }
}

/// Whether something is live at a place of the table.
async fn is_live(
    upstream: &Upstream,
    table: &ManagedTable,
    found: &Found,
    at: &str,
) -> Result<bool, Refusal> {
    let sort = table.sort_key_name();
    let key = [
        (table.partition_key_name().to_owned(), json!({ "S": at })),
        (sort.to_owned(), found.item.get(sort).cloned().unwrap_or_default()),
    ];
    let body = json!({
        "TableName": table.name(),
        "Key": Members::from_iter(key),
        "ConsistentRead": true,
        "ProjectionExpression": "#p, #f",
        "ExpressionAttributeNames": { "#p": table.partition_key_name(), "#f": FORWARDED },
    });
    let answer = upstream.exchange("GetItem", body.to_string().into_bytes(), None).await;
    let answer = Answer::from(answer.map_err(|error| refused(&error))?);
    if !answer.is_success() {
        let why = "dynashard: what an index shows could not be looked up in the table; ask again";
        return Err(Refusal::unavailable(why));
    }
    let item = answer.members().remove("Item");
    Ok(item.is_some_and(|item| item.get(FORWARDED).is_none()))
}
