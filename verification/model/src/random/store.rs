//! What DynamoDB does with a write: the guard, the conditions, and transactions of which plain reads see one half first.

use super::RandomModel;
use super::state::{Cell, Command, Copy, Request, Shard, State};
use crate::mutation::Mutation;

/// What DynamoDB answers to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// The guard failed: a higher `_ds_g` was there.
    Behind,
    /// The condition failed: nothing is live there, or not what was seen.
    Changed,
    /// A move found something live in the first shard.
    Occupied,
}

impl RandomModel {
    /// A write executes. None does where it would conflict with a transaction.
    pub(super) fn execute(&self, state: &mut State, request: Request) -> Answer {
        let Request { shard, command, generation, .. } = request;
        let found = state.cell(shard);
        let is_guarded = |cell: Cell| cell.generation().is_none_or(|stored| stored <= generation);
        match command {
            _ if !is_guarded(found) => return Answer::Behind,
            Command::Put(value) => state.set(shard, Cell::Live(Copy { value, generation })),
            Command::DeleteLive if found.live().is_none() => return Answer::Changed,
            Command::DeleteLive | Command::DeleteAny => state.set(shard, Cell::Absent),
            Command::Move(seen) | Command::GiveWay(seen) if found != Cell::Live(seen) => {
                return Answer::Changed;
            }
            Command::Move(_) if state.cell(Shard::FIRST).live().is_some() => {
                return Answer::Occupied;
            }
            Command::Move(seen) => {
                if self.has(Mutation::DrainLeavesNoMarker) {
                    state.set(shard, Cell::Absent);
                } else {
                    state.set(shard, Cell::Marker(generation));
                }
                state.unseen = Some((shard, Copy { generation, ..seen }));
            }
            Command::GiveWay(_) => {
                let is_there = state.cell(Shard::FIRST).live().is_some();
                if !is_there && !self.has(Mutation::DrainGivesWayUnchecked) {
                    return Answer::Changed;
                }
                state.set(shard, Cell::Marker(generation));
            }
        }
        Answer::Done
    }

    /// Whether a write would conflict with a transaction that is not visible as a whole.
    pub(super) fn conflicts(state: &State, request: Request) -> bool {
        let is_transaction = matches!(request.command, Command::Move(_) | Command::GiveWay(_));
        state.conflicts(request.shard) || is_transaction && state.conflicts(Shard::FIRST)
    }

    /// The arrival of a move shows to plain reads.
    pub(super) fn becomes_visible(state: &mut State) {
        if let Some((_, copy)) = state.unseen.take() {
            state.set(Shard::FIRST, Cell::Live(copy));
        }
    }
}
