//! Items as the lines of a file.

use std::collections::BTreeMap;
use std::io::{self, Write};

use csv::Writer;
use dynashard_api::json::{AttributesJson, Format as JsonFormat};
use dynashard_core::{AttributeValue, Attributes, TableSchema};
use serde::Serialize;

use crate::operator::import::io_error;

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::operator) enum Format {
    /// Plain JSON, one object a line. Binary values become base64, sets become arrays.
    JsonLines,
    /// A header line and a line for each item. Holds strings and numbers only.
    Csv,
    /// {"Item":{...}} with DynamoDB's types, as its own exports have it. Holds everything.
    DynamodbJson,
}

/// What a column of a CSV holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Column {
    has_numbers: bool,
    has_others: bool,
}

/// The columns of a CSV, which are known when every item was seen once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::operator) struct Columns(BTreeMap<String, Column>);

impl Columns {
    /// Takes note of an item.
    pub(super) fn see(&mut self, item: &Attributes) {
        for (name, value) in item {
            let column = self.0.entry(name.clone()).or_default();
            let is_number = matches!(value, AttributeValue::Number(_));
            column.has_numbers |= is_number;
            column.has_others |= !is_number;
        }
    }

    /// Those that hold nothing but numbers, which an import has to be told.
    pub(super) fn numbers(&self, schema: &TableSchema) -> Vec<String> {
        let is_key = |name: &str| name == schema.partition_key_name || name == schema.sort_key_name;
        let numbers = self
            .0
            .iter()
            .filter(|(name, column)| column.has_numbers && !column.has_others && !is_key(name));
        numbers.map(|(name, _)| name.clone()).collect()
    }

    /// The header: the key, then the others by name.
    fn header(&self, schema: &TableSchema) -> Vec<String> {
        let keys = [schema.partition_key_name.clone(), schema.sort_key_name.clone()];
        let others = self.0.keys().filter(|name| !keys.contains(name)).cloned();
        keys.iter().cloned().chain(others).collect()
    }
}

/// Writes items as lines.
pub(in crate::operator) struct Lines<W: Write> {
    form: Form<W>,
    changed: u64,
}

enum Form<W: Write> {
    Json(W),
    DynamoDb(W),
    Csv { writer: Box<Writer<W>>, header: Vec<String>, columns: Columns },
}

impl<W: Write> Lines<W> {
    /// Begins a file. Only a CSV needs its columns.
    pub(in crate::operator) fn begin(
        format: Format,
        columns: Columns,
        schema: &TableSchema,
        sink: W,
    ) -> io::Result<Self> {
        let form = match format {
            Format::JsonLines => Form::Json(sink),
            Format::DynamodbJson => Form::DynamoDb(sink),
            Format::Csv => {
                let mut writer = Writer::from_writer(sink);
                let header = columns.header(schema);
                writer.write_record(&header).map_err(io_error)?;
                Form::Csv { writer: Box::new(writer), header, columns }
            }
        };
        Ok(Self { form, changed: 0 })
    }

    /// Writes an item, its key included.
    pub(in crate::operator) fn write(&mut self, item: &Attributes) -> io::Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Exported<'a> {
            item: AttributesJson<'a>,
        }
        let changed = &mut self.changed;
        match &mut self.form {
            Form::Json(sink) => {
                *changed += item.values().map(not_plain).sum::<u64>();
                serde_json::to_writer(&mut *sink, &AttributesJson(item, JsonFormat::Plain))?;
                sink.write_all(b"\n")
            }
            Form::DynamoDb(sink) => {
                let item = AttributesJson(item, JsonFormat::DynamoDb);
                serde_json::to_writer(&mut *sink, &Exported { item })?;
                sink.write_all(b"\n")
            }
            Form::Csv { writer, header, columns } => {
                if let Some(name) = item.keys().find(|name| !columns.0.contains_key(*name)) {
                    let why = format!(
                        "the attribute {name:?} came while the items were read; export them again"
                    );
                    return Err(io::Error::other(why));
                }
                let mut fields = Vec::with_capacity(header.len());
                for name in header.iter() {
                    let Some(value) = item.get(name) else {
                        fields.push(String::new());
                        continue;
                    };
                    let is_mixed = columns.0.get(name).is_some_and(|column| column.has_others);
                    *changed += u64::from(!is_plain_text(value, is_mixed));
                    fields.push(text(value)?);
                }
                writer.write_record(&fields).map_err(io_error)
            }
        }
    }

    /// How many values an import of the file would read as another type.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    /// The end of the file.
    pub(in crate::operator) fn finish(self) -> io::Result<W> {
        match self.form {
            Form::Json(sink) | Form::DynamoDb(sink) => Ok(sink),
            Form::Csv { writer, .. } => {
                writer.into_inner().map_err(csv::IntoInnerError::into_error)
            }
        }
    }
}

