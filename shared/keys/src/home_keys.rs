//! Homes of many items of one collection.

use alloc::string::{String, ToString};

use crate::{
    Homes, PartitionKey, PhysicalPartitionKey, Placement, Separator, ShardCount, ShardId, SortKey,
};

/// The physical partition keys of one collection's items, written into one buffer after the other: [`Placement::home`]
/// and [`ItemKey::at`](crate::ItemKey::at) in one, for callers that place many items. Nothing is allocated for an item.
///
/// ```
/// # use dynashard_keys::{HomeKeys, PartitionKey, Placement, Separator, ShardCount, SortKey};
/// let partition = PartitionKey::new("user.v1.User:abc")?;
/// let count = ShardCount::new(16)?;
/// let mut keys = HomeKeys::of(&partition, Placement::Xxh64, count, Separator::Colon).expect("xxh64 is calculated");
/// let (shard, key) = keys.home(&SortKey::string("123")?);
/// assert_eq!((shard.get(), key), (11, "user.v1.User:abc:11"));
/// # Ok::<(), dynashard_keys::KeyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct HomeKeys {
    homes: Homes,
    first: PhysicalPartitionKey,
    /// Begins with the partition key and the separator, and ends in the number of the last item's shard.
    key: String,
    /// Where that number begins.
    number_at: usize,
}

impl HomeKeys {
    /// `None` under [`Placement::Random`], where an item has no home.
    ///
    /// # Panics
    ///
    /// If the placement cannot have the count, which [`Placement::check`] tells.
    pub fn of(
        partition: &PartitionKey,
        placement: Placement,
        count: ShardCount,
        separator: Separator,
    ) -> Option<Self> {
        let homes = Homes::of(partition, placement, count)?;
        let number_at = partition.as_str().len() + separator.as_str().len();
        let mut key = String::with_capacity(number_at + ShardCount::MAX.to_string().len());
        key.push_str(partition.as_str());
        key.push_str(separator.as_str());
        let first = partition.at(placement.first(), placement, separator);
        Some(Self { homes, first, key, number_at })
    }

    /// The shard that holds the item, and its physical partition key.
    #[inline]
    pub fn home(&mut self, sort: &SortKey) -> (ShardId, &str) {
        let shard = self.homes.home(sort);
        if shard == self.homes.placement.first() {
            return (shard, self.first.as_str());
        }
        self.key.truncate(self.number_at);
        shard.push_to(&mut self.key);
        (shard, &self.key)
    }
}
