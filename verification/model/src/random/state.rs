//! What the world of one sort key in a `random` collection consists of.

use crate::item::{CallId, History, Value};
use crate::schedule::{Generation, Revision};

/// A shard, counted from the first. What a shrink moves goes to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u8);

/// How many shards there are at most.
pub(super) const SHARDS: usize = 3;

/// What lies in a shard under the sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Absent,
    /// What a put has left.
    Live(Copy),
    /// A marker with its `_ds_g`.
    Marker(Generation),
}

/// What a put has left in one shard. No two puts have the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Copy {
    /// What was put.
    pub value: Value,
    /// Its `_ds_g`.
    pub generation: Generation,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What plain reads find in each shard.
    pub cells: [Cell; SHARDS],
    /// A committed move from this shard whose arrival in the first plain reads do not see yet. Until then other writes
    /// in both conflict with it.
    pub unseen: Option<(Shard, Copy)>,
    /// The metadata in force.
    pub published: Revision,
    /// The clients.
    pub clients: Vec<Client>,
    /// The mover.
    pub mover: Mover,
    /// How often the mover has crashed.
    pub crashes: u8,
    /// How many operations were given up.
    pub given_up: u8,
    /// Requests that nobody waits for any more and that may still execute, sorted.
    pub late: Vec<Request>,
    /// What clients have seen of the copy of each put.
    pub histories: Vec<History>,
    /// Whether a query has returned the sort key more than once.
    pub returned_twice: bool,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The metadata that it acts on.
    pub revision: Revision,
    /// Whether its lease still runs (assumption A1).
    pub lease_runs: bool,
    /// How many operations it has begun.
    pub begun: u8,
    /// The operation under way.
    pub running: Option<Running>,
}

/// What a client has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// PUT /item.
    Put(Value),
    /// GET /item.
    Get,
    /// GET /query.
    Query,
    /// DELETE /item.
    Delete,
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// Which.
    pub operation: Operation,
    /// Its place in each history that it concerns.
    pub calls: Vec<Option<CallId>>,
    /// How far it is in each shard.
    pub parts: [Part; SHARDS],
    /// Whether a write of it has been done.
    pub has_acted: bool,
    /// Whether one was answered after its lease.
    pub is_unknown: bool,
}

/// How far an operation is in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Nothing has been asked.
    Unread,
    /// A write is on its way.
    Sent(Request),
    /// It is over. This was found.
    Found(Cell),
}

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The shard. A move goes from there to the first.
    pub shard: Shard,
    /// What is asked.
    pub command: Command,
    /// The generation that its sender believes in.
    pub generation: Generation,
    /// Under which metadata it was signed (assumption A2).
    pub signed_under: Revision,
}

/// What DynamoDB is asked to do, atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Stores this in place of what is there.
    Put(Value),
    /// Removes what is live there.
    DeleteLive,
    /// Removes whatever is there.
    DeleteAny,
    /// `TransactWriteItems`: what was seen goes to the first shard if nothing is live there, and leaves a marker.
    Move(Copy),
    /// `TransactWriteItems`: what was seen becomes a marker if something is live in the first shard.
    GiveWay(Copy),
}

/// The mover. It goes through the drained shards, which is in the job item but for `task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    /// Whether this is the closing scan.
    pub closing: bool,
    /// How many drained shards it has been through.
    pub done: u8,
    /// What it waits for in the next.
    pub waits_for: Option<Request>,
}

impl Cell {
    /// What is live there.
    pub fn live(self) -> Option<Copy> {
        match self {
            Self::Live(copy) => Some(copy),
            Self::Absent | Self::Marker(_) => None,
        }
    }

    /// Its `_ds_g`, if there is anything.
    pub fn generation(self) -> Option<Generation> {
        match self {
            Self::Absent => None,
            Self::Live(copy) => Some(copy.generation),
            Self::Marker(generation) => Some(generation),
        }
    }
}

impl Shard {
    /// Where a shrink takes what it drains.
    pub const FIRST: Self = Self(0);

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self).take(SHARDS)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl State {
    /// What plain reads find in a shard.
    pub fn cell(&self, shard: Shard) -> Cell {
        self.cells[shard.index()]
    }

    pub(super) fn set(&mut self, shard: Shard, cell: Cell) {
        self.cells[shard.index()] = cell;
    }

    /// Whether DynamoDB refuses other writes there: a transaction is not visible as a whole.
    pub fn conflicts(&self, shard: Shard) -> bool {
        self.unseen.is_some_and(|(from, _)| shard == from || shard == Shard::FIRST)
    }

    /// Nobody waits for a request any more, and it may execute at any later time.
    pub(super) fn abandon(&mut self, request: Request) {
        self.late.push(request);
        self.late.sort_unstable();
    }
}

impl Client {
    /// A client that has read the first metadata.
    pub(super) const NEW: Self =
        Self { revision: Revision::FIRST, lease_runs: true, begun: 0, running: None };
}

impl Running {
    /// The writes that are on their way.
    pub(super) fn sent(&self) -> impl Iterator<Item = Request> {
        self.parts.into_iter().filter_map(|part| match part {
            Part::Sent(request) => Some(request),
            Part::Unread | Part::Found(_) => None,
        })
    }

    pub(super) fn part(&self, shard: Shard) -> Part {
        self.parts[shard.index()]
    }

    /// What was found in a shard.
    pub(super) fn found(&self, shard: Shard) -> Cell {
        match self.part(shard) {
            Part::Found(cell) => cell,
            Part::Unread | Part::Sent(_) => Cell::Absent,
        }
    }
}

impl Mover {
    /// A scan from the start.
    pub(super) const fn new(closing: bool) -> Self {
        Self { closing, done: 0, waits_for: None }
    }
}
