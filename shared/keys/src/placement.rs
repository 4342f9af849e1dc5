//! The shard of an item, by its key and the shard count.

use alloc::borrow::ToOwned;
use core::fmt::{self, Write};
use core::ops::Range;
use core::str::FromStr;

use crate::xxh64::Xxh64Prefix;
use crate::{ItemKey, KeyError, Number, PartitionKey, ShardCount, ShardId, SortKey};

/// How an item's shard follows from its key. Pinned for each collection in its metadata.
///
/// The calculated placements are monotone: growing from N to M moves items only into shards
/// N and above, and shrinking is the inverse. Online resharding stands on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// `XXH64(pk:sk, seed 0) & (N-1)`, the rule of ["Dynamo DB
    /// Sharding"](https://upthecreek.dev/software/dynamo-db-sharding). N is a power of two; shards 0 to N-1.
    #[default]
    Xxh64,
    /// Jump consistent hash (Lamping and Veach, 2014) of the same value. Any N; shards 0 to N-1.
    Jump,
    /// A shard drawn for each write, as in ["Choosing the right number of shards for your large-scale
    /// Amazon DynamoDB
    /// table"](https://aws.amazon.com/blogs/database/choosing-the-right-number-of-shards-for-your-large-scale-amazon-dynamodb-table/).
    /// For append-only collections whose sort keys never repeat. Any N; shards 1 to N; growth moves
    /// nothing.
    Random,
}

impl Placement {
    /// The name in metadata, parameters and requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Xxh64 => "xxh64",
            Self::Jump => "jump",
            Self::Random => "random",
        }
    }

    /// Whether an item's shard can be calculated from its key.
    pub const fn is_calculated(self) -> bool {
        !matches!(self, Self::Random)
    }

    /// The shard that holds `key` while its collection has `count` shards, or `None` where only
    /// the write that placed it knew ([`Placement::Random`]).
    ///
    /// # Panics
    ///
    /// If the placement cannot have the count, which [`check`](Self::check) tells.
    pub fn home(self, key: &ItemKey, count: ShardCount) -> Option<ShardId> {
        Homes::of(&key.partition, self, count).map(|homes| homes.home(&key.sort))
    }

    /// The shard of a hashed key under a calculated placement.
    #[inline]
    pub(crate) fn of_hash(self, hash: u64, count: ShardCount) -> ShardId {
        match self {
            Self::Jump => ShardId::new(jump(hash, count.get())),
            Self::Xxh64 | Self::Random => masked(hash, count),
        }
    }

    /// The shard of a new item: its home, or for [`Placement::Random`] the one that `draw`, a
    /// uniformly random number, selects.
    ///
    /// # Panics
    ///
    /// If the placement cannot have the count, as [`home`](Self::home).
    pub fn place(self, key: &ItemKey, count: ShardCount, draw: u64) -> ShardId {
        self.home(key, count).unwrap_or_else(|| drawn(draw, count))
    }

    /// The first shard of a collection, whose physical partition key is the logical one.
    pub const fn first(self) -> ShardId {
        match self {
            Self::Xxh64 | Self::Jump => ShardId::new(0),
            Self::Random => ShardId::new(1),
        }
    }

    /// All shards of a collection with `count` shards.
    pub fn shards(self, count: ShardCount) -> impl ExactSizeIterator<Item = ShardId> + Clone {
        let indices: Range<u32> = match self {
            Self::Xxh64 | Self::Jump => 0..count.get(),
            Self::Random => 1..count.get() + 1,
        };
        indices.map(ShardId::new)
    }

    /// The count that a request for `requested` shards gets: `xxh64` rounds up to a power of two.
    pub fn round(self, requested: ShardCount) -> ShardCount {
        match self {
            // MAX is a power of two itself, so rounding never leaves the range.
            Self::Xxh64 => {
                ShardCount::new(requested.get().next_power_of_two()).unwrap_or(requested)
            }
            Self::Jump | Self::Random => requested,
        }
    }

    /// The most shards up to `limit` that a collection under this placement can have.
    #[must_use]
    pub fn round_down(self, limit: ShardCount) -> ShardCount {
        match self {
            Self::Xxh64 => ShardCount::new(1 << limit.get().ilog2()).unwrap_or(limit),
            Self::Jump | Self::Random => limit,
        }
    }

    /// Whether a collection under this placement can have `count` shards.
    pub fn check(self, count: ShardCount) -> Result<(), KeyError> {
        if self.round(count) == count {
            Ok(())
        } else {
            Err(KeyError::ShardCountNotPowerOfTwo { count: count.get() })
        }
    }
}

