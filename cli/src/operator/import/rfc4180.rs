//! What RFC 4180 does not allow in a CSV. The parser reads anything: a quotation mark that is not closed takes in the
//! rows behind it, and text behind a closing one becomes part of the field.

use std::fmt;
use std::io::{self, Read};

/// The most bytes of one record.
const MAX_RECORD_BYTES: u64 = 8_000_000;

/// Hands on what `input` holds, up to the first byte that breaks the grammar of RFC 4180. Lines may end in LF alone,
/// and fields hold any text beside quotation marks, commas and line breaks.
pub(super) struct Checked<R> {
    input: R,
    grammar: Grammar,
    /// What was found, to be reported when what stands before it is handed on.
    fault: Option<Fault>,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, grammar: Grammar::default(), fault: None }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault {
            return Err(io::Error::other(fault.to_string()));
        }
        let read = self.input.read(buffer)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        for (at, byte) in buffer[..read].iter().enumerate() {
            if let Err(fault) = self.grammar.take(*byte) {
                self.fault = Some(fault);
                return if at > 0 { Ok(at) } else { self.read(buffer) };
            }
        }
        if read == 0 {
            self.fault = self.grammar.end().err();
            return if self.fault.is_some() { self.read(buffer) } else { Ok(0) };
        }
        Ok(read)
    }
}

/// What breaks the grammar, and the line on which it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    line: u64,
    what: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} (RFC 4180)", self.line, self.what)
    }
}

const OPEN: &str = "a quotation mark opens a field and is not closed";
const WITHIN: &str = "a quotation mark stands within a field that does not begin with one; the field has to be in \
                      quotation marks, and each mark in it doubled";
const BEHIND: &str =
    "text follows the closing quotation mark of a field; a mark within a field has to be doubled";
const RETURN: &str = "a carriage return stands without a line feed";
const LONG: &str = "the record that begins here takes more than 8,000,000 bytes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    FieldStart,
    Plain,
    Quoted,
    /// Behind a mark in a quoted field: it closes the field, or is the first of two.
    Mark,
    /// Behind a carriage return that may end a line.
    Return,
}

struct Grammar {
    place: Place,
    line: u64,
    /// Where the record, and the last quoted field, began.
    record_line: u64,
    quoted_line: u64,
    record_bytes: u64,
}

impl Default for Grammar {
    fn default() -> Self {
        Self { place: Place::default(), line: 1, record_line: 1, quoted_line: 1, record_bytes: 0 }
    }
}

impl Grammar {
    fn take(&mut self, byte: u8) -> Result<(), Fault> {
        self.record_bytes += 1;
        self.place = match (self.place, byte) {
            (Place::Return, b'\n') => Place::FieldStart,
            (Place::Return, _) => return Err(self.fault(RETURN)),
            (Place::FieldStart, b'"') => {
                self.quoted_line = self.line;
                Place::Quoted
            }
            (Place::Plain, b'"') => return Err(self.fault(WITHIN)),
            (Place::Quoted, b'"') => Place::Mark,
            (Place::Quoted, _) | (Place::Mark, b'"') => Place::Quoted,
            (_, b',' | b'\n') => Place::FieldStart,
            (_, b'\r') => Place::Return,
            (Place::Mark, _) => return Err(self.fault(BEHIND)),
            (Place::FieldStart | Place::Plain, _) => Place::Plain,
        };
        if byte == b'\n' {
            self.line += 1;
            if self.place == Place::FieldStart {
                self.record_line = self.line;
                self.record_bytes = 0;
            }
        }
        match self.record_bytes {
            ..=MAX_RECORD_BYTES => Ok(()),
            _ if self.place == Place::Quoted => Err(Fault { line: self.quoted_line, what: OPEN }),
            _ => Err(Fault { line: self.record_line, what: LONG }),
        }
    }

    /// Whether the file may end here.
    fn end(&self) -> Result<(), Fault> {
        match self.place {
            Place::Quoted => Err(Fault { line: self.quoted_line, what: OPEN }),
            Place::Return => Err(self.fault(RETURN)),
            Place::FieldStart | Place::Plain | Place::Mark => Ok(()),
        }
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault { line: self.line, what }
    }
}

#[cfg(test)]
mod tests {
    use csv::{ReaderBuilder, Terminator, WriterBuilder};
    use proptest::prelude::*;

    use super::*;

    /// Hands out so many bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    fn check(text: &[u8]) -> Result<(), Fault> {
        let mut grammar = Grammar::default();
        text.iter().try_for_each(|byte| grammar.take(*byte)).and_then(|()| grammar.end())
    }

    #[test]
    fn what_the_grammar_does_not_allow_is_refused_with_its_line() {
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
        ] {
            assert_eq!(check(text.as_bytes()), Err(Fault { line, what }), "{text:?}");
        }
        let mut handed_on = Vec::new();
        let refused = Checked::new(&b"a\nb\"c\nd\n"[..]).read_to_end(&mut handed_on);
        assert_eq!(handed_on, b"a\nb", "the rows before it");
        assert!(refused.expect_err("refused").to_string().starts_with("line 2: "));
    }

    #[test]
    fn a_record_without_an_end_is_refused_before_it_fills_the_memory() {
        let long = "x".repeat(8_000_001);
        assert_eq!(check(format!("a\n{long}").as_bytes()), Err(Fault { line: 2, what: LONG }));
        let open = format!("a\n\"x\n{long}");
        assert_eq!(check(open.as_bytes()), Err(Fault { line: 2, what: OPEN }));
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

    fn parse(text: &[u8], step: usize) -> Result<Vec<Vec<String>>, csv::Error> {
        let input = Checked::new(Slowly(text, step));
        let mut reader = ReaderBuilder::new().flexible(true).has_headers(false).from_reader(input);
        let records = reader.records();
        records.map(|record| Ok(record?.iter().map(str::to_owned).collect())).collect()
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
                // The parser passes over blank lines.
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
