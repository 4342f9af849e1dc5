//! The mover: a scan of the old home that settles the item, and the answer that it waits for before it goes on.
//!
//! There is one item, so a page of the scan is that item, and the checkpoint is the scan's end. Pages and their
//! checkpoints are modelled in [`crate::query`]. A mover that crashes leaves its request behind, which is also what
//! a zombie sends. Two movers are a crash and its late request.

use super::command::{Answer, Cell, Command, Request, Version};
use super::state::{Scan, State, Task};
use super::{ItemModel, Layout};
use crate::mutation::Mutation;

impl ItemModel {
    /// The mover reads the old home, and sends what settles the item there. It does so again for an item that could not
    /// be moved.
    pub(super) fn scan(&self, state: &mut State) {
        let layout = self.layout(state.published);
        let send =
            |task, command| Scan::Waits(task, Request { command, signed_under: state.published });
        state.mover.scan = match state.cell(layout.old) {
            Cell::Live(seen) => send(Task::Move(seen), self.move_command(layout, seen)),
            Cell::Marker(_) if self.has(Mutation::RemoveMarkersWhileMoving) => {
                let remove =
                    Command::RemoveMarker { at: layout.old, generation: layout.generation };
                send(Task::RemoveMarker, remove)
            }
            Cell::Marker(_) | Cell::Absent => {
                state.mover.unmovable = false;
                Scan::Ended
            }
        };
    }

    /// DynamoDB rejects what the mover sends. It may have done so before it looked at the conditions, so the mover reads
    /// the new home before it notes that the item cannot be moved, and goes on. The rejection changes nothing, so it
    /// may as well come in the moment of that read.
    pub(super) fn reject_mover(&self, state: &mut State) {
        let Scan::Waits(Task::Move(seen), request) = state.mover.scan else { return };
        let layout = self.layout(state.published);
        let new = state.cell(layout.new);
        state.mover.scan = if new.is_ahead_of(layout.generation) {
            Scan::Begins
        } else if new.is_live() {
            let command = self.drop_command(layout, seen);
            Scan::Waits(Task::Drop, Request { command, ..request })
        } else {
            state.mover.unmovable = true;
            Scan::Ended
        };
    }

    /// The mover's request executes, and the mover hears the answer.
    pub(super) fn answer_mover(&self, state: &mut State) {
        let Scan::Waits(task, request) = state.mover.scan else { return };
        let answer = self.execute(state, request.command);
        let layout = self.layout(state.published);
        state.mover.scan = match (task, answer) {
            (Task::Move(seen), _) if self.has(Mutation::MoverCopiesThenErases) => {
                let command = Command::Erase(Self::handover(layout, seen));
                Scan::Waits(Task::Drop, Request { command, ..request })
            }
            (Task::Move(seen), Answer::LiveAtNew) => {
                let command = self.drop_command(layout, seen);
                Scan::Waits(Task::Drop, Request { command, ..request })
            }
            // Whatever the answer was, the next read shows what is left to do.
            _ => Scan::Begins,
        };
    }

    /// The mover crashes. Its request may execute at any later time; another begins the scan again.
    pub(super) fn crash_mover(state: &mut State) {
        state.crashes += 1;
        if let Scan::Waits(_, request) = state.mover.scan {
            state.abandon(request);
        }
        state.mover.scan = Scan::Begins;
    }

    fn move_command(&self, layout: Layout, seen: Version) -> Command {
        let handover = Self::handover(layout, seen);
        if self.has(Mutation::MoverCopiesThenErases) {
            Command::Copy(handover)
        } else {
            Command::Move(handover)
        }
    }
}
