//! Rows as CSV by the grammar of RFC 4180, and which of its columns hold numbers.
//!
//! The grammar is kept strictly, since a parser that reads anything does silent damage: to it a quotation mark that is not
//! closed takes in the rows behind it, and text behind a closing one becomes part of the field. Lines may end in LF alone,
//! and fields hold any text beside quotation marks, commas and line breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use dynashard_core::{AttributeValue, Attributes};
use dynashard_keys::{Number, SortKeyType};

use super::row::{Keys, bad_body};
use crate::operator::Failure;

/// The most bytes of one record.
const MAX_RECORD_BYTES: usize = 8_000_000;

/// The fields of a record that are not empty, each with its column.
pub(in crate::operator) type Fields<'a> = Vec<(&'a str, &'a str)>;

/// The records of a file behind its header line.
pub(in crate::operator) struct Records<R> {
    input: R,
    /// The line that is read next, from 1.
    line: u64,
    /// The text of the last record, field behind field, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    columns: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Plain,
    Quoted,
    /// Behind a mark in a quoted field: it closes the field, or is the first of two.
    Mark,
    /// Behind a carriage return that may end a line.
    Return,
}

const OPEN: &str = "a quotation mark opens a field and is not closed";
const WITHIN: &str = "a quotation mark stands within a field that does not begin with one; the field has to be in \
                      quotation marks, and each mark in it doubled";
const BEHIND: &str =
    "text follows the closing quotation mark of a field; a mark within a field has to be doubled";
const RETURN: &str = "a carriage return stands without a line feed";
const LONG: &str = "the record that begins here takes more than 8,000,000 bytes";

impl<R: BufRead> Records<R> {
    /// Reads the header line.
    pub(in crate::operator) fn new(input: R) -> io::Result<Self> {
        let mut records = Self::headless(input);
        records.read()?;
        let columns = records.fields().map(|field| String::from_utf8(field.to_vec()));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|_| io::Error::other("the header line is not UTF-8"))?;
        let mut seen = BTreeSet::new();
        for column in &columns {
            let problem = match column.as_str() {
                "" => "a column without a name".to_owned(),
                name if !seen.insert(name) => format!("the column {name:?} twice"),
                _ => continue,
            };
            return Err(io::Error::other(format!("the header line has {problem}")));
        }
        Ok(Self { columns, ..records })
    }

    fn headless(input: R) -> Self {
        Self { input, line: 1, text: Vec::new(), ends: Vec::new(), columns: Vec::new() }
    }

    /// The names of the columns.
    pub(in crate::operator) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The next record, with the line on which it begins; `None` at the end.
    pub(in crate::operator) fn next(
        &mut self,
    ) -> io::Result<Option<(u64, Result<Fields<'_>, Failure>)>> {
        let line = self.read()?;
        Ok(line.map(|line| (line, self.named_fields())))
    }

    fn named_fields(&self) -> Result<Fields<'_>, Failure> {
        let (fields, columns) = (self.ends.len(), self.columns.len());
        if fields != columns {
            let why = format!("the line has {fields} fields, and the header {columns}");
            return Err(bad_body(why));
        }
        let named = self.columns.iter().zip(self.fields());
        let named = named.filter(|(_, field)| !field.is_empty()).map(|(column, field)| {
            let text = std::str::from_utf8(field)
                .map_err(|_| bad_body(format!("the field {column:?} is not UTF-8")))?;
            Ok((column.as_str(), text))
        });
        named.collect()
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| &self.text[*begin..*end])
    }

    /// Reads the next record that is not a blank line, and returns the line on which it begins; `None` at the end.
    fn read(&mut self) -> io::Result<Option<u64>> {
        loop {
            let begin = self.line;
            match self.record()? {
                Some(is_blank) if is_blank => {}
                read => return Ok(read.map(|_| begin)),
            }
        }
    }

    /// Reads a record, and returns whether it is a blank line.
    fn record(&mut self) -> io::Result<Option<bool>> {
        self.text.clear();
        self.ends.clear();
        let (begin, mut quoted_at) = (self.line, self.line);
        let (mut place, mut taken) = (Place::FieldStart, 0);
        loop {
            let ahead = self.input.fill_buf()?;
            if ahead.is_empty() {
                match place {
                    Place::Quoted => return Err(fault(quoted_at, OPEN)),
                    Place::Return => return Err(fault(self.line, RETURN)),
                    _ if taken == 0 => return Ok(None),
                    _ => {}
                }
                self.ends.push(self.text.len());
                return Ok(Some(false));
            }
            for (at, byte) in ahead.iter().enumerate() {
                taken += 1;
                place = match (place, byte) {
                    (Place::Return | Place::FieldStart | Place::Plain | Place::Mark, b'\n') => {
                        self.line += 1;
                        self.ends.push(self.text.len());
                        self.input.consume(at + 1);
                        return Ok(Some(taken == 1 || (taken == 2 && place == Place::Return)));
                    }
                    (Place::Return, _) => return Err(fault(self.line, RETURN)),
                    (Place::FieldStart, b'"') => {
                        quoted_at = self.line;
                        Place::Quoted
                    }
                    (Place::Plain, b'"') => return Err(fault(self.line, WITHIN)),
                    (Place::Quoted, b'"') => Place::Mark,
                    (Place::Quoted, _) | (Place::Mark, b'"') => {
                        self.line += u64::from(*byte == b'\n');
                        self.text.push(*byte);
                        Place::Quoted
                    }
                    (_, b',') => {
                        self.ends.push(self.text.len());
                        Place::FieldStart
                    }
                    (_, b'\r') => Place::Return,
                    (Place::Mark, _) => return Err(fault(self.line, BEHIND)),
                    (Place::FieldStart | Place::Plain, _) => {
                        self.text.push(*byte);
                        Place::Plain
                    }
                };
                if taken > MAX_RECORD_BYTES {
                    let is_open = place == Place::Quoted;
                    return Err(if is_open { fault(quoted_at, OPEN) } else { fault(begin, LONG) });
                }
            }
            let read = ahead.len();
            self.input.consume(read);
        }
    }
}

