//! A change of the term of leases while a reshard goes on: that no wait is too short for a lease that somebody holds.
//!
//! The wait is that before `move`, and stands for all of them: each goes by the longest term, and each is for leases on
//! what was before. The collection is listed, so whoever acts has a lease of its metadata, which is taken under a lease
//! of the directory and may outlive it. (The lease of the directory on which a cold collection stands ends when that of
//! metadata would end that was read in the same moment.)
//!
//! The environments' terms differ, and each environment goes on for ever, whatever is deployed: one with the old term
//! tries to act long after the command has ended, and one with the new term before it has begun. An environment that
//! has stopped, or was not deployed yet, is one that does nothing. They know of each other only through the metadata, so
//! one of each kind that matters stands for any number. The command may die between any two of its steps, and be run
//! again by anybody.
//!
//! # Time
//!
//! One clock ticks, and whoever waits goes by it. T' is a tick more than T, for the rate and the second in
//! T' = T(1 + rho) + 1 s, and a lease lives by that clock for less than T', which is the most that they allow. Clocks
//! that agree end it sooner. That is searched as well, since nobody has to use a lease to its end. What happens between
//! two ticks happens in any order.
//!
//! Requests execute in the moment in which they are sent. Leases count from the sending, so what executes later leaves
//! less of its lease; and a `move` that executes later finds fewer leases. A step of the command that executes later is
//! refused if anybody has changed what is pinned, and is the same step otherwise.

mod properties;
mod state;

use stateright::{Model, Property};

pub use state::{State, Term};

use state::{Directory, Environment};

use crate::mutation::Mutation;
use crate::schedule::Phase;

/// A change of the term, within bounds.
#[derive(Clone, Debug)]
pub struct SettingsModel {
    /// The terms of those who act. Each of these terms may be pinned at first, and be changed to any number of times.
    pub environments: Vec<Term>,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// An environment reads the directory, and compares.
    ReadDirectory(usize),
    /// It reads metadata that says `stable`.
    ReadStable(usize),
    /// It publishes metadata that says `stable`, as at the end of the job of an earlier reshard, and keeps that for its
    /// own term from the sending.
    PublishStable(usize),
    /// Whoever begins a reshard publishes `forward`.
    PublishForward,
    /// The job notes that a strong read saw `forward`.
    SeeForward,
    /// An environment decides that the wait is over, and publishes `move`.
    PublishMove(usize),
    /// Step 1 of the command: this term is accepted, too.
    AcceptToo(Term),
    /// Step 2: the old term is accepted no more.
    AcceptNextAlone,
    /// The operator turns back: the new term is accepted no more.
    AcceptOldAlone,
    /// The command has seen that a single term is accepted, and that the longest is another. It waits from now on. It
    /// may be run again, and then waits anew.
    BeginWait,
    /// Step 3: the longest is the term that is accepted.
    Shorten,
}

impl SettingsModel {
    /// After how many times T' the longest becomes shorter: the first is for leases of the directory, and the second
    /// for leases of metadata that were taken at the end of those.
    const LEASES_IN_A_ROW: u8 = 2;

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn terms(&self) -> Vec<Term> {
        let mut terms = self.environments.clone();
        terms.sort_unstable();
        terms.dedup();
        terms
    }

    /// The longest wait of all.
    fn longest_wait(&self) -> u8 {
        self.environments.iter().map(|term| term.leases_end()).max().unwrap_or(0)
    }

    /// Whether an environment stands on a lease of the directory; under a mutation it is enough that it once did.
    fn stands(&self, environment: Environment, enough: Mutation) -> bool {
        environment.is_leased() || (self.has(enough) && environment.longest().is_some())
    }

    /// Whether T' has passed since `forward` was seen, for all that the environment knows.
    fn may_publish_move(&self, state: &State, environment: Environment) -> bool {
        let Some((seen, longest)) = state.seen.zip(environment.longest()) else {
            return false;
        };
        let by = if self.has(Mutation::WaitByOwnTerm) { environment.term } else { longest };
        self.stands(environment, Mutation::DecideByOldDirectory) && seen >= by.leases_end()
    }

    /// Whether every lease has ended that was taken under a term that is accepted no more.
    fn may_shorten(&self, state: &State) -> bool {
        let leases = match self.mutation {
            Some(Mutation::ShortenAtOnce) => 0,
            Some(Mutation::ShortenAfterOneLease) => 1,
            _ => Self::LEASES_IN_A_ROW,
        };
        let wait = leases * state.directory.longest.leases_end();
        is_to_shorten(state.directory) && state.waited.is_some_and(|waited| waited >= wait)
    }

