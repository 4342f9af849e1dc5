//! The segments of the directory: which collections have metadata, by the hashes of their keys.

use std::fmt;
use std::sync::Arc;

use dynashard_keys::PartitionKey;
use ring::digest::{SHA256, digest};

/// What a collection is listed by: the first bytes of the SHA-256 of its key, so that nobody can choose a key which is taken for
/// that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; KeyHash::BYTES]);

impl KeyHash {
    /// How many bytes it has.
    pub const BYTES: usize = 16;

    /// That of a key. Must be kept stable.
    pub fn of(partition: &PartitionKey) -> Self {
        let digest = digest(&SHA256, partition.as_str().as_bytes());
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&digest.as_ref()[..Self::BYTES]);
        Self(bytes)
    }

    /// One that was stored.
    pub const fn stored(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// As it is stored.
    pub const fn bytes(&self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Its first half, by which a grant counts the collection.
    pub(crate) fn half(self) -> u64 {
        u64::try_from(u128::from_be_bytes(self.0) >> u64::BITS).unwrap_or_default()
    }

    /// The group whose counter tells that the metadata of the collection has changed.
    pub const fn metadata_group(self) -> Group {
        let [first, ..] = self.0;
        Group(Group::OF_SEGMENTS + (first >> Group::SPARE_BITS) as u16)
    }

    /// Where it is listed: the number that its first bits are.
    pub fn segment(self) -> SegmentId {
        let [first, second, ..] = self.0;
        SegmentId(u16::from_be_bytes([first, second]) >> SegmentId::SPARE_BITS)
    }
}

/// One of the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(u16);

impl SegmentId {
    /// How many there are. A million collections are some 120 in each, which are read for one read unit.
    pub const COUNT: u16 = 1 << (16 - Self::SPARE_BITS);

    const SPARE_BITS: u32 = 3;

    /// Its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The group whose counter tells that the segment has changed.
    pub const fn group(self) -> Group {
        Group(self.0 / (Self::COUNT / Group::OF_SEGMENTS))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

/// What shares a counter in the root of the directory: segments, or the metadata of collections whose hashes begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(u16);

impl Group {
    /// How many there are: with what is pinned their counters take less than 4 KB, which are read for one read unit, as long as
    /// they have four digits on average.
    pub const COUNT: u16 = Self::OF_SEGMENTS + (1 << (8 - Self::SPARE_BITS));

    const OF_SEGMENTS: u16 = 512;

    const SPARE_BITS: u32 = 2;

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The group of this name.
    pub fn named(name: &str) -> Option<Self> {
        let group = u16::from_str_radix(name, 36).ok().map(Self)?;
        (group.0 < Self::COUNT && group.to_string() == name).then_some(group)
    }
}

/// Two digits of base 36. Must be kept stable.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |value: u16| char::from_digit(u32::from(value), 36).unwrap_or('0');
        write!(f, "{}{}", digit(self.0 / 36), digit(self.0 % 36))
    }
}

/// The collections that one segment lists, in order, each once. None is ever taken out of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment(Arc<[KeyHash]>);

impl Segment {
    /// How many collections it may list: each takes 17 of the 400 KB of an item.
    pub const MAX_COLLECTIONS: usize = 20_000;

    /// One that lists these.
    pub fn of(hashes: impl IntoIterator<Item = KeyHash>) -> Self {
        // Sorted without a set between: what a thousand segments take is what they hold.
        let mut hashes = hashes.into_iter().collect::<Vec<_>>();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Whether it lists a collection.
    pub fn lists(&self, hash: KeyHash) -> bool {
        self.0.binary_search(&hash).is_ok()
    }

    /// What it lists.
    pub fn hashes(&self) -> impl ExactSizeIterator<Item = KeyHash> {
        self.0.iter().copied()
    }

    /// With those of another.
    #[must_use]
    pub fn with(&self, more: &Self) -> Self {
        Self::of(self.hashes().chain(more.hashes()))
    }

    /// Whether it has room for one more, or lists it.
    pub(crate) fn has_room_for(&self, hash: KeyHash) -> bool {
        self.0.len() < Self::MAX_COLLECTIONS || self.lists(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn hash(key: &str) -> KeyHash {
        KeyHash::of(&PartitionKey::new(key).expect("a valid partition key"))
    }

    #[test]
    fn where_a_key_is_listed_is_what_it_always_was() {
        let ewr = hash("EWR");
        let hex = ewr.bytes().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        assert_eq!(
            (hex.as_str(), ewr.segment().to_string(), ewr.segment().group().to_string()),
            ("70540e81f5986d38af621007bbeb8c55", "0e0a".to_owned(), "68".to_owned())
        );
        assert_eq!(ewr.metadata_group().to_string(), "f0");
    }

    #[test]
    fn groups_are_known_by_their_names() {
        let names = Group::all().map(|group| group.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(names.len(), 576);
        assert!(names.iter().all(|name| name.len() == 2));
        assert!(Group::all().all(|group| Group::named(&group.to_string()) == Some(group)));
        assert_eq!(["g0", "zz", "0", "", "E7", "+1", "000"].map(Group::named), [None; 7]);
        assert_eq!(SegmentId(SegmentId::COUNT - 1).group(), Group(511));
        let of = |first| KeyHash::stored([first; KeyHash::BYTES]).metadata_group();
        assert_eq!([of(0), of(255)], [Group(512), Group(575)]);
    }

    #[test]
    fn a_full_segment_takes_no_more() {
        let numbers = 0..u64::try_from(Segment::MAX_COLLECTIONS).expect("a few");
        let full = numbers.map(|n| {
            let mut bytes = [0; KeyHash::BYTES];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            KeyHash::stored(bytes)
        });
        let full = Segment::of(full);
        let one = full.hashes().next().expect("many");
        assert!(full.has_room_for(one) && !full.has_room_for(hash("EWR")));
    }
}
