//! Rows as CSV, and which of its columns hold numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use csv::{ByteRecord, Reader, ReaderBuilder};
use dynashard_core::{AttributeValue, Attributes};
use dynashard_keys::{Number, SortKeyType};

use super::rfc4180::Checked;
use super::row::{Keys, bad_body};
use crate::operator::Failure;

/// The fields of a record that are not empty, each with its column.
pub(in crate::operator) type Fields<'a> = Vec<(&'a str, &'a str)>;

/// The records of a file behind its header line.
pub(in crate::operator) struct Records<R> {
    reader: Reader<Checked<R>>,
    columns: Vec<String>,
    record: ByteRecord,
    /// Whether lines end in CR LF. Of that the parser leaves the LF to the next record.
    is_crlf: bool,
}

impl<R: Read> Records<R> {
    /// Reads the header line.
    pub(in crate::operator) fn new(input: R) -> io::Result<Self> {
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(Checked::new(input));
        let columns = reader.headers().map_err(io_error)?;
        let columns = columns.iter().map(str::to_owned).collect::<Vec<_>>();
        let mut seen = BTreeSet::new();
        for column in &columns {
            let problem = match column.as_str() {
                "" => "a column without a name".to_owned(),
                name if !seen.insert(name) => format!("the column {name:?} twice"),
                _ => continue,
            };
            return Err(io::Error::other(format!("the header line has {problem}")));
        }
        let in_header = columns.iter().map(|column| line_feeds(column.as_bytes())).sum::<u64>();
        let is_crlf = reader.position().line() == 1 + in_header;
        Ok(Self { reader, columns, record: ByteRecord::new(), is_crlf })
    }

    /// The names of the columns.
    pub(in crate::operator) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The next record, with its line; `None` at the end.
    pub(in crate::operator) fn next(
        &mut self,
    ) -> io::Result<Option<(u64, Result<Fields<'_>, Failure>)>> {
        if !self.reader.read_byte_record(&mut self.record).map_err(io_error)? {
            return Ok(None);
        }
        Ok(Some((self.line(), self.fields())))
    }

    /// The line on which the record begins. The parser's own may be one before it: that of the end of the
    /// last record, with blank lines to come.
    fn line(&self) -> u64 {
        let own = self.record.position().map_or(0, csv::Position::line);
        let within = self.record.iter().map(line_feeds).sum::<u64>();
        let end = self.reader.position().line();
        if self.is_crlf {
            (own + 1).max(end.saturating_sub(within))
        } else {
            // The last line may lack its end.
            own.max(end.saturating_sub(within + 1))
        }
    }

    fn fields(&self) -> Result<Fields<'_>, Failure> {
        let (fields, columns) = (self.record.len(), self.columns.len());
        if fields != columns {
            return Err(bad_body(format!(
                "the line has {fields} fields, and the header {columns}"
            )));
        }
        let mut found = Vec::with_capacity(columns);
        for (column, bytes) in self.columns.iter().zip(&self.record) {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| bad_body(format!("the field {column:?} is not UTF-8")))?;
            if !text.is_empty() {
                found.push((column.as_str(), text));
            }
        }
        Ok(found)
    }
}

/// Names of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(pub(super) Vec<String>);

/// Reads names of columns as a line of CSV, so that they may hold commas.
pub(super) fn names_of(text: &str) -> Result<Names, String> {
    let input = Checked::new(text.as_bytes());
    let reader = ReaderBuilder::new().has_headers(false).from_reader(input);
    let records = reader.into_records().collect::<Result<Vec<_>, _>>();
    match &*records.map_err(|error| io_error(error).to_string())? {
        [] => Ok(Names(Vec::new())),
        [names] => Ok(Names(names.iter().map(str::to_owned).collect())),
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
pub(super) fn is_canonical(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.parse::<Number>().is_ok_and(|number| number.to_string() == text)
}

fn line_feeds(field: &[u8]) -> u64 {
    field.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

/// The error of the file behind that of a CSV, with its kind.
pub(in crate::operator) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        csv::ErrorKind::Utf8 { .. } => io::Error::other("the header line is not UTF-8"),
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::TableSchema;

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
            assert_eq!(names_of(&list_of(&names)), Ok(Names(names)));
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
}
