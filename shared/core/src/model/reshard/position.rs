//! How much of a shard lies behind a sort key, as an estimate.

use std::ops::RangeInclusive;

use dynashard_keys::SortKey;

/// How much of the way from the first to the last sort key of a shard lies behind `at`, from 0 to 1,
/// if items are spread evenly over it.
///
/// What a shard holds in all nobody knows without reading it, so this is what an estimate of the time
/// left can rest on. It is good for numbers, times and random identifiers, and rough for words.
pub(crate) fn share_behind([first, last]: &[SortKey; 2], at: &SortKey) -> f64 {
    let [first, last, at] = match [first, last, at] {
        [SortKey::String(first), SortKey::String(last), SortKey::String(at)] => {
            places([first.as_bytes(), last.as_bytes(), at.as_bytes()])
        }
        keys => keys.map(|key| key.to_string().parse().unwrap_or(0.0)),
    };
    if last > first { ((at - first) / (last - first)).clamp(0.0, 1.0) } else { 0.0 }
}

/// What characters come in at one place of several keys. As one place of a number counts ten digits
/// and no more, a place counts only what it may hold.
const ALPHABETS: [&[RangeInclusive<u8>]; 7] = [
    &[b'0'..=b'9'],
    &[b'0'..=b'9', b'a'..=b'f'],
    &[b'0'..=b'9', b'A'..=b'F'],
    &[b'0'..=b'9', b'a'..=b'z'],
    &[b'0'..=b'9', b'A'..=b'Z'],
    &[b' '..=b'~'],
    &[0..=u8::MAX],
];

/// Beyond this no place tells two keys apart that differed at an earlier one.
const FINEST: f64 = 1e-12;

/// The keys as fractions whose places are their bytes, each counted in the smallest alphabet that
/// holds it, from the first place on at which any two differ.
fn places(keys: [&[u8]; 3]) -> [f64; 3] {
    let mut fractions = [0.0; 3];
    let mut place = 1.0;
    for n in 0..keys.iter().map(|key| key.len()).max().unwrap_or(0) {
        let bytes = keys.map(|key| key.get(n).copied());
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            continue;
        }
        let holds_all = |alphabet: &&&[RangeInclusive<u8>]| {
            bytes.iter().flatten().all(|byte| rank(*byte, alphabet).is_some())
        };
        let Some(alphabet) = ALPHABETS.iter().find(holds_all) else {
            continue;
        };
        // A key that has ended comes before all that go on.
        let ended = if bytes.contains(&None) { 1.0 } else { 0.0 };
        place /= alphabet.iter().map(size).sum::<f64>() + ended;
        for (fraction, byte) in fractions.iter_mut().zip(bytes) {
            let rank = byte.and_then(|byte| rank(byte, alphabet));
            *fraction += place * rank.map_or(0.0, |rank| rank + ended);
        }
        if place < FINEST {
            break;
        }
    }
    fractions
}

/// How many characters of the alphabet come before this one.
fn rank(byte: u8, alphabet: &[RangeInclusive<u8>]) -> Option<f64> {
    let mut before = 0.0;
    for range in alphabet {
        if range.contains(&byte) {
            return Some(before + f64::from(byte - range.start()));
        }
        before += size(range);
    }
    None
}

fn size(range: &RangeInclusive<u8>) -> f64 {
    f64::from(range.end() - range.start()) + 1.0
}

#[cfg(test)]
mod tests {
    use dynashard_keys::SortKeyType;
    use proptest::prelude::*;

    use super::*;

    fn keys<const N: usize>(texts: [&str; N], r#type: SortKeyType) -> [SortKey; N] {
        texts.map(|text| SortKey::parse(text, r#type).expect("a sort key"))
    }

    fn of_strings(texts: [&str; 3]) -> f64 {
        let [first, last, at] = keys(texts, SortKeyType::String);
        share_behind(&[first, last], &at)
    }

    #[test]
    fn numbers_times_and_identifiers_are_told_by_their_place() {
        for (texts, share) in [
            (["00000000", "00001999", "00000500"], 0.25),
            (["00000000", "00001999", "00000999"], 0.5),
            (["00000000", "00001999", "00001000"], 0.5),
            (["2013-01-01T00:00", "2013-01-01T23:59", "2013-01-01T11:59"], 0.5),
            (["00ae", "ffb3", "8000"], 0.5),
            (["a", "y", "m"], 0.5),
            (["a", "a", "a"], 0.0),
        ] {
            let found = of_strings(texts);
            assert!((found - share).abs() < 0.02, "{texts:?}: {found}");
        }
        for (texts, share) in [(["-10", "30", "0"], 0.25), (["1", "9E+40", "4.5E+40"], 0.5)] {
            let [first, last, at] = keys(texts, SortKeyType::Number);
            let found = share_behind(&[first, last], &at);
            assert!((found - share).abs() < 0.001, "{texts:?}: {found}");
        }
    }

    proptest! {
        #[test]
        fn a_share_is_one_whatever_the_keys(texts in prop::array::uniform3("[ -~é]{1,12}")) {
            let share = of_strings(texts.each_ref().map(String::as_str));
            prop_assert!((0.0..=1.0).contains(&share), "{share}");
        }

        #[test]
        fn numbers_of_equal_length_are_told_exactly(n in 0..1_000_000_u32) {
            let at = format!("{n:06}");
            let found = of_strings(["000000", "999999", &at]);
            prop_assert!((found - f64::from(n) / 999_999.0).abs() < 1e-6, "{found}");
        }
    }
}
