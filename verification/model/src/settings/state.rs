//! What there is: the directory's item, the command that changes it, the metadata, and those who act.

use crate::schedule::Phase;

/// A moment in the life of a collection whose stack changes its lease term.
///
/// Times are ages in ticks. An age is kept no longer than it makes a difference, so there are finitely many states
/// although time has no end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) directory: Directory,
    /// How long the operator's command has waited before its last step. Nothing if it does not wait.
    pub(super) waited: Option<u8>,
    pub(super) phase: Phase,
    /// How long ago a strong read saw `forward`, as the job says.
    pub(super) seen: Option<u8>,
    /// The term that alone was in use when `forward` was published, if it was one: a change that has begun and ended
    /// since then was a change of this.
    pub(super) begun_under: Option<Term>,
    pub(super) environments: Vec<Environment>,
}

/// The term of a lease, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(pub u8);

/// What the directory's item says about the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Directory {
    pub(super) accepted: Term,
    /// During a change, the value that is accepted too.
    pub(super) next: Option<Term>,
    /// The longest that may be in use.
    pub(super) longest: Term,
}

/// An execution environment of a function, or of the rebalancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Environment {
    /// Its own setting.
    pub(super) term: Term,
    pub(super) directory: Standing,
    /// The age of its lease of metadata that says `stable`.
    pub(super) stable: Option<u8>,
}

/// What an environment knows from its last read of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// It has not read it, or its lease has ended.
    Unread,
    /// Its own term was not accepted.
    Refused,
    /// Its own term was accepted.
    Leased {
        age: u8,
        /// The longest term at that time.
        longest: Term,
    },
}

impl Term {
    /// T': a lease of this term has ended so long after it began, by the clock of whoever waits for it.
    pub(super) fn leases_end(self) -> u8 {
        self.0 + 1
    }
}

impl Directory {
    /// The item when a term is pinned.
    pub(super) fn pinned(term: Term) -> Self {
        Self { accepted: term, next: None, longest: term }
    }

    pub(super) fn accepts(self, term: Term) -> bool {
        self.accepted == term || self.next == Some(term)
    }

    /// The term, if waits go by the one that alone is accepted.
    pub(super) fn settled(self) -> Option<Term> {
        (self == Self::pinned(self.accepted)).then_some(self.accepted)
    }
}

impl Environment {
    /// One that was just deployed.
    pub(super) fn new(term: Term) -> Self {
        Self { term, directory: Standing::Unread, stable: None }
    }

    /// Reads the directory.
    pub(super) fn read(&mut self, directory: Directory) {
        self.directory = if directory.accepts(self.term) {
            Standing::Leased { age: 0, longest: directory.longest }
        } else {
            Standing::Refused
        };
    }

    /// Whether its lease of the directory lives.
    pub(super) fn is_leased(self) -> bool {
        matches!(self.directory, Standing::Leased { age, .. } if age < self.term.leases_end())
    }

    /// The longest term as its last read says, if its own was accepted then.
    pub(super) fn longest(self) -> Option<Term> {
        match self.directory {
            Standing::Leased { longest, .. } => Some(longest),
            Standing::Unread | Standing::Refused => None,
        }
    }

    /// A tick passes. What was read of the directory is remembered beyond its lease only if that makes a difference.
    pub(super) fn grow_older(&mut self, remembers: bool) {
        let end = self.term.leases_end();
        self.stable = self.stable.map(|age| age + 1).filter(|age| *age < end);
        if let Standing::Leased { age, .. } = &mut self.directory {
            *age = end.min(*age + 1);
            if *age == end && !remembers {
                self.directory = Standing::Unread;
            }
        }
    }
}
