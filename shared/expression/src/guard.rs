//! Puts a condition of ours beside that of a client.

use crate::malformed::{Malformed, balanced};
use crate::tokens::Kind;

/// `guard AND condition`, or the guard alone where there is no condition. Filters are conditions as well. A text that is a
/// disjunction gets brackets, and no other: those that it does not need would stand in what DynamoDB says of a text that is no
/// condition, and it refuses redundant ones, `((x))`.
///
/// Whatever the text of the condition is, the guard stands in a conjunction: the brackets of the text balance, an `OR` that
/// is in none of them gets some, and DynamoDB refuses the whole if the text is no condition.
pub fn wrap(guard: &str, condition: Option<&str>) -> Result<String, Malformed> {
    let Some(condition) = condition else { return Ok(guard.to_owned()) };
    let (guard, condition) = (conjunct(guard)?, conjunct(condition)?);
    Ok(format!("{guard} AND {condition}"))
}

/// `own OR condition`, which holds wherever either does.
pub fn either(own: &str, condition: &str) -> Result<String, Malformed> {
    balanced(condition)?;
    Ok(format!("{own} OR {condition}"))
}

/// A condition as it may stand beside an `AND`.
fn conjunct(condition: &str) -> Result<String, Malformed> {
    let mut depth = 0_usize;
    let mut is_disjunction = false;
    for token in balanced(condition)? {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => is_disjunction |= depth == 0 && token.is_word("OR"),
        }
    }
    Ok(if is_disjunction { format!("({condition})") } else { condition.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GUARD: &str = "(attribute_not_exists(#g) OR #g <= :g)";

    #[test]
    fn a_condition_is_bracketed_once() {
        let wrapped = |condition| wrap("g = :g", Some(condition)).unwrap();
        assert_eq!(wrap("g = :g", None).unwrap(), "g = :g");
        assert_eq!(wrapped("a = :a OR b = :b"), "g = :g AND (a = :a OR b = :b)");
        assert_eq!(wrapped("(a = :a OR b = :b)"), "g = :g AND (a = :a OR b = :b)");
        assert_eq!(wrapped(" (a = :a)\n"), "g = :g AND  (a = :a)\n");
        assert_eq!(wrapped("(a = :a) OR (b = :b)"), "g = :g AND ((a = :a) OR (b = :b))");
        assert_eq!(wrapped("attribute_exists(a)"), "g = :g AND attribute_exists(a)");
        assert_eq!(wrapped("NOT (a = :a)"), "g = :g AND NOT (a = :a)");
        assert_eq!(
            wrapped("a = :a AND (b = :b OR c = :c)"),
            "g = :g AND a = :a AND (b = :b OR c = :c)"
        );
        assert_eq!(either("g = :g", "a = :a OR b = :b").unwrap(), "g = :g OR a = :a OR b = :b");
    }

    #[test]
    fn a_guard_that_is_a_disjunction_gets_brackets() {
        let wrapped = |guard| wrap(guard, Some("a = :a")).unwrap();
        assert_eq!(wrapped("b = :b or c = :c"), "(b = :b or c = :c) AND a = :a");
        assert_eq!(wrapped(GUARD), format!("{GUARD} AND a = :a"));
        assert_eq!(wrapped("NOT (b = :b OR c = :c)"), "NOT (b = :b OR c = :c) AND a = :a");
    }

    #[test]
    fn what_would_leave_its_brackets_is_refused_in_the_words_of_dynamodb() {
        let refused = |condition| wrap(GUARD, Some(condition)).unwrap_err().to_string();
        assert_eq!(refused("a = :a) OR (b = :b"), r#"Syntax error; token: ")", near: ":a) OR""#);
        assert_eq!(refused(")("), r#"Syntax error; token: ")", near: ")(""#);
        assert_eq!(refused("(a = :a"), r#"Syntax error; token: "<EOF>", near: ":a""#);
        assert_eq!(refused("  "), r#"Syntax error; token: "<EOF>", near: "  ""#);
        assert_eq!(refused(""), "The expression can not be empty;");
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_stays_in_a_conjunction(text in r"([()]|.|\PC| OR |a = :a){0,12}") {
            let Ok(wrapped) = wrap(GUARD, Some(&text)) else { return Ok(()) };
            let rest = wrapped.strip_prefix(GUARD).and_then(|rest| rest.strip_prefix(" AND "));
            let mut depth = 0_usize;
            for token in balanced(rest.unwrap()).unwrap() {
                match token.kind {
                    Kind::Open => depth += 1,
                    Kind::Close => depth -= 1,
                    _ => prop_assert!(depth > 0 || !token.is_word("OR"), "{wrapped}"),
                }
            }
        }
    }
}
