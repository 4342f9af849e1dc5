//! Over how many shards each value of a write-sharded index is spread.

use dynashard_keys::{
    ItemKey, PartitionKey, PhysicalPartitionKey, Placement, Separator, ShardCount, ShardId, SortKey,
};

use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::version::Generation;

/// The attribute by which the items of one value of a write-sharded index are spread: a part of the partition key of such an
/// index, and a number. Must be kept stable.
pub const INDEX_SHARD: &str = "_ds_index_shard";

/// How many shards each value of the write-sharded indexes has, of all of them together: an item carries its shard once. The root
/// of the directory holds it, so that it stands under the lease of that.
///
/// It only grows, and readers are ahead: whoever writes goes by a new count when nobody can be reading by the one before any more,
/// so that every shard that an item is written to is read (protocol: "Shards of indexes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexShards {
    written: ShardCount,
    read: ShardCount,
    changed_secs: u64,
}

impl IndexShards {
    /// The most that there may be: a page asks for each of them.
    pub const MOST: u32 = 256;

    /// The first count, rounded up to a power of two: nobody has read by another one.
    pub fn first(count: ShardCount) -> Self {
        let count = Placement::Xxh64.round(count);
        Self { written: count, read: count, changed_secs: 0 }
    }

    /// What was stored, or `None` where readers would be behind, or a count is not a power of two.
    pub fn stored(written: ShardCount, read: ShardCount, changed_secs: u64) -> Option<Self> {
        let are_powers = [written, read].iter().all(|count| count.get().is_power_of_two());
        (are_powers && written <= read).then_some(Self { written, read, changed_secs })
    }

    /// The count by which items are written.
    pub fn written(self) -> ShardCount {
        self.written
    }

    /// The count by which indexes are read.
    pub fn read(self) -> ShardCount {
        self.read
    }

    /// The epoch second of the last growth, by DynamoDB's clock; 0 before the first.
    pub fn changed_secs(self) -> u64 {
        self.changed_secs
    }

    /// Whether readers go by a count by which nobody writes yet.
    pub fn is_growing(self) -> bool {
        self.written < self.read
    }

    /// The first step of a growth: readers go by the new count, rounded up to a power of two. `None` where one is under way, or that
    /// is no more than there are.
    #[must_use]
    pub fn growing_to(self, count: ShardCount, now_secs: u64) -> Option<Self> {
        let read = Placement::Xxh64.round(count);
        let is_growth = !self.is_growing() && read > self.read;
        is_growth.then_some(Self { read, changed_secs: now_secs, ..self })
    }

    /// The second step: writers go by it, too.
    #[must_use]
    pub fn grown(self) -> Self {
        Self { written: self.read, ..self }
    }

    /// The shard that the item is written to which DynamoDB holds under this key. `None` for what is the system's own.
    pub fn shard_at(
        self,
        partition: &str,
        sort: &SortKey,
        separator: Separator,
    ) -> Option<ShardId> {
        let (partition, _) = PhysicalPartitionKey::parse(partition, separator).ok()?;
        Some(self.shard_of(&ItemKey::new(partition, sort.clone())))
    }

    /// That of an item by its logical key: the shard that [`ShardRule::Xxh64`](dynashard_keys::ShardRule::Xxh64) gives it.
    fn shard_of(self, key: &ItemKey) -> ShardId {
        // The placement is one that is calculated.
        Placement::Xxh64.home(key, self.written).unwrap_or(ShardId::new(0))
    }

    /// These shards as those of a collection of all that is written, which moves nothing when it grows: it is decided on them as on
    /// those of a collection.
    pub(crate) fn as_collection(self) -> CollectionMetadata {
        let (from, to) = (self.written, self.read);
        CollectionMetadata {
            number_of_shards: from,
            last_updated_secs: self.changed_secs,
            generation: Generation::new(1),
            rev: self.changed_secs,
            phase: if self.is_growing() { Phase::Forward { from, to } } else { Phase::Stable },
            ..CollectionMetadata::cold(PartitionKey::of_index_shards(), Placement::Xxh64)
        }
    }
}

#[cfg(test)]
mod tests {
    use dynashard_keys::{IndexForm, IndexKey, IndexSharding, ShardRule, WriteSharding};

    use super::*;

    fn count(count: u32) -> ShardCount {
        ShardCount::new(count).expect("a count")
    }

    #[test]
    fn readers_are_ahead_of_writers() {
        let first = IndexShards::first(count(3));
        assert_eq!(
            (first.written(), first.read(), first.is_growing()),
            (count(4), count(4), false)
        );
        let growing = first.growing_to(count(9), 20).expect("a growth");
        assert_eq!((growing.written(), growing.read()), (count(4), count(16)));
        assert!(growing.is_growing() && growing.growing_to(count(64), 30).is_none());
        assert_eq!(Some(growing.grown()), IndexShards::stored(count(16), count(16), 20));
        assert_eq!(first.growing_to(count(4), 20), None);
        assert_eq!(IndexShards::stored(count(8), count(4), 0), None);
        assert_eq!(IndexShards::stored(count(4), count(6), 0), None);
        assert_eq!(IndexShards::stored(count(4), count(16), 20), Some(growing));
    }

    #[test]
    fn items_of_one_sort_key_are_spread_and_a_growth_moves_half_of_them_to_new_shards() {
        let key = |n: usize| {
            let partition = PartitionKey::new(format!("customer {n}")).expect("a key");
            ItemKey::new(partition, SortKey::string("profile").expect("a key"))
        };
        let (four, eight) = (IndexShards::first(count(4)), IndexShards::first(count(8)));
        let sharding = WriteSharding::new(ShardRule::Xxh64, count(4)).expect("a power of two");
        let index = IndexSharding::new(sharding, IndexForm::MultiAttribute);
        let at =
            |shard| IndexKey::MultiAttribute { shard: ShardId::new(shard), value: "US".to_owned() };
        let mut spread = [0; 4];
        for n in 0..4_000 {
            let (before, after) = (four.shard_of(&key(n)).get(), eight.shard_of(&key(n)).get());
            assert!(after == before || after == before + 4);
            let (partition, sort) = (key(n).partition, "profile");
            assert_eq!(index.key("US", partition.as_str(), sort, 0), at(before));
            spread[usize::try_from(before).expect("a shard")] += 1;
        }
        assert!(spread.iter().all(|items| (900..1_100).contains(items)), "{spread:?}");
    }
}