    fn environment_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, environment) in state.environments.iter().copied().enumerate() {
            actions.push(Action::ReadDirectory(index));
            if state.phase == Phase::Stable {
                if self.stands(environment, Mutation::ReadWithoutDirectory) {
                    actions.push(Action::ReadStable(index));
                }
                if self.stands(environment, Mutation::KeepWithoutDirectory) {
                    actions.push(Action::PublishStable(index));
                }
            }
            if state.phase == Phase::Forward && self.may_publish_move(state, environment) {
                actions.push(Action::PublishMove(index));
            }
        }
    }

    fn command_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let Directory { accepted, next, .. } = state.directory;
        if next.is_some() {
            actions.extend([Action::AcceptNextAlone, Action::AcceptOldAlone]);
        } else {
            let others = self.terms().into_iter().filter(|term| *term != accepted);
            actions.extend(others.map(Action::AcceptToo));
        }
        if is_to_shorten(state.directory) {
            actions.push(Action::BeginWait);
        }
        if self.may_shorten(state) {
            actions.push(Action::Shorten);
        }
    }

    fn tick(&self, state: &mut State) {
        let remembers = matches!(
            self.mutation,
            Some(
                Mutation::DecideByOldDirectory
                    | Mutation::ReadWithoutDirectory
                    | Mutation::KeepWithoutDirectory
            )
        );
        for environment in &mut state.environments {
            environment.grow_older(remembers);
        }
        let longest = self.longest_wait();
        state.seen = state.seen.map(|age| longest.min(age + 1));
        let most = Self::LEASES_IN_A_ROW * longest;
        state.waited = state.waited.map(|age| most.min(age + 1));
    }

    /// Step 1.
    fn accept_too(&self, directory: &mut Directory, term: Term) {
        let raised = if self.has(Mutation::ForgetLonger) {
            directory.accepted.max(term)
        } else {
            directory.longest.max(term)
        };
        directory.next = Some(term);
        if !self.has(Mutation::AcceptWithoutRaising) {
            directory.longest = raised;
        }
    }

    /// Changes what the directory accepts. A command that waits finds its condition failed, and waits anew.
    fn change(&self, state: &mut State, change: impl FnOnce(&mut Directory)) {
        change(&mut state.directory);
        if !self.has(Mutation::ShortenThoughChanged) {
            state.waited = None;
        }
    }
}

/// Whether step 3 is what is left to do.
fn is_to_shorten(directory: Directory) -> bool {
    directory.next.is_none() && directory.longest != directory.accepted
}

impl Model for SettingsModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let environments = self.environments.iter().copied().map(Environment::new);
        let environments = environments.collect::<Vec<_>>();
        let with = |term| State {
            directory: Directory::pinned(term),
            waited: None,
            phase: Phase::Stable,
            seen: None,
            begun_under: None,
            environments: environments.clone(),
        };
        self.terms().into_iter().map(with).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What is to be known shows in the moment in which `move` is published: afterwards leases only end.
        if state.phase == Phase::Move {
            return;
        }
        actions.push(Action::Tick);
        match (state.phase, state.seen) {
            (Phase::Stable, _) => actions.push(Action::PublishForward),
            (_, None) => actions.push(Action::SeeForward),
            (_, Some(_)) => {}
        }
        self.environment_actions(state, actions);
        self.command_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.tick(&mut state),
            Action::ReadDirectory(index) => state.environments[index].read(last.directory),
            Action::ReadStable(index) | Action::PublishStable(index) => {
                state.environments[index].stable = Some(0);
            }
            Action::PublishForward => {
                state.phase = Phase::Forward;
                state.begun_under = last.directory.settled();
            }
            Action::SeeForward => state.seen = Some(0),
            Action::PublishMove(_) => state.phase = Phase::Move,
            Action::AcceptToo(term) => {
                self.change(&mut state, |directory| self.accept_too(directory, term));
            }
            Action::AcceptNextAlone => self.change(&mut state, |directory| {
                directory.accepted = directory.next.take().unwrap_or(directory.accepted);
            }),
            Action::AcceptOldAlone => self.change(&mut state, |directory| directory.next = None),
            Action::BeginWait => state.waited = Some(0),
            Action::Shorten => {
                state.directory.longest = state.directory.accepted;
                state.waited = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
