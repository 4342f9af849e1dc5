//! Numbers as DynamoDB has them.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use crate::KeyError;

/// A decimal number as DynamoDB stores one: up to 38 significant digits, a magnitude of 1E-130 to
/// 9.99...E+125, or zero. It never passes through a float.
///
/// Equal numbers are equal however they were written: `1`, `1.0`, `+01` and `10e-1` are one value
/// with one text, `1`. The text is plain decimal notation, is what number sort keys are hashed by,
/// and must be kept stable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Number {
    negative: bool,
    /// The exponent of the first digit: the value is `d.ddd * 10^exponent`. Zero for zero.
    exponent: i32,
    /// The significant digits in ASCII, without leading and trailing zeros. Empty for zero.
    digits: String,
}

impl Number {
    /// The significant digits that DynamoDB keeps.
    pub const MAX_DIGITS: usize = 38;
    /// The longest text: a sign, a zero and a point, 129 zeros and the digits.
    pub(crate) const MAX_TEXT: usize = 3 + 129 + Self::MAX_DIGITS;
    const MIN_EXPONENT: i64 = -130;
    const MAX_EXPONENT: i64 = 125;
    /// The zeros that [`Number::compact`] writes out, so that every `u64` is plain digits.
    const MAX_PADDING: i32 = 19;

    /// The number for where its length counts: in plain notation, or as whole digits and an
    /// exponent where zeros and point would take more than 19 characters. DynamoDB keeps `1e125`
    /// in two bytes.
    pub fn compact(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            let last_exponent = self.last_exponent();
            let padding = if self.exponent < 0 { 1 - self.exponent } else { last_exponent };
            if padding <= Self::MAX_PADDING {
                return fmt::Display::fmt(self, f);
            }
            let sign = if self.negative { "-" } else { "" };
            write!(f, "{sign}{}e{last_exponent}", self.digits)
        })
    }

    /// What the number takes in an item, in bytes: a byte for every two significant digits and one
    /// more, and one for a sign (AWS, "DynamoDB item sizes and formats").
    pub fn stored_bytes(&self) -> usize {
        if self.digits.is_empty() {
            return 1;
        }
        // DynamoDB packs digits in pairs that are aligned to the decimal point, so a number that
        // begins or ends in half a pair takes one byte more.
        let pairs = self.exponent.div_euclid(2) - self.last_exponent().div_euclid(2) + 1;
        usize::try_from(pairs).unwrap_or(0) + 1 + usize::from(self.negative)
    }

    /// The exponent of the last digit.
    fn last_exponent(&self) -> i32 {
        self.exponent - to_i32(self.digits.len()) + 1
    }
}

impl FromStr for Number {
    type Err = KeyError;

