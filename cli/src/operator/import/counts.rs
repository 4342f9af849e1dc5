//! How many rows an import has dealt with, and how.

use serde::{Deserialize, Serialize};

/// What became of rows, in all runs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Put.
    pub(super) written: u64,
    /// Not put, since there was an item.
    pub(super) kept: u64,
    /// In doubt, and found to be written.
    pub(super) found: u64,
    /// Refused after the first pass: by DynamoDB itself, or since a table of which there is one pass holds
    /// them.
    pub(super) refused: u64,
}

/// What became of a row for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Written,
    Kept,
    Found,
    Refused,
}

impl Counts {
    pub(super) fn add(&mut self, done: Done) {
        *match done {
            Done::Written => &mut self.written,
            Done::Kept => &mut self.kept,
            Done::Found => &mut self.found,
            Done::Refused => &mut self.refused,
        } += 1;
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            kept: self.kept + other.kept,
            found: self.found + other.found,
            refused: self.refused + other.refused,
        }
    }

    /// How many are in the table.
    pub(super) fn rows(self) -> u64 {
        self.written + self.kept + self.found
    }
}
