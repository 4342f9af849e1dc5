//! AWS JSON 1.0.

use super::super::error::ApiError;
use super::document::Document;
use serde_json::{Number, Value};

/// Reads a body. An operation without input may have none.
pub(super) fn read(body: &[u8]) -> Result<Document, ApiError> {
    if body.is_empty() {
        return Ok(Document::Null);
    }
    let value = serde_json::from_slice(body)
        .map_err(|error| ApiError::unreadable(&format!("the body is not JSON: {error}")))?;
    Ok(from_value(value))
}

pub(super) fn write(output: &Document) -> Vec<u8> {
    to_value(output).to_string().into_bytes()
}

fn from_value(value: Value) -> Document {
    match value {
        Value::Null => Document::Null,
        Value::Bool(value) => Document::Boolean(value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Document::Integer(number),
            (None, Some(number)) => Document::Number(number),
            (None, None) => Document::Text(number.to_string()),
        },
        Value::String(text) => Document::Text(text),
        Value::Array(items) => Document::List(items.into_iter().map(from_value).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, from_value(value)));
            Document::Structure(members.collect())
        }
    }
}

fn to_value(document: &Document) -> Value {
    match document {
        Document::Null => Value::Null,
        Document::Boolean(value) => (*value).into(),
        Document::Integer(number) => (*number).into(),
        Document::Number(number) | Document::Timestamp(number) => {
            Number::from_f64(*number).map_or_else(|| number.to_string().into(), Value::Number)
        }
        Document::Text(text) | Document::Untyped(text) => text.as_str().into(),
        Document::List(items) => items.iter().map(to_value).collect(),
        Document::Structure(members) => {
            members.iter().map(|(name, value)| (name.clone(), to_value(value))).collect()
        }
    }
}
