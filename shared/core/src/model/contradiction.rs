//! What is wrong with a record that somebody has changed by hand.

use std::fmt;

/// A field of a metadata item or of a job that does not fit the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// Its name in the table.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Contradiction {
    pub(crate) fn new(field: &'static str, why: impl fmt::Display) -> Self {
        Self { field, why: why.to_string() }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}
