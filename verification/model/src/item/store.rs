//! The main table: what DynamoDB does with a command, all at once.
//!
//! Transactions are atomic here, since every read of the item protocol that could see half of one is followed by a
//! `TransactGetItems`. Their halves are the business of [`crate::query`].

use super::command::{Answer, Cell, Command, HOMES, Handover, Home, Leave, Stamp, Version};
use super::operation::{Change, Value};
use crate::mutation::Mutation;
use crate::schedule::Generation;

/// Executes a command.
pub(super) fn execute(
    cells: &mut [Cell; HOMES],
    command: Command,
    mutation: Option<Mutation>,
) -> Answer {
    let mut table = Table { cells, mutation };
    match command {
        Command::Get(home) => Answer::Found(*table.at(home)),
        Command::GetBoth { new, old } => {
            Answer::FoundBoth { new: *table.at(new), old: *table.at(old) }
        }
        Command::Write { at, change, generation } => table.write(at, change, generation),
        Command::WriteToLive { at, change, generation } => {
            table.write_to_live(at, change, generation)
        }
        Command::DeleteAsSeen { at, seen, generation } => {
            table.delete_as_seen(at, seen, generation)
        }
        Command::MarkAsSeen { at, seen, generation } => table.mark_as_seen(at, seen, generation),
        Command::Mark { at, generation } => table.mark(at, generation),
        Command::Move(handover) => table.move_item(handover),
        Command::DropCopy(handover) => table.drop_copy(handover),
        Command::RemoveMarker { at, generation } => table.remove_marker(at, generation),
        Command::DropUnchecked(handover) => table.give_up(handover),
        Command::Copy(handover) => table.copy(handover),
        Command::Erase(handover) => table.erase(handover),
    }
}

struct Table<'a> {
    cells: &'a mut [Cell; HOMES],
    mutation: Option<Mutation>,
}

