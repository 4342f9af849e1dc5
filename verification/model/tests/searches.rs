//! The model in CI: no search of the protocol finds anything, and every mutation that must be caught is.
//!
//! The searches end after a number of states, so they take and find the same on every machine. One that ends there
//! before it has come to its end says so, and must have shown what its configuration names. To search further:
//! `cargo run --release -p dynashard-model -- all --secs 600`.

use std::collections::BTreeSet;

use dynashard_model::check::{Limit, Report, Verdict};
use dynashard_model::config::{Configuration, Extent, Suite, limit_against};
use dynashard_model::mutation::{Expectation, Mutation};

/// How many states are generated for each search of the protocol. Some of the searches end before.
const GOOD: Limit = Limit::States(3_000_000);

/// Invariants I1, I2, I3, I4, I6.
#[test]
fn puts_deletes_and_conditional_writes_are_linearizable_through_reshards() {
    holds(Suite::Good);
}

/// Invariants I1, I2, I3, I4, I6.
#[test]
fn upserts_swaps_and_routes_over_three_homes_are_linearizable() {
    holds(Suite::Ext);
}

/// Invariants I4, I5, I30.
#[test]
fn queries_return_every_item_once_through_a_reshard() {
    holds(Suite::Query);
}

/// Invariants I1 to I6, I34.
#[test]
fn sort_keys_of_random_collections_are_found_once_while_shards_come_and_go() {
    holds(Suite::Random);
}

/// Invariants I2 to I5, I21.
#[test]
fn every_item_is_found_while_epochs_come_to_another_count_one_after_the_other() {
    holds(Suite::Epochs);
}

/// Invariants I2, I33.
#[test]
fn no_wait_is_too_short_while_the_lease_term_changes() {
    holds(Suite::Settings);
}

/// Each mutation says which of I2 to I37 it is against.
#[test]
fn every_mutation_is_caught_but_those_that_are_defence_in_depth() {
    let is_caught = |mutation: &Mutation| {
        let report = search_against(*mutation);
        println!("{mutation:?}: {}", report.verdict);
        let is_caught = report.verdict.is_violation();
        assert!(is_caught || report.missing.is_empty(), "no state shows {:?}", report.missing);
        is_caught
    };
    let caught = Mutation::ALL.into_iter().filter(is_caught).map(name).collect::<BTreeSet<_>>();
    let must_be_caught = Mutation::ALL
        .into_iter()
        .filter(|mutation| mutation.expectation() == Expectation::Caught)
        .map(name)
        .collect::<BTreeSet<_>>();
    assert_eq!(caught, must_be_caught);
}

/// The rules that no search has shown to be needed. To take one away, first say why here and in the protocol.
/// Invariants I7, I9, I18, I19.
#[test]
fn six_rules_are_defence_in_depth() {
    let uncaught = Mutation::ALL
        .into_iter()
        .filter(|mutation| mutation.expectation() != Expectation::Caught)
        .collect::<Vec<_>>();
    assert_eq!(
        uncaught,
        [
            Mutation::ForwardBeforeStableIsKnown,
            Mutation::CountHFromForward,
            Mutation::MoveKeepsGeneration,
            Mutation::DropCopyUnchecked,
            Mutation::DrainUnderLeases,
            Mutation::GetKeptFirst,
        ]
    );
}

#[test]
fn mutations_are_listed_once_each() {
    let names = Mutation::ALL.map(name).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(names.len(), Mutation::ALL.len());
}

/// A nightly job ends after 350 minutes. `.ci/nightly` gives 600 seconds to each search that is known to end in that time,
/// and 240 to each that is not.
#[test]
fn the_nightly_searches_fit_into_their_jobs() {
    for job in [
        &[Suite::Good, Suite::Ext, Suite::Settings][..],
        &[Suite::Query, Suite::Random, Suite::Epochs][..],
    ] {
        let searches = job.iter().flat_map(|suite| suite.configurations());
        let secs = searches.map(|search| match search.extent {
            Extent::Small => 60,
            Extent::Large => 600,
            Extent::Open => 240,
        });
        let minutes = secs.sum::<u32>() / 60;
        println!("{job:?}: {minutes} minutes at most");
        assert!(minutes < 300, "{job:?}: {minutes} minutes");
    }
}

/// A counterexample is a shortest one, so a longer one would mean that the model has lost a behaviour.
/// Invariants I3, I12.
#[test]
fn a_write_without_the_guard_is_lost_in_eight_steps() {
    let report = search(
        Configuration::against(Mutation::WriteWithoutGuard),
        limit_against(Mutation::WriteWithoutGuard),
    );
    let Verdict::Violated { property, steps } = report.verdict else {
        panic!("nothing was found");
    };
    assert_eq!((property, steps.len()), ("linearizable", 8), "{steps:#?}");
}

/// Searches a suite, and makes sure that it shows more than states in which nothing has happened.
fn holds(suite: Suite) {
    let mut reached = BTreeSet::new();
    let mut ended = 0;
    for configuration in suite.configurations() {
        let (name, extent) = (configuration.name.clone(), configuration.extent);
        let report = search(configuration, limit_of(suite));
        println!("{suite}, {name}: {}", report.verdict);
        assert!(!report.verdict.is_violation(), "{name}: {:#?}", report.verdict);
        assert!(report.missing.is_empty(), "{name} does not show {:?}", report.missing);
        if extent == Extent::Small {
            ended += 1;
            assert_eq!(report.verdict, Verdict::Holds, "{name} was searched to the end before");
        }
        reached.extend(report.reached);
    }
    assert!(ended > 0, "no search of {suite} comes to its end");
    for shown in shown_by(suite) {
        assert!(reached.contains(shown), "no search of {suite} shows {shown:?}");
    }
}

/// The searches of epochs and of settings are small enough to come to their end each time.
fn limit_of(suite: Suite) -> Limit {
    match suite {
        Suite::Good | Suite::Ext | Suite::Query => GOOD,
        Suite::Random => Limit::States(800_000),
        Suite::Epochs | Suite::Settings => Limit::States(10_000_000),
    }
}

/// What some search of a suite must show, if it is to mean anything.
fn shown_by(suite: Suite) -> &'static [&'static str] {
    match suite {
        Suite::Good => &[
            "every operation ends behind the last reshard",
            "a late copy beside a newer item",
            "an operation without metadata beside one with it",
            "an item that may expire beside a marker",
        ],
        Suite::Ext => {
            &["every operation ends behind the last reshard", "a late copy beside a newer item"]
        }
        Suite::Query => &[
            "a query ends behind the reshard",
            "an item beside what it has replaced",
            "half of a transaction shows",
        ],
        Suite::Random => &[
            "a late put in a drained shard",
            "a delete where a marker points",
            "a marker is looked up",
        ],
        Suite::Epochs => &[
            "a query at the boundary of two counts",
            "a late put in `move`",
            "a query ends behind the last reshard",
        ],
        Suite::Settings => &[
            "a reshard during which the term grows",
            "a reshard during which the term shrinks",
            "an environment that is refused",
            "a lease of a term that is accepted no more",
            "the items of a key that was cold move",
            "a close by the shorter lifetime",
        ],
    }
}

fn search_against(mutation: Mutation) -> Report {
    search(Configuration::against(mutation), limit_against(mutation))
}

fn search(configuration: Configuration, limit: Limit) -> Report {
    configuration.search(limit, &mut |_| {})
}

fn name(mutation: Mutation) -> String {
    format!("{mutation:?}")
}
