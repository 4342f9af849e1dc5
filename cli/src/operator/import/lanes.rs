//! The rows that were read and are not written yet, in a lane for each collection.
//!
//! Lanes take turns, so that no key is written in a run while another has rows; the rows of one collection are spread over its
//! shards by their placement. Each lane has a [`Pace`], so that one which throttles holds up no other. A row goes only
//! when it was noted and released: between the two the caller notes down that it may be under way.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use dynashard_keys::PartitionKey;

use super::pace::Pace;

/// A row of a lane.
#[derive(Debug, Clone)]
pub(super) struct Queued<R> {
    pub(super) lane: PartitionKey,
    pub(super) row: R,
    /// What it takes in the table.
    pub(super) bytes: usize,
}

impl<R> Queued<R> {
    /// What it takes to write it.
    fn units(&self) -> f64 {
        u32::try_from(self.bytes.div_ceil(1_024)).map_or(1.0, f64::from)
    }
}

/// The lanes, and which of them goes next.
#[derive(Debug)]
pub(super) struct Lanes<R> {
    most_rows: usize,
    most_bytes: usize,
    rows: usize,
    bytes: usize,
    by_key: HashMap<PartitionKey, Lane<R>>,
    /// Those with rows that are not noted, the next one first.
    unnoted: VecDeque<PartitionKey>,
    /// The rows that are being noted.
    noting: Vec<Queued<R>>,
    /// Those with noted rows, by when they may go and in the order in which they came.
    turns: BTreeMap<(Duration, u64), PartitionKey>,
    turns_given: u64,
    /// The pace of all lanes together. It holds only after the table as a whole has throttled.
    whole: Pace,
}

#[derive(Debug)]
struct Lane<R> {
    unnoted: VecDeque<Queued<R>>,
    noted: VecDeque<Queued<R>>,
    in_flight: usize,
    has_turn: bool,
    pace: Pace,
    used_at: Duration,
}

/// The most rows of a lane that are under way at once. Others need room beside one that answers slowly.
const MAX_IN_FLIGHT: usize = 48;

/// For how long the pace of a lane without rows is worth its memory.
const REST: Duration = Duration::from_secs(10);

/// For how long the noted rows of a lane last.
const NOTED_SECS: f64 = 1.0;

/// The least that is noted of a lane.
const LEAST_NOTED: usize = 2;

impl<R> Lanes<R> {
    /// For so many rows that are read ahead, and so many bytes of them.
    pub(super) fn new(most_rows: usize, most_bytes: usize) -> Self {
        Self {
            most_rows,
            most_bytes,
            rows: 0,
            bytes: 0,
            by_key: HashMap::new(),
            unnoted: VecDeque::new(),
            noting: Vec::new(),
            turns: BTreeMap::new(),
            turns_given: 0,
            whole: Pace::new(Duration::ZERO),
        }
    }

    /// Whether another row may be read.
    pub(super) fn has_room(&self) -> bool {
        self.rows == 0 || (self.rows < self.most_rows && self.bytes < self.most_bytes)
    }

    /// Whether all rows are written, those under way included.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether no row may go, also not later, before others are noted.
    pub(super) fn is_starved(&self) -> bool {
        let lacks = |key| self.by_key.get(key).is_some_and(|lane: &Lane<R>| lane.noted.is_empty());
        self.turns.is_empty() && self.unnoted.iter().any(lacks)
    }

    /// Takes in a row.
    pub(super) fn push(&mut self, queued: Queued<R>, now: Duration) {
        self.rows += 1;
        self.bytes += queued.bytes;
        let key = queued.lane.clone();
        let lane = self.lane(&key, now);
        lane.unnoted.push_back(queued);
        if lane.unnoted.len() == 1 {
            self.unnoted.push_back(key);
        }
    }

    /// Takes in a row that was noted before. It goes first.
    pub(super) fn readmit(&mut self, queued: Queued<R>, now: Duration) {
        self.rows += 1;
        self.bytes += queued.bytes;
        self.put_first(queued, now);
    }