impl Table<'_> {
    fn at(&mut self, home: Home) -> &mut Cell {
        &mut self.cells[usize::from(home.0)]
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// `attribute_not_exists(_ds_g) OR _ds_g <= :generation`, turned round.
    fn guard_fails(&self, cell: Cell, generation: Generation) -> bool {
        cell.is_ahead_of(generation) && !self.has(Mutation::WriteWithoutGuard)
    }

    fn write(&mut self, at: Home, change: Change, generation: Generation) -> Answer {
        let cell = *self.at(at);
        if self.guard_fails(cell, generation) {
            return Answer::Behind;
        }
        let marker = |mutation| self.has(mutation) && matches!(cell, Cell::Marker(_));
        let is_refused =
            marker(Mutation::ConditionSeesMarker) && matches!(change, Change::Create(_));
        let keeps_marker =
            marker(Mutation::UpsertKeepsMarker) && matches!(change, Change::Upsert(_));
        if matches!(cell, Cell::Marker(_)) && change.is_native() && !keeps_marker {
            return Answer::Marker;
        }
        // A marker counts as nothing: `value` does not see it.
        let Some(next) = change.apply(cell.value()).ok().filter(|_| !is_refused) else {
            return Answer::ConditionFailed { live: cell.is_live() };
        };
        *self.at(at) = match next {
            _ if change == Change::Check => cell,
            _ if keeps_marker => Cell::Marker(generation),
            Some(value) => {
                let stamp = self.draw_stamp(cell, change, value);
                Cell::Live(Version { value, stamp, generation })
            }
            None => Cell::Absent,
        };
        Answer::Applied
    }

    /// The version of what a write leaves: what it alone writes, which of an upsert is the bit that it adds.
    /// Invariants I35, I36.
    fn draw_stamp(&self, cell: Cell, change: Change, value: Value) -> Stamp {
        match (cell, change) {
            (Cell::Live(found), Change::Upsert(_)) if self.has(Mutation::UpdateKeepsVersion) => {
                found.stamp
            }
            (_, Change::Upsert(bit)) if self.has(Mutation::VersionRepeats) => {
                Stamp(bit.first_of_client())
            }
            (_, Change::Upsert(bit)) => Stamp(bit),
            _ => Stamp(value),
        }
    }

    fn write_to_live(&mut self, at: Home, change: Change, generation: Generation) -> Answer {
        let cell = *self.at(at);
        if cell.is_live() || self.guard_fails(cell, generation) {
            self.write(at, change, generation)
        } else {
            Answer::ConditionFailed { live: false }
        }
    }

    fn delete_as_seen(&mut self, at: Home, seen: Version, generation: Generation) -> Answer {
        let cell = *self.at(at);
        if self.guard_fails(cell, generation) {
            Answer::Behind
        } else if cell.stamp() == Some(seen.stamp) {
            *self.at(at) = Cell::Absent;
            Answer::Applied
        } else {
            Answer::Changed
        }
    }

    fn mark_as_seen(&mut self, at: Home, seen: Version, generation: Generation) -> Answer {
        let cell = *self.at(at);
        if self.guard_fails(cell, generation) {
            Answer::Behind
        } else if cell.stamp() == Some(seen.stamp) || self.has(Mutation::DeleteUnmovableUnchecked) {
            *self.at(at) = Cell::Marker(generation);
            Answer::Applied
        } else {
            Answer::Changed
        }
    }

    fn mark(&mut self, at: Home, generation: Generation) -> Answer {
        match *self.at(at) {
            Cell::Live(_) => Answer::Changed,
            Cell::Marker(found) if found > generation => Answer::Behind,
            Cell::Marker(_) | Cell::Absent => {
                if !self.has(Mutation::LeaveNoMarkers) {
                    *self.at(at) = Cell::Marker(generation);
                }
                Answer::Applied
            }
        }
    }

    fn move_item(&mut self, handover: Handover) -> Answer {
        let new = *self.at(handover.to);
        if !self.at(handover.from).is_as_seen(handover.seen) {
            Answer::Changed
        } else if self.guard_fails(new, handover.generation) {
            Answer::Behind
        } else if new.is_live() {
            Answer::LiveAtNew
        } else {
            let Handover { seen, generation, .. } = handover;
            let generation =
                if self.has(Mutation::MoveKeepsGeneration) { seen.generation } else { generation };
            *self.at(handover.to) = Cell::Live(Version { generation, ..seen });
            self.give_up(handover)
        }
    }

    fn drop_copy(&mut self, handover: Handover) -> Answer {
        match *self.at(handover.to) {
            Cell::Live(new) if new.generation == handover.generation => self.give_up(handover),
            _ => Answer::Changed,
        }
    }

    /// The old home's half of a transaction.
    fn give_up(&mut self, handover: Handover) -> Answer {
        if !self.at(handover.from).is_as_seen(handover.seen) {
            return Answer::Changed;
        }
        *self.at(handover.from) = match handover.leave {
            Leave::Marker if !self.has(Mutation::LeaveNoMarkers) => {
                Cell::Marker(handover.generation)
            }
            Leave::Marker | Leave::Nothing => Cell::Absent,
        };
        Answer::Applied
    }

    fn remove_marker(&mut self, at: Home, generation: Generation) -> Answer {
        match *self.at(at) {
            Cell::Marker(found) if found <= generation => {
                *self.at(at) = Cell::Absent;
                Answer::Applied
            }
            _ => Answer::Changed,
        }
    }

    fn copy(&mut self, handover: Handover) -> Answer {
        let Handover { seen, generation, .. } = handover;
        let new = self.at(handover.to);
        if new.is_live() {
            return Answer::LiveAtNew;
        }
        *new = Cell::Live(Version { generation, ..seen });
        Answer::Applied
    }

    fn erase(&mut self, handover: Handover) -> Answer {
        self.give_up(Handover { leave: Leave::Nothing, ..handover })
    }
}
