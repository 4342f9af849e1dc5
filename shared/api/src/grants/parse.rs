//! Reads the rules of `KeyGrants`.

use dynashard_core::PatternPart;

use super::{GrantsError, KeyPart, Pattern, Rule, Who};

/// `arn:partition:service:region:account:resource`.
pub(super) const ARN_PARTS: usize = 6;

/// A character of the rules, and whether a backslash takes it for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    character: char,
    is_literal: bool,
}

impl Token {
    fn is(self, character: char) -> bool {
        !self.is_literal && self.character == character
    }

    /// What it stands for in a pattern.
    fn part(self) -> PatternPart {
        if self.is_literal {
            PatternPart::Literal(self.character)
        } else {
            PatternPart::of(self.character)
        }
    }
}

/// Reads the rules of the parameter; none if it is empty.
pub(super) fn rules(text: &str) -> Result<Vec<Rule>, GrantsError> {
    let tokens = tokens(text)?;
    if trimmed(&tokens).is_empty() {
        return Ok(Vec::new());
    }
    tokens.split(|token| token.is(';')).map(rule).collect()
}

fn tokens(text: &str) -> Result<Vec<Token>, GrantsError> {
    let mut characters = text.chars();
    let mut tokens = Vec::with_capacity(text.len());
    while let Some(character) = characters.next() {
        let is_literal = character == '\\';
        let character = if is_literal { characters.next() } else { Some(character) };
        let character = character.ok_or_else(|| {
            GrantsError("the last backslash has no character behind it".to_owned())
        })?;
        tokens.push(Token { character, is_literal });
    }
    Ok(tokens)
}

fn rule(tokens: &[Token]) -> Result<Rule, GrantsError> {
    let wrong = |why: &str| GrantsError(format!("the rule {:?} {why}", shown(tokens)));
    let equals = tokens.iter().position(|token| token.is('='));
    let equals = equals.ok_or_else(|| wrong("has no = between who and the patterns"))?;
    let (who_tokens, keys) = (trimmed(&tokens[..equals]), &tokens[equals + 1..]);
    let who = who(who_tokens).map_err(wrong)?;
    let keys = keys.split(|token| token.is(',')).map(|key| self::key(trimmed(key)));
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let has_claims = keys.iter().flatten().any(|part| matches!(part, KeyPart::Claim { .. }));
    if has_claims && matches!(who, Who::Arn(_)) {
        return Err(wrong("has a {claim} for an ARN, and a caller with an ARN has no claims"));
    }
    Ok(Rule { who, keys })
}

fn who(tokens: &[Token]) -> Result<Who, &'static str> {
    if tokens.is_empty() {
        return Err("does not say who: name *, an ARN or claim:value");
    }
    if let [token] = tokens
        && token.is('*')
    {
        return Ok(Who::Anyone);
    }
    if tokens.iter().any(|token| token.is('{') || token.is('}')) {
        return Err("has braces in who: only patterns of keys take a {claim}");
    }
    let begins_with_arn = "arn:".chars().zip(tokens).all(|(wanted, token)| token.is(wanted));
    if begins_with_arn && tokens.len() >= "arn:".len() {
        let parts = tokens.splitn(ARN_PARTS, |token| token.is(':'));
        let parts = parts.map(pattern).collect::<Vec<_>>();
        if parts.len() != ARN_PARTS {
            return Err(
                "has an ARN without its six parts, arn:partition:service:region:account:resource",
            );
        }
        return Ok(Who::Arn(parts));
    }
    let colon = tokens.iter().rposition(|token| token.is(':'));
    let colon = colon.ok_or("does not say who: name *, an ARN or claim:value")?;
    let (name, value) = (trimmed(&tokens[..colon]), trimmed(&tokens[colon + 1..]));
    if name.iter().any(|token| token.is('*') || token.is('?')) {
        return Err("has a wildcard in the name of a claim");
    }
    if name.is_empty() || value.is_empty() {
        return Err("has a claim without a name or without a value");
    }
    Ok(Who::Claim { name: text(name), value: pattern(value) })
}

fn key(tokens: &[Token]) -> Result<Vec<KeyPart>, &'static str> {
    if tokens.is_empty() {
        return Err("has an empty pattern");
    }
    let mut parts = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let [token, after @ ..] = rest {
        if token.is('}') {
            return Err("has a } without its {");
        }
        if !token.is('{') {
            parts.push(KeyPart::Fixed(token.part()));
            rest = after;
            continue;
        }
        let end = after.iter().position(|token| token.is('}'));
        let end = end.ok_or("has a { without its }")?;
        let (name, behind) = (&after[..end], &after[end + 1..]);
        if trimmed(name).is_empty() || name.iter().any(|token| token.is('{')) {
            return Err("has braces without the name of a claim");
        }
        let before = match parts.last() {
            None => None,
            Some(KeyPart::Fixed(part)) => Some(*part),
            Some(KeyPart::Claim { .. }) => return Err(UNBOUNDED),
        };
        let behind_part = behind.first().map(|token| token.part());
        let beside = [before, behind_part].into_iter().flatten().map(|part| match part {
            PatternPart::Literal(character) => Ok(character),
            PatternPart::AnyOne | PatternPart::AnyMany => Err(UNBOUNDED),
        });
        parts.push(KeyPart::Claim {
            name: text(trimmed(name)),
            beside: beside.collect::<Result<_, _>>()?,
        });
        rest = behind;
    }
    Ok(parts)
}

const UNBOUNDED: &str = "has a wildcard or a claim beside a {claim}: put a character between them that no value has, as in {tenant}/*";

fn pattern(tokens: &[Token]) -> Pattern {
    tokens.iter().map(|token| token.part()).collect()
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.character).collect()
}

/// The rule as it was written, but for its backslashes, in a length for a message.
fn shown(tokens: &[Token]) -> String {
    trimmed(tokens).iter().take(100).map(|token| token.character).collect()
}

fn trimmed(mut tokens: &[Token]) -> &[Token] {
    let is_space = |token: &Token| !token.is_literal && token.character.is_whitespace();
    while let [first, rest @ ..] = tokens
        && is_space(first)
    {
        tokens = rest;
    }
    while let [rest @ .., last] = tokens
        && is_space(last)
    {
        tokens = rest;
    }
    tokens
}
