//! `dynashard import`: puts the rows of files or of another table, in turns over their partition keys.
//!
//! An import may end anywhere, and the same command goes on:
//!
//! - A row's version follows from the row (`row.rs`). So to send it again is the same write: a row that is there with its
//!   own version is left alone, and one that is missing is put on condition that nothing lies there.
//! - The state file holds the identity of what is imported and a position: the last row that was read, and which rows before
//!   it are not certainly written (`state.rs`). It is saved before a row goes, with those that go next as sent, so rows that
//!   were never sent are in no doubt and replace what lies there. Only of a row that was sent and not acknowledged nobody
//!   knows; if another item lies under its key, the item may be what a client has made of the row, and it stays.
//! - A put of unknown fate is such a row within a run, too (`send.rs`).
//! - Under random placement a put has no condition, so a row in doubt is looked for in all shards, and is put when it is
//!   still missing and no request from before can take effect any more.
//! - Another table is first copied to a file beside the state (`table.rs`), whose rows have an order to go on in.

mod args;
mod check;
pub(super) mod csv;
pub(super) mod files;
mod gzip;
pub(super) mod input;
pub(super) mod json;
mod lanes;
mod load;
mod manifest;
mod pace;
mod refused;
mod report;
mod row;
mod send;
mod state;
mod table;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dynashard_core::{Attributes, Code};
use dynashard_keys::Placement;
use flate2::Compression;
use futures_util::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

pub(crate) use args::{EXAMPLES, ImportArgs};
use check::{Source, Watch};
pub(super) use csv::{io_error, list_of};
use files::Format;
use input::Input;
use load::Loader;
use refused::{Refusals, RowPlace};
use report::Reporter;
use row::{Keys, Refused};
use send::{Row, Target};
use state::{Identity, State, StateFile};
use table::{SourceTable, look_at};

use super::connect::Connection;
use super::export::form::{self, Columns, Lines};
use super::export::sink::Sink;
use super::{Failure, INTERRUPTED, Stopped, signals};
use crate::signals::TerminationSignals;

/// Rows between the reader and those that are read ahead.
const CHANNEL_ROWS: usize = 64;

/// How often a first pass is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Rows cannot be taken.
const ROWS_REFUSED: &str = "rows_refused";

/// Rows may be written or not, and other items lie under their keys.
const IN_DOUBT: &str = "in_doubt";

pub(crate) async fn run(args: ImportArgs) -> ExitCode {
    let mut reporter = Reporter::begin(args.json);
    let ended = match signals() {
        Ok(signals) => {
            let reporter = &mut reporter;
            let mut run = Run { args: &args, reporter, signals, refusals: Arc::default() };
            Box::pin(run.import()).await
        }
        Err(failure) => Err(failure.into()),
    };
    let mut output = reporter.end();
    let status = match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stopped::Interrupted) => {
            note!("dynashard: interrupted; the same command goes on");
            ExitCode::from(INTERRUPTED)
        }
        Err(Stopped::Failed(failure)) => {
            output.failure(None, &failure);
            ExitCode::FAILURE
        }
    };
    output.end(status)
}

/// An import, what goes on beside it, and what comes of it.
struct Run<'a> {
    args: &'a ImportArgs,
    reporter: &'a mut Reporter,
    signals: TerminationSignals,
    refusals: Arc<Mutex<Refusals>>,
}

/// What the arguments name.
enum Found {
    Files(Input),
    Table(Box<SourceTable>),
}

