//! A directory in segments under a root: that nobody takes a key for cold when its items move. The root has copies here, of
//! which the protocol has one.
//!
//! A collection is enlisted by a transaction that adds its key to a segment. An environment reads a segment once, and
//! renews what it read by a counter: it holds under every root that counts no more than the one that was read before it. An
//! operation may still stand on the root of before. A segment whose counter is 0 was never changed, and is not read. The root has copies, and each environment reads
//! the one that it has drawn. Whoever enlists sees the change first, then raises the counter in every copy, and waits for T'
//! from the last answer on. Others raise it for other keys of the segment at any time. Whoever enlists may die between any
//! two of its steps, and another begins anew; the wait is noted in the job.
//!
//! Time passes in ticks, as in [`settings`](crate::settings): T' is a tick more than T, and the halves of a transaction show
//! within V.

use stateright::{Model, Property};

use crate::mutation::Mutation;

/// One enlisting, and who may know of it.
#[derive(Clone, Debug)]
pub struct SegmentsModel {
    /// How many environments there are.
    pub environments: usize,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The age of the transaction, once it is committed.
    committed: Option<u8>,
    /// Whether strong reads of the segment see the key.
    shows: bool,
    /// The counter of the segment's group in each copy of the root.
    counters: [u8; COPIES],
    /// Whether whoever enlists has seen the key in the segment, and which copies have answered it.
    seen: bool,
    answered: [bool; COPIES],
    /// How long the job has waited.
    waited: Option<u8>,
    moves: bool,
    environments: Vec<Environment>,
}

/// What an environment knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Environment {
    /// The copy that it reads.
    copy: usize,
    /// The counter in the root, and how long ago it was read.
    root: Option<(u8, u8)>,
    /// The root that was read before this one, as an operation may still stand on it.
    before: Option<(u8, u8)>,
    /// Whether the segment had the key, and the counter by which that is renewed.
    segment: Option<(bool, u8)>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The transaction takes effect.
    Commit,
    /// Its half in the segment shows.
    SegmentShows,
    /// Its half in a copy of the root shows, if the root is in the transaction.
    RootShows(usize),
    /// Whoever enlists sees the key in the segment.
    SeeSegment,
    /// It raises the counter in a copy.
    Bump(usize),
    /// Somebody else does, for another key.
    BumpForOthers(usize),
    /// All copies have answered.
    BeginWait,
    /// Whoever enlists dies, and another begins anew.
    Crash,
    /// The items begin to move.
    Move,
    /// An environment draws another copy of the root.
    Draw(usize),
    /// It reads the root.
    ReadRoot(usize),
    /// It reads the segment.
    ReadSegment(usize),
}

const COPIES: usize = 2;
/// T, T' and V.
const TERM: u8 = 2;
const LEASES_END: u8 = TERM + 1;
const VISIBLE: u8 = 2;
/// More counts tell nothing new.
const MOST_COUNTED: u8 = 3;

impl Environment {
    /// Whether it takes the key for cold.
    fn believes_cold(self) -> bool {
        let under = |root: Option<(u8, u8)>| {
            root.is_some_and(|(counter, age)| {
                let is_cold = match self.segment {
                    Some((listed, read_under)) => !listed && read_under >= counter,
                    None => counter == 0,
                };
                age < TERM && is_cold
            })
        };
        under(self.root) || under(self.before)
    }
}

