//! One sort key of a `random` collection that grows and shrinks, and clients that put, get, query and delete it meanwhile.
//!
//! A put draws a shard, and nobody else knows which. So whoever asks for the sort key asks every shard that may hold it,
//! each at a time of its own. A growth moves nothing. A shrink moves what lies in the drained shards to the first, in
//! transactions whose halves plain reads see one after the other, the source's first. Late requests and crashes of the
//! mover are as in [`crate::item`].
//!
//! Sort keys are not to repeat. One that does lies in as many shards as its puts drew. So a history is kept for the copy
//! of each put, which a put brings, every delete removes, and a get that returns another copy says nothing of. For a sort
//! key that was put once this is the linearizability of [`crate::item`].

mod client;
mod mover;
mod properties;
mod state;
mod store;

use stateright::{Model, Property};

pub use state::{Shard, State};

use state::{Cell, Client, Copy, Mover, Operation, SHARDS};

use crate::item::{History, Value};
use crate::mutation::Mutation;
use crate::schedule::{Generation, Numbering, Phase, Revision};

/// A `random` collection, within bounds.
#[derive(Clone, Debug)]
pub struct RandomModel {
    /// What the clients do.
    pub programs: Vec<Program>,
    /// The shard counts, one after the other.
    pub route: &'static [u8],
    /// Whether the item is there at first, in any of the shards.
    pub exists: bool,
    /// How often the mover crashes at most.
    pub crashes: u8,
    /// How many operations are given up at most.
    pub given_up: u8,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// What a client may do in the model's bounds.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it may choose from for each operation.
    pub verbs: &'static [Verb],
    /// How many operations it begins.
    pub operations: u8,
}

/// A kind of operation that a client may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// PUT /item.
    Put,
    /// GET /item, strong.
    Get,
    /// GET /query, strong, of this sort key.
    Query,
    /// DELETE /item.
    Delete,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client begins an operation under the metadata that it has.
    Begin(usize, Verb),
    /// A client reads the metadata and begins an operation.
    RefreshAndBegin(usize, Verb),
    /// The operation of a client goes on in a shard.
    Step(usize, Shard),
    /// A client reads the shard of a marker, and that to which it points, in one transaction.
    LookUp(usize),
    /// The operation of a client begins again under fresh metadata.
    BeginAgain(usize),
    /// A client gives its operation up.
    GiveUp(usize),
    /// The lease of a client ends in the middle of an operation.
    LeaseEnds(usize),
    /// A request that nobody waits for executes.
    LateRequest(usize),
    /// The other half of a transaction shows, too.
    BecomesVisible,
    /// The mover reads, or its transaction executes.
    GoOnMoving,
    /// The mover crashes while it waits.
    CrashMover,
    /// The controller has waited for H, and the closing scan begins.
    BeginClosingScan,
    /// The controller publishes the next revision.
    Publish,
    /// A marker of a closed reshard is removed.
    RemoveMarker(Shard),
}

/// What a revision of the metadata says about the shards.
#[derive(Clone, Copy, Debug)]
struct Layout {
    phase: Phase,
    generation: Generation,
    /// The count before. The same as `to` when stable.
    from: u8,
    to: u8,
}

