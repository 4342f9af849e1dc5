//! What is wrong with an expression.

use thiserror::Error;

use crate::tokens::{Kind, Token, tokens};

/// Why a text cannot be added to, or not be understood. DynamoDB refuses it alone as well, in these words behind the kind of
/// the expression: `Invalid ConditionExpression: …`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It has no characters.
    #[error("The expression can not be empty;")]
    Empty,
    /// Something in it stands where it must not, or it ends too early.
    ///
    /// DynamoDB's words are these if nothing else before that is wrong.
    #[error("Syntax error; token: {token:?}, near: {near:?}")]
    Syntax {
        /// What stands there, such as a bracket that closes too much, or `<EOF>`.
        token: String,
        /// The text around it, from the token before it to the one behind it.
        near: String,
    },
    /// It has a placeholder of a name that nothing defines.
    #[error(
        "An expression attribute name used in the document path is not defined; attribute name: {0}"
    )]
    UndefinedName(String),
    /// It has a placeholder of a value that nothing defines.
    #[error(
        "An expression attribute value used in expression is not defined; attribute value: {0}"
    )]
    UndefinedValue(String),
}

impl Malformed {
    /// Of a text that goes wrong at this one of its tokens, or behind them.
    pub(crate) fn at(place: usize, tokens: &[Token<'_>], text: &str) -> Self {
        if text.is_empty() {
            return Self::Empty;
        }
        let Some(token) = tokens.get(place) else {
            let near = tokens.last().map_or(text, |token| token.text).to_owned();
            return Self::Syntax { token: "<EOF>".to_owned(), near };
        };
        let from = tokens[place.saturating_sub(1)].start;
        let to = tokens.get(place + 1).unwrap_or(token).end();
        Self::Syntax { token: token.text.to_owned(), near: text[from..to].to_owned() }
    }
}

/// Checks that brackets of a text balance, and that it has any token. The answer is its tokens.
pub(crate) fn balanced(text: &str) -> Result<Vec<Token<'_>>, Malformed> {
    let tokens = tokens(text).collect::<Vec<_>>();
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => return Err(Malformed::at(place, &tokens, text)),
            Kind::Close => depth -= 1,
            _ => {}
        }
    }
    if tokens.is_empty() || depth > 0 {
        return Err(Malformed::at(tokens.len(), &tokens, text));
    }
    Ok(tokens)
}
