//! Writes rows: as many at once as each partition takes, and each with a note in the state file before it
//! goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynashard_core::{Code, Error, ThrottleLimit};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::counts::{Counts, Done};
use super::lanes::Lanes;
use super::look_ahead::{Bounds, LaneId, LookAhead, Size};
use super::marks::{Marks, Page};
use super::refused::Refusals;
use super::row::bytes_of;
use super::send::{Fate, Row, Target};
use super::state::{Identity, State, StateFile};
use super::{IN_DOUBT, ROWS_REFUSED, lock};
use crate::operator::Failure;
use crate::signals::TerminationSignals;

/// What is read of the input, in its order.
pub(super) enum Read {
    Row(Row),
    /// A page of a table, before its rows.
    Page(Page),
}

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
    state: Arc<StateFile>,
    identity: Identity,
    marks: Marks,
    ahead: LookAhead<Row>,
    lanes: Lanes,
    under_way: JoinSet<(LaneId, Row, Size, Fate)>,
    most_under_way: usize,
    /// The rows in doubt that are to be looked up later, by when.
    later: BTreeMap<(Duration, u64), (Row, Size)>,
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
const MOST_CHOSEN: usize = 10_000;

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
        state: StateFile,
        before: State,
        marks: Marks,
        (bounds, most_under_way): (Bounds, usize),
        refusals: Arc<Mutex<Refusals>>,
    ) -> Self {
        let now = target.now();
        Self {
            target: Arc::new(target),
            state: Arc::new(state),
            identity: before.identity,
            marks,
            ahead: LookAhead::new(bounds),
            lanes: Lanes::default(),
            under_way: JoinSet::new(),
            most_under_way,
            later: BTreeMap::new(),
            saving: None,
            saved_at: now,
            moved_at: now,
            figures: Figures { counts: before.counts, ..Figures::default() },
            refusals,
        }
    }

    /// Writes everything that `input` brings, and shows the figures now and then.
    pub(super) async fn run(
        &mut self,
        mut input: mpsc::Receiver<Read>,
        signals: &mut TerminationSignals,
        show: &mut (dyn FnMut(Figures) + Send),
    ) -> Result<Ended, Failure> {
        let written = self.write(&mut input, signals, show).await;
        // The reader ends when nobody takes its rows.
        drop(input);
        let drained = self.drain(signals).await;
        show(self.figures);
        let ended = written?;
        drained?;
        Ok(ended)
    }

    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    async fn write(
        &mut self,
        input: &mut mpsc::Receiver<Read>,
        signals: &mut TerminationSignals,
        show: &mut (dyn FnMut(Figures) + Send),
    ) -> Result<Ended, Failure> {
        let mut is_at_end = false;
        loop {
            let now = self.target.now();
            self.look_up_again(now).await;
            self.send(now).await;
            self.save_if_due(now);
            if is_at_end && self.ahead.is_empty() && self.later.is_empty() {
                return Ok(Ended::Done);
            }
            self.figures.is_waiting = is_at_end && self.ahead.is_empty();
            let has_work = !self.under_way.is_empty() || !self.ahead.is_empty();
            self.figures.is_stalled = has_work && now.saturating_sub(self.moved_at) >= STALLED;
            show(self.figures);
            let has_room = !is_at_end && self.ahead.has_room();
            let pause = self.pause(now);
            tokio::select! {
                biased;
                () = signals.received() => return Ok(Ended::Interrupted),
                Some(sent) = self.under_way.join_next() => self.settle(sent)?,
                saved = finished(&mut self.saving) => self.saved(saved)?,
                read = input.recv(), if has_room => match read {
                    Some(read) => self.take(read).await,
                    None => is_at_end = true,
                },
                () = sleep(pause) => {}
            }
            // What has come meanwhile is taken in before the next row is looked for.
            while let Some(sent) = self.under_way.try_join_next() {
                self.settle(sent)?;
            }
            for _ in 0..MOST_AT_ONCE {
                if !self.ahead.has_room() {
                    break;
                }
                let Ok(read) = input.try_recv() else { break };
                self.take(read).await;
            }
        }
    }

    async fn take(&mut self, read: Read) {
        let row = match (read, &mut self.marks) {
            (Read::Row(row), _) => row,
            (Read::Page(page), Marks::Pages(marks)) => {
                self.figures.counts = self.figures.counts.plus(page.counts);
                return marks.read(page);
            }
            // Only tables have pages.
            (Read::Page(_), Marks::Rows(_)) => return,
        };
        self.marks.read(row.number, row.in_doubt.is_some());
        let bytes = bytes_of(&row.item) + OWN_BYTES;
        let units = u32::try_from(bytes.div_ceil(KILOBYTE)).map_or(1.0, f64::from);
        let lane = self.lanes.of(row.item.key(), &self.target.writer).await;
        if self.ahead.is_empty() {
            self.moved_at = self.target.now();
        }
        self.ahead.push(lane, row, Size { bytes, units }, self.target.now());
    }

    /// Sends what may go now.
    async fn send(&mut self, now: Duration) {
        while self.under_way.len() < self.most_under_way
            && let Some((lane, row, size)) = self.ahead.next(now)
        {
            let own = match self.lanes.known(row.item.key(), &self.target.writer) {
                Some(own) => own,
                None => self.lanes.of(row.item.key(), &self.target.writer).await,
            };
            if self.ahead.key(lane) != Some(&own) {
                let (lanes, writer) = (&self.lanes, &self.target.writer);
                let key_of =
                    |row: &Row| lanes.known(row.item.key(), writer).unwrap_or_else(|| own.clone());
                self.ahead.returned(lane, row, size, key_of, now);
                continue;
            }
            let target = Arc::clone(&self.target);
            self.under_way.spawn(async move {
                let fate = Box::pin(target.send(&row)).await;
                (lane, row, size, fate)
            });
        }
    }

    /// Takes note of what became of a row.
    fn settle(
        &mut self,
        sent: Result<(LaneId, Row, Size, Fate), tokio::task::JoinError>,
    ) -> Result<(), Failure> {
        let (lane, mut row, size, fate) = sent.map_err(|e| panicked(&e))?;
        let now = self.target.now();
        let done = match fate {
            Fate::Refused(error) => {
                self.figures.throttles += u64::from(error.code() == Code::Throttled);
                if is_of_the_whole(&error) {
                    self.ahead.throttled_as_a_whole(lane, row, size, now);
                } else {
                    self.ahead.throttled(lane, row, size, now);
                }
                if now.saturating_sub(self.moved_at) < PATIENCE {
                    return Ok(());
                }
                let why = format!(
                    "nothing was written for {} s: {}",
                    PATIENCE.as_secs(),
                    error.message()
                );
                return Err(Error::new(error.code(), why).into());
            }
            Fate::Failed(error) => {
                self.ahead.dropped(lane, size, now);
                let Failure { code, detail } = error.into();
                return Err(Failure { code, detail: format!("{detail}; at {}", row.name()) });
            }
            Fate::InDoubt(doubt, again_at) => {
                self.ahead.dropped(lane, size, now);
                row.in_doubt = Some(doubt);
                self.later.insert((again_at, row.number), (row, size));
                return Ok(());
            }
            Fate::Undecided => {
                self.ahead.dropped(lane, size, now);
                self.figures.undecided += 1;
                let failure = Failure { code: IN_DOUBT, detail: UNDECIDED.to_owned() };
                lock(&self.refusals).add(row.place(), Some(row.item.key()), &failure);
                return Ok(());
            }
            Fate::Written(shard, consumed_wcu) => {
                self.figures.consumed_wcu += consumed_wcu;
                self.lanes.was_written(row.item.key(), shard);
                self.ahead.written(lane, size, now);
                Done::Written
            }
            Fate::Rejected(error) => {
                self.ahead.dropped(lane, size, now);
                let failure = Failure { code: ROWS_REFUSED, detail: error.message().to_owned() };
                lock(&self.refusals).add(row.place(), Some(row.item.key()), &failure);
                Done::Refused
            }
            Fate::Found => {
                self.ahead.dropped(lane, size, now);
                Done::Found
            }
            Fate::Kept => {
                self.ahead.written(lane, size, now);
                Done::Kept
            }
        };
        self.moved_at = now;
        self.figures.counts.add(done);
        self.marks.done(row.number, done);
        Ok(())
    }

    /// Brings back the rows in doubt whose time has come. They are noted as sent already.
    async fn look_up_again(&mut self, now: Duration) {
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= now
        {
            let (row, size) = first.remove();
            let lane = self.lanes.of(row.item.key(), &self.target.writer).await;
            self.ahead.readmit(lane, row, size, now);
            self.moved_at = now;
        }
    }

    /// Until when nothing is to be done if nothing happens.
    fn pause(&self, now: Duration) -> Duration {
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        let next =
            if self.under_way.len() < self.most_under_way { self.ahead.next_at() } else { None };
        let at = [later, next].into_iter().flatten().min();
        at.map_or(SAVE_EVERY, |at| at.saturating_sub(now)).min(SAVE_EVERY)
    }

    /// Notes down how far the writing has come, and which rows go next.
    fn save_if_due(&mut self, now: Duration) {
        let is_starved = self.ahead.has_unchosen() && !self.ahead.has_released();
        let is_due = now.saturating_sub(self.saved_at) >= SAVE_EVERY;
        if self.saving.is_some() || !(is_starved || is_due) {
            return;
        }
        self.saved_at = now;
        let marks = &mut self.marks;
        self.ahead.choose(MOST_CHOSEN, |row| marks.sent(row.number));
        let (file, state) = (Arc::clone(&self.state), self.state());
        let refusals = Arc::clone(&self.refusals);
        self.saving = Some(tokio::task::spawn_blocking(move || {
            // What it counts as refused is in the list.
            lock(&refusals).flush()?;
            file.save(&state)
        }));
    }

    fn saved(
        &mut self,
        saved: Result<Result<(), Failure>, tokio::task::JoinError>,
    ) -> Result<(), Failure> {
        self.saving = None;
        saved.map_err(|e| panicked(&e))??;
        self.ahead.release(self.target.now());
        Ok(())
    }

    fn state(&self) -> State {
        State::new(self.identity.clone(), self.marks.counts(), self.marks.progress())
    }

    /// Waits for what is under way, and notes down how far it has come. A signal ends the waiting: what is
    /// not answered then stays in doubt.
    async fn drain(&mut self, signals: &mut TerminationSignals) -> Result<(), Failure> {
        let mut failure = Ok(());
        let answers = async {
            while let Some(sent) = self.under_way.join_next().await {
                let settled = self.settle(sent);
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
        self.state.save(&self.state())?;
        failure
    }

    /// The place of the state, when all is done.
    pub(super) fn into_state(self) -> Option<StateFile> {
        Arc::into_inner(self.state)
    }
}

/// Whether a limit was hit that all partitions share.
fn is_of_the_whole(error: &Error) -> bool {
    let shared = [ThrottleLimit::Provisioned, ThrottleLimit::Account, ThrottleLimit::MaxOnDemand];
    error.throttle().is_some_and(|throttle| shared.contains(&throttle.limit))
}

/// What came of a task, if there is one.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

fn panicked(error: &tokio::task::JoinError) -> Failure {
    Error::new(Code::Internal, format!("a part of the import failed: {error}")).into()
}

#[cfg(test)]
mod tests {
    use dynashard_core::Throttle;

    use super::*;

    /// Each lane looked for the limit of the table by itself, and all were throttled again and again.
    #[test]
    fn regression_a_limit_of_the_table_was_taken_for_that_of_a_partition() {
        let of = |reason: &str| {
            let throttle = Throttle::from_reason(reason, None);
            is_of_the_whole(&Error::throttled(throttle))
        };
        assert!(of("TableWriteProvisionedThroughputExceeded"));
        assert!(of("TableWriteAccountLimitExceeded") && of("IndexWriteAccountLimitExceeded"));
        assert!(!of("TableWriteKeyRangeThroughputExceeded"));
        assert!(!of("who knows"), "a partition as likely as the table");
    }
}
