//! DynamoDB's expressions, as far as a guard has to be put into those of others. DynamoDB itself judges what they say.

pub mod legacy;
mod lex;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::lex::{Token, tokens};

/// Names and values of one request's expressions, as the client sent them.
#[derive(Debug, Clone, Default)]
pub struct Placeholders {
    /// `#name` to the attribute.
    pub names: BTreeMap<String, String>,
    /// `:value` to DynamoDB JSON.
    pub values: BTreeMap<String, Value>,
}

/// The brackets of a text do not balance, so it is no expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unbalanced;

impl Placeholders {
    /// A placeholder for this attribute that the client does not use: `#_ds0`, `#_ds1`. One that was given before is given again.
    pub fn name(&mut self, attribute: &str) -> String {
        let given = self.names.iter().find(|(placeholder, name)| {
            placeholder.starts_with("#_ds") && name.as_str() == attribute
        });
        if let Some((placeholder, _)) = given {
            return placeholder.clone();
        }
        let placeholder = unused(&self.names, "#_ds");
        self.names.insert(placeholder.clone(), attribute.to_owned());
        placeholder
    }

    /// A placeholder for this value that the client does not use: `:_ds0`, `:_ds1`.
    pub fn value(&mut self, value: Value) -> String {
        let placeholder = unused(&self.values, ":_ds");
        self.values.insert(placeholder.clone(), value);
        placeholder
    }
}

/// `guard AND condition`, with brackets around a condition that has an `OR`, or the guard alone. Whatever the text is, the guard
/// stands in a conjunction with it.
///
/// # Errors
/// The brackets of the text do not balance.
pub fn both(guard: &str, condition: Option<&str>) -> Result<String, Unbalanced> {
    let Some(condition) = condition else { return Ok(guard.to_owned()) };
    // Brackets that are not needed would stand in what DynamoDB says of a text that is no condition, and those around a condition
    // that has some it refuses.
    Ok(if has_open_or(condition)? {
        format!("{guard} AND ({condition})")
    } else {
        format!("{guard} AND {condition}")
    })
}

/// `own OR condition`.
///
/// # Errors
/// The brackets of the text do not balance.
pub fn either(own: &str, condition: &str) -> Result<String, Unbalanced> {
    has_open_or(condition)?;
    Ok(format!("{own} OR {condition}"))
}

/// An update with these assignments, such as `#v = :v`, in its `SET` section, or in one of its own.
pub fn with_assignments(update: Option<&str>, assignments: &str) -> String {
    let Some(update) = update else { return format!("SET {assignments}") };
    let tokens = tokens(update);
    let is_set = |at: usize| {
        let Token { text, .. } = tokens[at];
        text.eq_ignore_ascii_case("SET") && (at == 0 || tokens[at - 1].text != ".")
    };
    match (0..tokens.len()).find(|at| is_set(*at)) {
        Some(at) => {
            let (before, behind) = update.split_at(tokens[at].end);
            format!("{before} {assignments},{behind}")
        }
        None => format!("SET {assignments} {update}"),
    }
}

/// A projection with these attributes, too.
pub fn with_projected(projection: &str, names: &[String]) -> String {
    [projection].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}

/// An attribute whose name begins so that the text itself names, if there is one.
pub fn named<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let tokens = tokens(text);
    let is_attribute = |at: usize| at == 0 || tokens[at - 1].text != ".";
    let mut all = tokens.iter().enumerate();
    all.find(|(at, token)| token.text.starts_with(prefix) && is_attribute(*at))
        .map(|(_, token)| token.text)
}

/// The placeholder of the value that a key condition demands of an attribute. `resolve` says what a `#name` stands for.
pub fn equality<'a>(
    condition: &'a str,
    attribute: &str,
    resolve: impl Fn(&str) -> Option<String>,
) -> Option<&'a str> {
    let tokens = tokens(condition);
    let is_attribute = |text: &str| {
        if text.starts_with('#') {
            resolve(text).as_deref() == Some(attribute)
        } else {
            text == attribute
        }
    };
    tokens.windows(3).find_map(|window| match [window[0].text, window[1].text, window[2].text] {
        [name, "=", value] | [value, "=", name] if value.starts_with(':') && is_attribute(name) => {
            Some(value)
        }
        _ => None,
    })
}

/// Whether a text has an `OR` that is in no bracket.
fn has_open_or(text: &str) -> Result<bool, Unbalanced> {
    let mut depth = 0_usize;
    let mut found = false;
    for token in tokens(text) {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1).ok_or(Unbalanced)?,
            word => found |= depth == 0 && word.eq_ignore_ascii_case("OR"),
        }
    }
    if depth == 0 { Ok(found) } else { Err(Unbalanced) }
}

fn unused<T>(given: &BTreeMap<String, T>, prefix: &str) -> String {
    let mut all = (0_u32..).map(|number| format!("{prefix}{number}"));
    all.find(|placeholder| !given.contains_key(placeholder)).unwrap_or_else(|| prefix.to_owned())
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the brackets do not balance")
    }
}

impl std::error::Error for Unbalanced {}
