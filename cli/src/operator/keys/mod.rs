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

use super::Failure;
use super::output::Output;

/// The exit status for keys, columns, files and rows that cannot be used.
const BAD_INPUT: u8 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KeysCommand {
    /// Show the shard and the physical partition key of an item under each rule.
    #[command(after_help = locate::EXAMPLES)]
    Locate(locate::LocateArgs),
    /// Show what a physical partition key may say: its logical key and its shard.
    #[command(after_help = decode::EXAMPLES)]
    Decode(decode::DecodeArgs),
    /// Count a sample of keys by shard, test whether the shards are even, and draw them.
    #[command(after_help = histogram::EXAMPLES)]
    Histogram(histogram::HistogramArgs),
    /// Judge a partition key by a sample of real rows, and measure better ones.
    #[command(after_help = advise::EXAMPLES)]
    Advise(advise::AdviseArgs),
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
These commands need neither tables nor an AWS account. docs/KEYS.md explains the rules, and when to use which.

  dynashard keys locate --pk EWR --sk 2013-01-01T10:00:00Z#UA1545 --shards 16
  dynashard keys decode 'EWR#~11'
  dynashard keys histogram flights.csv --pk-column origin --sk-column sk --rule xxh64 --shards 16
  dynashard keys advise flights.csv --pk-column origin --sk-column sk --writes-per-sec 5000

Each of them has a --help of its own, and --json.";

/// How a command ended that did not fail.
enum Ended {
    Done,
    /// Nothing was calculated, since rows could not be read.
    BadRows,
}

pub(crate) fn run(args: KeysArgs) -> ExitCode {
    let (mut output, ended) = match args.command {
        KeysCommand::Locate(args) => with(args.json, |output| locate::run(&args, output)),
        KeysCommand::Decode(args) => with(args.json, |output| decode::run(&args, output)),
        KeysCommand::Histogram(args) => with(args.json, |output| histogram::run(&args, output)),
        KeysCommand::Advise(args) => with(args.json, |output| advise::run(&args, output)),
    };
    let status = match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::BadRows) => ExitCode::from(BAD_INPUT),
        Err(failure) => {
            output.failure(None, &failure);
            if failure.code == "output_failed" {
                ExitCode::FAILURE
            } else {
                ExitCode::from(BAD_INPUT)
            }
        }
    };
    output.end(status)
}

fn with(
    json: bool,
    command: impl FnOnce(&mut Output) -> Result<Ended, Failure>,
) -> (Output, Result<Ended, Failure>) {
    let mut output = Output::new(json);
    let ended = command(&mut output);
    (output, ended)
}

impl From<dynashard_keys::KeyError> for Failure {
    fn from(error: dynashard_keys::KeyError) -> Self {
        dynashard_core::Error::from(error).into()
    }
}
