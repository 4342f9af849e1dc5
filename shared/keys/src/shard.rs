//! One shard, and how many there are.

use alloc::string::String;
use core::fmt;
use core::num::NonZeroU32;

use crate::KeyError;

/// The index of one shard of an item collection, as it stands in the physical key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u32);

impl ShardId {
    /// The shard with this index.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Appends the index in decimal digits, in a fraction of the time that the formatter takes: copies whose length the
    /// compiler knows are stores and no calls.
    #[inline]
    pub(crate) fn push_to(self, text: &mut String) {
        let at = |pair: u32| usize::try_from(2 * pair).unwrap_or(0);
        match self.0 {
            index @ 0..10 => {
                let at = at(index) + 1;
                text.push_str(&PAIRS[at..=at]);
            }
            index @ 10..100 => text.push_str(&PAIRS[at(index)..at(index) + 2]),
            // Nearly all shard counts have two digits at most.
            index => {
                Self(index / 100).push_hundreds_to(text);
                let at = at(index % 100);
                text.push_str(&PAIRS[at..at + 2]);
            }
        }
    }

    #[cold]
    fn push_hundreds_to(self, text: &mut String) {
        self.push_to(text);
    }
}

/// The two digits of each number below a hundred.
const PAIRS: &str = "\
    00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657\
    585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many shards an item collection has: 1 to [`ShardCount::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardCount(NonZeroU32);

impl ShardCount {
    /// A new collection's count.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The largest count that any collection may have. At 1,000 write units a shard it stands for
    /// 65 million a second, beyond any table, and a fan-out over more would not end.
    pub const MAX: u32 = 65_536;

    /// Checks the range.
    pub const fn new(count: u32) -> Result<Self, KeyError> {
        match Self::in_range(count) {
            Some(count) => Ok(count),
            None => Err(KeyError::ShardCountOutOfRange { count: count as u64 }),
        }
    }

    /// The count, for constants: `None` for a count out of range.
    pub const fn in_range(count: u32) -> Option<Self> {
        match NonZeroU32::new(count) {
            Some(count) if count.get() <= Self::MAX => Some(Self(count)),
            _ => None,
        }
    }

    /// The count as a number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn an_index_of_one_to_five_digits_is_written_as_the_formatter_does() {
        for index in (0..1_200).chain([9_999, 10_000, 10_203, ShardCount::MAX]) {
            let mut text = String::from("a#~");
            ShardId::new(index).push_to(&mut text);
            assert_eq!(text, format!("a#~{index}"));
        }
    }
}
