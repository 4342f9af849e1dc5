//! Finds what depends on the value of a key, which is another one in each shard.

use crate::placeholders::Placeholders;
use crate::tokens::{Kind, Token, tokens_in_paths};

/// Whether one of these texts uses the value of the attribute `name`, and not only whether it is there.
///
/// It errs on the side of saying so: an attribute counts wherever it is named but as the only operand of `attribute_exists` or
/// `attribute_not_exists`.
pub fn uses_value_of<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    placeholders: &Placeholders,
    name: &str,
) -> bool {
    texts.into_iter().any(|text| {
        let tokens = tokens_in_paths(text).collect::<Vec<_>>();
        tokens.iter().enumerate().any(|(at, (token, in_path))| {
            let named = match token.kind {
                Kind::Word => Some(token.text),
                Kind::Name => placeholders.names.get(token.text).map(String::as_str),
                _ => None,
            };
            let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
            named == Some(name)
                && !in_path
                && !is_asked_for(before(2), before(1), tokens.get(at + 1))
        })
    })
}

/// Whether what stands between these tokens is the operand of a function that asks whether it is there.
fn is_asked_for(
    function: Option<&(Token<'_>, bool)>,
    open: Option<&(Token<'_>, bool)>,
    close: Option<&(Token<'_>, bool)>,
) -> bool {
    let is = |token: Option<&(Token<'_>, bool)>, kind| token.is_some_and(|(t, _)| t.kind == kind);
    let asks = function.is_some_and(|(token, _)| {
        token.kind == Kind::Word
            && ["attribute_exists", "attribute_not_exists"].contains(&token.text)
    });
    asks && is(open, Kind::Open) && is(close, Kind::Close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_from_whether_it_is_there() {
        let mut client = Placeholders::default();
        client.names.insert("#k".to_owned(), "pk".to_owned());
        let uses = |text: &str| uses_value_of([text], &client, "pk");
        for text in [
            "pk = :p",
            "#k=:p",
            "SET a = pk",
            "begins_with(pk, :p)",
            "size ( #k ) > :n",
            "NOT pk IN (:p)",
        ] {
            assert!(uses(text), "{text}");
        }
        for text in [
            "attribute_exists(pk)",
            "attribute_not_exists ( #k )",
            "a.pk = :p",
            "a.#k = :p",
            ":pk = a",
            "sk = :p",
        ] {
            assert!(!uses(text), "{text}");
        }
    }
}
