//! The mover, which empties the drained shards, and the controller, which publishes what follows.
//!
//! There are no clocks. A wait is a guard on what is still possible, as in the model of items: T' has passed if no client
//! acts on a lease from before, H if no request that was signed before is left, and V if no transaction shows in part.

use super::state::{Cell, Command, Mover, Request, Shard, State};
use super::store::Answer;
use super::{Layout, RandomModel};
use crate::mutation::Mutation;
use crate::schedule::{Numbering, Phase, Revision};

impl RandomModel {
    /// The mover reads the next drained shard, or its transaction executes.
    pub(super) fn go_on_moving(&self, state: &mut State) {
        let layout = self.layout(state.published);
        let Some(request) = state.mover.waits_for else {
            let shard = Shard(layout.to + state.mover.done);
            match state.cell(shard) {
                Cell::Live(seen) => {
                    state.mover.waits_for = Some(Request {
                        shard,
                        command: Command::Move(seen),
                        generation: layout.generation,
                        signed_under: state.published,
                    });
                }
                Cell::Marker(_) | Cell::Absent => state.mover.done += 1,
            }
            return;
        };
        state.mover.waits_for = match (request.command, self.execute(state, request)) {
            (Command::Move(seen), Answer::Occupied) => {
                Some(Request { command: Command::GiveWay(seen), ..request })
            }
            // Whatever the answer was, the next read shows what is left to do.
            _ => None,
        };
    }

    /// The mover crashes, and another begins with the shard anew.
    pub(super) fn crash_mover(state: &mut State) {
        state.crashes += 1;
        if let Some(request) = state.mover.waits_for.take() {
            state.abandon(request);
        }
    }

    /// Whether the mover has been through all drained shards.
    pub(super) fn has_scanned(layout: Layout, mover: Mover) -> bool {
        layout.to + mover.done == layout.from
    }

    /// Whether the next revision may be published.
    pub(super) fn may_publish(&self, state: &State) -> bool {
        if state.published == self.last() {
            return false;
        }
        let layout = self.layout(state.published);
        match layout.phase {
            Phase::Stable | Phase::Forward => {
                !self.waits_for_leases(layout) || Self::leases_have_ended(state)
            }
            Phase::Move => {
                let waits = !self.has(Mutation::DrainClosesWithoutV);
                state.mover.closing
                    && Self::has_scanned(layout, state.mover)
                    && (!waits || state.unseen.is_none())
            }
        }
    }

    fn waits_for_leases(&self, layout: Layout) -> bool {
        let skips =
            if layout.shrinks() { Mutation::DrainUnderLeases } else { Mutation::GrowAtOnce };
        layout.phase != Phase::Forward || !self.has(skips)
    }

    /// Publishes the next revision.
    pub(super) fn publish(&self, state: &mut State) {
        let layout = self.layout(state.published);
        // Nobody needs to have seen `move`: who still acts on it looks in the same shards.
        if layout.phase != Phase::Move && self.waits_for_leases(layout) {
            Self::end_leases(state);
        }
        state.published = state.published.next();
        state.mover = Mover::new(false);
    }

    /// Whether the closing scan may begin: T' and H after `move` was published.
    pub(super) fn may_begin_closing_scan(&self, state: &State) -> bool {
        let is_old = |request: Request| request.signed_under < state.published;
        let mut running = state.clients.iter().filter_map(|client| client.running.as_ref());
        let waits = !self.has(Mutation::DrainClosesWithoutH);
        self.layout(state.published).phase == Phase::Move
            && !state.mover.closing
            && (!waits
                || Self::leases_have_ended(state) && !running.any(|one| one.sent().any(is_old)))
    }

    /// The closing scan begins. What was signed before `move` is refused from now on (assumption A2).
    pub(super) fn begin_closing_scan(&self, state: &mut State) {
        if !self.has(Mutation::DrainClosesWithoutH) {
            Self::end_leases(state);
            let published = state.published;
            state.late.retain(|request| request.signed_under >= published);
        }
        if let Some(request) = state.mover.waits_for {
            state.abandon(request);
        }
        state.mover = Mover::new(true);
    }

    /// Whether a marker may be removed in the background: T' after its reshard has closed.
    pub(super) fn may_remove_marker(&self, state: &State, shard: Shard) -> bool {
        let closed = Numbering::OncePerReshard.closed(state.published);
        let is_over = self.layout(state.published).phase != Phase::Stable
            || Self::leases_have_ended(state)
            || self.has(Mutation::DrainedMarkersUnderLeases);
        matches!(state.cell(shard), Cell::Marker(generation) if generation <= closed)
            && is_over
            && !state.conflicts(shard)
    }

    /// Whether T' may have passed since the metadata in force was published: no operation runs under an older lease.
    fn leases_have_ended(state: &State) -> bool {
        let is_old = |revision: Revision| revision < state.published;
        let mut clients = state.clients.iter();
        !clients.any(|one| one.running.is_some() && one.lease_runs && is_old(one.revision))
    }

    fn end_leases(state: &mut State) {
        for client in &mut state.clients {
            client.lease_runs &= client.revision >= state.published;
            if client.running.is_none() && !client.lease_runs {
                // Metadata that will not be used again makes no difference between states.
                client.revision = Revision::FIRST;
            }
        }
    }
}
