//! The rows that were read and are not written yet, and which of them goes next.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use dynashard_keys::PhysicalPartitionKey;

use super::pace::Pace;

/// How far ahead of the writes rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// What a row takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) bytes: usize,
    /// Write units.
    pub(super) units: f64,
}

/// A lane: the rows of one physical partition key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneId(u64);

/// The rows that were read and are not written yet, in a lane for each physical partition key.
///
/// Lanes take turns, so that no key is written in a run while another has rows. Each has a [`Pace`], so
/// that one which throttles holds up no other. A row goes only when it was chosen and released: between
/// the two the caller notes down that it may be under way.
#[derive(Debug)]
pub(super) struct LookAhead<R> {
    bounds: Bounds,
    rows: usize,
    bytes: usize,
    last_id: u64,
    ids: HashMap<PhysicalPartitionKey, LaneId>,
    lanes: HashMap<LaneId, Lane<R>>,
    /// Those whose turn comes, the next one first.
    ready: VecDeque<LaneId>,
    /// Those that their pace holds back, and until when.
    waiting: BTreeSet<(Duration, LaneId)>,
    /// Those with rows to choose.
    unchosen: VecDeque<LaneId>,
    /// Those with rows that were chosen and not released.
    chosen: Vec<LaneId>,
    /// The empty lanes whose partitions have throttled, and since when they rest.
    resting: VecDeque<(Duration, LaneId)>,
    /// The pace of all lanes together. It holds only after the table as a whole has throttled.
    whole: Pace,
}

#[derive(Debug)]
struct Lane<R> {
    key: PhysicalPartitionKey,
    queue: VecDeque<(R, Size)>,
    /// So many rows at the front were released.
    released: usize,
    /// So many behind them were chosen.
    chosen: usize,
    in_flight: usize,
    pace: Pace,
    state: LaneState,
    is_unchosen: bool,
    rests_since: Option<Duration>,
}

/// Where a lane stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneState {
    Idle,
    Ready,
    Waiting(Duration),
}

/// The most rows of a lane that are under way at once. Others need room beside one that answers slowly.
const MAX_IN_FLIGHT: usize = 32;

/// For how long the pace of a lane without rows is worth its memory.
const REST: Duration = Duration::from_secs(10);

/// For how long the chosen rows of a lane last.
const CHOSEN_SECS: f64 = 1.0;

/// The least that is chosen of a lane.
const LEAST_CHOSEN: usize = 2;