/// What breaks the grammar, and the line on which it stands.
fn fault(line: u64, what: &str) -> io::Error {
    io::Error::other(format!("line {line}: {what} (RFC 4180)"))
}

/// Reads names of columns as a line of CSV, so that they may hold commas.
pub(super) fn names_of(text: &str) -> Result<BTreeSet<String>, String> {
    let mut records = Records::headless(text.as_bytes());
    records.read().map_err(|error| error.to_string())?;
    let names = records.fields().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    match records.read() {
        Ok(None) => Ok(names),
        _ => Err("they take more than one line".to_owned()),
    }
}

/// Names of columns as they are read by [`names_of`].
pub(in crate::operator) fn list_of(names: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Neither a name nor memory fails to be written.
    let written = writer.write_record(names).is_ok();
    let bytes = writer.into_inner().ok().filter(|_| written && !names.is_empty());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    text.strip_suffix('\n').unwrap_or(&text).to_owned()
}

/// The attributes of a record. Those of `numbers` are numbers, and so is the sort key if the table's is.
pub(super) fn attributes_of(
    fields: &[(&str, &str)],
    numbers: &BTreeSet<String>,
    keys: &Keys,
) -> Result<Attributes, Failure> {
    let is_number = |column: &str| {
        if column == keys.partition {
            false
        } else if column == keys.sort {
            keys.schema.sort_key_type == SortKeyType::Number
        } else {
            numbers.contains(column)
        }
    };
    let value = |column: &str, text: &str| {
        if !is_number(column) {
            return Ok(AttributeValue::String(text.to_owned()));
        }
        text.parse::<Number>()
            .map(AttributeValue::Number)
            .map_err(|e| bad_body(format!("the field {column:?} is not a number: {e}")))
    };
    fields.iter().map(|(column, text)| Ok(((*column).to_owned(), value(column, text)?))).collect()
}

/// Finds out which columns hold nothing but numbers, each as it would be written again: `517` and `-0.5`,
/// and not `007`, `1.50` or `1e5`. So nothing that was read as a number has lost a digit or a zero.
#[derive(Debug, Default)]
pub(super) struct Inference(BTreeMap<String, bool>);

impl Inference {
    pub(super) fn see(&mut self, fields: &[(&str, &str)]) {
        for (column, text) in fields {
            match self.0.get_mut(*column) {
                Some(are_numbers) => *are_numbers = *are_numbers && is_canonical(text),
                None => {
                    self.0.insert((*column).to_owned(), is_canonical(text));
                }
            }
        }
    }

    pub(super) fn numbers(self) -> BTreeSet<String> {
        self.0.into_iter().filter(|(_, are_numbers)| *are_numbers).map(|(name, _)| name).collect()
    }
}

/// Whether a text is a number, written as it is written again.
fn is_canonical(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.parse::<Number>().is_ok_and(|number| number.to_string() == text)
}

