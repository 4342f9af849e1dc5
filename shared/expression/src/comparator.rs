//! Comparisons of two values.

use std::cmp::Ordering;

use serde_json::Value;

use crate::cursor::Cursor;
use crate::malformed::Malformed;
use crate::value::{equal, order};

/// What compares two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparator {
    /// `=`.
    Equal,
    /// `<>`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
}

impl Comparator {
    /// The comparator that has to be next.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let sign = cursor.peek().map(|next| next.text).unwrap_or_default();
        let comparator = match sign {
            "=" => Self::Equal,
            "<>" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::Greater,
            ">=" => Self::AtLeast,
            _ => return Err(cursor.unexpected()),
        };
        cursor.expect(sign)?;
        Ok(comparator)
    }

    /// The comparator that says the same with the operands the other way round.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Greater => Self::Less,
            Self::AtLeast => Self::AtMost,
        }
    }

    /// Whether two values compare so. One that is not there is equal to nothing, and has no order.
    pub(crate) fn holds(self, left: Option<&Value>, right: Option<&Value>) -> bool {
        let both = left.zip(right);
        let ordered = || both.and_then(|(left, right)| order(left, right));
        let equal = || both.is_some_and(|(left, right)| equal(left, right));
        match self {
            Self::Equal => equal(),
            Self::NotEqual => !equal(),
            Self::Less => ordered().is_some_and(Ordering::is_lt),
            Self::AtMost => ordered().is_some_and(Ordering::is_le),
            Self::Greater => ordered().is_some_and(Ordering::is_gt),
            Self::AtLeast => ordered().is_some_and(Ordering::is_ge),
        }
    }
}
