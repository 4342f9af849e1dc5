//! What must hold in every state, and what some state must show for the search to mean anything.

use stateright::Property;

use super::QueryModel;
use super::state::{Cell, SortKey, State};
use crate::schedule::Phase;

/// The properties of the query model.
pub(super) fn properties() -> Vec<Property<QueryModel>> {
    vec![
        // Invariant I5.
        Property::always("every item at most once, in order", |_, state: &State| {
            state.reader.returned.is_sorted_by(|first, second| first < second)
        }),
        // Invariant I5.
        Property::always("every item that lives through the query", |_, state: &State| {
            !state.reader.is_done()
                || QueryModel::live_throughout().all(|key| state.reader.returned.contains(&key))
        }),
        // Invariants I4, I14.
        Property::always("nothing twice but in `move`", |_, state: &State| {
            state.published.phase() == Phase::Move
                || !SortKey::all().any(|key| state.item(key).is_live_twice())
        }),
        // Invariant I30.
        Property::always("nothing that was replaced before", |_, state: &State| {
            !state.reader.returned_replaced
        }),
        Property::always("source drained at the close", source_drained),
        Property::sometimes("a query ends behind the reshard", ends_behind),
        Property::sometimes("a query in `move`", |model: &QueryModel, state: &State| {
            let reader = &state.reader;
            let phase = model.layout(reader.revision).phase;
            phase == Phase::Move && !reader.returned.is_empty() && !reader.is_done()
        }),
        Property::sometimes("an item beside what it has replaced", |_, state: &State| {
            SortKey::all().any(|key| state.item(key).is_live_twice())
        }),
        Property::sometimes("half of a transaction shows", |_, state: &State| {
            SortKey::all().any(|key| matches!(state.item(key).unseen, Some(Cell::Live(_))))
        }),
    ]
}

/// Invariant I4.
fn source_drained(model: &QueryModel, state: &State) -> bool {
    let drained = |key| !state.item(key).cell(model.source()).is_live();
    !model.is_closed(state) || SortKey::all().filter(|key| QueryModel::moves(*key)).all(drained)
}

fn ends_behind(model: &QueryModel, state: &State) -> bool {
    state.reader.is_done() && model.is_closed(state)
}

impl QueryModel {
    fn is_closed(&self, state: &State) -> bool {
        let layout = self.layout(state.published);
        layout.phase == Phase::Stable && layout.new == self.destination()
    }
}
