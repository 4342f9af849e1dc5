//! Where a query goes on.
//!
//! A cursor is opaque to clients: URL-safe base64 of
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format version, now 2 |
//! | 4 | checksum of everything behind it, seeded with the version: the same in every version, so that a cursor of another one is told from a damaged one |
//! | 4 | fingerprint of the query, its partition key included: a cursor resumes no other query |
//! | 1 | kind: 0 a watermark, 1 positions, 2 a place in an index, 3 one in an index that is write-sharded |
//! | ... | the watermark; or generation, turn, and a position for each shard; or the entry's partition key, with its length, and its two sort keys, behind its shard where the index has any |
//!
//! How positions are written is told in `positions.rs`. The partition key of the query is not in it, so a
//! forged cursor cannot read another collection.

mod positions;
#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dynashard_keys::{ShardId, SortKey, SortKeyType};
use xxhash_rust::xxh64::{Xxh64, xxh64};

use crate::model::error::{Code, Error};
use crate::model::version::Generation;
use crate::ports::{IndexPlace, SortRange};
use crate::usecases::query::Query;
use crate::usecases::query::cursor::positions::{
    put_positions, put_varint, take_positions, take_varint,
};

const FORMAT: u8 = 2;
const KIND_WATERMARK: u8 = 0;
const KIND_POSITIONS: u8 = 1;
const KIND_PLACE: u8 = 2;
const KIND_SHARDED_PLACE: u8 = 3;
/// No cursor of ours is longer: 256 positions with the longest sort keys are some 350 KB. A longer
/// text is refused before it is decoded.
const MAX_TEXT_BYTES: usize = 1_024 * 1_024;

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
        /// Whose turn it is, as an index into the positions. Only round-robin looks at it.
        turn: usize,
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

impl Position {
    /// The sort key that the shard goes on behind.
    pub fn key(&self) -> Option<&SortKey> {
        match self {
            Self::After(key) => Some(key),
            Self::Start | Self::End => None,
        }
    }
}

impl Cursor {
    /// The cursor's text, bound to `query`.
    pub fn encode(&self, query: &Query) -> String {
        let mut body = fingerprint(query).to_be_bytes().to_vec();
        match self {
            Self::Watermark(key) => {
                body.push(KIND_WATERMARK);
                put_positions(&mut body, &[Position::After(key.clone())]);
            }
            Self::Positions { generation, turn, positions } => {
                body.push(KIND_POSITIONS);
                put_varint(&mut body, generation.get());
                put_varint(&mut body, u64::try_from(*turn).unwrap_or(u64::MAX));
                put_positions(&mut body, positions);
            }
        }
        seal(FORMAT, &body)
    }

    /// Reads a cursor's text, and checks that it belongs to `query` of a table with such sort keys.
    pub fn decode(text: &str, query: &Query, sort_keys: SortKeyType) -> Result<Self, Error> {
        let body = body_of(text, fingerprint(query))?;
        let cursor = Self::read(&body).ok_or_else(damaged)?;
        // The checksum keeps out accidents, not forgers: a key that the query cannot reach would be
        // refused by DynamoDB.
        let reachable = |key: &SortKey| key.is(sort_keys) && query.range.contains(key);
        let fits = match &cursor {
            Self::Watermark(key) => reachable(key),
            Self::Positions { turn, positions, .. } => {
                query.strategy.has_positions()
                    && *turn < positions.len()
                    && positions.iter().filter_map(Position::key).all(reachable)
            }
        };
        if fits { Ok(cursor) } else { Err(damaged()) }
    }

    /// What stands behind the fingerprint, to its last byte.
    fn read(mut bytes: &[u8]) -> Option<Self> {
        let [kind] = take(&mut bytes)?;
        match kind {
            KIND_WATERMARK => match take_positions(bytes)?.as_slice() {
                [Position::After(key)] => Some(Self::Watermark(key.clone())),
                _ => None,
            },
            KIND_POSITIONS => Some(Self::Positions {
                generation: Generation::new(take_varint(&mut bytes)?),
                turn: usize::try_from(take_varint(&mut bytes)?).ok()?,
                positions: take_positions(bytes)?,
            }),
            _ => None,
        }
    }
}

