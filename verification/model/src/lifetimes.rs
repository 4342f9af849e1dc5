//! A change of the lifetime of requests while a reshard goes on: that no request from before `move` executes behind the
//! closing scan.
//!
//! Requests are dated so that DynamoDB executes them for their lifetime H and no longer. Environments do not compare H with a
//! setting of their own but adopt what is pinned, and requests outlive their signer. So the last step of a change, by which
//! waits go by the shorter H, comes 2 T' **and the longest H** after only that one is adopted: for leases of the directory,
//! for leases of metadata that were taken at their end, and for what was signed at the end of those.
//!
//! A lease of metadata has the dates of the directory's lease under which it was read. What an environment holds of the
//! directory may be dropped at any time, and without it there is only what the environment's own parameters say.
//!
//! Time passes in ticks, as in [`settings`](crate::settings). Of all requests that were signed under `stable` the one that lives
//! longest is enough.

use stateright::{Model, Property};

use crate::mutation::Mutation;
use crate::schedule::Phase;

/// Changes of H between two values, during one reshard.
#[derive(Clone, Debug)]
pub struct LifetimesModel {
    /// How many environments there are.
    pub environments: usize,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments. Times are ages in ticks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The lifetime that is adopted, and the longest that may be in use.
    adopted: u8,
    longest: u8,
    /// How long the operator's command has waited before its last step.
    waited: Option<u8>,
    phase: Phase,
    /// Whether the closing scan has begun.
    closes: bool,
    /// How long ago the phase was seen by a strong read, as the job says.
    seen: Option<u8>,
    /// For how long a request that was signed under `stable` may be executed yet.
    in_flight: u8,
    environments: Vec<Environment>,
}

/// What an environment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Environment {
    /// Its lease of the directory: the age, what it adopted, and the longest that waits go by.
    directory: Option<Directory>,
    /// Its lease of metadata that says `stable`.
    stable: Option<Stable>,
}

/// A lease of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stable {
    age: u8,
    /// For how long a write lives that is dated as the lease says.
    lifetime: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Directory {
    age: u8,
    adopted: u8,
    longest: u8,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// An environment reads the directory.
    ReadDirectory(usize),
    /// It reads metadata that says `stable`.
    ReadStable(usize),
    /// It drops what it holds of the directory.
    Drop(usize),
    /// It signs a write under `stable`.
    Sign(usize),
    /// A strong read sees the phase.
    See,
    /// `forward` is published.
    PublishForward,
    /// An environment publishes `move`.
    PublishMove(usize),
    /// It begins the closing scan.
    Close(usize),
    /// The longest becomes this one, too, and then it is the one that is adopted: the two first steps of the command.
    Adopt(u8),
    /// The command begins to wait.
    BeginWait,
    /// The last step: the longest is the one that is adopted.
    Shorten,
}

/// T'.
const LEASES_END: u8 = 2;
/// The lifetimes between which H changes.
const LIFETIMES: [u8; 2] = [1, 6];
/// How long a write lives that is dated by an environment's own parameters.
const UNDATED: u8 = LIFETIMES[1];

impl Environment {
    fn leased(self) -> Option<Directory> {
        self.directory.filter(|directory| directory.age < LEASES_END)
    }
}

impl LifetimesModel {
    /// How long the last step waits for.
    fn wait(&self, longest: u8) -> u8 {
        let requests = match self.mutation {
            Some(Mutation::ShortenHThoughRequestsLive) => 0,
            _ => longest,
        };
        2 * LEASES_END + requests
    }
}

