//! A directory that lists hashes in one item becomes one in [`segments`](crate::segments) under a root: that nobody takes for
//! cold what moves, whether it was enlisted before, meanwhile or after.
//!
//! The root is the item that held the list. Whoever converts reads it, waits for V, so that every transaction shows that it
//! knows of, scans the metadata of all collections, adds their keys to the segments, and then puts the root in place of the
//! list if its `rev` is as it was read. Enlisting by the list raises `rev`, so that succeeds only where nobody has enlisted
//! meanwhile; otherwise the conversion begins anew. It may be given up between any two steps, and be begun again by anybody.
//! A group whose counter is 0 was never changed, so the root of a conversion counts 1 for each that has keys.
//!
//! Time passes in ticks, as in [`segments`](crate::segments).

use stateright::{Model, Property};

use crate::mutation::Mutation;

/// One conversion, one enlisting, and an environment that may know of both. Others would not know of each other.
#[derive(Clone, Debug)]
pub struct ConversionModel {
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The directory item as a write finds it.
    root: Root,
    /// The directory item as strong reads see it: the half of a transaction in it may not show yet.
    visible: Root,
    /// How the key was enlisted, and how long ago.
    enlisted: Option<(Enlisted, u8)>,
    metadata_shows: bool,
    segment_shows: bool,
    /// The root that whoever enlists has read.
    enlister: Option<Root>,
    converter: Option<Converter>,
    job: Job,
    environment: Environment,
}

/// How far the change that enlisted the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// Nobody has seen the key where it is listed.
    Unseen,
    Seen,
    /// For so long.
    Waits(u8),
    Moves,
}

/// The directory item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Root {
    /// A list, with its `rev`, and whether the key is on it.
    List { rev: u8, lists: bool },
    /// What renews segments: the counter of the key's group.
    OfSegments { counter: u8 },
}

/// By what form of the directory the key was enlisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Enlisted {
    ByList,
    BySegment,
}

/// How far a conversion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Converter {
    /// The `rev` of the list that it has read, and how long ago.
    rev: u8,
    age: u8,
    /// Whether its scan has found the key's metadata, once it was made.
    found: Option<bool>,
}

/// What an environment knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Environment {
    /// The directory item that it has read, and how long ago.
    root: Option<(Root, u8)>,
    /// Whether the segment had the key, and the counter by which that is renewed.
    segment: Option<(bool, u8)>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes.
    Tick,
    /// Whoever enlists reads the directory item.
    ReadToEnlist,
    /// It enlists the key as that item says.
    Enlist,
    /// A half of the transaction shows: in the metadata, the list or the segment.
    Show(Half),
    /// Somebody else enlists another key of the group.
    EnlistAnother,
    /// A conversion reads the list.
    BeginConversion,
    /// It scans the metadata, and adds what it finds to the segments.
    Scan,
    /// It puts the root in place of the list.
    Convert,
    /// It is given up.
    GiveUp,
    /// Whoever waits for leases to end sees the key where it is listed.
    See,
    /// It raises the counter, which is answered, where there is one; and begins to wait.
    BeginWait,
    /// The items begin to move.
    Move,
    /// The environment reads the directory item.
    ReadRoot,
    /// It reads the segment.
    ReadSegment,
}

/// A half of the transaction that enlists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// In the metadata.
    Metadata,
    /// In the list or the segment.
    Listing,
}

/// T, T' and V.
const TERM: u8 = 2;
const LEASES_END: u8 = TERM + 1;
const VISIBLE: u8 = 2;
/// More of others' changes tell nothing new.
const MOST_OF_OTHERS: u8 = 2;

impl Environment {
    /// Whether it takes the key for cold.
    fn believes_cold(self) -> bool {
        let Some((root, age)) = self.root else { return false };
        let is_cold = match (root, self.segment) {
            (Root::List { lists, .. }, _) => !lists,
            (Root::OfSegments { counter }, Some((listed, renewed_by))) if counter == renewed_by => {
                !listed
            }
            // Nobody has ever changed the group.
            (Root::OfSegments { counter }, _) => counter == 0,
        };
        age < TERM && is_cold
    }
}

impl ConversionModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn enlisting(state: &State, actions: &mut Vec<Action>) {
        match state.enlisted {
            None => {
                actions.push(Action::ReadToEnlist);
                actions.extend(state.enlister.map(|_| Action::Enlist));
            }
            Some((by, _)) => {
                let listing_shows = match by {
                    Enlisted::ByList => state.visible == state.root,
                    Enlisted::BySegment => state.segment_shows,
                };
                let halves =
                    [(Half::Metadata, state.metadata_shows), (Half::Listing, listing_shows)];
                let hidden = halves.into_iter().filter(|(_, shows)| !shows);
                actions.extend(hidden.map(|(half, _)| Action::Show(half)));
                match state.job {
                    Job::Unseen if is_seen_listed(state) => actions.push(Action::See),
                    Job::Seen => actions.push(Action::BeginWait),
                    Job::Waits(LEASES_END) => actions.push(Action::Move),
                    Job::Unseen | Job::Waits(_) | Job::Moves => {}
                }
            }
        }
    }

    fn converting(&self, state: &State, actions: &mut Vec<Action>) {
        let Some(converter) = state.converter else {
            if let Root::List { .. } = state.visible {
                actions.push(Action::BeginConversion);
            }
            return;
        };
        actions.push(Action::GiveUp);
        let shows = converter.age >= VISIBLE || self.has(Mutation::ConvertWithoutV);
        match converter.found {
            None if shows => actions.push(Action::Scan),
            None => {}
            Some(_) => actions.push(Action::Convert),
        }
    }
}