/// How many values in this one plain JSON cannot hold.
fn not_plain(value: &AttributeValue) -> u64 {
    match value {
        AttributeValue::Binary(_)
        | AttributeValue::StringSet(_)
        | AttributeValue::NumberSet(_)
        | AttributeValue::BinarySet(_) => 1,
        AttributeValue::List(values) => values.iter().map(not_plain).sum(),
        AttributeValue::Map(entries) => entries.values().map(not_plain).sum(),
        _ => 0,
    }
}

/// Whether a field of a CSV says all of a value. In a column that has other values than numbers, an import
/// reads numbers as strings.
fn is_plain_text(value: &AttributeValue, is_mixed: bool) -> bool {
    match value {
        AttributeValue::String(text) => !text.is_empty(),
        AttributeValue::Number(_) => !is_mixed,
        _ => false,
    }
}

fn text(value: &AttributeValue) -> io::Result<String> {
    Ok(match value {
        AttributeValue::String(text) => text.clone(),
        AttributeValue::Number(number) => number.to_string(),
        AttributeValue::Null => String::new(),
        other => {
            // As an object of one member, whose value is what is wanted.
            let one = Attributes::from([(String::new(), other.clone())]);
            let json = serde_json::to_string(&AttributesJson(&one, JsonFormat::Plain))?;
            let inner = json.strip_prefix("{\"\":").and_then(|rest| rest.strip_suffix('}'));
            let inner = inner.unwrap_or_default();
            // Binary is a string of base64.
            inner.trim_matches('"').to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(fields: &[(&str, AttributeValue)]) -> Attributes {
        let keys = [("pk", string("EWR")), ("sk", string("1"))];
        let fields = keys.iter().chain(fields);
        fields.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn string(text: &str) -> AttributeValue {
        AttributeValue::String(text.to_owned())
    }

    fn number(text: &str) -> AttributeValue {
        AttributeValue::Number(text.parse().expect("a number"))
    }

    fn written(format: Format, items: &[Attributes]) -> (String, u64, Vec<String>) {
        let schema = TableSchema::default();
        let mut columns = Columns::default();
        for item in items {
            columns.see(item);
        }
        let numbers = columns.numbers(&schema);
        let mut lines = Lines::begin(format, columns, &schema, Vec::new()).expect("it writes");
        items.iter().try_for_each(|item| lines.write(item)).expect("it writes");
        let changed = lines.changed();
        let text = String::from_utf8(lines.finish().expect("it ends")).expect("UTF-8");
        (text, changed, numbers)
    }

    #[test]
    fn each_form_says_what_it_cannot_hold() {
        let items = [
            item(&[("n", number("1.50")), ("b", AttributeValue::Binary(vec![0, 1]))]),
            item(&[
                ("n", number("2")),
                ("l", AttributeValue::List(vec![string("x"), number("1")])),
            ]),
        ];
        let (text, changed, _) = written(Format::JsonLines, &items);
        assert_eq!(
            text,
            "{\"b\":\"AAE=\",\"n\":1.5,\"pk\":\"EWR\",\"sk\":\"1\"}\n{\"l\":[\"x\",1],\"n\":2,\"pk\":\"EWR\",\"sk\":\"1\"}\n"
        );
        assert_eq!(changed, 1);
        let (text, changed, _) = written(Format::DynamodbJson, &items[..1]);
        assert_eq!(
            text,
            "{\"Item\":{\"b\":{\"B\":\"AAE=\"},\"n\":{\"N\":\"1.5\"},\"pk\":{\"S\":\"EWR\"},\"sk\":{\"S\":\"1\"}}}\n"
        );
        assert_eq!(changed, 0);
        let (text, changed, numbers) = written(Format::Csv, &items);
        assert_eq!(text, "pk,sk,b,l,n\nEWR,1,AAE=,,1.5\nEWR,1,,\"[\"\"x\"\",1]\",2\n");
        assert_eq!((changed, numbers), (2, vec!["n".to_owned()]));
    }

    /// That the reader of stdout had closed it was lost, so that `export --format csv | head` failed.
    #[test]
    fn regression_a_csv_whose_reader_had_gone_was_a_failure() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let large = item(&[("s", string(&"x".repeat(100_000)))]);
        let mut columns = Columns::default();
        columns.see(&large);
        let schema = TableSchema::default();
        let mut lines =
            Lines::begin(Format::Csv, columns, &schema, Closed).expect("it is held back");
        let error = lines.write(&large).expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        // What it holds back nobody wants, either.
        std::mem::forget(lines);
    }

    #[test]
    fn a_column_of_numbers_and_strings_is_counted_and_so_is_an_empty_string() {
        let items = [item(&[("a", number("1")), ("e", string(""))]), item(&[("a", string("x"))])];
        let (text, changed, numbers) = written(Format::Csv, &items);
        assert_eq!(text, "pk,sk,a,e\nEWR,1,1,\nEWR,1,x,\n");
        assert_eq!((changed, numbers), (2, Vec::new()));
    }
}
