//! Where a query goes on.
//!
//! A cursor is opaque to clients: URL-safe base64 of
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format version, now 1 |
//! | 4 | checksum of everything behind it: a damaged cursor is told from a foreign one |
//! | 4 | fingerprint of the query, its partition key included: a cursor resumes no other query |
//! | 1 | kind: 0 a watermark, 1 positions |
//! | ... | the watermark's text; or generation, count, and a position for each shard |
//!
//! The partition key itself is not in it, so a forged cursor cannot read another collection.

use std::hash::Hasher;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dynashard_keys::{SortKey, SortKeyType};
use twox_hash::XxHash64;

use super::{Query, Strategy};
use crate::ports::SortRange;
use crate::{Code, Error, Generation};

const FORMAT: u8 = 1;
const KIND_WATERMARK: u8 = 0;
const KIND_POSITIONS: u8 = 1;
/// A cursor of 65,536 positions with long sort keys is some 70 MB; no request can carry one, and a
/// longer text is refused before it is decoded.
const MAX_TEXT_BYTES: usize = 6 * 1_024 * 1_024;

/// A decoded cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// Of an ordered query, and of any that was read while a reshard moved items: everything up to
    /// this sort key, in the query's direction, was returned. Any shard count can resume it.
    Watermark(SortKey),
    /// Of the other strategies: where each shard goes on. Good for one layout.
    Positions {
        /// The layout that the positions belong to.
        generation: Generation,
        /// For each shard, in the order of the placement's shards.
        positions: Vec<Position>,
    },
}

/// Where one shard goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// It was not read yet.
    Start,
    /// Everything up to this sort key was returned.
    After(SortKey),
    /// It was read to its end.
    End,
}