/// The text of a cursor of an index, bound to this query of it.
pub(crate) fn encode_place(index: &str, query: &Query, place: &IndexPlace) -> String {
    let IndexPlace { value, shard, at, sort } = place;
    let mut body = fingerprint_in(index, query).to_be_bytes().to_vec();
    if let Some(shard) = shard {
        body.push(KIND_SHARDED_PLACE);
        put_varint(&mut body, u64::from(shard.get()));
    } else {
        body.push(KIND_PLACE);
    }
    put_varint(&mut body, u64::try_from(at.len()).unwrap_or(u64::MAX));
    body.extend(at.as_bytes());
    let value = value.clone().map_or(Position::Start, Position::After);
    put_positions(&mut body, &[value, Position::After(sort.clone())]);
    seal(FORMAT, &body)
}

/// Reads the text of a cursor of an index, and checks that it belongs to this query of it.
pub(crate) fn decode_place(text: &str, index: &str, query: &Query) -> Result<IndexPlace, Error> {
    let body = body_of(text, fingerprint_in(index, query))?;
    take_place(&body).ok_or_else(damaged)
}

fn take_place(mut bytes: &[u8]) -> Option<IndexPlace> {
    let shard = match take(&mut bytes)? {
        [KIND_PLACE] => None,
        [KIND_SHARDED_PLACE] => Some(ShardId::new(u32::try_from(take_varint(&mut bytes)?).ok()?)),
        _ => return None,
    };
    let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
    let (at, rest) = bytes.split_at_checked(length)?;
    let at = std::str::from_utf8(at).ok()?.to_owned();
    match take_positions(rest)?.as_slice() {
        [value, Position::After(sort)] if *value != Position::End => {
            Some(IndexPlace { value: value.key().cloned(), shard, at, sort: sort.clone() })
        }
        _ => None,
    }
}

pub(crate) fn damaged() -> Error {
    Error::new(Code::BadCursor, "the cursor is damaged")
}

/// What stands behind the fingerprint of a cursor that belongs to the query of this one.
fn body_of(text: &str, fingerprint: u32) -> Result<Vec<u8>, Error> {
    let (format, mut body) = open(text).ok_or_else(damaged)?;
    if format != FORMAT {
        let why = "the cursor is of another version: begin the query again";
        return Err(Error::new(Code::UnsupportedCursor, why));
    }
    let mut bytes = body.as_slice();
    let bound_to = u32::from_be_bytes(take(&mut bytes).ok_or_else(damaged)?);
    if bound_to != fingerprint {
        return Err(Error::new(Code::CursorMismatch, "the cursor belongs to another query"));
    }
    body.drain(..size_of::<u32>());
    Ok(body)
}

/// The text of a cursor of this version.
fn seal(format: u8, body: &[u8]) -> String {
    let mut bytes = vec![format];
    bytes.extend(checksum(format, body).to_be_bytes());
    bytes.extend(body);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The version and the body of a cursor whose checksum holds.
fn open(text: &str) -> Option<(u8, Vec<u8>)> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let mut body = bytes.as_slice();
    let [format] = take(&mut body)?;
    let expected = u32::from_be_bytes(take(&mut body)?);
    (checksum(format, body) == expected).then(|| (format, body.to_vec()))
}

/// Everything that must be the same when a query goes on. The limit, the consistency and the fields
/// may change: none of them says which items come, nor in which order.
fn fingerprint(query: &Query) -> u32 {
    let mut hasher = Xxh64::new(u64::from(FORMAT));
    let mut field = |bytes: &[u8]| {
        // Lengths keep two neighbouring fields apart.
        hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(bytes);
    };
    field(query.partition.as_str().as_bytes());
    field(&[u8::from(query.ascending)]);
    field(query.strategy.as_str().as_bytes());
    let mut bound = |tag: u8, text: &str| {
        field(&[tag]);
        field(text.as_bytes());
    };
    match &query.range {
        SortRange::All => {}
        SortRange::BeginsWith(prefix) => bound(0, prefix),
        SortRange::From(from) => bound(1, &from.to_string()),
        SortRange::To(to) => bound(2, &to.to_string()),
        SortRange::Between(from, to) => {
            bound(3, &from.to_string());
            bound(4, &to.to_string());
        }
    }
    truncate(hasher.digest())
}

/// Of a query of an index: its sort keys are other ones than the table's.
fn fingerprint_in(index: &str, query: &Query) -> u32 {
    truncate(xxh64(index.as_bytes(), u64::from(fingerprint(query))))
}

fn checksum(format: u8, body: &[u8]) -> u32 {
    truncate(xxh64(body, u64::from(format)))
}

fn truncate(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}
