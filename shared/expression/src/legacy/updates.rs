//! `AttributeUpdates`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{LegacyError, invalid, parsed, type_of, value_of};
use crate::Placeholders;

/// The update expression of `AttributeUpdates`. `None` if it has no element: such an update makes an item of its key.
///
/// `PUT` sets; `DELETE` without a value removes, with one it takes from a set; `ADD` adds to a number or a set, and appends to
/// a list, which no section of an expression does, so that is set.
pub fn attribute_updates(
    updates: &RawValue,
    placeholders: &mut Placeholders,
) -> Result<Option<String>, LegacyError> {
    let updates: BTreeMap<String, Update<'_>> = parsed(updates)?;
    // Actions are judged before values are.
    if updates.values().any(|update| !matches!(update.action(), "ADD" | "DELETE" | "PUT")) {
        let problem = "Member must satisfy enum value set: [ADD, DELETE, PUT]' for Action";
        return Err(LegacyError::Validation(problem.to_owned()));
    }
    let mut sections = BTreeMap::<&str, Vec<String>>::new();
    for (attribute, update) in &updates {
        let action = update.action();
        let Some(value) = update.value else {
            if action != "DELETE" {
                return Err(invalid(
                    "Only DELETE action is allowed when no attribute value is specified",
                ));
            }
            sections.entry("REMOVE").or_default().push(placeholders.name(attribute));
            continue;
        };
        let of = type_of(value);
        check_type(action, of.as_deref())?;
        let name = placeholders.name(attribute);
        let value = placeholders.value(value_of(value));
        let (section, text) = match action {
            "ADD" if of.as_deref() == Some("L") => {
                let empty = placeholders.value(json!({ "L": [] }));
                let appended = format!("list_append(if_not_exists({name}, {empty}), {value})");
                ("SET", format!("{name} = {appended}"))
            }
            "PUT" => ("SET", format!("{name} = {value}")),
            section => (section, format!("{name} {value}")),
        };
        sections.entry(section).or_default().push(text);
    }
    let texts = sections.iter().map(|(section, parts)| format!("{section} {}", parts.join(", ")));
    let texts = texts.collect::<Vec<_>>();
    Ok((!texts.is_empty()).then(|| texts.join(" ")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update<'a> {
    #[serde(rename = "Action")]
    action: Option<String>,
    #[serde(rename = "Value", borrow)]
    value: Option<&'a RawValue>,
}

impl Update<'_> {
    fn action(&self) -> &str {
        self.action.as_deref().unwrap_or("PUT")
    }
}

/// Whether an action takes a value of this type. One that is none is DynamoDB's to refuse.
fn check_type(action: &str, of: Option<&str>) -> Result<(), LegacyError> {
    let Some(of) = of else { return Ok(()) };
    match action {
        "DELETE" if !matches!(of, "SS" | "NS" | "BS") => {
            Err(invalid(&format!("DELETE action with value is not supported for the type {of}")))
        }
        "ADD" if !matches!(of, "N" | "SS" | "NS" | "BS" | "L") => {
            Err(invalid(&format!("ADD action is not supported for the type {of}")))
        }
        _ => Ok(()),
    }
}
