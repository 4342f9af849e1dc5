//! `dynashard-differential`: sends programs to both sides, and prints each that they answer otherwise, made small.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::{Parser, ValueEnum};
use dynashard_differential::{
    Endpoint, Engine, Mutation, Setting, Side, Sides, Sketch, Tally, minimise, program, run,
};

/// Sends random programs to the plain engine and through the endpoint to another one, and compares the answers.
#[derive(Debug, Parser)]
#[command(name = "dynashard-differential", version)]
struct Args {
    /// How many programs
    #[arg(long, default_value_t = 1_000)]
    programs: u64,
    /// The seed of the first of them
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many shards the keys have
    #[arg(long, value_enum, default_value_t = Setting::Cold)]
    setting: Setting,
    /// Compare with a second engine that has this fault
    #[arg(long, value_enum)]
    mutation: Option<MutationName>,
    /// Compare with a second engine, without the endpoint
    #[arg(long)]
    plain: bool,
    /// End after so many kinds of differences
    #[arg(long, default_value_t = 20)]
    most: usize,
    /// Print the programs, and run none
    #[arg(long)]
    print: bool,
    /// How many threads; as many as there are processors, if not given
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MutationName {
    KeepsVersion,
    DropsFilter,
    IgnoresReturnValues,
    LosesBracketedCondition,
    JoinsByAnd,
    ShowsFailedItem,
    CountsPassedAlone,
    ForgetsDirection,
    EndsAtEmptyPage,
    ForgetsToken,
    WritesBatchInParts,
    SwapsItems,
    LooksAhead,
    ForgetsTies,
}

impl From<MutationName> for Mutation {
    fn from(name: MutationName) -> Self {
        Self::ALL[name as usize]
    }
}

fn main() -> io::Result<ExitCode> {
    let args = Args::parse();
    let end = args.seed.saturating_add(args.programs);
    if args.print {
        (args.seed..end).for_each(|seed| print!("{}", program(seed, args.setting).to_curl()));
        return Ok(ExitCode::SUCCESS);
    }
    let count = args.threads.map_or_else(
        || thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );
    let (next, kinds) = (AtomicU64::new(args.seed), Mutex::default());
    let tallies = thread::scope(|scope| {
        let work = || scope.spawn(|| run_all(&args, &next, end, &kinds));
        let threads = (0..count).map(|_| work()).collect::<Vec<_>>();
        let joined = threads.into_iter().map(|thread| thread.join().expect("a thread ends"));
        joined.collect::<io::Result<Vec<_>>>()
    })?;
    let mut tally = Tally::default();
    for part in tallies {
        tally.add(part);
    }
    let kinds = kinds.into_inner().unwrap_or_default();
    let failed = kinds.values().sum::<u64>();
    print!("{tally}");
    for (kind, times) in &kinds {
        println!("{times} times: {kind}");
    }
    println!("{} programs, {failed} differences that nothing permits", tally.programs);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs programs as long as there are any, on sides of its own.
fn run_all(
    args: &Args,
    next: &AtomicU64,
    end: u64,
    kinds: &Mutex<BTreeMap<String, u64>>,
) -> io::Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let plain = Engine::start().await?;
        let other: Box<dyn Side> = match (args.mutation, args.plain) {
            (Some(mutation), _) => Box::new(Sketch::new(Engine::start().await?, mutation.into())),
            (None, true) => Box::new(Engine::start().await?),
            (None, false) => Box::new(Endpoint::start(args.setting).await?),
        };
        let sides = Sides { plain: &plain, other: &*other, setting: args.setting };
        let (mut tally, mut runs) = (Tally::default(), 0);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let known = kinds.lock().expect("no thread panics").len();
            if seed >= end || known >= args.most {
                return Ok(tally);
            }
            runs += 1;
            let whole = program(seed, args.setting);
            for failure in run(&whole, runs, sides, &mut tally).await? {
                if count(kinds, failure.exchange.kind()) == 1 {
                    let (small, failure) = minimise(&whole, failure, runs, sides).await?;
                    runs += 10_000;
                    println!("seed {seed} failed:\n{}{failure}\n", small.to_curl());
                }
            }
        }
    })
}

/// How often this kind was met, with this time.
fn count(kinds: &Mutex<BTreeMap<String, u64>>, kind: String) -> u64 {
    let mut kinds = kinds.lock().expect("no thread panics");
    let times = kinds.entry(kind).or_default();
    *times += 1;
    *times
}
