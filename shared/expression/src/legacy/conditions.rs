//! `Expected`, `QueryFilter`, `ScanFilter` and `KeyConditions`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LegacyError, invalid, parsed, type_of, value_of};
use crate::Placeholders;

/// The condition expression of `Expected`, with its `ConditionalOperator`. `None` if it has no element.
///
/// An element has a `ComparisonOperator` with an `AttributeValueList` or a `Value`, or a `Value`, or `Exists` of false.
pub fn expected(
    expected: &RawValue,
    operator: Option<&str>,
    placeholders: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let conditions: BTreeMap<String, Condition<'_>> = parsed(expected)?;
    joined(&conditions, operator, |attribute, condition| {
        condition.check_members(attribute)?;
        let Some(operator) = condition.operator.as_deref() else {
            let name = placeholders.name(attribute);
            return Ok(match condition.value {
                Some(value) => format!("{name} = {}", placeholders.value(value_of(value))),
                None => format!("attribute_not_exists({name})"),
            });
        };
        let values = condition.values();
        let is_missing = condition.list.is_none() && condition.value.is_none();
        if is_missing && !matches!(operator, "NULL" | "NOT_NULL") && arity(operator)?.0 > 0 {
            return Err(invalid(&format!(
                "Value or AttributeValueList must be used with ComparisonOperator: {operator} for Attribute: {attribute}"
            )));
        }
        comparison(attribute, operator, &values, placeholders)
    })
}

/// The filter expression of `QueryFilter` or `ScanFilter`, with its `ConditionalOperator`. `None` if it has no element.
pub fn filter(
    filter: &RawValue,
    operator: Option<&str>,
    placeholders: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let conditions: BTreeMap<String, Filter<'_>> = parsed(filter)?;
    joined(&conditions, operator, |attribute, condition| {
        comparison(attribute, condition.operator()?, condition.values(), placeholders)
    })
}

/// The key condition expression of `KeyConditions`: one element, or two.
pub fn key_conditions(
    conditions: &RawValue,
    placeholders: &mut Placeholders,
) -> Result<String, LegacyError> {
    let conditions: BTreeMap<String, Filter<'_>> = parsed(conditions)?;
    if !(1..=2).contains(&conditions.len()) {
        let problem = "Conditions can be of length 1 or 2 only";
        return Err(LegacyError::Validation(problem.to_owned()));
    }
    let mut texts = Vec::new();
    for (attribute, condition) in &conditions {
        let operator = condition.operator()?;
        let text = comparison(attribute, operator, condition.values(), placeholders)?;
        if !matches!(operator, "EQ" | "LE" | "LT" | "GE" | "GT" | "BEGINS_WITH" | "BETWEEN") {
            let problem = "Attempted conditional constraint is not an indexable operation";
            return Err(LegacyError::Validation(problem.to_owned()));
        }
        texts.push(text);
    }
    Ok(texts.join(" AND "))
}

/// An element of `Expected`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition<'a> {
    #[serde(rename = "ComparisonOperator")]
    operator: Option<String>,
    #[serde(rename = "AttributeValueList", borrow)]
    list: Option<Vec<&'a RawValue>>,
    #[serde(rename = "Value", borrow)]
    value: Option<&'a RawValue>,
    #[serde(rename = "Exists")]
    exists: Option<bool>,
}

impl<'a> Condition<'a> {
    fn values(&self) -> Vec<&'a RawValue> {
        self.list.clone().unwrap_or_else(|| self.value.into_iter().collect())
    }

    /// Which members may stand beside each other.
    fn check_members(&self, attribute: &str) -> Result<(), LegacyError> {
        let problem = match (&self.operator, self.exists, self.value, &self.list) {
            (Some(_), Some(_), _, _) => "Exists and ComparisonOperator cannot be used together",
            (_, _, Some(_), Some(_)) => "Value and AttributeValueList cannot be used together",
            (None, _, _, Some(_)) => {
                "AttributeValueList can only be used with a ComparisonOperator"
            }
            (None, None, None, _) => "Value must be provided when Exists is null",
            (None, Some(true), None, _) => "Value must be provided when Exists is true",
            (None, Some(false), Some(_), _) => "Value cannot be used when Exists is false",
            _ => return Ok(()),
        };
        Err(invalid(&format!("{problem} for Attribute: {attribute}")))
    }
}

/// An element of a filter, or of key conditions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter<'a> {
    #[serde(rename = "ComparisonOperator")]
    operator: Option<String>,
    #[serde(rename = "AttributeValueList", borrow)]
    list: Option<Vec<&'a RawValue>>,
}

