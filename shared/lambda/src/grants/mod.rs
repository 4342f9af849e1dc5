//! Which partition keys a caller may touch: the rules of the parameter `KeyGrants`.
//!
//! A rule is `WHO=PATTERNS`, and rules are separated by semicolons: `tenant:acme=acme/*,shared/*; *={tenant}/*`.
//! A caller has the patterns of all rules whose WHO it is.
//!
//! - WHO is `*`, any caller that the API let in; a pattern of the caller's ARN (`arn:aws:sts::*:assumed-role/orders/*`), in
//!   which wildcards stay within their part, as in the condition `ArnLike` of IAM; or `claim:pattern`, where the last colon
//!   ends the name of the claim. A claim that is a list is one if one member is.
//! - PATTERNS are patterns of partition keys, separated by commas. `*` stands for any characters, `?` for one, and
//!   `{claim}` for the caller's claim, character by character.
//! - A backslash takes the character behind it for itself. Spaces around a part do not count.
//!
//! No value of a claim widens a pattern. Its wildcards are characters, and it ends where the pattern goes on: a value with
//! the character that stands before or behind its braces matches nothing, and a wildcard beside braces is refused. So
//! `{tenant}/*` never grants the collections of one tenant to another, however their names begin.

mod caller;
mod parse;

use std::str::FromStr;
use std::sync::Arc;

use dynashard_core::{PatternPart, matches_pattern};
use dynashard_keys::PartitionKey;
use serde_json::Value;
use thiserror::Error;

use crate::Problem;
use caller::Caller;

/// The rules of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(Arc<[Rule]>);

/// Rules that cannot be read: what is wrong, and in which rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct GrantsError(String);

/// The partition keys that one caller may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedKeys(Option<Arc<[Pattern]>>);

type Pattern = Vec<PatternPart>;

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    who: Who,
    keys: Vec<Vec<KeyPart>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    /// By the six parts of the ARN.
    Arn(Vec<Pattern>),
    Claim {
        name: String,
        value: Pattern,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum KeyPart {
    Fixed(PatternPart),
    /// The caller's claim of this name, which holds none of the characters beside it.
    Claim {
        name: String,
        beside: Vec<char>,
    },
}

impl FromStr for Grants {
    type Err = GrantsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::rules(text).map(|rules| Self(rules.into()))
    }
}

impl Grants {
    /// What the caller of an event may touch: every partition key if there are no rules. With rules, an event that no
    /// authorizer of the API has looked at is refused, since its caller is unknown.
    pub(crate) fn of_event(&self, event: &Value) -> Result<GrantedKeys, Problem> {
        if self.0.is_empty() {
            return Ok(GrantedKeys::all());
        }
        let caller = Caller::of_event(event).ok_or_else(|| {
            let why = "the caller is unknown, and KeyGrants needs one: send the request through the API, whose authorizer names the caller";
            Problem::key_not_granted(why.to_owned())
        })?;
        let rules = self.0.iter().filter(|rule| rule.who.is(&caller));
        let patterns = rules.flat_map(|rule| &rule.keys).filter_map(|key| filled(key, &caller));
        Ok(GrantedKeys(Some(patterns.collect())))
    }
}

impl Who {
    fn is(&self, caller: &Caller) -> bool {
        match (self, caller) {
            (Self::Anyone, _) => true,
            (Self::Arn(pattern), Caller::Iam { arn }) => {
                let parts = arn.splitn(parse::ARN_PARTS, ':').collect::<Vec<_>>();
                parts.len() == pattern.len()
                    && pattern.iter().zip(parts).all(|(pattern, part)| matches(pattern, part))
            }
            (Self::Claim { name, value }, Caller::Jwt { claims }) => claims
                .get(name)
                .is_some_and(|claim| claim.members().any(|member| matches(value, member))),
            (Self::Arn(_), Caller::Jwt { .. }) | (Self::Claim { .. }, Caller::Iam { .. }) => false,
        }
    }
}

/// A pattern with the caller's claims in their places, unless one is missing or cannot stand there.
fn filled(key: &[KeyPart], caller: &Caller) -> Option<Pattern> {
    let mut pattern = Pattern::with_capacity(key.len());
    for part in key {
        match part {
            KeyPart::Fixed(part) => pattern.push(*part),
            KeyPart::Claim { name, beside } => {
                let value = caller.claim(name)?;
                // No key is longer, so nothing is lost, and a page of rules stays cheap.
                if value.len() > PartitionKey::MAX_BYTES || value.contains(&beside[..]) {
                    return None;
                }
                pattern.extend(value.chars().map(PatternPart::Literal));
            }
        }
    }
    Some(pattern)
}

impl GrantedKeys {
    /// Every partition key: of a caller to whom no rules apply.
    pub const fn all() -> Self {
        Self(None)
    }

    /// Refuses a partition key that the caller may not touch. Whether anything lies under it plays no part.
    pub fn check(&self, partition: &PartitionKey) -> Result<(), Problem> {
        let Some(patterns) = &self.0 else { return Ok(()) };
        if patterns.iter().any(|pattern| matches(pattern, partition.as_str())) {
            return Ok(());
        }
        let why = format!("no rule of KeyGrants grants the caller pk={:?}", partition.as_str());
        Err(Problem::key_not_granted(why))
    }
}

fn matches(pattern: &[PatternPart], text: &str) -> bool {
    matches_pattern(pattern.iter().copied(), text)
}

#[cfg(test)]
mod tests;
