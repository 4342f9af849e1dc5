use core::fmt;
use core::num::NonZeroU32;

use crate::KeyError;

/// The index of one shard of an item collection, as it stands in the physical key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u32);

impl ShardId {
    /// The shard with this index.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many shards an item collection has: 1 to [`ShardCount::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardCount(NonZeroU32);

impl ShardCount {
    /// A new collection's count.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The largest count that any collection may have. At 1,000 write units a shard it stands for
    /// 65 million a second, beyond any table, and a fan-out over more would not end.
    pub const MAX: u32 = 65_536;

    /// Checks the range.
    pub const fn new(count: u32) -> Result<Self, KeyError> {
        match Self::in_range(count) {
            Some(count) => Ok(count),
            None => Err(KeyError::ShardCountOutOfRange { count: count as u64 }),
        }
    }

    /// The same for constants: `None` for a count out of range.
    pub const fn in_range(count: u32) -> Option<Self> {
        match NonZeroU32::new(count) {
            Some(count) if count.get() <= Self::MAX => Some(Self(count)),
            _ => None,
        }
    }

    /// The count as a number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
