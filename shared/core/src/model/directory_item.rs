//! The directory item: the root of the segments that list which collections have metadata, and the settings that are pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dynashard_keys::PartitionKey;
use xxhash_rust::xxh64::xxh64;

use crate::model::index_shards::IndexShards;
use crate::model::pinned::Pinned;
use crate::model::segment::Group;
use crate::model::stack_policy::{StackPolicy, StackTold};

/// The directory item: what tells which collections have a metadata item at all. All others have one shard, and cost nothing in
/// the metadata table (protocol: "The directory"). And the settings that all functions must agree on (protocol: "Pinned
/// settings").
///
/// It counts how often each group of [segments](crate::model::segment::Segment) has changed, which list the collections. That of
/// an earlier version lists them itself, until an operator converts it. No collection is ever taken out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryItem {
    /// The optimistic lock: every change raises it but those of the counters. 0 where nothing was stored yet.
    pub rev: u64,
    /// What is pinned, if a function that may pin it was ever started.
    pub pinned: Option<Pinned>,
    /// What the stack decides by, if a function of it has told.
    pub policy: Option<StackPolicy>,
    /// Over how many shards the values of write-sharded indexes are spread, if there are any.
    pub index_shards: Option<IndexShards>,
    /// What it lists itself, in order, each once.
    hashes: Arc<[u64]>,
    /// None where it lists collections itself.
    groups: Option<Arc<Counters>>,
}

/// How often what is in each group has changed. In a group that is not here nothing was.
pub type Counters = BTreeMap<Group, u64>;

impl DirectoryItem {
    /// Its key in the metadata table. Must be kept stable.
    pub const KEY: &str = "_ds_directory";

    /// How many collections it may list itself: each takes 8 of the 400 KB of an item.
    pub const MAX_COLLECTIONS: usize = 50_000;

    /// An item as it was stored, or `None` if its hashes are not in order, or beside counters.
    pub fn stored(
        rev: u64,
        hashes: Vec<u64>,
        groups: Option<Counters>,
        pinned: Option<Pinned>,
    ) -> Option<Self> {
        let in_order = hashes.is_sorted_by(|one, next| one < next);
        let is_one_form = hashes.is_empty() || groups.is_none();
        let (hashes, groups) = (hashes.into(), groups.map(Arc::new));
        (in_order && is_one_form).then_some(Self { rev, pinned, hashes, groups, ..Self::default() })
    }

    /// What it tells whoever works without the variables of the stack's functions. `None` while nothing is pinned.
    pub(crate) fn told(&self) -> Option<StackTold> {
        let lease_term = self.pinned.as_ref()?.lease_term.newest();
        Some(StackTold { policy: self.policy.clone(), lease_term })
    }

    /// How often each group has changed, or `None` if the item lists collections itself.
    pub fn groups(&self) -> Option<&Counters> {
        self.groups.as_deref()
    }

    /// The hashes of the keys of all collections that it lists, in order.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Whether the collection has a metadata item. One that has none may share its hash with one that has.
    pub fn lists(&self, partition: &PartitionKey) -> bool {
        self.hashes.binary_search(&hash(partition)).is_ok()
    }

    /// Whether the collection is listed, or could be.
    pub(crate) fn has_room_for(&self, partition: &PartitionKey) -> bool {
        self.hashes.len() < Self::MAX_COLLECTIONS || self.lists(partition)
    }

    /// The item with a collection added, or `None` if it is full.
    #[must_use]
    pub fn with(&self, partition: &PartitionKey) -> Option<Self> {
        self.has_room_for(partition).then(|| {
            let mut hashes = self.hashes.to_vec();
            if let Err(at) = hashes.binary_search(&hash(partition)) {
                hashes.insert(at, hash(partition));
            }
            Self { rev: self.rev + 1, hashes: hashes.into(), ..self.clone() }
        })
    }