/// The error of the file behind that of a CSV that is written, with its kind.
pub(in crate::operator) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use csv::{Terminator, WriterBuilder};
    use dynashard_core::TableSchema;
    use proptest::prelude::*;

    use super::*;

    fn keys(sort_key_type: SortKeyType) -> Keys {
        let schema = TableSchema { sort_key_type, ..TableSchema::default() };
        Keys { partition: "origin".to_owned(), sort: "sk".to_owned(), schema }
    }

    type Pairs = Result<Vec<(String, String)>, &'static str>;

    fn read(text: &str) -> Vec<(u64, Pairs)> {
        let mut records = Records::new(text.as_bytes()).expect("a header");
        let mut found = Vec::new();
        while let Some((line, fields)) = records.next().expect("it reads") {
            let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
            let fields = fields.map(|fields| fields.into_iter().map(owned).collect());
            found.push((line, fields.map_err(|refused| refused.code)));
        }
        found
    }

    #[test]
    fn records_come_with_their_lines_and_without_empty_fields() {
        let rows = read("a,b\n1,\n\"x\ny\",z\n,\n1,2,3\n");
        let pairs = |pairs: &[(&str, &str)]| {
            Ok(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
        };
        assert_eq!(
            rows,
            [
                (2, pairs(&[("a", "1")])),
                (3, pairs(&[("a", "x\ny"), ("b", "z")])),
                (5, pairs(&[])),
                (6, Err("bad_body")),
            ]
        );
    }

    /// With CR LF each line was one too low, and behind a blank line in any case.
    #[test]
    fn regression_lines_were_one_too_low() {
        let text = "a,b\n1,2\n\n3,4\n\"x\ny\",5\n6,7";
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let lines = read(&text).into_iter().map(|(line, _)| line);
            assert_eq!(lines.collect::<Vec<_>>(), [2, 4, 5, 7], "{text:?}");
        }
    }

    #[test]
    fn a_header_names_each_column_once_and_a_quotation_mark_is_closed() {
        for text in ["a,a\n1,2\n", "a,\n1,2\n"] {
            assert!(Records::new(text.as_bytes()).is_err(), "{text}");
        }
        let open = "a,b\nK,\"5 inch\nK,\"\"ok\n";
        let mut records = Records::new(open.as_bytes()).expect("a header");
        assert!(records.next().expect_err("open").to_string().contains("line 2: a quotation mark"));
    }

    /// Hands out so many bytes at a time.
    fn slowly(text: &[u8], step: usize) -> impl BufRead {
        io::BufReader::with_capacity(step, text)
    }

    fn parse(text: &[u8], step: usize) -> io::Result<Vec<Vec<String>>> {
        let mut parser = Records::headless(slowly(text, step));
        let mut records = Vec::new();
        while parser.read()?.is_some() {
            let fields = parser.fields().map(|field| String::from_utf8_lossy(field).into_owned());
            records.push(fields.collect());
        }
        Ok(records)
    }

    #[test]
    fn what_the_grammar_does_not_allow_is_refused_with_its_line() {
        let long = "x".repeat(8_000_001);
        for (text, line, what) in [
            ("a,b\nK,\"5 inch\nK,ok\nK,\"7 inch\nK,fine\n", 4, BEHIND),
            ("a,b\nK,ok\nK,\"cut he", 3, OPEN),
            ("a,b\nK,\"\n\n\n", 2, OPEN),
            ("a,b\nK,\"5\\\" inch\"\n", 2, BEHIND),
            ("a,b\nK,'5\" inch'\n", 2, WITHIN),
            ("a,b\nK, \"5 inch\"\n", 2, WITHIN),
            ("a,b\nK,\"5 inch\" \n", 2, BEHIND),
            ("a,b\rK,1\r", 1, RETURN),
            ("a,b\r\nK,1\r", 2, RETURN),
            ("\"", 1, OPEN),
            // Before it fills the memory.
            (&format!("a\n{long}"), 2, LONG),
            (&format!("a\n\"x\n{long}"), 2, OPEN),
        ] {
            let refused = parse(text.as_bytes(), 4_096).expect_err("refused").to_string();
            assert_eq!(refused, fault(line, what).to_string());
        }
    }

    #[test]
    fn a_blank_line_is_passed_over_and_an_empty_field_is_not() {
        let found = parse(b"a\n\n\r\n\"\"\nb\n", 3).expect("it is CSV");
        assert_eq!(found, [["a"], [""], ["b"]]);
    }

    #[test]
    fn a_column_holds_numbers_if_none_of_them_would_be_written_differently() {
        let mut inference = Inference::default();
        for (flight, zip, ratio, tail) in [
            ("1545", "10001", "0.5", "N14228"),
            ("-3", "02134", "12", "7"),
            ("12345678901234567890123456789012345678", "10002", "1.50", "8"),
        ] {
            inference.see(&[("flight", flight), ("zip", zip), ("ratio", ratio), ("tail", tail)]);
        }
        inference.see(&[("late", "3")]);
        let expected = ["flight", "late"].map(str::to_owned);
        assert_eq!(inference.numbers(), BTreeSet::from(expected));
        for text in ["", "-", "+1", "1e5", "-0", "01", ".5", "5.", "NaN", "١", &"1".repeat(39)] {
            assert!(!is_canonical(text), "{text}");
        }
    }

    /// A column whose name holds a comma was two.
    #[test]
    fn regression_a_list_of_columns_was_split_at_each_comma() {
        for names in [&[][..], &["n"], &["a,b", "c", "say \"x\"", " d "], &["two\nlines", "-x"]] {
            let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            assert_eq!(names_of(&list_of(&names)), Ok(names.into_iter().collect()));
        }
        assert!(names_of("a\nb").is_err() && names_of("\"a").is_err());
    }

    #[test]
    fn the_key_has_the_types_of_the_table() {
        let numbers = BTreeSet::from(["origin", "flight"].map(str::to_owned));
        let fields = [("origin", "1"), ("sk", "2"), ("flight", "3"), ("dest", "4")];
        let string = |text: &str| AttributeValue::String(text.to_owned());
        let number = |text: &str| AttributeValue::Number(text.parse().expect("a number"));
        let of = |sort_key_type| attributes_of(&fields, &numbers, &keys(sort_key_type));
        let attributes = of(SortKeyType::String).expect("attributes");
        assert_eq!((&attributes["origin"], &attributes["sk"]), (&string("1"), &string("2")));
        assert_eq!((&attributes["flight"], &attributes["dest"]), (&number("3"), &string("4")));
        assert_eq!(of(SortKeyType::Number).expect("attributes")["sk"], number("2"));
        let bad = attributes_of(&[("flight", "x")], &numbers, &keys(SortKeyType::String));
        assert_eq!(bad.expect_err("refused").code, "bad_body");
    }

    /// The grammar of RFC 4180, section 2, read off as it stands there, and what it makes of a text.
    fn reference(text: &str) -> Option<Vec<Vec<String>>> {
        let (mut records, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let mut fields = Vec::new();
            loop {
                let (field, behind) = reference_field(rest)?;
                fields.push(field);
                rest = behind;
                match rest.strip_prefix(',') {
                    Some(behind) => rest = behind,
                    None => break,
                }
            }
            if !rest.is_empty() {
                rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
            }
            records.push(fields);
        }
        Some(records)
    }

    fn reference_field(text: &str) -> Option<(String, &str)> {
        let Some(mut rest) = text.strip_prefix('"') else {
            let end = text.find(['"', ',', '\r', '\n']).unwrap_or(text.len());
            return Some((text[..end].to_owned(), &text[end..]));
        };
        let mut field = String::new();
        loop {
            let (before, behind) = rest.split_once('"')?;
            field.push_str(before);
            match behind.strip_prefix('"') {
                Some(behind) => {
                    field.push('"');
                    rest = behind;
                }
                None => return Some((field, behind)),
            }
        }
    }

    proptest! {
        #[test]
        fn what_the_grammar_allows_is_read_as_it_says(
            text in "[ab,\"\r\n]{0,24}",
            step in 1_usize..9,
        ) {
            let expected = reference(&text);
            let found = parse(text.as_bytes(), step);
            prop_assert_eq!(found.is_ok(), expected.is_some(), "{:?}", found);
            if let (Ok(found), Some(mut expected)) = (found, expected) {
                // The parser passes over blank lines, which the reference takes for an empty field.
                expected.retain(|fields| fields.len() > 1 || !fields[0].is_empty());
                let is_blank = |fields: &Vec<String>| fields.len() == 1 && fields[0].is_empty();
                let found = found.into_iter().filter(|fields| !is_blank(fields));
                prop_assert_eq!(found.collect::<Vec<_>>(), expected);
            }
        }

        #[test]
        fn whatever_the_csv_crate_writes_is_taken(
            records in prop::collection::vec(prop::collection::vec("\\PC{0,5}|[a,\"\r\n]{0,5}", 2..4), 0..5),
            is_crlf: bool,
            step in 1_usize..9,
        ) {
            let terminator = if is_crlf { Terminator::CRLF } else { Terminator::Any(b'\n') };
            let mut writer =
                WriterBuilder::new().flexible(true).terminator(terminator).from_writer(Vec::new());
            for record in &records {
                writer.write_record(record).expect("it writes");
            }
            let text = writer.into_inner().expect("it writes");
            prop_assert_eq!(parse(&text, step).expect("it is CSV"), records);
        }
    }
}
