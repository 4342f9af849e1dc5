//! How old a signature DynamoDB takes: which ages to try, and what follows from the answers.

use std::collections::{BTreeMap, BTreeSet};

use dynashard_aws::SignatureVerdict;
use serde::Serialize;

/// What `RequestLifetimeSecs` has beyond the window, in seconds: the clocks of those who sign and of
/// those who check may differ.
pub(super) const MARGIN_SECS: u64 = 60;

/// The ages that are always tried, in seconds: on both sides of 5 and of 15 minutes, the windows that
/// DynamoDB is known to have, and up to more than any `RequestLifetimeSecs` allows for.
const LADDER_SECS: [u64; 11] = [0, 10, 60, 270, 330, 600, 870, 930, 1_020, 1_500, 1_860];

/// How exactly an age is known, in seconds: signatures and the server's time are cut to seconds, and
/// the request takes its time.
const TOLERANCE_SECS: u64 = 3;

/// The answers so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    ages: BTreeMap<u64, Tally>,
    /// The windows that errors named, in seconds.
    named: BTreeSet<u64>,
}

/// How often an age was accepted and refused.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    accepted: u32,
    refused: u32,
}

impl Survey {
    /// Notes the answers to reads whose signatures were so old. Those whose fate is unknown count as
    /// neither accepted nor refused.
    pub(super) fn note<'a>(
        &mut self,
        age_secs: u64,
        verdicts: impl IntoIterator<Item = &'a SignatureVerdict>,
    ) {
        let tally = self.ages.entry(age_secs).or_default();
        for verdict in verdicts {
            match verdict {
                SignatureVerdict::Accepted => tally.accepted += 1,
                SignatureVerdict::Expired { window_secs } => {
                    tally.refused += 1;
                    self.named.extend(window_secs);
                }
                SignatureVerdict::Unknown(_) | SignatureVerdict::Unanswered(_) => {}
            }
        }
    }

    /// The age to try next, in seconds; `None` when enough is known. After the ladder come the ages
    /// around the window that the error names, and then, where that does not hold, halves of what is
    /// left.
    pub(super) fn next_age(&self) -> Option<u64> {
        let is_new = |age: &u64| !self.ages.contains_key(age);
        if let Some(age) = LADDER_SECS.into_iter().find(is_new) {
            return Some(age);
        }
        let accepted = self.largest_accepted()?;
        let refused = self.smallest_refused_above(accepted)?;
        let named = self.named.iter().rev();
        let around =
            named.flat_map(|secs| [secs.saturating_sub(TOLERANCE_SECS), secs + TOLERANCE_SECS]);
        let middle = accepted.midpoint(refused);
        let halves = (refused - accepted > 2 * TOLERANCE_SECS).then_some(middle);
        let is_between = |age: &u64| accepted < *age && *age < refused;
        around.chain(halves).find(|age| is_between(age) && is_new(age))
    }

    /// What the answers say.
    pub(super) fn window(&self) -> Window {
        let largest_accepted_secs = self.largest_accepted();
        let smallest_refused_secs =
            self.smallest_refused_above(largest_accepted_secs.unwrap_or_default());
        let named_secs = self.named.last().copied();
        let youngest_refused = self.refused().next();
        let is_mixed = youngest_refused
            .zip(largest_accepted_secs)
            .is_some_and(|(refused, accepted)| refused + TOLERANCE_SECS < accepted);
        let bound = match (largest_accepted_secs, smallest_refused_secs) {
            (None, _) => Bound::NoneAccepted,
            (Some(tried_secs), None) => Bound::NoneRefused { tried_secs },
            (Some(accepted), Some(refused)) => Bound::Within {
                window_secs: match named_secs {
                    // What is refused is older than what is accepted.
                    Some(named) if refused <= named + TOLERANCE_SECS => named.max(accepted),
                    // What was accepted may prove the error wrong, and what was not answered leaves it
                    // unproved.
                    _ => refused,
                },
            },
        };
        Window {
            bound,
            named_secs,
            largest_accepted_secs,
            smallest_refused_secs,
            connections_agree: !is_mixed && self.named.len() <= 1,
        }
    }

    fn largest_accepted(&self) -> Option<u64> {
        let accepted = self.ages.iter().filter(|(_, tally)| tally.accepted > 0);
        accepted.map(|(age, _)| *age).next_back()
    }

    fn smallest_refused_above(&self, accepted: u64) -> Option<u64> {
        self.refused().find(|age| *age > accepted)
    }

    /// The ages that were refused at least once, the smallest first.
    fn refused(&self) -> impl Iterator<Item = u64> {
        self.ages.iter().filter(|(_, tally)| tally.refused > 0).map(|(age, _)| *age)
    }
}

/// How old a signature may be, as far as that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Window {
    #[serde(flatten)]
    pub(super) bound: Bound,
    /// The window that the error names; the longest, if connections named several.
    pub(super) named_secs: Option<u64>,
    /// The largest age that was accepted on any connection.
    pub(super) largest_accepted_secs: Option<u64>,
    /// The smallest age beyond it that was refused.
    pub(super) smallest_refused_secs: Option<u64>,
    /// Whether no connection accepted what another refused, and all errors named the same window.
    pub(super) connections_agree: bool,
}

/// Up to which age a server takes signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub(super) enum Bound {
    /// Up to this one, by what was accepted, refused and named.
    Within {
        /// The age in seconds.
        window_secs: u64,
    },
    /// No age that was tried was refused.
    NoneRefused {
        /// The largest of them, in seconds.
        tried_secs: u64,
    },
    /// It takes none, not even new ones.
    NoneAccepted,
}

