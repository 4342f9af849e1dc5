//! The keys that items have in the table.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use crate::{ItemKey, KeyError, PartitionKey, Placement, ShardId, SortKey};

impl PartitionKey {
    /// The partition key that DynamoDB holds shard `shard` of this collection under.
    ///
    /// In the first shard it is the key itself, so that a collection of one shard lies as it would without
    /// any sharding. A key that could be taken for another shard's has the suffix 0 there. So the first
    /// shard lies in one place whatever the placement is, which a collection of one shard may still get.
    pub fn at(
        &self,
        shard: ShardId,
        placement: Placement,
        separator: Separator,
    ) -> PhysicalPartitionKey {
        let text = match (shard == placement.first(), split_suffix(self.as_str(), separator)) {
            (true, None) => self.as_str().into(),
            (true, Some(_)) => format!("{self}{separator}{FIRST}").into(),
            (false, _) => format!("{self}{separator}{shard}").into(),
        };
        PhysicalPartitionKey(text)
    }
}

impl ItemKey {
    /// Where DynamoDB holds the item when it lives in `shard`.
    pub fn at(&self, shard: ShardId, placement: Placement, separator: Separator) -> PhysicalKey {
        let partition = self.partition.at(shard, placement, separator);
        PhysicalKey { partition, sort: self.sort.clone() }
    }
}

/// The partition key of one shard: the logical key itself for the first, `<pk><separator><shard>` for the
/// others.
///
/// What ends in a separator and digits is split there, by the last separator, and everything else is a
/// first shard. So `a#~1` is shard 1 of `a`, and a collection of that name has its first shard in
/// `a#~1#~0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalPartitionKey(Arc<str>);

impl PhysicalPartitionKey {
    /// The text that DynamoDB holds.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text ends in a separator and digits. As a logical key it then has a suffix in its first
    /// shard, too: an item that lies under the text itself is not found there.
    pub fn has_suffix(text: &str, separator: Separator) -> bool {
        split_suffix(text, separator).is_some()
    }

    /// The inverse of [`PartitionKey::at`], for keys that come back from DynamoDB and CloudWatch: the
    /// collection and the shard. The number of the first shard depends on the placement, so that comes
    /// without one.
    ///
    /// Strict: only what `at` writes is read, so a text with a leading zero or a shard beyond any
    /// count is refused.
    pub fn parse(
        text: &str,
        separator: Separator,
    ) -> Result<(PartitionKey, Option<ShardId>), KeyError> {
        let Some((partition, suffix)) = split_suffix(text, separator) else {
            return Ok((PartitionKey::new(text)?, None));
        };
        let not_physical = || KeyError::NotAPhysicalKey { text: text.to_owned() };
        if suffix.len() > 1 && suffix.starts_with('0') {
            return Err(not_physical());
        }
        let shard = suffix.parse::<u32>().map_err(|_| not_physical())?;
        if shard > FIRST {
            return Ok((PartitionKey::new(partition)?, Some(ShardId::new(shard))));
        }
        // It has a suffix only where the key alone would be taken for another shard's.
        split_suffix(partition, separator).ok_or_else(not_physical)?;
        Ok((PartitionKey::new(partition)?, None))
    }
}

/// The suffix of a first shard that has one.
const FIRST: u32 = 0;

/// What stands before and behind the last separator of a key that ends in a separator and digits.
fn split_suffix(text: &str, separator: Separator) -> Option<(&str, &str)> {
    let (partition, digits) = text.rsplit_once(separator.as_str())?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some((partition, digits))
}

/// Where DynamoDB holds one item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalKey {
    /// The partition key of the shard.
    pub partition: PhysicalPartitionKey,
    /// The sort key, which placement leaves alone.
    pub sort: SortKey,
}

/// What stands between a partition key and its shard. Fixed once a table holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Separator {
    /// `#~`, which hardly any table uses in its keys: `USER#123` is how most name theirs.
    #[default]
    HashTilde,
    /// `#`
    Hash,
    /// `_`, as in "Choosing the right number of shards" (AWS Database Blog)
    Underscore,
    /// `.`, as in "Best Practices for Tables" (an older DynamoDB Developer Guide)
    Dot,
    /// `-`, as in "Choosing the Right DynamoDB Partition Key" (AWS Database Blog)
    Dash,
    /// `:`, as in "Dynamo DB Sharding" (upthecreek.dev)
    Colon,
}

impl Separator {
    /// Each of them.
    pub const ALL: [Self; 6] =
        [Self::HashTilde, Self::Hash, Self::Underscore, Self::Dot, Self::Dash, Self::Colon];

    /// Its text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HashTilde => "#~",
            Self::Hash => "#",
            Self::Underscore => "_",
            Self::Dot => ".",
            Self::Dash => "-",
            Self::Colon => ":",
        }
    }
}

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Separator {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::ALL
            .into_iter()
            .find(|separator| separator.as_str() == text)
            .ok_or_else(|| KeyError::UnknownSeparator { text: text.to_owned() })
    }
}
