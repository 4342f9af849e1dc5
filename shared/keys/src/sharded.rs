//! Types that say their own keys.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt::Write;

use crate::{
    ItemKey, KeyError, Number, PartitionKey, PhysicalKey, Placement, Separator, ShardCount,
    ShardId, SortKey, SortKeyType,
};

/// A type whose values are items: each says its own key. `#[derive(Sharded)]` implements it.
///
/// ```
/// use dynashard_keys::{Placement, Separator, Sharded};
///
/// #[derive(Sharded)]
/// #[sharded(prefix = "user.v1.User", partition(tenant_id), sort(id), shards = 16)]
/// struct User {
///     tenant_id: String,
///     id: String,
/// }
///
/// let user = User { tenant_id: "abc".to_owned(), id: "123".to_owned() };
/// assert_eq!(user.partition_key()?.as_str(), "user.v1.User:abc");
/// let physical = user.physical_key(Separator::Colon)?.expect("xxh64 calculates the shard");
/// assert_eq!(physical.partition.as_str(), "user.v1.User:abc:11");
///
/// // The same key from its fields, for whoever looks for the item.
/// assert_eq!(User::item_key_of("abc", "123")?, user.item_key()?);
/// # Ok::<(), dynashard_keys::KeyError>(())
/// ```
///
/// What `#[sharded(…)]` takes:
///
/// | | |
/// |---|---|
/// | `partition(a, b)` | the fields of the partition key: strings, integers or [`Number`]s, joined by `:` |
/// | `sort(c)` | the field of the sort key: a string makes a key of type `S`, an integer of up to 64 bits or [`Number`] one of type `N` |
/// | `sort(c, d)` | several strings, joined by `:`. A number among them would be sorted as text, 10 before 9 |
/// | `prefix = "user.v1.User"` | stands before the fields, so that types do not share partition keys |
/// | `placement = "jump"` | `xxh64` (the default), `jump` or `random` |
/// | `shards = 16` | how many shards a partition key has; 1 if it is left out |
/// | `crate = "path::to::keys"` | where this crate is found, for types of a crate that knows it by another's re-export |
///
/// A field that is missing, a type that makes no key, and a count that the placement cannot have do not compile.
///
/// A value has no key if its sort key is empty ([`KeyError::EmptySortKey`]); if one of several fields, or one behind a
/// prefix, is ([`KeyError::EmptyField`]); or if a field that another follows holds a `:`, by which two items could get one
/// key ([`KeyError::SeparatorInField`]).
///
/// The functions that the derive adds are `partition_key_of`, with the fields of the partition key, and
/// `item_key_of`, with those of the sort key behind them.
pub trait Sharded {
    /// How the shard of an item follows from its key.
    const PLACEMENT: Placement;
    /// The shards of each partition key. In the tables of dynashard this is the count that a collection begins
    /// with if it is made by way of this type; its metadata says what it has now.
    const SHARDS: ShardCount;
    /// The type that the table's sort key must have.
    const SORT_KEY_TYPE: SortKeyType;

    /// The logical partition key.
    fn partition_key(&self) -> Result<PartitionKey, KeyError>;

    /// The sort key. An empty one is [`KeyError::EmptySortKey`].
    fn sort_key(&self) -> Result<SortKey, KeyError>;

    /// Both.
    fn item_key(&self) -> Result<ItemKey, KeyError> {
        Ok(ItemKey::new(self.partition_key()?, self.sort_key()?))
    }

    /// Where a service that shards by itself puts the item, or `None` under [`Placement::Random`].
    fn physical_key(&self, separator: Separator) -> Result<Option<PhysicalKey>, KeyError> {
        let key = self.item_key()?;
        let home: Option<ShardId> = Self::PLACEMENT.home(&key, Self::SHARDS);
        Ok(home.map(|shard| key.at(shard, Self::PLACEMENT, separator)))
    }
}

/// A type that can be a field of a partition key: strings, integers and [`Number`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a partition key",
    label = "this makes no key",
    note = "strings, integers and `dynashard_keys::Number` do"
)]
pub trait KeyPart {
    /// What names a value: `str` for strings.
    type Key: ?Sized;

    /// The name of this value.
    fn as_key(&self) -> &Self::Key;

    /// Adds the name to a text.
    fn write_key(key: &Self::Key, text: &mut String);
}

/// A type that can be one of several fields of a sort key: strings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be one of several fields of a sort key",
    label = "this is not a string",
    note = "several fields are joined to a text, in which 10 comes before 9; a number has to be the only field"
)]
pub trait TextPart: KeyPart<Key = str> {}

/// A type that can be the only field of a sort key: strings make one of type `S`, integers of up to 64 bits and
/// [`Number`] one of type `N`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a sort key",
    label = "this makes no key",
    note = "strings, integers of up to 64 bits and `dynashard_keys::Number` do"
)]
pub trait SortPart: KeyPart {
    /// The type of the sort key.
    const TYPE: SortKeyType;

    /// The sort key of a name.
    fn sort_key(key: &Self::Key) -> Result<SortKey, KeyError>;
}

macro_rules! strings {
    ($($type:ty),+) => {$(
        impl KeyPart for $type {
            type Key = str;

            fn as_key(&self) -> &str {
                self
            }

            fn write_key(key: &str, text: &mut String) {
                text.push_str(key);
            }
        }

        impl TextPart for $type {}

        impl SortPart for $type {
            const TYPE: SortKeyType = SortKeyType::String;

            fn sort_key(key: &str) -> Result<SortKey, KeyError> {
                SortKey::string(key)
            }
        }
    )+};
}

strings!(String, &str, Cow<'_, str>, Arc<str>, Box<str>);

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl KeyPart for $type {
            type Key = Self;

            fn as_key(&self) -> &Self {
                self
            }

            fn write_key(key: &Self, text: &mut String) {
                // Writing into a string cannot fail.
                let _ = write!(text, "{key}");
            }
        }
    )+};
}

macro_rules! sort_numbers {
    ($($type:ty),+) => {$(
        impl SortPart for $type {
            const TYPE: SortKeyType = SortKeyType::Number;

            fn sort_key(key: &Self) -> Result<SortKey, KeyError> {
                SortKey::parse(&key.to_string(), SortKeyType::Number)
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, Number);
// Most numbers of 128 bits have 39 digits, and DynamoDB keeps 38.
sort_numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, Number);

/// For the code that the derive writes: the text of a field.
#[doc(hidden)]
pub fn part_text<T: KeyPart>(key: &T::Key) -> String {
    let mut text = String::new();
    T::write_key(key, &mut text);
    text
}

/// For the code that the derive writes: compiles for fields that may be one of several of a sort key.
#[doc(hidden)]
pub const fn assert_text<T: TextPart>() {}

/// For the code that the derive writes: the fields of a key, each with its name, behind a prefix.
#[doc(hidden)]
pub fn join_parts(
    prefix: Option<&str>,
    parts: &[(&'static str, String)],
) -> Result<String, KeyError> {
    let mut joined = prefix.map_or_else(String::new, |prefix| prefix.to_string() + ":");
    for (at, (field, text)) in parts.iter().enumerate() {
        if text.is_empty() && (prefix.is_some() || parts.len() > 1) {
            return Err(KeyError::EmptyField { field });
        }
        joined.push_str(text);
        if at + 1 < parts.len() {
            if text.contains(':') {
                return Err(KeyError::SeparatorInField { field });
            }
            joined.push(':');
        }
    }
    Ok(joined)
}
