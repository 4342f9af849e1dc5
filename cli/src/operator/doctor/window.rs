//! How old a signature DynamoDB takes: which ages to try, and what follows from the answers.

use std::collections::BTreeSet;
use std::time::Duration;

use dynashard_api::settings::{
    LONGEST_REQUEST_LIFETIME, LONGEST_SIGNATURE_AGE, WINDOWS, shortest_lifetime, spare,
};
use dynashard_aws_operator::SignatureVerdict;
use serde::Serialize;

/// What `SignatureAgeSecs` leaves of the window, in seconds: time for a write to be sent.
pub(super) const LEFT_SECS: u64 = 30;

/// How exactly an age is known, in seconds: signatures and the server's time are cut to seconds, and
/// the request takes its time.
pub(super) const TOLERANCE_SECS: u64 = 3;

/// The ages that are always tried, in seconds: on both sides of the known windows, and up to more than
/// any `RequestLifetimeSecs` allows for.
const LADDER_SECS: [u64; 11] = [0, 10, 60, 270, 330, 600, 870, 930, 1_020, 1_500, 1_860];

/// The answers so far, of each connection for itself: connections reach different hosts, and what one
/// host refuses says nothing about another.
#[derive(Debug, Clone)]
pub(super) struct Survey {
    ages: BTreeSet<u64>,
    connections: Vec<Connection>,
    is_clock_known: bool,
}

/// The answers on one connection.
#[derive(Debug, Clone, Default)]
struct Connection {
    largest_accepted: Option<u64>,
    refused: BTreeSet<u64>,
    /// The windows that errors named, in seconds.
    named: BTreeSet<u64>,
    /// Why it cannot be judged: since an answer was lost, requests may reach another host.
    lost: Option<String>,
}

impl Survey {
    /// Of so many connections. Where the server's clock is not known, ages go by the local one, which
    /// may be wrong.
    pub(super) fn new(connections: usize, is_clock_known: bool) -> Self {
        let connections = vec![Connection::default(); connections];
        Self { ages: BTreeSet::new(), connections, is_clock_known }
    }

    /// Notes the answers to reads whose signatures were so old, one of each connection.
    pub(super) fn note<'a>(
        &mut self,
        age_secs: u64,
        verdicts: impl IntoIterator<Item = &'a SignatureVerdict>,
    ) {
        self.ages.insert(age_secs);
        for (connection, verdict) in self.connections.iter_mut().zip(verdicts) {
            connection.note(age_secs, verdict);
        }
    }

    /// The age to try next, in seconds; `None` when enough is known. After the ladder come the ages
    /// around the windows that errors name, and then, where those do not hold, halves of what is left.
    pub(super) fn next_age(&self) -> Option<u64> {
        let is_new = |age: &u64| !self.ages.contains(age);
        let ladder = LADDER_SECS.into_iter();
        let closer = self.connections.iter().flat_map(Connection::ages_to_try);
        ladder.chain(closer).find(is_new)
    }

    /// What the answers say.
    pub(super) fn window(&self) -> Window {
        let connections = &self.connections;
        let bounds = connections.iter().map(|connection| connection.bound(self.is_clock_known));
        let bounds = bounds.collect::<Vec<_>>();
        let is_judged = |bound: &&Bound| !matches!(bound, Bound::Incomplete { .. });
        let judged_connections = bounds.iter().filter(is_judged).count();
        let named = connections.iter().flat_map(|connection| &connection.named);
        let named = named.copied().collect::<BTreeSet<_>>();
        let longest = connections.iter().max_by_key(|connection| connection.largest_accepted);
        let largest_accepted_secs = longest.and_then(|connection| connection.largest_accepted);
        let youngest_refused =
            connections.iter().filter_map(|connection| connection.refused.first());
        let is_mixed = youngest_refused
            .min()
            .zip(largest_accepted_secs)
            .is_some_and(|(refused, accepted)| refused + TOLERANCE_SECS < accepted);
        let windows = bounds.iter().map(|bound| match bound {
            Bound::Within { window_secs } => Some(*window_secs),
            Bound::NoneRefused { .. } | Bound::NoneAccepted | Bound::Incomplete { .. } => None,
        });
        let windows = windows.collect::<Option<Vec<_>>>();
        Window {
            shortest_secs: windows.and_then(|windows| windows.into_iter().min()),
            bound: bounds.into_iter().reduce(Bound::and).unwrap_or(Bound::NoneAccepted),
            named_secs: named.last().copied(),
            largest_accepted_secs,
            smallest_refused_secs: longest.and_then(Connection::smallest_refused),
            connections: connections.len(),
            judged_connections,
            connections_agree: judged_connections == connections.len()
                && !is_mixed
                && named.len() <= 1,
        }
    }
}

