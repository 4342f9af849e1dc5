//! The tokens of all kinds of expressions.

/// A token, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Where it begins, in bytes.
    pub(crate) start: usize,
}

/// What a token is. There are no literals of texts and no comments, so a bracket is one wherever it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword, the name of a function, or an attribute.
    Word,
    /// `#name`.
    Name,
    /// `:value`.
    Value,
    /// The index of an element.
    Number,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `.`.
    Dot,
    /// `=`, `<>`, `<`, `<=`, `>`, `>=`, `+` or `-`.
    Operator,
    /// Any other character but white space: `,`, `[`, `]`, and whatever DynamoDB refuses.
    Other,
}

impl Token<'_> {
    /// Where it ends, in bytes.
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is this keyword, in either case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }
}

/// The tokens of any text whatever.
///
/// What DynamoDB could read as a word is one here, too: a run of ASCII letters, digits and `_` that does not begin with a
/// digit. So digits before a word, or a letter beyond ASCII, hide nothing.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        start += text[start..].find(|c: char| !c.is_ascii_whitespace())?;
        let rest = &text[start..];
        let (kind, length) = first(rest)?;
        let token = Token { kind, text: &rest[..length], start };
        start += length;
        Some(token)
    })
}

/// Each token with whether a dot precedes it, which makes it an element of a path that is not the first.
pub(crate) fn tokens_in_paths(text: &str) -> impl Iterator<Item = (Token<'_>, bool)> {
    let mut behind_dot = false;
    tokens(text).map(move |token| {
        let is_behind_dot = std::mem::replace(&mut behind_dot, token.kind == Kind::Dot);
        (token, is_behind_dot)
    })
}

/// The kind of the first token of a text that does not begin with white space, and its length.
fn first(text: &str) -> Option<(Kind, usize)> {
    let mut characters = text.chars();
    let first = characters.next()?;
    let second = characters.next();
    let of_word = |from: usize| {
        let rest = &text[from..];
        from + rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len())
    };
    Some(match first {
        '#' => (Kind::Name, of_word(1)),
        ':' => (Kind::Value, of_word(1)),
        '(' => (Kind::Open, 1),
        ')' => (Kind::Close, 1),
        '.' => (Kind::Dot, 1),
        '<' if matches!(second, Some('>' | '=')) => (Kind::Operator, 2),
        '>' if second == Some('=') => (Kind::Operator, 2),
        '=' | '<' | '>' | '+' | '-' => (Kind::Operator, 1),
        c if c.is_ascii_digit() => {
            let digits = text.find(|c: char| !c.is_ascii_digit());
            (Kind::Number, digits.unwrap_or(text.len()))
        }
        c if is_of_word(c) => (Kind::Word, of_word(0)),
        c => (Kind::Other, c.len_utf8()),
    })
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).map(|token| token.text).collect()
    }

    #[test]
    fn tokens_need_no_space_between_them() {
        assert_eq!(
            texts("a.b[0]<>:v AND\n(#c>=d)"),
            ["a", ".", "b", "[", "0", "]", "<>", ":v", "AND", "(", "#c", ">=", "d", ")"]
        );
        assert_eq!(texts(" 1_ds_v é_ds_g # :\t! "), ["1", "_ds_v", "é", "_ds_g", "#", ":", "!"]);
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_outside_of_the_tokens(text in any::<String>()) {
            let mut end = 0;
            for token in tokens(&text) {
                prop_assert!(text[end..token.start].chars().all(|c| c.is_ascii_whitespace()));
                prop_assert_eq!(&text[token.start..token.end()], token.text);
                prop_assert!(!token.text.is_empty());
                end = token.end();
            }
            prop_assert!(text[end..].chars().all(|c| c.is_ascii_whitespace()));
        }
    }
}
