//! The controller: when it may publish the next revision, and what its waiting makes impossible.
//!
//! There are no clocks. A wait is a guard on what is still possible, followed by its being impossible: T' has passed
//! if no client acts on a lease from before, and H if no request that was signed before is left.
//!
//! The first reshard of a collection that is not listed enlists it: one transaction puts the metadata, in `forward`, and
//! adds the collection to the directory. As long as the directory does not show it, clients take leases on the `stable`
//! from before. So the wait for T' counts from a read that has seen both.

use super::ItemModel;
use super::command::Cell;
use super::state::{Lease, Mover, Scan, State};
use crate::mutation::Mutation;
use crate::schedule::{Half, Phase, Revision};

impl ItemModel {
    /// Whether the next revision may be published.
    pub(super) fn may_publish(&self, state: &State) -> bool {
        if state.published >= self.last {
            return false;
        }
        match state.published.phase() {
            Phase::Stable if self.has(Mutation::ForwardBeforeStableIsKnown) => true,
            Phase::Stable | Phase::Forward => {
                state.unseen.is_none() && self.leases_have_ended(state, state.published)
            }
            Phase::Move => {
                let is_left = state.mover.unmovable && !self.has(Mutation::CloseOverUnmovable);
                state.mover.closing && state.mover.scan == Scan::Ended && !is_left
            }
        }
    }

    /// Publishes the next revision.
    pub(super) fn publish(&self, state: &mut State) {
        let ends_leases = match state.published.phase() {
            Phase::Stable => !self.has(Mutation::ForwardBeforeStableIsKnown),
            Phase::Forward => true,
            // Nobody needs to have seen `move`: who still acts on it finds the same homes.
            Phase::Move => false,
        };
        if ends_leases {
            self.end_leases(state, state.published);
        }
        state.published = state.published.next();
        state.mover = Mover::IDLE;
    }

    /// Publishes the first metadata, and enlists the collection. This half of the transaction does not show yet. Who
    /// tries the same later is refused, since there is metadata.
    pub(super) fn enlist(&self, state: &mut State, unseen: Half) {
        self.publish(state);
        state.unseen = Some(unseen);
    }

    /// Whether the closing scan may begin: T' and H after `move` was published.
    pub(super) fn may_begin_closing_scan(&self, state: &State) -> bool {
        let counted_from = self.h_counts_from(state);
        state.published.phase() == Phase::Move
            && !state.mover.closing
            && self.leases_have_ended(state, counted_from)
            && (self.has(Mutation::CloseWithoutH)
                || state
                    .clients
                    .iter()
                    .filter_map(|client| client.running)
                    .all(|running| running.request.signed_under >= counted_from))
    }

    /// The closing scan begins. What was signed before `move` is refused from now on (assumption A2).
    pub(super) fn begin_closing_scan(&self, state: &mut State) {
        let counted_from = self.h_counts_from(state);
        self.end_leases(state, counted_from);
        if !self.has(Mutation::CloseWithoutH) {
            state.late.retain(|request| request.signed_under >= counted_from);
        }
        if let Scan::Waits(_, request) = state.mover.scan {
            state.abandon(request);
        }
        state.mover = Mover { scan: Scan::Begins, closing: true, ..state.mover };
    }

    /// Whether a marker may be removed in the background: its reshard has closed.
    ///
    /// The removal is a delete on condition of the marker and its generation. It finds the same late as in time, so it
    /// needs no request of its own.
    pub(super) fn may_remove_marker(&self, state: &State, cell: Cell) -> bool {
        let closed = self.numbering.closed(state.published);
        matches!(cell, Cell::Marker(generation) if generation <= closed)
    }

    fn h_counts_from(&self, state: &State) -> Revision {
        if self.has(Mutation::CountHFromForward) {
            state.published.previous()
        } else {
            state.published
        }
    }

    /// Whether T' may have passed since a revision was published: no operation runs under an older lease.
    fn leases_have_ended(&self, state: &State, since: Revision) -> bool {
        self.has(Mutation::PublishBeforeLeasesEnd)
            || state
                .clients
                .iter()
                .all(|client| client.running.is_none() || !self.is_waited_for(client.lease, since))
    }

    fn end_leases(&self, state: &mut State, since: Revision) {
        if self.has(Mutation::PublishBeforeLeasesEnd) {
            return;
        }
        for client in &mut state.clients {
            client.lease.runs &= !self.is_waited_for(client.lease, since);
            if client.running.is_none() && !client.lease.runs {
                // Metadata that will not be used again makes no difference between states.
                client.lease = Lease::OVER;
            }
        }
    }

    /// Whether this lease runs, and has ended when T' has passed since a revision was published.
    fn is_waited_for(&self, lease: Lease, since: Revision) -> bool {
        let enlisted = Revision::FIRST.next();
        let is_missed = match self.mutation {
            Some(Mutation::EnlistWithoutWait) => since == enlisted,
            Some(Mutation::CountEnlistingFromMetadata) => lease.shown >= since,
            Some(Mutation::AbsenceWithoutLease) => lease.revision < enlisted,
            _ => false,
        };
        lease.runs && lease.revision < since && !is_missed
    }
}
