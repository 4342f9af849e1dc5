//! A second look at a key, under metadata that is the same before and after.

use std::collections::BTreeMap;

use dynashard_keys::{ItemKey, PartitionKey, ShardId};

use crate::decide::judge::{Entry, Verdict, View};
use crate::model::error::{Code, Error};
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::ports::Consistency;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::read::Lookup;

/// What a second look at a key has shown.
#[derive(Debug, Clone)]
pub(super) struct Examined {
    pub(super) verdict: Verdict,
    /// What it was judged by.
    pub(super) view: View,
    /// The right to act on it.
    pub(super) known: Known,
    /// What lies in each shard that was looked at.
    pub(super) found: BTreeMap<ShardId, StoredItem>,
}

/// What the items of a collection are to be judged by.
pub(super) async fn view_of(
    directory: &Directory,
    partition: &PartitionKey,
    deadline: Deadline,
) -> Result<View, Error> {
    let known = match directory.read_enlisted(partition, deadline).await? {
        Some(known) => known,
        None => directory.find(partition, deadline).await?,
    };
    let metadata = known.metadata;
    let job = if metadata.needs_rebalancing() {
        directory.records().job(partition, deadline).await?.0
    } else {
        None
    };
    Ok(View { metadata, job })
}

/// Looks again at a key of which something was seen in these shards. `view` is what it was
/// judged by. What is found wrong was read under metadata that was the same before and after.
pub(super) async fn examine(
    directory: &Directory,
    key: &ItemKey,
    shards: &[ShardId],
    view: &View,
    deadline: Deadline,
) -> Result<Examined, Error> {
    let partition = &key.partition;
    let mut view = view.clone();
    let mut attempts = directory.attempts(deadline);
    loop {
        let known = directory.find(partition, deadline).await?;
        if known.metadata != view.metadata {
            view = view_of(directory, partition, deadline).await?;
        }
        let found = look(directory, key, shards, &view, deadline).await?;
        let ttl_attributes = directory.lease().ttl_attributes();
        let entries = found
            .iter()
            .map(|(shard, item)| Entry::of(key, *shard, item, &ttl_attributes))
            .collect::<Vec<_>>();
        let verdict = view.judge(key, &entries);
        let known = if verdict.wrong.is_empty() {
            directory.find(partition, deadline).await?
        } else {
            directory.read_now(partition, deadline).await?
        };
        if known.metadata == view.metadata {
            return Ok(Examined { verdict, view, known, found });
        }
        let why = "the collection's metadata kept changing while it was verified";
        attempts.pause(Error::new(Code::Contended, why)).await?;
    }
}

/// What lies under a key in these shards and in those where it belongs: its home and each other
/// as they were at one moment.
async fn look(
    directory: &Directory,
    key: &ItemKey,
    shards: &[ShardId],
    view: &View,
    deadline: Deadline,
) -> Result<BTreeMap<ShardId, StoredItem>, Error> {
    let placement = view.metadata.placement;
    let (home, old) = view.homes(key);
    let others = old.into_iter().chain(shards.iter().copied().filter(|s| Some(*s) != old));
    let others = others.filter(|shard| *shard != home).collect::<Vec<_>>();
    let consistency = Consistency::Strong;
    let lookup = Lookup::new(directory, key, None, consistency, deadline);
    let mut found = BTreeMap::new();
    let mut note = |shard, item: Option<StoredItem>| match item {
        Some(item) => found.insert(shard, item),
        None => found.remove(&shard),
    };
    if others.is_empty() {
        note(home, lookup.get_at(placement, home).await?.value);
    }
    for other in others {
        let [at_home, at_other] = lookup.get_pair(placement, [home, other]).await?.value;
        note(home, at_home);
        note(other, at_other);
    }
    Ok(found)
}
