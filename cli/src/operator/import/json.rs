//! Rows as lines of JSON: plain, or with DynamoDB's types as in its exports.

use std::io::{self, BufRead, Read};

use dynashard_api::json::{Format, attributes, inner_object, object};
use dynashard_core::Attributes;

use super::row::bad_body;
use crate::operator::Failure;

/// The longest line. An item of 400 KB takes a tenth of that in any form that a program would write.
const MAX_LINE_BYTES: u64 = 8_000_000;

/// The text of a line, or why it cannot be taken.
pub(in crate::operator) type Line<'a> = Result<&'a [u8], Failure>;

/// The lines of a file.
pub(in crate::operator) struct Lines<R> {
    input: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(in crate::operator) fn new(input: R) -> Self {
        Self { input, number: 0, line: Vec::new() }
    }

    /// The next line that is not blank, with its number from 1; `None` at the end.
    pub(in crate::operator) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            self.line.clear();
            let read = (&mut self.input).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let is_whole = self.line.last() == Some(&b'\n');
            if !is_whole && u64::try_from(self.line.len()) == Ok(MAX_LINE_BYTES) {
                self.input.skip_until(b'\n')?;
                let why = format!("the line takes more than {MAX_LINE_BYTES} bytes");
                let code = dynashard_core::Code::ItemTooLarge.as_str();
                return Ok(Some((self.number, Err(Failure { code, detail: why }))));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, Ok(self.line.trim_ascii()))));
            }
        }
    }
}

/// The attributes of a line: `{"Item":{…}}` holds them with DynamoDB's types, and any other object as plain
/// JSON, unless the line is of an export of DynamoDB's.
pub(super) fn attributes_of(line: &[u8], is_export: bool) -> Result<Attributes, Failure> {
    let mut members = object(line)?;
    let item = match (members.len(), members.get("Item")) {
        (1, Some(item)) if item.get().starts_with('{') => members.remove("Item"),
        _ => None,
    };
    match item {
        Some(item) => Ok(attributes(inner_object(item, "Item")?, Format::DynamoDb)?),
        None if is_export => {
            Err(bad_body("the line is not {\"Item\":{…}}, as exports of DynamoDB's have it"))
        }
        None => Ok(attributes(members, Format::Plain)?),
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::AttributeValue;

    use super::*;

    #[test]
    fn lines_are_numbered_and_blank_ones_passed_over() {
        let text = "{\"a\":1}\r\n\n  \n{\"b\":2}\nlast";
        let mut lines = Lines::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().expect("it reads") {
            found.push((number, String::from_utf8(line.expect("short").to_vec()).expect("UTF-8")));
        }
        let expected = [(1, "{\"a\":1}"), (4, "{\"b\":2}"), (5, "last")];
        assert_eq!(found, expected.map(|(number, line)| (number, line.to_owned())));
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_read() {
        let long = usize::try_from(MAX_LINE_BYTES).expect("small") + 10;
        let text = format!("{}\n{{}}\n", "x".repeat(long));
        let mut lines = Lines::new(text.as_bytes());
        let (number, refused) = lines.next().expect("it reads").expect("a line");
        assert_eq!((number, refused.expect_err("too long").code), (1, "item_too_large"));
        let (number, line) = lines.next().expect("it reads").expect("a line");
        assert_eq!((number, line.expect("short")), (2, &b"{}"[..]));
    }

    #[test]
    fn both_kinds_of_json_are_read_and_numbers_keep_their_digits() {
        let digits = "12345678901234567890123456789012345678";
        let number = AttributeValue::Number(digits.parse().expect("a number"));
        let plain = attributes_of(format!("{{\"n\":{digits}}}").as_bytes(), false);
        assert_eq!(plain.expect("attributes")["n"], number);
        let typed =
            format!("{{\"Item\":{{\"n\":{{\"N\":\"{digits}\"}},\"b\":{{\"B\":\"AAE=\"}}}}}}");
        let typed = attributes_of(typed.as_bytes(), true).expect("attributes");
        assert_eq!(typed["n"], number);
        assert_eq!(typed["b"], AttributeValue::Binary(vec![0, 1]));
        let both = attributes_of(b"{\"Item\":{\"a\":1},\"b\":2}", false).expect("attributes");
        assert!(matches!(both["Item"], AttributeValue::Map(_)), "a plain object with two members");
        for (line, is_export) in
            [("{", false), ("[]", false), ("{\"a\":1}", true), ("{\"Item\":{\"a\":1}}", true)]
        {
            let refused = attributes_of(line.as_bytes(), is_export).expect_err(line);
            assert_eq!(refused.code, "bad_body", "{line}");
        }
    }
}
