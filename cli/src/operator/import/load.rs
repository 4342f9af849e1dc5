//! Writes rows: as many at once as each partition takes, and each with a note in the state file before it
//! goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynashard_core::{Code, Error, ThrottleLimit};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::sleep;

use super::lanes::{Lanes, Queued};
use super::report::Counts;
use super::row::bytes_of;
use super::send::{Fate, Row, Target};
use super::state::{State, StateFile};
use super::{IN_DOUBT, ROWS_REFUSED, Run, Source, panicked};
use crate::operator::{Failure, Stopped};

/// Writes the rows of an input.
pub(super) struct Loader<'r, 'a> {
    run: &'r mut Run<'a>,
    target: Arc<Target>,
    source: Arc<Source>,
    file: Arc<StateFile>,
    state: State,
    lanes: Lanes<Row>,
    under_way: JoinSet<(Queued<Row>, Fate)>,
    /// The rows in doubt that are to be looked for later, by when.
    later: BTreeMap<(Duration, u64), Queued<Row>>,
    saving: Option<JoinHandle<Result<(), Failure>>>,
    saved_at: Duration,
    /// When something was written last.
    moved_at: Duration,
    is_stalled: bool,
}

/// What the rows that are read ahead may take, as the table counts it.
const LOOK_AHEAD_BYTES: usize = 64_000_000;

/// How often the state is saved at least, while rows are written.
const SAVE_EVERY: Duration = Duration::from_millis(500);

/// The most rows that may be noted as sent at once.
const MOST_NOTED: usize = 10_000;

/// The most rows that are taken in before others are sent.
const MOST_AT_ONCE: usize = 256;

/// After so long without a single write the import gives up.
const PATIENCE: Duration = Duration::from_mins(3);

/// After so long it says so.
const STALLED: Duration = Duration::from_secs(5);

/// For how long an import that ends waits for the answers to what is under way.
const LAST_ANSWERS: Duration = Duration::from_secs(25);

const UNDECIDED: &str =
    "it may have been written before an interruption, and another item lies under its key";

/// What the attributes of the system's own take.
const OWN_BYTES: usize = 40;

impl<'r, 'a> Loader<'r, 'a> {
    /// Writes everything that `input` brings. Returns how that ended, and the place of the state with what it says.
    pub(super) async fn load(
        run: &'r mut Run<'a>,
        target: Target,
        source: Arc<Source>,
        (file, state): (StateFile, State),
        mut input: mpsc::Receiver<Row>,
    ) -> (Result<(), Stopped>, Option<StateFile>) {
        let now = target.now();
        let look_ahead = usize::try_from(run.args.look_ahead).unwrap_or(usize::MAX);
        let (rows_before, refused) = (state.counts.rows(), run.reporter.summary.counts.refused);
        let mut loader = Self {
            run,
            target: Arc::new(target),
            source,
            file: Arc::new(file),
            state,
            lanes: Lanes::new(look_ahead, LOOK_AHEAD_BYTES),
            under_way: JoinSet::new(),
            later: BTreeMap::new(),
            saving: None,
            saved_at: now,
            moved_at: now,
            is_stalled: false,
        };
        let written = loader.write(&mut input).await;
        // The reader ends when nobody takes its rows.
        drop(input);
        let drained = loader.drain().await;
        loader.show(false);
        let (counts, summary) = (loader.state.counts, &mut loader.run.reporter.summary);
        summary.of_this_run = counts.rows().saturating_sub(rows_before);
        summary.counts = Counts { refused: refused + counts.refused, ..counts };
        let ended = match (written, drained) {
            (Ok(()) | Err(Stopped::Interrupted), Err(failure)) => Err(failure.into()),
            (written, _) => written,
        };
        (ended, Arc::into_inner(loader.file))
    }

