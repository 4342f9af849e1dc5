use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::ALARM_NAME;

/// A variable that is missing or wrong. The stack has to be deployed again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the environment variable {name} {problem}")]
pub struct ConfigError {
    pub(super) name: &'static str,
    pub(super) problem: String,
}

impl ConfigError {
    /// The variable.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is wrong with it, as in "is missing".
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// A function that acts on alarms was told of none.
    pub(crate) fn no_alarm() -> Self {
        Self { name: ALARM_NAME, problem: "is missing".to_owned() }
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

pub(super) fn unknown(name: &'static str, value: &str, known: &str) -> ConfigError {
    ConfigError { name, problem: format!("is {value:?}; it must be {known}") }
}

/// The variables, and what was found wrong with those that were read.
pub(super) struct Variables<F> {
    pub(super) lookup: F,
    wrong: RefCell<Vec<ConfigError>>,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    pub(super) fn new(lookup: F) -> Self {
        Self { lookup, wrong: RefCell::default() }
    }

    /// Notes what is wrong, so that the other variables can be read before anything is said of it.
    pub(super) fn keep<T>(&self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|error| self.wrong.borrow_mut().push(error)).ok()
    }

    pub(super) fn is_any_wrong(&self) -> bool {
        !self.wrong.borrow().is_empty()
    }

    pub(super) fn wrong(&self) -> ConfigErrors {
        ConfigErrors(self.wrong.borrow().clone())
    }

    /// What the variable is set to. Stacks that were deployed before there was such a parameter do not
    /// have it.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    pub(super) fn parsed_or<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
        default: T,
    ) -> Result<T, ConfigError> {
        if self.optional(name).is_some() { self.parsed(name) } else { Ok(default) }
    }

    pub(super) fn required(&self, name: &'static str) -> Result<String, ConfigError> {
        (self.lookup)(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ConfigError { name, problem: "is missing".to_owned() })
    }

    pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
    ) -> Result<T, ConfigError> {
        self.required(name)?
            .parse()
            .map_err(|e| ConfigError { name, problem: format!("is wrong: {e}") })
    }
}