impl Window {
    /// The `RequestLifetimeSecs` that follows.
    pub(super) fn request_lifetime_secs(&self) -> Option<u64> {
        match self.bound {
            Bound::Within { window_secs } => Some(window_secs + MARGIN_SECS),
            Bound::NoneRefused { .. } | Bound::NoneAccepted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRED: SignatureVerdict = SignatureVerdict::Expired { window_secs: None };

    fn expired(window_secs: u64) -> SignatureVerdict {
        SignatureVerdict::Expired { window_secs: Some(window_secs) }
    }

    /// Asks until enough is known, of connections that answer so. Returns the ages as well.
    fn survey(answer: impl Fn(u64) -> Vec<SignatureVerdict>) -> (Window, Vec<u64>) {
        let (mut survey, mut ages) = (Survey::default(), Vec::new());
        while let Some(age) = survey.next_age() {
            assert!(!ages.contains(&age), "{age} once more after {ages:?}");
            ages.push(age);
            survey.note(age, &answer(age));
        }
        (survey.window(), ages)
    }

    fn up_to(
        window_secs: u64,
        refusal: &SignatureVerdict,
    ) -> impl Fn(u64) -> Vec<SignatureVerdict> {
        move |age| {
            vec![if age <= window_secs { SignatureVerdict::Accepted } else { refusal.clone() }]
        }
    }

    #[test]
    fn the_window_that_the_error_names_is_looked_at_from_both_sides() {
        for window_secs in [1, 2, 5, 20, 300, 900, 960, 1_740] {
            let (window, ages) = survey(up_to(window_secs, &expired(window_secs)));
            assert_eq!(window.bound, Bound::Within { window_secs }, "{ages:?}");
            assert_eq!(window.request_lifetime_secs(), Some(window_secs + 60));
            assert!(window.connections_agree);
            assert!(ages.len() <= LADDER_SECS.len() + 2, "{ages:?}");
            let accepted = window.largest_accepted_secs.expect("new ones");
            let refused = window.smallest_refused_secs.expect("old ones");
            assert!((accepted..refused).contains(&window_secs), "{window:?}");
            assert!(refused - accepted <= 6, "{window:?}");
        }
    }

    #[test]
    fn a_window_without_a_name_is_closed_in_on_and_taken_for_no_shorter_than_it_is() {
        for actual in [0, 1, 7, 59, 60, 299, 300, 450, 900, 1_234, 1_859] {
            let (window, ages) = survey(up_to(actual, &EXPIRED));
            let Bound::Within { window_secs } = window.bound else { panic!("{window:?}") };
            assert!((actual + 1..=actual + 6).contains(&window_secs), "{actual}: {window:?}");
            assert!(ages.len() <= LADDER_SECS.len() + 8, "{ages:?}");
        }
    }

    #[test]
    fn an_error_that_names_too_short_a_window_is_not_believed() {
        let (window, _) = survey(up_to(900, &expired(300)));
        let Bound::Within { window_secs } = window.bound else { panic!("{window:?}") };
        assert!((901..=906).contains(&window_secs), "{window:?}");
        assert_eq!(window.named_secs, Some(300));
    }

    #[test]
    fn an_error_that_names_a_longer_window_is_believed() {
        let (window, _) = survey(up_to(300, &expired(900)));
        assert_eq!(window.bound, Bound::Within { window_secs: 900 });
    }

    #[test]
    fn of_connections_that_disagree_the_longest_counts() {
        let (window, _) = survey(|age| {
            let (five, fifteen) = (expired(300), expired(900));
            let (short, long) = (up_to(300, &five), up_to(900, &fifteen));
            [short(age), long(age), short(age)].concat()
        });
        assert_eq!(window.bound, Bound::Within { window_secs: 900 });
        assert!(!window.connections_agree);
        let (window, _) =
            survey(|age| [up_to(300, &EXPIRED)(age), up_to(900, &EXPIRED)(age)].concat());
        assert!(matches!(window.bound, Bound::Within { window_secs: 901..=906 }), "{window:?}");
        assert!(!window.connections_agree);
        // A second more or less is what the clocks explain.
        let (window, _) =
            survey(|age| [up_to(300, &EXPIRED)(age), up_to(301, &EXPIRED)(age)].concat());
        assert!(window.connections_agree, "{window:?}");
    }

    #[test]
    fn a_server_that_refuses_no_age_has_no_window() {
        let (window, ages) = survey(|_| vec![SignatureVerdict::Accepted]);
        assert_eq!(window.bound, Bound::NoneRefused { tried_secs: 1_860 });
        assert_eq!((window.request_lifetime_secs(), ages), (None, LADDER_SECS.to_vec()));
    }

    #[test]
    fn a_server_that_takes_nothing_has_no_window_either() {
        let (window, ages) = survey(|_| vec![expired(900)]);
        assert_eq!((window.bound, window.request_lifetime_secs()), (Bound::NoneAccepted, None));
        assert_eq!(ages, LADDER_SECS);
    }

    #[test]
    fn what_is_not_answered_proves_nothing_and_ends() {
        let lost = SignatureVerdict::Unanswered("lost".to_owned());
        let (window, _) = survey(|age| match age {
            0 => vec![SignatureVerdict::Accepted, lost.clone()],
            1_860 => vec![EXPIRED],
            _ => vec![lost.clone()],
        });
        assert_eq!(window.bound, Bound::Within { window_secs: 1_860 });
        let (window, _) = survey(|age| match age {
            0 => vec![SignatureVerdict::Accepted],
            930.. => vec![expired(300)],
            _ => vec![lost.clone()],
        });
        assert_eq!(
            window.bound,
            Bound::Within { window_secs: 930 },
            "nothing shows that it is 300"
        );
        let (window, _) = survey(|_| vec![lost.clone()]);
        assert_eq!(window.bound, Bound::NoneAccepted);
    }
}
