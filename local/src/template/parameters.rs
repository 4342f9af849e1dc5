//! The template's parameters: what each allows, and the values of this run.

use std::collections::BTreeMap;

use regex_lite::Regex;

use super::named::Named;
use super::yaml::{Node, Problem};
use crate::StartError;

/// The value of every parameter: its override, or else its default.
///
/// The last override of a name wins, as on the command line of the aws CLI.
pub(super) fn values(
    declared: &[Parameter],
    overrides: &[(String, String)],
    template: &str,
) -> Result<BTreeMap<String, String>, StartError> {
    for (name, value) in overrides {
        let refuse = |problem: String| StartError::parameter(name, &problem);
        let parameter = declared.iter().find(|declared| declared.name == *name);
        let Some(parameter) = parameter else {
            let names: Vec<_> = declared.iter().map(|known| known.name.as_str()).collect();
            return Err(refuse(format!(
                "{template} has no such parameter; it has {}",
                names.join(", ")
            )));
        };
        if !parameter.allows(value) {
            return Err(refuse(format!(
                "{value:?} is not allowed; it takes {}",
                parameter.allowed()
            )));
        }
    }
    let given: BTreeMap<_, _> = overrides.iter().cloned().collect();
    declared
        .iter()
        .map(|parameter| {
            let value = given.get(&parameter.name).or(parameter.default.as_ref());
            let value = value.ok_or_else(|| {
                let problem = format!("it has no default; set it to {}", parameter.allowed());
                StartError::parameter(&parameter.name, &problem)
            })?;
            Ok((parameter.name.clone(), value.clone()))
        })
        .collect()
}

/// The least and the greatest, if there are any.
type Bounds = (Option<f64>, Option<f64>);

/// One declared parameter.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    default: Option<String>,
    is_number: bool,
    allowed_values: Option<Vec<String>>,
    allowed_pattern: Option<Regex>,
    /// The least and the greatest number.
    bounds: Bounds,
    /// The least and the greatest length in characters.
    lengths: Bounds,
    constraint_description: Option<String>,
}

impl Parameter {
    pub(super) fn read(name: &str, node: &Node) -> Result<Self, Problem> {
        let parameter = Named::of(node, format!("parameter {name}"), PROPERTIES)?;
        let kind = parameter.require("Type")?;
        let is_number = match kind.text()? {
            "String" => false,
            "Number" => true,
            other => {
                let what = &parameter.what;
                return Err(kind
                    .problem(format!("the local stack does not know the type {other} of {what}")));
            }
        };
        let read = Self {
            name: name.to_owned(),
            default: parameter.optional("Default", Named::owned)?,
            is_number,
            allowed_values: parameter.optional("AllowedValues", Named::texts)?,
            allowed_pattern: parameter.optional("AllowedPattern", whole_match)?,
            bounds: (
                parameter.optional("MinValue", number)?,
                parameter.optional("MaxValue", number)?,
            ),
            lengths: (
                parameter.optional("MinLength", length)?,
                parameter.optional("MaxLength", length)?,
            ),
            constraint_description: parameter.optional("ConstraintDescription", Named::owned)?,
        };
        match &read.default {
            Some(default) if !read.allows(default) => Err(parameter.problem(format!(
                "the default {default:?} of parameter {name} is not allowed; it takes {}",
                read.allowed()
            ))),
            _ => Ok(read),
        }
    }

    fn allows(&self, value: &str) -> bool {
        let within = |number: f64, (least, greatest): Bounds| {
            least.is_none_or(|least| number >= least)
                && greatest.is_none_or(|greatest| number <= greatest)
        };
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
        let length = u32::try_from(value.chars().count()).unwrap_or(u32::MAX);
        (!self.is_number || number.is_some_and(|number| within(number, self.bounds)))
            && within(length.into(), self.lengths)
            && self
                .allowed_values
                .as_ref()
                .is_none_or(|values| values.iter().any(|allowed| allowed == value))
            && self.allowed_pattern.as_ref().is_none_or(|pattern| pattern.is_match(value))
    }

    /// What the parameter allows, as the end of a sentence.
    fn allowed(&self) -> String {
        if let Some(values) = &self.allowed_values {
            return format!("one of {}", values.join(" "));
        }
        if let Some(description) = &self.constraint_description {
            return format!("a value that {description}");
        }
        if let Some(pattern) = &self.allowed_pattern {
            return format!("a value that matches {pattern}");
        }
        let (kind, unit, (least, greatest)) = if self.is_number {
            ("a number", "", self.bounds)
        } else {
            ("a string", " characters", self.lengths)
        };
        match (least, greatest) {
            (Some(least), Some(greatest)) => format!("{kind} from {least} to {greatest}{unit}"),
            (Some(least), None) => format!("{kind} of at least {least}{unit}"),
            (None, Some(greatest)) => format!("{kind} of at most {greatest}{unit}"),
            (None, None) => kind.to_owned(),
        }
    }
}

const PROPERTIES: &str = "Type Default Description AllowedValues AllowedPattern ConstraintDescription \
    MinValue MaxValue MinLength MaxLength NoEcho";

/// `CloudFormation` matches a pattern against the whole value, with anchors or without.
fn whole_match(pattern: &Named<'_>) -> Result<Regex, Problem> {
    Regex::new(&format!("^(?:{})$", pattern.text()?))
        .map_err(|error| pattern.problem(format!("{}: {error}", pattern.what)))
}

fn number(node: &Named<'_>) -> Result<f64, Problem> {
    node.text()?.parse().map_err(|_| node.wrong("a number"))
}

fn length(node: &Named<'_>) -> Result<f64, Problem> {
    node.text()?.parse::<u32>().map(f64::from).map_err(|_| node.wrong("a number"))
}
