//! Names, values and paths in the text of an expression.

use serde_json::{Map, Value};

use super::values::{NAMES, value_of};
use crate::random::Random;

/// What the expressions of one request share: placeholders, and what they stand for.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    pub(super) random: &'a Random,
    names: Map<String, Value>,
    values: Map<String, Value>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(random: &'a Random) -> Self {
        Self { random, names: Map::new(), values: Map::new() }
    }

    /// Puts the placeholders into the request.
    pub(super) fn finish(self, request: &mut Map<String, Value>) {
        for (member, placeholders) in
            [("ExpressionAttributeNames", self.names), ("ExpressionAttributeValues", self.values)]
        {
            if !placeholders.is_empty() {
                request.insert(member.to_owned(), Value::Object(placeholders));
            }
        }
    }

    /// A name, as it is or by a placeholder, of which some are called as an endpoint might call its own.
    pub(super) fn name(&mut self, name: &str) -> String {
        let needs_one = ["name", "size", "with.dot", "a b"].contains(&name);
        if !needs_one && self.random.percent(60) {
            return name.to_owned();
        }
        let known = self.names.iter().find(|(_, known)| *known == name);
        if let (Some((placeholder, _)), true) = (known, self.random.percent(80)) {
            return placeholder.clone();
        }
        let prefix = self.random.pick(&["#n", "#_ds", "#", "#N_", "#g"]);
        let placeholder = format!("{prefix}{}", self.names.len());
        self.names.insert(placeholder.clone(), Value::from(name));
        placeholder
    }

    /// A placeholder of a value.
    pub(super) fn value(&mut self, value: Value) -> String {
        let prefix = self.random.pick(&[":v", ":_ds", ":", ":V_", ":g"]);
        let placeholder = format!("{prefix}{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// A placeholder of what an attribute of this name may have.
    pub(super) fn value_of(&mut self, name: &str) -> String {
        let value = value_of(self.random, name);
        self.value(value)
    }

    /// A path to an attribute of this name, at the top or below it.
    pub(super) fn path(&mut self, name: &str) -> String {
        let random = self.random;
        let end = self.name(name);
        match random.below(12) {
            0 => format!("{}.{end}", self.name("m")),
            1 => format!("{}[{}].{end}", self.name("l"), random.below(3)),
            2 => format!("{}.{}[{}]", self.name("m"), self.name("l"), random.below(2)),
            3 => format!("{}.{}.{end}", self.name("m"), self.name("m")),
            _ => end,
        }
    }

    /// A path to any attribute.
    pub(super) fn any_path(&mut self) -> String {
        let name = self.random.pick(&NAMES);
        self.path(name)
    }

    /// A keyword in capital letters, in small ones or in both.
    pub(super) fn word(&self, word: &str) -> String {
        match self.random.below(5) {
            0 => word.to_lowercase(),
            1 => word[..1].to_owned() + &word[1..].to_lowercase(),
            _ => word.to_owned(),
        }
    }

    /// What may stand between two words.
    pub(super) fn space(&self) -> &'static str {
        self.random.pick(&[" ", " ", " ", "  ", "\n", "\t"])
    }

    /// What may stand between two signs.
    pub(super) fn gap(&self) -> &'static str {
        self.random.pick(&["", " ", " ", "\n "])
    }
}
