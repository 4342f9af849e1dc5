//! What is asked of a write before it happens (protocol: "The guard on every write").

use std::sync::Arc;

use dynashard_keys::PhysicalKey;

use crate::model::item::StoredItem;
use crate::model::lease::Lease;
use crate::model::version::{Generation, Version};

/// One guarded write.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// What is written.
    pub key: PhysicalKey,
    /// What happens to it.
    pub action: Action,
    /// What must hold, or nothing happens.
    pub condition: Condition,
    /// Nothing is sent once it has run out.
    pub lease: Lease,
}

/// What a write does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Stores this item in place of what is there.
    Put(Arc<StoredItem>),
    /// Removes what is there.
    Delete,
}

/// What a reshard does to the two homes of an item at once (protocol: "Steps"): the old one becomes
/// a marker, if it is as seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// The home under the old count.
    pub old: PhysicalKey,
    /// The home under the new count.
    pub new: PhysicalKey,
    /// The version and the generation in which the item was seen at its old home.
    pub seen: (Version, Generation),
    /// What becomes of the new home.
    pub arrival: Arrival,
    /// The generation of the reshard.
    pub generation: Generation,
    /// Nothing is sent once it has run out.
    pub lease: Lease,
}

/// What happens at an item's new home.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// The item comes to it, if nothing live is there.
    Copy(StoredItem),
    /// What is as expected there already, and live, stays: what lies at the old home is a copy.
    Present(Expected),
}

impl Transfer {
    /// What is left at the old home.
    pub fn marker(&self) -> StoredItem {
        StoredItem::marker(self.generation)
    }

    /// What must hold at the old home.
    pub fn old_condition(&self) -> Condition {
        let (version, generation) = self.seen;
        Condition {
            generation: self.generation,
            expected: Expected::Unchanged { version, generation },
        }
    }

    /// What must hold at the new home.
    pub fn new_condition(&self) -> Condition {
        let expected = match self.arrival {
            Arrival::Copy(_) => Expected::Absent,
            Arrival::Present(expected) => expected,
        };
        Condition { generation: self.generation, expected }
    }
}

/// What became of a [`Transfer`].
#[derive(Debug, Clone, PartialEq)]
pub enum Transferred {
    /// Both homes changed.
    Done {
        /// The write units that DynamoDB reported.
        consumed_wcu: f64,
    },
    /// A condition did not hold, and neither did.
    Refused {
        /// What lay at the new home, if it was the new home's condition that failed.
        at_new: Option<Box<StoredItem>>,
    },
}

/// What must hold for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The guard of every write: what is there, if anything, has at most this generation.
    pub generation: Generation,
    /// What the operation itself asks for.
    pub expected: Expected,
}

impl Condition {
    /// Whether the condition holds of what is there. DynamoDB evaluates it as an expression; stores
    /// in memory, and the use cases when they ask why it failed, evaluate it here.
    pub fn holds(&self, existing: Option<&StoredItem>) -> bool {
        self.generation_holds(existing) && self.expected.holds(existing)
    }

    /// Whether the guard alone holds.
    pub fn generation_holds(&self, existing: Option<&StoredItem>) -> bool {
        existing.is_none_or(|item| item.generation <= self.generation)
    }
}

/// What an operation expects to find. A marker counts as nothing everywhere (protocol: "Live").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or nothing.
    Any,
    /// No live item.
    Absent,
    /// A live item.
    Live,
    /// The live item of this version.
    Version(Version),
    /// The live item of this version, last written or moved in this generation.
    Unchanged {
        /// Its version.
        version: Version,
        /// Its generation.
        generation: Generation,
    },
    /// A live item, last written or moved in this generation.
    LiveIn(Generation),
    /// A marker.
    Marker,
}

impl Expected {
    /// Whether what lies there is as expected.
    pub(crate) fn holds(self, existing: Option<&StoredItem>) -> bool {
        let live = existing.filter(|item| item.is_live());
        match self {
            Self::Any => true,
            Self::Absent => live.is_none(),
            Self::Live => live.is_some(),
            Self::Version(version) => live.is_some_and(|item| item.version == version),
            Self::Unchanged { version, generation } => {
                live.is_some_and(|item| item.version == version && item.generation == generation)
            }
            Self::LiveIn(generation) => live.is_some_and(|item| item.generation == generation),
            Self::Marker => existing.is_some_and(|item| item.forwarded),
        }
    }
}
