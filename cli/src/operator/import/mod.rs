//! `dynashard import`: puts the rows of files or of another table, in turns over their partition keys.

mod args;
mod check;
mod counts;
pub(super) mod csv;
pub(super) mod files;
mod gzip;
pub(super) mod input;
pub(super) mod json;
mod lanes;
mod load;
mod look_ahead;
mod manifest;
mod marks;
mod pace;
mod progress;
mod refused;
mod report;
mod rfc4180;
mod row;
mod send;
mod source;
mod state;
mod table;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dynashard_keys::Placement;
use tokio::sync::mpsc;

pub(crate) use args::{EXAMPLES, ImportArgs};
use counts::Counts;
pub(super) use csv::{io_error, list_of};
use load::{Ended, Loader};
use look_ahead::Bounds;
use progress::Reporter;
use refused::Refusals;
use report::Summary;
use row::Keys;
use send::{OtherItem, Rules, Target};
use source::{Checking, RowsFound, Source};
use state::{Identity, State, StateFile};

use super::connect::Connection;
use super::{Failure, INTERRUPTED, signals};
use crate::signals::TerminationSignals;

/// What the rows that are read ahead may take, as the table counts it.
const LOOK_AHEAD_BYTES: usize = 64_000_000;

/// Rows between the reader and those that are read ahead.
const CHANNEL_ROWS: usize = 64;

pub(crate) async fn run(args: ImportArgs) -> ExitCode {
    let mut reporter = Reporter::begin(args.json);
    let mut summary = Summary::default();
    let ended = Box::pin(import(&args, &mut reporter, &mut summary)).await;
    summary.took(reporter.elapsed());
    let mut output = reporter.into_output();
    summary.print(&mut output);
    let status = match ended {
        Ok(Ended::Done) if summary.is_complete() => ExitCode::SUCCESS,
        Ok(Ended::Done) => ExitCode::FAILURE,
        Ok(Ended::Interrupted) => {
            note!("dynashard: interrupted; the same command goes on");
            ExitCode::from(INTERRUPTED)
        }
        Err(failure) => {
            output.failure(None, &failure);
            ExitCode::FAILURE
        }
    };
    output.end(status)
}

/// What goes on beside an import, and what comes of it.
struct Run<'a> {
    reporter: &'a mut Reporter,
    summary: &'a mut Summary,
    signals: TerminationSignals,
    refusals: Arc<Mutex<Refusals>>,
}

async fn import(
    args: &ImportArgs,
    reporter: &mut Reporter,
    summary: &mut Summary,
) -> Result<Ended, Failure> {
    if args.from_table.is_some() && args.in_doubt == Some(OtherItem::Replace) {
        return Err(not_for_tables());
    }
    let signals = signals()?;
    let connection = args.connect.connect().await?;
    if args.keep_existing && connection.settings().placement == Placement::Random {
        return Err(not_for_random());
    }
    let refusals = Arc::<Mutex<Refusals>>::default();
    let mut run = Run { reporter, summary, signals, refusals };
    let mut source = Source::find(args, &connection).await?;
    let table = table_identity(&connection).await?;
    if let Some(list) = &args.refused {
        source.spares(list)?;
    }
    if args.check {
        list(args, &run, false)?;
        return Ok(match check(args, &mut source, &mut run).await? {
            Some(_) => Ended::Done,
            None => Ended::Interrupted,
        });
    }
    // The place is taken before anything long begins, so that two imports do not go on side by side.
    let (file, before) = StateFile::open(&source.state_path(args))?;
    let state = async {
        if let Some(before) = &before {
            source.could_be(file.path(), before)?;
        }
        list(args, &run, before.is_some())?;
        let Some(rows) = check(args, &mut source, &mut run).await? else { return Ok(None) };
        if args.keep_existing && source.meets_random(&connection).await? {
            return Err(not_for_random());
        }
        let identity = identity(args, table, &source);
        match before {
            Some(before) if before.identity != identity => {
                Err(state::mismatch(file.path(), difference(&before.identity, &identity)))
            }
            Some(before) => Ok(Some((rows, before))),
            None => {
                let new = State::new(identity, Counts::default(), source.beginning());
                Ok(Some((rows, new)))
            }
        }
    };
    match Box::pin(state).await {
        Ok(Some((rows, state))) => {
            Box::pin(write(args, &connection, &source, (file, state), rows, &mut run)).await
        }
        Ok(None) => {
            file.leave();
            Ok(Ended::Interrupted)
        }
        Err(failure) => {
            file.leave();
            Err(failure)
        }
    }
}

