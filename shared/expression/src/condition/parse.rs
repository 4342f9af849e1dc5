//! Reads a condition into its terms.

use super::{Operand, Operator, Term, Test};
use crate::comparator::Comparator;
use crate::cursor::Cursor;
use crate::malformed::Malformed;
use crate::placeholders::Placeholders;
use crate::tokens::Kind;

/// The terms of a condition in postfix notation.
///
/// `NOT` binds more tightly than `AND`, and that more tightly than `OR` (DynamoDB Developer Guide, "Precedence in conditions").
pub(super) fn terms(text: &str, placeholders: &Placeholders) -> Result<Vec<Term>, Malformed> {
    let mut cursor = Cursor::new(text, placeholders);
    let mut terms = Vec::new();
    let mut waiting = Vec::new();
    loop {
        if cursor.takes("NOT") {
            waiting.push(Waiting::Operator(Operator::Not));
            continue;
        }
        // A bracket may be that of an operand, `(a) = :v`, which only what is behind it tells.
        if next_is(&cursor, Kind::Open) && cursor.ahead(|cursor| test(cursor).is_err()) {
            cursor.expect("(")?;
            waiting.push(Waiting::Bracket);
            continue;
        }
        terms.push(Term::Test(test(&mut cursor)?));
        while next_is(&cursor, Kind::Close) {
            operators(&mut waiting, &mut terms, Operator::Or);
            waiting.pop().ok_or_else(|| cursor.unexpected())?;
            cursor.expect(")")?;
        }
        let operator = if cursor.takes("AND") {
            Operator::And
        } else if cursor.takes("OR") {
            Operator::Or
        } else {
            operators(&mut waiting, &mut terms, Operator::Or);
            let is_whole = waiting.is_empty() && cursor.peek().is_none();
            return if is_whole { Ok(terms) } else { Err(cursor.unexpected()) };
        };
        operators(&mut waiting, &mut terms, operator);
        waiting.push(Waiting::Operator(operator));
    }
}

/// What waits for what follows it.
enum Waiting {
    Operator(Operator),
    Bracket,
}

/// Has the operators behind the last bracket follow what they are of, those that bind at least as tightly as `next` does.
fn operators(waiting: &mut Vec<Waiting>, terms: &mut Vec<Term>, next: Operator) {
    let tightness = |operator| match operator {
        Operator::Not => 2,
        Operator::And => 1,
        Operator::Or => 0,
    };
    while let Some(Waiting::Operator(operator)) = waiting.last() {
        if tightness(*operator) < tightness(next) {
            break;
        }
        terms.push(Term::Operator(*operator));
        waiting.pop();
    }
}

fn next_is(cursor: &Cursor<'_>, kind: Kind) -> bool {
    cursor.peek().is_some_and(|next| next.kind == kind)
}

/// A comparison or a function.
fn test(cursor: &mut Cursor<'_>) -> Result<Test, Malformed> {
    match cursor.function() {
        None | Some("size") => comparison(cursor),
        Some(name) => function(name, cursor),
    }
}

fn comparison(cursor: &mut Cursor<'_>) -> Result<Test, Malformed> {
    let left = operand(cursor)?;
    if cursor.takes("BETWEEN") {
        let low = operand(cursor)?;
        cursor.expect("AND")?;
        return Ok(Test::Between(left, low, operand(cursor)?));
    }
    if cursor.takes("IN") {
        cursor.expect("(")?;
        let mut among = vec![operand(cursor)?];
        while cursor.takes(",") {
            among.push(operand(cursor)?);
        }
        cursor.expect(")")?;
        return Ok(Test::In(left, among));
    }
    let comparator = Comparator::read(cursor)?;
    Ok(Test::Compare(left, comparator, operand(cursor)?))
}

/// A function, whose names are case-sensitive.
fn function(name: &str, cursor: &mut Cursor<'_>) -> Result<Test, Malformed> {
    let of_two = match name {
        "attribute_exists" | "attribute_not_exists" => None,
        "attribute_type" => Some(Test::Type as fn(Operand, Operand) -> Test),
        "begins_with" => Some(Test::BeginsWith as _),
        "contains" => Some(Test::Contains as _),
        _ => return Err(cursor.unexpected()),
    };
    cursor.expect(name)?;
    cursor.expect("(")?;
    let function = if let Some(of_two) = of_two {
        let of = operand(cursor)?;
        cursor.expect(",")?;
        of_two(of, operand(cursor)?)
    } else {
        let path = cursor.path()?;
        if name == "attribute_exists" { Test::Exists(path) } else { Test::NotExists(path) }
    };
    cursor.expect(")")?;
    Ok(function)
}

/// An operand, which may have one pair of brackets: DynamoDB refuses redundant ones, `((a))`.
fn operand(cursor: &mut Cursor<'_>) -> Result<Operand, Malformed> {
    if !cursor.takes("(") {
        return bare_operand(cursor);
    }
    let operand = bare_operand(cursor)?;
    cursor.expect(")")?;
    Ok(operand)
}

fn bare_operand(cursor: &mut Cursor<'_>) -> Result<Operand, Malformed> {
    if let Some(value) = cursor.value()? {
        return Ok(Operand::Value(value));
    }
    if cursor.function() != Some("size") {
        return cursor.path().map(Operand::Path);
    }
    cursor.expect("size")?;
    cursor.expect("(")?;
    let path = cursor.path()?;
    cursor.expect(")")?;
    Ok(Operand::Size(path))
}
