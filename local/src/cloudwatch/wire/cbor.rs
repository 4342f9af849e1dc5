//! Smithy RPC v2 CBOR.

use super::super::error::ApiError;
use super::document::Document;
use ciborium::Value;

/// The tag of seconds since the Unix epoch (RFC 8949, section 3.4.2).
const EPOCH_TIME: u64 = 1;

/// Reads a body. An operation without input may have none.
pub(super) fn read(body: &[u8]) -> Result<Document, ApiError> {
    if body.is_empty() {
        return Ok(Document::Null);
    }
    let value: Value = ciborium::from_reader(body)
        .map_err(|error| ApiError::unreadable(&format!("the body is no CBOR: {error}")))?;
    from_value(value)
}

pub(super) fn write(output: &Document) -> Vec<u8> {
    let mut body = Vec::new();
    // Writing to memory cannot fail.
    let _ = ciborium::into_writer(&to_value(output), &mut body);
    body
}

fn from_value(value: Value) -> Result<Document, ApiError> {
    let unexpected = || ApiError::unreadable("the body holds a value of an unexpected kind");
    Ok(match value {
        Value::Null => Document::Null,
        Value::Bool(value) => Document::Boolean(value),
        Value::Integer(number) => {
            Document::Integer(i64::try_from(number).map_err(|_| unexpected())?)
        }
        Value::Float(number) => Document::Number(number),
        Value::Text(text) => Document::Text(text),
        Value::Tag(EPOCH_TIME, secs) => match from_value(*secs)? {
            #[expect(clippy::cast_precision_loss, reason = "the seconds of any date are exact")]
            Document::Integer(secs) => Document::Timestamp(secs as f64),
            Document::Number(secs) => Document::Timestamp(secs),
            _ => return Err(unexpected()),
        },
        Value::Array(items) => {
            Document::List(items.into_iter().map(from_value).collect::<Result<_, _>>()?)
        }
        Value::Map(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let name = name.into_text().map_err(|_| unexpected())?;
                Ok((name, from_value(value)?))
            });
            Document::Structure(members.collect::<Result<_, ApiError>>()?)
        }
        _ => return Err(unexpected()),
    })
}

fn to_value(document: &Document) -> Value {
    match document {
        Document::Null => Value::Null,
        Document::Boolean(value) => Value::Bool(*value),
        Document::Integer(number) => Value::Integer((*number).into()),
        Document::Number(number) => Value::Float(*number),
        Document::Text(text) | Document::Untyped(text) => Value::Text(text.clone()),
        Document::Timestamp(secs) => Value::Tag(EPOCH_TIME, Box::new(Value::Float(*secs))),
        Document::List(items) => Value::Array(items.iter().map(to_value).collect()),
        Document::Structure(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (Value::Text(name.clone()), to_value(value)));
            Value::Map(members.collect())
        }
    }
}
