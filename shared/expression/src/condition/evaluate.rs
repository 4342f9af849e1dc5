//! Whether a condition holds of an item.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Operand, Operator, Term, Test};
use crate::comparator::Comparator;
use crate::value::{begins_with, contains, size, typed};

/// Whether terms in postfix notation hold of an item.
pub(super) fn holds(terms: &[Term], item: &Map<String, Value>) -> bool {
    let mut results = Vec::<bool>::new();
    for term in terms {
        // Nothing is missing here: whoever wrote the terms put them behind as many as they are of.
        let result = match term {
            Term::Test(test) => test.holds(item),
            Term::Operator(operator) => {
                let last = results.pop().unwrap_or_default();
                match operator {
                    Operator::Not => !last,
                    Operator::And => results.pop().unwrap_or_default() && last,
                    Operator::Or => results.pop().unwrap_or_default() || last,
                }
            }
        };
        results.push(result);
    }
    results.pop().unwrap_or_default()
}

impl Test {
    fn holds(&self, item: &Map<String, Value>) -> bool {
        let of_both = |test: fn(&Value, &Value) -> bool, left: &Operand, right: &Operand| {
            let both = left.value(item).zip(right.value(item));
            both.is_some_and(|(left, right)| test(&left, &right))
        };
        match self {
            Self::Compare(left, comparator, right) => {
                comparator.holds(left.value(item).as_deref(), right.value(item).as_deref())
            }
            Self::Between(operand, low, high) => {
                let value = operand.value(item);
                Comparator::AtLeast.holds(value.as_deref(), low.value(item).as_deref())
                    && Comparator::AtMost.holds(value.as_deref(), high.value(item).as_deref())
            }
            Self::In(operand, among) => {
                let value = operand.value(item);
                among.iter().any(|one| {
                    Comparator::Equal.holds(value.as_deref(), one.value(item).as_deref())
                })
            }
            Self::Exists(path) => path.find(item).is_some(),
            Self::NotExists(path) => path.find(item).is_none(),
            Self::Type(operand, name) => of_both(is_of_type, operand, name),
            Self::BeginsWith(operand, prefix) => of_both(begins_with, operand, prefix),
            Self::Contains(operand, sought) => of_both(contains, operand, sought),
        }
    }
}

impl Operand {
    /// Its value for an item, if it has one.
    fn value<'a>(&'a self, item: &'a Map<String, Value>) -> Option<Cow<'a, Value>> {
        match self {
            Self::Value(value) => Some(Cow::Borrowed(value)),
            Self::Path(path) => path.find(item).map(Cow::Borrowed),
            Self::Size(path) => {
                let size = size(path.find(item)?)?;
                Some(Cow::Owned(json!({"N": size.to_string()})))
            }
        }
    }
}

/// Whether a value is of the type that another one names, such as `{"S": "NS"}`.
fn is_of_type(value: &Value, name: &Value) -> bool {
    let name = typed(name).and_then(|(of_type, name)| name.as_str().filter(|_| of_type == "S"));
    typed(value).is_some_and(|(of_type, _)| Some(of_type) == name)
}
