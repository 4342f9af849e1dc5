//! Whole numbers, as types read them.

use std::borrow::Cow;

use dynashard_keys::Number;

/// The most digits that a whole number of Rust has, and a sign.
const LONGEST: usize = 40;

/// This JSON with its whole numbers written out, as integers read them. The stores shorten those with more than nineteen zeros: an
/// item of such numbers would exceed the largest answer.
pub(crate) fn written_out(json: &str) -> Cow<'_, str> {
    let is_of_number = |char: char| char.is_ascii_digit() || matches!(char, 'e' | '-');
    let mut written = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(char) = json[at..].chars().next() {
        if char == '"' {
            at += string_length(&json[at..]);
        } else if char.is_ascii_digit() || char == '-' {
            let rest = &json[at..];
            let length = rest.find(|char| !is_of_number(char)).unwrap_or(rest.len());
            let number = &rest[..length];
            let plain = number.contains('e').then(|| number.parse::<Number>().ok()).flatten();
            let plain = plain.map(|number| number.to_string());
            if let Some(plain) =
                plain.filter(|plain| plain.len() <= LONGEST && !plain.contains('.'))
            {
                written.push_str(&json[copied..at]);
                written.push_str(&plain);
                copied = at + length;
            }
            at += length;
        } else {
            at += char.len_utf8();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    written.push_str(&json[copied..]);
    Cow::Owned(written)
}

/// The bytes of the string that a text begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `u128` was stored that no client could read back, and a query ended at it.
    #[test]
    fn regression_a_whole_number_with_twenty_zeros_could_not_be_read_back() {
        let big = 100_000_000_000_000_000_000_u128;
        let stored = big.to_string().parse::<Number>().expect("a number").compact().to_string();
        assert_eq!(stored, "1e20");
        assert_eq!(serde_json::from_str::<u128>(&written_out(&stored)).expect("it is one"), big);
        for (json, expected) in [
            (
                r#"{"a":-12e20,"b":[1e20,5]}"#,
                r#"{"a":-1200000000000000000000,"b":[100000000000000000000,5]}"#,
            ),
            (r#"{"1e20":"1e20 \"1e20\\","é":1.5}"#, r#"{"1e20":"1e20 \"1e20\\","é":1.5}"#),
            ("[1e125,5e-130,true,null,0.5]", "[1e125,5e-130,true,null,0.5]"),
        ] {
            assert_eq!(written_out(json), expected);
        }
    }
}
