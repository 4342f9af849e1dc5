//! Nodes together with what errors call them.

use std::ops::RangeInclusive;

use super::yaml::{Node, Problem};

/// A node, and what errors call it, such as `Timeout of Writer, a AWS::Serverless::Function`.
#[derive(Clone, Debug)]
pub(super) struct Named<'a> {
    pub(super) node: &'a Node,
    pub(super) what: String,
}

impl<'a> Named<'a> {
    /// A mapping of which the stack knows the entries that `known` lists, between spaces.
    pub(super) fn of(
        node: &'a Node,
        what: impl Into<String>,
        known: &str,
    ) -> Result<Self, Problem> {
        let what = what.into();
        node.only(&what, known)?;
        Ok(Self { node, what })
    }

    /// Refuses entries whose names are not among the words of `known`.
    pub(super) fn only(&self, known: &str) -> Result<&Self, Problem> {
        self.node.only(&self.what, known)?;
        Ok(self)
    }

    pub(super) fn line(&self) -> usize {
        self.node.line
    }

    /// What is wrong here.
    pub(super) fn problem(&self, text: impl Into<String>) -> Problem {
        self.node.problem(text)
    }

    /// This is not what it has to be.
    pub(super) fn wrong(&self, expected: &str) -> Problem {
        self.node.wrong(&self.what, expected)
    }

    /// The entry `name`.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let node = self.node.get(name)?;
        Some(Self { node, what: format!("{name} of {}", self.what) })
    }

    /// The entry `name`, which must be there.
    pub(super) fn require(&self, name: &str) -> Result<Self, Problem> {
        let node = self.node.require(name, &self.what)?;
        Ok(Self { node, what: format!("{name} of {}", self.what) })
    }

    /// What is read from the entry `name`, if it is there.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|entry| read(&entry)).transpose()
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, Problem> {
        let items = self.node.items(&self.what)?.iter();
        Ok(items.map(|node| Self { node, what: self.what.clone() }).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Problem> {
        self.node.as_text(&self.what)
    }

    pub(super) fn owned(&self) -> Result<String, Problem> {
        self.text().map(str::to_owned)
    }

    /// The texts of a list.
    pub(super) fn texts(&self) -> Result<Vec<String>, Problem> {
        self.items()?.iter().map(Self::owned).collect()
    }

    pub(super) fn number(&self) -> Result<u32, Problem> {
        self.text()?.parse().map_err(|_| self.wrong("a whole number"))
    }

    /// A whole number within `range`, which may reach below zero.
    pub(super) fn number_in(&self, range: RangeInclusive<i32>) -> Result<i32, Problem> {
        let number = self.text()?.parse().ok().filter(|number| range.contains(number));
        let (least, greatest) = range.into_inner();
        number.ok_or_else(|| self.wrong(&format!("a whole number from {least} to {greatest}")))
    }

    pub(super) fn flag(&self) -> Result<bool, Problem> {
        self.text()?.parse().map_err(|_| self.wrong("true or false"))
    }

    /// What stands for the text of the node among `known`.
    pub(super) fn choice<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, Problem> {
        let given = self.text()?;
        let found = known.iter().find(|(name, _)| *name == given);
        found.map(|(_, meant)| *meant).ok_or_else(|| {
            let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let names = match names.rsplit_once(", ") {
                Some((others, last)) => format!("{others} or {last}"),
                None => names,
            };
            self.wrong(&format!("{names} here, not {given}"))
        })
    }
}
