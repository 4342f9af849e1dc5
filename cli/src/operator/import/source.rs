//! Where the rows come from: files, or another table.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dynashard_aws::OsEntropy;
use dynashard_core::Deadline;
use dynashard_core::ports::Entropy;
use dynashard_keys::PartitionKey;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::args::ImportArgs;
use super::check::{Checked, Watch, accepted, check};
use super::files;
use super::input::Input;
use super::load::Read;
use super::marks::{
    Before, Marks, PageMarks, Progress, RowMarks, RowProgress, SegmentProgress, Standing,
};
use super::progress::Reporter;
use super::refused::Refusals;
use super::row::Keys;
use super::send::{Doubt, Row};
use super::state::{self, State};
use super::table::{Reading, SEGMENTS, SourceTable};
use crate::operator::connect::Connection;
use crate::operator::{Failure, PATIENCE};
use crate::signals::TerminationSignals;

/// Where the rows come from.
pub(super) enum Source {
    Files(Box<Files>),
    Table(Box<SourceTable>),
}

/// Files, and what the first pass has found.
pub(super) struct Files {
    path: PathBuf,
    input: Arc<Input>,
    keys: Arc<Keys>,
    numbers: Arc<BTreeSet<String>>,
    checked: Arc<Checked>,
    /// With --keep-existing.
    partitions: HashSet<PartitionKey>,
}

/// What goes on beside a first pass.
pub(super) struct Checking<'a> {
    pub(super) refusals: &'a Arc<Mutex<Refusals>>,
    pub(super) reporter: &'a mut Reporter,
    pub(super) signals: &'a mut TerminationSignals,
}

/// How many rows the first pass has found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowsFound {
    pub(super) rows: Option<u64>,
    /// How many are to be written.
    pub(super) accepted: Option<u64>,
}

