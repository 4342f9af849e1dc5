//! `dynashard export`: writes the items of collections to a file, in order.

pub(super) mod form;
pub(super) mod sink;
mod walk;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use dynashard_core::Attributes;
use dynashard_core::ports::Consistency;
use dynashard_keys::PartitionKey;
use flate2::Compression;
use serde::Serialize;

use form::{Columns, Format, Lines};
use sink::Sink;
use walk::{Progress, Walk};

use super::connect::{ConnectArgs, Connection};
use super::import::list_of;
use super::output::{Activity, Output};
use super::scan::ReadRate;
use super::shell::quoted;
use super::{Failure, INTERRUPTED, Stopped, UNREAD, partition_key, signals};
use crate::signals::TerminationSignals;

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["pk", "all"]))]
pub(crate) struct ExportArgs {
    /// Partition key of a collection; may be repeated.
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pk: Vec<PartitionKey>,
    /// Export every collection. The command scans the main table for them, which reads all of it once more,
    /// and keeps a hash of 16 bytes for each.
    #[arg(long)]
    all: bool,
    /// The form of the file. A CSV is made in two passes, since its columns have to be known first.
    #[arg(long, value_enum, value_name = "NAME", default_value = "json-lines")]
    format: Format,
    /// The file, or - for stdout. While it is incomplete, its name ends in .partial.
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Compress it with gzip.
    #[arg(long)]
    gzip: bool,
    /// Read with strong consistency: it consumes twice the read units, and includes every write that was
    /// answered before.
    #[arg(long)]
    consistent: bool,
    /// Consume this many read units a second on average: pages that are read at once are paid for
    /// afterwards. Without it the tables are read as fast as they answer.
    #[arg(long, value_name = "UNITS")]
    read_units: Option<NonZeroU32>,
    /// Print the summary as one line of JSON on stdout. Takes --output with a file.
    #[arg(long, requires = "output")]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What follows the arguments in `--help`.
pub(crate) const EXAMPLES: &str = "\
Forms:
  json-lines     plain JSON. Binary values become base64 and sets become arrays; the summary counts them
  csv            strings and numbers. Other values become text; the summary counts them, and names the columns for
                 `import --number-columns`
  dynamodb-json  {\"Item\":{...}} with DynamoDB's types, as its exports to S3 have it: nothing is lost

Exit status: 0 if everything was written, or the reader of stdout closed it; 1 if not, and a line on stderr says
why; 130 after Ctrl-C or SIGTERM. An export that ends early says which collection is incomplete.

Examples:
  dynashard export --stack-name dynashard --pk EWR > ewr.jsonl
  dynashard export --stack-name dynashard --pk EWR --pk JFK --format csv --output flights.csv
  dynashard export --stack-name dynashard --all --format dynamodb-json --gzip --output all.json.gz
  dynashard export --endpoint-url http://127.0.0.1:8000 --main-table MainTable --all";

pub(crate) async fn run(args: ExportArgs) -> ExitCode {
    let mut progress = Progress::default();
    let mut output = Output::new(args.json);
    if args.json && sink::is_stdout(&args.output) {
        let why = "--json prints the summary on stdout, where the items would be: name a file with --output";
        output.failure(None, &Failure::bad_argument(why));
        return output.end(ExitCode::FAILURE);
    }
    let ended = Box::pin(export(&args, &mut progress, &mut output)).await;
    let (status, failure) = match ended {
        Ok(()) => return output.end(ExitCode::SUCCESS),
        Err(Stopped::Interrupted) => (ExitCode::from(INTERRUPTED), None),
        // `head` has its lines.
        Err(Stopped::Failed(failure)) if failure.code == UNREAD => return ExitCode::SUCCESS,
        Err(Stopped::Failed(failure)) => (ExitCode::FAILURE, Some(failure)),
    };
    let Progress { collections, items, present, .. } = &progress;
    let present = match present {
        None => String::new(),
        Some((partition, None)) => format!(", and nothing of {:?}", partition.as_str()),
        Some((partition, Some(sort))) => {
            format!(", and {:?} up to the sort key {sort:?}", partition.as_str())
        }
    };
    // What could not be written was counted before.
    let is_lost = failure.as_ref().is_some_and(|failure| failure.code == sink::OUTPUT_FAILED);
    let holds = if is_lost { "holds less than" } else { "holds" };
    note!(
        "dynashard: incomplete: {} {holds} {collections} whole collections{present}: {items} items",
        sink::name(&args.output)
    );
    if let Some(failure) = failure {
        output.failure(None, &failure);
    }
    output.end(status)
}

/// `{"event":"summary", ...}`
#[derive(Serialize)]
struct Summary<'a> {
    collections: u64,
    items: u64,
    /// Values that an import of the file reads as another type.
    changed_values: u64,
    /// For `import --number-columns`; of a CSV only.
    #[serde(skip_serializing_if = "Option::is_none")]
    number_columns: Option<&'a [String]>,
    /// Keys in the table that are not those of collections.
    foreign_keys: u64,
    /// Items that are cells of counters.
    cells: u64,
    consumed_rcu: f64,
}

async fn export(
    args: &ExportArgs,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Stopped> {
    let mut signals = signals()?;
    let connection = args.connect.connect().await?;
    let schema = connection.schema();
    let activity = Activity::begin(!args.json);
    let mut columns = Columns::default();
    if args.format == Format::Csv {
        let mut first = Progress::default();
        let mut see = |item: Attributes, progress: &Progress| {
            columns.see(&item);
            activity.says(|| format!("columns: {} items", progress.items));
            Ok(())
        };
        walk(args, &connection, &mut signals, &mut first).run(&mut see).await?;
        progress.consumed_rcu += first.consumed_rcu;
    }
    let numbers = columns.numbers(schema);
    let sink = Sink::create(&args.output, args.gzip.then(Compression::default))?;
    let failed = |error: std::io::Error| sink::failed(&args.output, &error);
    let mut lines = Lines::begin(args.format, columns, schema, sink).map_err(failed)?;
    let mut write = |item: Attributes, progress: &Progress| {
        lines.write(&item).map_err(failed)?;
        activity.says(|| {
            let Progress { items, collections, consumed_rcu, .. } = progress;
            format!("{items} items, {collections} whole collections, {consumed_rcu:.0} read units")
        });
        Ok(())
    };
    let ended = walk(args, &connection, &mut signals, progress).run(&mut write).await;
    drop(activity);
    let changed_values = lines.changed();
    // What was written of an incomplete file is to be readable.
    let finished = lines.finish().and_then(|sink| sink.finish(ended.is_ok())).map_err(failed);
    ended?;
    finished?;
    let Progress { collections, items, foreign, cells, consumed_rcu, .. } = *progress;
    let number_columns = (args.format == Format::Csv).then_some(&*numbers);
    let foreign_keys = foreign;
    output.event(
        "summary",
        &Summary {
            collections,
            items,
            changed_values,
            number_columns,
            foreign_keys,
            cells,
            consumed_rcu,
        },
    );
    if changed_values > 0 {
        note!(
            "dynashard: {changed_values} values have types that this form cannot hold; dynamodb-json holds all"
        );
    }
    if args.format == Format::Csv {
        note!("dynashard: import it with --number-columns {}", quoted(&list_of(&numbers)));
    }
    if foreign > 0 {
        note!(
            "dynashard: {foreign} items lie under keys that no collection has, and were left out"
        );
    }
    if cells > 0 {
        note!("dynashard: {cells} items are cells of counters, and were left out");
    }
    Ok(())
}

fn walk<'a>(
    args: &'a ExportArgs,
    connection: &'a Connection,
    signals: &'a mut TerminationSignals,
    progress: &'a mut Progress,
) -> Walk<'a> {
    let consistency = if args.consistent { Consistency::Strong } else { Consistency::Eventual };
    let (reader, rate) = (connection.reader(), ReadRate::new(args.read_units));
    Walk { connection, reader, partitions: &args.pk, consistency, rate, signals, progress }
}