impl Connection {
    fn note(&mut self, age_secs: u64, verdict: &SignatureVerdict) {
        match verdict {
            SignatureVerdict::Accepted => {
                self.largest_accepted = self.largest_accepted.max(Some(age_secs));
            }
            SignatureVerdict::Expired { window_secs } => {
                self.refused.insert(age_secs);
                self.named.extend(window_secs);
            }
            SignatureVerdict::Unknown(why) | SignatureVerdict::Unanswered(why) => {
                let lost = || format!("the answers stopped at an age of {age_secs} s: {why}");
                self.lost.get_or_insert_with(lost);
            }
        }
    }

    /// The smallest age that was refused beyond all that were accepted.
    fn smallest_refused(&self) -> Option<u64> {
        let accepted = self.largest_accepted.unwrap_or_default();
        self.refused.iter().copied().find(|age| *age > accepted)
    }

    /// Ages between what was accepted and what was refused.
    fn ages_to_try(&self) -> impl Iterator<Item = u64> {
        let gap = self.largest_accepted.zip(self.smallest_refused());
        let (accepted, refused) = gap.filter(|_| self.lost.is_none()).unwrap_or_default();
        let named = self.named.iter().rev();
        let around =
            named.flat_map(|secs| [secs.saturating_sub(TOLERANCE_SECS), secs + TOLERANCE_SECS]);
        let middle = accepted.midpoint(refused);
        let halves = (refused - accepted > 2 * TOLERANCE_SECS).then_some(middle);
        around.chain(halves).filter(move |age| accepted < *age && *age < refused)
    }

    fn bound(&self, is_clock_known: bool) -> Bound {
        if let Some(why) = &self.lost {
            return Bound::Incomplete { why: why.clone() };
        }
        let Some(accepted) = self.largest_accepted else { return Bound::NoneAccepted };
        let Some(refused) = self.smallest_refused() else {
            return Bound::NoneRefused { tried_secs: accepted };
        };
        // What was accepted may prove the error wrong.
        let is_believable = |named: &u64| refused <= named + TOLERANCE_SECS;
        let is_close =
            |known: &u64| accepted <= known + TOLERANCE_SECS && *known <= refused + TOLERANCE_SECS;
        let named = self.named.last().copied();
        if named.is_none() && !is_clock_known {
            let why = "the server's answers have no Date, and its error names no window".to_owned();
            return Bound::Incomplete { why };
        }
        let known = WINDOWS.map(|window| window.as_secs()).into_iter().find(is_close);
        let window_secs = named.filter(is_believable).or(known).unwrap_or(refused);
        Bound::Within { window_secs }
    }
}

/// How old a signature may be, as far as that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Window {
    #[serde(flatten)]
    pub(super) bound: Bound,
    /// The shortest window of any connection, where all have one.
    pub(super) shortest_secs: Option<u64>,
    /// The window that the error names; the longest, if connections named several.
    pub(super) named_secs: Option<u64>,
    /// The largest age that was accepted on any connection.
    pub(super) largest_accepted_secs: Option<u64>,
    /// The smallest age beyond it that was refused on the same connection.
    pub(super) smallest_refused_secs: Option<u64>,
    /// How many there were.
    pub(super) connections: usize,
    /// How many of them answered every read.
    pub(super) judged_connections: usize,
    /// Whether all were judged, none accepted what another refused, and all errors named the same
    /// window.
    pub(super) connections_agree: bool,
}

/// Up to which age a server takes signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub(super) enum Bound {
    /// Up to this one, by what was accepted, refused and named.
    Within {
        /// The age in seconds.
        window_secs: u64,
    },
    /// It took every age, up to the largest that is tried.
    NoneRefused {
        /// The largest of them, in seconds.
        tried_secs: u64,
    },
    /// It takes none, not even new ones.
    NoneAccepted,
    /// Not every connection could be judged, so a host may take older ones than was seen.
    Incomplete {
        /// What is missing, of one connection.
        why: String,
    },
}

impl Bound {
    /// What holds for two connections.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (incomplete @ Self::Incomplete { .. }, _)
            | (_, incomplete @ Self::Incomplete { .. }) => incomplete,
            (Self::Within { window_secs: one }, Self::Within { window_secs: other }) => {
                Self::Within { window_secs: one.max(other) }
            }
            (one, other) if one == other => one,
            _ => Self::Incomplete {
                why: "some connections took every age or none, and others did not".to_owned(),
            },
        }
    }
}