/// Opens the list of the refused rows, if it is to be a file. That of an earlier run goes on with its state.
fn list(args: &ImportArgs, run: &Run<'_>, goes_on: bool) -> Result<(), Failure> {
    match &args.refused {
        Some(path) => lock(&run.refusals).open(path, goes_on),
        None => Ok(()),
    }
}

/// The first pass; `None` after a signal.
async fn check(
    args: &ImportArgs,
    source: &mut Source,
    run: &mut Run<'_>,
) -> Result<Option<RowsFound>, Failure> {
    let Run { reporter, summary, signals, refusals } = run;
    let checked = source.check(args, Checking { refusals, reporter, signals }).await;
    let listed = lock(refusals).finish();
    let Some(rows) = checked? else { return Ok(None) };
    listed?;
    let refused = lock(refusals).count();
    summary.checked(rows, refused, args.check);
    if refused == 0 || args.skip_refused {
        return Ok(Some(rows));
    }
    let more =
        if args.check { "" } else { ", and nothing was written; --skip-refused writes the others" };
    let detail = format!("{refused} rows cannot be taken{more}");
    Err(Failure { code: ROWS_REFUSED, detail })
}

/// Writes what is not written yet.
async fn write(
    args: &ImportArgs,
    connection: &Connection,
    source: &Source,
    (file, before): (StateFile, State),
    rows: RowsFound,
    run: &mut Run<'_>,
) -> Result<Ended, Failure> {
    let Run { reporter, summary, signals, refusals } = run;
    let rules = Rules { keep_existing: args.keep_existing, other_item: args.in_doubt };
    let pinned = async {
        let connection = connection.until_pinned().await?;
        let writer = connection.writer(!args.no_growth).await?;
        Ok((writer, connection.reader()))
    };
    let pinned = tokio::select! {
        pinned = pinned => pinned.map(Some),
        () = signals.received() => Ok(None),
    };
    let (writer, reader) = match pinned {
        Ok(Some(pinned)) => pinned,
        other => {
            file.leave();
            return other.map(|_| Ended::Interrupted);
        }
    };
    let target = Target { writer, reader, rules };
    let refused = lock(refusals).count();
    let mut was_stalled = false;
    let mut show = |figures: load::Figures| {
        if figures.is_stalled && !was_stalled {
            reporter.notes(&format!(
                "dynashard: nothing was written for {} s: DynamoDB refuses every write, or does not answer. The \
                 import goes on by itself when that has passed, and ends after {} s",
                load::STALLED.as_secs(),
                load::PATIENCE.as_secs()
            ));
        }
        was_stalled = figures.is_stalled;
        let note = match figures {
            load::Figures { is_stalled: true, .. } => {
                "; DynamoDB refuses every write, or does not answer"
            }
            load::Figures { is_waiting: true, .. } => {
                "; waits until nothing from before can take effect"
            }
            _ => "",
        };
        reporter.show("write", figures.counts.rows(), rows.accepted, figures.throttles, note);
    };
    let bounds = Bounds {
        rows: usize::try_from(args.look_ahead).unwrap_or(usize::MAX),
        bytes: LOOK_AHEAD_BYTES,
    };
    let rows_before = before.counts.rows();
    let (sender, receiver) = mpsc::channel(CHANNEL_ROWS);
    let (reading, marks) = source.read(&before, target.doubt(), refusals, sender);
    let limits = (bounds, usize::from(args.concurrency));
    let mut loader = Loader::new(target, file, before, marks, limits, Arc::clone(refusals));
    let ended = Box::pin(loader.run(receiver, signals, &mut show)).await;
    summary.wrote(loader.figures(), rows_before);
    let refused_since = loader.figures().counts.refused;
    summary.refused(refused + refused_since);
    let file = loader.into_state();
    if !matches!(ended, Ok(Ended::Done)) {
        // It may be waiting for a page.
        reading.abort();
    }
    let read = match reading.await {
        Err(error) if error.is_cancelled() => Ok(()),
        Err(error) => Err(Failure { code: "internal", detail: error.to_string() }),
        Ok(read) => read,
    };
    lock(refusals).finish()?;
    let undecided = summary.undecided();
    let ended = ended?;
    read?;
    if ended == Ended::Interrupted {
        return Ok(ended);
    }
    if undecided > 0 {
        let detail = format!(
            "{undecided} rows may have been written before an interruption, and other items lie under their \
             keys; run the command again with --in-doubt keep or --in-doubt replace"
        );
        return Err(Failure { code: IN_DOUBT, detail });
    }
    file.map_or(Ok(()), StateFile::remove)?;
    if refused_since > 0 && !args.skip_refused {
        let detail = format!(
            "{refused_since} rows cannot be taken: they have changed since they were checked, or DynamoDB \
             rejects them. All others are written"
        );
        return Err(Failure { code: ROWS_REFUSED, detail });
    }
    summary.completed();
    Ok(Ended::Done)
}

