//! What a reshard costs, how fast it is, and what those notice who write and read meanwhile.
//!
//! `cargo bench -p dynashard-cli --bench reshard` prints, from one run on one machine:
//!
//! 1. what the mover consumes for each item of 1 KB, and which share of its budget it reaches, with
//!    the table to itself ([`mover`]);
//! 2. how long after the decision writes land in the new shards ([`landing`]);
//! 3. the latency of writes and gets through the API while items move, beside the same while they
//!    rest ([`foreground`]).
//!
//! `-- mover`, `-- landing` and `-- foreground` choose among them, and `-- arriving`, `-- overwriting`,
//! `-- creating` and `-- updating` one of the kinds of traffic of the last.
//!
//! Units come from the `dynamodb` endpoint's own counters and are the same on every machine: the
//! benchmark fails if they are more than allowed. Times are the machine's, and are only reported.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod collection;
#[path = "../common/mod.rs"]
mod common;
mod foreground;
mod landing;
mod mover;

use std::process::ExitCode;

use common::{Failure, stack_of, stack_options};
use dynashard_local::{Stack, StackOptions};
use foreground::Traffic;

/// What must hold of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Required {
    AtMost(f64),
    AtLeast(f64),
}

impl Required {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(most) => figure <= most,
            Self::AtLeast(least) => figure >= least,
        }
    }
}

/// Prints one figure, and what is required of it, if anything is. Returns whether it holds.
pub(crate) fn report(what: &str, figure: f64, required: Option<Required>) -> bool {
    let Some(required) = required else {
        println!("  {what:<58} {figure:>9.3}");
        return true;
    };
    let holds = required.holds(figure);
    let bound = match required {
        Required::AtMost(most) => format!("at most {most}"),
        Required::AtLeast(least) => format!("at least {least}"),
    };
    let verdict = if holds { "holds" } else { "DOES NOT HOLD" };
    println!("  {what:<58} {figure:>9.3}   {bound}: {verdict}");
    holds
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    // Cargo passes options of its own.
    let chosen = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect::<Vec<_>>();
    let is_named = |part: &str| chosen.iter().any(|name| name == part);
    let is_chosen = |part: &str| chosen.is_empty() || is_named(part);
    let options = stack_options().await?;
    let mut costs_hold = true;
    if is_chosen("mover") {
        let stack = Stack::start(with(&options, mover::SETTINGS)).await?;
        costs_hold = Box::pin(mover::measure(&stack)).await?;
        stack.shutdown().await;
    }
    if is_chosen("landing") {
        let stack = Stack::start(with(&options, landing::SETTINGS)).await?;
        Box::pin(landing::measure(&stack)).await?;
        stack.shutdown().await;
    }
    let mut traffic = Traffic::ALL.to_vec();
    if !is_chosen("foreground") {
        traffic.retain(|traffic| is_named(traffic.name()));
    }
    for traffic in traffic {
        let options = stack_of(&options, foreground::PARTITION_WCU, foreground::SETTINGS);
        let stack = Stack::start(options).await?;
        Box::pin(foreground::measure(&stack, traffic)).await?;
        stack.shutdown().await;
    }
    Ok(if costs_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with(options: &StackOptions, settings: &[(&str, &str)]) -> StackOptions {
    let overrides = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    StackOptions { overrides: overrides.collect(), ..options.clone() }
}
