use thiserror::Error;

use crate::tokens::{Kind, Token, tokens};

/// Why a text cannot be added to. DynamoDB refuses it alone as well, in these words behind the kind of the expression:
/// `Invalid ConditionExpression: …`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It has no characters.
    #[error("The expression can not be empty;")]
    Empty,
    /// Its brackets do not balance, one closes that was never opened, or it is white space.
    ///
    /// DynamoDB's words are these if nothing before the bracket is wrong.
    #[error("Syntax error; token: {token:?}, near: {near:?}")]
    Syntax {
        /// The bracket that closes too much, or `<EOF>`.
        token: String,
        /// The text around it, from the token before it to the one behind it.
        near: String,
    },
}

/// Checks that brackets of a text balance, and that it has any token. The answer is its tokens.
pub(crate) fn balanced(text: &str) -> Result<Vec<Token<'_>>, Malformed> {
    if text.is_empty() {
        return Err(Malformed::Empty);
    }
    let tokens = tokens(text).collect::<Vec<_>>();
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => {
                let from = tokens[place.saturating_sub(1)].start;
                let to = tokens.get(place + 1).unwrap_or(token).end();
                let (token, near) = (token.text.to_owned(), text[from..to].to_owned());
                return Err(Malformed::Syntax { token, near });
            }
            Kind::Close => depth -= 1,
            _ => {}
        }
    }
    match tokens.last() {
        Some(_) if depth == 0 => Ok(tokens),
        last => {
            let near = last.map_or(text, |token| token.text).to_owned();
            Err(Malformed::Syntax { token: "<EOF>".to_owned(), near })
        }
    }
}
