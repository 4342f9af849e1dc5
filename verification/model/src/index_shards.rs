//! The shards of write-sharded indexes, while they become more: that a reader asks for every shard that an item is written to.
//!
//! The root of the directory holds two counts, that of readers and that of writers. A growth raises the first, and when it was seen
//! for T' the second follows: by then nobody reads by the count before. An item lies in the shard that follows from its key and
//! the count of its writer. Of all items one is enough that each growth moves to a new shard. A write that was signed may execute
//! at any time, or never.
//!
//! Time passes in ticks, as in [`settings`](crate::settings). That an index lags behind its table is left out: it is the same
//! for every index.

use stateright::{Model, Property};

use crate::mutation::Mutation;

/// Environments that write and read by an index whose shards grow twice.
#[derive(Clone, Debug)]
pub struct IndexShardsModel {
    /// How many environments there are.
    pub environments: usize,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments. Times are ages in ticks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    root: Root,
    environments: Vec<Environment>,
    /// A write that was signed, by the count that its signer went by.
    in_flight: Option<u8>,
    /// The shard that the item lies in.
    lies_in: u8,
    /// Whether a reader has not asked for that.
    missed: bool,
}

/// What the root of the directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Root {
    written: u8,
    read: u8,
}

/// What an environment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Environment {
    /// What it has read of the root, and how long ago.
    lease: Option<(Root, u8)>,
    /// The growth that it has seen, and for how long.
    seen: Option<(Root, u8)>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// An environment reads the root.
    ReadRoot(usize),
    /// Readers go by twice as many shards.
    Grow,
    /// An environment has writers follow.
    Settle(usize),
    /// It signs a write of the item.
    Sign(usize),
    /// That executes.
    Execute,
    /// An environment reads all shards.
    Read(usize),
}

/// T'.
const LEASES_END: u8 = 2;
/// The counts are 1, 2 and 4.
const MOST: u8 = 4;

impl Root {
    fn is_growing(self) -> bool {
        self.written < self.read
    }
}

impl Model for IndexShardsModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let unread = Environment { lease: None, seen: None };
        vec![State {
            root: Root { written: 1, read: 1 },
            environments: vec![unread; self.environments],
            in_flight: None,
            lies_in: 0,
            missed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What is to be known has shown.
        if state.missed {
            return;
        }
        actions.push(Action::Tick);
        if !state.root.is_growing() && state.root.read < MOST {
            actions.push(Action::Grow);
        }
        if state.in_flight.is_some() {
            actions.push(Action::Execute);
        }
        for (at, environment) in state.environments.iter().enumerate() {
            actions.push(Action::ReadRoot(at));
            let wait = match self.mutation {
                Some(Mutation::SettleIndexShardsAtOnce) => 0,
                _ => LEASES_END,
            };
            if environment.seen.is_some_and(|(seen, age)| seen == state.root && age >= wait) {
                actions.push(Action::Settle(at));
            }
            let is_leased = match self.mutation {
                Some(Mutation::ReadIndexShardsOnce) => environment.lease.is_some(),
                _ => environment.lease.is_some_and(|(_, age)| age < LEASES_END),
            };
            if is_leased {
                actions.extend([Action::Sign(at), Action::Read(at)]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => {
                let older = |age: &mut u8| *age = LEASES_END.min(*age + 1);
                for Environment { lease, seen } in &mut state.environments {
                    for (_, age) in lease.iter_mut().chain(seen) {
                        older(age);
                    }
                }
            }
            Action::ReadRoot(at) => {
                let Environment { lease, seen } = &mut state.environments[at];
                let before = seen.filter(|(seen, _)| *seen == last.root);
                *seen = before.or(last.root.is_growing().then_some((last.root, 0)));
                *lease = Some((last.root, 0));
            }
            Action::Grow => {
                let read = 2 * last.root.read;
                let writers_too = self.mutation == Some(Mutation::GrowIndexShardsInOneStep);
                let written = if writers_too { read } else { last.root.written };
                state.root = Root { written, read };
            }
            Action::Settle(_) => state.root.written = last.root.read,
            Action::Sign(at) => {
                let (root, _) = last.environments[at].lease?;
                state.in_flight = Some(root.written);
            }
            Action::Execute => state.lies_in = state.in_flight.take()? - 1,
            Action::Read(at) => {
                let (root, _) = last.environments[at].lease?;
                state.missed |= last.lies_in >= root.read;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariant I39.
            Property::always("every shard that an item lies in is read", |_, state: &State| {
                !state.missed
            }),
            Property::sometimes("an item in the last shard", |_, state: &State| {
                state.lies_in == MOST - 1
            }),
            Property::sometimes("a write by the count before", |_, state: &State| {
                state.in_flight.is_some_and(|written| written < state.root.written)
            }),
        ]
    }
}