    /// Takes what JSON and DynamoDB both take: a sign, digits with or without a point, an exponent.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let not_a_number = || KeyError::NotANumber { text: excerpt(text) };
        let out_of_range = || KeyError::NumberOutOfRange { text: excerpt(text) };

        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(not_a_number());
        }
        if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return Err(not_a_number());
        }
        let shift = match exponent {
            None => 0,
            Some(exponent) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(not_a_number());
                }
                // Whatever does not fit an i64 is far out of range; only zero may carry it.
                exponent.parse::<i64>().unwrap_or(i64::from(i32::MAX))
            }
        };

        let all = format!("{whole}{fraction}");
        let leading_zeros = all.len() - all.trim_start_matches('0').len();
        let digits = all.trim_matches('0');
        if digits.is_empty() {
            return Ok(Self { negative: false, exponent: 0, digits: String::new() });
        }
        if digits.len() > Self::MAX_DIGITS {
            return Err(KeyError::TooManyDigits { digits: digits.len() });
        }
        let first_digit = to_i64(whole.len()) - 1 - to_i64(leading_zeros);
        let exponent = first_digit.checked_add(shift).ok_or_else(out_of_range)?;
        if !(Self::MIN_EXPONENT..=Self::MAX_EXPONENT).contains(&exponent) {
            return Err(out_of_range());
        }
        let exponent = i32::try_from(exponent).map_err(|_| out_of_range())?;
        Ok(Self { negative, exponent, digits: digits.to_owned() })
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        let text = value.to_string();
        let digits = text.trim_end_matches('0');
        let exponent = if digits.is_empty() { 0 } else { to_i32(text.len()) - 1 };
        Self { negative: false, exponent, digits: digits.to_owned() }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let zeros = |f: &mut fmt::Formatter<'_>, count: usize| {
            (0..count).try_for_each(|_| f.write_str("0"))
        };
        let Ok(exponent) = usize::try_from(self.exponent) else {
            f.write_str("0.")?;
            zeros(f, usize::try_from(-self.exponent - 1).unwrap_or(0))?;
            return f.write_str(&self.digits);
        };
        let whole = exponent + 1;
        if self.digits.len() <= whole {
            f.write_str(&self.digits)?;
            return zeros(f, whole - self.digits.len());
        }
        let (whole, fraction) = self.digits.split_at(whole);
        write!(f, "{whole}.{fraction}")
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |n: &Self| match (n.digits.is_empty(), n.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        // Without trailing zeros the order of the digit strings is the order of the fractions.
        let magnitude =
            |a: &Self, b: &Self| a.exponent.cmp(&b.exponent).then_with(|| a.digits.cmp(&b.digits));
        match (sign(self), sign(other)) {
            (-1, -1) => magnitude(other, self),
            (1, 1) => magnitude(self, other),
            (a, b) => a.cmp(&b),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Enough of a bad text to recognise it, and no more: it goes into error messages.
fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    if text.chars().count() <= CHARS {
        return text.to_owned();
    }
    text.chars().take(CHARS).chain(['…']).collect()
}

/// Lengths here are those of texts that passed through a request of a few megabytes.
fn to_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn to_i32(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn one_value_has_one_text() {
        for (text, canonical) in [
            ("0", "0"),
            ("-0.00e9", "0"),
            ("0e99999999999999999999", "0"),
            ("1", "1"),
            ("1.0", "1"),
            ("+01", "1"),
            ("10e-1", "1"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-12.340", "-12.34"),
            ("1e3", "1000"),
            ("120", "120"),
            ("1e-3", "0.001"),
            ("0.0001200", "0.00012"),
            ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ] {
            assert_eq!(number(text).to_string(), canonical, "{text}");
        }
        assert_eq!(number("1e125").to_string().len(), 126);
        assert_eq!(number("1e-130").to_string().len(), 132);
    }

    #[test]
    fn the_compact_text_has_an_exponent_in_place_of_many_zeros() {
        for (text, compact) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("1e19", "10000000000000000000"),
            ("-1.5e20", "-150000000000000000000"),
            ("1e20", "1e20"),
            ("-1.5e21", "-15e20"),
            ("9e125", "9e125"),
            ("1e-18", "0.000000000000000001"),
            ("1e-19", "1e-19"),
            ("-1.5e-19", "-15e-20"),
            ("1e-130", "1e-130"),
            ("0.5", "0.5"),
            ("12345678901234567890.5", "12345678901234567890.5"),
        ] {
            assert_eq!(number(text).compact().to_string(), compact, "{text}");
        }
        let digits = "1".repeat(38);
        assert_eq!(number(&digits).compact().to_string(), digits);
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "NaN", "Infinity", "0x1", "1,0", "1 ", "--1", "1.2.3",
            "١",
        ] {
            assert!(matches!(text.parse::<Number>(), Err(KeyError::NotANumber { .. })), "{text}");
        }
        let digits = "1".repeat(39);
        assert_eq!(digits.parse::<Number>(), Err(KeyError::TooManyDigits { digits: 39 }));
        for text in ["1e126", "1e-131", "-1e126", "1e99999999999999999999"] {
            assert!(
                matches!(text.parse::<Number>(), Err(KeyError::NumberOutOfRange { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn order_is_numeric() {
        let ascending = [
            "-1e125", "-100", "-99.5", "-1", "-0.1", "-1e-130", "0", "1e-130", "0.5", "1", "1.5",
            "2", "9", "10", "1e125",
        ];
        for pair in ascending.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn size_follows_the_digit_pairs() {
        for (text, bytes) in [
            ("0", 1),
            ("1", 2),
            ("12", 2),
            ("123", 3),
            ("-1", 3),
            ("100", 2),
            ("0.1", 2),
            ("1.5", 3),
        ] {
            assert_eq!(number(text).stored_bytes(), bytes, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_text_is_a_fixed_point(value in "[-+]?[0-9]{1,20}(\\.[0-9]{0,15})?([eE][-+]?[0-9]{1,2})?") {
            let once = number(&value);
            proptest::prop_assert_eq!(number(&once.to_string()), once.clone());
            proptest::prop_assert_eq!(number(&once.compact().to_string()), once);
        }

        #[test]
        fn integers_keep_their_value_and_order(a in proptest::num::u64::ANY, b in proptest::num::u64::ANY) {
            proptest::prop_assert_eq!(Number::from(a).to_string(), a.to_string());
            proptest::prop_assert_eq!(Number::from(a), number(&a.to_string()));
            proptest::prop_assert_eq!(Number::from(a).cmp(&Number::from(b)), a.cmp(&b));
        }
    }
}
