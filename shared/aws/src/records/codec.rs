//! Attributes of records: how a value is written, and how it is read back or named as damaged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynashard_core::ports::StoreError;
use dynashard_core::{Generation, HistoryEntry, ServerTime};
use dynashard_keys::{ShardCount, ShardId, SortKey, SortKeyType};

use crate::attributes::{number, sort_key};

/// The attributes of an item, or of a map in one.
pub(super) type Item = HashMap<String, AttributeValue>;

/// A value that an attribute holds.
pub(super) trait Field: Sized {
    /// The attribute.
    fn encode(&self) -> AttributeValue;

    /// The value, or what is wrong with the attribute.
    fn decode(value: &AttributeValue) -> Result<Self, String>;
}

/// Puts values into an item.
pub(super) trait Fill {
    /// Puts a value.
    fn put(&mut self, name: &str, value: &impl Field);

    /// Puts a value that is there.
    fn put_if_any(&mut self, name: &str, value: Option<&impl Field>);

    /// Puts a value that is not what it is at first.
    fn put_unless_default<T: Field + PartialEq + Default>(&mut self, name: &str, value: &T) {
        self.put_if_any(name, Some(value).filter(|value| **value != T::default()));
    }
}

impl Fill for Item {
    fn put(&mut self, name: &str, value: &impl Field) {
        self.insert(name.to_owned(), value.encode());
    }

    fn put_if_any(&mut self, name: &str, value: Option<&impl Field>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

/// A value of a map in an item, or what is wrong where it is none.
pub(super) fn decode_map<T>(
    value: &AttributeValue,
    wrong: &str,
    decode: impl FnOnce(&Item) -> Option<T>,
) -> Result<T, String> {
    value.as_m().ok().and_then(decode).ok_or_else(|| wrong.to_owned())
}

/// A member of such a map.
pub(super) fn member<T: Field>(map: &Item, name: &str) -> Option<T> {
    T::decode(map.get(name)?).ok()
}

/// Reads the values of an item.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// What the item is, for people.
    pub(super) what: &'a str,
    pub(super) item: &'a Item,
}

impl<'a> Reader<'a> {
    /// A value that must be there.
    pub(super) fn get<T: Field>(self, name: &str) -> Result<T, StoreError> {
        self.optional(name)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// A value that may be there.
    pub(super) fn optional<T: Field>(self, name: &str) -> Result<Option<T>, StoreError> {
        let value = self.item.get(name).map(T::decode).transpose();
        value.map_err(|why| self.wrong(name, why))
    }

    /// A value that is not stored where it is what it is at first.
    pub(super) fn or_default<T: Field + Default>(self, name: &str) -> Result<T, StoreError> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// A value that is written as text of its own form.
    pub(super) fn parsed<T: FromStr<Err: Display>>(self, name: &str) -> Result<T, StoreError> {
        self.get::<String>(name)?.parse().map_err(|why| self.wrong(name, why))
    }

    /// The map of this name.
    pub(super) fn map(self, name: &str) -> Result<Reader<'a>, StoreError> {
        match self.item.get(name) {
            Some(AttributeValue::M(item)) => Ok(Reader { item, ..self }),
            _ => Err(self.wrong(name, "is missing or is not a map")),
        }
    }

