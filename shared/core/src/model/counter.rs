//! Counters: a number that is spread over items, its cells, as far as its load needs that.
//!
//! Each cell holds a part of the value, which is the sum of them. Of a counter with a floor each also holds a part of what may yet be
//! taken, and of one with a ceiling a part of what may yet be added. None of these parts is ever below 0, and all of them change
//! with the value in one write. So no add has to look at other cells, and the sum never passes a bound.
//!
//! The first cell also holds what makes the cells a counter: its [`Shape`]. Cells lie under partition keys of their own, which no
//! client can name and which never have more than one shard.

use dynashard_keys::{ItemKey, Number, PhysicalKey};
use xxhash_rust::xxh64::xxh64;

use crate::model::error::{Code, Error};
use crate::model::item::{AttributeValue, Attributes, StoredItem};
use crate::model::version::{Generation, Version};

/// The most that one request adds or takes, and the farthest bound: every reader of JSON has such a number exactly.
pub const MAX_COUNTED: i64 = (1 << 53) - 1;

/// What the attributes of cells begin with. Must be kept stable.
pub const CELL_PREFIX: &str = "_ds_c_";

/// A number that a cell holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellNumber {
    /// Its part of the value. Every cell has one.
    Value,
    /// Its part of what may yet be taken.
    Below,
    /// Its part of what may yet be added.
    Above,
    /// In the first cell: how many there are.
    Cells,
    /// In the first cell: the floor.
    Min,
    /// In the first cell: the ceiling.
    Max,
    /// In the first cell: by what the keys of the others are told from those of other counters.
    Id,
    /// In the first cell: the epoch second in which their count last grew.
    GrownAt,
    /// In the first cell: somebody has begun to delete the counter.
    Closing,
}

impl CellNumber {
    /// The attribute that holds it. Must be kept stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "_ds_c_n",
            Self::Below => "_ds_c_below",
            Self::Above => "_ds_c_above",
            Self::Cells => "_ds_c_cells",
            Self::Min => "_ds_c_min",
            Self::Max => "_ds_c_max",
            Self::Id => "_ds_c_id",
            Self::GrownAt => "_ds_c_grown",
            Self::Closing => "_ds_c_closing",
        }
    }

    /// The number in a cell, if it has it.
    pub(crate) fn of(self, cell: &StoredItem) -> Result<Option<i128>, Error> {
        let Some(value) = cell.attributes.get(self.name()) else { return Ok(None) };
        let number = whole(value);
        number.map(Some).ok_or_else(|| corrupt(&format!("{} is not a whole number", self.name())))
    }

    /// The number in a cell that must have it.
    pub(crate) fn in_every(self, cell: &StoredItem) -> Result<i128, Error> {
        let missing = || corrupt(&format!("{} is missing", self.name()));
        self.of(cell)?.ok_or_else(missing)
    }
}

/// What one write does to a cell, in place. Nothing happens unless all of its conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CellChange {
    /// Whether the write makes the cell. Otherwise it must be there.
    pub creates: bool,
    /// What is added to its numbers. One that it lacks counts as 0.
    pub adds: Vec<(CellNumber, i128)>,
    /// The numbers that it must have, and what each is at least.
    pub at_least: Vec<(CellNumber, i128)>,
    /// What its numbers must be.
    pub equals: Vec<(CellNumber, i128)>,
    /// The numbers that it must lack.
    pub lacks: Vec<CellNumber>,
}

impl CellChange {
    fn holds(&self, existing: Option<&StoredItem>) -> bool {
        let number = |which: CellNumber| whole(existing?.attributes.get(which.name())?);
        let at_least = |(which, least): &(_, _)| number(*which).is_some_and(|it| it >= *least);
        existing.is_none_or(|item| item.generation == Generation::default())
            && number(CellNumber::Value).is_none() == self.creates
            && self.at_least.iter().all(at_least)
            && self.equals.iter().all(|(which, value)| number(*which) == Some(*value))
            && self.lacks.iter().all(|which| number(*which).is_none())
    }
}

/// A change of the cell that lies at this place, and the version that the cell then has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment {
    /// Where it lies.
    pub key: PhysicalKey,
    /// No two writes give an item the same.
    pub version: Version,
    /// What is done.
    pub change: CellChange,
}

impl Adjustment {
    /// What the write leaves of what is there; `None` where a condition does not hold. DynamoDB evaluates it as an expression, and
    /// stores in memory here.
    pub fn carried_out(&self, existing: Option<&StoredItem>) -> Option<StoredItem> {
        if !self.change.holds(existing) {
            return None;
        }
        let mut attributes = existing.map_or_else(Attributes::new, |item| item.attributes.clone());
        for (which, by) in &self.change.adds {
            let sum = attributes.get(which.name()).map_or(Some(0), whole)?.checked_add(*by)?;
            let sum = sum.to_string().parse::<Number>().ok()?;
            attributes.insert(which.name().to_owned(), AttributeValue::Number(sum));
        }
        let (version, generation) = (self.version, Generation::default());
        Some(StoredItem { attributes, generation, version, forwarded: false })
    }
}

/// The bounds of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// It is never below this.
    pub min: Option<i64>,
    /// It is never above this.
    pub max: Option<i64>,
}

