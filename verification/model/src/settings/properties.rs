//! What must hold in every state, and what some state must show for the search to mean anything.

use stateright::Property;

use super::SettingsModel;
use super::state::{Standing, State, Term};
use crate::schedule::Phase;

/// The properties of the settings model.
pub(super) fn properties() -> Vec<Property<SettingsModel>> {
    vec![
        // Invariant I33.
        Property::always("nobody acts on `stable` in `move`", |_, state: &State| {
            state.phase != Phase::Move || !acts_on_stable(state, |_| true)
        }),
        Property::sometimes("a reshard during which the term grows", |_, state: &State| {
            changed(state, |before, after| before < after)
        }),
        Property::sometimes("a reshard during which the term shrinks", |_, state: &State| {
            changed(state, |before, after| before > after)
        }),
        Property::sometimes("an environment that is refused", |_, state: &State| {
            let mut environments = state.environments.iter();
            environments.any(|environment| environment.directory == Standing::Refused)
        }),
        Property::sometimes("a lease of a term that is accepted no more", |_, state: &State| {
            acts_on_stable(state, |term| !state.directory.accepts(term))
        }),
    ]
}

/// Whether an environment whose term fits may act on `stable`.
fn acts_on_stable(state: &State, fits: impl Fn(Term) -> bool) -> bool {
    let mut environments = state.environments.iter();
    environments.any(|environment| environment.stable.is_some() && fits(environment.term))
}

/// Whether a change of the term began and ended between `forward` and `move`.
fn changed(state: &State, which: fn(Term, Term) -> bool) -> bool {
    let ended = state.directory.settled().filter(|_| state.phase == Phase::Move);
    state.begun_under.zip(ended).is_some_and(|(before, after)| which(before, after))
}
