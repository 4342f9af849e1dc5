//! Answers of the AWS query protocol.

use super::super::error::ApiError;
use super::document::{Document, structure};
use quick_xml::Writer;
use quick_xml::events::BytesText;
use std::io;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

const NAMESPACE: &str = "http://monitoring.amazonaws.com/doc/2010-08-01/";

/// The answer to `operation`, in its two wrappers.
pub(super) fn answer(operation: &str, output: &Document, request_id: &str) -> Vec<u8> {
    document(&format!("{operation}Response"), |writer| {
        if *output != structure([]) {
            element(writer, &format!("{operation}Result"), output)?;
        }
        writer
            .create_element("ResponseMetadata")
            .write_inner_content(|writer| text(writer, "RequestId", request_id))?;
        Ok(())
    })
}

pub(super) fn error(error: &ApiError, request_id: &str) -> Vec<u8> {
    let kind = if error.fault.status().is_server_error() { "Receiver" } else { "Sender" };
    document("ErrorResponse", |writer| {
        writer.create_element("Error").write_inner_content(|writer| {
            text(writer, "Type", kind)?;
            text(writer, "Code", error.fault.code())?;
            text(writer, "Message", &error.message)
        })?;
        text(writer, "RequestId", request_id)
    })
}

type XmlWriter = Writer<Vec<u8>>;

fn document(name: &str, write: impl FnOnce(&mut XmlWriter) -> io::Result<()>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    let root = writer.create_element(name).with_attribute(("xmlns", NAMESPACE));
    // Writing to memory cannot fail.
    let _ = root.write_inner_content(write);
    writer.into_inner()
}

fn element(writer: &mut XmlWriter, name: &str, value: &Document) -> io::Result<()> {
    match value {
        Document::Null => Ok(()),
        Document::Boolean(value) => text(writer, name, &value.to_string()),
        Document::Integer(number) => text(writer, name, &number.to_string()),
        Document::Number(number) => text(writer, name, &number_text(*number)),
        Document::Text(value) | Document::Untyped(value) => text(writer, name, value),
        Document::Timestamp(secs) => text(writer, name, &date(*secs)),
        Document::List(items) => {
            let list = writer.create_element(name);
            list.write_inner_content(|writer| {
                items.iter().try_for_each(|item| element(writer, "member", item))
            })?;
            Ok(())
        }
        Document::Structure(members) => {
            let structure = writer.create_element(name);
            structure.write_inner_content(|writer| {
                members.iter().try_for_each(|(name, value)| element(writer, name, value))
            })?;
            Ok(())
        }
    }
}

fn text(writer: &mut XmlWriter, name: &str, text: &str) -> io::Result<()> {
    writer.create_element(name).write_text_content(BytesText::new(text))?;
    Ok(())
}

/// With a point, as `CloudWatch` writes doubles.
fn number_text(number: f64) -> String {
    format!("{number:?}")
}

fn date(secs: f64) -> String {
    const DATE: StaticFormatDescription =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    #[expect(clippy::cast_possible_truncation, reason = "the milliseconds of any date fit")]
    let millis = (secs * 1e3).round() as i128;
    OffsetDateTime::from_unix_timestamp_nanos(millis * 1_000_000)
        .ok()
        .and_then(|date| date.format(&DATE).ok())
        .unwrap_or_default()
}