impl Run<'_> {
    async fn import(&mut self) -> Result<(), Stopped> {
        let args = self.args;
        let connection = args.connect.connect().await?;
        if args.keep_existing && connection.place.settings.placement == Placement::Random {
            let detail =
                "--keep-existing needs to know an item's shard, and the placement is random";
            let code = Code::NotForPlacement.as_str();
            return Err(Failure { code, detail: detail.to_owned() }.into());
        }
        let found = match (&args.from_table, &args.input) {
            (Some(name), _) => {
                let table = SourceTable::find(&connection, name, args.read_units).await?;
                Found::Table(Box::new(table))
            }
            // The parser sees to it that there is a path without a table.
            (None, path) => {
                let path = path.as_deref().unwrap_or(Path::new(""));
                self.writes_elsewhere(path)?;
                let input = Input::find(path, args.format)?;
                self.spares(&input)?;
                Found::Files(input)
            }
        };
        let (table, _) = look_at(&connection, &connection.place.main_table).await?;
        let (keys, from_table) = match &found {
            Found::Table(from) => (from.keys.clone(), from.identity.clone()),
            Found::Files(_) => (keys(args, &connection), String::new()),
        };
        if args.check {
            self.list(false)?;
            return match found {
                Found::Table(from) => self.check_table(&from).await,
                Found::Files(input) => self.check(input, keys).await.map(drop),
            };
        }
        // The place is taken before anything long begins, so that two imports do not go on side by side.
        let beside = || state::default_path(args.input.as_deref().unwrap_or(Path::new("")));
        let state_path = args.state.clone().unwrap_or_else(beside);
        let (file, before) = StateFile::open(&state_path)?;
        if let Some(before) = &before {
            // What an earlier run has copied is of this table.
            let from_table = Identity::from([(FROM_TABLE.to_owned(), from_table.clone())]);
            before.is_of(&from_table, &state_path)?;
        }
        let input = match found {
            Found::Table(from) => self.copy(&from, &file, before.is_some()).await?,
            Found::Files(input) => input,
        };
        self.list(before.is_some())?;
        let source = self.check(input, keys).await?;
        let identity = identity(args, table, from_table, &source);
        if let Some(before) = &before {
            before.is_of(&identity, &state_path)?;
        }
        let state = before.unwrap_or_else(|| State::new(identity));
        Box::pin(self.write(&connection, source, (file, state))).await
    }

    /// Refuses to write files among those of an input: the run that goes on would take them for some of it.
    fn writes_elsewhere(&self, input: &Path) -> Result<(), Failure> {
        let read = [input.to_owned(), input.join("data")];
        let read = read.iter().filter(|path| path.is_dir()).filter_map(|path| files::id(path));
        let read = read.collect::<Vec<_>>();
        let written = [("--refused", &self.args.refused), ("--state", &self.args.state)];
        for (flag, path) in written {
            let Some(path) = path else { continue };
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = files::id(directory.unwrap_or(Path::new(".")));
            if !is_hidden && directory.is_some_and(|directory| read.contains(&directory)) {
                let why = format!(
                    "{flag} {} would lie among the files of the input, and the next run would read it as one: name another \
                     directory",
                    path.display()
                );
                return Err(Failure::bad_argument(why));
            }
        }
        Ok(())
    }

    /// Says what is left out of an input, and refuses to list rows in place of it.
    fn spares(&self, input: &Input) -> Result<(), Failure> {
        if !input.left_out.is_empty() {
            note!("dynashard: {} are left out", input.left_out.join(", "));
        }
        let Some(list) = self.args.refused.as_deref().and_then(files::id) else { return Ok(()) };
        match input.files.iter().find(|file| files::id(&file.path).as_ref() == Some(&list)) {
            Some(file) => Err(files::bad(&file.path, "is the file of --refused, too")),
            None => Ok(()),
        }
    }

    /// Opens the list of the refused rows, if it is to be a file. That of an earlier run goes on with its state.
    fn list(&self, goes_on: bool) -> Result<(), Failure> {
        let path = self.args.refused.as_ref();
        path.map_or(Ok(()), |path| self.refusals.lock().open(path, goes_on))
    }

    /// Shows `add` each item of a table, and returns how many there are.
    async fn each_item(
        &mut self,
        from: &SourceTable,
        is_strong: bool,
        mut add: impl FnMut(Attributes) -> Result<(), Failure>,
    ) -> Result<u64, Stopped> {
        let (mut pages, mut rows) = (from.pages(is_strong), 0);
        loop {
            self.reporter.show("check", rows, None, "");
            let page = tokio::select! {
                page = pages.try_next() => page?,
                () = self.signals.received() => return Err(Stopped::Interrupted),
                () = sleep(LOOK_EVERY) => continue,
            };
            let Some(page) = page else { return Ok(rows) };
            rows += u64::try_from(page.len()).unwrap_or(u64::MAX);
            page.into_iter().try_for_each(&mut add)?;
        }
    }

    /// Looks at each item of a table.
    async fn check_table(&mut self, from: &SourceTable) -> Result<(), Stopped> {
        let refusals = Arc::clone(&self.refusals);
        let examine = |item| {
            if let Err(Refused { key, failure }) = from.keys.item(item) {
                refusals.lock().add(RowPlace::default(), key.as_ref(), &failure);
            }
            Ok(())
        };
        let rows = self.each_item(from, false, examine).await?;
        Ok(self.checked(Ok(rows))?)
    }

    /// Copies a table to a file, unless an earlier run has.
    async fn copy(
        &mut self,
        from: &SourceTable,
        state: &StateFile,
        goes_on: bool,
    ) -> Result<Input, Stopped> {
        let path = state.copy_path();
        if !goes_on {
            let failed = |e: io::Error| files::failed(&path, &e);
            let sink = Sink::create(&path, Some(Compression::fast()));
            let sink = sink.map_err(|failure| Failure { code: files::INPUT_FAILED, ..failure })?;
            let (format, schema) = (form::Format::DynamodbJson, &from.keys.schema);
            let mut lines =
                Lines::begin(format, Columns::default(), schema, sink).map_err(failed)?;
            self.each_item(from, true, |item| lines.write(&item).map_err(failed)).await?;
            lines.finish().and_then(|sink| sink.finish(true)).map_err(failed)?;
        }
        let input = Input::find(&path, Some(Format::JsonLines))?;
        Ok(Input { is_copy: true, ..input })
    }

    /// The first pass.
    async fn check(&mut self, input: Input, keys: Keys) -> Result<Source, Stopped> {
        let watch = Arc::<Watch>::default();
        let (watched, refusals) = (Arc::clone(&watch), Arc::clone(&self.refusals));
        let columns = self.args.number_columns.clone();
        let mut pass = spawn_blocking(move || {
            check::check(input, keys, columns, &mut refusals.lock(), &watched)
        });
        let source = loop {
            self.reporter.show("check", watch.rows.load(Ordering::Relaxed), None, "");
            tokio::select! {
                source = &mut pass => break source.unwrap_or_else(|e| Err(panicked(&e))),
                () = self.signals.received() => {
                    watch.is_cancelled.store(true, Ordering::Relaxed);
                    // It ends with the next row.
                    let _ = pass.await;
                    return Err(Stopped::Interrupted);
                }
                () = sleep(LOOK_EVERY) => {}
            }
        };
        self.checked(source.as_ref().map(|source| source.rows).map_err(Failure::clone))?;
        Ok(source?)
    }

    /// Takes note of what a first pass has found.
    fn checked(&mut self, rows: Result<u64, Failure>) -> Result<(), Failure> {
        let listed = self.refusals.lock().finish();
        let rows = rows?;
        listed?;
        let (refused, is_check) = (self.refusals.lock().count, self.args.check);
        let summary = &mut self.reporter.summary;
        (summary.rows, summary.is_check) = (Some(rows), is_check);
        summary.counts.refused = refused;
        summary.complete = is_check && refused == 0;
        if refused == 0 || (self.args.skip_refused && !is_check) {
            return Ok(());
        }
        let more = if is_check {
            ""
        } else {
            ", and nothing was written; --skip-refused writes the others"
        };
        let detail = format!("{refused} rows cannot be taken{more}");
        Err(Failure { code: ROWS_REFUSED, detail })
    }

    /// Writes what is not written yet.
    async fn write(
        &mut self,
        connection: &Connection,
        source: Source,
        (file, before): (StateFile, State),
    ) -> Result<(), Stopped> {
        let args = self.args;
        let pinned = async {
            let connection = connection.until_pinned().await?;
            let writer = connection.writer(!args.no_growth).await?;
            Ok::<_, Failure>((writer, connection.reader()))
        };
        let (writer, reader) = tokio::select! {
            pinned = pinned => pinned?,
            () = self.signals.received() => return Err(Stopped::Interrupted),
        };
        let (keep_existing, other_item) = (args.keep_existing, args.in_doubt);
        let target = Target { writer, reader, keep_existing, other_item };
        let (sender, receiver) = mpsc::channel(CHANNEL_ROWS);
        let source = Arc::new(source);
        let (reads, position) = (Arc::clone(&source), before.position.clone());
        let end_of_doubt = target.end_of_doubt();
        let reading = spawn_blocking(move || {
            reads.each(|number, item| {
                let Some(may_be_sent) = position.may_be_sent(number) else {
                    return !sender.is_closed();
                };
                let in_doubt = may_be_sent.then_some(end_of_doubt);
                sender.blocking_send(Row { number, item, in_doubt }).is_ok()
            })
        });
        let refused_in_check = self.reporter.summary.counts.refused;
        let loading = Loader::load(self, target, source, (file, before), receiver);
        let (loaded, file) = Box::pin(loading).await;
        let read = reading.await.unwrap_or_else(|error| Err(panicked(&error)));
        self.refusals.lock().finish()?;
        loaded?;
        read?;
        let undecided = self.reporter.summary.undecided;
        let refused = self.reporter.summary.counts.refused - refused_in_check;
        if undecided > 0 {
            let detail = format!(
                "{undecided} rows may have been written before an interruption, and other items lie under their \
                 keys; run the command again with --in-doubt keep or --in-doubt replace"
            );
            return Err(Failure { code: IN_DOUBT, detail }.into());
        }
        file.map_or(Ok(()), StateFile::remove)?;
        if refused > 0 && !args.skip_refused {
            let detail = format!(
                "{refused} rows cannot be taken: DynamoDB rejects them. All others are written"
            );
            return Err(Failure { code: ROWS_REFUSED, detail }.into());
        }
        self.reporter.summary.complete = true;
        Ok(())
    }
}

