//! The keys that clients use.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use crate::{KeyError, Number};

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

    /// The partition key of one cell of a counter whose own is this one. No client can name it, it takes 29 bytes more at most, and
    /// cells of different tags never share one.
    #[must_use]
    pub fn of_cell(&self, tag: u64, cell: u16) -> Self {
        Self(format!("{CELLS_PREFIX}{tag:016x}#{cell}#{self}").into())
    }

    /// Whether a text is such a key, as DynamoDB and CloudWatch tell it.
    pub fn is_of_cell(text: &str) -> bool {
        text.starts_with(CELLS_PREFIX)
    }

    /// The key under which there is what is about the write-sharded indexes of a table, all of them together. No client can name it.
    #[must_use]
    pub fn of_index_shards() -> Self {
        Self(Self::INDEX_SHARDS.into())
    }

    /// [`PartitionKey::of_index_shards`] as text. Must be kept stable.
    pub const INDEX_SHARDS: &str = "_ds_index_shards";

    /// Whether it is the system's own, which never has more than one shard.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED_PREFIX)
    }

    /// The key as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the keys of cells begin with. Must be kept stable.
const CELLS_PREFIX: &str = "_ds_c#";

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

impl SortKeyType {
    /// DynamoDB's letter for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "S",
            Self::Number => "N",
        }
    }
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
}