impl<R> LookAhead<R> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            rows: 0,
            bytes: 0,
            last_id: 0,
            ids: HashMap::new(),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            unchosen: VecDeque::new(),
            chosen: Vec::new(),
            resting: VecDeque::new(),
            whole: Pace::new(Duration::ZERO),
        }
    }

    /// Whether another row may be read.
    pub(super) fn has_room(&self) -> bool {
        self.rows == 0 || (self.rows < self.bounds.rows && self.bytes < self.bounds.bytes)
    }

    /// Whether all rows are written, those under way included.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether rows wait to be chosen.
    pub(super) fn has_unchosen(&self) -> bool {
        !self.unchosen.is_empty()
    }

    /// Whether a row is ready to go, now or when its pace lets it.
    pub(super) fn has_released(&self) -> bool {
        !self.ready.is_empty() || !self.waiting.is_empty()
    }

    /// Takes in a row.
    pub(super) fn push(&mut self, key: PhysicalPartitionKey, row: R, size: Size, now: Duration) {
        self.rows += 1;
        self.bytes += size.bytes;
        let id = self.lane_of(key, now);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.queue.push_back((row, size));
        }
        self.note_unchosen(id);
    }

    /// Takes a row in again that was chosen and released before. It goes first.
    pub(super) fn readmit(&mut self, key: PhysicalPartitionKey, row: R, size: Size, now: Duration) {
        self.rows += 1;
        self.bytes += size.bytes;
        let id = self.lane_of(key, now);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.put_first(row, size);
        }
        self.queue_up(id, now);
    }

    /// Chooses the rows that go next, up to `limit` of them, lane after lane, and shows each.
    pub(super) fn choose(&mut self, limit: usize, mut show: impl FnMut(&R)) {
        let mut left = limit;
        for _ in 0..self.unchosen.len() {
            let Some(id) = self.unchosen.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.is_unchosen = false;
            let wanted = lane.rows_of_a_moment();
            let begin = lane.released + lane.chosen;
            let count = wanted.saturating_sub(begin).min(lane.queue.len() - begin).min(left);
            lane.queue.range(begin..begin + count).for_each(|(row, _)| show(row));
            left -= count;
            lane.chosen += count;
            if count > 0 {
                self.chosen.push(id);
            }
            self.note_unchosen(id);
            if left == 0 {
                break;
            }
        }
    }

    /// Lets the chosen rows go.
    pub(super) fn release(&mut self, now: Duration) {
        for id in std::mem::take(&mut self.chosen) {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.released += std::mem::take(&mut lane.chosen);
                self.queue_up(id, now);
            }
        }
    }

    /// The row whose turn it is. It is under way until one of the methods below is told of it.
    pub(super) fn next(&mut self, now: Duration) -> Option<(LaneId, R, Size)> {
        self.drop_rested(now);
        if self.held_until() > now {
            return None;
        }
        while let Some((at, id)) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.waiting.remove(&(at, id));
            self.set_state(id, LaneState::Ready);
            self.ready.push_back(id);
        }
        while let Some(id) = self.ready.pop_front() {
            self.set_state(id, LaneState::Idle);
            // Its rows may have changed lanes meanwhile.
            if let Some(lane) = self.lanes.get_mut(&id).filter(|lane| lane.released > 0)
                && let Some((row, size)) = lane.queue.pop_front()
            {
                lane.released -= 1;
                lane.in_flight += 1;
                lane.pace.sent(size.units, now);
                if self.whole.has_throttled() {
                    self.whole.sent(size.units, now);
                }
                self.queue_up(id, now);
                return Some((id, row, size));
            }
        }
        None
    }

    /// When the next row may go that its pace holds back.
    pub(super) fn next_at(&self) -> Option<Duration> {
        let of_lanes = self.waiting.first().map(|(at, _)| *at);
        let next = if self.ready.is_empty() { of_lanes } else { Some(Duration::ZERO) };
        next.map(|at| at.max(self.held_until()))
    }

    /// The key of a lane.
    pub(super) fn key(&self, id: LaneId) -> Option<&PhysicalPartitionKey> {
        self.lanes.get(&id).map(|lane| &lane.key)
    }

    /// A row was written.
    pub(super) fn written(&mut self, id: LaneId, size: Size, now: Duration) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.pace.written(size.units, now);
        }
        self.whole.written(size.units, now);
        self.dropped(id, size, now);
    }

    /// A row need not be written.
    pub(super) fn dropped(&mut self, id: LaneId, size: Size, now: Duration) {
        self.rows -= 1;
        self.bytes -= size.bytes;
        self.landed(id, now);
    }

    /// A row was throttled: it goes first when its lane's turn comes.
    pub(super) fn throttled(&mut self, id: LaneId, row: R, size: Size, now: Duration) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.pace.throttled(now);
            lane.put_first(row, size);
        }
        self.landed(id, now);
    }

    /// A row was throttled by a limit of the table as a whole or of the account, and not by its partition. It
    /// goes first when its lane's turn comes, and all lanes slow down.
    pub(super) fn throttled_as_a_whole(&mut self, id: LaneId, row: R, size: Size, now: Duration) {
        self.whole.throttled(now);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.put_first(row, size);
        }
        self.landed(id, now);
    }

    /// A row comes back, with news: the rows of its lane have other keys by now.
    pub(super) fn returned(
        &mut self,
        id: LaneId,
        row: R,
        size: Size,
        key_of: impl Fn(&R) -> PhysicalPartitionKey,
        now: Duration,
    ) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.put_first(row, size);
        let released = std::mem::take(&mut lane.released);
        // Those that were chosen will be chosen once more.
        lane.chosen = 0;
        let rows = std::mem::take(&mut lane.queue);
        for (place, (row, size)) in rows.into_iter().enumerate() {
            let other = self.lane_of(key_of(&row), now);
            if let Some(lane) = self.lanes.get_mut(&other) {
                if place < released {
                    lane.put_first(row, size);
                } else {
                    lane.queue.push_back((row, size));
                }
            }
            self.queue_up(other, now);
            self.note_unchosen(other);
        }
        self.landed(id, now);
    }

    fn lane_of(&mut self, key: PhysicalPartitionKey, now: Duration) -> LaneId {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        self.last_id += 1;
        let id = LaneId(self.last_id);
        self.ids.insert(key.clone(), id);
        self.lanes.insert(id, Lane::new(key, now));
        id
    }

    fn landed(&mut self, id: LaneId, now: Duration) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.in_flight -= 1;
        if lane.queue.is_empty() && lane.in_flight == 0 {
            if lane.pace.has_throttled() {
                lane.rests_since = Some(now);
                self.resting.push_back((now, id));
            } else {
                // Nothing is known of its partition that would be worth the memory.
                self.ids.remove(&lane.key);
                self.lanes.remove(&id);
            }
            return;
        }
        self.queue_up(id, now);
        self.note_unchosen(id);
    }

    /// Until when the pace of all lanes together holds them back.
    fn held_until(&self) -> Duration {
        if self.whole.has_throttled() { self.whole.next_at() } else { Duration::ZERO }
    }

    /// Drops the lanes that have had no rows for long.
    fn drop_rested(&mut self, now: Duration) {
        while let Some((since, id)) = self.resting.pop_front_if(|(since, _)| *since + REST <= now) {
            let Some(lane) = self.lanes.get(&id) else { continue };
            let is_empty = lane.queue.is_empty() && lane.in_flight == 0;
            // One that had rows in between rests from a later time.
            if is_empty && lane.rests_since == Some(since) {
                self.ids.remove(&lane.key);
                self.lanes.remove(&id);
            }
        }
    }

    /// Has a lane that could go take turns.
    fn queue_up(&mut self, id: LaneId, now: Duration) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let can_go = lane.released > 0 && lane.in_flight < MAX_IN_FLIGHT;
        if lane.state != LaneState::Idle || !can_go {
            return;
        }
        let at = lane.pace.next_at();
        if at <= now {
            lane.state = LaneState::Ready;
            self.ready.push_back(id);
        } else {
            lane.state = LaneState::Waiting(at);
            self.waiting.insert((at, id));
        }
    }

    fn set_state(&mut self, id: LaneId, state: LaneState) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.state = state;
        }
    }

    fn note_unchosen(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let has_some = lane.queue.len() > lane.released + lane.chosen
            && lane.released + lane.chosen < lane.rows_of_a_moment();
        if has_some && !lane.is_unchosen {
            lane.is_unchosen = true;
            self.unchosen.push_back(id);
        }
    }
}

impl<R> Lane<R> {
    fn new(key: PhysicalPartitionKey, now: Duration) -> Self {
        Self {
            key,
            queue: VecDeque::new(),
            released: 0,
            chosen: 0,
            in_flight: 0,
            pace: Pace::new(now),
            state: LaneState::Idle,
            is_unchosen: false,
            rests_since: None,
        }
    }

    fn put_first(&mut self, row: R, size: Size) {
        self.queue.push_front((row, size));
        self.released += 1;
    }

    /// How many rows at the front the pace lets go in a moment, if each takes one unit.
    fn rows_of_a_moment(&self) -> usize {
        let rows = Duration::try_from_secs_f64(self.pace.rate() * CHOSEN_SECS).unwrap_or_default();
        usize::try_from(rows.as_secs()).unwrap_or(usize::MAX).max(LEAST_CHOSEN)
    }
}

#[cfg(test)]
mod tests;
