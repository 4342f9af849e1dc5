//! How a change goes on, as one look after the other tells. Each scan of the job begins at nothing, and keys that are written
//! meanwhile move its ends: people are to see it go forward alone. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use dynashard_core::{CollectionMetadata, Job, Phase, ServerTime, Waits};
use serde::Serialize;

/// What a change does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// All functions learn both counts.
    #[default]
    Announced,
    /// Items move.
    Moving,
    /// All were looked at. Requests from before may still be executed.
    Waiting,
    /// A last look for what those wrote.
    Closing,
}

/// With less behind it, what is left cannot be told.
const TELLING_PERCENT: u32 = 5;

/// How much a new estimate counts against those before.
const WEIGHT: f64 = 0.2;

/// Between these times the estimate it probably takes. Keys are rarely spread evenly: with little behind it, it may soon be
/// over.
const UNSURE: [f64; 2] = [0.6, 1.6];
const SURER_PERCENT: u32 = 25;

/// Over how many seconds the pace is told.
const PACE_SECS: u64 = 30;

/// The job notes what was moved by pages: a page has taken no longer.
const PAGE_SECS: u64 = 10;

#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    generation: u64,
    pub(crate) stage: Stage,
    pub(crate) percent: u32,
    /// The items that had moved when that was read to have changed.
    noted: Option<(u64, u64)>,
    /// The items that moved in each second, those of earlier changes included.
    moved: BTreeMap<u64, f64>,
    /// When the scan ends, in epoch seconds.
    scan_ends: Option<f64>,
    closes_not_before: Option<u64>,
}

impl Course {
    /// Takes in what was read at this epoch second. What is older than `oldest` is forgotten.
    pub(crate) fn note(
        &mut self,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
        waits: Waits,
        [oldest, now]: [u64; 2],
    ) {
        self.moved = self.moved.split_off(&oldest);
        let generation = metadata.generation.get();
        if generation != self.generation {
            let moved = std::mem::take(&mut self.moved);
            *self = Self { generation, moved, ..Self::default() };
        }
        let Some((reshard, job)) = metadata.reshard().zip(job) else {
            // What was moved last before the close, only the metadata tells.
            if metadata.phase == Phase::Stable && self.noted.is_some() {
                self.note_moved(now, metadata.items_moved);
            }
            return;
        };
        self.note_moved(now, job.items_moved);
        let progress = job.progress(&reshard, waits, ServerTime(now));
        self.closes_not_before = progress.closes_not_before.map(|at| at.0);
        let stage = match metadata.phase {
            Phase::Move { .. } if job.closing => Stage::Closing,
            Phase::Move { .. } if progress.source_shards_done >= progress.source_shards => {
                Stage::Waiting
            }
            Phase::Move { .. } => Stage::Moving,
            Phase::Forward { .. } | Phase::Stable => Stage::Announced,
        };
        self.stage = self.stage.max(stage);
        self.percent = match self.stage {
            Stage::Announced => 0,
            Stage::Moving => self.percent.max(progress.percent_done),
            Stage::Waiting | Stage::Closing => 100,
        };
        let began = job.scan_began.or(job.move_seen).filter(|_| stage == Stage::Moving);
        if let Some(began) = began.filter(|_| self.percent >= TELLING_PERCENT) {
            let (behind, now) = (f64::from(self.percent), float(now));
            let ends = now + (now - float(began.0)).max(0.0) * (100.0 - behind) / behind;
            let before = self.scan_ends.unwrap_or(ends);
            self.scan_ends = Some(before + (ends - before) * WEIGHT);
        }
    }

    fn note_moved(&mut self, now: u64, items: u64) {
        let Some((at, before)) = self.noted.filter(|(_, before)| items > *before) else {
            self.noted = self.noted.or(Some((now, items)));
            return;
        };
        let from = at.max(now.saturating_sub(PAGE_SECS)).min(now.saturating_sub(1));
        let each = float(items - before) / float(now.saturating_sub(from).max(1));
        for second in from..now {
            *self.moved.entry(second).or_default() += each;
        }
        self.noted = Some((now, items));
    }

    /// In how many seconds it closes, at least and at most, as far as that can be told.
    pub(crate) fn left(&self, now: u64) -> Option<[u64; 2]> {
        let wait = self.closes_not_before?.saturating_sub(now);
        match self.stage {
            Stage::Announced => None,
            Stage::Moving => {
                let scan = (self.scan_ends? - float(now)).max(0.0);
                let surer = (f64::from(self.percent) / f64::from(SURER_PERCENT)).min(1.0);
                let [least, most] = UNSURE;
                Some([least * surer, most].map(|times| wait.max(whole(scan * times))))
            }
            Stage::Waiting => Some([wait, wait]),
            Stage::Closing => (wait > 0).then_some([wait, wait]),
        }
    }

