//! Conditions and filters, and whether they hold of an item.

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::comparator::Comparator;
use crate::malformed::Malformed;
use crate::path::Path;
use crate::placeholders::Placeholders;

/// A `ConditionExpression` or a `FilterExpression` ([operators and functions][operators]).
///
/// [operators]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What the condition consists of, in postfix notation: an operator stands behind what it is of. So no text, however many
    /// brackets it has, makes anything here recurse.
    terms: Vec<Term>,
}

impl Condition {
    /// The condition that a text is. Every text that DynamoDB takes is one, and some are that it refuses: those with redundant
    /// brackets, with reserved words as names, or with operands of types that make no sense.
    pub fn parse(text: &str, placeholders: &Placeholders) -> Result<Self, Malformed> {
        parse::terms(text, placeholders).map(|terms| Self { terms })
    }

    /// Whether it holds of an item in DynamoDB JSON.
    ///
    /// Of what the item lacks nothing holds but `attribute_not_exists` and `<>`, and values of different types are not equal
    /// and have no order.
    pub fn holds(&self, item: &Map<String, Value>) -> bool {
        evaluate::holds(&self.terms, item)
    }

    /// The attributes that it is of, or of parts of which.
    pub fn names(&self) -> BTreeSet<&str> {
        let tests = self.terms.iter().filter_map(|term| match term {
            Term::Test(test) => Some(test),
            Term::Operator(_) => None,
        });
        tests.flat_map(Test::paths).map(|path| path.attribute.as_str()).collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    Test(Test),
    Operator(Operator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Not,
    And,
    Or,
}

/// What is true or false of an item by itself.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Compare(Operand, Comparator, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
    Exists(Path),
    NotExists(Path),
    Type(Operand, Operand),
    BeginsWith(Operand, Operand),
    Contains(Operand, Operand),
}

impl Test {
    fn paths(&self) -> Vec<&Path> {
        let operands = match self {
            Self::Exists(path) | Self::NotExists(path) => return vec![path],
            Self::Compare(one, _, other)
            | Self::Type(one, other)
            | Self::BeginsWith(one, other)
            | Self::Contains(one, other) => vec![one, other],
            Self::Between(one, low, high) => vec![one, low, high],
            Self::In(one, list) => [one].into_iter().chain(list).collect(),
        };
        let paths = operands.into_iter().filter_map(|operand| match operand {
            Operand::Value(_) => None,
            Operand::Path(path) | Operand::Size(path) => Some(path),
        });
        paths.collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Value(Arc<Value>),
    Path(Path),
    Size(Path),
}
