//! Smithy RPC v2 CBOR.

use super::super::error::ApiError;
use super::document::Document;
use aws_smithy_cbor::decode::DeserializeError;
use aws_smithy_cbor::{Decoder, Encoder, data::Type};
use aws_smithy_types::DateTime;

/// How deep values may be nested. No structure of `CloudWatch` is half as deep.
const MAX_DEPTH: usize = 16;

/// Reads a body. An operation without input may have none.
pub(super) fn read(body: &[u8]) -> Result<Document, ApiError> {
    if body.is_empty() {
        return Ok(Document::Null);
    }
    value(&mut Decoder::new(body), MAX_DEPTH)
}

pub(super) fn write(output: &Document) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    encode(output, &mut encoder);
    encoder.into_writer()
}

fn malformed(error: &DeserializeError) -> ApiError {
    ApiError::unreadable(&format!("the body is not CBOR: {error}"))
}

fn value(decoder: &mut Decoder<'_>, depth: usize) -> Result<Document, ApiError> {
    let malformed = |error| malformed(&error);
    let inner = depth.checked_sub(1);
    let inner = inner.ok_or_else(|| ApiError::unreadable("the body is nested too deeply"))?;
    Ok(match decoder.datatype().map_err(malformed)? {
        Type::Null | Type::Undefined => {
            decoder.skip().map_err(malformed)?;
            Document::Null
        }
        Type::Bool => Document::Boolean(decoder.boolean().map_err(malformed)?),
        Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I8
        | Type::I16
        | Type::I32
        | Type::I64
        | Type::Int => Document::Integer(decoder.long().map_err(malformed)?),
        Type::F16 | Type::F32 | Type::F64 => Document::Number(decoder.double().map_err(malformed)?),
        Type::String | Type::StringIndef => Document::Text(decoder.string().map_err(malformed)?),
        Type::Tag => Document::Timestamp(decoder.timestamp().map_err(malformed)?.as_secs_f64()),
        Type::Array | Type::ArrayIndef => {
            let mut left = decoder.list().map_err(malformed)?;
            let mut items = Vec::new();
            while has_next(decoder, &mut left)? {
                items.push(value(decoder, inner)?);
            }
            Document::List(items)
        }
        Type::Map | Type::MapIndef => {
            let mut left = decoder.map().map_err(malformed)?;
            let mut members = Vec::new();
            while has_next(decoder, &mut left)? {
                let name = decoder.string().map_err(malformed)?;
                members.push((name, value(decoder, inner)?));
            }
            Document::Structure(members)
        }
        _ => return Err(ApiError::unreadable("the body holds a value of an unexpected kind")),
    })
}

/// Whether a list or map has a further element. `left` says how many are left; without it, a break
/// ends them.
fn has_next(decoder: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, ApiError> {
    if let Some(left) = left {
        let has_next = *left > 0;
        *left = left.saturating_sub(1);
        return Ok(has_next);
    }
    let is_break = decoder.datatype().map_err(|error| malformed(&error))? == Type::Break;
    if is_break {
        decoder.skip().map_err(|error| malformed(&error))?;
    }
    Ok(!is_break)
}

fn encode(document: &Document, encoder: &mut Encoder) {
    match document {
        Document::Null => encoder.null(),
        Document::Boolean(value) => encoder.boolean(*value),
        Document::Integer(number) => encoder.long(*number),
        Document::Number(number) => encoder.double(*number),
        Document::Text(text) | Document::Untyped(text) => encoder.str(text),
        Document::Timestamp(secs) => encoder.timestamp(&DateTime::from_secs_f64(*secs)),
        Document::List(items) => {
            encoder.array(items.len());
            for item in items {
                encode(item, encoder);
            }
            encoder
        }
        Document::Structure(members) => {
            encoder.map(members.len());
            for (name, value) in members {
                encoder.str(name);
                encode(value, encoder);
            }
            encoder
        }
    };
}
