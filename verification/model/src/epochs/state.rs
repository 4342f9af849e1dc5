//! What there is of a collection of two epochs, and who acts on it.

use std::fmt;

use crate::schedule::{Generation, Revision};

/// A sort key. Items are numbered in order, from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SortKey(pub u8);

/// Sort keys that follow each other: from the first to that before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    pub(super) first: SortKey,
    pub(super) end: SortKey,
}

/// One of the two shards. A count of 1 has the first alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shard {
    /// The shard that every epoch has.
    First,
    /// The shard of epochs with a count of 2.
    Second,
}

/// Everything that can differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    cells: [[Cell; 2]; KEYS as usize],
    /// What clients know of each item: the version of the last write that took effect, unless that was a delete.
    pub(super) acknowledged: [Option<Version>; KEYS as usize],
    /// The metadata in force.
    pub(super) published: Revision,
    /// The metadata from before, as long as leases on it may run.
    pub(super) before: Option<Revision>,
    pub(super) writes: u8,
    /// How many puts were signed that nobody waits for.
    pub(super) signed: u8,
    /// The last of them, its home and its metadata, until it executes or cannot any more.
    pub(super) late_put: Option<(SortKey, Shard, Revision)>,
    pub(super) mover: Mover,
    pub(super) crashes: u8,
    /// The move that a crashed mover has sent, until it executes or cannot any more.
    pub(super) late_move: Option<(SortKey, Cell, Revision)>,
    /// The sort keys whose markers the job accounts for.
    pub(super) marked: Interval,
    pub(super) reader: Reader,
}

/// The number of the put that wrote an item.
pub(super) type Version = u8;

/// What lies in a shard under a sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    Absent,
    /// An item with its `_ds_g`.
    Live(Version, Generation),
    /// A marker with its `_ds_g`.
    Marker(Generation),
}

/// Where the scan of the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mover {
    pub(super) closing: bool,
    /// The first sort key behind the checkpoint.
    pub(super) checkpoint: SortKey,
    /// What it has read there, and moves.
    pub(super) seen: Option<Cell>,
}

/// A query under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    /// How many sort keys are covered in its direction: the watermark.
    pub(super) covered: u8,
    /// The first page of a window of two shards, and the metadata under which it was read.
    pub(super) window: Option<(Revision, Page)>,
    pub(super) returned: Vec<SortKey>,
    /// Whether each item has been there since the query began. Nothing of one that came or went.
    pub(super) since: Option<[Option<bool>; KEYS as usize]>,
}

/// What one request for a page of one shard answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Page {
    pub(super) cells: Vec<(SortKey, Cell)>,
    /// How many sort keys are covered by it in the query's direction.
    pub(super) covered: u8,
}

/// How many items there are.
pub(super) const KEYS: u8 = 4;

/// What lies there at first.
pub(super) const FIRST: Version = 0;
/// What a put writes that nobody waits for.
pub(super) const LATE: Version = Version::MAX;

impl SortKey {
    /// The last of the lower epoch.
    pub(super) const BOUNDARY: Self = Self(1);
    /// Those that lie in the second shard where the count of their epoch is 2.
    pub(super) const MOVING: [Self; 2] = [Self::BOUNDARY, Self(2)];

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..KEYS).map(Self)
    }

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(super) fn moves(self) -> bool {
        Self::MOVING.contains(&self)
    }

    /// Where it lies under a count.
    pub(super) fn home(self, count: u8) -> Shard {
        if self.moves() && count == 2 { Shard::Second } else { Shard::First }
    }

    /// The one that a query comes to behind so many.
    pub(super) fn behind(covered: u8, ascending: bool) -> Self {
        Self(if ascending { covered } else { KEYS - 1 - covered })
    }
}

impl Interval {
    /// All sort keys.
    pub const WHOLE: Self = Self { first: SortKey(0), end: SortKey(KEYS) };
    /// Those of the lower epoch, which the boundary belongs to.
    pub const LOWER: Self = Self { end: SortKey(SortKey::BOUNDARY.0 + 1), ..Self::WHOLE };
    /// Those of the upper epoch.
    pub const UPPER: Self = Self { first: Self::LOWER.end, ..Self::WHOLE };