impl Window {
    /// The `RequestLifetimeSecs` that follows; `None` also where it would be longer than that may be.
    pub(super) fn request_lifetime_secs(&self) -> Option<u64> {
        match self.bound {
            Bound::Within { window_secs } => lifetime_secs(window_secs),
            Bound::NoneRefused { .. } | Bound::NoneAccepted | Bound::Incomplete { .. } => None,
        }
    }
}

/// A `SignatureAgeSecs` of all writes and the `RequestLifetimeSecs` that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Dates {
    pub(super) signature_age_secs: u64,
    pub(super) request_lifetime_secs: u64,
}

impl Dates {
    /// What makes them hold.
    pub(super) fn command(self) -> String {
        let Self { signature_age_secs, request_lifetime_secs } = self;
        format!(
            "`dynashard settings --set SignatureAgeSecs={signature_age_secs} --set RequestLifetimeSecs={request_lifetime_secs} --verified`"
        )
    }
}

impl Window {
    /// The dates that follow: an age that leaves half a minute of the shortest window, and what the longest leaves of it then.
    /// `None` where nothing follows.
    pub(super) fn dates(&self) -> Option<Dates> {
        let Bound::Within { window_secs } = self.bound else { return None };
        let age = Duration::from_secs(self.shortest_secs?.saturating_sub(LEFT_SECS));
        let age = age.min(LONGEST_SIGNATURE_AGE);
        let lifetime = (Duration::from_secs(window_secs) + spare(age)).saturating_sub(age);
        let is_possible = !age.is_zero() && lifetime <= LONGEST_REQUEST_LIFETIME;
        is_possible.then(|| Dates {
            signature_age_secs: age.as_secs(),
            request_lifetime_secs: lifetime.max(shortest_lifetime(age, true)).as_secs(),
        })
    }
}

