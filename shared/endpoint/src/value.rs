//! Whether DynamoDB takes an item, for a batch: it refuses one as a whole for a part of it, and its parts are sent one by one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_core::MAX_DEPTH;
use dynashard_keys::{KeyError, Number, SortKeyType};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

/// Refuses an item that is too large to be moved: with what a move adds it would be above what DynamoDB takes.
pub(crate) fn check_movable(item: &Members) -> Result<(), Refusal> {
    // Its text is never shorter than what is stored.
    if serde_json::to_string(item).map_or(0, |text| text.len()) <= MAX_ITEM_BYTES - MOVE_BYTES {
        return Ok(());
    }
    let bytes = bytes(item);
    if bytes <= MAX_ITEM_BYTES - MOVE_BYTES || bytes > MAX_ITEM_BYTES {
        return Ok(());
    }
    Err(Refusal::validation(
        "dynashard: item_too_large: the item is above 399 KB, so that it could not be moved to another shard",
    ))
}

/// What is left of the largest item for what a move adds.
const MOVE_BYTES: usize = 1 << 10;

/// The largest item (DynamoDB Developer Guide, "Quotas").
const MAX_ITEM_BYTES: usize = 400 << 10;

/// About how many bytes an item takes. What is no value in it counts for nothing: DynamoDB refuses it, in its own words.
pub(crate) fn bytes(item: &Members) -> usize {
    item.iter().map(|(name, value)| name.len() + size(value, 0).unwrap_or_default()).sum()
}

/// The write units that a write asks for: one for each kilobyte of what it puts. How large an item is that it does not put, DynamoDB
/// alone knows.
pub(crate) fn units_of_write(request: &Members) -> f64 {
    let item = request.get("Item").and_then(Value::as_object);
    let kilobytes = item.map_or(1, |item| bytes(item).div_ceil(1_024).max(1));
    f64::from(u32::try_from(kilobytes).unwrap_or(u32::MAX))
}

/// About how many bytes a value takes that DynamoDB has written.
pub(crate) fn stored_bytes(value: &RawValue) -> usize {
    serde_json::from_str::<Stored<'_>>(value.get()).map_or(0, |value| value.bytes())
}