impl Bounds {
    /// The change that adds this amount to a cell, if its part of what may yet be added or taken covers that.
    pub(crate) fn add(self, amount: i64, cell: u16) -> CellChange {
        let amount = i128::from(amount);
        let mut change =
            CellChange { adds: vec![(CellNumber::Value, amount)], ..CellChange::default() };
        for (bound, room, by) in
            [(self.min, CellNumber::Below, amount), (self.max, CellNumber::Above, -amount)]
        {
            if bound.is_some() {
                change.adds.push((room, by));
                change.at_least.push((room, (-by).max(0)));
            } else {
                change.lacks.push(room);
            }
        }
        if cell == 0 {
            let limits = [(CellNumber::Min, self.min), (CellNumber::Max, self.max)].into_iter();
            change
                .equals
                .extend(limits.filter_map(|(which, limit)| Some((which, i128::from(limit?)))));
            change.lacks.push(CellNumber::Closing);
        }
        change
    }

    /// The change that makes a counter which holds this amount. `None` where that is past a bound.
    pub(crate) fn creation(self, amount: i64, id: u64) -> Option<CellChange> {
        if self.min.is_some_and(|min| amount < min) || self.max.is_some_and(|max| amount > max) {
            return None;
        }
        let amount = i128::from(amount);
        let numbers = [
            (CellNumber::Value, Some(amount)),
            (CellNumber::Cells, Some(1)),
            (CellNumber::Id, Some(id.into())),
            (CellNumber::Min, self.min.map(i128::from)),
            (CellNumber::Max, self.max.map(i128::from)),
            (CellNumber::Below, self.min.map(|min| amount - i128::from(min))),
            (CellNumber::Above, self.max.map(|max| i128::from(max) - amount)),
        ];
        let adds = numbers.into_iter().filter_map(|(which, number)| Some((which, number?)));
        Some(CellChange { creates: true, adds: adds.collect(), ..CellChange::default() })
    }

    /// The change that makes another cell, which holds nothing yet.
    pub(crate) fn empty_cell(self) -> CellChange {
        let rooms = [self.min.map(|_| CellNumber::Below), self.max.map(|_| CellNumber::Above)];
        let numbers = rooms.into_iter().flatten().chain([CellNumber::Value]);
        let adds = numbers.map(|which| (which, 0)).collect();
        CellChange { creates: true, adds, ..CellChange::default() }
    }

    /// Whether these are the bounds that a request asks for, as far as it asks for any.
    pub(crate) fn agree_with(self, asked: Self) -> bool {
        (asked.min.is_none() || asked.min == self.min)
            && (asked.max.is_none() || asked.max == self.max)
    }

    /// The sum of cells that were read one after the other. What moved between them meanwhile may have put it past a bound, where
    /// the counter never was.
    pub(crate) fn clamp(self, sum: i128) -> i128 {
        let sum = self.min.map_or(sum, |min| sum.max(min.into()));
        self.max.map_or(sum, |max| sum.min(max.into()))
    }
}

/// What a counter's first cell says of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: u64,
    pub(crate) cells: u16,
    pub(crate) bounds: Bounds,
    pub(crate) grown_at: u64,
    pub(crate) is_closing: bool,
}

impl Shape {
    /// Reads it in a first cell.
    pub(crate) fn of(first: &StoredItem) -> Result<Self, Error> {
        let out_of_range = || corrupt("a number of the first cell is out of its range");
        let bound = |which: CellNumber| {
            let bound = which.of(first)?.map(i64::try_from).transpose();
            bound.map_err(|_| out_of_range())
        };
        let cells = u16::try_from(CellNumber::Cells.in_every(first)?).ok();
        Ok(Self {
            id: u64::try_from(CellNumber::Id.in_every(first)?).map_err(|_| out_of_range())?,
            cells: cells.filter(|cells| *cells > 0).ok_or_else(out_of_range)?,
            bounds: Bounds { min: bound(CellNumber::Min)?, max: bound(CellNumber::Max)? },
            grown_at: u64::try_from(CellNumber::GrownAt.of(first)?.unwrap_or_default())
                .map_err(|_| out_of_range())?,
            is_closing: CellNumber::Closing.of(first)?.is_some(),
        })
    }

    /// The key of one cell of this counter.
    pub(crate) fn cell(&self, counter: &ItemKey, cell: u16) -> ItemKey {
        if cell == 0 { first_cell(counter) } else { cell_of(counter, self.id, cell) }
    }
}

/// The key of the first cell of a counter.
pub(crate) fn first_cell(counter: &ItemKey) -> ItemKey {
    // Each counter has a partition of its own: many that are cold do not make one that is hot.
    cell_of(counter, xxh64(format!("{}:{}", counter.partition, counter.sort).as_bytes(), 0), 0)
}

fn cell_of(counter: &ItemKey, tag: u64, cell: u16) -> ItemKey {
    ItemKey::new(counter.partition.of_cell(tag, cell), counter.sort.clone())
}

fn whole(value: &AttributeValue) -> Option<i128> {
    match value {
        AttributeValue::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn corrupt(what: &str) -> Error {
    Error::new(Code::CorruptData, format!("a cell of a counter: {what}"))
}
