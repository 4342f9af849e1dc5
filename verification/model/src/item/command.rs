//! What DynamoDB holds of one item, what it is asked to do with it, and what it answers.

use super::operation::{Change, Value};
use crate::schedule::{Generation, Revision};

/// A shard in which the item lies under one of the layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home(pub u8);

/// How many homes there are.
pub(super) const HOMES: usize = 3;

/// What lies under the item's key in one home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Absent,
    /// The item, with its `_ds_g`.
    Live(Version),
    /// The marker that the item is to be looked for at the new home of this generation.
    Marker(Generation),
}

/// What an item has as `_ds_v`: which write has left it so. To say that, a write takes what it alone writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp(pub Value);

/// A live item as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// What the item holds.
    pub value: Value,
    /// Its `_ds_v`.
    pub stamp: Stamp,
    /// Its `_ds_g`.
    pub generation: Generation,
}

/// What a settling transaction leaves at the old home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leave {
    /// A marker.
    Marker,
    /// Nothing, which only mutations do.
    Nothing,
}

/// A request of one item's old home to give its item up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handover {
    /// The old home.
    pub from: Home,
    /// The new home.
    pub to: Home,
    /// What was read at the old home, and must still be there.
    pub seen: Version,
    /// The generation of the reshard.
    pub generation: Generation,
    /// What stays at the old home.
    pub leave: Leave,
}

/// What DynamoDB is asked to do, atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// A strong `GetItem`.
    Get(Home),
    /// `TransactGetItems` of both homes.
    GetBoth {
        /// The new home, whose item wins.
        new: Home,
        /// The old home.
        old: Home,
    },
    /// An operation's own write, with the guard.
    Write {
        /// The home that it believes in.
        at: Home,
        /// What the operation does.
        change: Change,
        /// The generation that it believes in.
        generation: Generation,
    },
    /// An operation's own write if an item is there, with the guard.
    WriteToLive {
        /// The new home.
        at: Home,
        /// What the operation does.
        change: Change,
        /// The generation that it believes in.
        generation: Generation,
    },
    /// Deletes an item that still is what was read of it, with the guard.
    DeleteAsSeen {
        /// The new home.
        at: Home,
        /// What was read there.
        seen: Version,
        /// The generation of the reshard.
        generation: Generation,
    },
    /// Puts a marker in place of an item that still is what was read of it, with the guard.
    MarkAsSeen {
        /// The old home.
        at: Home,
        /// What was read there.
        seen: Version,
        /// The generation of the reshard.
        generation: Generation,
    },
    /// Puts a marker where nothing is live.
    Mark {
        /// The old home.
        at: Home,
        /// The generation of the reshard.
        generation: Generation,
    },
    /// `TransactWriteItems`: the item as seen goes to the new home if nothing is live there.
    Move(Handover),
    /// `TransactWriteItems`: what lies at the old home gives way to what is live at the new one.
    DropCopy(Handover),
    /// Removes a marker of this or an older generation, if one is there.
    RemoveMarker {
        /// Where it lies.
        at: Home,
        /// The newest generation that is removed.
        generation: Generation,
    },
    /// Mutations only: gives up the item at the old home whatever lies at the new one.
    DropUnchecked(Handover),
    /// Mutations only: the first half of a move that is not a transaction.
    Copy(Handover),
    /// Mutations only: its second half.
    Erase(Handover),
}

impl Command {
    /// Whether it changes anything. What only reads has no effect once nobody waits for it.
    pub fn writes(self) -> bool {
        let check = matches!(self, Self::Write { change: Change::Check, .. });
        !check && !matches!(self, Self::Get(_) | Self::GetBoth { .. })
    }
}

/// What DynamoDB answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Answer {
    /// To [`Command::Get`].
    Found(Cell),
    /// To [`Command::GetBoth`].
    FoundBoth {
        /// What lies at the new home.
        new: Cell,
        /// What lies at the old home.
        old: Cell,
    },
    /// The write took effect.
    Applied,
    /// The operation's own condition failed.
    ConditionFailed {
        /// Whether an item is there.
        live: bool,
    },
    /// A marker is there, of which DynamoDB would judge the operation's own condition.
    Marker,
    /// The guard failed: a higher `_ds_g` was there.
    Behind,
    /// A move found something live at the new home.
    LiveAtNew,
    /// What was seen is not there any more.
    Changed,
}

/// A command on its way, with the metadata under which it was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// Under which metadata. The age of a signature is known by it: see assumption A2.
    pub signed_under: Revision,
}

impl Cell {
    /// Its `_ds_g`, if there is anything.
    pub fn generation(self) -> Option<Generation> {
        match self {
            Self::Absent => None,
            Self::Live(version) => Some(version.generation),
            Self::Marker(generation) => Some(generation),
        }
    }

    /// What a client may see of it.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Live(version) => Some(version.value),
            Self::Absent | Self::Marker(_) => None,
        }
    }

    /// Its `_ds_v`, if an item is there.
    pub fn stamp(self) -> Option<Stamp> {
        match self {
            Self::Live(version) => Some(version.stamp),
            Self::Absent | Self::Marker(_) => None,
        }
    }

    /// Whether `_ds_v` and `_ds_g` are as they were read. DynamoDB cannot compare all that an item holds.
    pub fn is_as_seen(self, seen: Version) -> bool {
        self.stamp() == Some(seen.stamp) && self.generation() == Some(seen.generation)
    }

    /// Whether an item is there.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Whether whoever reads this at a generation must refresh its metadata.
    pub fn is_ahead_of(self, generation: Generation) -> bool {
        self.generation().is_some_and(|found| found > generation)
    }
}
