//! A layout of epochs: intervals of the sort keys, each with a count of its own, that come to another count one after the
//! other.
//!
//! There are four items in two shards. The second is the boundary, which belongs to the lower epoch. It and the third lie in
//! the second shard where the count of their epoch is 2; the others always lie in the first. So each epoch has an item that
//! moves beside one that stays. A route says which of them is resharded, and to which count. Where their counts are equal and
//! none moves, the list has one epoch: the `forward` that changes a half splits it, and the `stable` that closes the second
//! half merges them.
//!
//! What is searched is the interval and the list. A write is one step, since [`crate::item`] has its steps, and transactions
//! show whole, since [`crate::query`] has their halves. Any number of environments writes, and serves pages of one query:
//! each does so under the metadata in force, or under that from before as long as leases on it may run.

mod mover;
mod properties;
mod reader;
mod state;
mod writer;

use stateright::{Model, Property};

pub use state::{Interval, Shard, SortKey, State};

use state::{Cell, FIRST, Mover};

use crate::mutation::Mutation;
use crate::schedule::{Generation, Numbering, Phase, Revision};

/// A collection of up to two epochs, within bounds.
#[derive(Clone, Debug)]
pub struct EpochsModel {
    /// The count at first, of all sort keys: 1 or 2.
    pub from: u8,
    /// The interval that each reshard changes, and its count behind it.
    pub route: &'static [(Interval, u8)],
    /// Whether the query goes up.
    pub ascending: bool,
    /// Whether the items that move are there at first. The others are.
    pub exists: bool,
    /// How many entries of a shard a page evaluates.
    pub limit: usize,
    /// How many writes there are at most.
    pub writes: u8,
    /// How many puts are signed that nobody waits for.
    pub late_puts: u8,
    /// How often the mover crashes at most.
    pub crashes: u8,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An item is put under this metadata.
    Put(SortKey, Revision),
    /// It is deleted.
    Delete(SortKey, Revision),
    /// A put is signed, and nobody waits for it.
    Sign(SortKey, Revision),
    /// That put executes.
    LatePut,
    /// The query reads its next page. A window begins under any metadata on which leases run, and ends under the same.
    ReadPage(Revision),
    /// T' has passed: no lease on the metadata from before runs any more.
    LeasesEnd,
    /// The controller publishes the next revision.
    Publish,
    /// H has passed, too, and the closing scan begins.
    BeginClosingScan,
    /// The mover reads an item, or moves it.
    GoOnMoving,
    /// The mover crashes, and another goes on at its checkpoint.
    CrashMover,
    /// A move that a crashed mover has sent executes.
    LateMove,
    /// A marker of a closed reshard is removed.
    RemoveMarker(SortKey, Shard),
}

/// What a revision of the metadata says of the sort keys of an interval.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    keys: Interval,
    /// The count from which a running reshard takes it. The same as `new` at rest.
    old: u8,
    /// The count to which it takes it, or that it has.
    new: u8,
}

impl Epoch {
    fn moves(self) -> bool {
        self.old != self.new
    }
}

