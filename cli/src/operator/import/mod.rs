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
mod layouts;
mod load;
mod manifest;
mod pace;
mod refused;
mod report;
mod row;
mod send;
mod state;
mod table;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_core::{Attributes, Code, Deadline};
use dynashard_keys::{PartitionKey, Placement};
use futures_util::TryStreamExt;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

pub(crate) use args::{EXAMPLES, ImportArgs};
use check::{Checked, Watch, accepted};
pub(super) use csv::{io_error, list_of};
use files::Format;
use input::Input;
use lanes::Bounds;
use load::{Ended, Figures, Loader};
use refused::{Refusals, RowPlace};
use report::{Reporter, Summary};
use row::{Keys, Refused};
use send::{Row, Rules, Target};
use state::{Identity, Standing, State, StateFile};
use table::{Copy, SourceTable, look_at};

use super::connect::Connection;
use super::{Failure, INTERRUPTED, PATIENCE, signals};
use crate::signals::TerminationSignals;

/// What the rows that are read ahead may take, as the table counts it.
const LOOK_AHEAD_BYTES: usize = 64_000_000;

/// Rows between the reader and those that are read ahead.
const CHANNEL_ROWS: usize = 64;

/// How often a first pass is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Rows cannot be taken.
const ROWS_REFUSED: &str = "rows_refused";

/// Rows may be written or not, and other items lie under their keys.
const IN_DOUBT: &str = "in_doubt";

pub(crate) async fn run(args: ImportArgs) -> ExitCode {
    let (mut reporter, mut summary) = (Reporter::begin(args.json), Summary::begin());
    let ended = match signals() {
        Ok(signals) => {
            let refusals = Arc::<Mutex<Refusals>>::default();
            let (reporter, summary) = (&mut reporter, &mut summary);
            let run = Run { args: &args, reporter, summary, signals, refusals };
            Box::pin(run.import()).await
        }
        Err(failure) => Err(failure),
    };
    let mut output = reporter.end(&mut summary);
    let status = match ended {
        Ok(Ended::Done) if summary.complete => ExitCode::SUCCESS,
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

/// An import, what goes on beside it, and what comes of it.
struct Run<'a> {
    args: &'a ImportArgs,
    reporter: &'a mut Reporter,
    summary: &'a mut Summary,
    signals: TerminationSignals,
    refusals: Arc<Mutex<Refusals>>,
}

/// What the arguments name.
enum Found {
    Files(Input),
    Table(SourceTable),
}

/// What is imported.
struct Source {
    input: Input,
    keys: Keys,
    /// The columns of numbers.
    numbers: BTreeSet<String>,
    checked: Checked,
    /// The collections, with --keep-existing.
    partitions: HashSet<PartitionKey>,
}

impl Source {
    /// Where the row of this number stands.
    fn place(&self, number: u64) -> RowPlace<'_> {
        self.input.place(&self.checked.begins, number)
    }
}