impl Cursor {
    /// The cursor's text, bound to `query`.
    pub fn encode(&self, query: &Query) -> String {
        let mut body = fingerprint(query).to_be_bytes().to_vec();
        match self {
            Self::Watermark(key) => {
                body.push(KIND_WATERMARK);
                put_key(&mut body, key);
            }
            Self::Positions { generation, positions } => {
                body.push(KIND_POSITIONS);
                body.extend(generation.get().to_be_bytes());
                for position in positions {
                    match position {
                        Position::Start => body.push(0),
                        Position::End => body.push(1),
                        Position::After(key) => {
                            body.push(2);
                            put_key(&mut body, key);
                        }
                    }
                }
            }
        }
        let mut bytes = vec![FORMAT];
        bytes.extend(checksum(&body).to_be_bytes());
        bytes.extend(body);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor's text, and checks that it belongs to `query` of a table with such sort keys.
    pub fn decode(text: &str, query: &Query, sort_keys: SortKeyType) -> Result<Self, Error> {
        let damaged = || Error::new(Code::BadCursor, "the cursor is damaged");
        if text.len() > MAX_TEXT_BYTES {
            return Err(damaged());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| damaged())?;
        let mut bytes = bytes.as_slice();
        let format = take::<1>(&mut bytes).ok_or_else(damaged)?[0];
        if format != FORMAT {
            return Err(Error::new(Code::BadCursor, "the cursor is of another version"));
        }
        let expected = u32::from_be_bytes(take(&mut bytes).ok_or_else(damaged)?);
        if checksum(bytes) != expected {
            return Err(damaged());
        }
        let bound_to = u32::from_be_bytes(take(&mut bytes).ok_or_else(damaged)?);
        if bound_to != fingerprint(query) {
            return Err(Error::new(Code::CursorMismatch, "the cursor belongs to another query"));
        }
        let cursor = match take::<1>(&mut bytes).ok_or_else(damaged)?[0] {
            KIND_WATERMARK => {
                let key = take_key(&mut bytes).ok_or_else(damaged)?;
                if !bytes.is_empty() {
                    return Err(damaged());
                }
                Self::Watermark(key)
            }
            KIND_POSITIONS => {
                let generation =
                    Generation::new(u64::from_be_bytes(take(&mut bytes).ok_or_else(damaged)?));
                let mut positions = Vec::new();
                while let Some([tag]) = take::<1>(&mut bytes) {
                    positions.push(match tag {
                        0 => Position::Start,
                        1 => Position::End,
                        2 => Position::After(take_key(&mut bytes).ok_or_else(damaged)?),
                        _ => return Err(damaged()),
                    });
                }
                Self::Positions { generation, positions }
            }
            _ => return Err(damaged()),
        };
        // The checksum keeps out accidents, not forgers: a key that the query cannot reach would be
        // refused by DynamoDB.
        let reachable = |key: &SortKey| key.is(sort_keys) && query.range.contains(key);
        let fits = match (&cursor, query.strategy) {
            (Self::Watermark(key), Strategy::Ordered | Strategy::Parallel) => reachable(key),
            (Self::Positions { positions, .. }, Strategy::Parallel) => {
                positions.iter().all(|position| match position {
                    Position::After(key) => reachable(key),
                    Position::Start | Position::End => true,
                })
            }
            (Self::Positions { .. }, Strategy::Ordered) => false,
        };
        if fits { Ok(cursor) } else { Err(damaged()) }
    }
}

/// Everything that must be the same when a query goes on. The limit and the consistency may change.
fn fingerprint(query: &Query) -> u32 {
    let mut hasher = XxHash64::with_seed(u64::from(FORMAT));
    let mut field = |bytes: &[u8]| {
        // Lengths keep two neighbouring fields apart.
        hasher.write(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.write(bytes);
    };
    field(query.partition.as_str().as_bytes());
    field(&[u8::from(query.ascending)]);
    field(match query.strategy {
        Strategy::Ordered => b"ordered",
        Strategy::Parallel => b"parallel",
    });
    let mut key = |tag: u8, key: &SortKey| {
        let mut bytes = vec![tag];
        put_key(&mut bytes, key);
        field(&bytes);
    };
    match &query.range {
        SortRange::All => {}
        SortRange::BeginsWith(prefix) => field(prefix.as_bytes()),
        SortRange::From(from) => key(1, from),
        SortRange::To(to) => key(2, to),
        SortRange::Between(from, to) => {
            key(3, from);
            key(4, to);
        }
    }
    truncate(hasher.finish())
}

fn checksum(bytes: &[u8]) -> u32 {
    truncate(XxHash64::oneshot(u64::from(FORMAT), bytes))
}

fn truncate(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}

/// A type tag, a length in two bytes, and the text.
fn put_key(bytes: &mut Vec<u8>, key: &SortKey) {
    let tag = match key {
        SortKey::String(_) => b'S',
        SortKey::Number(_) => b'N',
    };
    let text = key.to_string();
    bytes.push(tag);
    bytes.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn take_key(bytes: &mut &[u8]) -> Option<SortKey> {
    let r#type = match take::<1>(bytes)?[0] {
        b'S' => SortKeyType::String,
        b'N' => SortKeyType::Number,
        _ => return None,
    };
    let length = usize::from(u16::from_be_bytes(take(bytes)?));
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    SortKey::parse(std::str::from_utf8(text).ok()?, r#type).ok()
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use dynashard_keys::PartitionKey;
    use proptest::prelude::{Just, any, prop, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy as _;

    use super::*;

    fn query() -> Query {
        Query::all(PartitionKey::new("EWR").expect("pk"))
    }

    fn key(text: &str) -> SortKey {
        SortKey::string(text).expect("sk")
    }

    fn code(text: &str, query: &Query) -> Code {
        Cursor::decode(text, query, SortKeyType::String).expect_err("refused").code()
    }

    fn any_key(sort_keys: SortKeyType) -> impl proptest::strategy::Strategy<Value = SortKey> {
        let text = match sort_keys {
            SortKeyType::String => "\\PC{1,40}",
            SortKeyType::Number => "-?[1-9][0-9]{0,20}",
        };
        text.prop_map(move |text| SortKey::parse(&text, sort_keys).expect("sk"))
    }

    fn any_cursor(
        sort_keys: SortKeyType,
    ) -> impl proptest::strategy::Strategy<Value = (Query, Cursor, SortKeyType)> {
        let position = prop_oneof![
            Just(Position::Start),
            Just(Position::End),
            any_key(sort_keys).prop_map(Position::After),
        ];
        let positions = (any::<u64>(), prop::collection::vec(position, 0..20));
        prop_oneof![
            any_key(sort_keys).prop_map(move |key| (query(), Cursor::Watermark(key), sort_keys)),
            positions.prop_map(move |(generation, positions)| {
                let generation = Generation::new(generation);
                let parallel = Query { strategy: Strategy::Parallel, ..query() };
                (parallel, Cursor::Positions { generation, positions }, sort_keys)
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_cursor_reads_back((query, cursor, sort_keys) in prop_oneof![
            any_cursor(SortKeyType::String), any_cursor(SortKeyType::Number),
        ]) {
            let text = cursor.encode(&query);
            prop_assert_eq!(Cursor::decode(&text, &query, sort_keys), Ok(cursor));
        }

        #[test]
        fn any_damage_is_noticed(watermark in "\\PC{1,20}", at: prop::sample::Index, change in 1..=255_u8) {
            let mut bytes = URL_SAFE_NO_PAD.decode(Cursor::Watermark(key(&watermark)).encode(&query())).expect("base64");
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert_eq!(code(&URL_SAFE_NO_PAD.encode(&bytes), &query()), Code::BadCursor);
            bytes.truncate(at);
            prop_assert_eq!(code(&URL_SAFE_NO_PAD.encode(&bytes), &query()), Code::BadCursor);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            prop_assert_eq!(code(&text, &query()), Code::BadCursor);
        }

        #[test]
        fn no_bytes_behind_a_right_checksum_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut body = body;
            let fingerprint = fingerprint(&query()).to_be_bytes();
            let length = body.len().min(4);
            body[..length].copy_from_slice(&fingerprint[..length]);
            let mut bytes = vec![FORMAT];
            bytes.extend(checksum(&body).to_be_bytes());
            bytes.extend(body);
            let text = URL_SAFE_NO_PAD.encode(bytes);
            let _ = Cursor::decode(&text, &query(), SortKeyType::String);
        }
    }

    #[test]
    fn a_cursor_belongs_to_one_query() {
        let text = Cursor::Watermark(key("m")).encode(&query());
        let other_collection = Query::all(PartitionKey::new("JFK").expect("pk"));
        let descending = Query { ascending: false, ..query() };
        let parallel = Query { strategy: Strategy::Parallel, ..query() };
        let ranged = Query { range: SortRange::From(key("a")), ..query() };
        for other in [other_collection, descending, parallel, ranged] {
            assert_eq!(code(&text, &other), Code::CursorMismatch);
        }
        let larger_page =
            Query { limit: 7, consistency: crate::ports::Consistency::Strong, ..query() };
        assert!(Cursor::decode(&text, &larger_page, SortKeyType::String).is_ok());
    }

    #[test]
    fn a_watermark_outside_the_range_is_refused() {
        let ranged = Query { range: SortRange::BeginsWith("2013-01-02".into()), ..query() };
        let text = Cursor::Watermark(key("2013-01-03")).encode(&ranged);
        assert_eq!(code(&text, &ranged), Code::BadCursor);
    }

    #[test]
    fn an_ordered_cursor_is_small() {
        let text = Cursor::Watermark(key("2013-01-01T10:00:00Z#UA1545")).encode(&query());
        assert!(text.len() <= 56, "{} bytes", text.len());
    }
}
