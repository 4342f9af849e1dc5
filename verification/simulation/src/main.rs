//! `dynashard-simulation`: runs many seeds, or one with everything that happens in it.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use clap::{Parser, ValueEnum};
use dynashard_simulation::{Mutation, Report, run};

/// Runs the system over a simulated DynamoDB, and looks for a broken promise.
#[derive(Debug, Parser)]
#[command(name = "dynashard-simulation", version)]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed alone
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Write down everything that happens
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Break something that the protocol stands on
    #[arg(long, value_enum)]
    mutation: Option<MutationName>,
    /// Run each seed once, and not twice to see that it does the same
    #[arg(long)]
    once: bool,
    /// How many threads; as many as there are processors, if not given
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MutationName {
    LateRequests,
    SlowVisibility,
    UncheckedLeases,
    StoreRetries,
    StaleReplicas,
    UncheckedDates,
    UnpinnedTtl,
    UpdateTrustsNewHome,
    UpdateKeepsVersion,
    ConditionSeesMarker,
}

impl From<MutationName> for Mutation {
    fn from(name: MutationName) -> Self {
        match name {
            MutationName::LateRequests => Self::LateRequests,
            MutationName::SlowVisibility => Self::SlowVisibility,
            MutationName::UncheckedLeases => Self::UncheckedLeases,
            MutationName::StoreRetries => Self::StoreRetries,
            MutationName::StaleReplicas => Self::StaleReplicas,
            MutationName::UncheckedDates => Self::UncheckedDates,
            MutationName::UnpinnedTtl => Self::UnpinnedTtl,
            MutationName::UpdateTrustsNewHome => Self::UpdateTrustsNewHome,
            MutationName::UpdateKeepsVersion => Self::UpdateKeepsVersion,
            MutationName::ConditionSeesMarker => Self::ConditionSeesMarker,
        }
    }
}

#[derive(Debug, Default)]
struct Summary {
    runs: u64,
    failed: Vec<u64>,
    operations: u64,
    reshards: u64,
    virtual_secs: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (from, seeds) = args.seed.map_or((args.from, args.seeds), |seed| (seed, 1));
    let threads = args.threads.map_or_else(
        || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );
    let summary = run_all(&args, from, seeds, threads);
    println!(
        "{} seeds, {} operations, {} reshards, {} h of virtual time, {} failed",
        summary.runs,
        summary.operations,
        summary.reshards,
        summary.virtual_secs / 3_600,
        summary.failed.len(),
    );
    if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(args: &Args, from: u64, seeds: u64, threads: usize) -> Summary {
    let end = from.saturating_add(seeds);
    let next = AtomicU64::new(from);
    let (sender, reports) = mpsc::channel();
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send(run_one(args, seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let shows_progress = std::io::stderr().is_terminal();
        let step = if shows_progress { 50 } else { (seeds / 20).max(100) };
        for report in reports {
            summary.take(args, &report);
            if summary.runs.is_multiple_of(step) && summary.runs < seeds {
                let (end, failed) = if shows_progress { ("\r", "") } else { ("\n", "") };
                eprint!(
                    "{} of {seeds} seeds, {} failed{failed}{end}",
                    summary.runs,
                    summary.failed.len()
                );
            }
        }
    });
    summary
}

fn run_one(args: &Args, seed: u64) -> Report {
    let mutation = args.mutation.map(Mutation::from);
    let mut report = run(seed, mutation, args.trace);
    if !args.once && !args.trace {
        let again = run(seed, mutation, false);
        if again != report {
            report.violations.push("the second run did not do the same as the first".to_owned());
        }
    }
    report
}

impl Summary {
    fn take(&mut self, args: &Args, report: &Report) {
        self.runs += 1;
        self.operations += report.operations;
        self.reshards += report.reshards;
        self.virtual_secs += report.virtual_time.as_secs();
        if report.violations.is_empty() {
            return;
        }
        self.failed.push(report.seed);
        let mutation = args.mutation.and_then(|name| name.to_possible_value());
        let mutation =
            mutation.map_or_else(String::new, |name| format!(" --mutation {}", name.get_name()));
        println!("seed {} failed:", report.seed);
        for violation in &report.violations {
            println!("  {violation}");
        }
        println!(
            "  replay: cargo run --release -p dynashard-simulation -- --seed {} --trace{mutation}",
            report.seed
        );
    }
}