impl EpochsModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn generation(revision: Revision) -> Generation {
        Numbering::OncePerReshard.generation(revision)
    }

    fn last(&self) -> Revision {
        Revision::closing(u8::try_from(self.route.len()).expect("routes are short"))
    }

    /// The sort keys that the last reshard changes that has begun.
    fn interval(&self, revision: Revision) -> Interval {
        self.route[usize::from(revision.reshards_begun()) - 1].0
    }

    fn epoch(&self, revision: Revision, key: SortKey) -> Epoch {
        if revision == Revision::closing(1) && self.has(Mutation::MergeUnequal) {
            return Epoch { keys: Interval::WHOLE, old: self.from, new: self.from };
        }
        let begun = usize::from(revision.reshards_begun());
        let closed = if revision.phase() == Phase::Stable { begun } else { begun - 1 };
        let counts = |keys: Interval| {
            [closed, begun].map(|reshards| {
                let changes = self.route[..reshards].iter();
                let last = changes.rev().find(|(changed, _)| changed.contains(keys.first));
                last.map_or(self.from, |(_, count)| *count)
            })
        };
        let [own, other] = Interval::halves(key);
        let [old, new] = counts(own);
        // Equal neighbours are one epoch.
        let keys = if counts(other) == [old, new] { Interval::WHOLE } else { own };
        Epoch { keys, old, new }
    }

    /// The revision that is published next.
    fn next(&self, state: &State) -> Revision {
        let skipped = match self.mutation {
            Some(Mutation::GrowByEdit) => 1,
            Some(Mutation::DropEpochByEdit) => 2,
            _ => 0,
        };
        let next = state.published.next();
        let seems_empty = |keys: Interval| {
            let mut moving = SortKey::MOVING.into_iter().filter(|key| keys.contains(*key));
            !moving.any(|key| Shard::BOTH.iter().any(|shard| state.cell(key, *shard).is_live()))
        };
        let is_edit = next.phase() == Phase::Forward && next.reshards_begun() == skipped;
        if is_edit && seems_empty(self.interval(next)) { Revision::closing(skipped) } else { next }
    }

    fn may_publish(&self, state: &State) -> bool {
        match state.published.phase() {
            Phase::Stable | Phase::Forward => {
                state.published != self.last() && state.before.is_none()
            }
            Phase::Move => {
                let end = self.interval(state.published).end;
                state.mover.closing && state.mover.checkpoint == end
            }
        }
    }

    fn publish(&self, state: &mut State) {
        let next = self.next(state);
        state.before = Some(std::mem::replace(&mut state.published, next));
        match next.phase() {
            Phase::Stable => state.mover = Mover::IDLE,
            Phase::Forward => {
                // The job may take the place of one that has not removed all markers yet.
                let keys = self.interval(next);
                let is_left = state.markers().next().is_some();
                let forgets = self.has(Mutation::ForgetMarkers);
                let left = Some(state.marked).filter(|_| is_left && !forgets);
                state.marked = left.map_or(keys, |left| left.with(keys));
            }
            Phase::Move => state.mover = self.scan(next, false),
        }
    }

    fn client_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let leased = || state.before.into_iter().chain([state.published]);
        let places = leased().flat_map(|revision| SortKey::MOVING.map(|key| (key, revision)));
        for (key, revision) in places {
            if state.writes < self.writes {
                actions.extend([Action::Put(key, revision), Action::Delete(key, revision)]);
            }
            if state.signed < self.late_puts && state.late_put.is_none() {
                actions.push(Action::Sign(key, revision));
            }
        }
        if state.late_put.is_some() {
            actions.push(Action::LatePut);
        }
        match &state.reader.window {
            Some((revision, _)) => actions.push(Action::ReadPage(*revision)),
            None if !state.reader.is_done() => actions.extend(leased().map(Action::ReadPage)),
            None => {}
        }
    }

    fn reshard_actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.before.is_some() {
            actions.push(Action::LeasesEnd);
        }
        if self.may_publish(state) {
            actions.push(Action::Publish);
        }
        if state.late_move.is_some() {
            actions.push(Action::LateMove);
        }
        if state.published.phase() == Phase::Move {
            if state.mover.checkpoint != self.interval(state.published).end {
                actions.push(Action::GoOnMoving);
            }
            if state.mover.seen.is_some() && state.crashes < self.crashes {
                actions.push(Action::CrashMover);
            }
            if !state.mover.closing && state.before.is_none() {
                actions.push(Action::BeginClosingScan);
            }
        }
        if state.published.phase() == Phase::Stable && state.before.is_none() {
            let marked = state.markers().filter(|(key, _, _)| state.marked.contains(*key));
            actions.extend(marked.map(|(key, shard, _)| Action::RemoveMarker(key, shard)));
        }
    }
}

impl Model for EpochsModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::empty();
        for key in SortKey::all() {
            if self.exists || !key.moves() {
                let home = state.cell_mut(key, key.home(self.from));
                *home = Cell::Live(FIRST, Generation::FIRST);
                state.acknowledge(key, Some(FIRST));
            }
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
            Action::Put(key, revision) => self.put(&mut state, key, revision),
            Action::Delete(key, revision) => self.delete(&mut state, key, revision),
            Action::Sign(key, revision) => self.sign(&mut state, key, revision),
            Action::LatePut => self.put_late(&mut state),
            Action::ReadPage(revision) => self.read_page(&mut state, revision),
            Action::LeasesEnd => {
                state.before = None;
                let window = &mut state.reader.window;
                *window = window.take().filter(|(revision, _)| *revision == last.published);
            }
            Action::Publish => self.publish(&mut state),
            Action::BeginClosingScan => self.begin_closing_scan(&mut state),
            Action::GoOnMoving => self.go_on_moving(&mut state),
            Action::CrashMover => Self::crash_mover(&mut state),
            Action::LateMove => self.move_late(&mut state),
            Action::RemoveMarker(key, shard) => *state.cell_mut(key, shard) = Cell::Absent,
        }
        Some(state).filter(|state| state != last)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