impl Run<'_> {
    async fn import(mut self) -> Result<Ended, Failure> {
        let args = self.args;
        let connection = args.connect.connect().await?;
        if args.keep_existing && connection.settings().placement == Placement::Random {
            return Err(not_for_random());
        }
        let found = match (&args.from_table, &args.input) {
            (Some(name), _) => {
                Found::Table(SourceTable::find(&connection, name, args.read_units).await?)
            }
            // The parser sees to it that there is a path without a table.
            (None, path) => {
                let input = Input::find(path.as_deref().unwrap_or(Path::new("")), args.format)?;
                self.spares(&input)?;
                Found::Files(input)
            }
        };
        let (table, _) = look_at(&connection, connection.main_table()).await?;
        let (keys, from_table) = match &found {
            Found::Table(from) => (from.keys.clone(), Some(from.identity.clone())),
            Found::Files(_) => (keys(args, &connection), None),
        };
        if args.check {
            self.list(false)?;
            let checked = match found {
                Found::Table(from) => self.check_table(&from).await?,
                Found::Files(input) => self.check(input, keys).await?.map(drop),
            };
            return Ok(checked.map_or(Ended::Interrupted, |()| Ended::Done));
        }
        // The place is taken before anything long begins, so that two imports do not go on side by side.
        let beside = || state::default_path(args.input.as_deref().unwrap_or(Path::new("")));
        let state_path = args.state.clone().unwrap_or_else(beside);
        let (file, before) = StateFile::open(&state_path)?;
        if before.as_ref().is_some_and(|before| before.identity.from_table != from_table) {
            return Err(state::mismatch(&state_path, "of another input"));
        }
        let input = match found {
            Found::Table(from) => self.copy(&from, &file, before.is_some()).await?,
            Found::Files(input) => Some(input),
        };
        let Some(input) = input else { return Ok(Ended::Interrupted) };
        self.list(before.is_some())?;
        let Some(source) = self.check(input, keys).await? else { return Ok(Ended::Interrupted) };
        if source.meets_random(&connection).await? {
            return Err(not_for_random());
        }
        let identity = Identity { table, from_table, ..identity(args, &source) };
        let state = match before {
            Some(before) if before.identity != identity => {
                let what = difference(&before.identity, &identity);
                return Err(state::mismatch(&state_path, what));
            }
            Some(before) => before,
            None => State::new(identity),
        };
        Box::pin(self.write(&connection, source, (file, state))).await
    }

    /// Says what is left out of an input, and refuses to list rows in place of it.
    fn spares(&self, input: &Input) -> Result<(), Failure> {
        if !input.left_out.is_empty() {
            note!("dynashard: {} are left out", input.left_out.join(", "));
        }
        let id = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let Some(list) = self.args.refused.as_deref().and_then(id) else { return Ok(()) };
        match input.files.iter().find(|file| id(&file.path) == Some(list)) {
            Some(file) => Err(files::bad(&file.path, "is the file of --refused, too")),
            None => Ok(()),
        }
    }

    /// Opens the list of the refused rows, if it is to be a file. That of an earlier run goes on with its state.
    fn list(&self, goes_on: bool) -> Result<(), Failure> {
        let path = self.args.refused.as_ref();
        path.map_or(Ok(()), |path| lock(&self.refusals).open(path, goes_on))
    }

    /// Shows `add` each item of a table; `None` after a signal.
    async fn each_item(
        &mut self,
        from: &SourceTable,
        is_strong: bool,
        mut add: impl FnMut(Attributes) -> Result<(), Failure>,
    ) -> Result<Option<u64>, Failure> {
        let (mut pages, mut rows) = (from.pages(is_strong), 0);
        loop {
            self.reporter.show("check", rows, None, 0, "");
            let page = tokio::select! {
                page = pages.try_next() => page?,
                () = self.signals.received() => return Ok(None),
                () = sleep(LOOK_EVERY) => continue,
            };
            let Some(page) = page else { return Ok(Some(rows)) };
            rows += u64::try_from(page.len()).unwrap_or(u64::MAX);
            page.into_iter().try_for_each(&mut add)?;
        }
    }

    /// Looks at each item of a table; `None` after a signal.
    async fn check_table(&mut self, from: &SourceTable) -> Result<Option<()>, Failure> {
        let refusals = Arc::clone(&self.refusals);
        let examine = |item| {
            if let Err(Refused { key, failure }) = from.keys.item(item) {
                lock(&refusals).add(RowPlace::default(), key.as_ref(), &failure);
            }
            Ok(())
        };
        match self.each_item(from, false, examine).await? {
            Some(rows) => self.checked(rows).map(Some),
            None => Ok(None),
        }
    }

    /// Copies a table to a file, unless an earlier run has; `None` after a signal.
    async fn copy(
        &mut self,
        from: &SourceTable,
        state: &StateFile,
        goes_on: bool,
    ) -> Result<Option<Input>, Failure> {
        let paths = state.copy_paths();
        if !goes_on {
            let mut copy = Copy::begin(&paths)?;
            let Some(_) = self.each_item(from, true, |item| copy.add(&item)).await? else {
                return Ok(None);
            };
            copy.end()?;
        }
        let input = Input::find(&paths[0], Some(Format::JsonLines))?;
        Ok(Some(Input { is_copy: true, ..input }))
    }

    /// The first pass; `None` after a signal.
    async fn check(&mut self, input: Input, keys: Keys) -> Result<Option<Source>, Failure> {
        let watch = Arc::<Watch>::default();
        let (watched, refusals) = (Arc::clone(&watch), Arc::clone(&self.refusals));
        let (columns, with_partitions) =
            (self.args.number_columns.clone(), self.args.keep_existing);
        let mut pass = spawn_blocking(move || {
            let numbers = match columns {
                Some(columns) => {
                    let named = columns.0.into_iter().collect();
                    input.check_columns(&named)?;
                    named
                }
                None => input.infer_numbers(|| watched.goes_on())?,
            };
            let mut partitions = HashSet::new();
            let examine = |partition: &PartitionKey| {
                if with_partitions && !partitions.contains(partition) {
                    partitions.insert(partition.clone());
                }
            };
            let refusals = &mut lock(&refusals);
            let checked = check::check(&input, &keys, &numbers, refusals, &watched, examine)?;
            Ok::<_, Failure>(Source { input, keys, numbers, checked, partitions })
        });
        let source = loop {
            self.reporter.show("check", watch.rows.load(Ordering::Relaxed), None, 0, "");
            tokio::select! {
                source = &mut pass => break source,
                () = self.signals.received() => {
                    watch.is_cancelled.store(true, Ordering::Relaxed);
                    // It ends with the next row.
                    let _ = pass.await;
                    return Ok(None);
                }
                () = sleep(LOOK_EVERY) => {}
            }
        };
        let source = source.map_err(|e| Failure { code: "internal", detail: e.to_string() });
        let source = source.and_then(|source| source);
        let rows = source.as_ref().map(|source| source.checked.rows);
        let listed = rows.map_or(Ok(()), |rows| self.checked(rows));
        source.and_then(|source| listed.map(|()| Some(source)))
    }

    /// Takes note of what a first pass has found.
    fn checked(&mut self, rows: u64) -> Result<(), Failure> {
        lock(&self.refusals).finish()?;
        let (refused, is_check) = (lock(&self.refusals).count(), self.args.check);
        self.summary.rows = Some(rows);
        self.summary.counts.refused = refused;
        self.summary.is_check = is_check;
        self.summary.complete = is_check && refused == 0;
        if refused == 0 || self.args.skip_refused {
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
        mut self,
        connection: &Connection,
        source: Source,
        (file, before): (StateFile, State),
    ) -> Result<Ended, Failure> {
        let Self { args, reporter, summary, signals, refusals } = &mut self;
        let pinned = async {
            let connection = connection.until_pinned().await?;
            let writer = connection.writer(!args.no_growth).await?;
            Ok::<_, Failure>((writer, connection.reader()))
        };
        let (writer, reader) = tokio::select! {
            pinned = pinned => pinned?,
            () = signals.received() => return Ok(Ended::Interrupted),
        };
        let rules = Rules { keep_existing: args.keep_existing, other_item: args.in_doubt };
        let target = Target { writer, reader, rules };
        let of = source.checked.accepted;
        let mut was_stalled = false;
        let mut show = |figures: Figures| {
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
                Figures { is_stalled: true, .. } => {
                    "; DynamoDB refuses every write, or does not answer"
                }
                Figures { is_waiting: true, .. } => {
                    "; waits until nothing from before can take effect"
                }
                _ => "",
            };
            reporter.show("write", figures.counts.rows(), Some(of), figures.throttles, note);
        };
        let bounds = Bounds {
            rows: usize::try_from(args.look_ahead).unwrap_or(usize::MAX),
            bytes: LOOK_AHEAD_BYTES,
        };
        let rows_before = before.counts.rows();
        let refused_in_check = summary.counts.refused;
        let (sender, receiver) = mpsc::channel(CHANNEL_ROWS);
        let source = Arc::new(source);
        let (reads, position) = (Arc::clone(&source), before.position.clone());
        let end_of_doubt = target.end_of_doubt();
        let reading = spawn_blocking(move || {
            let Source { input, keys, numbers, checked, .. } = &*reads;
            accepted(input, keys, numbers, checked, |number, item| {
                let in_doubt = match position.standing(number) {
                    Standing::Written => return !sender.is_closed(),
                    Standing::InDoubt => Some(end_of_doubt),
                    Standing::NotSent => None,
                };
                sender.blocking_send(Row { number, item, in_doubt }).is_ok()
            })
        });
        let limits = (bounds, usize::from(args.concurrency));
        let mut loader = Loader::new(target, source, (file, before), limits, Arc::clone(refusals));
        let ended = Box::pin(loader.run(receiver, signals, &mut show)).await;
        let Figures { counts, throttles, consumed_wcu, undecided, .. } = loader.figures();
        (summary.throttles, summary.consumed_wcu) = (throttles, consumed_wcu);
        summary.undecided = undecided;
        summary.of_this_run = counts.rows().saturating_sub(rows_before);
        summary.counts = counts;
        summary.counts.refused += refused_in_check;
        let file = loader.into_file();
        let read = reading
            .await
            .unwrap_or_else(|error| Err(Failure { code: "internal", detail: error.to_string() }));
        lock(refusals).finish()?;
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
        if counts.refused > 0 && !args.skip_refused {
            let detail = format!(
                "{} rows cannot be taken: DynamoDB rejects them. All others are written",
                counts.refused
            );
            return Err(Failure { code: ROWS_REFUSED, detail });
        }
        summary.complete = true;
        Ok(Ended::Done)
    }
}

