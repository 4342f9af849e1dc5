//! What one moving item's world consists of.

use super::command::{Cell, HOMES, Home, Request, Version};
use super::history::{CallId, History};
use super::operation::{Operation, Outcome, Value};
use crate::schedule::{Half, Revision};

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What lies in each home.
    pub cells: [Cell; HOMES],
    /// The metadata in force.
    pub published: Revision,
    /// Which half of the transaction that enlists the collection does not show yet, if either.
    pub unseen: Option<Half>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The mover.
    pub mover: Mover,
    /// Requests that nobody waits for any more and that may still execute, sorted. A crashed mover's are among them,
    /// so they are also what a mover sends that is back from the dead.
    pub late: Vec<Request>,
    /// How often the mover has crashed.
    pub crashes: u8,
    /// What the clients have seen, and could have seen.
    pub history: History,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The metadata that it has read.
    pub lease: Lease,
    /// How many operations it has begun.
    pub begun: u8,
    /// How many of its requests it has stopped to wait for.
    pub timeouts: u8,
    /// What its last read found.
    pub last_read: Option<Value>,
    /// The operation under way.
    pub running: Option<Running>,
}

/// Metadata as a client has it, and whether it may still act on it (assumption A1). Of a collection that is not listed
/// it has read the directory only, and its lease is one of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// What it acts on.
    pub revision: Revision,
    /// What the metadata item showed meanwhile, whether or not the client has looked.
    pub shown: Revision,
    /// Whether the lease still runs.
    pub runs: bool,
}

/// An operation under way. It always has a request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// What was asked for.
    pub operation: Operation,
    /// Its place in the history. An eventually consistent read has none, and neither has part of a transaction before it
    /// happens.
    pub call: Option<CallId>,
    /// What the request is for.
    pub step: Step,
    /// The request.
    pub request: Request,
}

/// The steps of the protocol. Each is one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// stable get: a strong read at home.
    GetAtHome,
    /// forward or move, get: a strong read at the new home.
    GetNew,
    /// forward or move, get: what was not at the new home is read at both, in a transaction.
    GetBoth,
    /// Mutations only: a second plain read instead.
    GetOther,
    /// settle: a strong read at the old home.
    ReadOld,
    /// A delete in `move` that found nothing at the old home: both homes, in a transaction.
    ReadBoth,
    /// Mutations only: a plain read of the new home instead.
    ReadNew,
    /// settle: the item that was seen goes to the new home.
    Move(Version),
    /// settle: what was seen gives way to what is live at the new home.
    DropCopy,
    /// settle: nothing is at the old home, and a marker keeps it so.
    Mark,
    /// A write in DynamoDB's own words: the marker goes of which its condition would be judged.
    RemoveMarker,
    /// A replacement, an upsert or an `x <> :v` in `move`, at the new home before anybody looks at the old one. A step that shows if
    /// its condition holds, like the next three.
    TryNew,
    /// A delete in `move` of an item as it was read.
    DeleteAsSeen,
    /// A delete of an item that cannot be moved, as it was read at the old home.
    DeleteAtOldHome,
    /// The operation itself, at its home or at the new one.
    Apply,
}

/// What the mover remembers, and what its job item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    /// How far the scan is.
    pub scan: Scan,
    /// Whether this is the closing scan: the one that began after H. It is in the job item, so a crash keeps it.
    pub closing: bool,
    /// Whether the job item notes that the item cannot be moved.
    pub unmovable: bool,
}

/// One scan of the old home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// Before the item's page is read, or read again.
    Begins,
    /// A request is on its way.
    Waits(Task, Request),
    /// The scan has come to its end.
    Ended,
}

/// What a request of the mover is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// The item that was seen goes to the new home.
    Move(Version),
    /// What is left to do for it at the old home.
    Drop,
    /// Mutations only: a marker is removed.
    RemoveMarker,
}

impl State {
    /// What lies in a home.
    pub fn cell(&self, home: Home) -> Cell {
        self.cells[usize::from(home.0)]
    }

    /// What lies in a home, to be changed.
    pub fn cell_mut(&mut self, home: Home) -> &mut Cell {
        &mut self.cells[usize::from(home.0)]
    }

    /// A strong read of the directory, and then of the metadata if the collection is listed. It acts as the first
    /// `stable` until both show.
    pub(super) fn read_directory(&self) -> Lease {
        let metadata = self.read_metadata();
        match self.unseen {
            Some(Half::Directory) => Lease { revision: Revision::FIRST, ..metadata },
            _ => metadata,
        }
    }

    /// A strong read of the metadata, whatever the directory says.
    pub(super) fn read_metadata(&self) -> Lease {
        Lease::of(match self.unseen {
            Some(Half::Metadata) => Revision::FIRST,
            _ => self.published,
        })
    }

    /// An operation of a client returns.
    pub(super) fn returns(&mut self, client: usize, call: Option<CallId>, outcome: Outcome) {
        if let Outcome::Read(found) | Outcome::Glimpsed(found) = outcome {
            self.clients[client].last_read = found;
        }
        match (call, outcome) {
            (Some(call), _) => self.history.returns(call, outcome),
            (None, Outcome::Glimpsed(Some(value))) => self.history.is_glimpsed(value),
            (None, _) => {}
        }
    }

    /// A client gives an operation up without knowing its outcome.
    pub(super) fn becomes_unknown(&mut self, call: Option<CallId>) {
        if let Some(call) = call {
            self.history.becomes_unknown(call);
        }
    }

    /// Leaves a request to itself. Reads are dropped, since nobody would see their answers.
    pub fn abandon(&mut self, request: Request) {
        if request.command.writes() {
            self.late.push(request);
            self.late.sort_unstable();
        }
    }
}

impl Lease {
    /// A lease that has ended and of which nothing is remembered.
    pub(super) const OVER: Self =
        Self { revision: Revision::FIRST, shown: Revision::FIRST, runs: false };

    /// A lease that has just begun.
    fn of(revision: Revision) -> Self {
        Self { revision, shown: revision, runs: true }
    }
}

impl Client {
    /// A client that has read the first metadata, and the item.
    pub fn new(register: Option<Value>) -> Self {
        Self {
            lease: Lease::of(Revision::FIRST),
            begun: 0,
            timeouts: 0,
            last_read: register,
            running: None,
        }
    }
}

impl Step {
    /// Whether clients can see what it does: the last step of its operation.
    pub(super) fn shows(self) -> bool {
        matches!(self, Self::Apply | Self::DeleteAsSeen | Self::DeleteAtOldHome | Self::TryNew)
    }
}

impl Mover {
    /// A mover that has done nothing.
    pub const IDLE: Self = Self { scan: Scan::Begins, closing: false, unmovable: false };
}
