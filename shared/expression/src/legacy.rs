//! The parameters that came before expressions, as expressions (DynamoDB Developer Guide, "Legacy conditional parameters").

use std::fmt;

use serde_json::{Map, Value};

use crate::Placeholders;

/// Why a legacy parameter says nothing, in DynamoDB's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyError(String);

/// `Expected` as a condition; `None` where it demands nothing. `operator` is the request's `ConditionalOperator`.
///
/// # Errors
/// An entry has no meaning.
pub fn expected(
    entries: &Map<String, Value>,
    operator: Option<&str>,
    into: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let conditions = entries.iter().map(|(attribute, entry)| {
        let name = into.name(attribute);
        let exists = entry["Exists"].as_bool();
        match (entry.get("ComparisonOperator"), entry.get("Value"), exists) {
            (Some(_), None, None) => comparison(&name, entry, into),
            (Some(_), ..) => Err(invalid(
                "Value or Exists cannot be used with ComparisonOperator for Attribute: ",
                attribute,
            )),
            (None, None, Some(false)) => Ok(format!("attribute_not_exists({name})")),
            (None, Some(value), None | Some(true)) => {
                Ok(format!("{name} = {}", into.value(value.clone())))
            }
            (None, Some(_), Some(false)) => {
                Err(invalid("Value cannot be used when Exists is false for Attribute: ", attribute))
            }
            (None, None, None | Some(true)) => Err(invalid(
                "Value must be provided when Exists is true for Attribute: ",
                attribute,
            )),
        }
    });
    joined(&conditions.collect::<Result<Vec<_>, _>>()?, operator)
}

/// `QueryFilter` or `ScanFilter` as a filter; `None` where it drops nothing.
///
/// # Errors
/// An entry has no meaning.
pub fn filter(
    entries: &Map<String, Value>,
    operator: Option<&str>,
    into: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let conditions = entries.iter().map(|(attribute, entry)| {
        let name = into.name(attribute);
        comparison(&name, entry, into)
    });
    joined(&conditions.collect::<Result<Vec<_>, _>>()?, operator)
}

/// `KeyConditions` as a key condition.
///
/// # Errors
/// An entry has no meaning.
pub fn key_conditions(
    entries: &Map<String, Value>,
    into: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    filter(entries, None, into)
}

/// `AttributeUpdates` as an update; `None` where it changes nothing.
///
/// # Errors
/// An entry has no meaning.
pub fn attribute_updates(
    entries: &Map<String, Value>,
    into: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let mut sections =
        [("SET", Vec::new()), ("REMOVE", vec![]), ("ADD", vec![]), ("DELETE", vec![])];
    for (attribute, entry) in entries {
        let name = into.name(attribute);
        let action = entry.get("Action").map_or(Some("PUT"), Value::as_str);
        let value = entry.get("Value").map(|value| into.value(value.clone()));
        let (section, text) = match (action, value) {
            (Some("PUT"), Some(value)) => (0, format!("{name} = {value}")),
            (Some("DELETE"), None) => (1, name),
            (Some("ADD"), Some(value)) => (2, format!("{name} {value}")),
            (Some("DELETE"), Some(value)) => (3, format!("{name} {value}")),
            (Some("PUT" | "ADD"), None) => {
                let why = "Only DELETE action is allowed when no attribute value is specified";
                return Err(LegacyError(format!("{INVALID}{why}")));
            }
            _ => return Err(invalid("Unsupported action for Attribute: ", attribute)),
        };
        sections[section].1.push(text);
    }
    let sections = sections.iter().filter(|(_, parts)| !parts.is_empty());
    let texts = sections.map(|(word, parts)| format!("{word} {}", parts.join(", ")));
    let text = texts.collect::<Vec<_>>().join(" ");
    Ok((!text.is_empty()).then_some(text))
}

/// `AttributesToGet` as a projection.
pub fn attributes_to_get(attributes: &[String], into: &mut Placeholders) -> String {
    attributes.iter().map(|attribute| into.name(attribute)).collect::<Vec<_>>().join(", ")
}

const INVALID: &str = "One or more parameter values were invalid: ";

fn comparison(name: &str, entry: &Value, into: &mut Placeholders) -> Result<String, LegacyError> {
    let operator = entry["ComparisonOperator"].as_str().unwrap_or_default();
    let values = entry["AttributeValueList"].as_array().map(Vec::as_slice).unwrap_or_default();
    let values = values.iter().map(|value| into.value(value.clone())).collect::<Vec<_>>();
    let wrong_number = || {
        let why = "Invalid number of argument(s) for the ";
        Err(LegacyError(format!("{INVALID}{why}{operator} ComparisonOperator")))
    };
    Ok(match (operator, values.as_slice()) {
        ("EQ", [value]) => format!("{name} = {value}"),
        ("NE", [value]) => format!("{name} <> {value}"),
        ("LE", [value]) => format!("{name} <= {value}"),
        ("LT", [value]) => format!("{name} < {value}"),
        ("GE", [value]) => format!("{name} >= {value}"),
        ("GT", [value]) => format!("{name} > {value}"),
        ("NOT_NULL", []) => format!("attribute_exists({name})"),
        ("NULL", []) => format!("attribute_not_exists({name})"),
        ("CONTAINS", [value]) => format!("contains({name}, {value})"),
        ("NOT_CONTAINS", [value]) => format!("NOT contains({name}, {value})"),
        ("BEGINS_WITH", [value]) => format!("begins_with({name}, {value})"),
        ("IN", [_, ..]) => format!("{name} IN ({})", values.join(", ")),
        ("BETWEEN", [low, high]) => format!("{name} BETWEEN {low} AND {high}"),
        _ if OPERATORS.contains(&operator) => return wrong_number(),
        _ => return Err(invalid("Unsupported ComparisonOperator: ", operator)),
    })
}

const OPERATORS: [&str; 13] = [
    "EQ",
    "NE",
    "LE",
    "LT",
    "GE",
    "GT",
    "NOT_NULL",
    "NULL",
    "CONTAINS",
    "NOT_CONTAINS",
    "BEGINS_WITH",
    "IN",
    "BETWEEN",
];

fn joined(conditions: &[String], operator: Option<&str>) -> Result<Option<String>, LegacyError> {
    let word = match operator {
        None | Some("AND") => " AND ",
        Some("OR") => " OR ",
        Some(other) => return Err(invalid("Unsupported ConditionalOperator: ", other)),
    };
    let text = conditions.join(word);
    Ok((!text.is_empty()).then_some(text))
}

fn invalid(why: &str, what: &str) -> LegacyError {
    LegacyError(format!("{INVALID}{why}{what}"))
}

impl fmt::Display for LegacyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LegacyError {}
