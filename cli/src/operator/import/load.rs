//! Writes rows: as many at once as each partition takes, and each with a note in the state file before it
//! goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynashard_core::{Code, Error, ThrottleLimit};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::lanes::{Bounds, Lanes, Queued, Size, Slower};
use super::layouts::Layouts;
use super::refused::Refusals;
use super::report::Counts;
use super::row::bytes_of;
use super::send::{Fate, Row, Target};
use super::state::{State, StateFile};
use super::{IN_DOUBT, ROWS_REFUSED, Source, lock};
use crate::operator::Failure;
use crate::signals::TerminationSignals;

/// How the writing ended, if it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    Interrupted,
}

/// What is told of the writing while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Figures {
    /// In all runs.
    pub(super) counts: Counts,
    pub(super) throttles: u64,
    pub(super) consumed_wcu: f64,
    /// Rows in doubt under whose keys other items lie.
    pub(super) undecided: u64,
    /// Whether all that is left waits until no request from before can take effect.
    pub(super) is_waiting: bool,
    /// Whether nothing was written for so long that somebody should know.
    pub(super) is_stalled: bool,
}

/// Writes the rows of an input.
pub(super) struct Loader {
    target: Arc<Target>,
    source: Arc<Source>,
    file: Arc<StateFile>,
    state: State,
    lanes: Lanes<Row>,
    layouts: Layouts,
    under_way: JoinSet<(Queued<Row>, Fate)>,
    most_under_way: usize,
    /// The rows in doubt that are to be looked for later, by when.
    later: BTreeMap<(Duration, u64), Queued<Row>>,
    saving: Option<JoinHandle<Result<(), Failure>>>,
    saved_at: Duration,
    /// When something was written last.
    moved_at: Duration,
    figures: Figures,
    /// Lists the rows that DynamoDB rejects, and those that stay in doubt.
    refusals: Arc<Mutex<Refusals>>,
}

/// How often the state is saved at least, while rows are written.
const SAVE_EVERY: Duration = Duration::from_millis(500);

/// The most rows that may be noted as sent at once.
const MOST_NOTED: usize = 10_000;

/// The most rows that are taken in before others are sent.
const MOST_AT_ONCE: usize = 256;

/// After so long without a single write the import gives up.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);

/// After so long it says so.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// For how long an import that ends waits for the answers to what is under way.
const LAST_ANSWERS: Duration = Duration::from_secs(25);

const UNDECIDED: &str =
    "it may have been written before an interruption, and another item lies under its key";

/// What the attributes of the system's own take.
const OWN_BYTES: usize = 40;

const KILOBYTE: usize = 1_024;

impl Loader {
    pub(super) fn new(
        target: Target,
        source: Arc<Source>,
        (file, state): (StateFile, State),
        (bounds, most_under_way): (Bounds, usize),
        refusals: Arc<Mutex<Refusals>>,
    ) -> Self {
        let now = target.now();
        Self {
            target: Arc::new(target),
            source,
            file: Arc::new(file),
            figures: Figures { counts: state.counts, ..Figures::default() },
            state,
            lanes: Lanes::new(bounds),
            layouts: Layouts::default(),
            under_way: JoinSet::new(),
            most_under_way,
            later: BTreeMap::new(),
            saving: None,
            saved_at: now,
            moved_at: now,
            refusals,
        }
    }

    /// Writes everything that `input` brings, and shows the figures now and then.
    pub(super) async fn run(
        &mut self,
        mut input: mpsc::Receiver<Row>,
        signals: &mut TerminationSignals,
        show: &mut (dyn FnMut(Figures) + Send),
    ) -> Result<Ended, Failure> {
        let written = self.write(&mut input, signals, show).await;
        // The reader ends when nobody takes its rows.
        drop(input);
        let drained = self.drain(signals).await;
        show(self.figures);
        written.and_then(|ended| drained.map(|()| ended))
    }

    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    /// The place of the state, when all is done.
    pub(super) fn into_file(self) -> Option<StateFile> {
        Arc::into_inner(self.file)
    }

