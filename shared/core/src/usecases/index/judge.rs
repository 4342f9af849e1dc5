//! Which entries of an index count.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, PhysicalPartitionKey};

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::index::SecondaryIndex;
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::model::version::Version;
use crate::ports::{Consistency, IndexEntry, MAX_KEYS_PER_BATCH_GET};
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::fan_out::fan_out;
use crate::usecases::native_shards::{NativeShards, Place};
use crate::usecases::query::NoPage;

/// What was judged.
pub(super) struct Judged {
    /// The entries that count, each with the shard that it was read of.
    pub(super) counting: Vec<(usize, ItemKey, IndexEntry)>,
    /// Whether items of one of their collections are being moved.
    pub(super) is_moving: bool,
    /// What it took to ask the table.
    pub(super) cost: Cost,
}

/// An entry of which the index does not tell whether it counts, or whether it is ahead of what is known.
struct Doubt {
    /// Among those that may count.
    at: usize,
    /// Where the entry's own item lies.
    own: PhysicalKey,
    /// Where the item is moved to, if `own` is what it leaves.
    new: Option<PhysicalKey>,
    /// Whether no item of its collection lies there, by what is known.
    is_elsewhere: bool,
}

/// Tells which entries count. Those of one collection are judged by what is `known` of that, and all others by what is held of
/// their collections: what was not listed when they had been read had not moved before, and whose generation is ahead is read anew.
pub(super) async fn judge(
    directory: &Directory,
    index: &SecondaryIndex,
    entries: Vec<(usize, IndexEntry)>,
    known: Option<&Known>,
    deadline: Deadline,
) -> Result<Judged, NoPage> {
    let separator = directory.settings().schema.separator;
    let read = entries.into_iter().filter_map(|(feed, entry)| {
        // What is under the key of no collection is the system's own.
        let (partition, shard) = PhysicalPartitionKey::parse(&entry.place.at, separator).ok()?;
        let key = ItemKey::new(partition, entry.place.sort.clone());
        Some((feed, key, shard, entry))
    });
    let read = read.collect::<Vec<_>>();
    let all =
        collections(directory, read.iter().map(|(_, key, ..)| &key.partition), known, deadline);
    let all = all.await?;
    // All of them at once: a page is begun again a few times at most.
    let ahead = read.iter().filter(|(_, key, _, entry)| {
        entry.item.generation > all[&key.partition].metadata.generation
    });
    let ahead = ahead.map(|(_, key, ..)| &key.partition).collect::<BTreeSet<_>>();
    if !ahead.is_empty() {
        for partition in ahead {
            directory.forget(partition);
        }
        return Err(NoPage::Redo);
    }
    let (mut counting, mut doubts, mut is_moving) = (Vec::new(), Vec::new(), false);
    for (feed, key, shard, entry) in read {
        let known = &all[&key.partition];
        let metadata = &known.metadata;
        let shards = NativeShards::new(known.clone(), separator);
        is_moving |= shards.is_moving();
        let place = shards.place_of(&key, &entry.place.at);
        let is_elsewhere = place == Place::Elsewhere;
        if !entry.item.is_live() || is_elsewhere && index.tells.generations {
            continue;
        }
        let may_be_marker =
            index.may_hold_markers() && !index.tells.markers && shards.may_hold_markers();
        if place == Place::OldHome || may_be_marker || is_elsewhere {
            let new = shards.new_home(&key).filter(|_| place == Place::OldHome);
            let new = new.map(|partition| PhysicalKey { partition, sort: key.sort.clone() });
            let shard = shard.unwrap_or(metadata.placement.first());
            let own = key.at(shard, metadata.placement, separator);
            doubts.push(Doubt { at: counting.len(), own, new, is_elsewhere });
        }
        counting.push(Some((feed, key, entry)));
    }
    let (live, cost) = look(directory, &doubts, &all, deadline).await?;
    for Doubt { at, own, new, is_elsewhere } in doubts {
        let version = counting[at].as_ref().map(|(_, _, entry)| entry.item.version);
        let counts = match new.and_then(|new| live.get(&new)) {
            // What was moved keeps its version, so that the entry shows what is at the new home, which the index may lack yet.
            Some(at_new) => version.is_some_and(|own| own != Version::new(0) && own == *at_new),
            None => live.contains_key(&own),
        };
        if !counts || is_elsewhere {
            counting[at] = None;
        }
    }
    Ok(Judged { counting: counting.into_iter().flatten().collect(), is_moving, cost })
}

/// What is known of the collections of entries.
async fn collections(
    directory: &Directory,
    partitions: impl Iterator<Item = &PartitionKey>,
    known: Option<&Known>,
    deadline: Deadline,
) -> Result<BTreeMap<PartitionKey, Known>, NoPage> {
    let mut all = BTreeMap::new();
    all.extend(known.map(|known| (known.metadata.partition.clone(), known.clone())));
    let others = partitions.filter(|partition| !all.contains_key(*partition));
    let others = others.cloned().collect::<BTreeSet<_>>().into_iter();
    let finds = others.map(|partition| async move {
        let known = directory.find(&partition, deadline).await?;
        Ok((partition, known))
    });
    let found = fan_out(finds.collect()).await?;
    all.extend(found);
    Ok(all)
}

/// The versions of what is live at the places in doubt, by strongly consistent reads.
async fn look(
    directory: &Directory,
    doubts: &[Doubt],
    known: &BTreeMap<PartitionKey, Known>,
    deadline: Deadline,
) -> Result<(BTreeMap<PhysicalKey, Version>, Cost), NoPage> {
    let spots = doubts.iter().flat_map(|doubt| doubt.new.iter().chain([&doubt.own]));
    let mut left = spots.cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let separator = directory.settings().schema.separator;
    let is_ahead = |at: &PhysicalKey, item: &StoredItem| {
        let partition = PhysicalPartitionKey::parse(at.partition.as_str(), separator).ok();
        let partition = partition.map(|(partition, _)| partition);
        let known = partition.as_ref().and_then(|partition| known.get(partition));
        partition.filter(|_| known.is_some_and(|of| item.generation > of.metadata.generation))
    };
    let (mut live, mut cost, none) = (BTreeMap::new(), Cost::default(), Fields::none());
    let mut attempts = directory.attempts(deadline);
    while !left.is_empty() {
        let batch = left.split_off(left.len().saturating_sub(MAX_KEYS_PER_BATCH_GET));
        let items = directory.context().items();
        let get = || items.batch_get(&batch, Some(&none), Consistency::Strong);
        let page = attempts.make(get, WHY_LATE).await?;
        cost.items_read += u64::try_from(page.items.len()).unwrap_or_default();
        cost.consumed_rcu += page.consumed_rcu;
        if let Some((_, why)) = page.damaged.into_iter().next() {
            return Err(Error::new(Code::CorruptData, why).into());
        }
        let ahead = page.items.iter().filter_map(|(at, item)| is_ahead(at, item));
        let ahead = ahead.collect::<BTreeSet<_>>();
        if !ahead.is_empty() {
            for partition in &ahead {
                directory.forget(partition);
            }
            return Err(NoPage::Redo);
        }
        for (at, item) in page.items {
            if item.is_live() {
                live.insert(at, item.version);
            }
        }
        if !page.unprocessed.is_empty() {
            // Some partition has no more to give now.
            attempts.pause(Error::new(Code::Throttled, WHY_LATE)).await?;
        }
        left.extend(page.unprocessed);
    }
    Ok((live, cost))
}

const WHY_LATE: &str = "the table did not say in time what of the index counts";
