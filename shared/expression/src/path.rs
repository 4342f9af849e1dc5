//! Document paths: an attribute, or what lies in one, such as `a.b[3].#c`.

use serde_json::{Map, Value};

use crate::value::typed;

/// The steps of a path from an item to a value. The first one names an attribute.
///
/// Paths are ordered so that those with a common beginning stand together, and elements of a list in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    pub(crate) attribute: String,
    pub(crate) steps: Vec<Step>,
}

/// A step into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// To the member of a map.
    Member(String),
    /// To the element of a list, the first of which is 0.
    Element(usize),
}

impl Path {
    /// The value that lies there, if one does.
    pub(crate) fn find<'a>(&self, item: &'a Map<String, Value>) -> Option<&'a Value> {
        let attribute = item.get(&self.attribute)?;
        self.steps.iter().try_fold(attribute, |value, step| step.take(value))
    }
}

impl Step {
    /// What lies a step further, if it is a step that the value has.
    pub(crate) fn take<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match (self, typed(value)?) {
            (Self::Member(name), ("M", members)) => members.get(name),
            (Self::Element(index), ("L", elements)) => elements.get(index),
            _ => None,
        }
    }
}