impl Source {
    /// Whether a collection of the input is of random placement, if that matters.
    async fn meets_random(&self, connection: &Connection) -> Result<bool, Failure> {
        let directory = connection.directory();
        for partition in &self.partitions {
            let deadline = Deadline::after(directory.now(), PATIENCE);
            let known = directory.find(partition, deadline).await?;
            if !known.metadata.placement.is_calculated() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What tells an import of files from others.
fn identity(args: &ImportArgs, source: &Source) -> Identity {
    let Source { input, keys, numbers, checked, .. } = source;
    let sizes = input.files.iter().map(|file| file.bytes);
    let numbers = numbers.iter().map(String::as_str).collect::<Vec<_>>();
    Identity {
        table: String::new(),
        from_table: None,
        files: sizes.zip(checked.digests.iter().copied()).collect(),
        options: vec![
            format!("format={:?}", input.format),
            format!("pk={:?}", keys.partition),
            format!("sk={:?}", keys.sort),
            format!("number_columns={numbers:?}"),
            format!("keep_existing={}", args.keep_existing),
            format!("skip_refused={}", args.skip_refused),
        ],
    }
}

/// How an import differs from that of a state.
fn difference(before: &Identity, now: &Identity) -> &'static str {
    if before.table != now.table {
        "to another table"
    } else if before.files != now.files {
        "of another input"
    } else {
        "with other options"
    }
}

fn not_for_random() -> Failure {
    let detail = "--keep-existing needs to know an item's shard, and the placement is random";
    Failure { code: Code::NotForPlacement.as_str(), detail: detail.to_owned() }
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
