//! Counters under throttles, kills, freezes and lost answers.

use dynashard_simulation::{Mutation, run_counters};

const SEEDS: u64 = 100;

/// What was acknowledged is counted once, what nobody knows once or never, and no bound is ever passed; an add is refused only where
/// the whole does not cover it. Invariants I6, I38.
#[test]
fn counters_are_exact_and_keep_to_their_bounds_whoever_is_killed() {
    let (mut operations, mut cells) = (0, 0);
    for seed in 0..SEEDS {
        let (report, of_this) = run_counters(seed, None, false);
        assert!(
            report.violations.is_empty(),
            "replay: run_counters({seed}, None, true): {report:#?}"
        );
        assert_eq!(
            run_counters(seed, None, false).0,
            report,
            "seed {seed} did not do the same twice"
        );
        operations += report.operations;
        cells += u64::try_from(of_this).expect("few");
    }
    // Counters of one cell have nothing to share.
    assert!(
        operations > SEEDS * 100 && cells > SEEDS * 9,
        "{operations} operations, {cells} cells"
    );
}

#[test]
fn cells_that_give_what_they_do_not_have_are_found_out() {
    let mut violations = (0..SEEDS)
        .flat_map(|seed| run_counters(seed, Some(Mutation::UncheckedRoom), false).0.violations);
    assert!(violations.any(|violation| violation.contains("it was -")));
}