    async fn write(
        &mut self,
        input: &mut mpsc::Receiver<Row>,
        signals: &mut TerminationSignals,
        show: &mut (dyn FnMut(Figures) + Send),
    ) -> Result<Ended, Failure> {
        let mut is_at_end = false;
        loop {
            let now = self.target.now();
            self.look_again(now);
            self.send(now);
            self.save_if_due(now);
            if is_at_end && self.lanes.is_empty() && self.later.is_empty() {
                return Ok(Ended::Done);
            }
            self.figures.is_waiting = is_at_end && self.lanes.is_empty();
            let has_stopped = now.saturating_sub(self.moved_at) >= STALLED;
            self.figures.is_stalled = has_stopped && !self.lanes.is_empty();
            show(self.figures);
            let has_room = !is_at_end && self.lanes.has_room();
            let pause = self.pause(now);
            tokio::select! {
                biased;
                () = signals.received() => return Ok(Ended::Interrupted),
                Some(sent) = self.under_way.join_next() => self.settle(sent).await?,
                saved = finished(&mut self.saving) => {
                    self.saving = None;
                    saved.map_err(|e| panicked(&e))??;
                    self.lanes.release(self.target.now());
                }
                read = input.recv(), if has_room => match read {
                    Some(row) => self.take(row).await,
                    None => is_at_end = true,
                },
                () = sleep(pause) => {}
            }
            // What has come meanwhile is taken in before the next row is looked for.
            while let Some(sent) = self.under_way.try_join_next() {
                self.settle(sent).await?;
            }
            for _ in 0..MOST_AT_ONCE {
                if !self.lanes.has_room() {
                    break;
                }
                let Ok(row) = input.try_recv() else { break };
                self.take(row).await;
            }
        }
    }

    async fn take(&mut self, row: Row) {
        self.state.position.read(row.number, row.in_doubt.is_some());
        let bytes = bytes_of(&row.item) + OWN_BYTES;
        let units = u32::try_from(bytes.div_ceil(KILOBYTE)).map_or(1.0, f64::from);
        let lane = self.layouts.of(row.item.key(), &self.target.writer).await;
        let now = self.target.now();
        if self.lanes.is_empty() {
            self.moved_at = now;
        }
        self.lanes.push(Queued { lane, row, size: Size { bytes, units } }, now);
    }

    /// Sends what may go now.
    fn send(&mut self, now: Duration) {
        while self.under_way.len() < self.most_under_way
            && let Some(queued) = self.lanes.next(now)
        {
            let target = Arc::clone(&self.target);
            self.under_way.spawn(async move {
                let fate = Box::pin(target.send(&queued.row)).await;
                (queued, fate)
            });
        }
    }

    /// Takes note of what became of a row.
    async fn settle(
        &mut self,
        sent: Result<(Queued<Row>, Fate), JoinError>,
    ) -> Result<(), Failure> {
        let (mut queued, fate) = sent.map_err(|e| panicked(&e))?;
        let now = self.target.now();
        let Queued { lane, row, size } = &queued;
        let is_written = matches!(fate, Fate::Written(..) | Fate::Found | Fate::Kept);
        if !matches!(fate, Fate::Again(..)) {
            self.lanes.done(lane, *size, is_written, now);
        }
        let counts = &mut self.state.counts;
        match fate {
            Fate::Written(shard, consumed_wcu) => {
                counts.written += 1;
                self.figures.consumed_wcu += consumed_wcu;
                if self.layouts.is_outdated(row.item.key(), shard) {
                    self.follow(row).await;
                }
            }
            Fate::Found => counts.found += 1,
            Fate::Kept => counts.kept += 1,
            Fate::Rejected(error) => {
                counts.refused += 1;
                self.list(row, ROWS_REFUSED, error.message());
            }
            Fate::Undecided => {
                self.figures.undecided += 1;
                self.list(row, IN_DOUBT, UNDECIDED);
                return Ok(());
            }
            Fate::Later(at) => {
                self.later.insert((at, row.number), queued);
                return Ok(());
            }
            Fate::Again(error, in_doubt) => {
                self.figures.throttles += u64::from(error.code() == Code::Throttled);
                queued.row.in_doubt = in_doubt.or(row.in_doubt);
                self.lanes.again(queued, slower(&error), now);
                if now.saturating_sub(self.moved_at) < PATIENCE {
                    return Ok(());
                }
                let (secs, why) = (PATIENCE.as_secs(), error.message());
                let why = format!("nothing was written for {secs} s: {why}");
                return Err(Error::new(error.code(), why).into());
            }
            Fate::Failed(error) => {
                let Failure { code, detail } = error.into();
                let (key, place) = (row.item.key(), self.source.place(row.number));
                let place = place.file.zip(place.line);
                let place = place.map(|(file, line)| format!(", line {line} of {file}"));
                let (pk, sk, place) = (&key.partition, &key.sort, place.unwrap_or_default());
                let at = format!("the row with the key {:?}, {sk:?}{place}", pk.as_str());
                return Err(Failure { code, detail: format!("{detail}; at {at}") });
            }
        }
        self.state.position.done(queued.row.number);
        self.figures.counts = self.state.counts;
        self.moved_at = now;
        Ok(())
    }

