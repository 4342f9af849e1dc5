//! Goes through the tokens of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::malformed::Malformed;
use crate::path::{Path, Step};
use crate::placeholders::Placeholders;
use crate::tokens::{Kind, Token, tokens};

/// Where the reading of a text is, and what its placeholders stand for.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    place: usize,
    placeholders: &'a Placeholders,
    /// The values so far. A short text may name a large value often, and they share it.
    values: BTreeMap<&'a str, Arc<Value>>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, placeholders: &'a Placeholders) -> Self {
        let tokens = tokens(text).collect();
        Self { text, tokens, place: 0, placeholders, values: BTreeMap::new() }
    }

    /// The next token, if there is one.
    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.place).copied()
    }

    /// That the text is no expression, because of the next token or for want of one.
    pub(crate) fn unexpected(&self) -> Malformed {
        Malformed::at(self.place, &self.tokens, self.text)
    }

    /// Gets past the next token if it is this keyword or sign. The answer is whether it was.
    pub(crate) fn takes(&mut self, wanted: &str) -> bool {
        let takes = self.peek().is_some_and(|next| next.text.eq_ignore_ascii_case(wanted));
        self.place += usize::from(takes);
        takes
    }

    /// Gets past this keyword or sign, which has to be next.
    pub(crate) fn expect(&mut self, wanted: &str) -> Result<(), Malformed> {
        if self.takes(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The name of the function that is called next, if one is.
    pub(crate) fn function(&self) -> Option<&'a str> {
        let name = self.peek().filter(|next| next.kind == Kind::Word)?;
        self.tokens.get(self.place + 1).filter(|next| next.kind == Kind::Open)?;
        Some(name.text)
    }

    /// What `read` makes of what is next, which is read again afterwards.
    pub(crate) fn ahead<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let place = self.place;
        let read = read(self);
        self.place = place;
        read
    }

    /// The value of the placeholder that is next, if one is.
    pub(crate) fn value(&mut self) -> Result<Option<Arc<Value>>, Malformed> {
        let Some(token) = self.peek().filter(|next| next.kind == Kind::Value) else {
            return Ok(None);
        };
        self.place += 1;
        if let Some(known) = self.values.get(token.text) {
            return Ok(Some(Arc::clone(known)));
        }
        let value = self.placeholders.values.get(token.text);
        let value = value.ok_or_else(|| Malformed::UndefinedValue(token.text.to_owned()))?;
        let value = Arc::new(value.clone());
        self.values.insert(token.text, Arc::clone(&value));
        Ok(Some(value))
    }

    /// The document path that has to be next.
    pub(crate) fn path(&mut self) -> Result<Path, Malformed> {
        let attribute = self.name()?;
        let mut steps = Vec::new();
        loop {
            if self.takes(".") {
                steps.push(Step::Member(self.name()?));
            } else if self.takes("[") {
                let index = self.peek().filter(|next| next.kind == Kind::Number);
                let index = index.and_then(|index| index.text.parse().ok());
                steps.push(Step::Element(index.ok_or_else(|| self.unexpected())?));
                self.place += 1;
                self.expect("]")?;
            } else {
                return Ok(Path { attribute, steps });
            }
        }
    }

    /// A name, or what its placeholder stands for.
    fn name(&mut self) -> Result<String, Malformed> {
        let next = self.peek().ok_or_else(|| self.unexpected())?;
        let name = match next.kind {
            Kind::Word if !KEYWORDS.iter().any(|word| next.is_word(word)) => next.text,
            Kind::Name => {
                let name = self.placeholders.names.get(next.text);
                name.ok_or_else(|| Malformed::UndefinedName(next.text.to_owned()))?
            }
            _ => return Err(self.unexpected()),
        };
        self.place += 1;
        Ok(name.to_owned())
    }
}

/// The words that mean something in a condition, and so cannot be names. DynamoDB reserves many more.
const KEYWORDS: &[&str] = &["AND", "BETWEEN", "IN", "NOT", "OR"];
