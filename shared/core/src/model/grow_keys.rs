//! Which collections may get another shard count by themselves.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dynashard_keys::PartitionKey;

use crate::model::pattern::{PatternPart, matches_pattern};

/// Which collections may get another shard count: all whose partition key matches one of these
/// patterns. The items of all others stay where any client of DynamoDB would look for them, so code
/// that does not know of shards may go on reading and writing them.
///
/// In a pattern, `*` stands for any characters, or none, and `?` for one, as in the conditions of IAM
/// policies. Patterns are separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowKeys(Arc<[String]>);

/// A list with an empty pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyPattern {
    text: String,
}

impl fmt::Display for EmptyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(
            f,
            "{text:?} has an empty pattern: name patterns of partition keys, and a comma between two"
        )
    }
}

impl std::error::Error for EmptyPattern {}

impl GrowKeys {
    /// Whether the collection may get another shard count.
    pub fn allow(&self, partition: &PartitionKey) -> bool {
        self.match_text(partition.as_str())
    }

    /// Whether a text would match that may not be a partition key.
    pub fn match_text(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| matches_pattern(pattern.chars().map(PatternPart::of), text))
    }

    /// Whether they match every partition key.
    pub fn are_all(&self) -> bool {
        self.patterns().any(|pattern| pattern.bytes().all(|byte| byte == b'*'))
    }

    /// The patterns, in their order.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Default for GrowKeys {
    /// All collections.
    fn default() -> Self {
        Self(["*".to_owned()].into())
    }
}

impl FromStr for GrowKeys {
    type Err = EmptyPattern;

    /// Spaces around a pattern do not count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let patterns = text.split(',').map(|pattern| pattern.trim().to_owned());
        let patterns = patterns.collect::<Arc<[_]>>();
        if patterns.iter().any(String::is_empty) {
            return Err(EmptyPattern { text: text.to_owned() });
        }
        Ok(Self(patterns))
    }
}

impl fmt::Display for GrowKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(patterns: &str, key: &str) -> bool {
        let keys = patterns.parse::<GrowKeys>().expect("patterns");
        keys.allow(&PartitionKey::new(key).expect("a partition key"))
    }

    #[test]
    fn a_collection_may_grow_if_one_pattern_matches_its_whole_key() {
        assert!(allow("*", "anything") && GrowKeys::default().patterns().eq(["*"]));
        assert!(allow("USER#*, FLIGHT#*", "FLIGHT#EWR"));
        assert!(allow("FLIGHT#*", "FLIGHT#"));
        assert!(!allow("FLIGHT#*", "a FLIGHT#EWR") && !allow("FLIGHT", "FLIGHT#EWR"));
        assert!(allow("*#EWR", "FLIGHT#JFK#EWR") && allow("a*b*c", "aXbXbXc"));
        assert!(!allow("a*b*c", "aXcXb") && allow("?é?", "aéz") && !allow("?", "ab"));
        assert_eq!("a, b".parse::<GrowKeys>().expect("patterns").to_string(), "a,b");
        for wrong in ["", ",", "a,", " ", "a,,b"] {
            assert!(wrong.parse::<GrowKeys>().is_err(), "{wrong:?}");
        }
    }
}