/// The `RequestLifetimeSecs` for a window: a whole minute, which the template lets stand.
pub(super) fn lifetime_secs(window_secs: u64) -> Option<u64> {
    let secs = (window_secs + spare(Duration::ZERO).as_secs()).next_multiple_of(60);
    let secs = secs.max(shortest_lifetime(Duration::ZERO, true).as_secs());
    Some(secs).filter(|secs| *secs <= LONGEST_REQUEST_LIFETIME.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRED: SignatureVerdict = SignatureVerdict::Expired { window_secs: None };

    fn expired(window_secs: u64) -> SignatureVerdict {
        SignatureVerdict::Expired { window_secs: Some(window_secs) }
    }

    fn lost() -> SignatureVerdict {
        SignatureVerdict::Unanswered("lost".to_owned())
    }

    /// Asks until enough is known, of connections that answer so. Returns the ages as well.
    fn survey(answer: impl Fn(u64) -> Vec<SignatureVerdict>) -> (Window, Vec<u64>) {
        let (mut survey, mut ages) = (Survey::new(answer(0).len(), true), Vec::new());
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

    fn why(window: &Window) -> &str {
        let Bound::Incomplete { why } = &window.bound else { panic!("{window:?}") };
        assert_eq!(window.request_lifetime_secs(), None);
        why
    }

    #[test]
    fn the_window_that_the_error_names_is_looked_at_from_both_sides() {
        for (window_secs, lifetime_secs) in [
            (1, Some(360)),
            (20, Some(360)),
            (300, Some(360)),
            (301, Some(420)),
            (900, Some(960)),
            (960, Some(1_020)),
            (1_740, Some(1_800)),
            (1_741, None),
        ] {
            let (window, ages) = survey(up_to(window_secs, &expired(window_secs)));
            assert_eq!(window.bound, Bound::Within { window_secs }, "{ages:?}");
            assert_eq!(window.request_lifetime_secs(), lifetime_secs);
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
        for actual in [0, 1, 7, 59, 60, 450, 1_234, 1_859] {
            let (window, ages) = survey(up_to(actual, &EXPIRED));
            let Bound::Within { window_secs } = window.bound else { panic!("{window:?}") };
            assert!((actual + 1..=actual + 6).contains(&window_secs), "{actual}: {window:?}");
            assert!(ages.len() <= LADDER_SECS.len() + 8, "{ages:?}");
        }
    }

    /// It was taken for up to six seconds longer, so that the default of 960 seemed too short.
    #[test]
    fn regression_a_known_window_was_known_to_seconds() {
        for known in WINDOWS.map(|window| window.as_secs()) {
            for actual in known - 3..=known + 3 {
                let (window, _) = survey(up_to(actual, &EXPIRED));
                assert_eq!(window.bound, Bound::Within { window_secs: known }, "{actual}");
            }
        }
    }

    #[test]
    fn an_error_that_names_too_short_a_window_is_not_believed() {
        let (window, _) = survey(up_to(450, &expired(300)));
        let Bound::Within { window_secs } = window.bound else { panic!("{window:?}") };
        assert!((451..=456).contains(&window_secs), "{window:?}");
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
        assert_eq!((window.connections, window.judged_connections), (3, 3));
        for (one, other) in [(450, 700), (700, 450)] {
            let (window, _) =
                survey(|age| [up_to(one, &EXPIRED)(age), up_to(other, &EXPIRED)(age)].concat());
            assert!(matches!(window.bound, Bound::Within { window_secs: 701..=706 }), "{window:?}");
            assert!(!window.connections_agree);
        }
        // A second more or less is what the clocks explain.
        let (window, _) =
            survey(|age| [up_to(450, &EXPIRED)(age), up_to(451, &EXPIRED)(age)].concat());
        assert!(window.connections_agree, "{window:?}");
    }

    /// The refusals of a host with five minutes bounded what a host with fifteen had accepted before its
    /// answers were lost, and 664 seconds were recommended.
    #[test]
    fn regression_one_connections_refusals_bounded_anothers_acceptances() {
        let short = up_to(300, &EXPIRED);
        let long = up_to(900, &EXPIRED);
        for last_answered in [0, 10, 600, 870] {
            let (window, _) = survey(|age| {
                let answer = if age <= last_answered { long(age) } else { vec![lost()] };
                [short(age), answer].concat()
            });
            assert!(why(&window).contains("the answers stopped at"), "{window:?}");
            assert!(!window.connections_agree);
            assert_eq!((window.connections, window.judged_connections), (2, 1));
        }
        assert_eq!(
            why(&survey(|age| [short(age), vec![lost()]].concat()).0),
            "the answers stopped at an age of 0 s: lost"
        );
    }

    /// After a lost answer the client connects again, perhaps to a host that refuses earlier.
    #[test]
    fn regression_a_connection_was_judged_by_the_answers_of_two_hosts() {
        let (window, _) = survey(|age| match age {
            870 => vec![lost()],
            871.. => up_to(300, &expired(300))(age),
            _ => up_to(900, &expired(900))(age),
        });
        assert!(why(&window).contains("870 s: lost"), "{window:?}");
    }

    #[test]
    fn a_server_that_refuses_no_age_has_no_window() {
        let (window, ages) = survey(|_| vec![SignatureVerdict::Accepted; 2]);
        assert_eq!(window.bound, Bound::NoneRefused { tried_secs: 1_860 });
        assert_eq!((window.request_lifetime_secs(), ages), (None, LADDER_SECS.to_vec()));
    }

    /// Where answers were lost, the largest age that was accepted passed for the largest that was tried.
    #[test]
    fn regression_lost_answers_passed_for_accepted_ages() {
        let (window, _) = survey(|age| match age {
            0..=600 => vec![SignatureVerdict::Accepted],
            _ => vec![lost()],
        });
        assert_eq!(why(&window), "the answers stopped at an age of 870 s: lost");
        let (window, _) =
            survey(|age| [vec![SignatureVerdict::Accepted], up_to(300, &EXPIRED)(age)].concat());
        assert!(why(&window).contains("some connections"), "{window:?}");
        assert_eq!(window.largest_accepted_secs, Some(1_860));
    }

    #[test]
    fn a_server_that_takes_nothing_has_no_window_either() {
        let (window, ages) = survey(|_| vec![expired(900)]);
        assert_eq!((&window.bound, window.request_lifetime_secs()), (&Bound::NoneAccepted, None));
        assert_eq!(ages, LADDER_SECS);
    }

    /// Ages by a clock that may be wrong made a window of 15 minutes one of 5.
    #[test]
    fn regression_without_the_servers_clock_the_local_one_was_believed() {
        for (refusal, bound) in
            [(EXPIRED, None), (expired(900), Some(Bound::Within { window_secs: 900 }))]
        {
            let mut survey = Survey::new(1, false);
            while let Some(age) = survey.next_age() {
                survey.note(age, &up_to(300, &refusal)(age));
            }
            let window = survey.window();
            match bound {
                Some(bound) => assert_eq!(window.bound, bound),
                None => assert!(why(&window).contains("no Date"), "{window:?}"),
            }
        }
    }
}
