//! A query of one collection while a reshard moves its items, pages with limits included.
//!
//! There are four items. The second stays where it is, the others move. The first three live through everything, so
//! the query must return each exactly once, although the third is written over meanwhile. The fourth comes and goes,
//! and a put of it from before the reshard may come late. Transactions show to plain reads one side at a time, the
//! source's first, and the mover crashes between any two of its steps. One reshard is modelled, up or down. It may be
//! the one that enlists the collection.

mod mover;
mod properties;
mod reader;
mod state;
mod writer;

use stateright::{Model, Property};

pub use state::State;

use state::{Cell, ITEMS, Item, Mover, Reader, Shard, SortKey, Task};
use writer::Write;

use crate::mutation::Mutation;
use crate::schedule::{Generation, Half, Numbering, Phase, Revision};

/// Queries, within bounds.
#[derive(Clone, Debug)]
pub struct QueryModel {
    /// Which way the reshard goes.
    pub way: Way,
    /// Whether the item that comes and goes is there at first.
    pub exists: bool,
    /// When the source is read.
    pub source_is: SourceIs,
    /// How many entries of a shard a page evaluates.
    pub limit: usize,
    /// How many writes there are at most.
    pub writes: u8,
    /// How often the mover crashes at most.
    pub crashes: u8,
    /// Whether a put from before the reshard may come late.
    pub late_put: bool,
    /// How generations are counted.
    pub numbering: Numbering,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Which way the reshard goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The collection grows.
    Up,
    /// It begins without metadata, and its growth enlists it.
    UpFromUnlisted,
    /// It shrinks.
    Down,
}

/// When a round reads the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceIs {
    /// Behind its destination.
    Last,
    /// Before its destination, to say how far the round goes, and behind it once more where that is needed.
    Pilot,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The query reads its next page.
    ReadPage,
    /// The query reads the item of a marker by a transaction.
    Resolve,
    /// The query's lease ends.
    ReaderLeaseEnds,
    /// The writer writes an item.
    Write(SortKey, Write),
    /// The writer reads the metadata.
    WriterRefreshes,
    /// The second half of a transaction shows.
    BecomesVisible(SortKey),
    /// The mover reads, moves or writes its checkpoint.
    GoOnMoving,
    /// The mover crashes.
    CrashMover,
    /// A move that a crashed mover has sent executes.
    LateMove(usize),
    /// The closing scan begins.
    BeginClosingScan,
    /// The controller publishes the next revision.
    Publish,
    /// The controller publishes the first metadata and enlists the collection. This half does not show yet.
    Enlist(Half),
    /// The other half shows, too.
    EnlistingShows,
    /// A put that was signed before the reshard executes at the source.
    LatePut,
    /// A marker of the closed reshard is removed.
    RemoveMarker(SortKey),
}

/// What a revision of the metadata says about the items that move.
#[derive(Clone, Copy, Debug)]
struct Layout {
    phase: Phase,
    generation: Generation,
    /// Where a running reshard takes them from. The same as `new` when stable.
    old: Shard,
    /// Where it takes them to, or where they are.
    new: Shard,
}

impl QueryModel {
    const LAST: Revision = Revision::closing(1);

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn source(&self) -> Shard {
        if self.way == Way::Down { Shard::Second } else { Shard::First }
    }

    fn destination(&self) -> Shard {
        self.source().other()
    }

    /// The generation of the reshard.
    fn reshard(&self) -> Generation {
        self.numbering.generation(Revision::FIRST.next())
    }

    fn moves(key: SortKey) -> bool {
        key != SortKey(1)
    }

    fn live_throughout() -> impl Iterator<Item = SortKey> {
        SortKey::all().filter(|key| *key != Self::COMES_AND_GOES)
    }

    /// Where an item lies when those that move are in the given shard.
    fn home(key: SortKey, moving: Shard) -> Shard {
        if Self::moves(key) { moving } else { Shard::First }
    }

    fn layout(&self, revision: Revision) -> Layout {
        let phase = revision.phase();
        let (old, new) = match phase {
            Phase::Stable if revision == Revision::FIRST => (self.source(), self.source()),
            Phase::Stable => (self.destination(), self.destination()),
            Phase::Forward | Phase::Move => (self.source(), self.destination()),
        };
        Layout { phase, generation: self.numbering.generation(revision), old, new }
    }

    /// Whether T' may have passed since the metadata in force was published.
    fn leases_have_ended(state: &State) -> bool {
        let reader = &state.reader;
        let reads = !reader.is_done() && reader.lease_runs && reader.revision < state.published;
        state.writer >= state.published && !reads
    }

    /// Whether V may have passed: no transaction is visible in part.
    fn everything_shows(state: &State) -> bool {
        !SortKey::all().any(|key| state.is_half_visible(key))
    }