    async fn write(&mut self, input: &mut mpsc::Receiver<Row>) -> Result<(), Stopped> {
        let mut is_at_end = false;
        loop {
            let now = self.target.now();
            self.look_again(now);
            self.send(now);
            self.save_if_due(now);
            if is_at_end && self.lanes.is_empty() && self.later.is_empty() {
                return Ok(());
            }
            self.tell_if_stalled(now);
            self.show(is_at_end && self.lanes.is_empty());
            let has_room = !is_at_end && self.lanes.has_room();
            let pause = self.pause(now);
            tokio::select! {
                biased;
                () = self.run.signals.received() => return Err(Stopped::Interrupted),
                Some(sent) = self.under_way.join_next() => self.settle(sent)?,
                saved = finished(&mut self.saving) => {
                    self.saving = None;
                    saved.map_err(|e| panicked(&e))??;
                    self.lanes.release(self.target.now());
                }
                read = input.recv(), if has_room => match read {
                    Some(row) => self.take(row),
                    None => is_at_end = true,
                },
                () = sleep(pause) => {}
            }
            // What has come meanwhile is taken in before the next row is looked for.
            while let Some(sent) = self.under_way.try_join_next() {
                self.settle(sent)?;
            }
            for _ in 0..MOST_AT_ONCE {
                if !self.lanes.has_room() {
                    break;
                }
                let Ok(row) = input.try_recv() else { break };
                self.take(row);
            }
        }
    }

    fn tell_if_stalled(&mut self, now: Duration) {
        let has_stopped = now.saturating_sub(self.moved_at) >= STALLED && !self.lanes.is_empty();
        if has_stopped && !self.is_stalled {
            let (stalled, patience) = (STALLED.as_secs(), PATIENCE.as_secs());
            self.run.reporter.activity.notes(&format!(
                "dynashard: nothing was written for {stalled} s: DynamoDB refuses every write, or does not answer. The \
                 import goes on by itself when that has passed, and ends after {patience} s"
            ));
        }
        self.is_stalled = has_stopped;
    }

    /// Shows the progress. All that is left may have to wait until no request from before can take effect.
    fn show(&mut self, is_waiting: bool) {
        let note = match (self.is_stalled, is_waiting) {
            (true, _) => "; DynamoDB refuses every write, or does not answer",
            (false, true) => "; waits until nothing from before can take effect",
            (false, false) => "",
        };
        let (rows, of) = (self.state.counts.rows(), Some(self.source.accepted));
        self.run.reporter.show("write", rows, of, note);
    }

    fn take(&mut self, row: Row) {
        self.state.position.read(row.number, row.in_doubt.is_some());
        let bytes = bytes_of(&row.item) + OWN_BYTES;
        let lane = row.item.key().partition.clone();
        let now = self.target.now();
        if self.lanes.is_empty() {
            self.moved_at = now;
        }
        self.lanes.push(Queued { lane, row, bytes }, now);
    }

    /// Sends what may go now.
    fn send(&mut self, now: Duration) {
        while self.has_slot()
            && let Some(queued) = self.lanes.next(now)
        {
            let target = Arc::clone(&self.target);
            self.under_way.spawn(async move {
                let fate = Box::pin(target.send(&queued.row)).await;
                (queued, fate)
            });
        }
    }

    fn has_slot(&self) -> bool {
        self.under_way.len() < usize::from(self.run.args.concurrency)
    }

