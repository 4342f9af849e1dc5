//! The mover's scan of the source, page by page with one item in each, and its checkpoints.

use super::QueryModel;
use super::state::{Cell, SortKey, State, Task};
use crate::mutation::Mutation;
use crate::schedule::Generation;

impl QueryModel {
    /// The mover goes on: it reads, moves, or writes its checkpoint.
    pub(super) fn go_on_moving(&self, state: &mut State) {
        let early = self.has(Mutation::CheckpointBeforeMove);
        let settled = if early { Task::Read } else { Task::Checkpoint };
        match state.mover.task {
            Task::Read => {
                let key = state.mover.checkpoint;
                state.mover.task = self.look_at(state, key).unwrap_or(settled);
                if early {
                    state.mover.write_checkpoint();
                }
            }
            Task::Move(key, seen) => {
                // What was refused is read again: it has changed, or is in a transaction.
                let moved = self.move_item(state, key, seen);
                state.mover.task = if moved { settled } else { Task::Read };
            }
            Task::Checkpoint => {
                state.mover.write_checkpoint();
                state.mover.task = Task::Read;
            }
        }
    }

    /// The mover crashes, and another takes the job up at its checkpoint. A move that was sent may still execute.
    pub(super) fn crash(state: &mut State) {
        state.crashes += 1;
        if let Task::Move(key, seen) = state.mover.task {
            state.late.push((key, seen));
            state.late.sort_unstable();
        }
        state.mover.task = Task::Read;
    }

    /// `TransactWriteItems`: the item moves as it was seen, or gives way to what is live at the destination.
    pub(super) fn move_item(&self, state: &mut State, key: SortKey, seen: Generation) -> bool {
        let item = state.item(key);
        let possible = !state.is_half_visible(key) && item.cell(self.source()) == Cell::Live(seen);
        let leave = self.leave_behind();
        if possible && item.is_live_twice() {
            let source = self.source();
            *state.item_mut(key).cell_mut(source) = leave;
        } else if possible {
            self.hand_over(state, key, leave, Cell::Live(self.reshard()));
        }
        possible
    }

    /// A transaction commits: plain reads see the source's half at once, and the destination's later.
    pub(super) fn hand_over(&self, state: &mut State, key: SortKey, source: Cell, moved: Cell) {
        let shard = self.source();
        let item = state.item_mut(key);
        *item.cell_mut(shard) = source;
        item.unseen = Some(moved);
    }

    /// What a move in the phase `move` leaves at the source.
    pub(super) fn leave_behind(&self) -> Cell {
        if self.has(Mutation::MoveLeavesNoMarker) {
            Cell::Absent
        } else {
            Cell::Marker(self.reshard())
        }
    }

    /// Reads an item at the source, and says whether it is to be moved.
    fn look_at(&self, state: &mut State, key: SortKey) -> Option<Task> {
        let removes = state.mover.closing && self.has(Mutation::RemoveMarkersInClosingScan);
        let source = self.source();
        let cell = state.item_mut(key).cell_mut(source);
        match *cell {
            Cell::Live(seen) if Self::moves(key) => return Some(Task::Move(key, seen)),
            Cell::Marker(_) if removes => *cell = Cell::Absent,
            _ => {}
        }
        None
    }
}