    /// The items a second that were moved of late.
    pub(crate) fn pace(&self, now: u64) -> Option<f64> {
        let recent = self.moved.range(now.saturating_sub(PACE_SECS)..);
        let (first, _) = recent.clone().next()?;
        Some(recent.map(|(_, items)| items).sum::<f64>() / float(now.saturating_sub(*first).max(1)))
    }

    /// The items that were moved in each of these seconds.
    pub(crate) fn moves(&self, of: Range<u64>) -> impl Iterator<Item = (u64, f64)> {
        self.moved.range(of).map(|(at, items)| (*at, *items))
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn float(of: u64) -> f64 {
    of as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "above zero, and `as` saturates"
)]
fn whole(of: f64) -> u64 {
    of.round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dynashard_core::{Generation, Interval};
    use dynashard_keys::{PartitionKey, Placement, ShardCount, ShardId};

    use super::*;

    const WAITS: Waits = Waits {
        leases_end: Duration::from_secs(7),
        request_lifetime: Duration::from_mins(16),
        signature_age: Duration::ZERO,
    };

    fn count(n: u32) -> ShardCount {
        ShardCount::new(n).expect("a count")
    }

    fn moving() -> (CollectionMetadata, Job) {
        let partition = PartitionKey::new("EWR").expect("a key");
        let (from, to) = (count(4), count(16));
        let stable = CollectionMetadata::stable(partition.clone(), Placement::Xxh64, from, 0);
        let generation = Generation::new(2);
        let job = Job {
            within: Interval::default(),
            marked_within: Interval::default(),
            old_requests: None,
            partition,
            generation,
            rev: 1,
            from,
            to,
            then: None,
            started_secs: 1_000,
            forward_seen: Some(ServerTime(1_000)),
            move_seen: Some(ServerTime(1_010)),
            closing: false,
            scan: 1,
            done: [ShardId::new(0), ShardId::new(1)].into(),
            under_way: BTreeMap::new(),
            spans: BTreeMap::new(),
            scan_began: None,
            claims: BTreeMap::new(),
            last_lane: 0,
            called_until: None,
            scanned: None,
            closed_seen: None,
            marked: None,
            items_moved: 0,
            unmovable: BTreeMap::new(),
            mover_wcu: None,
            paused: false,
            yielded: false,
        };
        (CollectionMetadata { phase: Phase::Move { from, to }, generation, ..stable }, job)
    }

    #[test]
    fn regression_progress_went_back_when_keys_were_added_or_a_scan_began_again() {
        let (metadata, mut job) = moving();
        let mut course = Course::default();
        let mut look = |job: &Job, now| {
            course.note(&metadata, Some(job), WAITS, [0, now]);
            (course.stage, course.percent, course.left(now))
        };
        // Half has taken 100 seconds, and the requests from before are the longer wait.
        assert_eq!(look(&job, 1_110), (Stage::Moving, 50, Some([899, 899])));
        job.done.pop_last();
        assert_eq!(look(&job, 1_120), (Stage::Moving, 50, Some([889, 889])));
        job.done = (0..4).map(ShardId::new).collect();
        assert_eq!(look(&job, 1_200), (Stage::Waiting, 100, Some([809, 809])));
        (job.closing, job.scan_began) = (true, Some(ServerTime(1_980)));
        job.done.clear();
        assert_eq!(look(&job, 1_981), (Stage::Closing, 100, Some([28, 28])));
        assert_eq!(look(&job, 2_010), (Stage::Closing, 100, None), "it is late");
    }

    #[test]
    fn regression_time_was_left_in_thousands_of_seconds_while_nothing_could_be_told() {
        let (metadata, mut job) = moving();
        let waits = Waits { request_lifetime: Duration::ZERO, ..WAITS };
        let mut course = Course::default();
        job.done.clear();
        course.note(&metadata, Some(&job), waits, [0, 1_020]);
        assert_eq!((course.percent, course.left(1_020)), (0, None));
        job.done.insert(ShardId::new(0));
        course.note(&metadata, Some(&job), waits, [0, 1_110]);
        assert_eq!(course.left(1_110), Some([180, 480]), "about 300 seconds");
    }

    #[test]
    fn items_move_in_the_seconds_before_their_page_is_noted() {
        let (metadata, mut job) = moving();
        let mut course = Course::default();
        for (now, items) in [(1_010, 0), (1_012, 0), (1_014, 400), (1_060, 500)] {
            job.items_moved = items;
            course.note(&metadata, Some(&job), WAITS, [0, now]);
        }
        let moves = course.moves(1_012..1_060).collect::<Vec<_>>();
        assert_eq!((moves[0], moves[1], moves[2]), ((1_012, 100.0), (1_013, 100.0), (1_050, 10.0)));
        assert_eq!(course.pace(1_060), Some(10.0));
        let next = CollectionMetadata { generation: Generation::new(3), ..metadata };
        course.note(&next, None, WAITS, [1_050, 1_061]);
        assert_eq!(course.moves(0..2_000).count(), 10, "they are still shown");
    }
}
