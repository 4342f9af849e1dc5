//! Gets and writes. Each is one step, under metadata on which leases run.

use super::state::{Cell, LATE, Shard, SortKey, State, Version};
use super::{Epoch, EpochsModel};
use crate::mutation::Mutation;
use crate::schedule::{Generation, Phase, Revision};

/// What a get finds.
pub(super) enum Found {
    /// An item, or none.
    Version(Option<Version>),
    /// Something of a later generation.
    Ahead,
}

/// Where an item is under a revision.
pub(super) struct Place {
    key: SortKey,
    old: Shard,
    new: Shard,
    phase: Phase,
    generation: Generation,
}

impl EpochsModel {
    /// A get: the new home wins.
    pub(super) fn get(&self, state: &State, key: SortKey, revision: Revision) -> Found {
        let Epoch { old, new, .. } = self.epoch(revision, key);
        for count in [new, old] {
            let cell = state.cell(key, key.home(count));
            if cell.is_ahead_of(Self::generation(revision)) {
                return Found::Ahead;
            }
            if cell.is_live() {
                return Found::Version(cell.version());
            }
        }
        Found::Version(None)
    }

    pub(super) fn put(&self, state: &mut State, key: SortKey, revision: Revision) {
        let Some(place) = self.begin_write(state, key, revision) else { return };
        state.writes += 1;
        let version = state.writes;
        *state.cell_mut(key, place.new) = Cell::Live(version, place.generation);
        state.acknowledge(key, Some(version));
    }

    pub(super) fn delete(&self, state: &mut State, key: SortKey, revision: Revision) {
        let Some(place) = self.begin_write(state, key, revision) else { return };
        if state.cell(key, place.old).is_live() {
            place.settle(state);
        }
        state.writes += 1;
        *state.cell_mut(key, place.new) = Cell::Absent;
        state.acknowledge(key, None);
    }

    /// A put is signed that nobody waits for. What comes before its last step is done at once.
    pub(super) fn sign(&self, state: &mut State, key: SortKey, revision: Revision) {
        let Some(place) = self.begin_write(state, key, revision) else { return };
        state.signed += 1;
        state.late_put = Some((key, place.new, revision));
    }

    /// That put executes, where the guard lets it. It takes effect if a get finds it.
    pub(super) fn put_late(&self, state: &mut State) {
        let Some((key, home, signed)) = state.late_put.take() else { return };
        let generation = Self::generation(signed);
        if state.cell(key, home).is_ahead_of(generation) {
            return;
        }
        *state.cell_mut(key, home) = Cell::Live(LATE, generation);
        if let Found::Version(Some(LATE)) = self.get(state, key, state.published) {
            state.acknowledge(key, Some(LATE));
        }
    }

    /// Finds out where a write goes, unless it is refused, and settles the item in `forward`.
    fn begin_write(&self, state: &mut State, key: SortKey, revision: Revision) -> Option<Place> {
        let is_off = self.has(Mutation::BoundaryOffByOne) && key == SortKey::BOUNDARY;
        let epoch = self.epoch(revision, if is_off { key.next() } else { key });
        let place = Place::of(state, key, epoch, revision)?;
        if place.phase == Phase::Forward {
            place.settle(state);
        }
        Some(place)
    }
}

impl Place {
    /// Nothing if what lies there is ahead of the revision.
    pub(super) fn of(
        state: &State,
        key: SortKey,
        epoch: Epoch,
        revision: Revision,
    ) -> Option<Self> {
        let generation = EpochsModel::generation(revision);
        let [old, new] = [epoch.old, epoch.new].map(|count| key.home(count));
        let is_ahead = |home: &Shard| state.cell(key, *home).is_ahead_of(generation);
        let phase = revision.phase();
        (![old, new].iter().any(is_ahead)).then_some(Self { key, old, new, phase, generation })
    }

    /// The item moves, unless another lies at the new home, and a marker comes to lie at the old one. What has one home
    /// is left as it is.
    pub(super) fn settle(&self, state: &mut State) {
        let Self { key, old, new, generation, .. } = *self;
        if old == new {
            return;
        }
        if let Cell::Live(version, _) = state.cell(key, old)
            && !state.cell(key, new).is_live()
        {
            *state.cell_mut(key, new) = Cell::Live(version, generation);
        }
        *state.cell_mut(key, old) = Cell::Marker(generation);
    }
}