impl<'a> Filter<'a> {
    fn operator(&self) -> Result<&str, LegacyError> {
        self.operator.as_deref().ok_or_else(|| {
            LegacyError::Validation(
                "Value null at 'comparisonOperator' failed to satisfy constraint: Member must not be null"
                    .to_owned(),
            )
        })
    }

    fn values(&self) -> &[&'a RawValue] {
        self.list.as_deref().unwrap_or_default()
    }
}

/// The conditions of a map by its `ConditionalOperator`, which DynamoDB refuses unless there are two of them.
fn joined<T>(
    conditions: &BTreeMap<String, T>,
    operator: Option<&str>,
    mut text: impl FnMut(&str, &T) -> Result<String, LegacyError>,
) -> Result<Option<String>, LegacyError> {
    let problem = match (operator, conditions.len()) {
        (Some(_), 0) => "ConditionalOperator cannot be used without Filter or Expected",
        (Some(_), 1) => {
            "ConditionalOperator can only be used when Filter or Expected has two or more elements"
        }
        (None | Some("AND" | "OR"), _) => "",
        _ => "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]",
    };
    if !problem.is_empty() {
        return Err(LegacyError::Validation(problem.to_owned()));
    }
    let texts = conditions.iter().map(|(attribute, condition)| text(attribute, condition));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    Ok((!texts.is_empty()).then(|| texts.join(&format!(" {} ", operator.unwrap_or("AND")))))
}

/// One comparison as a condition that can stand in a conjunction and in a disjunction.
fn comparison(
    attribute: &str,
    operator: &str,
    values: &[&RawValue],
    placeholders: &mut Placeholders,
) -> Result<String, LegacyError> {
    check_values(operator, values)?;
    let name = placeholders.name(attribute);
    let mut names = values.iter().map(|&value| placeholders.value(value_of(value)));
    let names = names.by_ref().collect::<Vec<_>>();
    let all = names.join(", ");
    Ok(match operator {
        "EQ" => format!("{name} = {all}"),
        "NE" => format!("{name} <> {all}"),
        "LE" => format!("{name} <= {all}"),
        "LT" => format!("{name} < {all}"),
        "GE" => format!("{name} >= {all}"),
        "GT" => format!("{name} > {all}"),
        "NOT_NULL" => format!("attribute_exists({name})"),
        "NULL" => format!("attribute_not_exists({name})"),
        "BEGINS_WITH" => format!("begins_with({name}, {all})"),
        "CONTAINS" => format!("contains({name}, {all})"),
        // Of a missing attribute neither of the two holds.
        "NOT_CONTAINS" => format!("(attribute_exists({name}) AND NOT contains({name}, {all}))"),
        "BETWEEN" => format!("{name} BETWEEN {}", names.join(" AND ")),
        _ => format!("{name} IN ({all})"),
    })
}

/// How many values an operator takes, at least and at most.
fn arity(operator: &str) -> Result<(usize, usize), LegacyError> {
    Ok(match operator {
        "NULL" | "NOT_NULL" => (0, 0),
        "EQ" | "NE" | "LE" | "LT" | "GE" | "GT" | "CONTAINS" | "NOT_CONTAINS" | "BEGINS_WITH" => {
            (1, 1)
        }
        "BETWEEN" => (2, 2),
        "IN" => (1, usize::MAX),
        _ => return Err(invalid("Invalid comparison operator")),
    })
}

/// The types that an operator takes. A value that is none is DynamoDB's to refuse.
fn takes(operator: &str, of: &str) -> bool {
    match operator {
        "LE" | "LT" | "GE" | "GT" | "IN" | "BETWEEN" => matches!(of, "S" | "N" | "B"),
        "BEGINS_WITH" => matches!(of, "S" | "B"),
        "CONTAINS" | "NOT_CONTAINS" => matches!(of, "S" | "N" | "B" | "BOOL" | "NULL"),
        _ => true,
    }
}

fn check_values(operator: &str, values: &[&RawValue]) -> Result<(), LegacyError> {
    let (least, most) = arity(operator)?;
    if !(least..=most).contains(&values.len()) {
        return Err(invalid(&format!(
            "Invalid number of argument(s) for the {operator} ComparisonOperator"
        )));
    }
    let types = values.iter().filter_map(|value| type_of(value)).collect::<Vec<_>>();
    if let Some(of) = types.iter().find(|of| !takes(operator, of)) {
        return Err(invalid(&format!(
            "ComparisonOperator {operator} is not valid for {of} AttributeValue type"
        )));
    }
    if types.windows(2).any(|two| two[0] != two[1]) {
        return Err(invalid("AttributeValues inside AttributeValueList must be of same type"));
    }
    Ok(())
}
