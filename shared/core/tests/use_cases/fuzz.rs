//! Forged cursors: right checksums and fingerprints around damaged contents, and plain noise.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dynashard_core::ports::SortRange;
use dynashard_core::query::cursor::{Cursor, Position};
use dynashard_core::query::{Query, Strategy};
use dynashard_core::{Code, Generation};
use dynashard_keys::{SortKey, SortKeyType};
use dynashard_testkit::{Random, fuzz};
use xxhash_rust::xxh64::xxh64;

use crate::world::{partition, sort};

/// As many as take a second or two.
const CASES: u64 = 100_000;

/// A few bytes, or one of those at which lengths and counts go wrong: small numbers and the
/// greatest.
fn noise(random: &Random) -> Vec<u8> {
    if random.below(2) == 0 {
        vec![*random.pick(&[0, 1, 2, 3, 4, 5, 8, 0x7f, 0x80, 0xff])]
    } else {
        (0..random.below(9)).map(|_| random.byte()).collect()
    }
}

/// Queries of all kinds, each with cursors of its own.
fn corpus() -> Vec<(Query, SortKeyType, Vec<u8>)> {
    let number = |text: &str| SortKey::parse(text, SortKeyType::Number).expect("a number");
    let strings = ["a", "2013-01-01T10:00:00Z#UA1545", "2013-01-01T11:00:00Z#B6343", "é"].map(sort);
    let numbers = ["0", "-1.5", "1e125", "12345678901234567890123456789012345678"].map(number);
    let all = [(SortKeyType::String, strings), (SortKeyType::Number, numbers)];
    let mut corpus = Vec::new();
    for ((sort_keys, keys), strategy) in
        all.into_iter().flat_map(|all| Strategy::ALL.map(|strategy| (all.clone(), strategy)))
    {
        let ranges = [SortRange::All, SortRange::From(keys[0].clone())];
        for range in ranges {
            let query = Query { strategy, range, ..Query::all(partition()) };
            let after = |n: usize| Position::After(keys[n % keys.len()].clone());
            let many = (0..64).map(after).chain(vec![Position::Start; 192]);
            let one = vec![Position::End, Position::End, after(1), Position::Start];
            let cursors = [Some(many.collect()), Some(one)].map(|positions| {
                let generation = Generation::new(u64::from(u32::MAX));
                positions.map(|positions| Cursor::Positions { generation, turn: 2, positions })
            });
            let watermark = Some(Cursor::Watermark(keys[1].clone()));
            for cursor in cursors.into_iter().chain([watermark]).flatten() {
                let bytes = URL_SAFE_NO_PAD.decode(cursor.encode(&query)).expect("base64");
                corpus.push((query.clone(), sort_keys, bytes));
            }
        }
    }
    corpus
}

/// Makes version and checksum right again.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    const VERSION: u8 = 2;
    let body = bytes.split_off(bytes.len().min(5));
    let checksum = xxh64(&body, u64::from(VERSION)) >> 32;
    let checksum = u32::try_from(checksum).expect("the high half");
    [&[VERSION][..], &checksum.to_be_bytes(), &body].concat()
}

#[test]
fn no_forged_cursor_makes_it_panic_or_reaches_beyond_its_query() {
    let corpus = corpus();
    let (mut read, mut refused) = (0_u64, 0_u64);
    let cases = fuzz(CASES, |random| {
        let (query, sort_keys, cursor) = random.pick(&corpus);
        let mut bytes = cursor.clone();
        match random.below(8) {
            // The head is left alone, so that what is behind it is looked at.
            0..=5 => {
                let mut tail = bytes.split_off(9);
                random.damage(&mut tail, noise);
                bytes.extend(tail);
                bytes = seal(bytes);
            }
            6 => random.damage(&mut bytes, noise),
            _ => bytes = (0..random.below(64)).map(|_| random.byte()).collect(),
        }
        let mut text = URL_SAFE_NO_PAD.encode(&bytes).into_bytes();
        if random.below(16) == 0 {
            random.damage(&mut text, noise);
        }
        let text = String::from_utf8_lossy(&text);
        match Cursor::decode(&text, query, *sort_keys) {
            Ok(cursor) => {
                read += 1;
                let keys = match &cursor {
                    Cursor::Watermark(key) => vec![key],
                    Cursor::Positions { turn, positions, .. } => {
                        assert!(
                            *turn < positions.len() && query.strategy.has_positions(),
                            "{text}"
                        );
                        positions.iter().filter_map(Position::key).collect()
                    }
                };
                let reachable = |key: &&SortKey| key.is(*sort_keys) && query.range.contains(key);
                assert!(keys.iter().all(reachable), "{text}: {cursor:?}");
            }
            Err(error) => {
                refused += 1;
                let codes = [Code::BadCursor, Code::CursorMismatch, Code::UnsupportedCursor];
                assert!(codes.contains(&error.code()), "{text}: {error}");
            }
        }
    });
    // Otherwise the damage would not be worth its name, or nothing would get past the checksum.
    assert!(read > cases / 100 && refused > cases / 2, "{read} read, {refused} refused");
}
