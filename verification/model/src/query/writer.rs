//! Writes beside the query. Each is one step, since the steps of a write are the business of [`crate::item`]. What
//! matters here is in which shard its effect shows, and when.

use super::QueryModel;
use super::state::{Cell, SortKey, State};
use crate::schedule::{Generation, Phase};

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Puts the item, over what is there.
    Put,
    /// Deletes it.
    Delete,
}

impl QueryModel {
    /// Whether the put of the item that comes and goes may execute that was sent before the reshard, and that nobody
    /// waits for any more: until the closing scan begins, where the guard lets it.
    pub(super) fn may_put_late(&self, state: &State) -> bool {
        let key = Self::COMES_AND_GOES;
        let at_source = state.item(key).cell(self.source());
        self.late_put
            && !state.put_late
            && matches!(state.published.phase(), Phase::Forward | Phase::Move)
            && !state.mover.closing
            && !state.is_half_visible(key)
            && at_source.generation().is_none_or(|found| found <= Generation::FIRST)
    }

    pub(super) fn put_late(&self, state: &mut State) {
        let source = self.source();
        *state.item_mut(Self::COMES_AND_GOES).cell_mut(source) = Cell::Live(Generation::FIRST);
        state.put_late = true;
    }

    /// The item that lives through every query and is written over meanwhile.
    pub(super) const OVERWRITTEN: SortKey = SortKey(2);
    /// The item that is put and deleted meanwhile. A query may return it or not.
    pub(super) const COMES_AND_GOES: SortKey = SortKey(3);

    /// A write under the metadata that the writer has. One that must refresh it first does only that.
    pub(super) fn write(&self, state: &mut State, key: SortKey, write: Write) {
        let layout = self.layout(state.writer);
        let written = match write {
            Write::Put => Cell::Live(layout.generation),
            Write::Delete => Cell::Absent,
        };
        let (source, destination) = (self.source(), self.destination());
        let marker = Cell::Marker(self.reshard());
        let at_source = state.item(key).cell(source);
        let closed = layout.new == destination && layout.phase == Phase::Stable;
        let by_transaction = match layout.phase {
            Phase::Stable if closed => false,
            Phase::Stable if at_source == marker => {
                // The guard fails.
                state.writer = state.published;
                return;
            }
            Phase::Stable => {
                *state.item_mut(key).cell_mut(source) = written;
                state.writes += 1;
                return;
            }
            Phase::Forward => at_source != marker,
            Phase::Move => write == Write::Delete && at_source.is_live(),
        };
        state.writes += 1;
        if by_transaction && state.item(key).is_live_twice() {
            // What lies at the source gives way, and then the item at the destination is deleted.
            *state.item_mut(key).cell_mut(source) = marker;
            *state.item_mut(key).cell_mut(destination) = written;
        } else if by_transaction {
            let leave = if layout.phase == Phase::Forward { marker } else { self.leave_behind() };
            self.hand_over(state, key, leave, written);
        } else {
            *state.item_mut(key).cell_mut(destination) = written;
        }
    }
}
