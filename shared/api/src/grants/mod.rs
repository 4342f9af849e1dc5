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

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use dynashard_core::{Grant, PatternPart, matches_pattern};
use dynashard_keys::PartitionKey;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use thiserror::Error;

use crate::problem::Problem;
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
    /// What a caller may touch, by what an authorizer of the API says of it (`requestContext.authorizer` of an event): every
    /// partition key if there are no rules. With rules, a request that no authorizer has looked at is refused, since its
    /// caller is unknown.
    pub fn of_authorizer(&self, authorizer: Option<&Value>) -> Result<GrantedKeys, Problem> {
        if self.0.is_empty() {
            return Ok(GrantedKeys::all());
        }
        let caller = authorizer.and_then(Caller::of_authorizer).ok_or_else(|| {
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

    /// Whether the caller may touch every partition key there can be.
    pub fn are_all(&self) -> bool {
        let is_any = |pattern: &Pattern| matches!(pattern.as_slice(), [PatternPart::AnyMany]);
        self.0.as_ref().is_none_or(|patterns| patterns.iter().any(is_any))
    }

    /// Whether rules say which partition keys this caller may touch.
    pub const fn are_ruled(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses a partition key that the caller may not touch. Whether anything lies under it plays no part.
    pub fn check(&self, partition: &PartitionKey) -> Result<(), Problem> {
        if self.0.is_none() || self.granting(partition).is_some() {
            return Ok(());
        }
        let why = format!("no rule of KeyGrants grants the caller pk={:?}", partition.as_str());
        Err(Problem::key_not_granted(why))
    }

    /// What grants the caller this partition key, if rules do: the first pattern that matches, with the caller's claims in
    /// their places. So each tenant of one rule has a grant of its own, and all who have a key by the same pattern share
    /// one. `most` is how many collections may be enlisted under it.
    pub fn grant_of(&self, partition: &PartitionKey, most: NonZeroU32) -> Option<Grant> {
        let pattern = self.granting(partition)?;
        Some(Grant::new(&digest_of(pattern), most))
    }

    fn granting(&self, partition: &PartitionKey) -> Option<&Pattern> {
        let mut patterns = self.0.as_deref()?.iter();
        patterns.find(|pattern| matches(pattern, partition.as_str()))
    }
}

/// Names a pattern in the metadata table, where patterns may be too long for a key and hold what tells about callers. Must
/// be kept stable: a pattern with another digest is counted anew.
fn digest_of(pattern: &[PatternPart]) -> String {
    let mut text = String::with_capacity(pattern.len());
    for part in pattern {
        match part {
            PatternPart::AnyMany => text.push('*'),
            PatternPart::AnyOne => text.push('?'),
            PatternPart::Literal(character) => {
                if matches!(character, '*' | '?' | '\\') {
                    text.push('\\');
                }
                text.push(*character);
            }
        }
    }
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(DIGEST_BYTES).fold(String::new(), |mut hex, byte| {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// How many bytes of a digest are kept: enough that nobody finds two patterns with one digest.
const DIGEST_BYTES: usize = 16;

fn matches(pattern: &[PatternPart], text: &str) -> bool {
    matches_pattern(pattern.iter().copied(), text)
}

#[cfg(test)]
mod tests;
