//! What of a page of a whole table, or of an index of it, its client is shown where some collections are listed.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_core::{Deadline, NativeShards, Place};
use dynashard_keys::PartitionKey;
use futures_util::future::try_join_all;

use crate::document::Members;
use crate::live::look;
use crate::no_page::NoPage;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::upstream::Upstream;

/// So many collections of a page are looked up at once.
const SIDE_BY_SIDE: usize = 32;

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

impl Counted {
    /// What counts.
    ///
    /// A collection is looked up behind the page: whatever was not listed then had not moved before.
    pub(crate) async fn of(
        self,
        upstream: &Upstream,
        table: &ManagedTable,
        found: Vec<Found>,
        deadline: Deadline,
    ) -> Result<Vec<Found>, NoPage> {
        let partitions = found.iter().map(|found| table.partition_of(&found.item));
        let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
        let known = shards_of(table, partitions.iter().flatten().collect(), deadline).await?;
        let mut counted = Vec::with_capacity(found.len());
        // Each with a place of the table, and whether it counts if something is live there, or if nothing is.
        let mut doubts = Vec::new();
        // All that is looked up: those, and what lies in no shard that is known and tells no generation.
        let mut spots = Vec::new();
        for (found, partition) in found.into_iter().zip(partitions) {
            // No client has an item under a key that is not one.
            let Some(partition) = partition else { continue };
            let shards = &known[&partition];
            if found.generation > shards.generation().get() {
                table.requests().forget(&partition);
                return Err(NoPage::Again);
            }
            if shards.is_listed() {
                let key = table.key_of(&found.item)?.filter(|_| self == Self::AtHome);
                let Some(key) = key else { continue };
                let new_home = match shards.place_of(&key, &found.at) {
                    Place::Home => None,
                    // New wins, and is in the index itself.
                    Place::OldHome => shards.new_home(&key),
                    Place::Elsewhere if found.generation == 0 => {
                        spots.push(((found.at, key.sort), partition));
                        continue;
                    }
                    Place::Elsewhere => continue,
                };
                let new_home =
                    new_home.map(|home| ((home.as_str().to_owned(), key.sort.clone()), false));
                let own = ((found.at.clone(), key.sort), true);
                let may_be_marker = shards.may_hold_markers() && is_bare(table, &found.item);
                for (spot, if_live) in new_home.into_iter().chain(may_be_marker.then_some(own)) {
                    spots.push((spot.clone(), partition.clone()));
                    doubts.push((counted.len(), spot, if_live));
                }
            }
            counted.push(Some(found));
        }
        let all = spots.iter().map(|(spot, _)| spot.clone()).collect();
        let looked = look(upstream, table, all, None, deadline).await?;
        for (spot, partition) in spots {
            let generation = looked.generations.get(&spot).copied().unwrap_or_default();
            if generation > known[&partition].generation().get() {
                table.requests().forget(&partition);
                return Err(NoPage::Again);
            }
        }
        for (at, spot, if_live) in doubts {
            if looked.live.contains(&spot) != if_live {
                counted[at] = None;
            }
        }
        Ok(counted.into_iter().flatten().collect())
    }
}

/// Where the items of these collections lie.
async fn shards_of(
    table: &ManagedTable,
    partitions: BTreeSet<&PartitionKey>,
    deadline: Deadline,
) -> Result<BTreeMap<PartitionKey, NativeShards>, NoPage> {
    let mut known = BTreeMap::new();
    for some in partitions.into_iter().cloned().collect::<Vec<_>>().chunks(SIDE_BY_SIDE) {
        let looks = some.iter().map(|partition| async {
            let shards = table.requests().shards_of(partition, deadline).await;
            Ok::<_, NoPage>((partition.clone(), shards.map_err(|error| Refusal::of(&error))?))
        });
        known.extend(try_join_all(looks).await?);
    }
    Ok(known)
}

/// Whether nothing tells what an index shows from a marker, which has the keys of the table and nothing else of a client.
fn is_bare(table: &ManagedTable, item: &Members) -> bool {
    let names = [table.partition_key_name(), table.sort_key_name()];
    item.keys().all(|name| names.contains(&name.as_str()))
}