/// Rows cannot be taken.
const ROWS_REFUSED: &str = "rows_refused";

/// Rows may be written or not, and other items lie under their keys.
const IN_DOUBT: &str = "in_doubt";

fn identity(args: &ImportArgs, table: String, source: &Source) -> Identity {
    let mut options = source.options();
    options.push(format!("keep_existing={}", args.keep_existing));
    options.push(format!("skip_refused={}", args.skip_refused));
    Identity { table, source: source.identity(), options }
}

/// What tells the main table from any other, also from one that had its name before.
async fn table_identity(connection: &Connection) -> Result<String, Failure> {
    let (name, operator) = (connection.main_table(), connection.operator());
    let table = operator.table(name).await;
    let table =
        table.map_err(|e| Failure::connection(format!("DescribeTable of table {name}: {e}")))?;
    Ok(table::identity_of(name, &operator.place_of_tables(), &table))
}

/// How an import differs from that of a state.
fn difference(before: &Identity, now: &Identity) -> &'static str {
    if before.table != now.table {
        "to another table"
    } else if before.source != now.source {
        "of another input"
    } else {
        "with other options"
    }
}

fn not_for_tables() -> Failure {
    let detail = "--in-doubt replace goes with files only: of a table whole pages are in doubt, so it would \
                  overwrite what clients have changed in rows that were never listed";
    Failure { code: IN_DOUBT, detail: detail.to_owned() }
}

fn not_for_random() -> Failure {
    let detail = "--keep-existing needs to know an item's shard, and the placement is random";
    Failure { code: dynashard_core::Code::NotForPlacement.as_str(), detail: detail.to_owned() }
}

fn lock(refusals: &Mutex<Refusals>) -> MutexGuard<'_, Refusals> {
    refusals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fields of the key, as the arguments or the table name them.
fn keys(args: &ImportArgs, connection: &Connection) -> Keys {
    let schema = connection.schema().clone();
    let partition = args.pk.clone().unwrap_or_else(|| schema.partition_key_name.clone());
    let sort = args.sk.clone().unwrap_or_else(|| schema.sort_key_name.clone());
    Keys { partition, sort, schema }
}
