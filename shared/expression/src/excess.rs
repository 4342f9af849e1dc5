//! DynamoDB's limits of an expression, for texts that something was added to.

use std::fmt;

use crate::tokens::{Kind, tokens};

/// Which of DynamoDB's limits a text is above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is longer than 4,096 bytes.
    Bytes(usize),
    /// It has more than 300 operators and functions.
    Operators(usize),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes} bytes, of {MAX_BYTES}"),
            Self::Operators(operators) => write!(f, "{operators} operators, of {MAX_OPERATORS}"),
        }
    }
}

/// Whether a text is above a limit of DynamoDB, which refuses it then. To be asked of a text with what was added to it, where
/// the client's alone is within the limits: only then the refusal is ours to explain.
///
/// `AND`, `OR`, `NOT`, `IN`, `BETWEEN` with its `AND`, comparisons, `+`, `-` and functions count; the `=` of an assignment
/// does not ([Constraints][limits], expression parameters, which gives an example of an update alone).
///
/// [limits]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
pub fn excess(text: &str) -> Option<Excess> {
    if text.len() > MAX_BYTES {
        return Some(Excess::Bytes(text.len()));
    }
    let operators = operators(text);
    (operators > MAX_OPERATORS).then_some(Excess::Operators(operators))
}

const MAX_BYTES: usize = 4_096;
const MAX_OPERATORS: usize = 300;

fn operators(text: &str) -> usize {
    let mut tokens = tokens(text).peekable();
    let sections = ["SET", "REMOVE", "ADD", "DELETE"];
    let is_update =
        tokens.peek().is_some_and(|first| sections.iter().any(|word| first.is_word(word)));
    let mut count = 0_usize;
    let mut betweens = 0_usize;
    while let Some(token) = tokens.next() {
        let opens = tokens.peek().is_some_and(|next| next.kind == Kind::Open);
        let counts = match token.kind {
            Kind::Operator => !(is_update && token.text == "="),
            Kind::Word if token.is_word("BETWEEN") => {
                betweens += 1;
                true
            }
            Kind::Word if token.is_word("AND") && betweens > 0 => {
                betweens -= 1;
                false
            }
            Kind::Word => {
                opens || ["AND", "OR", "NOT", "IN"].iter().any(|word| token.is_word(word))
            }
            _ => false,
        };
        count += usize::from(counts);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_counted_as_aws_does() {
        assert_eq!(operators("SET a = :val1 + :val2 + :val3"), 2);
        assert_eq!(operators("a BETWEEN :a AND :b AND NOT contains(c, :c)"), 4);
        assert_eq!(operators("a IN (:a, :b) OR (b <> :b AND size(c) >= :c)"), 6);
    }

    #[test]
    fn a_text_within_the_limits_has_no_excess() {
        let of = |operators: usize| vec!["a = :a"; operators / 2].join(" AND ");
        assert_eq!(excess(&of(300)), None);
        assert_eq!(excess(&of(302)), Some(Excess::Operators(301)));
        assert_eq!(excess(&"a".repeat(4_096)), None);
        assert_eq!(excess(&"a".repeat(4_097)), Some(Excess::Bytes(4_097)));
        assert_eq!(Excess::Bytes(4_097).to_string(), "4097 bytes, of 4096");
    }
}
