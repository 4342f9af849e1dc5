//! The rules by which applications shard keys by hand.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use md5::{Digest, Md5};

use crate::placement::{drawn, masked};
use crate::xxh64::Xxh64Prefix;
use crate::{KeyError, Separator, ShardCount, ShardId};

/// How an application without dynashard finds the shard of an item, as the articles on write sharding give it.
///
/// These rules are for tables that have them. Those that divide cannot grow without moving nearly every item, so
/// none of them is a [`Placement`](crate::Placement) of a running collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardRule {
    /// `md5(pk + sk) % N + 1`, of the digest's 128 bits as one big-endian number and of the two keys without
    /// anything between. Shards 1 to N. The rule of ["Choosing the right number of shards for your large-scale
    /// Amazon DynamoDB
    /// table"](https://aws.amazon.com/blogs/database/choosing-the-right-number-of-shards-for-your-large-scale-amazon-dynamodb-table/).
    /// Its example shows the suffix `_6` where the rule gives 5.
    Md5,
    /// The product of the sort key's code points, `% N + 1`. Shards 1 to N. The "simple calculation" of ["Best
    /// Practices for
    /// Tables"](https://github.com/awsdocs/amazon-dynamodb-developer-guide/blob/2c0c02836e6acca1b832f33e3534347fbb159e95/doc_source/GuidelinesForTables.md)
    /// (an older Amazon DynamoDB Developer Guide).
    ///
    /// **It is skewed.** A product is a multiple of N as soon as its factors bring all prime factors of N
    /// together. Of random ids of ten capital letters and digits, 73% fall into shard 1 of 200; of UUIDs, all.
    CodePoints,
    /// `XXH64(pk:sk, seed 0) & (N - 1)`. N is a power of two; shards 0 to N-1, each with its number in the key.
    /// The rule of [Dynamo DB Sharding](https://upthecreek.dev/software/dynamo-db-sharding).
    ///
    /// [`Placement::Xxh64`](crate::Placement::Xxh64) chooses the same shard, and leaves the number of the first
    /// one out.
    Xxh64,
    /// A number drawn from 1 to N for each write. The "random suffix" of all articles but "Dynamo DB Sharding". A
    /// reader has to ask all shards.
    Random,
}

impl ShardRule {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Md5, Self::CodePoints, Self::Xxh64, Self::Random];

    /// Its name: no [`Placement`](crate::Placement) has the same, whose first shard has no number.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::CodePoints => "code-points",
            Self::Xxh64 => "xxh64-suffix",
            Self::Random => "random-suffix",
        }
    }

    /// The separator in the examples of the article that the rule comes from.
    pub const fn separator(self) -> Separator {
        match self {
            Self::Md5 => Separator::Underscore,
            Self::CodePoints | Self::Random => Separator::Dot,
            Self::Xxh64 => Separator::Colon,
        }
    }

    /// The lowest shard: 0 for the rule that masks, 1 for the others.
    pub const fn first(self) -> ShardId {
        match self {
            Self::Xxh64 => ShardId::new(0),
            Self::Md5 | Self::CodePoints | Self::Random => ShardId::new(1),
        }
    }
}

impl fmt::Display for ShardRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ShardRule {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.as_str() == text)
            .ok_or_else(|| KeyError::UnknownShardRule { text: text.to_owned() })
    }
}

/// Where the number of the shard stands in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Affix {
    /// `<pk><separator><shard>`, as in `2014-07-09.1`.
    #[default]
    Suffix,
    /// `<shard><separator><pk>`, as in `1.2014-07-09`.
    Prefix,
}

/// The shards of a partition key by a rule that an application had before: every shard has its number in the key,
/// also the first.
///
/// Keys are taken as they are. That DynamoDB takes a partition key of 1 to 2,048 bytes is for the caller to see
/// to.
///
/// ```
/// use dynashard_keys::{ShardCount, ShardRule, WriteSharding};
///
/// let days = WriteSharding::new(ShardRule::CodePoints, ShardCount::new(200)?)?;
/// let shard = days.home("2014-07-09", "A1").expect("it is calculated");
/// assert_eq!(days.at("2014-07-09", shard), "2014-07-09.186"); // 65 * 49 % 200 + 1
/// assert_eq!(days.parse("2014-07-09.186")?, ("2014-07-09", shard));
/// assert_eq!(days.shards().len(), 200); // The queries that read a whole day.
/// # Ok::<(), dynashard_keys::KeyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteSharding {
    rule: ShardRule,
    count: ShardCount,
    separator: Separator,
    affix: Affix,
}

