//! What must hold in every state, and what some state must show for the search to mean anything.

use std::collections::BTreeSet;

use stateright::Property;

use super::RandomModel;
use super::state::{Command, Copy, Operation, Part, Running, Shard, State};
use crate::item::{History, Value};
use crate::schedule::{Phase, Revision};

/// The properties of the model of `random`.
pub(super) fn properties() -> Vec<Property<RandomModel>> {
    vec![
        // Invariants I1, I5.
        Property::always("each copy is linearizable", |_, state: &State| {
            state.histories.iter().all(History::is_linearizable)
        }),
        Property::always("nothing lost", nothing_lost),
        Property::always("nothing revived", nothing_revived),
        Property::always("a copy in one shard only", in_one_shard),
        Property::always("drained at the close", drained),
        // Invariant I5.
        Property::always("a query returns a sort key once", |_, state: &State| {
            !state.returned_twice
        }),
        Property::sometimes("every operation ends behind the last change", all_ends),
        Property::sometimes("the last change ends", |model: &RandomModel, state: &State| {
            state.published == model.last()
        }),
        Property::sometimes(
            "a late put in a drained shard",
            |model: &RandomModel, state: &State| {
                let layout = model.layout(state.published);
                let mut drained = layout.drained().filter_map(|shard| state.cell(shard).live());
                drained
                    .any(|copy| copy.generation < layout.generation && is_late(state, copy.value))
            },
        ),
        Property::sometimes("a move of which half shows", |_, state: &State| {
            state.unseen.is_some()
        }),
        Property::sometimes("a marker is looked up", |model: &RandomModel, state: &State| {
            any_running(state, |running, revision| {
                model.looks_up(model.layout(revision), running).is_some()
            })
        }),
        Property::sometimes("a delete where a marker points", |_, state: &State| {
            any_running(state, |running, _| {
                let mut sent = running.sent();
                sent.any(|request| request.command == Command::DeleteAny)
            })
        }),
        Property::sometimes("a delete that has begun again in part", |_, state: &State| {
            any_running(state, |running, _| {
                let is_anew = running.parts.iter().all(|part| *part == Part::Unread);
                running.operation == Operation::Delete && running.has_acted && is_anew
            })
        }),
        Property::sometimes("two copies of a sort key", |_, state: &State| {
            state.cells.iter().filter(|cell| cell.live().is_some()).count() > 1
        }),
    ]
}

/// At rest a sort key that may not be absent is there.
/// Invariant I2.
fn nothing_lost(model: &RandomModel, state: &State) -> bool {
    !is_at_rest(state)
        || model.visible(state).next().is_some()
        || state.histories.iter().all(|history| history.allows(None))
}

/// At rest no copy is there that may not be.
/// Invariant I3.
fn nothing_revived(model: &RandomModel, state: &State) -> bool {
    let is_allowed =
        |copy: Copy| state.histories[usize::from(copy.value.0)].allows(Some(copy.value));
    !is_at_rest(state) || model.visible(state).all(is_allowed)
}

/// A move takes what it moves from one shard to the other.
/// Invariant I17.
fn in_one_shard(_model: &RandomModel, state: &State) -> bool {
    let unseen = state.unseen.map(|(_, copy)| copy);
    let copies = state.cells.iter().filter_map(|cell| cell.live()).chain(unseen);
    let mut seen = BTreeSet::new();
    copies.into_iter().all(|copy| seen.insert(copy.value))
}

/// A stable collection has no item in a shard that nobody reads.
/// Invariant I4.
fn drained(model: &RandomModel, state: &State) -> bool {
    let layout = model.layout(state.published);
    let is_read = |shard: Shard| shard.0 < layout.to;
    layout.phase != Phase::Stable
        || (0..).map(Shard).zip(&state.cells).all(|(at, cell)| is_read(at) || cell.live().is_none())
}

fn all_ends(model: &RandomModel, state: &State) -> bool {
    let mut clients = state.clients.iter().zip(&model.programs);
    state.published == model.last()
        && clients
            .all(|(client, program)| client.running.is_none() && client.begun == program.operations)
}

/// Whether nobody waits for this put any more, and has not been told that it is done.
fn is_late(state: &State, value: Value) -> bool {
    state.histories[usize::from(value.0)].allows(None)
        && !any_running(state, |running, _| running.operation == Operation::Put(value))
}

fn any_running(state: &State, holds: impl Fn(&Running, Revision) -> bool) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|one| one.running.as_ref().is_some_and(|running| holds(running, one.revision)))
}

/// Whether nothing is under way but what the mover does, which shows nowhere.
fn is_at_rest(state: &State) -> bool {
    state.late.is_empty()
        && state.unseen.is_none()
        && state.clients.iter().all(|client| client.running.is_none())
}
