//! The parameters from before there were expressions, as expressions, with names and values in the placeholders of the
//! request: `Expected`, `QueryFilter` and `ScanFilter` with their `ConditionalOperator`, `KeyConditions`,
//! `AttributeUpdates` and `AttributesToGet`.
//!
//! DynamoDB refuses a legacy parameter beside an expression, so a request that has one gets no guard otherwise. Where there is
//! one it has no placeholders of the client's. Each parameter is taken as the text of its JSON, and values go on to the letter.
//!
//! # Who judges
//!
//! What gets lost by the translation is judged here, in DynamoDB's words: which members may stand beside each other, actions,
//! operators, how many values they take and of what types. All else is judged by DynamoDB, whose errors then speak of
//! expressions: values that are none, key conditions that the table lacks, bounds in the wrong order, names that are empty.
//!
//! # Sources
//!
//! [Legacy conditional parameters][guide] of the Amazon DynamoDB Developer Guide. The guide does not say that `NE` holds of an
//! attribute that is missing while `NOT_CONTAINS` does not; DynamoDB does so.
//!
//! [guide]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LegacyConditionalParameters.html

mod conditions;
mod updates;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

use crate::Placeholders;

pub use conditions::{expected, filter, key_conditions};
pub use updates::attribute_updates;

/// Why a legacy parameter is refused, in DynamoDB's words where they are known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LegacyError {
    /// A `ValidationException`. What some operations put before it, `1 validation error detected: `, is left to the caller.
    #[error("{0}")]
    Validation(String),
    /// A `SerializationException`: JSON of another shape, or with a member that is unknown here.
    #[error("Unexpected field type")]
    Serialization,
}

/// The projection expression of `AttributesToGet`.
///
/// Each is the name of a whole attribute, whatever characters it has.
pub fn attributes_to_get(
    attributes: &RawValue,
    placeholders: &mut Placeholders,
) -> Result<String, LegacyError> {
    let attributes: Vec<String> = parsed(attributes)?;
    if attributes.is_empty() {
        return Err(LegacyError::Validation(
            "Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length \
             greater than or equal to 1"
                .to_owned(),
        ));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = attributes.iter().find(|attribute| !seen.insert(*attribute)) {
        return Err(invalid(&format!("Duplicate value in attribute name: {twice}")));
    }
    let names = attributes.iter().map(|attribute| placeholders.name(attribute));
    Ok(names.collect::<Vec<_>>().join(", "))
}

/// A parameter of this shape.
fn parsed<'a, T: serde::Deserialize<'a>>(parameter: &'a RawValue) -> Result<T, LegacyError> {
    serde_json::from_str(parameter.get()).map_err(|_| LegacyError::Serialization)
}

/// A value whose text is JSON.
fn value_of(text: &RawValue) -> Value {
    serde_json::from_str(text.get()).unwrap_or_default()
}

fn invalid(problem: &str) -> LegacyError {
    LegacyError::Validation(format!("One or more parameter values were invalid: {problem}"))
}

/// The type of a value in DynamoDB JSON, such as `NS`. `None` if it is no value, which DynamoDB then says.
fn type_of(value: &RawValue) -> Option<String> {
    let members: BTreeMap<String, Option<IgnoredAny>> = serde_json::from_str(value.get()).ok()?;
    let mut set = members.into_iter().filter(|(_, member)| member.is_some());
    let (of, _) = set.next()?;
    set.next().is_none().then_some(of)
}

#[cfg(test)]
mod tests;