    /// The item with these settings pinned. One that lists collections stays so, in the format for that.
    #[must_use]
    pub fn with_pinned(&self, pinned: Pinned) -> Self {
        let lists = self.groups.is_none() && !self.hashes.is_empty();
        let pinned = if lists { pinned.without_segments() } else { pinned };
        let groups = pinned.has_segments().then(|| self.groups.clone().unwrap_or_default());
        Self { rev: self.rev + 1, pinned: Some(pinned), groups, ..self.clone() }
    }

    /// The item with what the stack decides by.
    #[must_use]
    pub(crate) fn with_policy(&self, policy: StackPolicy) -> Self {
        Self { rev: self.rev + 1, policy: Some(policy), ..self.clone() }
    }

    /// The item with these shards of indexes.
    #[must_use]
    pub(crate) fn with_index_shards(&self, index_shards: IndexShards) -> Self {
        Self { rev: self.rev + 1, index_shards: Some(index_shards), ..self.clone() }
    }

    /// The root of segments in place of an item that lists collections, all of which are in segments of these groups. `None` while
    /// nothing is pinned.
    #[must_use]
    pub(crate) fn converted(&self, groups: BTreeSet<Group>) -> Option<Self> {
        let pinned = self.pinned.clone().map(Pinned::converted)?;
        let groups = groups.into_iter().map(|group| (group, 1)).collect();
        let groups = Some(Arc::new(groups));
        let hashes = Arc::default();
        Some(Self { rev: self.rev + 1, pinned: Some(pinned), hashes, groups, ..self.clone() })
    }

    /// How often this group has changed, or `None` if the item lists collections itself.
    pub(crate) fn count_of(&self, group: Group) -> Option<u64> {
        self.groups.as_ref().map(|groups| groups.get(&group).copied().unwrap_or_default())
    }

    /// The item after a change in each of these groups, which raises nothing else. `None` where it counts none.
    #[must_use]
    pub fn raised(&self, by: &[Group]) -> Option<Self> {
        let mut groups = Counters::clone(self.groups.as_ref()?);
        for group in by {
            *groups.entry(*group).or_default() += 1;
        }
        Some(Self { groups: Some(Arc::new(groups)), ..self.clone() })
    }

    /// The item with the counters of another: they go on whatever else is changed.
    #[must_use]
    pub(crate) fn counting_as(self, other: &Self) -> Self {
        match (&self.groups, &other.groups) {
            (Some(_), Some(groups)) => Self { groups: Some(Arc::clone(groups)), ..self },
            _ => self,
        }
    }
}

/// XXH64 with seed 0 over the UTF-8 bytes of the key. Must be kept stable.
fn hash(partition: &PartitionKey) -> u64 {
    xxh64(partition.as_str().as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str) -> PartitionKey {
        PartitionKey::new(name).expect("a valid partition key")
    }

    #[test]
    fn collections_are_listed_once_and_in_order() {
        let one = DirectoryItem::default().with(&partition("EWR")).expect("room");
        let two = one.with(&partition("JFK")).and_then(|two| two.with(&partition("EWR")));
        let two = two.expect("room");
        assert_eq!((two.rev, two.hashes().len()), (3, 2));
        assert!(["EWR", "JFK"].iter().all(|name| two.lists(&partition(name))));
        assert!(!two.lists(&partition("LGA")) && !one.lists(&partition("JFK")));
        assert_eq!(DirectoryItem::stored(3, two.hashes().to_vec(), None, None), Some(two));
        assert_eq!(DirectoryItem::stored(1, vec![2, 1], None, None), None);
        assert_eq!(DirectoryItem::stored(1, vec![1, 1], None, None), None);
    }

    #[test]
    fn the_hash_of_a_key_is_what_it_always_was() {
        let item = DirectoryItem::default().with(&partition("EWR")).expect("room");
        assert_eq!(item.hashes(), [15_291_168_190_585_594_652]);
    }

    #[test]
    fn a_full_directory_takes_no_more() {
        let full = (0..50_000).collect::<Vec<u64>>();
        let full = DirectoryItem::stored(1, full, None, None).expect("in order");
        assert_eq!(full.with(&partition("EWR")), None);
    }
}
