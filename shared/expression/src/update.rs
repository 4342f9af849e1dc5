//! Adds assignments to update expressions.

use crate::malformed::Malformed;
use crate::tokens::{tokens, tokens_in_paths};

/// An update expression with these assignments, such as `#v = :v`, as the last of its `SET` section, or in a `SET` section
/// of their own.
///
/// `SET` is a reserved word, so a word like that begins the section unless a dot precedes it, which makes it part of a path.
/// DynamoDB refuses an update with two such sections, with or without the assignments.
pub fn with_assignments(update: Option<&str>, assignments: &str) -> Result<String, Malformed> {
    let Some(update) = update else { return Ok(format!("SET {assignments}")) };
    if tokens(update).next().is_none() {
        return Err(Malformed::at(0, &[], update));
    }
    let tokens = tokens_in_paths(update).collect::<Vec<_>>();
    let begins = |at: usize, words: &[&str]| {
        let (token, in_path) = tokens[at];
        !in_path && words.iter().any(|word| token.is_word(word))
    };
    let Some(set) = (0..tokens.len()).find(|at| begins(*at, &["SET"])) else {
        // Where the text goes wrong is mostly its end, unless it does not begin as an update.
        return Ok(if begins(0, &["REMOVE", "ADD", "DELETE"]) {
            format!("SET {assignments} {update}")
        } else {
            format!("{update} SET {assignments}")
        });
    };
    let mut behind = set + 1..tokens.len();
    let next = behind.find(|at| begins(*at, &["SET", "REMOVE", "ADD", "DELETE"]));
    let end = tokens[next.unwrap_or(tokens.len()) - 1].0.end();
    let (before, behind) = update.split_at(end);
    // Behind it a section may begin at once.
    let space = if behind.starts_with(|next: char| !next.is_ascii_whitespace()) { " " } else { "" };
    Ok(format!("{before}, {assignments}{space}{behind}"))
}

/// Whether an update makes an item where there is none: if it has no sections, or one that sets or adds. One that only
/// removes succeeds there and leaves nothing behind, so with assignments it would make an item that the client did not ask
/// for.
///
/// The guide says so of [`AttributeUpdates`][updates] and its action `DELETE`. It is silent on expressions, for which this is
/// taken to hold as well.
///
/// [updates]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LegacyConditionalParameters.AttributeUpdates.html
pub fn may_create(update: &str) -> bool {
    let removes = |word: &str| ["REMOVE", "DELETE"].contains(&word);
    let sections = tokens_in_paths(update).filter(|(_, in_path)| !in_path);
    let words = sections.map(|(token, _)| token.text.to_ascii_uppercase());
    let words = words.collect::<Vec<_>>();
    let makes = words.iter().any(|word| ["SET", "ADD"].contains(&word.as_str()));
    makes || !words.iter().any(|word| removes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_stand_behind_the_first_set_or_in_a_section_of_their_own() {
        let added = |update| with_assignments(Some(update), "#v = :v").unwrap();
        assert_eq!(with_assignments(None, "#v = :v").unwrap(), "SET #v = :v");
        assert_eq!(added("SET a = :a"), "SET a = :a, #v = :v");
        assert_eq!(added("remove b set a=:a"), "remove b set a=:a, #v = :v");
        assert_eq!(added("SET#a = :a REMOVE b"), "SET#a = :a, #v = :v REMOVE b");
        assert_eq!(added("SET a = f(:a)REMOVE b"), "SET a = f(:a), #v = :v REMOVE b");
        assert_eq!(added("a = :a"), "a = :a SET #v = :v");
        assert_eq!(added("ADD a :a"), "SET #v = :v ADD a :a");
        assert_eq!(added("REMOVE a.SET, #SET.SET"), "SET #v = :v REMOVE a.SET, #SET.SET");
        assert_eq!(added("REMOVE a . set"), "SET #v = :v REMOVE a . set");
    }

    #[test]
    fn an_update_without_a_token_is_refused_as_dynamodb_does() {
        assert_eq!(with_assignments(Some(""), "#v = :v"), Err(Malformed::Empty));
        let error = with_assignments(Some(" \t"), "#v = :v").unwrap_err().to_string();
        assert_eq!(error, r#"Syntax error; token: "<EOF>", near: " \t""#);
    }

    #[test]
    fn only_what_sets_or_adds_makes_an_item() {
        for update in ["", "REMOVE a add b :b", "SET a = :a", "a.remove"] {
            assert!(may_create(update), "{update}");
        }
        assert!(!may_create("REMOVE a.add, b DELETE c :c"));
    }
}