    pub(super) fn contains(self, key: SortKey) -> bool {
        self.first <= key && key < self.end
    }

    /// That of the two epochs which a sort key belongs to, and the other one.
    pub(super) fn halves(key: SortKey) -> [Self; 2] {
        let [lower, upper] = [Self::LOWER, Self::UPPER];
        if lower.contains(key) { [lower, upper] } else { [upper, lower] }
    }

    /// These sort keys, others, and what lies between.
    pub(super) fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), end: self.end.max(other.end) }
    }

    /// As if the boundary belonged to the upper epoch.
    pub(super) fn off_by_one(self) -> Self {
        let moved = |end| if end == Self::LOWER.end { SortKey::BOUNDARY } else { end };
        Self { first: moved(self.first), end: moved(self.end) }
    }

    /// How many sort keys are covered when a query has come to its end.
    pub(super) fn covered(self, ascending: bool) -> u8 {
        if ascending { self.end.0 } else { KEYS - self.first.0 }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match *self {
            Self::WHOLE => "all",
            Self::LOWER => "lower",
            _ => "upper",
        })
    }
}

impl Shard {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];
}

impl Cell {
    /// The version of the item, if one is there.
    pub(super) fn version(self) -> Option<Version> {
        match self {
            Self::Live(version, _) => Some(version),
            Self::Absent | Self::Marker(_) => None,
        }
    }

    pub(super) fn is_live(self) -> bool {
        self.version().is_some()
    }

    /// Whether its `_ds_g` is above this one: whoever acts on metadata of that reads it anew.
    pub(super) fn is_ahead_of(self, generation: Generation) -> bool {
        match self {
            Self::Absent => false,
            Self::Live(_, found) | Self::Marker(found) => found > generation,
        }
    }
}

impl Mover {
    pub(super) const IDLE: Self = Self { closing: false, checkpoint: SortKey(0), seen: None };
}

impl Reader {
    pub(super) fn is_done(&self) -> bool {
        self.covered == KEYS
    }
}

impl State {
    /// A collection without items.
    pub(super) fn empty() -> Self {
        Self {
            cells: [[Cell::Absent; 2]; KEYS as usize],
            acknowledged: [None; KEYS as usize],
            published: Revision::FIRST,
            before: None,
            writes: 0,
            signed: 0,
            late_put: None,
            mover: Mover::IDLE,
            crashes: 0,
            late_move: None,
            marked: Interval { end: SortKey(0), ..Interval::WHOLE },
            reader: Reader { covered: 0, window: None, returned: Vec::new(), since: None },
        }
    }

    pub(super) fn cell(&self, key: SortKey, shard: Shard) -> Cell {
        self.cells[usize::from(key.0)][shard as usize]
    }

    pub(super) fn cell_mut(&mut self, key: SortKey, shard: Shard) -> &mut Cell {
        &mut self.cells[usize::from(key.0)][shard as usize]
    }

    /// All markers, with their shards and their `_ds_g`.
    pub(super) fn markers(&self) -> impl Iterator<Item = (SortKey, Shard, Generation)> {
        let keys = SortKey::MOVING.into_iter();
        let places = keys.flat_map(|key| Shard::BOTH.map(|shard| (key, shard)));
        places.filter_map(|(key, shard)| match self.cell(key, shard) {
            Cell::Marker(generation) => Some((key, shard, generation)),
            Cell::Absent | Cell::Live(..) => None,
        })
    }

    /// A write takes effect.
    pub(super) fn acknowledge(&mut self, key: SortKey, version: Option<Version>) {
        let at = usize::from(key.0);
        if let Some(since) = &mut self.reader.since {
            since[at] = since[at].filter(|there| *there == version.is_some());
        }
        self.acknowledged[at] = version;
    }
}
