//! Which partition keys belong to collections that may be changed: the parameter `GrowKeys`.

use std::fmt;
use std::str::FromStr;

/// Patterns of logical partition keys. A `*` stands for any text, also for none, and everything else for
/// itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPatterns(Vec<String>);

impl KeyPatterns {
    /// Each pattern.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether every key fits.
    pub(super) fn are_all(&self) -> bool {
        self.iter().any(|pattern| pattern.bytes().all(|byte| byte == b'*'))
    }

    /// Whether a key fits one of them.
    pub(super) fn matches(&self, key: &str) -> bool {
        self.iter().any(|pattern| matches(pattern, key))
    }
}

impl Default for KeyPatterns {
    fn default() -> Self {
        Self(vec!["*".to_owned()])
    }
}

impl FromStr for KeyPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let patterns = text.split(',').map(str::to_owned).collect::<Vec<_>>();
        if patterns.iter().any(String::is_empty) {
            return Err("a pattern is empty; write * for all keys".to_owned());
        }
        Ok(Self(patterns))
    }
}

impl fmt::Display for KeyPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

fn matches(pattern: &str, key: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = key.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // The first place where a part fits leaves the most for those behind it.
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, key) in [
            ("*", ""),
            ("*", "EWR"),
            ("EWR", "EWR"),
            ("USER#*", "USER#"),
            ("USER#*", "USER#1"),
            ("*#v2", "a#v2"),
            ("a*b*c", "abbc"),
            ("a*b*c", "a--b--c"),
            ("**", "x"),
            ("a*a", "aa"),
        ] {
            assert!(matches(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [
            ("EWR", "EWR1"),
            ("EWR", "EW"),
            ("USER#*", "USER"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("EW?", "EWR"),
        ] {
            assert!(!matches(pattern, key), "{pattern} {key}");
        }
    }

    #[test]
    fn patterns_stand_between_commas() {
        let patterns = "EWR,USER#*".parse::<KeyPatterns>().expect("patterns");
        assert!(patterns.matches("EWR") && patterns.matches("USER#9") && !patterns.matches("JFK"));
        assert!(!patterns.are_all() && KeyPatterns::default().are_all());
        assert_eq!(patterns.to_string(), "EWR,USER#*");
        for text in ["", "a,", ",a", "a,,b"] {
            assert!(text.parse::<KeyPatterns>().is_err(), "{text:?}");
        }
    }
}
