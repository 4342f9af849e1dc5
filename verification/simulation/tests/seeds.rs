//! A few hundred seeds, each twice. The command of this crate runs as many more as it is asked for.

use std::num::NonZeroUsize;
use std::thread;

use dynashard_simulation::{Report, run};

const SEEDS: u64 = 400;

/// Runs `check` on every seed, on all processors.
fn for_each_seed(check: impl Fn(u64) -> Report + Sync) -> Vec<Report> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let step = u64::try_from(threads).expect("few processors");
    thread::scope(|scope| {
        let workers = (0..step).map(|first| {
            let check = &check;
            let seeds = (first..SEEDS).step_by(threads);
            scope.spawn(move || seeds.map(check).collect::<Vec<_>>())
        });
        let workers = workers.collect::<Vec<_>>();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

/// Invariants I1, I2, I3, I4, I5, I6.
#[test]
fn no_promise_is_broken_and_every_seed_does_the_same_twice() {
    let reports = for_each_seed(|seed| {
        let report = run(seed, None, false);
        assert!(
            report.violations.is_empty(),
            "{report:#?}\nreplay: cargo run --release -p dynashard-simulation -- --seed {seed} --trace"
        );
        assert_eq!(run(seed, None, false), report, "seed {seed} did not do the same twice");
        report
    });
    let operations = reports.iter().map(|report| report.operations).sum::<u64>();
    let reshards = reports.iter().map(|report| report.reshards).sum::<u64>();
    // A run in which nothing happens breaks no promise either.
    assert!(operations > SEEDS * 50, "{operations} operations");
    assert!(reshards > SEEDS, "{reshards} reshards");
}

#[test]
fn two_seeds_do_not_do_the_same() {
    assert_ne!(run(1, None, false).trace_hash, run(2, None, false).trace_hash);
}
