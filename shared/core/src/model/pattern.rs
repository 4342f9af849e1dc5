//! Texts against patterns with wildcards, as in the conditions of IAM policies.

/// One part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternPart {
    /// This character.
    Literal(char),
    /// Any one character: `?`.
    AnyOne,
    /// Any characters, or none: `*`.
    AnyMany,
}

impl PatternPart {
    /// What a character stands for in a pattern.
    pub const fn of(character: char) -> Self {
        match character {
            '*' => Self::AnyMany,
            '?' => Self::AnyOne,
            other => Self::Literal(other),
        }
    }
}

/// Whether a pattern matches the whole text.
///
/// Goes through both at once. Where they differ, the last star takes one character more: no earlier one
/// has to be tried again, so it takes at most the product of the lengths.
pub fn matches_pattern(mut pattern: impl Iterator<Item = PatternPart> + Clone, text: &str) -> bool {
    let mut text = text.chars();
    let mut after_star = None;
    loop {
        let at = text.clone();
        match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some(PatternPart::AnyMany), _) => {
                // The star has taken nothing yet.
                text = at;
                after_star = Some((pattern.clone(), text.clone()));
            }
            (Some(PatternPart::AnyOne), Some(_)) => {}
            (Some(PatternPart::Literal(one)), Some(other)) if one == other => {}
            (_, other) => {
                let Some((rest, taken)) = &mut after_star else { return false };
                if other.is_none() || taken.next().is_none() {
                    return false;
                }
                (pattern, text) = (rest.clone(), taken.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rule by its definition.
    fn reference(pattern: &[PatternPart], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [PatternPart::AnyMany, rest @ ..] => {
                (0..=text.len()).any(|at| reference(rest, &text[at..]))
            }
            [one, rest @ ..] => {
                text.first().is_some_and(|other| {
                    *one == PatternPart::AnyOne || *one == PatternPart::Literal(*other)
                }) && reference(rest, &text[1..])
            }
        }
    }

    /// Also such as no text of a pattern has: a star that is a character.
    fn part() -> impl Strategy<Value = PatternPart> {
        prop_oneof![
            prop::sample::select(vec!['a', 'b', '*', '?']).prop_map(PatternPart::Literal),
            Just(PatternPart::AnyOne),
            Just(PatternPart::AnyMany),
        ]
    }

    proptest! {
        #[test]
        fn patterns_match_as_they_are_defined(
            pattern in prop::collection::vec(part(), 1..8),
            text in "[ab*?]{1,8}",
        ) {
            let chars = text.chars().collect::<Vec<_>>();
            let matches = matches_pattern(pattern.iter().copied(), &text);
            prop_assert_eq!(matches, reference(&pattern, &chars));
        }
    }
}