    fn may_publish(&self, state: &State) -> bool {
        state.published < Self::LAST
            && match state.published.phase() {
                Phase::Stable | Phase::Forward => {
                    state.enlisting.is_none() && Self::leases_have_ended(state)
                }
                Phase::Move => {
                    let waits = !self.has(Mutation::CloseWithoutV);
                    state.mover.closing
                        && state.mover.has_ended()
                        && (!waits || Self::everything_shows(state))
                }
            }
    }

    fn client_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let reader = &state.reader;
        if !reader.is_done() {
            match reader.unresolved.first() {
                None => actions.push(Action::ReadPage),
                // DynamoDB refuses the transaction while another on the item is under way.
                Some(&key) if !state.is_half_visible(key) => actions.push(Action::Resolve),
                Some(_) => {}
            }
            if reader.lease_runs && reader.revision < state.published {
                actions.push(Action::ReaderLeaseEnds);
            }
        }
        if state.writes < self.writes {
            for (key, write) in [
                (Self::OVERWRITTEN, Write::Put),
                (Self::COMES_AND_GOES, Write::Put),
                (Self::COMES_AND_GOES, Write::Delete),
            ] {
                if !state.is_half_visible(key) {
                    actions.push(Action::Write(key, write));
                }
            }
        }
        // The writer may know of the reshard although the directory does not list the collection yet.
        if state.writer < state.published && state.enlisting != Some(Half::Metadata) {
            actions.push(Action::WriterRefreshes);
        }
    }

    fn reshard_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let half_visible = SortKey::all().filter(|key| state.is_half_visible(*key));
        actions.extend(half_visible.map(Action::BecomesVisible));
        actions.extend((0..state.late.len()).map(Action::LateMove));
        if state.published.phase() == Phase::Move {
            if !state.mover.has_ended() {
                actions.push(Action::GoOnMoving);
                if state.crashes < self.crashes && state.mover.task != Task::Read {
                    actions.push(Action::CrashMover);
                }
            }
            if !state.mover.closing && Self::leases_have_ended(state) {
                actions.push(Action::BeginClosingScan);
            }
        }
        if self.may_put_late(state) {
            actions.push(Action::LatePut);
        }
        if self.may_publish(state) {
            if self.way == Way::UpFromUnlisted && state.published == Revision::FIRST {
                actions.extend(Half::ALL.map(Action::Enlist));
            } else {
                actions.push(Action::Publish);
            }
        }
        if state.enlisting.is_some() {
            actions.push(Action::EnlistingShows);
        }
        let waits = !self.has(Mutation::RemoveMarkersUnderLeases);
        if state.published == Self::LAST && (!waits || Self::leases_have_ended(state)) {
            let removable = SortKey::all().filter(|key| {
                let marker = matches!(state.item(*key).cell(self.source()), Cell::Marker(_));
                marker && !state.is_half_visible(*key)
            });
            actions.extend(removable.map(Action::RemoveMarker));
        }
    }
}

impl Model for QueryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let nothing = Item { first: Cell::Absent, second: Cell::Absent, unseen: None };
        let mut state = State {
            items: [nothing; ITEMS as usize],
            published: Revision::FIRST,
            enlisting: None,
            reader: Reader::new(),
            writer: Revision::FIRST,
            writes: 0,
            mover: Mover::new(false),
            crashes: 0,
            late: Vec::new(),
            put_late: false,
        };
        let goes = self.exists.then_some(Self::COMES_AND_GOES);
        for key in Self::live_throughout().chain(goes) {
            let home = Self::home(key, self.source());
            *state.item_mut(key).cell_mut(home) = Cell::Live(Generation::FIRST);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.client_actions(state, actions);
        self.reshard_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::ReadPage => self.read_page(&mut state),
            Action::Resolve => Self::resolve(&mut state),
            Action::ReaderLeaseEnds => state.reader.lose_lease(),
            Action::Write(key, write) => self.write(&mut state, key, write),
            Action::WriterRefreshes => state.writer = state.published,
            Action::BecomesVisible(key) => {
                let destination = self.destination();
                let item = state.item_mut(key);
                if let Some(cell) = item.unseen.take() {
                    *item.cell_mut(destination) = cell;
                }
            }
            Action::GoOnMoving => self.go_on_moving(&mut state),
            Action::CrashMover => Self::crash(&mut state),
            Action::LateMove(at) => {
                let (key, seen) = state.late.remove(at);
                self.move_item(&mut state, key, seen);
            }
            Action::BeginClosingScan => state.mover = Mover::new(true),
            Action::Publish => state.published = state.published.next(),
            Action::Enlist(unseen) => {
                state.published = state.published.next();
                state.enlisting = Some(unseen);
            }
            Action::EnlistingShows => state.enlisting = None,
            Action::LatePut => self.put_late(&mut state),
            Action::RemoveMarker(key) => {
                let source = self.source();
                *state.item_mut(key).cell_mut(source) = Cell::Absent;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
