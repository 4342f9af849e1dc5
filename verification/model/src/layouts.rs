//! Metadata that rests is renewed by a counter of the root: that nobody acts on a layout when the one after the next is in
//! force.
//!
//! An environment reads the metadata of a collection after a root, and keeps it for a lease. If the collection rests, what was
//! read holds under every later root that counts the same, too. Whoever carries a change on sees `forward`, then raises the
//! counter, and waits for T' from the answer on. In every other phase metadata is good for its own lease alone, so nothing is
//! raised, and T' counts from its sight. Others raise the counter for other collections at any time. Whoever carries the
//! change on may die between any two steps, and another begins anew; the wait is noted in the job.
//!
//! Time passes in ticks, as in [`segments`](crate::segments).

use stateright::{Model, Property};

use crate::mutation::Mutation;

/// The changes of one collection, and who acts on them.
#[derive(Clone, Debug)]
pub struct LayoutsModel {
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The metadata that was published last, and for how long it has been.
    published: u8,
    age: u8,
    /// Whether strong reads show it.
    shows: bool,
    counter: u8,
    /// Whether whoever carries the change on has seen it, and has had an answer to a raised counter.
    seen: bool,
    raised: bool,
    /// How long the job has waited.
    waited: Option<u8>,
    environment: Environment,
}

/// What an environment knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Environment {
    /// The counter in the root, and how long ago it was read.
    root: Option<(u8, u8)>,
    /// The root that was read before this one, as an operation may still stand on it.
    before: Option<(u8, u8)>,
    metadata: Option<Held>,
}

/// Metadata as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    of: u8,
    /// How long ago.
    age: u8,
    /// The counter that renews it.
    read_under: Option<u8>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The next metadata is published.
    Publish,
    /// Strong reads show it.
    Show,
    /// Whoever carries the change on sees it.
    See,
    /// It raises the counter.
    Raise,
    /// Somebody else does, for another collection.
    RaiseForOthers,
    /// The wait for leases begins.
    BeginWait,
    /// Whoever carries the change on dies, and another begins anew.
    Crash,
    /// An environment reads the root.
    ReadRoot,
    /// It reads the metadata.
    ReadMetadata,
}

/// What the metadata says, one after the other. At first there is none.
const FIRST_FORWARD: u8 = 1;
const REST: u8 = 2;
const FORWARD: u8 = 3;
const MOVE: u8 = 4;
/// T, T' and V.
const TERM: u8 = 2;
const LEASES_END: u8 = TERM + 1;
const VISIBLE: u8 = 2;
/// More counts tell nothing new.
const MOST_COUNTED: u8 = 3;

impl LayoutsModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// What an environment may act on.
    fn acts_on(&self, environment: Environment) -> Option<u8> {
        let held = environment.metadata?;
        let rests = held.of == REST
            || (self.has(Mutation::RenewWhatMoves) && held.of == FIRST_FORWARD)
            || (self.has(Mutation::RenewWithoutMetadata) && held.of == 0);
        let renews = |root: Option<(u8, u8)>| {
            root.is_some_and(|(counter, age)| age < TERM && held.read_under == Some(counter))
        };
        let is_renewed = rests && (renews(environment.root) || renews(environment.before));
        (held.age < TERM || is_renewed).then_some(held.of)
    }

    /// Whether the wait for leases on what was before may begin.
    fn may_wait(&self, state: &State) -> bool {
        let is_announced = state.published != FORWARD || state.raised;
        state.seen && (is_announced || self.has(Mutation::WaitFromSightOfLayout))
    }

    fn carry_on(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.shows {
            actions.push(Action::Show);
        } else if !state.seen {
            actions.push(Action::See);
        }
        let may_raise = state.seen || self.has(Mutation::RaiseBeforeLayoutShows);
        if state.published == FORWARD && may_raise && !state.raised {
            actions.push(Action::Raise);
        }
        if state.waited.is_none() && state.seen {
            actions.push(Action::Crash);
        }
        if state.waited.is_none() && self.may_wait(state) {
            actions.push(Action::BeginWait);
        }
        // Whoever waits from the sight raises later.
        let is_raised = state.published != FORWARD || state.raised;
        if state.waited == Some(LEASES_END) && is_raised && state.published < MOVE {
            actions.push(Action::Publish);
        }
    }
}

impl Model for LayoutsModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            published: 0,
            age: VISIBLE,
            shows: true,
            counter: 0,
            seen: false,
            raised: false,
            waited: None,
            environment: Environment { root: None, before: None, metadata: None },
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if state.published == 0 {
            actions.push(Action::Publish);
        } else {
            self.carry_on(state, actions);
        }
        if state.counter < MOST_COUNTED {
            actions.push(Action::RaiseForOthers);
        }
        actions.push(Action::ReadRoot);
        if state.environment.root.is_some_and(|(_, age)| age < TERM) {
            actions.push(Action::ReadMetadata);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let environment = &mut state.environment;
        match action {
            Action::Tick => {
                state.age = VISIBLE.min(state.age + 1);
                state.shows |= state.age == VISIBLE;
                state.waited = state.waited.map(|waited| LEASES_END.min(waited + 1));
                for root in [&mut environment.root, &mut environment.before] {
                    *root = root.map(|(counter, age)| (counter, TERM.min(age + 1)));
                }
                let held = environment.metadata;
                environment.metadata =
                    held.map(|held| Held { age: TERM.min(held.age + 1), ..held });
            }
            Action::Publish => {
                state.published += 1;
                (state.age, state.shows) = (0, false);
                (state.seen, state.raised, state.waited) = (false, false, None);
            }
            Action::Show => state.shows = true,
            Action::See => state.seen = true,
            Action::Raise => {
                // A counter that cannot be told from the last one would be a raise that did nothing.
                if last.counter == MOST_COUNTED {
                    return None;
                }
                (state.counter, state.raised) = (state.counter + 1, true);
            }
            Action::RaiseForOthers => state.counter += 1,
            Action::BeginWait => state.waited = Some(0),
            Action::Crash => (state.seen, state.raised) = (false, false),
            Action::ReadRoot => {
                environment.before = environment.root.filter(|(_, age)| *age < TERM);
                environment.root = Some((last.counter, 0));
                if self.has(Mutation::RenewByLaterRoot)
                    && let Some(held) = &mut environment.metadata
                {
                    held.read_under = held.read_under.or(Some(last.counter));
                }
            }
            Action::ReadMetadata => {
                let (counter, _) = environment.root?;
                let read_under = (!self.has(Mutation::RenewByLaterRoot)).then_some(counter);
                let of = if last.shows { last.published } else { last.published - 1 };
                environment.metadata = Some(Held { of, age: 0, read_under });
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariant I8.
            Property::always(
                "nobody acts on a layout when the one after the next is in force",
                |model: &Self, state: &State| {
                    let acts_on = model.acts_on(state.environment);
                    acts_on.is_none_or(|of| of + 1 >= state.published)
                },
            ),
            Property::sometimes("a collection that has rested moves", |_, state: &State| {
                state.published == MOVE
            }),
            Property::sometimes(
                "metadata is renewed by the root",
                |model: &Self, state: &State| {
                    let held = state.environment.metadata;
                    held.is_some_and(|held| held.age == TERM)
                        && model.acts_on(state.environment).is_some()
                },
            ),
            Property::sometimes("a counter tells that metadata has changed", |_, state: &State| {
                let counted = state.environment.root.map(|(counter, _)| counter);
                let held = state.environment.metadata;
                held.is_some_and(|held| held.of == REST && held.read_under < counted)
            }),
        ]
    }
}