/// Whether strong reads find the key where the directory lists keys.
fn is_seen_listed(state: &State) -> bool {
    match state.visible {
        Root::List { lists, .. } => lists,
        Root::OfSegments { .. } => state.segment_shows,
    }
}

/// Makes the half of the transaction in the directory show.
fn show_listing(state: &mut State, by: Enlisted) {
    match by {
        Enlisted::ByList => state.visible = state.root,
        Enlisted::BySegment => state.segment_shows = true,
    }
}

impl Model for ConversionModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let root = Root::List { rev: 0, lists: false };
        vec![State {
            root,
            visible: root,
            enlisted: None,
            metadata_shows: false,
            segment_shows: false,
            enlister: None,
            converter: None,
            job: Job::Unseen,
            environment: Environment { root: None, segment: None },
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if state.job != Job::Moves {
            Self::enlisting(state, actions);
            let others = match state.root {
                Root::List { rev, .. } => rev,
                Root::OfSegments { counter } => counter,
            };
            if others < MOST_OF_OTHERS {
                actions.push(Action::EnlistAnother);
            }
        }
        self.converting(state, actions);
        actions.push(Action::ReadRoot);
        if matches!(state.environment.root, Some((Root::OfSegments { .. }, age)) if age < TERM) {
            actions.push(Action::ReadSegment);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => {
                if let Some((by, age)) = state.enlisted.filter(|(_, age)| *age < VISIBLE) {
                    state.enlisted = Some((by, age + 1));
                    if age + 1 == VISIBLE {
                        state.metadata_shows = true;
                        show_listing(&mut state, by);
                    }
                }
                if let Job::Waits(waited) = &mut state.job {
                    *waited = LEASES_END.min(*waited + 1);
                }
                if let Some(converter) = &mut state.converter {
                    converter.age = VISIBLE.min(converter.age + 1);
                }
                if let Some((_, age)) = &mut state.environment.root {
                    *age = TERM.min(*age + 1);
                }
            }
            Action::ReadToEnlist => state.enlister = Some(last.visible),
            Action::Enlist => {
                let by = match (last.enlister?, last.root) {
                    // On condition of the `rev`.
                    (Root::List { rev: read, .. }, Root::List { rev, .. }) if read == rev => {
                        state.root = Root::List { rev: rev + 1, lists: true };
                        Enlisted::ByList
                    }
                    (Root::List { .. }, _) => {
                        state.enlister = None;
                        return Some(state);
                    }
                    (Root::OfSegments { .. }, _) => Enlisted::BySegment,
                };
                state.enlisted = Some((by, 0));
            }
            Action::Show(Half::Metadata) => state.metadata_shows = true,
            Action::Show(Half::Listing) => {
                let (by, _) = last.enlisted?;
                show_listing(&mut state, by);
            }
            Action::EnlistAnother => {
                // What shows of it, and when, is not followed.
                for root in [&mut state.root, &mut state.visible] {
                    match root {
                        Root::List { rev, .. } => *rev += 1,
                        Root::OfSegments { counter } => *counter += 1,
                    }
                }
            }
            Action::BeginConversion => {
                let Root::List { rev, .. } = last.visible else { return None };
                state.converter = Some(Converter { rev, age: 0, found: None });
            }
            Action::Scan => {
                let found = last.metadata_shows;
                let converter = Converter { found: Some(found), ..last.converter? };
                state.converter = Some(converter);
                state.segment_shows |= found;
            }
            Action::Convert => {
                let converter = last.converter?;
                state.converter = None;
                let Root::List { rev, .. } = last.root else { return Some(state) };
                if rev == converter.rev || self.has(Mutation::ConvertWhateverChanged) {
                    let has_keys = converter.found == Some(true);
                    let is_counted = has_keys && !self.has(Mutation::ConvertToZero);
                    state.root = Root::OfSegments { counter: u8::from(is_counted) };
                    state.visible = state.root;
                }
            }
            Action::GiveUp => state.converter = None,
            Action::See => state.job = Job::Seen,
            Action::BeginWait => {
                for root in [&mut state.root, &mut state.visible] {
                    if let Root::OfSegments { counter } = root {
                        *counter += 1;
                    }
                }
                state.job = Job::Waits(0);
            }
            Action::Move => state.job = Job::Moves,
            Action::ReadRoot => state.environment.root = Some((last.visible, 0)),
            Action::ReadSegment => {
                let Some((Root::OfSegments { counter }, _)) = last.environment.root else {
                    return None;
                };
                state.environment.segment = Some((last.segment_shows, counter));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Invariant I32.
            Property::always("nobody takes for cold what moves", |_, state: &State| {
                !(state.job == Job::Moves && state.environment.believes_cold())
            }),
            Property::sometimes("what was on the list moves under a root", |_, state: &State| {
                let by_list = matches!(state.enlisted, Some((Enlisted::ByList, _)));
                state.job == Job::Moves && by_list && matches!(state.root, Root::OfSegments { .. })
            }),
            Property::sometimes("what was enlisted by a segment moves", |_, state: &State| {
                state.job == Job::Moves && matches!(state.enlisted, Some((Enlisted::BySegment, _)))
            }),
            Property::sometimes("an environment reads a segment", |_, state: &State| {
                state.environment.segment.is_some()
            }),
        ]
    }
}