    /// Takes the rows that go next, up to `limit` of them, lane after lane, and shows each. They go when they
    /// are released.
    pub(super) fn note(&mut self, limit: usize, now: Duration, mut show: impl FnMut(&R)) {
        self.by_key.retain(|_, lane| {
            let is_empty = lane.unnoted.is_empty() && lane.noted.is_empty() && lane.in_flight == 0;
            !is_empty || (lane.pace.has_throttled() && now < lane.used_at + REST)
        });
        for _ in 0..self.unnoted.len() {
            let left = limit.saturating_sub(self.noting.len());
            if left == 0 {
                break;
            }
            let Some(key) = self.unnoted.pop_front() else { break };
            let Some(lane) = self.by_key.get_mut(&key) else { continue };
            // As many as the pace lets go in that time, if each takes one unit.
            let rows = Duration::try_from_secs_f64(lane.pace.rate * NOTED_SECS).unwrap_or_default();
            let rows = usize::try_from(rows.as_secs()).unwrap_or(usize::MAX).max(LEAST_NOTED);
            let wanted = rows.saturating_sub(lane.noted.len());
            let taken = lane.unnoted.drain(..wanted.min(left).min(lane.unnoted.len()));
            self.noting.extend(taken.inspect(|queued| show(&queued.row)));
            if !lane.unnoted.is_empty() {
                self.unnoted.push_back(key);
            }
        }
    }

    /// Lets the noted rows go.
    pub(super) fn release(&mut self, now: Duration) {
        for queued in std::mem::take(&mut self.noting) {
            let key = queued.lane.clone();
            self.lane(&key, now).noted.push_back(queued);
            self.give_turn(&key, now);
        }
    }

    /// The rows that were noted and are not under way.
    pub(super) fn noted(&self) -> impl Iterator<Item = &R> {
        let noted = self.by_key.values().flat_map(|lane| &lane.noted).chain(&self.noting);
        noted.map(|queued| &queued.row)
    }

    /// The row whose turn it is. It is under way until one of the methods below is told of it.
    pub(super) fn next(&mut self, now: Duration) -> Option<Queued<R>> {
        while self.next_at()? <= now {
            let (_, key) = self.turns.pop_first()?;
            let Some(lane) = self.by_key.get_mut(&key) else { continue };
            lane.has_turn = false;
            let Some(queued) = lane.noted.pop_front() else { continue };
            lane.in_flight += 1;
            lane.pace.sent(queued.units(), now);
            if self.whole.has_throttled() {
                self.whole.sent(queued.units(), now);
            }
            self.give_turn(&key, now);
            return Some(queued);
        }
        None
    }

    /// When the next row may go.
    pub(super) fn next_at(&self) -> Option<Duration> {
        let ((at, _), _) = self.turns.first_key_value()?;
        Some(if self.whole.has_throttled() { self.whole.next_at.max(*at) } else { *at })
    }

    /// Nothing is left to do for a row, which may have been written.
    pub(super) fn done(&mut self, queued: &Queued<R>, is_written: bool, now: Duration) {
        self.rows -= 1;
        self.bytes -= queued.bytes;
        if is_written {
            self.lane(&queued.lane, now).pace.written(queued.units(), now);
            self.whole.written(queued.units(), now);
        }
        self.landed(&queued.lane, now);
    }

    /// A row has to be sent again: it goes first when its lane's turn comes. Its lane slows down, or all of them where the
    /// table as a whole takes no more.
    pub(super) fn again(&mut self, queued: Queued<R>, is_of_all: bool, now: Duration) {
        let key = queued.lane.clone();
        if is_of_all {
            self.whole.throttled(now);
        } else {
            self.lane(&key, now).pace.throttled(now);
        }
        self.landed(&key, now);
        self.put_first(queued, now);
    }

    fn lane(&mut self, key: &PartitionKey, now: Duration) -> &mut Lane<R> {
        self.by_key.entry(key.clone()).or_insert_with(|| Lane {
            unnoted: VecDeque::new(),
            noted: VecDeque::new(),
            in_flight: 0,
            has_turn: false,
            pace: Pace::new(now),
            used_at: now,
        })
    }

    fn put_first(&mut self, queued: Queued<R>, now: Duration) {
        let key = queued.lane.clone();
        self.lane(&key, now).noted.push_front(queued);
        self.give_turn(&key, now);
    }

    fn landed(&mut self, key: &PartitionKey, now: Duration) {
        let lane = self.lane(key, now);
        lane.in_flight -= 1;
        lane.used_at = now;
        self.give_turn(key, now);
    }

    /// Has a lane that could go take turns.
    fn give_turn(&mut self, key: &PartitionKey, now: Duration) {
        let lane = self.lane(key, now);
        if !lane.has_turn && !lane.noted.is_empty() && lane.in_flight < MAX_IN_FLIGHT {
            lane.has_turn = true;
            let at = lane.pace.next_at.max(now);
            self.turns_given += 1;
            self.turns.insert((at, self.turns_given), key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
