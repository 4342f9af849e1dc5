//! What a query's world consists of: a few items of one collection, in two shards.

use crate::schedule::{Generation, Half, Revision};

/// A sort key. Items are numbered in order, from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SortKey(pub u8);

/// How many items there are.
pub(super) const ITEMS: u8 = 4;

/// One of the two shards. Every layout has the first; the larger one has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shard {
    /// The shard that every layout has.
    First,
    /// The shard that is added by growing, and drained by shrinking.
    Second,
}

/// What lies in a shard under a sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Absent,
    /// An item with its `_ds_g`.
    Live(Generation),
    /// A marker with its `_ds_g`.
    Marker(Generation),
}

/// What lies under one sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// In the first shard.
    pub first: Cell,
    /// In the second shard.
    pub second: Cell,
    /// The half of a committed transaction that plain reads do not see yet: what comes to lie in the destination.
    /// Until then other transactions on the item conflict.
    pub unseen: Option<Cell>,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What lies under each sort key.
    pub items: [Item; ITEMS as usize],
    /// The metadata in force.
    pub published: Revision,
    /// Which half of the transaction that enlists the collection does not show yet, if either.
    pub enlisting: Option<Half>,
    /// The query.
    pub reader: Reader,
    /// The metadata under which the writer acts.
    pub writer: Revision,
    /// How many writes there were.
    pub writes: u8,
    /// The mover.
    pub mover: Mover,
    /// How often the mover has crashed.
    pub crashes: u8,
    /// Moves that a crashed mover has sent and that may still execute, sorted.
    pub late: Vec<(SortKey, Generation)>,
    /// Whether the late put has executed.
    pub put_late: bool,
}

/// A query under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The metadata that it acts on.
    pub revision: Revision,
    /// Whether its lease still runs.
    pub lease_runs: bool,
    /// The first sort key that it has not returned yet: the watermark.
    pub from: SortKey,
    /// The pages of this round.
    pub pages: Vec<Page>,
    /// What is asked for by a `TransactGetItems` each: markers whose items are in no page of their round.
    pub unresolved: Vec<SortKey>,
    /// What was returned.
    pub returned: Vec<SortKey>,
    /// What had been replaced at the destination, and lay at the source still, when the query began.
    pub replaced: Option<Vec<SortKey>>,
    /// Whether it has returned something of that from the source.
    pub returned_replaced: bool,
}

/// What one request for a page of one shard answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// The shard.
    pub shard: Shard,
    /// The items that are returned from it.
    pub live: Vec<SortKey>,
    /// Markers of this generation.
    pub markers: Vec<SortKey>,
    /// The first sort key that it does not cover.
    pub covers_until: SortKey,
}

/// Where the scan is. `closing` and the checkpoint are in the job item; a crash loses the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    /// Whether this is the closing scan.
    pub closing: bool,
    /// The first sort key behind the checkpoint.
    pub checkpoint: SortKey,
    /// What the mover is doing.
    pub task: Task,
}

/// What the mover does with one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// It reads it.
    Read,
    /// It has seen it in this generation at the source, and moves it.
    Move(SortKey, Generation),
    /// Nothing is left to do for it but the checkpoint.
    Checkpoint,
}

impl SortKey {
    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ITEMS).map(Self)
    }
}

impl Shard {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

impl Cell {
    /// Whether an item is there.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Its `_ds_g`, if there is anything.
    pub fn generation(self) -> Option<Generation> {
        match self {
            Self::Absent => None,
            Self::Live(generation) | Self::Marker(generation) => Some(generation),
        }
    }
}

impl Item {
    /// Whether it is live in both shards: a put has replaced it at the destination.
    pub fn is_live_twice(self) -> bool {
        self.first.is_live() && self.second.is_live()
    }

    /// What plain reads find in a shard.
    pub fn cell(self, shard: Shard) -> Cell {
        match shard {
            Shard::First => self.first,
            Shard::Second => self.second,
        }
    }

    /// What plain reads find in a shard, to be changed.
    pub fn cell_mut(&mut self, shard: Shard) -> &mut Cell {
        match shard {
            Shard::First => &mut self.first,
            Shard::Second => &mut self.second,
        }
    }
}

impl State {
    /// What lies under a sort key.
    pub fn item(&self, key: SortKey) -> &Item {
        &self.items[usize::from(key.0)]
    }

    /// What lies under a sort key, to be changed.
    pub fn item_mut(&mut self, key: SortKey) -> &mut Item {
        &mut self.items[usize::from(key.0)]
    }

    /// A strong read of the directory, and then of the metadata if the collection is listed.
    pub fn read_directory(&self) -> Revision {
        if self.enlisting.is_some() { Revision::FIRST } else { self.published }
    }

    /// Whether a transaction on an item is visible in part only.
    pub fn is_half_visible(&self, key: SortKey) -> bool {
        self.item(key).unseen.is_some()
    }
}

impl Reader {
    /// A query that has read the first metadata and nothing else.
    pub fn new() -> Self {
        Self {
            revision: Revision::FIRST,
            lease_runs: true,
            from: SortKey(0),
            pages: Vec::new(),
            unresolved: Vec::new(),
            returned: Vec::new(),
            replaced: None,
            returned_replaced: false,
        }
    }

    /// Whether everything was returned.
    pub fn is_done(&self) -> bool {
        self.from == SortKey(ITEMS) && self.unresolved.is_empty()
    }

    /// The lease ends, and the answers of this round are thrown away.
    pub fn lose_lease(&mut self) {
        self.lease_runs = false;
        self.pages.clear();
    }
}

impl Mover {
    /// A scan from the start.
    pub fn new(closing: bool) -> Self {
        Self { closing, checkpoint: SortKey(0), task: Task::Read }
    }

    /// Whether the job item says that the scan has come to its end.
    pub fn has_ended(self) -> bool {
        self.checkpoint == SortKey(ITEMS)
    }

    pub(super) fn write_checkpoint(&mut self) {
        self.checkpoint.0 += 1;
    }
}
