//! The size of an item.

use dynashard_keys::Number;
use serde_json::Value;

/// The size of an item in bytes: the names and values of its attributes (Developer Guide: "DynamoDB
/// item sizes and formats"). The 100 bytes that storage is billed with do not count for capacity.
///
/// `item` is DynamoDB JSON as it stands on the wire, such as `{"pk": {"S": "a"}}`. Any other value
/// counts as 0 bytes: the database refuses it, and nobody pays for it.
pub fn item_bytes(item: &Value) -> usize {
    let attributes = item.as_object().into_iter().flatten();
    attributes.map(|(name, value)| attribute_bytes(name, value)).sum()
}

/// The size in bytes of one attribute: its name in UTF-8 and its value.
pub(super) fn attribute_bytes(name: &str, value: &Value) -> usize {
    name.len() + value_bytes(value)
}

/// A list or map takes this much more than its elements, and every element [`ELEMENT_BYTES`] more.
const DOCUMENT_BYTES: usize = 3;
const ELEMENT_BYTES: usize = 1;

fn value_bytes(value: &Value) -> usize {
    let Some((r#type, content)) = typed(value) else { return 0 };
    match (r#type, content) {
        ("S", Value::String(text)) => text.len(),
        ("N", Value::String(number)) => number_bytes(number),
        ("B", Value::String(base64)) => binary_bytes(base64),
        ("BOOL" | "NULL", Value::Bool(_)) => 1,
        ("L", Value::Array(elements)) => {
            let sizes = elements.iter().map(|element| ELEMENT_BYTES + value_bytes(element));
            DOCUMENT_BYTES + sizes.sum::<usize>()
        }
        ("M", Value::Object(elements)) => {
            let sizes = elements
                .iter()
                .map(|(name, element)| ELEMENT_BYTES + attribute_bytes(name, element));
            DOCUMENT_BYTES + sizes.sum::<usize>()
        }
        // The guide names no overhead of sets, so they count as their elements.
        ("SS", Value::Array(elements)) => set_bytes(elements, str::len),
        ("NS", Value::Array(elements)) => set_bytes(elements, number_bytes),
        ("BS", Value::Array(elements)) => set_bytes(elements, binary_bytes),
        _ => 0,
    }
}

/// The type and content of an attribute value: its one member.
pub(super) fn typed(value: &Value) -> Option<(&str, &Value)> {
    let mut members = value.as_object()?.iter();
    let (r#type, content) = members.next()?;
    members.next().is_none().then_some((r#type.as_str(), content))
}

fn set_bytes(elements: &[Value], bytes: impl Fn(&str) -> usize) -> usize {
    elements.iter().filter_map(Value::as_str).map(bytes).sum()
}

/// The guide says "approximately"; the key library knows how digits are packed.
fn number_bytes(text: &str) -> usize {
    text.parse::<Number>().map_or(0, |number| number.stored_bytes())
}

/// The length after decoding: each character of Base64 carries six bits, and the padding none.
fn binary_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 6 / 8
}