impl SegmentsModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether the root is in the transaction, as a first plan had it.
    fn is_in_transaction(&self) -> bool {
        self.has(Mutation::RootInTransaction)
    }

    /// Whether the wait for leases may begin.
    fn may_wait(&self, state: &State) -> bool {
        if self.is_in_transaction() {
            return state.shows && state.counters.iter().all(|counter| *counter > 0);
        }
        let answered = state.answered;
        let is_enough = if self.has(Mutation::WaitForSomeCopies) {
            answered.contains(&true)
        } else {
            !answered.contains(&false)
        };
        state.seen && is_enough
    }

    fn enlisting(&self, state: &State, actions: &mut Vec<Action>) {
        if state.committed.is_none() {
            actions.push(Action::Commit);
            return;
        }
        if !state.shows {
            actions.push(Action::SegmentShows);
        }
        if self.is_in_transaction() {
            let unseen = (0..COPIES).filter(|copy| state.counters[*copy] == 0);
            actions.extend(unseen.map(Action::RootShows));
        } else {
            if state.shows && !state.seen {
                actions.push(Action::SeeSegment);
            }
            if state.seen || self.has(Mutation::BumpBeforeSegmentShows) {
                let left = (0..COPIES).filter(|copy| !state.answered[*copy]);
                actions.extend(left.map(Action::Bump));
            }
            if state.waited.is_none() && (state.seen || state.answered.contains(&true)) {
                actions.push(Action::Crash);
            }
        }
        if state.waited.is_none() && self.may_wait(state) {
            actions.push(Action::BeginWait);
        }
        if state.waited == Some(LEASES_END) && self.may_wait(state) {
            actions.push(Action::Move);
        }
    }

    fn tick(&self, state: &mut State) {
        if let Some(age) = state.committed.filter(|age| *age < VISIBLE) {
            state.committed = Some(age + 1);
            if age + 1 == VISIBLE {
                state.shows = true;
                if self.is_in_transaction() {
                    state.counters = [1; COPIES];
                }
            }
        }
        state.waited = state.waited.map(|waited| LEASES_END.min(waited + 1));
        for environment in &mut state.environments {
            for root in [&mut environment.root, &mut environment.before] {
                *root = root.map(|(counter, age)| (counter, TERM.min(age + 1)));
            }
        }
    }
}

impl Model for SegmentsModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let unread = Environment { copy: 0, root: None, before: None, segment: None };
        vec![State {
            committed: None,
            shows: false,
            counters: [0; COPIES],
            seen: false,
            answered: [false; COPIES],
            waited: None,
            moves: false,
            environments: vec![unread; self.environments],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if !state.moves {
            self.enlisting(state, actions);
            if !self.is_in_transaction() {
                let others = (0..COPIES).filter(|copy| state.counters[*copy] < MOST_COUNTED);
                actions.extend(others.map(Action::BumpForOthers));
            }
        }
        for (at, environment) in state.environments.iter().enumerate() {
            actions.extend([Action::Draw(at), Action::ReadRoot(at)]);
            if environment.root.is_some_and(|(_, age)| age < TERM) {
                actions.push(Action::ReadSegment(at));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.tick(&mut state),
            Action::Commit => state.committed = Some(0),
            Action::SegmentShows => state.shows = true,
            Action::RootShows(copy) => state.counters[copy] = 1,
            Action::SeeSegment => {
                state.seen = true;
                if self.has(Mutation::WaitFromSight) {
                    state.waited = Some(0);
                }
            }
            Action::Bump(copy) => {
                state.counters[copy] = MOST_COUNTED.min(state.counters[copy] + 1);
                state.answered[copy] = true;
                // A counter that cannot be told from the last one would be a bump that did nothing.
                if last.counters[copy] == MOST_COUNTED {
                    return None;
                }
            }
            Action::BumpForOthers(copy) => state.counters[copy] += 1,
            Action::BeginWait => state.waited = Some(0),
            Action::Crash => (state.seen, state.answered) = (false, [false; COPIES]),
            Action::Move => state.moves = true,
            Action::Draw(at) => {
                let environment = &mut state.environments[at];
                environment.copy = (environment.copy + 1) % COPIES;
                (environment.root, environment.before) = (None, None);
                // Counters of different copies say nothing of each other.
                if !self.has(Mutation::OneCacheForAllCopies) {
                    environment.segment = None;
                }
            }
            Action::ReadRoot(at) => {
                let environment = &mut state.environments[at];
                environment.before = environment.root.filter(|(_, age)| *age < TERM);
                environment.root = Some((last.counters[environment.copy], 0));
            }
            Action::ReadSegment(at) => {
                let environment = &mut state.environments[at];
                let (counter, _) = environment.root?;
                environment.segment = Some((last.shows, counter));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariant I32.
            Property::always("nobody takes for cold what moves", |_, state: &State| {
                !(state.moves && state.environments.iter().any(|it| it.believes_cold()))
            }),
            Property::sometimes("the items of a key that was cold move", |_, state: &State| {
                state.moves
            }),
            Property::sometimes("a key is taken for cold that is listed", |_, state: &State| {
                state.shows && state.environments.iter().any(|it| it.believes_cold())
            }),
            Property::sometimes("a segment is renewed by the root", |_, state: &State| {
                let is_renewed =
                    |it: &Environment| it.root.map(|(of, _)| of) == it.segment.map(|(_, of)| of);
                state.environments.iter().any(|it| it.segment.is_some() && is_renewed(it))
            }),
        ]
    }
}
