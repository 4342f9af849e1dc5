//! Values in DynamoDB JSON, such as `{"S": "x"}`, and how DynamoDB compares them ([operators and functions][operators],
//! [data types][types]).
//!
//! What is no value, which DynamoDB refuses, compares with nothing. Values are searched as deep as they nest, which is not
//! deep: whoever reads JSON bounds that.
//!
//! [operators]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
//! [types]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html

use std::cmp::Ordering;
use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynashard_keys::Number;
use serde_json::Value;

/// The type of a value, such as `S`, and what it holds. DynamoDB passes over members that are `null`.
pub(crate) fn typed(value: &Value) -> Option<(&str, &Value)> {
    let mut members = value.as_object()?.iter().filter(|(_, held)| !held.is_null());
    members.next().map(|(of_type, held)| (of_type.as_str(), held))
}

/// The order of two texts, numbers or binaries. Others have none, and neither have values of different types.
///
/// Texts are ordered by their bytes in UTF-8, and binaries by their bytes as unsigned numbers.
pub(crate) fn order(one: &Value, other: &Value) -> Option<Ordering> {
    let ((one_type, one), (other_type, other)) = (typed(one)?, typed(other)?);
    if one_type != other_type {
        return None;
    }
    Some(scalar(one_type, one)?.cmp(&scalar(other_type, other)?))
}

/// Whether two values are of one type and equal. Sets have no order, and members of maps have none.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    let (Some((of_type, one)), Some((other_type, other))) = (typed(one), typed(other)) else {
        return false;
    };
    if of_type != other_type {
        return false;
    }
    match (of_type, one, other) {
        ("S" | "N" | "B", ..) => alike(scalar(of_type, one), scalar(of_type, other)),
        ("BOOL" | "NULL", ..) => alike(truth(one), truth(other)),
        ("SS" | "NS" | "BS", ..) => alike(set(of_type, one), set(of_type, other)),
        ("L", Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        ("M", Value::Object(one), Value::Object(other)) => {
            let in_other = |(name, value)| other.get(name).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(in_other)
        }
        _ => false,
    }
}

/// Whether a text or a binary has this part, a set this element, or a list one that is equal.
pub(crate) fn contains(container: &Value, sought: &Value) -> bool {
    let (Some((of_type, held)), Some((sought_type, part))) = (typed(container), typed(sought))
    else {
        return false;
    };
    match (of_type, held) {
        ("L", Value::Array(elements)) => elements.iter().any(|element| equal(element, sought)),
        ("SS" | "NS" | "BS", Value::Array(elements))
            if of_type.strip_suffix('S') == Some(sought_type) =>
        {
            let part = scalar(sought_type, part);
            part.is_some() && elements.iter().any(|element| scalar(sought_type, element) == part)
        }
        _ if of_type != sought_type => false,
        _ => match (scalar(of_type, held), scalar(of_type, part)) {
            (Some(Scalar::Text(text)), Some(Scalar::Text(part))) => text.contains(part),
            (Some(Scalar::Binary(bytes)), Some(Scalar::Binary(part))) => {
                // A text of a character for each byte has the same parts, and is searched in linear time.
                let text = |bytes: Vec<u8>| bytes.into_iter().map(char::from).collect::<String>();
                text(bytes).contains(&text(part))
            }
            _ => false,
        },
    }
}

/// Whether a text or a binary begins with another.
pub(crate) fn begins_with(value: &Value, prefix: &Value) -> bool {
    let scalars = typed(value).zip(typed(prefix));
    let scalars = scalars.map(|((of_type, held), (prefix_type, prefix))| {
        (scalar(of_type, held), scalar(prefix_type, prefix))
    });
    match scalars {
        Some((Some(Scalar::Text(text)), Some(Scalar::Text(prefix)))) => text.starts_with(prefix),
        Some((Some(Scalar::Binary(bytes)), Some(Scalar::Binary(prefix)))) => {
            bytes.starts_with(&prefix)
        }
        _ => false,
    }
}

/// How large a value is: the length of a text or a binary, or the count of the elements of a set, a list or a map. Others have
/// no size.
///
/// The guide leaves open what the length of a text is counted in. Here it is code units of UTF-16, as in the engine that tests
/// run against, which cites DynamoDB for it.
pub(crate) fn size(value: &Value) -> Option<usize> {
    match typed(value)? {
        ("S", text) => Some(text.as_str()?.encode_utf16().count()),
        ("B", text) => Some(STANDARD.decode(text.as_str()?).ok()?.len()),
        ("SS" | "NS" | "BS" | "L", elements) => Some(elements.as_array()?.len()),
        ("M", members) => Some(members.as_object()?.len()),
        _ => None,
    }
}

/// What a value of a type that has an order holds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scalar<'a> {
    Text(&'a str),
    Number(Number),
    Binary(Vec<u8>),
}

fn scalar<'a>(of_type: &str, held: &'a Value) -> Option<Scalar<'a>> {
    let text = held.as_str()?;
    match of_type {
        "S" => Some(Scalar::Text(text)),
        "N" => text.trim().parse().ok().map(Scalar::Number),
        "B" => STANDARD.decode(text).ok().map(Scalar::Binary),
        _ => None,
    }
}

fn set<'a>(of_type: &str, held: &'a Value) -> Option<BTreeSet<Scalar<'a>>> {
    let of_type = of_type.strip_suffix('S')?;
    held.as_array()?.iter().map(|element| scalar(of_type, element)).collect()
}

/// DynamoDB takes these texts as well.
fn truth(held: &Value) -> Option<bool> {
    held.as_bool().or_else(|| held.as_str()?.parse().ok())
}

/// Whether both are there and equal.
fn alike<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one == other)
}
