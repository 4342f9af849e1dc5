//! What a request costs, and which table, index and partition pay.
//!
//! Sizes and units are [`dynashard_limits::capacity`]'s. A request is admitted with what is known of
//! its cost before it executes, and settled once its outcome is known.

use std::sync::Arc;

use dynashard_limits::Units;
use dynashard_limits::capacity::{
    Consistency, Index, item_bytes, key_text, read_units, transactional_write_units, write_units,
};
use dynashard_limits::partition::{Demand, Kind, Resource};
use serde_json::{Map, Value};

use super::answer::Outcome;
use super::call::{Action, PageRequest, Verb};
use super::tables::{GlobalIndex, Table, Tables};
use crate::dynamodb::engine::{Store, item};

/// What a request asks of one partition: a [`Demand`] that owns what it names.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    pub(super) table: Arc<Table>,
    /// The position of the global secondary index that pays; `None` is the table itself.
    index: Option<usize>,
    partition_key: String,
    sort_key: Option<String>,
    pub(super) kind: Kind,
    pub(super) units: Units,
}

impl Charge {
    pub(super) fn demand(&self) -> Demand<'_> {
        let index = self.index().map(|index| index.name.as_str());
        Demand {
            resource: Resource { table: &self.table.name, index },
            partition_key: &self.partition_key,
            sort_key: self.sort_key.as_deref(),
            kind: self.kind,
            units: self.units,
        }
    }

    /// The global secondary index that pays, if one does.
    pub(super) fn index(&self) -> Option<&GlobalIndex> {
        self.index.and_then(|at| self.table.global_indexes.get(at))
    }
}

/// An action on an item of a table that the engine has, beside what was there before.
#[derive(Debug)]
pub(super) struct ItemWork {
    pub(super) action: Action,
    /// `None` where the engine will refuse the action as invalid: it costs nothing.
    pub(super) target: Option<Target>,
}

/// The item of an action.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    pub(super) key: Value,
    partition_key: String,
    sort_key: Option<String>,
    /// The item as it is before the action, if it exists.
    pub(super) before: Option<Value>,
    /// What an update made of the item, once that is known.
    updated: Option<Value>,
}

impl ItemWork {
    pub(super) fn of(action: Action, tables: &Tables) -> Self {
        let target = tables.get(action.table_name()).and_then(|table| Target::of(&action, table));
        Self { action, target }
    }

    /// Reads the item as it is before the action. Blocks.
    pub(super) fn look_up(&mut self, store: &Store) {
        if let Some(target) = &mut self.target {
            target.before = item(store, &target.table.name, &target.key);
        }
    }

    /// Whether the cost is known only from the item after the action.
    pub(super) fn is_update(&self) -> bool {
        self.action.verb == Verb::Update
    }

    /// Reads what an update has made of the item. Blocks.
    ///
    /// If another update of the same item came between, this reads what that one left, and both pay
    /// for it. That differs only where the two leave items of other sizes or index keys.
    pub(super) fn look_again(&mut self, store: &Store) {
        if let Some(target) = &mut self.target
            && self.action.verb == Verb::Update
        {
            target.updated = item(store, &target.table.name, &target.key);
        }
    }

    /// The cost as far as it is known before the action. Of an update it is the least: a write of
    /// the item as it is.
    pub(super) fn foreseen(&self, is_transactional: bool) -> Vec<Charge> {
        let Some(target) = &self.target else { return Vec::new() };
        match self.action.verb {
            Verb::Get(consistency) => vec![target.read(consistency)],
            Verb::Put => target.writes(Some(&self.action.image), is_transactional),
            Verb::Delete => target.writes(None, is_transactional),
            Verb::Update | Verb::Check => target.unchanged(is_transactional),
        }
    }