/// A value as DynamoDB has written it.
#[derive(Deserialize)]
enum Stored<'a> {
    #[serde(rename = "S")]
    Text(#[serde(borrow)] Cow<'a, str>),
    #[serde(rename = "N")]
    Number(#[serde(borrow)] Cow<'a, str>),
    #[serde(rename = "B")]
    Binary(#[serde(borrow)] Cow<'a, str>),
    #[serde(rename = "BOOL", alias = "NULL")]
    Flag(IgnoredAny),
    #[serde(rename = "L")]
    List(#[serde(borrow)] Vec<Stored<'a>>),
    #[serde(rename = "M")]
    Map(#[serde(borrow)] BTreeMap<String, Stored<'a>>),
    #[serde(rename = "SS")]
    Texts(Vec<String>),
    #[serde(rename = "NS")]
    Numbers(Vec<String>),
    #[serde(rename = "BS")]
    Binaries(Vec<String>),
}

impl Stored<'_> {
    fn bytes(&self) -> usize {
        let of_number = |text: &str| number(text).unwrap_or_default();
        let of_binary = |text: &str| binary(text).unwrap_or_default();
        match self {
            Self::Text(text) => text.len(),
            Self::Number(text) => of_number(text),
            Self::Binary(text) => of_binary(text),
            Self::Flag(_) => 1,
            Self::List(elements) => {
                3 + elements.iter().map(|value| 1 + value.bytes()).sum::<usize>()
            }
            Self::Map(entries) => {
                let entries = entries.iter().map(|(name, value)| 1 + name.len() + value.bytes());
                3 + entries.sum::<usize>()
            }
            Self::Texts(elements) => elements.iter().map(String::len).sum(),
            Self::Numbers(elements) => elements.iter().map(|text| of_number(text)).sum(),
            Self::Binaries(elements) => elements.iter().map(|text| of_binary(text)).sum(),
        }
    }
}

/// Refuses an item, or with `is_key` a key, that DynamoDB does not take for this table.
pub(crate) fn check(table: &ManagedTable, item: &Members, is_key: bool) -> Result<(), Refusal> {
    let mut bytes = 0;
    for (name, value) in item {
        check_name(name)?;
        bytes += name.len() + size(value, 0)?;
    }
    let sort_type = match table.schema().sort_key_type {
        SortKeyType::String => "S",
        SortKeyType::Number => "N",
    };
    for (name, of_type) in [(table.partition_key_name(), "S"), (table.sort_key_name(), sort_type)] {
        match item.get(name).and_then(|value| value.get(of_type)?.as_str()) {
            None => return Err(no_key()),
            Some("") => {
                return Err(Refusal::validation(format!(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
                     empty string value. Key: {name}"
                )));
            }
            Some(key) if name == table.partition_key_name() && key.len() > 2_048 => {
                return Err(too_long(
                    "Size of hashkey has exceeded the maximum size limit of2048 bytes",
                ));
            }
            Some(key) if name == table.sort_key_name() && key.len() > 1_024 => {
                let why =
                    "Aggregated size of all range keys has exceeded the size limit of 1024 bytes";
                return Err(too_long(why));
            }
            Some(_) => {}
        }
    }
    if is_key && item.len() != 2 {
        return Err(no_key());
    }
    if bytes > MAX_ITEM_BYTES {
        return Err(Refusal::validation("Item size has exceeded the maximum allowed size"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() { Err(Refusal::validation("Empty attribute name")) } else { Ok(()) }
}

fn too_long(why: &str) -> Refusal {
    Refusal::validation(format!("One or more parameter values were invalid: {why}"))
}

fn no_key() -> Refusal {
    Refusal::validation("The provided key element does not match the schema")
}

/// About how many bytes a value takes (DynamoDB Developer Guide, "DynamoDB Item sizes and formats").
fn size(value: &Value, depth: usize) -> Result<usize, Refusal> {
    let shape = || Refusal::serialization("a value is not of its type");
    let members = value.as_object().ok_or_else(shape)?;
    let mut members = members.iter().filter(|(_, value)| !value.is_null());
    let (of_type, value) = match (members.next(), members.next()) {
        (Some(one), None) => one,
        (None, _) => {
            return Err(Refusal::validation(
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(Refusal::validation(
                "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes",
            ));
        }
    };
    if depth > MAX_DEPTH {
        return Err(Refusal::validation("Nesting Levels have exceeded supported limits"));
    }
    let each = |value: &Value| value.as_array().cloned().ok_or_else(shape);
    match of_type.as_str() {
        "S" => value.as_str().map(str::len).ok_or_else(shape),
        "B" => binary(value.as_str().ok_or_else(shape)?),
        "N" => number(value.as_str().ok_or_else(shape)?),
        "NULL" if *value == Value::Bool(false) => Err(Refusal::validation(
            "One or more parameter values were invalid: Null attribute value types must have the value of true",
        )),
        // DynamoDB takes these texts, too.
        "BOOL" | "NULL" if ["true", "false"].iter().any(|text| value == text) => Ok(1),
        "BOOL" | "NULL" => value.as_bool().map(|_| 1).ok_or_else(shape),
        "L" => {
            let mut bytes = 3;
            for element in each(value)? {
                bytes += 1 + size(&element, depth + 1)?;
            }
            Ok(bytes)
        }
        "M" => {
            let mut bytes = 3;
            for (name, element) in value.as_object().ok_or_else(shape)? {
                check_name(name)?;
                bytes += 1 + name.len() + size(element, depth + 1)?;
            }
            Ok(bytes)
        }
        "SS" | "NS" | "BS" => set(of_type, &each(value)?),
        _ => Err(shape()),
    }
}

fn binary(text: &str) -> Result<usize, Refusal> {
    STANDARD
        .decode(text)
        .map(|bytes| bytes.len())
        .map_err(|_| Refusal::serialization("a value of the type B is no base64"))
}

fn number(text: &str) -> Result<usize, Refusal> {
    match text.trim().parse::<Number>() {
        Ok(number) => Ok(number.stored_bytes()),
        Err(KeyError::NumberOutOfRange { .. }) => Err(Refusal::validation(
            "Number overflow. Attempting to store a number with magnitude larger than supported range",
        )),
        Err(_) => Err(Refusal::validation(format!(
            "The parameter cannot be converted to a numeric value: {text}"
        ))),
    }
}

fn set(of_type: &str, elements: &[Value]) -> Result<usize, Refusal> {
    let invalid = |why: &str| {
        Err(Refusal::validation(format!("One or more parameter values were invalid: {why}")))
    };
    if elements.is_empty() {
        return invalid(match of_type {
            "SS" => "An string set  may not be empty",
            "NS" => "An number set  may not be empty",
            _ => "Binary sets should not be empty",
        });
    }
    let (mut bytes, mut seen) = (0, BTreeSet::new());
    for element in elements {
        let text = element.as_str();
        let text = text.ok_or_else(|| Refusal::serialization("a set holds something else"))?;
        bytes += match of_type {
            "NS" => number(text)?,
            "BS" => binary(text)?,
            _ => text.len(),
        };
        let canonical = text.trim().parse::<Number>().ok().filter(|_| of_type == "NS");
        if !seen.insert(canonical.map_or_else(|| text.to_owned(), |number| number.to_string())) {
            return invalid("Input collection contains duplicates");
        }
    }
    Ok(bytes)
}
