//! `dynashard keys`: where items lie under each rule, what a physical key says, how even a sample of keys comes
//! out, and which key would be better. It works on keys and files alone.

mod advice;
mod advise;
mod chart;
mod decode;
mod histogram;
mod locate;
mod method;
pub(super) mod sample;
pub(super) mod spread;
pub(super) mod timed;

use std::process::ExitCode;

use advise::AdviseArgs;
use decode::DecodeArgs;
use histogram::HistogramArgs;
use locate::LocateArgs;

use super::Failure;
use super::output::Output;
use super::planning::end;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeysCommand {
    /// Show the shard and the physical partition key of an item under each rule.
    #[command(after_help = locate::EXAMPLES)]
    Locate(LocateArgs),
    /// Show what a physical partition key may say: its logical key and its shard.
    #[command(after_help = decode::EXAMPLES)]
    Decode(DecodeArgs),
    /// Count a sample of keys by shard, test whether the shards are even, and draw them.
    #[command(after_help = histogram::EXAMPLES)]
    Histogram(HistogramArgs),
    /// Judge a partition key by a sample of real rows, and measure better ones.
    #[command(after_help = advise::EXAMPLES)]
    Advise(AdviseArgs),
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
These commands need neither tables nor an AWS account. docs/KEYS.md explains the rules, and when to use which.

  dynashard keys locate --pk EWR --sk 2013-01-01T10:00:00Z#UA1545 --shards 16
  dynashard keys decode 'EWR#~11'
  dynashard keys histogram flights.csv --pk-column origin --sk-column sk --rule xxh64 --shards 16
  dynashard keys advise flights.csv --pk-column origin --sk-column sk --writes-per-sec 5000

Each of them has a --help of its own, and --json.";

pub(crate) fn run(command: &KeysCommand) -> ExitCode {
    let (KeysCommand::Locate(LocateArgs { json, form, .. })
    | KeysCommand::Decode(DecodeArgs { json, form, .. })
    | KeysCommand::Histogram(HistogramArgs { json, form, .. })
    | KeysCommand::Advise(AdviseArgs { json, form, .. })) = command;
    let mut output = Output::of(*form, *json);
    let ended = match command {
        KeysCommand::Locate(args) => locate::run(args, &mut output),
        KeysCommand::Decode(args) => decode::run(args, &mut output),
        KeysCommand::Histogram(args) => histogram::run(args, &mut output),
        KeysCommand::Advise(args) => advise::run(args, &mut output),
    };
    end(output, ended)
}

impl From<dynashard_keys::KeyError> for Failure {
    fn from(error: dynashard_keys::KeyError) -> Self {
        dynashard_core::Error::from(error).into()
    }
}