    /// What the action cost; after an unknown outcome, what was foreseen.
    pub(super) fn due(&self, outcome: Outcome, is_transactional: bool) -> Vec<Charge> {
        let Some(target) = &self.target else { return Vec::new() };
        match (outcome, self.action.verb) {
            (Outcome::Invalid, _) => Vec::new(),
            (Outcome::Done, Verb::Update) => {
                target.writes(target.updated.as_ref(), is_transactional)
            }
            (Outcome::ConditionFailed, Verb::Put | Verb::Update | Verb::Delete) => {
                target.unchanged(is_transactional)
            }
            _ => self.foreseen(is_transactional),
        }
    }
}

impl Target {
    fn of(action: &Action, table: Arc<Table>) -> Option<Self> {
        let key_attribute = |name: &String| Some((name.clone(), action.image.get(name)?.clone()));
        let mut key = Map::from_iter([key_attribute(&table.partition_key)?]);
        let partition_key = key_text(&key[&table.partition_key])?;
        let mut sort_key = None;
        if let Some(name) = &table.sort_key {
            key.extend([key_attribute(name)?]);
            sort_key = Some(key_text(&key[name])?);
        }
        let key = Value::Object(key);
        Some(Self { table, key, partition_key, sort_key, before: None, updated: None })
    }

    fn read(&self, consistency: Consistency) -> Charge {
        self.charge(Kind::Read, read_units(bytes(self.before.as_ref()), consistency))
    }

    /// A write that leaves the item as it is, which a failed condition costs too.
    fn unchanged(&self, is_transactional: bool) -> Vec<Charge> {
        self.writes(self.before.as_ref(), is_transactional)
    }

    /// The write of the item, and the writes that it causes in indexes. The table pays for those in
    /// its local indexes.
    fn writes(&self, after: Option<&Value>, is_transactional: bool) -> Vec<Charge> {
        let before = self.before.as_ref();
        let units = if is_transactional { transactional_write_units } else { write_units };
        let caused = |index: &Index| index.writes(before, after);
        let local = self.table.local_indexes.iter().flat_map(caused).map(|write| write.units);
        let own = units(bytes(before), bytes(after)) + local.sum::<Units>();
        let mut charges = vec![self.charge(Kind::Write, own)];
        for (at, global) in self.table.global_indexes.iter().enumerate() {
            charges.extend(caused(&global.index).into_iter().map(|write| Charge {
                table: Arc::clone(&self.table),
                index: Some(at),
                partition_key: write.partition_key,
                sort_key: None,
                kind: Kind::Write,
                units: write.units,
            }));
        }
        charges
    }

    fn charge(&self, kind: Kind, units: Units) -> Charge {
        Charge {
            table: Arc::clone(&self.table),
            index: None,
            partition_key: self.partition_key.clone(),
            sort_key: self.sort_key.clone(),
            kind,
            units,
        }
    }
}

fn bytes(item: Option<&Value>) -> usize {
    item.map_or(0, item_bytes)
}

/// A page of a `Query` or `Scan`, whose cost is known from the engine's answer only.
#[derive(Debug)]
pub(super) struct PageWork {
    /// The least that the page costs.
    pub(super) least: Charge,
    /// Whether the client asked for `ConsumedCapacity`.
    pub(super) is_capacity_wanted: bool,
}

impl PageWork {
    /// `None` where the engine has no such table, and will say so.
    pub(super) fn of(request: &PageRequest, tables: &Tables) -> Option<Self> {
        let table = tables.get(request.table_name())?;
        let mut global = table.global_indexes.iter();
        let index = global.position(|index| Some(&index.name) == request.index_name.as_ref());
        let own_key = std::slice::from_ref(&table.partition_key);
        let attributes = index.map_or(own_key, |at| &table.global_indexes[at].index.partition_key);
        let least = Charge {
            index,
            partition_key: request.partition_key(attributes),
            sort_key: None,
            kind: Kind::Read,
            units: read_units(0, request.consistency()),
            table: Arc::clone(&table),
        };
        Some(Self { least, is_capacity_wanted: request.wants_capacity() })
    }
}