/// What tells this import from others. `from_table` is that of another table.
fn identity(args: &ImportArgs, table: String, from_table: String, source: &Source) -> Identity {
    let Source { input, keys, numbers, digests, .. } = source;
    let identity = [
        ("table", table),
        (FROM_TABLE, from_table),
        ("input", format!("{digests:?}")),
        ("format", format!("{:?}", input.format)),
        ("pk", keys.partition.clone()),
        ("sk", keys.sort.clone()),
        ("number-columns", format!("{numbers:?}")),
        ("keep-existing", args.keep_existing.to_string()),
        ("skip-refused", args.skip_refused.to_string()),
    ];
    identity.map(|(name, it)| (name.to_owned(), it)).into()
}

/// The name in an identity of the table of `--from-table`.
const FROM_TABLE: &str = "from-table";

fn panicked(error: &JoinError) -> Failure {
    let why = format!("a part of the import failed: {error}");
    dynashard_core::Error::new(Code::Internal, why).into()
}

/// The fields of the key, as the arguments or the table name them.
fn keys(args: &ImportArgs, connection: &Connection) -> Keys {
    let schema = connection.schema().clone();
    let partition = args.pk.clone().unwrap_or_else(|| schema.partition_key_name.clone());
    let sort = args.sk.clone().unwrap_or_else(|| schema.sort_key_name.clone());
    Keys { partition, sort, schema }
}
