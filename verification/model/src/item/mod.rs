//! One item that moves, and clients that read and write it meanwhile.
//!
//! The item has up to three homes, and a route says which of them is home under each layout. A state is what lies in
//! the homes, the metadata in force, what each client believes and waits for, what the mover does, and every request
//! that may still execute although nobody waits for it. The checker takes every order of what can happen next:
//! a client begins an operation, under old metadata or new; a request executes, now or much later or never; a client
//! stops waiting; a lease ends; the mover reads, crashes and begins again; the controller publishes or begins the
//! closing scan; a marker is removed. If the collection begins without metadata, the transaction that enlists it shows
//! one half before the other, in either order.

mod client;
mod command;
mod controller;
mod history;
mod mover;
mod operation;
mod properties;
mod state;
mod store;

use stateright::{Model, Property};

pub use client::Program;
pub use command::Home;
pub use history::{CallId, History};
pub use operation::{Change, Operation, Outcome, Value, Verb};
pub use state::State;

use client::Source;
use command::{Answer, Cell, Command, HOMES, Stamp, Version};
use state::{Client, Lease, Mover, Scan};

use crate::mutation::Mutation;
use crate::schedule::{Generation, Half, Numbering, Phase, Revision};

/// The item protocol, within bounds.
#[derive(Clone, Debug)]
pub struct ItemModel {
    /// What the clients do.
    pub programs: Vec<Program>,
    /// What the item holds at first.
    pub initial: Option<Value>,
    /// Where an earlier reshard has left a marker, if anywhere.
    pub marker: Option<Home>,
    /// The home under each layout, the first included.
    pub route: Vec<Home>,
    /// Whether the collection begins without metadata, and its first reshard enlists it.
    pub enlists: bool,
    /// The revision after which nothing more is published.
    pub last: Revision,
    /// How often the mover crashes at most.
    pub crashes: u8,
    /// How many requests each client stops to wait for at most.
    pub timeouts: u8,
    /// Whether DynamoDB may reject the transaction that moves the item, now and then or each time.
    pub rejects: bool,
    /// How generations are counted.
    pub numbering: Numbering,
    /// What is wrong, if anything.
    pub mutation: Option<Mutation>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client begins an operation under the metadata that it has.
    Begin(usize, Verb),
    /// A client reads the directory, and the metadata if that lists the collection, and begins an operation.
    RefreshAndBegin(usize, Verb),
    /// A client that knows of the reshard otherwise reads the metadata, which the directory does not list yet, and
    /// begins an operation.
    BeginPastDirectory(usize, Verb),
    /// The request of a client executes and is answered.
    Answer(usize),
    /// A client stops waiting for its request.
    TimeOut(usize),
    /// DynamoDB rejects the transaction by which a client moves the item.
    Rejected(usize),
    /// The lease of a client ends in the middle of an operation.
    LeaseEnds(usize),
    /// A request that nobody waits for executes.
    LateRequest(usize),
    /// The mover reads the old home.
    Scan,
    /// The request of the mover executes and is answered.
    AnswerMover,
    /// DynamoDB rejects the transaction by which the mover moves the item.
    RejectedMover,
    /// The mover crashes while it waits.
    CrashMover,
    /// The controller has waited for H, and the closing scan begins.
    BeginClosingScan,
    /// The controller publishes the next revision.
    Publish,
    /// The controller publishes the first metadata and enlists the collection. This half does not show yet.
    Enlist(Half),
    /// The other half shows, too.
    EnlistingShows,
    /// A marker of a closed reshard is removed.
    RemoveMarker(Home),
    /// DynamoDB deletes an item that may expire, wherever it lies.
    Expire(Home),
}

/// What a revision of the metadata says about the item.
#[derive(Clone, Copy, Debug)]
struct Layout {
    phase: Phase,
    generation: Generation,
    /// The home that a running reshard takes it from. The same as `new` when stable.
    old: Home,
    /// The home that it leads to, or the only one.
    new: Home,
}

impl ItemModel {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn layout(&self, revision: Revision) -> Layout {
        let begun = usize::from(revision.reshards_begun());
        let phase = revision.phase();
        let new = self.route[begun];
        let old = if phase == Phase::Stable { new } else { self.route[begun - 1] };
        Layout { phase, generation: self.numbering.generation(revision), old, new }
    }

    fn execute(&self, state: &mut State, command: Command) -> Answer {
        store::execute(&mut state.cells, command, self.mutation)
    }

    /// What a read under the metadata in force would find: the new home wins.
    fn visible(&self, state: &State) -> Cell {
        let layout = self.layout(state.published);
        let new = state.cell(layout.new);
        if new.is_live() { new } else { state.cell(layout.old) }
    }