    /// The error that names a field.
    pub(super) fn wrong(self, name: &str, why: impl Display) -> StoreError {
        StoreError::Corrupt(format!("{} is damaged: {name}: {why}", self.what))
    }
}

/// Fields whose attribute is a whole number.
macro_rules! numbers {
    ($($kind:ty: |$value:ident| $to:expr, |$number:ident| $from:expr;)+) => {$(
        impl Field for $kind {
            fn encode(&self) -> AttributeValue {
                let $value = self;
                number($to)
            }

            fn decode(value: &AttributeValue) -> Result<Self, String> {
                let $number = u64_of(value)?;
                $from
            }
        }
    )+};
}

numbers! {
    u64: |value| *value, |number| Ok(number);
    u32: |value| u64::from(*value), |number| u32::try_from(number).map_err(|_| too_large());
    ShardId: |value| u64::from(value.get()), |number| u32::try_from(number).map(Self::new).map_err(|_| too_large());
    ShardCount: |value| u64::from(value.get()),
        |number| Self::new(u32::try_from(number).unwrap_or(u32::MAX)).map_err(|why| why.to_string());
    Generation: |value| value.get(), |number| Ok(Self::new(number));
    ServerTime: |value| value.0, |number| Ok(Self(number));
    Duration: |value| value.as_secs(), |number| Ok(Self::from_secs(number));
}

fn u64_of(value: &AttributeValue) -> Result<u64, String> {
    let text = value.as_n().map_err(|_| "is not a number")?;
    text.parse().map_err(|_| format!("{text} is not a whole number"))
}

fn too_large() -> String {
    "is too large".to_owned()
}

impl Field for bool {
    fn encode(&self) -> AttributeValue {
        AttributeValue::Bool(*self)
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        value.as_bool().copied().map_err(|_| "is not a boolean".to_owned())
    }
}

impl Field for String {
    fn encode(&self) -> AttributeValue {
        AttributeValue::S(self.clone())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        value.as_s().cloned().map_err(|_| "is not a string".to_owned())
    }
}

impl Field for SortKey {
    fn encode(&self) -> AttributeValue {
        sort_key(self)
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let key = match value {
            AttributeValue::S(text) => Self::parse(text, SortKeyType::String),
            AttributeValue::N(text) => Self::parse(text, SortKeyType::Number),
            _ => return Err("holds what is not a sort key".to_owned()),
        };
        key.map_err(|why| why.to_string())
    }
}

/// A span, from its first sort key to its last.
impl Field for [SortKey; 2] {
    fn encode(&self) -> AttributeValue {
        AttributeValue::L(self.iter().map(Field::encode).collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let keys = Vec::<SortKey>::decode(value)?;
        keys.try_into().map_err(|_| "holds what is not a list of two sort keys".to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn encode(&self) -> AttributeValue {
        AttributeValue::L(self.iter().map(Field::encode).collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        value.as_l().map_err(|_| "is not a list")?.iter().map(T::decode).collect()
    }
}

impl Field for BTreeSet<String> {
    fn encode(&self) -> AttributeValue {
        AttributeValue::Ss(self.iter().cloned().collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let texts = value.as_ss().map_err(|_| "is not a set of strings")?;
        Ok(texts.iter().cloned().collect())
    }
}

/// A set has no order of its own: the entries are read in that of time.
impl Field for Vec<HistoryEntry> {
    fn encode(&self) -> AttributeValue {
        AttributeValue::Ss(self.iter().map(HistoryEntry::to_string).collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let texts = value.as_ss().map_err(|_| "is not a set of strings")?;
        let entries = texts.iter().map(|text| text.parse::<HistoryEntry>());
        let mut history = entries.collect::<Result<Vec<_>, String>>()?;
        history.sort_unstable();
        Ok(history)
    }
}

impl Field for BTreeSet<ShardId> {
    fn encode(&self) -> AttributeValue {
        AttributeValue::Ns(self.iter().map(ShardId::to_string).collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let texts = value.as_ns().map_err(|_| "is not a set of numbers")?;
        texts.iter().map(|text| shard_of(text)).collect()
    }
}

impl<T: Field> Field for BTreeMap<ShardId, T> {
    fn encode(&self) -> AttributeValue {
        let entries = self.iter().map(|(shard, value)| (shard.to_string(), value.encode()));
        AttributeValue::M(entries.collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let entries = value.as_m().map_err(|_| "is not a map")?;
        entries.iter().map(|(shard, value)| Ok((shard_of(shard)?, T::decode(value)?))).collect()
    }
}

fn shard_of(text: &str) -> Result<ShardId, String> {
    text.parse().map(ShardId::new).map_err(|_| format!("{text:?} is not a shard"))
}

/// 8 bytes of each hash, big-endian.
impl Field for BTreeSet<u64> {
    fn encode(&self) -> AttributeValue {
        AttributeValue::Bs(self.iter().map(|hash| Blob::new(hash.to_be_bytes())).collect())
    }

    fn decode(value: &AttributeValue) -> Result<Self, String> {
        let hashes = value.as_bs().map_err(|_| "is not a set of binary values")?.iter();
        let hashes = hashes.map(|hash| Some(u64::from_be_bytes(hash.as_ref().try_into().ok()?)));
        hashes.collect::<Option<_>>().ok_or_else(|| "does not hold 8 bytes of each".to_owned())
    }
}
