//! XXH64 of a key as it lies in memory, in two parts.
//!
//! Readers place every item of every page. A library hashes one text, so the parts would have to be copied together
//! first, and the copy would have to reach memory before it can be read again in words: that takes longer than the hash
//! itself. Here only the word in which the parts meet is put together.
//!
//! The steps and constants are those of the [XXH64
//! specification](https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), with seed 0.

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

const WORD: usize = 8;
const STRIPE: usize = 4 * WORD;

/// `XXH64(before ":" after, seed 0)`.
pub(crate) fn xxh64_of_pair(before: &[u8], after: &[u8]) -> u64 {
    let pair = Pair { before, after };
    let len = pair.len();
    let mut at = 0;
    let mut hash = PRIME_5;
    if len >= STRIPE {
        let mut lanes = [PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0_u64.wrapping_sub(PRIME_1)];
        while at + STRIPE <= len {
            let stripe = pair.stripe(at);
            for (lane, word) in lanes.iter_mut().zip(stripe) {
                *lane = round(*lane, word);
            }
            at += STRIPE;
        }
        let [one, two, three, four] = lanes;
        hash = one
            .rotate_left(1)
            .wrapping_add(two.rotate_left(7))
            .wrapping_add(three.rotate_left(12))
            .wrapping_add(four.rotate_left(18));
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
        }
    }
    hash = hash.wrapping_add(u64::try_from(len).unwrap_or(u64::MAX));
    while at + WORD <= len {
        hash ^= round(0, pair.word(at));
        hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
        at += WORD;
    }
    let (mut rest, mut left) = (pair.rest(at), len - at);
    if left >= 4 {
        hash ^= (rest & 0xFFFF_FFFF).wrapping_mul(PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(PRIME_2).wrapping_add(PRIME_3);
        rest >>= 32;
        left -= 4;
    }
    for _ in 0..left {
        hash ^= (rest & 0xFF).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
        rest >>= 8;
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1)
}

/// Two parts with a colon between them, read as if they were one.
struct Pair<'a> {
    before: &'a [u8],
    after: &'a [u8],
}

impl Pair<'_> {
    const fn len(&self) -> usize {
        self.before.len() + 1 + self.after.len()
    }

    fn stripe(&self, at: usize) -> [u64; 4] {
        let whole = self.within::<STRIPE>(at);
        let words = |stripe: &[u8; STRIPE]| {
            let (words, _) = stripe.as_chunks::<WORD>();
            [0, 1, 2, 3].map(|place| words.get(place).map_or(0, |word| u64::from_le_bytes(*word)))
        };
        whole.map_or_else(|| [0, 1, 2, 3].map(|place| self.word(at + place * WORD)), words)
    }

    fn word(&self, at: usize) -> u64 {
        self.within(at).map_or_else(|| self.seam(at), |word| u64::from_le_bytes(*word))
    }

    /// So many bytes that lie in one of the parts.
    fn within<const N: usize>(&self, at: usize) -> Option<&[u8; N]> {
        match at.checked_sub(self.before.len() + 1) {
            Some(at) => self.after.get(at..)?.first_chunk(),
            None => self.before.get(at..)?.first_chunk(),
        }
    }

    /// The word that holds the colon, which begins in the first part or with the colon. Behind the end it is zeros.
    fn seam(&self, at: usize) -> u64 {
        let before = self.before.len() - at;
        let bits = 8 * before;
        let word = last(self.before, before) | u64::from(b':') << bits;
        if before + 1 == WORD { word } else { word | first(self.after) << (bits + 8) }
    }

    /// The bytes from here to the end, fewer than a word.
    fn rest(&self, at: usize) -> u64 {
        match at.checked_sub(self.before.len() + 1) {
            Some(at) => last(self.after, self.after.len() - at),
            None => self.seam(at),
        }
    }
}

/// The first word of a text, filled up with zeros.
fn first(text: &[u8]) -> u64 {
    text.first_chunk::<WORD>().map_or_else(|| few(text), |word| u64::from_le_bytes(*word))
}

/// The last bytes of a text, fewer than a word.
fn last(text: &[u8], bytes: usize) -> u64 {
    match text.last_chunk::<WORD>() {
        _ if bytes == 0 => 0,
        Some(word) => u64::from_le_bytes(*word) >> (8 * (WORD - bytes)),
        None => few(&text[text.len() - bytes..]),
    }
}

fn few(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::xxh64_of_pair;

    #[test]
    fn parts_of_every_length_are_hashed_as_one_text() {
        let bytes = (0..=255_u8).map(|byte| byte.wrapping_mul(167)).collect::<Vec<_>>();
        for before in 0..90 {
            for after in 0..90 {
                let (before, after) = (&bytes[..before], &bytes[100..100 + after]);
                let text = [before, b":", after].concat();
                let expected = xxhash_rust::xxh64::xxh64(&text, 0);
                assert_eq!(xxh64_of_pair(before, after), expected, "{before:?} {after:?}");
            }
        }
    }
}
