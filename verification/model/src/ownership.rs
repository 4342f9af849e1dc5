//! Two stacks on one main table: that the second serves nothing, since neither sees where the other keeps items.
//!
//! Each stack has a metadata table of its own. The one has resharded its collection, so its item lies in another shard
//! than where the other looks, to which the collection is cold. The directory of each is pinned before anybody writes,
//! and whoever pins it names its metadata table in the owner item of the main table, if that names none. An environment
//! compares when it first reads the directory. It may die between any two steps; one that begins anew is another.

use stateright::{Model, Property};

use crate::mutation::Mutation;

/// Two stacks, and an environment of each.
#[derive(Clone, Debug)]
pub struct OwnershipModel {
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Whose metadata table the main table names.
    owner: Option<Stack>,
    environments: [Standing; STACKS],
    /// What lies in the shard in which each stack looks for the item: the number of the write.
    shards: [u8; STACKS],
    /// How many writes were acknowledged. The last has this number.
    writes: u8,
    /// Whether an environment has served a read that missed the last write.
    missed: bool,
}

/// One of the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stack(usize);

/// How far an environment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// It has not read the directory.
    Unread,
    /// It has pinned its settings, or found them pinned.
    Pinned,
    /// The main table belongs to its stack.
    Serves,
    /// It belongs to the other.
    Refuses,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An environment reads the directory, and pins its settings if none are.
    ReadDirectory(Stack),
    /// It puts the owner item if there is none, and reads it.
    Compare(Stack),
    /// It writes the item.
    Write(Stack),
    /// It reads the item.
    Read(Stack),
    /// Another environment takes its place.
    Restart(Stack),
}

const STACKS: usize = 2;
const MOST_WRITES: u8 = 3;

impl Model for OwnershipModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            owner: None,
            environments: [Standing::Unread; STACKS],
            shards: [0; STACKS],
            writes: 0,
            missed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What is to be known has shown.
        if state.missed {
            return;
        }
        for stack in (0..STACKS).map(Stack) {
            match state.environments[stack.0] {
                Standing::Unread => actions.push(Action::ReadDirectory(stack)),
                Standing::Pinned => actions.push(Action::Compare(stack)),
                Standing::Serves if state.writes < MOST_WRITES => {
                    actions.extend([Action::Write(stack), Action::Read(stack)]);
                }
                Standing::Serves => actions.push(Action::Read(stack)),
                Standing::Refuses => {}
            }
            actions.push(Action::Restart(stack));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::ReadDirectory(Stack(at)) => state.environments[at] = Standing::Pinned,
            Action::Compare(stack) => {
                let owner = *state.owner.get_or_insert(stack);
                let is_owner = owner == stack || self.mutation == Some(Mutation::SecondOwner);
                state.environments[stack.0] =
                    if is_owner { Standing::Serves } else { Standing::Refuses };
            }
            Action::Write(Stack(at)) => {
                state.writes += 1;
                state.shards[at] = state.writes;
            }
            Action::Read(Stack(at)) => state.missed |= state.shards[at] != state.writes,
            Action::Restart(Stack(at)) => state.environments[at] = Standing::Unread,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariant I2.
            Property::always("no acknowledged write is invisible", |_, state: &State| {
                !state.missed
            }),
            Property::sometimes("a stack that is refused", |_, state: &State| {
                state.environments.contains(&Standing::Refuses)
            }),
            Property::sometimes("the owner serves all writes", |_, state: &State| {
                state.writes == MOST_WRITES && state.environments.contains(&Standing::Serves)
            }),
        ]
    }
}
