//! The arguments of `dynashard import`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::files::Format;
use super::send::OtherItem;
use crate::operator::connect::ConnectArgs;

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["input", "from_table"]))]
pub(crate) struct ImportArgs {
    /// A file, or a directory of files of one form. They may be compressed with gzip. Standard input
    /// cannot be imported: the input is read twice.
    #[arg(value_name = "FILE|DIR")]
    pub(super) input: Option<PathBuf>,
    /// Copy the items of another table, whose keys may have other names. Its sort key must have the type
    /// of the main table's. It takes --state, as a table has no place for that beside it; there the items are kept
    /// until all are written.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["format", "pk", "sk", "number_columns"])]
    pub(super) from_table: Option<String>,
    /// The form of the input. By default the name tells it: .jsonl, .ndjson and .json are lines of JSON, and
    /// a directory with data/ or manifests is an export of DynamoDB's.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) format: Option<Format>,
    /// The field or column of the partition key. The default is the table's own name for it.
    #[arg(long, value_name = "FIELD")]
    pub(super) pk: Option<String>,
    /// The field or column of the sort key. The default is the table's own name for it.
    #[arg(long, value_name = "FIELD")]
    pub(super) sk: Option<String>,
    /// The columns of a CSV that hold numbers, as a line of CSV: separated by commas, and in quotation marks if
    /// they have some; empty for none. By default these are the columns in which each value is a number that would
    /// be written the same again, as 517 and not 007.
    #[arg(long, value_name = "COLUMNS", value_parser = super::csv::names_of)]
    pub(super) number_columns: Option<BTreeSet<String>>,
    /// Only check each row, and write nothing.
    #[arg(long)]
    pub(super) check: bool,
    /// Write the other rows if some cannot be taken.
    #[arg(long)]
    pub(super) skip_refused: bool,
    /// List every row that cannot be taken in this file, as lines of JSON. An import that goes on adds to it,
    /// and may list a row twice. Without it the first 20 are on stderr.
    #[arg(long, value_name = "FILE")]
    pub(super) refused: Option<PathBuf>,
    /// Leave items that exist as they are. Collections of random placement cannot tell.
    #[arg(long)]
    pub(super) keep_existing: bool,
    /// What to do with a row that an interrupted run may have written, if its key now holds another item.
    /// Without this flag such rows are listed and left alone.
    #[arg(long, value_enum, value_name = "keep|replace")]
    pub(super) in_doubt: Option<OtherItem>,
    /// Let no throttle of this import raise a shard count. Without it collections grow as the stack's
    /// functions let them.
    #[arg(long)]
    pub(super) no_growth: bool,
    /// Rows that are read ahead, so that different keys can take turns: at most so many, and at most 64 MB.
    #[arg(long, value_name = "ROWS", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) look_ahead: u32,
    /// Puts that are under way at once.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) concurrency: u16,
    /// Consume this many read units a second of the other table on average: pages that are read at once are
    /// paid for afterwards.
    #[arg(long, value_name = "UNITS", requires = "from_table")]
    pub(super) read_units: Option<NonZeroU32>,
    /// The file that says how far the import has come. The default lies beside the input:
    /// INPUT.dynashard-import. Required with --from-table, unless that is only checked.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["input", "check"])]
    pub(super) state: Option<PathBuf>,
    /// Print JSON on stdout, one object per line: the progress each second, and the summary.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
The whole input is checked first. If a row cannot be taken, nothing is written, unless --skip-refused is given.
The check keeps 16 bytes a row in memory, to find keys that occur twice.

A state file beside the input says how far the import has come. If it ends early, by a signal, a failure or a
loss of power, the same command goes on: rows that may have been under way are put only if they are missing. The file
is removed at the end.

Exit status: 0 if every row is in the table, or with --skip-refused every row that can be taken (with --check: if
every row can be taken); 1 if not, and stderr says why; 130 after Ctrl-C or SIGTERM.

Examples:
  dynashard import flights.jsonl.gz --stack-name dynashard --check
  dynashard import flights.jsonl.gz --stack-name dynashard
  dynashard import flights.csv --pk origin --sk departure --number-columns flight,distance --stack-name dynashard
  dynashard import AWSDynamoDB/01234567890123-abcdef --stack-name dynashard --refused refused.jsonl --skip-refused
  dynashard import --from-table old-flights --state old-flights.state --read-units 500 --stack-name dynashard
  dynashard import flights.jsonl --endpoint-url http://127.0.0.1:8000 --main-table MainTable";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: ImportArgs,
    }

    const CONNECT: [&str; 3] = ["import", "--stack-name", "stack"];

    fn parsed(args: &[&str]) -> Result<ImportArgs, clap::Error> {
        Command::try_parse_from([&CONNECT[..], args].concat()).map(|command| command.args)
    }

    /// The state of a copy lay in the working directory, so that in another one it began from the first item.
    #[test]
    fn regression_the_state_of_a_copy_depended_on_the_working_directory() {
        let refused = parsed(&["--from-table", "old"]).expect_err("without --state");
        assert!(refused.to_string().contains("--state <FILE>"), "{refused}");
        for args in [
            &["--from-table", "old", "--state", "f"][..],
            &["--from-table", "old", "--check"],
            &["a.csv"],
        ] {
            assert!(parsed(args).is_ok(), "{args:?}");
        }
    }
}
