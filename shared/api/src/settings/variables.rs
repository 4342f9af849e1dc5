//! Reads variables of the environment, and names all that are wrong at once.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A variable that is missing or wrong. The stack has to be deployed again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the environment variable {name} {problem}")]
pub struct ConfigError {
    name: &'static str,
    problem: String,
}

impl ConfigError {
    /// What is wrong with a variable, as in "is missing".
    pub fn new(name: &'static str, problem: impl Into<String>) -> Self {
        Self { name, problem: problem.into() }
    }

    /// A variable with a value that is none of those that are `known`, as in "on or off".
    pub fn unknown(name: &'static str, value: &str, known: &str) -> Self {
        Self::new(name, format!("is {value:?}; it must be {known}"))
    }

    /// The variable.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is wrong with it, as in "is missing".
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Every variable that is missing or wrong; at least one is. As text it has a line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Each of them, in the order in which the variables were read.
    pub fn each(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let break_before = if at == 0 { "" } else { "\n" };
            write!(f, "{break_before}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// The variables, and what was found wrong with those that were read.
pub struct Variables<F> {
    lookup: F,
    wrong: RefCell<Vec<ConfigError>>,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    /// Those that `lookup` finds by their names.
    pub fn new(lookup: F) -> Self {
        Self { lookup, wrong: RefCell::default() }
    }

    /// What the variable is set to, if to nothing then an empty text.
    pub fn lookup(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
    }

    /// Notes what is wrong, so that the other variables can be read before anything is said of it.
    pub fn keep<T>(&self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|error| self.wrong.borrow_mut().push(error)).ok()
    }

    /// Whether anything was found wrong so far.
    pub fn is_any_wrong(&self) -> bool {
        !self.wrong.borrow().is_empty()
    }

    /// What was found wrong so far.
    pub fn wrong(&self) -> ConfigErrors {
        ConfigErrors(self.wrong.borrow().clone())
    }

    /// What the variable is set to. Stacks that were deployed before there was such a parameter do not
    /// have it.
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// What the variable says, or the default of one that says nothing.
    pub fn parsed_or<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
        default: T,
    ) -> Result<T, ConfigError> {
        if self.optional(name).is_some() { self.parsed(name) } else { Ok(default) }
    }

    /// What the variable is set to. One that says nothing is missing.
    pub fn required(&self, name: &'static str) -> Result<String, ConfigError> {
        (self.lookup)(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ConfigError::new(name, "is missing"))
    }

    /// What the variable says.
    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
    ) -> Result<T, ConfigError> {
        self.required(name)?.parse().map_err(|e| ConfigError::new(name, format!("is wrong: {e}")))
    }
}