/// How often a first pass is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Source {
    /// Finds the files, or looks at the keys of the table.
    pub(super) async fn find(args: &ImportArgs, connection: &Connection) -> Result<Self, Failure> {
        if let Some(name) = &args.from_table {
            let table = SourceTable::find(connection, name, args.read_units).await?;
            return Ok(Self::Table(Box::new(table)));
        }
        // The parser sees to it that there is one of the two.
        let path = args.input.clone().unwrap_or_default();
        let input = Input::find(&path, args.format)?;
        if !input.left_out.is_empty() {
            note!("dynashard: {} are left out", input.left_out.join(", "));
        }
        Ok(Self::Files(Box::new(Files {
            input: Arc::new(input),
            path,
            keys: Arc::new(super::keys(args, connection)),
            numbers: Arc::default(),
            checked: Arc::default(),
            partitions: HashSet::new(),
        })))
    }

    /// Where the state of the import is.
    pub(super) fn state_path(&self, args: &ImportArgs) -> PathBuf {
        match (&args.state, self) {
            (Some(path), _) => path.clone(),
            (None, Self::Files(files)) => state::default_path(&files.path),
            // Only a check goes without, and that has no state.
            (None, Self::Table(_)) => PathBuf::new(),
        }
    }

    /// Refuses to list rows in place of the input.
    pub(super) fn spares(&self, list: &Path) -> Result<(), Failure> {
        let id = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let (Self::Files(files), Some(list_id)) = (self, id(list)) else { return Ok(()) };
        match files.input.files.iter().find(|file| id(&file.path) == Some(list_id)) {
            Some(file) => Err(files::bad(&file.path, "is the file of --refused, too")),
            None => Ok(()),
        }
    }

    /// Refuses a state that is certainly of another import, before the first pass.
    pub(super) fn could_be(&self, path: &Path, before: &State) -> Result<(), Failure> {
        let could_be = match (&before.identity.source, self) {
            (state::Source::Files(before), Self::Files(files)) => {
                let sizes = files.input.files.iter().map(|file| file.bytes);
                before.iter().map(|(bytes, _)| *bytes).eq(sizes)
            }
            (before, now) => *before == now.identity(),
        };
        if could_be { Ok(()) } else { Err(state::mismatch(path, "of another input")) }
    }

    /// Looks at each row before any is written; `None` after a signal. The items of a table of which some
    /// may be refused are looked at once only.
    pub(super) async fn check(
        &mut self,
        args: &ImportArgs,
        checking: Checking<'_>,
    ) -> Result<Option<RowsFound>, Failure> {
        match self {
            Self::Files(files) => files.check(args, checking).await,
            Self::Table(_) if args.skip_refused && !args.check => Ok(Some(RowsFound::default())),
            Self::Table(table) => {
                let Checking { refusals, reporter, signals } = checking;
                let rows = Arc::<AtomicU64>::default();
                let pass = table.check(refusals, &rows);
                let mut pass = std::pin::pin!(pass);
                loop {
                    reporter.show("check", rows.load(Ordering::Relaxed), None, 0, "");
                    tokio::select! {
                        done = &mut pass => { done?; break }
                        () = signals.received() => return Ok(None),
                        () = sleep(LOOK_EVERY) => {}
                    }
                }
                let rows = rows.load(Ordering::Relaxed);
                let refused = refusals.lock().unwrap_or_else(PoisonError::into_inner).count();
                Ok(Some(RowsFound { rows: Some(rows), accepted: Some(rows - refused) }))
            }
        }
    }

    /// Whether a collection of the input is of random placement.
    pub(super) async fn meets_random(&self, connection: &Connection) -> Result<bool, Failure> {
        let Self::Files(files) = self else { return Ok(false) };
        let directory = connection.directory();
        for partition in &files.partitions {
            let deadline = Deadline::after(directory.now(), PATIENCE);
            let known = directory.find(partition, deadline).await?;
            if !known.metadata.placement.is_calculated() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a state file says of it.
    pub(super) fn identity(&self) -> state::Source {
        match self {
            Self::Files(files) => {
                let sizes = files.input.files.iter().map(|file| file.bytes);
                state::Source::Files(sizes.zip(files.checked.digests.iter().copied()).collect())
            }
            Self::Table(table) => state::Source::Table(table.identity().to_owned()),
        }
    }

    /// What decides which rows there are.
    pub(super) fn options(&self) -> Vec<String> {
        let Self::Files(files) = self else { return Vec::new() };
        let Keys { partition, sort, .. } = &*files.keys;
        let numbers = files.numbers.iter().map(String::as_str).collect::<Vec<_>>();
        vec![
            format!("format={:?}", files.input.format),
            format!("pk={partition:?}"),
            format!("sk={sort:?}"),
            format!("number_columns={numbers:?}"),
        ]
    }

    /// What an import begins with.
    pub(super) fn beginning(&self) -> Progress {
        match self {
            Self::Files(_) => Progress::Rows(RowProgress::default()),
            Self::Table(_) => Progress::Segments(vec![SegmentProgress::default(); SEGMENTS]),
        }
    }

    /// Reads the rows that are not certainly written yet, until nobody takes them any more.
    pub(super) fn read(
        &self,
        before: &State,
        doubt: Doubt,
        refusals: &Arc<Mutex<Refusals>>,
        sender: mpsc::Sender<Read>,
    ) -> (JoinHandle<Result<(), Failure>>, Marks) {
        match (self, &before.progress) {
            (Self::Table(table), Progress::Segments(segments)) => {
                let (table, segments) = (table.clone(), segments.clone());
                let marks = Marks::Pages(PageMarks::from(&segments, before.counts));
                let reading =
                    Reading { refusals: Arc::clone(refusals), next_number: Arc::default() };
                let reading = async move { table.read(segments, doubt, reading, sender).await };
                (tokio::spawn(reading), marks)
            }
            (Self::Files(files), Progress::Rows(progress)) => {
                let counts = before.counts;
                let before = Before::of(progress);
                let marks = Marks::Rows(RowMarks::from(&before, counts));
                (files.read(before, doubt, sender), marks)
            }
            // A state with the identity of this source has its kind of progress.
            _ => (tokio::spawn(async { Ok(()) }), Marks::Rows(RowMarks::default())),
        }
    }
}

impl Files {
    async fn check(
        &mut self,
        args: &ImportArgs,
        checking: Checking<'_>,
    ) -> Result<Option<RowsFound>, Failure> {
        let Checking { refusals, reporter, signals } = checking;
        let watch = Arc::<Watch>::default();
        let (input, keys, refusals) =
            (Arc::clone(&self.input), Arc::clone(&self.keys), Arc::clone(refusals));
        let columns = args.number_columns.clone();
        let (with_partitions, watched) = (args.keep_existing, Arc::clone(&watch));
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
            let seed = OsEntropy.next_u64();
            let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let examine = |partition: &PartitionKey| {
                if with_partitions && !partitions.contains(partition) {
                    partitions.insert(partition.clone());
                }
            };
            let checked = check(&input, &keys, &numbers, seed, &mut refusals, &watched, examine)?;
            Ok::<_, Failure>((numbers, checked, partitions))
        });
        let found = loop {
            reporter.show("check", watch.rows.load(Ordering::Relaxed), None, 0, "");
            tokio::select! {
                found = &mut pass => break found,
                () = signals.received() => {
                    watch.is_cancelled.store(true, Ordering::Relaxed);
                    // It ends with the next row.
                    let _ = pass.await;
                    return Ok(None);
                }
                () = sleep(LOOK_EVERY) => {}
            }
        };
        let found = found.map_err(|e| Failure { code: "internal", detail: e.to_string() })?;
        let (numbers, checked, partitions) = found?;
        let rows = RowsFound { rows: Some(checked.rows), accepted: Some(checked.accepted) };
        self.numbers = Arc::new(numbers);
        self.checked = Arc::new(checked);
        self.partitions = partitions;
        Ok(Some(rows))
    }

    fn read(
        &self,
        before: Before,
        doubt: Doubt,
        sender: mpsc::Sender<Read>,
    ) -> JoinHandle<Result<(), Failure>> {
        let (input, keys) = (Arc::clone(&self.input), Arc::clone(&self.keys));
        let (numbers, checked) = (Arc::clone(&self.numbers), Arc::clone(&self.checked));
        spawn_blocking(move || {
            let mut file = Arc::<str>::default();
            accepted(&input, &keys, &numbers, &checked, |number, place, item| {
                let in_doubt = match before.standing(number) {
                    Standing::Written => return !sender.is_closed(),
                    Standing::InDoubt => Some(doubt),
                    Standing::NotSent => None,
                };
                // All rows of a file share its name.
                let (name, line) = (place.file.unwrap_or_default(), place.line.unwrap_or_default());
                if *file != *name {
                    file = name.into();
                }
                let place = Some((Arc::clone(&file), line));
                sender.blocking_send(Read::Row(Row { number, item, in_doubt, place })).is_ok()
            })
        })
    }
}
