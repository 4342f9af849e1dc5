//! XXH64 of keys that begin with the same partition key.
//!
//! Readers place every item of every page, and all of them are of one collection. What their keys share is taken in
//! once, and each sort key is hashed where it lies: only the word in which the two meet is put together. A library
//! hashes one text, so the parts would have to be copied together first, which takes longer than the hash itself.
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

/// `pk ":"`, as far as it can be hashed before the sort key is known.
#[derive(Debug, Clone)]
pub(crate) struct Xxh64Prefix {
    /// How long it is, in bytes.
    len: usize,
    /// What its stripes have come to.
    lanes: Lanes,
    /// The words behind the last stripe, of which the first `whole` count.
    words: [u64; 3],
    whole: usize,
    /// The bytes behind the last word, filled up with zeros.
    rest: u64,
    rest_len: usize,
}

impl Xxh64Prefix {
    pub(crate) fn new(pk: &[u8]) -> Self {
        let mut lanes = Lanes::EMPTY;
        let (stripes, behind) = pk.as_chunks::<STRIPE>();
        for stripe in stripes {
            lanes.take(stripe);
        }
        let mut last = [0; STRIPE];
        for (place, byte) in last.iter_mut().zip(behind.iter().chain(b":")) {
            *place = *byte;
        }
        let mut len = behind.len() + 1;
        if len == STRIPE {
            lanes.take(&last);
            (last, len) = ([0; STRIPE], 0);
        }
        let [one, two, three, four] = words(&last);
        let whole = len / WORD;
        let rest = [one, two, three, four].get(whole).copied().unwrap_or(0);
        let rest_len = len % WORD;
        Self { len: pk.len() + 1, lanes, words: [one, two, three], whole, rest, rest_len }
    }

    /// `XXH64(pk ":" sk, seed 0)`.
    #[inline]
    pub(crate) fn hash(&self, sk: &[u8]) -> u64 {
        let len = self.len + sk.len();
        if len < STRIPE { self.short(sk) } else { self.long(sk) }
    }

    /// The hash of a text without a stripe, as most keys are.
    #[inline]
    fn short(&self, sk: &[u8]) -> u64 {
        let hash = self.take_words(self.begin(PRIME_5, sk));
        match sk.split_at_checked(WORD - self.rest_len) {
            Some((head, behind)) => end(take_word(hash, self.seam(sk, head)), sk, behind),
            None => self.end_in_seam(hash, sk),
        }
    }

    /// The hash of a text with a stripe or more.
    fn long(&self, sk: &[u8]) -> u64 {
        let Some((head, behind)) = sk.split_at_checked(WORD - self.rest_len) else {
            return self.end_in_seam(self.take_words(self.begin(self.lanes.merged(), sk)), sk);
        };
        let seam = self.seam(sk, head);
        // The words that are still to come of the stripe in which the parts meet.
        let Some((few, behind)) = behind.split_at_checked(WORD * (3 - self.whole)) else {
            let hash = self.take_words(self.begin(self.lanes.merged(), sk));
            return end(take_word(hash, seam), sk, behind);
        };
        let (few, _) = few.as_chunks::<WORD>();
        let next = |place: usize| few.get(place).map_or(0, |word| u64::from_le_bytes(*word));
        let [one, two, three] = self.words;
        let mut lanes = self.lanes;
        lanes.take_words(match self.whole {
            0 => [seam, next(0), next(1), next(2)],
            1 => [one, seam, next(0), next(1)],
            2 => [one, two, seam, next(0)],
            _ => [one, two, three, seam],
        });
        let (stripes, behind) = behind.as_chunks::<STRIPE>();
        for stripe in stripes {
            lanes.take(stripe);
        }
        end(self.begin(lanes.merged(), sk), sk, behind)
    }

    fn begin(&self, hash: u64, sk: &[u8]) -> u64 {
        hash.wrapping_add(u64::try_from(self.len + sk.len()).unwrap_or(u64::MAX))
    }

    /// Takes in the words behind the last stripe. Written out, since a loop over so few takes longer.
    #[inline]
    fn take_words(&self, mut hash: u64) -> u64 {
        let [one, two, three] = self.words;
        if self.whole > 0 {
            hash = take_word(hash, one);
        }
        if self.whole > 1 {
            hash = take_word(hash, two);
        }
        if self.whole > 2 {
            hash = take_word(hash, three);
        }
        hash
    }