    /// DynamoDB's time to live asks for no condition. Only of the item that clients see do they learn that it has expired.
    fn expire(&self, state: &mut State, home: Home) {
        let expired = state.cell(home);
        if let Some(value) = expired.value().filter(|_| expired == self.visible(state)) {
            state.history.expires(value);
        }
        *state.cell_mut(home) = Cell::Absent;
    }

    fn client_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, (client, program)) in state.clients.iter().zip(&self.programs).enumerate() {
            let Lease { revision, runs, .. } = client.lease;
            let is_behind = revision < state.published;
            let refreshes = !runs || is_behind;
            let ends = revision > Revision::FIRST || !self.has(Mutation::AbsenceWithoutLease);
            if let Some(running) = client.running {
                actions.push(Action::Answer(at));
                if self.rejects && matches!(running.request.command, Command::Move(_)) {
                    actions.push(Action::Rejected(at));
                }
                if client.timeouts < self.timeouts && running.request.command.writes() {
                    actions.push(Action::TimeOut(at));
                }
                if runs && is_behind && ends {
                    actions.push(Action::LeaseEnds(at));
                }
            } else if client.begun < program.operations {
                for &verb in &program.verbs {
                    if verb.needs_version() && client.last_read.is_none() {
                        continue;
                    }
                    if runs {
                        actions.push(Action::Begin(at, verb));
                    }
                    if refreshes {
                        actions.push(Action::RefreshAndBegin(at, verb));
                    }
                    if refreshes && state.unseen == Some(Half::Directory) {
                        actions.push(Action::BeginPastDirectory(at, verb));
                    }
                }
            }
        }
    }

    fn reshard_actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.published.phase() == Phase::Move {
            match state.mover.scan {
                Scan::Begins => actions.push(Action::Scan),
                Scan::Waits(_, request) => {
                    actions.push(Action::AnswerMover);
                    if self.rejects && matches!(request.command, Command::Move(_)) {
                        actions.push(Action::RejectedMover);
                    }
                    if state.crashes < self.crashes {
                        actions.push(Action::CrashMover);
                    }
                }
                Scan::Ended if state.mover.unmovable => actions.push(Action::Scan),
                Scan::Ended => {}
            }
        }
        if self.may_begin_closing_scan(state) {
            actions.push(Action::BeginClosingScan);
        }
        if self.may_publish(state) {
            if self.enlists && state.published == Revision::FIRST {
                actions.extend(Half::ALL.map(Action::Enlist));
            } else {
                actions.push(Action::Publish);
            }
        }
        if state.unseen.is_some() {
            actions.push(Action::EnlistingShows);
        }
        for (home, &cell) in (0..).map(Home).zip(&state.cells) {
            if self.may_remove_marker(state, cell) {
                actions.push(Action::RemoveMarker(home));
            }
            if cell.value().is_some_and(Value::may_expire) {
                actions.push(Action::Expire(home));
            }
        }
    }
}

impl Model for ItemModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            cells: [Cell::Absent; HOMES],
            published: Revision::FIRST,
            unseen: None,
            clients: vec![Client::new(self.initial); self.programs.len()],
            mover: Mover::IDLE,
            late: Vec::new(),
            crashes: 0,
            history: History::new(self.initial),
        };
        if let Some(home) = self.marker {
            *state.cell_mut(home) = Cell::Marker(Generation::FIRST);
        }
        if let Some(value) = self.initial {
            *state.cell_mut(self.route[0]) =
                Cell::Live(Version { value, stamp: Stamp(value), generation: Generation::FIRST });
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.client_actions(state, actions);
        actions.extend((0..state.late.len()).map(Action::LateRequest));
        self.reshard_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(at, verb) => self.begin(&mut state, at, verb, Source::Lease),
            Action::RefreshAndBegin(at, verb) => {
                self.begin(&mut state, at, verb, Source::Directory);
            }
            Action::BeginPastDirectory(at, verb) => {
                self.begin(&mut state, at, verb, Source::Metadata);
            }
            Action::Answer(at) => self.answer(&mut state, at),
            Action::Rejected(at) => self.rejected(&mut state, at),
            Action::TimeOut(at) => self.time_out(&mut state, at),
            Action::LeaseEnds(at) => state.clients[at].lease.runs = false,
            Action::LateRequest(at) => {
                let request = state.late.remove(at);
                self.execute(&mut state, request.command);
            }
            Action::Scan => self.scan(&mut state),
            Action::AnswerMover => self.answer_mover(&mut state),
            Action::RejectedMover => self.reject_mover(&mut state),
            Action::CrashMover => Self::crash_mover(&mut state),
            Action::BeginClosingScan => self.begin_closing_scan(&mut state),
            Action::Publish => self.publish(&mut state),
            Action::Enlist(unseen) => self.enlist(&mut state, unseen),
            Action::EnlistingShows => state.unseen = None,
            Action::RemoveMarker(home) => *state.cell_mut(home) = Cell::Absent,
            Action::Expire(home) => self.expire(&mut state, home),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
