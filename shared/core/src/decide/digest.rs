//! A digest of what a collection holds, whatever its shards.

use std::fmt;
use std::ops::AddAssign;

use dynashard_keys::SortKey;
use xxhash_rust::xxh64::xxh64;

use crate::model::item::{AttributeValue, Attributes, StoredItem};

/// What a set of items holds, in 128 bits: the sum over its items of a hash of sort key, version and
/// attributes. Neither the order of the items nor their shards and generations count, so a reshard
/// does not change it. A sum, and not an exclusive or: an item that lies twice does not cancel itself
/// out.
///
/// It tells accidents apart and not forgeries, and is to be compared with digests of the same
/// version of this software only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest([u64; 2]);

/// Two hashes of one text must be independent of each other.
const SEEDS: [u64; 2] = [0, 0x9E37_79B9_7F4A_7C15];

impl Digest {
    /// The digest of one item.
    pub fn of(sort: &SortKey, item: &StoredItem) -> Self {
        let mut text = Text::default();
        match sort {
            SortKey::String(sort) => text.part(b'S', sort.as_bytes()),
            SortKey::Number(number) => text.part(b'N', number.to_string().as_bytes()),
        }
        text.part(b'v', &item.version.get().to_be_bytes());
        text.attributes(&item.attributes);
        Self(SEEDS.map(|seed| xxh64(&text.0, seed)))
    }
}

impl AddAssign for Digest {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.0;
        write!(f, "{first:016x}{second:016x}")
    }
}

/// What is hashed: each part with its type and its length, so that no two items share a text.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn part(&mut self, r#type: u8, bytes: &[u8]) {
        self.0.push(r#type);
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn length(&mut self, length: usize) {
        self.0.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
    }

    fn members(&mut self, r#type: u8, members: usize) {
        self.0.push(r#type);
        self.length(members);
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.members(b'M', attributes.len());
        for (name, value) in attributes {
            self.part(b'n', name.as_bytes());
            self.value(value);
        }
    }

    fn value(&mut self, value: &AttributeValue) {
        match value {
            AttributeValue::String(text) => self.part(b'S', text.as_bytes()),
            AttributeValue::Number(number) => self.part(b'N', number.to_string().as_bytes()),
            AttributeValue::Binary(bytes) => self.part(b'B', bytes),
            AttributeValue::Bool(value) => self.part(b'b', &[u8::from(*value)]),
            AttributeValue::Null => self.0.push(b'0'),
            AttributeValue::List(values) => {
                self.members(b'L', values.len());
                for value in values {
                    self.value(value);
                }
            }
            AttributeValue::Map(entries) => self.attributes(entries),
            AttributeValue::StringSet(set) => {
                self.members(b's', set.len());
                for text in set {
                    self.part(b'S', text.as_bytes());
                }
            }
            AttributeValue::NumberSet(set) => {
                self.members(b'm', set.len());
                for number in set {
                    self.part(b'N', number.to_string().as_bytes());
                }
            }
            AttributeValue::BinarySet(set) => {
                self.members(b'x', set.len());
                for bytes in set {
                    self.part(b'B', bytes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::version::{Generation, Version};

    fn item(attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> StoredItem {
        StoredItem {
            attributes: attributes.into_iter().map(|(name, v)| (name.to_owned(), v)).collect(),
            generation: Generation::new(1),
            version: Version::new(7),
            forwarded: false,
        }
    }

    fn of(sort: &str, item: &StoredItem) -> Digest {
        Digest::of(&SortKey::string(sort).expect("a sort key"), item)
    }

    fn text(text: &str) -> AttributeValue {
        AttributeValue::String(text.to_owned())
    }

    #[test]
    fn what_a_client_can_see_counts_and_the_generation_does_not() {
        let one = item([("a", text("x"))]);
        let digest = of("s", &one);
        let moved = StoredItem { generation: Generation::new(9), ..one.clone() };
        assert_eq!(of("s", &moved), digest);
        assert_ne!(of("t", &one), digest);
        assert_ne!(of("s", &StoredItem { version: Version::new(8), ..one }), digest);
        assert_ne!(of("s", &item([("b", text("x"))])), digest);
        assert_ne!(of("s", &item([("a", text("y"))])), digest);
    }

    #[test]
    fn values_that_look_alike_are_told_apart() {
        let texts = |texts: &[&str]| {
            AttributeValue::StringSet(texts.iter().map(|text| (*text).to_owned()).collect())
        };
        let number = || "1".parse().expect("a number");
        let alike = [
            text("1"),
            AttributeValue::Number(number()),
            AttributeValue::Binary(b"1".to_vec()),
            AttributeValue::Bool(true),
            AttributeValue::Null,
            AttributeValue::List(vec![text("1")]),
            AttributeValue::List(vec![text("1"), AttributeValue::List(Vec::new())]),
            AttributeValue::List(vec![AttributeValue::List(vec![text("1")])]),
            AttributeValue::Map(Attributes::from([("1".to_owned(), AttributeValue::Null)])),
            texts(&["1"]),
            texts(&["1", "2"]),
            texts(&["12"]),
            AttributeValue::NumberSet(BTreeSet::from([number()])),
            AttributeValue::BinarySet(BTreeSet::from([b"1".to_vec()])),
        ];
        let digests = alike.map(|value| of("s", &item([("a", value)])).to_string());
        assert_eq!(BTreeSet::from(digests.clone()).len(), digests.len());
    }

    #[test]
    fn an_item_that_lies_twice_shows() {
        let (one, other) = (of("s", &item([])), of("t", &item([])));
        let sum = |parts: &[Digest]| {
            let mut sum = Digest::default();
            for part in parts {
                sum += *part;
            }
            sum
        };
        assert_eq!(sum(&[one, other]), sum(&[other, one]));
        assert_ne!(sum(&[one, one]), sum(&[]));
        assert_ne!(sum(&[one, one, other]), sum(&[other]));
    }
}
