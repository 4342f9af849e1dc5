use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{KeyError, Number, Placement, ShardId};

/// Partition keys and attributes with this prefix are the system's own.
pub const RESERVED_PREFIX: &str = "_ds_";

/// A logical partition key: the name of one item collection. 1 to 2,000 bytes of UTF-8; DynamoDB
/// takes 2,048, and the rest is for the shard suffix and for prefixes of the system's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey(Arc<str>);

impl PartitionKey {
    /// The longest partition key that a client may use, in UTF-8 bytes.
    pub const MAX_BYTES: usize = 2_000;

    /// Checks length and reserved prefix.
    pub fn new(text: impl AsRef<str>) -> Result<Self, KeyError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(KeyError::EmptyPartitionKey);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(KeyError::PartitionKeyTooLong { bytes: text.len() });
        }
        if text.starts_with(RESERVED_PREFIX) {
            return Err(KeyError::ReservedPartitionKey { key: text.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// The key as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The partition key that DynamoDB holds shard `shard` of this collection under.
    ///
    /// In the first shard it is the key itself, so that a collection of one shard lies as it would without
    /// any sharding. A key that could be taken for another shard's has a suffix there, too.
    pub fn at(
        &self,
        shard: ShardId,
        placement: Placement,
        separator: Separator,
    ) -> PhysicalPartitionKey {
        if shard == placement.first() && split_suffix(&self.0, separator).is_none() {
            return PhysicalPartitionKey(Arc::clone(&self.0));
        }
        PhysicalPartitionKey(format!("{}{}{shard}", self.0, separator.as_str()).into())
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The type of a table's sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortKeyType {
    /// `S`
    String,
    /// `N`
    Number,
}

impl FromStr for SortKeyType {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text {
            "S" => Ok(Self::String),
            "N" => Ok(Self::Number),
            _ => Err(KeyError::UnknownSortKeyType { text: text.to_owned() }),
        }
    }
}

/// A sort key. Strings are ordered by their UTF-8 bytes and numbers by value, as in DynamoDB.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SortKey {
    /// Of a table whose sort key has type `S`: 1 to 1,024 bytes.
    String(Arc<str>),
    /// Of a table whose sort key has type `N`.
    Number(Number),
}

impl SortKey {
    /// The longest string sort key, in UTF-8 bytes.
    pub const MAX_BYTES: usize = 1_024;

    /// Checks the length.
    pub fn string(text: impl AsRef<str>) -> Result<Self, KeyError> {
        let text = text.as_ref();
        match text.len() {
            0 => Err(KeyError::EmptySortKey),
            bytes if bytes > Self::MAX_BYTES => Err(KeyError::SortKeyTooLong { bytes }),
            _ => Ok(Self::String(text.into())),
        }
    }

    /// Reads a sort key of the table's type from text, as it stands in a URL.
    pub fn parse(text: &str, r#type: SortKeyType) -> Result<Self, KeyError> {
        match r#type {
            SortKeyType::String => Self::string(text),
            SortKeyType::Number if text.is_empty() => Err(KeyError::EmptySortKey),
            SortKeyType::Number => text.parse().map(Self::Number),
        }
    }

    /// Whether the key is of this type.
    pub fn is(&self, r#type: SortKeyType) -> bool {
        matches!(
            (self, r#type),
            (Self::String(_), SortKeyType::String) | (Self::Number(_), SortKeyType::Number)
        )
    }
}

impl fmt::Display for SortKey {
    /// The text that is hashed: a number in its one canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => f.write_str(text),
            Self::Number(number) => fmt::Display::fmt(number, f),
        }
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => fmt::Debug::fmt(text, f),
            Self::Number(number) => fmt::Debug::fmt(number, f),
        }
    }
}

/// The logical key of one item, as clients name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// Names the collection.
    pub partition: PartitionKey,
    /// Names the item in it.
    pub sort: SortKey,
}

impl ItemKey {
    /// Both parts are checked already, by their types.
    pub fn new(partition: PartitionKey, sort: SortKey) -> Self {
        Self { partition, sort }
    }

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

    /// The inverse of [`PartitionKey::at`], for keys that come back from DynamoDB and CloudWatch: the
    /// collection and the shard. A key without a suffix is that of the collection's first shard, whose
    /// number depends on the placement; it comes without one.
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
        let shard = suffix.parse().map_err(|_| not_physical())?;
        // Shard 0 is a first one, and bears its number only where the key alone would be taken for a shard.
        if shard == 0 && split_suffix(partition, separator).is_none() {
            return Err(not_physical());
        }
        Ok((PartitionKey::new(partition)?, Some(ShardId::new(shard))))
    }
}

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