    /// Takes note of what became of a row.
    fn settle(&mut self, sent: Result<(Queued<Row>, Fate), JoinError>) -> Result<(), Failure> {
        let (mut queued, fate) = sent.map_err(|e| panicked(&e))?;
        let now = self.target.now();
        let is_written = matches!(fate, Fate::Written(_) | Fate::Found | Fate::Kept);
        if !matches!(fate, Fate::Again(..)) {
            self.lanes.done(&queued, is_written, now);
        }
        let Queued { row, .. } = &queued;
        let counts = &mut self.state.counts;
        match fate {
            Fate::Written(consumed_wcu) => {
                counts.written += 1;
                self.run.reporter.summary.consumed_wcu += consumed_wcu;
            }
            Fate::Found => counts.found += 1,
            Fate::Kept => counts.kept += 1,
            Fate::Rejected(error) => {
                counts.refused += 1;
                self.list(row, ROWS_REFUSED, error.message());
            }
            Fate::Undecided => {
                self.run.reporter.summary.undecided += 1;
                self.list(row, IN_DOUBT, UNDECIDED);
                return Ok(());
            }
            Fate::Later(at) => {
                self.later.insert((at, row.number), queued);
                return Ok(());
            }
            Fate::Again(error, in_doubt) => {
                self.run.reporter.summary.throttles += u64::from(error.code() == Code::Throttled);
                queued.row.in_doubt = in_doubt.or(row.in_doubt);
                self.lanes.again(queued, is_of_all(&error), now);
                if now.saturating_sub(self.moved_at) < PATIENCE {
                    return Ok(());
                }
                let (secs, why) = (PATIENCE.as_secs(), error.message());
                let why = format!("nothing was written for {secs} s: {why}");
                return Err(Error::new(error.code(), why).into());
            }
            Fate::Failed(error) => {
                // Nothing was written for it: whoever goes on sends it as any other.
                self.state.position.read(row.number, row.in_doubt.is_some());
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
        self.moved_at = now;
        Ok(())
    }

    fn list(&self, row: &Row, code: &'static str, detail: &str) {
        let failure = Failure { code, detail: detail.to_owned() };
        self.run.refusals.lock().add(self.source.place(row.number), Some(row.item.key()), &failure);
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
        let next = self.lanes.next_at().filter(|_| self.has_slot());
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
        let refusals = Arc::clone(&self.run.refusals);
        self.saving = Some(tokio::task::spawn_blocking(move || {
            // What it counts as refused is in the list.
            refusals.lock().flush()?;
            file.save(&state)
        }));
    }

    /// Waits for what is under way, and notes down how far it has come. A signal ends the waiting: what is
    /// not answered then stays in doubt.
    async fn drain(&mut self) -> Result<(), Failure> {
        let mut failure = Ok(());
        let end = sleep(LAST_ANSWERS);
        tokio::pin!(end);
        while !self.under_way.is_empty() {
            tokio::select! {
                Some(sent) = self.under_way.join_next() => {
                    failure = failure.and(self.settle(sent));
                }
                () = &mut end => break,
                () = self.run.signals.received() => break,
            }
        }
        if let Some(saving) = self.saving.take() {
            let saved = saving.await.map_err(|e| panicked(&e)).and_then(|saved| saved);
            failure = failure.and(saved);
        }
        // What was noted and did not go is in no doubt.
        for row in self.lanes.noted().filter(|row| row.in_doubt.is_none()) {
            self.state.position.read(row.number, false);
        }
        self.run.refusals.lock().flush()?;
        self.file.save(&self.state)?;
        failure
    }
}

/// Whether a limit was hit that all partitions share.
fn is_of_all(error: &Error) -> bool {
    let shared = [ThrottleLimit::Provisioned, ThrottleLimit::Account, ThrottleLimit::MaxOnDemand];
    error.throttle().is_some_and(|throttle| shared.contains(&throttle.limit))
}

/// What came of a task, if there is one.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use dynashard_core::Throttle;

    use super::*;

    /// Each lane looked for the limit of the table by itself, and all were throttled again and again.
    #[test]
    fn regression_a_limit_of_the_table_was_taken_for_that_of_a_partition() {
        let of = |reason: &str| is_of_all(&Error::throttled(Throttle::from_reason(reason, None)));
        assert!(of("TableWriteProvisionedThroughputExceeded"));
        assert!(of("TableWriteAccountLimitExceeded") && of("IndexWriteAccountLimitExceeded"));
        assert!(!of("TableWriteKeyRangeThroughputExceeded"));
        assert!(!of("who knows"), "a partition as likely as the table");
    }
}