impl WriteSharding {
    /// `count` shards by this rule, with a suffix behind the separator of the rule's article. Refuses a count
    /// that is no power of two for [`ShardRule::Xxh64`].
    pub fn new(rule: ShardRule, count: ShardCount) -> Result<Self, KeyError> {
        if rule == ShardRule::Xxh64 && !count.get().is_power_of_two() {
            return Err(KeyError::ShardCountNotPowerOfTwo { count: count.get() });
        }
        Ok(Self { rule, count, separator: rule.separator(), affix: Affix::default() })
    }

    /// With another separator.
    #[must_use]
    pub const fn with_separator(self, separator: Separator) -> Self {
        Self { separator, ..self }
    }

    /// With the number elsewhere.
    #[must_use]
    pub const fn with_affix(self, affix: Affix) -> Self {
        Self { affix, ..self }
    }

    /// The rule.
    pub const fn rule(&self) -> ShardRule {
        self.rule
    }

    /// The shard of an item, or `None` where only the write that drew it knew ([`ShardRule::Random`]).
    pub fn home(&self, partition: &str, sort: &str) -> Option<ShardId> {
        match self.rule {
            ShardRule::Md5 => {
                let digest = Md5::new().chain_update(partition).chain_update(sort).finalize();
                let number = u128::from_be_bytes(digest.into());
                Some(counted_from_one(number % u128::from(self.count.get())))
            }
            ShardRule::CodePoints => {
                // The remainder of a product is that of the product of remainders.
                let count = u64::from(self.count.get());
                let times =
                    |product: u64, c: char| product * (u64::from(u32::from(c)) % count) % count;
                Some(counted_from_one(u128::from(sort.chars().fold(1 % count, times))))
            }
            ShardRule::Xxh64 => {
                let hash = Xxh64Prefix::new(partition.as_bytes()).hash(sort.as_bytes());
                Some(masked(hash, self.count))
            }
            ShardRule::Random => None,
        }
    }

    /// The shard of a new item: its home, or for [`ShardRule::Random`] the one that `draw`, a uniformly random
    /// number, selects.
    pub fn place(&self, partition: &str, sort: &str, draw: u64) -> ShardId {
        self.home(partition, sort).unwrap_or_else(|| drawn(draw, self.count))
    }

    /// All shards, which a reader of the whole partition key queries.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = ShardId> + Clone + use<> {
        let first = self.rule.first().get();
        let numbers: Range<u32> = first..first + self.count.get();
        numbers.map(ShardId::new)
    }

    /// The key of one shard.
    pub fn at(&self, partition: &str, shard: ShardId) -> String {
        let mut key = String::with_capacity(partition.len() + "#~65536".len());
        match self.affix {
            Affix::Suffix => {
                key.push_str(partition);
                key.push_str(self.separator.as_str());
                shard.push_to(&mut key);
            }
            Affix::Prefix => {
                shard.push_to(&mut key);
                key.push_str(self.separator.as_str());
                key.push_str(partition);
            }
        }
        key
    }

    /// The inverse of [`WriteSharding::at`]. Strict: a number with a leading zero or of a shard that is not among
    /// [`WriteSharding::shards`] is refused.
    pub fn parse<'a>(&self, key: &'a str) -> Result<(&'a str, ShardId), KeyError> {
        let split = match self.affix {
            Affix::Suffix => key.rsplit_once(self.separator.as_str()),
            Affix::Prefix => key
                .split_once(self.separator.as_str())
                .map(|(digits, partition)| (partition, digits)),
        };
        let read = |(partition, digits): (&'a str, &str)| {
            let is_plain = digits.bytes().all(|b| b.is_ascii_digit())
                && (digits.len() == 1 || !digits.starts_with('0'));
            let number = digits.parse::<u32>().ok().filter(|_| is_plain)?;
            let place = number.checked_sub(self.rule.first().get())?;
            (place < self.count.get()).then_some((partition, ShardId::new(number)))
        };
        split.and_then(read).ok_or_else(|| KeyError::NotAShardedKey { text: key.to_owned() })
    }
}

/// The shard of a remainder where shards count from 1.
fn counted_from_one(remainder: u128) -> ShardId {
    ShardId::new(1 + u32::try_from(remainder).unwrap_or(0))
}