    fn list(&self, row: &Row, code: &'static str, detail: &str) {
        let failure = Failure { code, detail: detail.to_owned() };
        lock(&self.refusals).add(self.source.place(row.number), Some(row.item.key()), &failure);
    }

    /// Moves the rows of a collection that has changed to the lanes of the shards that it has now.
    async fn follow(&mut self, row: &Row) {
        let partition = &row.item.key().partition;
        let writer = &self.target.writer;
        if self.layouts.look(partition, writer).await {
            let layouts = &self.layouts;
            let is_moved = |row: &Row| row.item.key().partition == *partition;
            let lane_of = |row: &Row| layouts.known(row.item.key(), writer);
            self.lanes.move_rows(is_moved, lane_of, self.target.now());
        }
    }

    /// Brings back the rows in doubt whose time has come. They are noted as sent already.
    fn look_again(&mut self, now: Duration) {
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= now
        {
            self.lanes.readmit(first.remove(), now);
            self.moved_at = now;
        }
    }

    /// Until when nothing is to be done if nothing happens.
    fn pause(&self, now: Duration) -> Duration {
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        let next = self.lanes.next_at().filter(|_| self.under_way.len() < self.most_under_way);
        let at = [later, next].into_iter().flatten().min();
        at.map_or(SAVE_EVERY, |at| at.saturating_sub(now)).min(SAVE_EVERY)
    }

    /// Notes down how far the writing has come, and which rows go next.
    fn save_if_due(&mut self, now: Duration) {
        let is_due = now.saturating_sub(self.saved_at) >= SAVE_EVERY;
        if self.saving.is_some() || !(is_due || self.lanes.is_starved()) {
            return;
        }
        self.saved_at = now;
        let position = &mut self.state.position;
        self.lanes.note(MOST_NOTED, now, |row| position.sent(row.number));
        let (file, state) = (Arc::clone(&self.file), self.state.clone());
        let refusals = Arc::clone(&self.refusals);
        self.saving = Some(tokio::task::spawn_blocking(move || {
            // What it counts as refused is in the list.
            lock(&refusals).flush()?;
            file.save(&state)
        }));
    }

    /// Waits for what is under way, and notes down how far it has come. A signal ends the waiting: what is
    /// not answered then stays in doubt.
    async fn drain(&mut self, signals: &mut TerminationSignals) -> Result<(), Failure> {
        let mut failure = Ok(());
        let answers = async {
            while let Some(sent) = self.under_way.join_next().await {
                let settled = self.settle(sent).await;
                failure = std::mem::replace(&mut failure, Ok(())).and(settled);
            }
        };
        tokio::select! {
            _ = timeout(LAST_ANSWERS, answers) => {}
            () = signals.received() => {}
        }
        if let Some(saving) = self.saving.take() {
            let saved = saving.await.map_err(|e| panicked(&e)).and_then(|saved| saved);
            failure = failure.and(saved);
        }
        lock(&self.refusals).flush()?;
        self.file.save(&self.state)?;
        failure
    }
}

/// What slows down by an error: all lanes, where a limit was hit that all partitions share.
fn slower(error: &Error) -> Slower {
    let shared = [ThrottleLimit::Provisioned, ThrottleLimit::Account, ThrottleLimit::MaxOnDemand];
    let is_shared = error.throttle().is_some_and(|throttle| shared.contains(&throttle.limit));
    if is_shared { Slower::All } else { Slower::Lane }
}

/// What came of a task, if there is one.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

fn panicked(error: &JoinError) -> Failure {
    Error::new(Code::Internal, format!("a part of the import failed: {error}")).into()
}

#[cfg(test)]
mod tests {
    use dynashard_core::Throttle;

    use super::*;

    /// Each lane looked for the limit of the table by itself, and all were throttled again and again.
    #[test]
    fn regression_a_limit_of_the_table_was_taken_for_that_of_a_partition() {
        let of = |reason: &str| slower(&Error::throttled(Throttle::from_reason(reason, None)));
        assert_eq!(of("TableWriteProvisionedThroughputExceeded"), Slower::All);
        assert_eq!(of("TableWriteAccountLimitExceeded"), Slower::All);
        assert_eq!(of("IndexWriteAccountLimitExceeded"), Slower::All);
        assert_eq!(of("TableWriteKeyRangeThroughputExceeded"), Slower::Lane);
        assert_eq!(of("who knows"), Slower::Lane, "a partition as likely as the table");
    }
}
