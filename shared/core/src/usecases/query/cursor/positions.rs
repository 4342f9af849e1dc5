//! Positions as a cursor holds them.
//!
//! Each is a head and what belongs to it. A head is a number, in base 128 with the lowest digits
//! first (LEB128), of a tag in its lowest three bits and of an argument above them:
//!
//! | tag | position | argument | behind the head |
//! |---|---|---|---|
//! | 0 | the one before, again | how many times, less one | |
//! | 1 | not begun | 0 | |
//! | 2 | at its end | 0 | |
//! | 3 | behind a string key | how many bytes it has in common with the key before | the number of its other bytes, and these |
//! | 4 | behind a number key, in its compact form | the same | the same |
//!
//! So a cursor of shards of which one is being read takes a few bytes beside its sort key, however
//! many they are; and keys that begin alike, as timestamps do, are written in full once.

use dynashard_keys::{ShardCount, SortKey, SortKeyType};

use crate::usecases::query::MAX_OPEN_SHARDS;
use crate::usecases::query::cursor::{Position, take};

const TAG_BITS: u32 = 3;
const REPEAT: u64 = 0;
const START: u64 = 1;
const END: u64 = 2;
const STRING: u64 = 3;
const NUMBER: u64 = 4;

/// The most sort keys of one cursor: a position for each shard that is being read, and one that all
/// the shards have which were not begun, where the query began while a reshard was running.
const MAX_KEYS: usize = MAX_OPEN_SHARDS + 1;

pub(super) fn put_positions(bytes: &mut Vec<u8>, positions: &[Position]) {
    let mut key_before = String::new();
    let mut rest = positions;
    while let [position, others @ ..] = rest {
        match position {
            Position::Start => put_head(bytes, START, 0),
            Position::End => put_head(bytes, END, 0),
            Position::After(key) => {
                let (tag, text) = match key {
                    SortKey::String(text) => (STRING, text.to_string()),
                    SortKey::Number(number) => (NUMBER, number.compact().to_string()),
                };
                let same = text.bytes().zip(key_before.bytes()).take_while(|(a, b)| a == b);
                let common = same.count();
                let other = &text.as_bytes()[common..];
                put_head(bytes, tag, common);
                put_varint(bytes, u64::try_from(other.len()).unwrap_or(u64::MAX));
                bytes.extend(other);
                key_before = text;
            }
        }
        let again = others.iter().take_while(|other| *other == position).count();
        if again > 0 {
            put_head(bytes, REPEAT, again - 1);
        }
        rest = &others[again..];
    }
}

/// Reads positions up to the last byte; `None` if the bytes are not positions.
pub(super) fn take_positions(mut bytes: &[u8]) -> Option<Vec<Position>> {
    let most = usize::try_from(ShardCount::MAX).ok()?;
    let mut positions = Vec::<Position>::new();
    let mut keys = 0;
    let mut key_before = Vec::new();
    while !bytes.is_empty() {
        let head = take_varint(&mut bytes)?;
        let argument = usize::try_from(head >> TAG_BITS).ok()?;
        let r#type = match head & ((1 << TAG_BITS) - 1) {
            REPEAT => {
                // Counted before it is made: the number may be any.
                let room = most.checked_sub(positions.len())?;
                let again = argument.checked_add(1).filter(|again| *again <= room)?;
                let last = positions.last()?.clone();
                positions.extend(std::iter::repeat_n(last, again));
                continue;
            }
            START if argument == 0 => {
                positions.push(Position::Start);
                continue;
            }
            END if argument == 0 => {
                positions.push(Position::End);
                continue;
            }
            STRING => SortKeyType::String,
            NUMBER => SortKeyType::Number,
            _ => return None,
        };
        let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
        let (other, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        keys += 1;
        if argument > key_before.len() || keys > MAX_KEYS {
            return None;
        }
        key_before.truncate(argument);
        key_before.extend(other);
        let text = std::str::from_utf8(&key_before).ok()?;
        positions.push(Position::After(SortKey::parse(text, r#type).ok()?));
    }
    (positions.len() <= most).then_some(positions)
}

fn put_head(bytes: &mut Vec<u8>, tag: u64, argument: usize) {
    put_varint(bytes, u64::try_from(argument).unwrap_or(u64::MAX) << TAG_BITS | tag);
}

pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = take(bytes)?;
        let digit = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        value |= digit.checked_shl(shift).filter(|shifted| shifted >> shift == digit)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