impl RandomModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The revision after which nothing more is published.
    fn last(&self) -> Revision {
        Revision::closing(u8::try_from(self.route.len() - 1).expect("routes are short"))
    }

    /// A growth has no `move`: the second revision is the close, and the third removes its job.
    fn layout(&self, revision: Revision) -> Layout {
        let begun = usize::from(revision.reshards_begun());
        let generation = Numbering::OncePerReshard.generation(revision);
        let to = self.route[begun];
        let before = self.route[begun.saturating_sub(1)];
        match revision.phase() {
            Phase::Move if before < to => Layout { phase: Phase::Stable, generation, from: to, to },
            Phase::Stable => Layout { phase: Phase::Stable, generation, from: to, to },
            phase => Layout { phase, generation, from: before, to },
        }
    }

    /// What the put that is the client's operation of this number writes.
    fn value(&self, at: usize, number: u8) -> Value {
        let before = self.programs[..at].iter().map(Program::puts);
        let first = u16::from(self.exists) + before.sum::<u16>();
        Value(first + u16::from(number))
    }

    /// What is live in the shards that are read under the metadata in force.
    fn visible(&self, state: &State) -> impl Iterator<Item = Copy> {
        let layout = self.layout(state.published);
        let readable = usize::from(layout.from.max(layout.to));
        state.cells.into_iter().take(readable).filter_map(Cell::live)
    }

    fn client_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, (client, program)) in state.clients.iter().zip(&self.programs).enumerate() {
            let refreshes = !client.lease_runs || client.revision < state.published;
            if let Some(running) = &client.running {
                let layout = self.layout(client.revision);
                let is_under_way = running.sent().next().is_some();
                actions.extend(self.steps(state, at).into_iter().map(|on| Action::Step(at, on)));
                if client.lease_runs
                    && self.looks_up(layout, running).is_some_and(|from| !state.conflicts(from))
                    && !state.conflicts(Shard::FIRST)
                {
                    actions.push(Action::LookUp(at));
                }
                if !client.lease_runs && !is_under_way {
                    actions.push(Action::BeginAgain(at));
                }
                if client.lease_runs && client.revision < state.published {
                    actions.push(Action::LeaseEnds(at));
                }
                let reads = matches!(running.operation, Operation::Get | Operation::Query);
                if !reads && state.given_up < self.given_up {
                    actions.push(Action::GiveUp(at));
                }
            } else if client.begun < program.operations {
                for &verb in program.verbs {
                    if client.lease_runs {
                        actions.push(Action::Begin(at, verb));
                    }
                    if refreshes {
                        actions.push(Action::RefreshAndBegin(at, verb));
                    }
                }
            }
        }
    }

    fn reshard_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let layout = self.layout(state.published);
        if layout.phase == Phase::Move && !Self::has_scanned(layout, state.mover) {
            let waits_for = state.mover.waits_for;
            if waits_for.is_none_or(|request| !Self::conflicts(state, request)) {
                actions.push(Action::GoOnMoving);
            }
            if waits_for.is_some() && state.crashes < self.crashes {
                actions.push(Action::CrashMover);
            }
        }
        if state.unseen.is_some() {
            actions.push(Action::BecomesVisible);
        }
        if self.may_begin_closing_scan(state) {
            actions.push(Action::BeginClosingScan);
        }
        if self.may_publish(state) {
            actions.push(Action::Publish);
        }
        let removable = Shard::all().filter(|shard| self.may_remove_marker(state, *shard));
        actions.extend(removable.map(Action::RemoveMarker));
    }
}

impl Model for RandomModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let puts = self.programs.iter().map(Program::puts).sum::<u16>();
        let initial = self.exists.then_some(Value(0));
        let state = State {
            cells: [Cell::Absent; SHARDS],
            unseen: None,
            published: Revision::FIRST,
            clients: vec![Client::NEW; self.programs.len()],
            mover: Mover::new(false),
            crashes: 0,
            given_up: 0,
            late: Vec::new(),
            histories: initial
                .map(|value| History::new(Some(value)))
                .into_iter()
                .chain((0..puts).map(|_| History::new(None)))
                .collect(),
            returned_twice: false,
        };
        let Some(value) = initial else { return vec![state] };
        let in_shard = |shard| {
            let mut state = state.clone();
            state.set(shard, Cell::Live(Copy { value, generation: Generation::FIRST }));
            state
        };
        (0..self.route[0]).map(Shard).map(in_shard).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.client_actions(state, actions);
        let late = state.late.iter().enumerate();
        let executable = late.filter(|(_, request)| !Self::conflicts(state, **request));
        actions.extend(executable.map(|(at, _)| Action::LateRequest(at)));
        self.reshard_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(at, verb) => self.begin(&mut state, at, verb, false),
            Action::RefreshAndBegin(at, verb) => self.begin(&mut state, at, verb, true),
            Action::Step(at, shard) => self.step(&mut state, at, shard),
            Action::LookUp(at) => self.look_up(&mut state, at),
            Action::BeginAgain(at) => Self::begin_again(&mut state, at),
            Action::GiveUp(at) => self.give_up(&mut state, at),
            Action::LeaseEnds(at) => state.clients[at].lease_runs = false,
            Action::LateRequest(at) => {
                let request = state.late.remove(at);
                self.execute(&mut state, request);
            }
            Action::BecomesVisible => Self::becomes_visible(&mut state),
            Action::GoOnMoving => self.go_on_moving(&mut state),
            Action::CrashMover => Self::crash_mover(&mut state),
            Action::BeginClosingScan => self.begin_closing_scan(&mut state),
            Action::Publish => self.publish(&mut state),
            Action::RemoveMarker(shard) => state.set(shard, Cell::Absent),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}

impl Program {
    fn puts(&self) -> u16 {
        if self.verbs.contains(&Verb::Put) { u16::from(self.operations) } else { 0 }
    }
}