/// The homes of one collection's items: [`Placement::home`] for many sort keys, of which the partition key is hashed
/// once.
#[derive(Debug, Clone)]
pub struct Homes {
    prefix: Xxh64Prefix,
    pub(crate) placement: Placement,
    count: ShardCount,
}

impl Homes {
    /// `None` under [`Placement::Random`], where an item has no home.
    ///
    /// # Panics
    ///
    /// If the placement cannot have the count ([`Placement::check`]): by a mask that skips shards, keys would be stored
    /// where nobody looks for them.
    pub fn of(partition: &PartitionKey, placement: Placement, count: ShardCount) -> Option<Self> {
        assert!(placement.check(count).is_ok(), "{placement} cannot have {} shards", count.get());
        let prefix = || Xxh64Prefix::new(partition.as_str().as_bytes());
        placement.is_calculated().then(|| Self { prefix: prefix(), placement, count })
    }

    /// The shard that holds the item.
    #[inline]
    pub fn home(&self, sort: &SortKey) -> ShardId {
        let hash = match sort {
            SortKey::String(text) => self.prefix.hash(text.as_bytes()),
            SortKey::Number(number) => self.hash_number(number),
        };
        self.placement.of_hash(hash, self.count)
    }

    fn hash_number(&self, number: &Number) -> u64 {
        let mut text = NumberText { bytes: [0; Number::MAX_TEXT], len: 0 };
        // Its text fits.
        let _ = write!(text, "{number}");
        self.prefix.hash(&text.bytes[..text.len])
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Placement {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        [Self::Xxh64, Self::Jump, Self::Random]
            .into_iter()
            .find(|placement| placement.as_str() == text)
            .ok_or_else(|| KeyError::UnknownPlacement { text: text.to_owned() })
    }
}

/// The low bits of a hash. `count` is a power of two.
pub(crate) fn masked(hash: u64, count: ShardCount) -> ShardId {
    debug_assert!(count.get().is_power_of_two(), "checked by `check`");
    ShardId::new(u32::try_from(hash & u64::from(count.get() - 1)).unwrap_or(0))
}

/// One of the shards 1 to `count`, by a uniformly random number.
pub(crate) fn drawn(draw: u64, count: ShardCount) -> ShardId {
    // The high half of the product is uniform over 0..count without a division's bias.
    let scaled = (u128::from(draw) * u128::from(count.get())) >> 64;
    ShardId::new(1 + u32::try_from(scaled).unwrap_or(0))
}

/// The text of a number, without an allocation.
struct NumberText {
    bytes: [u8; Number::MAX_TEXT],
    len: usize,
}

impl Write for NumberText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes[self.len..].get_mut(..text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// "A Fast, Minimal Memory, Consistent Hash Algorithm", figure 1. Its floating-point steps are
/// exact IEEE operations on values below 2^53, so every machine computes the same bucket.
fn jump(hash: u64, buckets: u32) -> u32 {
    let mut state = hash;
    let mut bucket = 0_u32;
    loop {
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let divisor = u32::try_from(state >> 33).unwrap_or(u32::MAX);
        let next =
            (f64::from(bucket) + 1.0) * (f64::from(1_u32 << 31) / (f64::from(divisor) + 1.0));
        if next >= f64::from(buckets) {
            return bucket;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 <= next < buckets"
        )]
        {
            bucket = next as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn the_longest_text_of_a_number_is_hashed_whole() {
        let digits = "1234567890".repeat(4);
        for (text, bytes) in [
            (format!("-{}e-130", &digits[..38]), 133),
            (format!("-1.{}e-130", &digits[..37]), 170),
            ("-1e125".into(), 127),
        ] {
            let number = text.parse::<Number>().expect("a number");
            let hashed = format!("a:{number}");
            assert_eq!(hashed.len(), 2 + bytes, "{hashed}");
            let hash = Homes {
                prefix: Xxh64Prefix::new(b"a"),
                placement: Placement::Xxh64,
                count: ShardCount::ONE,
            }
            .hash_number(&number);
            assert_eq!(hash, xxhash_rust::xxh64::xxh64(hashed.as_bytes(), 0));
        }
    }
}