    /// The word in which the parts meet, of whose second part `head` is in it.
    #[inline]
    fn seam(&self, sk: &[u8], head: &[u8]) -> u64 {
        let head = sk.first_chunk().map_or_else(|| few(head), |word| u64::from_le_bytes(*word));
        self.rest | head << (8 * self.rest_len)
    }

    /// The hash of a text that ends before that word does.
    #[inline]
    fn end_in_seam(&self, hash: u64, sk: &[u8]) -> u64 {
        let rest = self.rest | few(sk) << (8 * self.rest_len);
        avalanche(take_bytes(hash, rest, self.rest_len + sk.len()))
    }
}

/// What the stripes of a text have come to: each lane has taken one of their four words.
#[derive(Debug, Clone, Copy)]
struct Lanes([u64; 4]);

impl Lanes {
    const EMPTY: Self =
        Self([PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0_u64.wrapping_sub(PRIME_1)]);

    fn take(&mut self, stripe: &[u8; STRIPE]) {
        self.take_words(words(stripe));
    }

    fn take_words(&mut self, words: [u64; 4]) {
        for (lane, word) in self.0.iter_mut().zip(words) {
            *lane = round(*lane, word);
        }
    }

    fn merged(&self) -> u64 {
        let [one, two, three, four] = self.0;
        let sum = one
            .rotate_left(1)
            .wrapping_add(two.rotate_left(7))
            .wrapping_add(three.rotate_left(12))
            .wrapping_add(four.rotate_left(18));
        self.0.iter().fold(sum, |hash, lane| {
            (hash ^ round(0, *lane)).wrapping_mul(PRIME_1).wrapping_add(PRIME_4)
        })
    }
}

fn words(stripe: &[u8; STRIPE]) -> [u64; 4] {
    let (words, _) = stripe.as_chunks::<WORD>();
    [0, 1, 2, 3].map(|place| words.get(place).map_or(0, |word| u64::from_le_bytes(*word)))
}

const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1)
}

const fn take_word(hash: u64, word: u64) -> u64 {
    (hash ^ round(0, word)).rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4)
}

/// Takes in what is `behind` the last stripe, up to the end of `sk`.
#[inline]
fn end(mut hash: u64, sk: &[u8], behind: &[u8]) -> u64 {
    let (words, rest) = behind.as_chunks::<WORD>();
    for word in words {
        hash = take_word(hash, u64::from_le_bytes(*word));
    }
    let bytes = match sk.last_chunk::<WORD>() {
        _ if rest.is_empty() => 0,
        Some(word) => u64::from_le_bytes(*word) >> (8 * (WORD - rest.len())),
        None => few(rest),
    };
    avalanche(take_bytes(hash, bytes, rest.len()))
}

/// Takes in the last bytes, fewer than a word.
#[inline]
const fn take_bytes(mut hash: u64, mut bytes: u64, mut left: usize) -> u64 {
    if left >= 4 {
        hash ^= (bytes & 0xFFFF_FFFF).wrapping_mul(PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(PRIME_2).wrapping_add(PRIME_3);
        bytes >>= 32;
        left -= 4;
    }
    while left > 0 {
        hash ^= (bytes & 0xFF).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
        bytes >>= 8;
        left -= 1;
    }
    hash
}

const fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

/// A word of fewer bytes than it has, filled up with zeros: from four on of two halves that may overlap, below of the
/// first, the middle and the last byte, which may be the same.
#[inline]
fn few(bytes: &[u8]) -> u64 {
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
            first | last << (8 * (bytes.len() - 4))
        }
        _ if bytes.is_empty() => 0,
        _ => at(0) | at(bytes.len() / 2) | at(bytes.len() - 1),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Xxh64Prefix;

    #[test]
    fn parts_of_every_length_are_hashed_as_one_text() {
        let bytes = (0..=255_u8).map(|byte| byte.wrapping_mul(167)).collect::<Vec<_>>();
        for pk in 0..100 {
            let prefix = Xxh64Prefix::new(&bytes[..pk]);
            for sk in 0..100 {
                let (pk, sk) = (&bytes[..pk], &bytes[100..100 + sk]);
                let expected = xxhash_rust::xxh64::xxh64(&[pk, b":", sk].concat(), 0);
                assert_eq!(prefix.hash(sk), expected, "{pk:?} {sk:?}");
            }
        }
    }
}
