//! What must hold in every state, and what some state must show for the search to mean anything.

use stateright::Property;

use super::ItemModel;
use super::command::{Cell, Home};
use super::operation::Value;
use super::state::{Lease, State, Step};
use crate::schedule::{Phase, Revision};

/// The properties of the item model.
pub(super) fn properties() -> Vec<Property<ItemModel>> {
    vec![
        // Invariant I1.
        Property::always("linearizable", |_, state: &State| state.history.is_linearizable()),
        Property::always("nothing lost", nothing_lost),
        Property::always("nothing revived", nothing_revived),
        Property::always("nothing twice", nothing_twice),
        Property::sometimes("every operation ends behind the last reshard", all_ends),
        Property::sometimes("the last reshard begins", |model, state: &State| {
            usize::from(state.published.reshards_begun()) + 1 == model.route.len()
        }),
        Property::sometimes("the last reshard closes", |model: &ItemModel, state: &State| {
            state.published == model.last
        }),
        Property::sometimes(
            "an operation in the last `move`",
            |model: &ItemModel, state: &State| acts_on(state, model.last.previous()),
        ),
        Property::sometimes(
            "an operation behind the last reshard",
            |model: &ItemModel, state: &State| acts_on(state, model.last),
        ),
        Property::sometimes("a late copy beside a newer item", |_, state: &State| {
            state.cells.iter().filter(|cell| cell.is_live()).count() > 1
        }),
        Property::sometimes("an operation without metadata beside one with it", sees_both),
        Property::sometimes("an item that cannot be moved is noted", |_, state: &State| {
            state.mover.unmovable
        }),
        Property::sometimes(
            "an item is deleted where it cannot be moved from",
            |_, state: &State| {
                let mut running = state.clients.iter().filter_map(|client| client.running);
                running.any(|running| running.step == Step::DeleteAtOldHome)
            },
        ),
        Property::sometimes("an item that may expire beside a marker", |_, state: &State| {
            let expires = |cell: &Cell| cell.value().is_some_and(Value::may_expire);
            state.cells.iter().any(expires)
                && state.cells.iter().any(|cell| matches!(cell, Cell::Marker(_)))
        }),
    ]
}

/// At rest an item that may not be absent is there, with a value that it may have.
/// Invariant I2.
fn nothing_lost(model: &ItemModel, state: &State) -> bool {
    let found = model.visible(state).value();
    !is_at_rest(state) || found.is_some() || state.history.allows(None)
}

/// At rest an item is not there with a value that it can no longer have.
/// Invariant I3.
fn nothing_revived(model: &ItemModel, state: &State) -> bool {
    let found = model.visible(state).value();
    !is_at_rest(state) || found.is_none() || state.history.allows(found)
}

/// A stable collection has no item where it does not belong, and so none twice: a reshard closes over a drained source.
/// Invariant I4.
fn nothing_twice(model: &ItemModel, state: &State) -> bool {
    let home = model.layout(state.published).new;
    state.published.phase() != Phase::Stable
        || (0..).map(Home).zip(&state.cells).all(|(place, cell)| place == home || !cell.is_live())
}

fn all_ends(model: &ItemModel, state: &State) -> bool {
    state.published == model.last
        && state
            .clients
            .iter()
            .zip(&model.programs)
            .all(|(client, program)| client.running.is_none() && client.begun == program.operations)
}

/// Whether a client acts on this revision.
fn acts_on(state: &State, revision: Revision) -> bool {
    let mut clients = state.clients.iter().filter(|client| client.running.is_some());
    clients.any(|client| client.lease.revision == revision)
}

/// Whether one client acts on a directory that does not list the collection yet, and another on the metadata.
fn sees_both(_model: &ItemModel, state: &State) -> bool {
    let acts = |on: fn(Lease) -> bool| {
        let mut clients = state.clients.iter().filter(|client| client.running.is_some());
        clients.any(|client| client.lease.runs && on(client.lease))
    };
    acts(|lease| lease.revision < lease.shown) && acts(|lease| lease.revision > Revision::FIRST)
}

/// Whether nothing is under way but what the mover does, which shows nowhere.
fn is_at_rest(state: &State) -> bool {
    state.late.is_empty() && state.clients.iter().all(|client| client.running.is_none())
}
