//! Smithy RPC v2 CBOR.

use aws_smithy_cbor::decode::DeserializeError;
use aws_smithy_cbor::{Decoder, Encoder, data::Type};
use aws_smithy_types::DateTime;
use serde_json::{Map, Value};

use super::super::error::ApiError;

/// How deep values may be nested. No structure of `CloudWatch` is half as deep.
const MAX_DEPTH: usize = 16;

/// Reads a body. A moment becomes its seconds since the Unix epoch, as JSON has it.
pub(super) fn read(body: &[u8]) -> Result<Value, ApiError> {
    value(&mut Decoder::new(body), MAX_DEPTH)
        .map_err(|error| ApiError::unreadable(&format!("the body is not CBOR: {error}")))
}

pub(super) fn write(output: &Value) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    encode(output, false, &mut encoder);
    encoder.into_writer()
}

fn value(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, DeserializeError> {
    let other =
        |problem, decoder: &Decoder<'_>| Err(DeserializeError::custom(problem, decoder.position()));
    let Some(inner) = depth.checked_sub(1) else {
        return other("it is nested too deeply", decoder);
    };
    Ok(match decoder.datatype()? {
        Type::Null | Type::Undefined => {
            decoder.skip()?;
            Value::Null
        }
        Type::Bool => decoder.boolean()?.into(),
        Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I8
        | Type::I16
        | Type::I32
        | Type::I64
        | Type::Int => decoder.long()?.into(),
        Type::F16 | Type::F32 | Type::F64 => number(decoder.double()?),
        Type::String | Type::StringIndef => decoder.string()?.into(),
        Type::Tag => number(decoder.timestamp()?.as_secs_f64()),
        Type::Array | Type::ArrayIndef => {
            let mut left = decoder.list()?;
            let mut items = Vec::new();
            while has_next(decoder, &mut left)? {
                items.push(value(decoder, inner)?);
            }
            items.into()
        }
        Type::Map | Type::MapIndef => {
            let mut left = decoder.map()?;
            let mut members = Map::new();
            while has_next(decoder, &mut left)? {
                members.insert(decoder.string()?, value(decoder, inner)?);
            }
            members.into()
        }
        _ => return other("it holds a value of an unexpected kind", decoder),
    })
}

/// JSON has no number that is not finite, and names each in a text. All are refused alike.
fn number(number: f64) -> Value {
    if number.is_finite() { number.into() } else { "NaN".into() }
}

/// Whether a list or map has a further element. `left` says how many are left; without it, a break
/// ends them.
fn has_next(decoder: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, DeserializeError> {
    if let Some(left) = left {
        let has_next = *left > 0;
        *left = left.saturating_sub(1);
        return Ok(has_next);
    }
    let is_break = decoder.datatype()? == Type::Break;
    if is_break {
        decoder.skip()?;
    }
    Ok(!is_break)
}

fn encode(value: &Value, is_time: bool, encoder: &mut Encoder) {
    match value {
        Value::Null => drop(encoder.null()),
        Value::Bool(value) => drop(encoder.boolean(*value)),
        Value::Number(number) => match (number.as_i64(), number.as_f64().unwrap_or_default()) {
            (_, secs) if is_time => drop(encoder.timestamp(&DateTime::from_secs_f64(secs))),
            (Some(number), _) => drop(encoder.long(number)),
            (None, number) => drop(encoder.double(number)),
        },
        Value::String(text) => drop(encoder.str(text)),
        Value::Array(items) => {
            encoder.array(items.len());
            for item in items {
                encode(item, is_time, encoder);
            }
        }
        Value::Object(members) => {
            encoder.map(members.len());
            for (name, value) in members {
                // So CloudWatch's model calls moments, and nothing else.
                let is_time = name.ends_with("Timestamp") || name.ends_with("Timestamps");
                encode(value, is_time, encoder.str(name));
            }
        }
    }
}
