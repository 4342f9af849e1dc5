//! That the simulation can fail: what the protocol stands on is broken, and must be found out.

use dynashard_simulation::{Mutation, run};

/// A mutation that breaks something is found out within so many seeds.
const ENOUGH: u64 = 1_000;

/// One that takes a put, its expiry and a slow mover at one item, a request that is both late and dated ahead, or a marker that
/// outlives its reshard.
const ENOUGH_IF_RARE: u64 = 4_000;

#[track_caller]
fn is_found_out(mutation: Mutation, by: &str) {
    let is_rare = matches!(
        mutation,
        Mutation::UnpinnedTtl | Mutation::UncheckedDates | Mutation::ConditionSeesMarker
    );
    let enough = if is_rare { ENOUGH_IF_RARE } else { ENOUGH };
    let violations = (0..enough).flat_map(|seed| run(seed, Some(mutation), false).violations);
    let found = violations.into_iter().find(|violation| violation.contains(by));
    assert!(found.is_some(), "no {by:?} in {enough} seeds of {mutation:?}");
}

/// Against A2: a write under the old layout arrives when the reshard has closed.
/// Invariants I4, I9.
#[test]
fn requests_that_are_executed_after_h_are_found_out() {
    is_found_out(Mutation::LateRequests, "is not at home");
}

/// Against A2: a write that is dated ahead is executed when nobody waits for it any more.
/// Invariants I1, I9.
#[test]
fn requests_that_are_dated_ahead_are_found_out() {
    is_found_out(Mutation::UncheckedDates, "is not linearizable");
}

/// Against A5: an item that has existed for long is not found at its new home by a read that need not be strong.
/// Invariants I1, I5.
#[test]
fn replicas_that_lag_behind_the_close_are_found_out() {
    is_found_out(Mutation::StaleReplicas, "is not linearizable");
}

/// Against A3: a reshard closes while an item is to be seen at neither of its homes.
/// Invariants I1, I10.
#[test]
fn transactions_that_stay_half_visible_after_v_are_found_out() {
    is_found_out(Mutation::SlowVisibility, "is not linearizable");
}

/// Against A1: a frozen writer goes on when the reshard has closed.
/// Invariants I4, I8.
#[test]
fn writes_that_are_sent_after_their_lease_are_found_out() {
    is_found_out(Mutation::UncheckedLeases, "is not at home");
}

/// The SDK's own retries turn a success into a failed precondition.
/// Invariants I1, I6.
#[test]
fn a_store_that_sends_writes_twice_is_found_out() {
    is_found_out(Mutation::StoreRetries, "is not linearizable");
}

/// What an update does not name lies at the old home yet, and is lost.
/// Invariants I1, I2, I14.
#[test]
fn updates_that_ask_for_no_item_at_the_new_home_are_found_out() {
    is_found_out(Mutation::UpdateTrustsNewHome, "is not linearizable");
}

/// A move puts back what it had read before an update.
/// Invariants I2, I35.
#[test]
fn updates_that_keep_the_version_are_found_out() {
    is_found_out(Mutation::UpdateKeepsVersion, "is not linearizable");
}

/// Invariant I16.
#[test]
fn conditions_that_are_judged_of_markers_are_found_out() {
    is_found_out(Mutation::ConditionSeesMarker, "holds what nobody wrote");
}

/// A writer that does not know by which attribute items expire puts one past what lies at its old home. When it has expired,
/// what it replaced shows again.
/// Invariants I1, I3, I14.
#[test]
fn items_that_expire_by_an_attribute_that_nobody_pins_are_found_out() {
    is_found_out(Mutation::UnpinnedTtl, "is not linearizable");
}
