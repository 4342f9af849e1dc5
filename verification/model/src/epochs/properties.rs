//! What must hold in every state, and what some state must show for the search to mean anything.

use stateright::Property;

use super::EpochsModel;
use super::state::{Interval, LATE, Shard, SortKey, State};
use super::writer::Found;
use crate::schedule::{Phase, Revision};

/// The properties of the model of epochs.
pub(super) fn properties() -> Vec<Property<EpochsModel>> {
    vec![
        // Invariants I2, I3.
        Property::always("a get finds what was written last", gets_find),
        // Invariant I5.
        Property::always("every item at most once, in order", |model, state: &State| {
            let returned = &state.reader.returned;
            returned.is_sorted_by(|a, b| if model.ascending { a < b } else { a > b })
        }),
        // Invariant I5.
        Property::always("every item that lives through the query", |_, state: &State| {
            !state.reader.is_done() || returns(state, true)
        }),
        // Invariant I3.
        Property::always("no item that was deleted before the query", |_, state: &State| {
            returns(state, false)
        }),
        // Invariant I4.
        Property::always("everything at home in `stable`", at_home),
        // Invariants I21, I42.
        Property::always("every marker is one that the job accounts for", |_, state: &State| {
            state.markers().all(|(key, _, _)| state.marked.contains(key))
        }),
        Property::sometimes(
            "a query ends behind the last reshard",
            |model: &EpochsModel, state: &State| {
                state.published == model.last() && state.reader.is_done()
            },
        ),
        Property::sometimes("a query at the boundary of two counts", |_, state: &State| {
            let is_at_boundary = state.reader.covered == Interval::LOWER.end.0;
            state.published == Revision::closing(1) && is_at_boundary
        }),
        Property::sometimes("a late put in `move`", |_, state: &State| {
            let is_late = state.acknowledged.contains(&Some(LATE));
            state.published.phase() == Phase::Move && is_late
        }),
        Property::sometimes("markers of two reshards", |_, state: &State| {
            let mut generations = state.markers().map(|(_, _, generation)| generation);
            let first = generations.next();
            generations.any(|generation| Some(generation) != first)
        }),
    ]
}

/// A get under any metadata that leases run on finds it, or that the metadata is old. The latter never happens under that in
/// force.
fn gets_find(model: &EpochsModel, state: &State) -> bool {
    SortKey::all().zip(state.acknowledged).all(|(key, acknowledged)| {
        let finds = |revision, or_ahead| match model.get(state, key, revision) {
            Found::Version(version) => version == acknowledged,
            Found::Ahead => or_ahead,
        };
        finds(state.published, false) && state.before.is_none_or(|before| finds(before, true))
    })
}

/// Whether the query has returned all items that were there throughout, or none of those that were absent.
fn returns(state: &State, there: bool) -> bool {
    let is_right =
        |(key, since)| since != Some(there) || state.reader.returned.contains(&key) == there;
    state.reader.since.is_none_or(|since| SortKey::all().zip(since).all(is_right))
}

fn at_home(model: &EpochsModel, state: &State) -> bool {
    let is_home_alone = |key: SortKey| {
        let home = key.home(model.epoch(state.published, key).new);
        Shard::BOTH.iter().all(|shard| *shard == home || !state.cell(key, *shard).is_live())
    };
    state.published.phase() != Phase::Stable || SortKey::all().all(is_home_alone)
}
