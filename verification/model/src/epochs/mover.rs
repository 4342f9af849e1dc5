//! The mover: a scan of the source in the interval of the epoch that moves, with one item in each page.

use super::EpochsModel;
use super::state::{Cell, Mover, SortKey, State};
use super::writer::Place;
use crate::mutation::Mutation;
use crate::schedule::Revision;

impl EpochsModel {
    /// A scan from the start.
    pub(super) fn scan(&self, revision: Revision, closing: bool) -> Mover {
        let first = self.interval(revision).first;
        let is_later = self.has(Mutation::ScanFromLaterBoundary);
        Mover { closing, checkpoint: if is_later { first.next() } else { first }, seen: None }
    }

    /// What was signed before `move` is refused from now on (assumption A2).
    pub(super) fn begin_closing_scan(&self, state: &mut State) {
        let counted_from = state.published;
        state.late_put = state.late_put.filter(|(_, _, signed)| *signed >= counted_from);
        state.late_move = state.late_move.filter(|(_, _, signed)| *signed >= counted_from);
        state.mover = self.scan(counted_from, true);
    }

    /// The mover reads an item, or moves what it has read. What was refused it reads again.
    pub(super) fn go_on_moving(&self, state: &mut State) {
        let key = state.mover.checkpoint;
        let is_done = if let Some(seen) = state.mover.seen.take() {
            self.move_item(state, key, seen, state.published)
        } else {
            let cell = state.cell(key, key.home(self.epoch(state.published, key).old));
            state.mover.seen = Some(cell).filter(|cell| cell.is_live() && key.moves());
            state.mover.seen.is_none()
        };
        if is_done {
            state.mover.checkpoint = key.next();
        }
    }

    /// The mover crashes, and another goes on at its checkpoint. The move that it has sent may still execute.
    pub(super) fn crash_mover(state: &mut State) {
        let Mover { checkpoint, ref mut seen, .. } = state.mover;
        state.late_move = seen.take().map(|seen| (checkpoint, seen, state.published));
        state.crashes += 1;
    }

    pub(super) fn move_late(&self, state: &mut State) {
        if let Some((key, seen, signed)) = state.late_move.take() {
            self.move_item(state, key, seen, signed);
        }
    }

    /// `TransactWriteItems`: the item moves as it was seen, or gives way to what is live at the destination.
    fn move_item(&self, state: &mut State, key: SortKey, seen: Cell, signed: Revision) -> bool {
        let epoch = self.epoch(signed, key);
        let place = Place::of(state, key, epoch, signed);
        let place = place.filter(|_| state.cell(key, key.home(epoch.old)) == seen);
        if let Some(place) = &place {
            place.settle(state);
        }
        place.is_some()
    }
}