impl Model for LifetimesModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let unread = Environment { directory: None, stable: None };
        let pinned = |lifetime| State {
            adopted: lifetime,
            longest: lifetime,
            waited: None,
            phase: Phase::Stable,
            closes: false,
            seen: None,
            in_flight: 0,
            environments: vec![unread; self.environments],
        };
        LIFETIMES.map(pinned).into()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What is to be known shows when the closing scan begins.
        if state.closes {
            return;
        }
        actions.push(Action::Tick);
        if state.phase == Phase::Stable {
            actions.push(Action::PublishForward);
        } else if state.seen.is_none() {
            actions.push(Action::See);
        }
        for (at, environment) in state.environments.iter().enumerate() {
            actions.push(Action::ReadDirectory(at));
            if environment.directory.is_some() {
                actions.push(Action::Drop(at));
            }
            if environment.stable.is_some_and(|stable| stable.age < LEASES_END) {
                actions.push(Action::Sign(at));
            }
            let Some(directory) = environment.leased() else { continue };
            match (state.phase, state.seen) {
                (Phase::Stable, _) => actions.push(Action::ReadStable(at)),
                (Phase::Forward, Some(seen)) if seen >= LEASES_END => {
                    actions.push(Action::PublishMove(at));
                }
                (Phase::Move, Some(seen)) if seen >= LEASES_END + directory.longest => {
                    actions.push(Action::Close(at));
                }
                _ => {}
            }
        }
        let others = LIFETIMES.into_iter().filter(|other| *other != state.adopted);
        actions.extend(others.map(Action::Adopt));
        if state.longest != state.adopted {
            actions.push(Action::BeginWait);
            if state.waited.is_some_and(|waited| waited >= self.wait(state.longest)) {
                actions.push(Action::Shorten);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => {
                let [_, most] = LIFETIMES;
                state.in_flight = state.in_flight.saturating_sub(1);
                state.seen = state.seen.map(|seen| (LEASES_END + most).min(seen + 1));
                state.waited = state.waited.map(|waited| (2 * LEASES_END + most).min(waited + 1));
                for environment in &mut state.environments {
                    let older = |age: u8| LEASES_END.min(age + 1);
                    if let Some(stable) = &mut environment.stable {
                        stable.age = older(stable.age);
                    }
                    if let Some(directory) = &mut environment.directory {
                        directory.age = older(directory.age);
                    }
                }
            }
            Action::ReadDirectory(at) => {
                let State { adopted, longest, .. } = *last;
                state.environments[at].directory = Some(Directory { age: 0, adopted, longest });
            }
            Action::ReadStable(at) => {
                let environment = &mut state.environments[at];
                let lifetime = environment.leased()?.adopted;
                environment.stable = Some(Stable { age: 0, lifetime });
            }
            Action::Drop(at) => state.environments[at].directory = None,
            Action::Sign(at) => {
                let environment = last.environments[at];
                let lifetime = match self.mutation {
                    Some(Mutation::DateByWhatIsHeld) => {
                        environment.directory.map_or(UNDATED, |directory| directory.adopted)
                    }
                    _ => environment.stable?.lifetime,
                };
                state.in_flight = state.in_flight.max(lifetime);
            }
            Action::See => state.seen = Some(0),
            Action::PublishForward => (state.phase, state.seen) = (Phase::Forward, None),
            Action::PublishMove(_) => (state.phase, state.seen) = (Phase::Move, None),
            Action::Close(_) => state.closes = true,
            Action::Adopt(lifetime) => {
                state.adopted = lifetime;
                state.longest = last.longest.max(lifetime);
                state.waited = None;
            }
            Action::BeginWait => state.waited = Some(0),
            Action::Shorten => {
                state.longest = last.adopted;
                state.waited = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariants I9, I33.
            Property::always(
                "nothing from before `move` executes behind the scan",
                |_, state: &State| !state.closes || state.in_flight == 0,
            ),
            Property::sometimes("a close by the shorter lifetime", |_, state: &State| {
                let [shorter, _] = LIFETIMES;
                state.closes && state.longest == shorter
            }),
            Property::sometimes(
                "a request that lives longer than what is adopted",
                |_, state: &State| state.in_flight > state.adopted,
            ),
        ]
    }
}
