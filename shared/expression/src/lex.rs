//! The words and signs of an expression.

/// A word, a placeholder or a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// Where it ends in the text, in bytes.
    pub(crate) end: usize,
}

/// The tokens of a text, whatever it is: what belongs to no word is a sign by itself.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut end = start + first.len_utf8();
        if is_of_word(first) || matches!(first, '#' | ':') {
            while let Some((at, next)) = rest.next_if(|(_, next)| is_of_word(*next)) {
                end = at + next.len_utf8();
            }
        } else if matches!(first, '<' | '>')
            && let Some((at, next)) = rest.next_if(|(_, next)| matches!(next, '=' | '>'))
        {
            end = at + next.len_utf8();
        }
        tokens.push(Token { text: &text[start..end], end });
    }
    tokens
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}
