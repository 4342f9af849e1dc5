//! What is wrong with a key.

use alloc::string::String;

use thiserror::Error;

/// One variant for each rule that a key can break, with the value that broke it.
///
/// The caller has to correct the value. A retry does not help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// DynamoDB refuses an empty partition key.
    #[error("the partition key is empty")]
    EmptyPartitionKey,
    /// Over [`PartitionKey::MAX_BYTES`](crate::PartitionKey::MAX_BYTES).
    #[error("the partition key has {bytes} bytes; at most 2000 are allowed")]
    PartitionKeyTooLong {
        /// Its length in UTF-8 bytes.
        bytes: usize,
    },
    /// The prefix `_ds_` belongs to the system's own items.
    #[error("the partition key {key:?} begins with \"_ds_\", which is reserved")]
    ReservedPartitionKey {
        /// The key as it was given.
        key: String,
    },
    /// DynamoDB refuses an empty sort key.
    #[error("the sort key is empty")]
    EmptySortKey,
    /// Over [`SortKey::MAX_BYTES`](crate::SortKey::MAX_BYTES).
    #[error("the sort key has {bytes} bytes; at most 1024 are allowed")]
    SortKeyTooLong {
        /// Its length in UTF-8 bytes.
        bytes: usize,
    },
    /// Not a decimal number.
    #[error("{text:?} is not a number")]
    NotANumber {
        /// The text, cut to a readable length.
        text: String,
    },
    /// More significant digits than DynamoDB stores.
    #[error("the number has {digits} significant digits; DynamoDB keeps at most 38")]
    TooManyDigits {
        /// How many it has without leading and trailing zeros.
        digits: usize,
    },
    /// A magnitude outside 1E-130 to 9.99...E+125.
    #[error(
        "the number {text:?} is outside the magnitudes that DynamoDB stores, 1E-130 to 9.9E+125"
    )]
    NumberOutOfRange {
        /// The text, cut to a readable length.
        text: String,
    },
    /// A shard count of zero or above [`ShardCount::MAX`](crate::ShardCount::MAX).
    #[error("{count} is not a shard count: it must be between 1 and 65536")]
    ShardCountOutOfRange {
        /// The count as it was given.
        count: u64,
    },
    /// `xxh64` masks the hash, so its count must be a power of two.
    #[error("the placement xxh64 needs a power of two as its shard count, not {count}")]
    ShardCountNotPowerOfTwo {
        /// The count as it was given.
        count: u32,
    },
    /// Not one of the six separators.
    #[error("{text:?} is not a separator: choose one of #~ # _ . - :")]
    UnknownSeparator {
        /// The text as it was given.
        text: String,
    },
    /// Not one of the three placements.
    #[error("{text:?} is not a placement: choose xxh64, jump or random")]
    UnknownPlacement {
        /// The text as it was given.
        text: String,
    },
    /// Neither of the two sort-key types.
    #[error("{text:?} is not a sort-key type: choose S or N")]
    UnknownSortKeyType {
        /// The text as it was given.
        text: String,
    },
    /// Not one of the rules of [`ShardRule`](crate::ShardRule).
    #[error(
        "{text:?} is not a sharding rule: choose md5, code-points, xxh64-suffix or random-suffix"
    )]
    UnknownShardRule {
        /// The text as it was given.
        text: String,
    },
    /// A text without the number of a shard of this [`WriteSharding`](crate::WriteSharding) at the place where
    /// each of its keys has one.
    #[error(
        "{text:?} is not a key of these shards: it lacks the number of one of them, or the separator"
    )]
    NotAShardedKey {
        /// The text as it was given.
        text: String,
    },
    /// Behind a prefix, or beside another field, nothing would tell that it is missing: all items without it would lie under
    /// one key.
    #[error("the field `{field}` of the key is empty")]
    EmptyField {
        /// The name of the field.
        field: &'static str,
    },
    /// Two fields are joined by `:`, so all but the last must be without one: `a:b` and `c` would name the same
    /// item as `a` and `b:c`.
    #[error("the field `{field}` of the key holds a \":\", which separates it from the next field")]
    SeparatorInField {
        /// The name of the field.
        field: &'static str,
    },
    /// DynamoDB takes 3 to 255 characters of `a-z`, `A-Z`, `0-9`, `_`, `-` and `.`.
    #[error(
        "{text:?} cannot begin the name of a table: DynamoDB takes 3 to 255 characters of a-z, A-Z, 0-9, _, - \
         and ., of which the period needs up to 11"
    )]
    BadTableName {
        /// The text as it was given.
        text: String,
    },
    /// A table by day, week or month has a year of four digits in its name.
    #[error("the date lies outside the years 1 to 9999")]
    DateOutOfRange,
    /// A range of dates whose first day comes after its last.
    #[error("the range of dates ends before it begins")]
    DatesReversed,
    /// A physical partition key whose suffix names a shard that is never written so.
    #[error(
        "{text:?} is not a physical partition key: what follows its last separator is not the number of a \
         shard with a suffix"
    )]
    NotAPhysicalKey {
        /// The text as it was given.
        text: String,
    },
}
