//! What one call of the rebalancer remembers: its shares of the scans, its paces, and the items that it could not move.

use std::collections::BTreeSet;
use std::time::Duration;

use async_lock::{Semaphore, SemaphoreGuard};
use dynashard_keys::{ShardId, SortKey};
use parking_lot::Mutex;

use crate::decide::pace::Paces;
use crate::decide::turn::{Share, Worker};
use crate::decide::work::Work;
use crate::model::error::{Code, Error};
use crate::model::lease::Moment;
use crate::model::metadata::{CollectionMetadata, Phase};
use crate::model::reshard::{Job, MAX_UNMOVABLE, ServerTime, Waits};
use crate::model::settings::Settings;
use crate::usecases::rebalance::paced_requests::Stopped;
use crate::usecases::rebalance::rebalancer::ReshardSlice;

/// What one call of the rebalancer remembers of the scans that it takes part in.
pub(super) struct SliceState<'a> {
    pub(super) worker: Worker,
    pub(super) paces: Mutex<Paces>,
    pub(super) failed: FailedShards,
    /// The write units a second that moving the items of the collection may take.
    pub(super) mover_wcu: u32,
    /// The write units a second for each source.
    pub(super) wcu_each: f64,
    /// For how long it has gone through items.
    pub(super) scanned: Duration,
    /// Whether it has come any further.
    pub(super) has_come_on: bool,
    /// How many items it has moved.
    pub(super) moved: u64,
    /// How many of them the job does not count yet.
    pub(super) uncounted: u64,
    /// How far the reshard was at the last look.
    pub(super) reshard: Option<ReshardSlice>,
    /// Whether it has waited for the claims of others to lapse.
    pub(super) has_waited: bool,
    /// Whether it has tried again what could not be moved.
    pub(super) has_tried_again: bool,
    /// Its place among the collections that a sweep works on, if it is of one. It has none while it sleeps.
    pub(super) place: Option<Place<'a>>,
    /// DynamoDB's time at the last look, and the local clock's.
    looked: (ServerTime, Moment),
}

/// What moving an item of 1 KB takes: with less, a call that begins anew would never have saved up enough.
const LEAST_MOVER_WCU: u32 = 4;

/// A place among the collections that a sweep works on. Those whose changes only wait for a time have none: many come to that at once.
pub(super) struct Place<'a> {
    pub(super) places: &'a Semaphore,
    _held: SemaphoreGuard<'a>,
}

impl<'a> Place<'a> {
    /// Waits for one.
    pub(super) async fn in_one_of(places: &'a Semaphore) -> Self {
        Self { places, _held: places.acquire().await }
    }
}

impl<'a> SliceState<'a> {
    pub(super) fn new(worker: Worker, paces: Paces, place: Option<Place<'a>>, now: Moment) -> Self {
        Self {
            worker,
            paces: Mutex::new(paces),
            failed: FailedShards::default(),
            mover_wcu: LEAST_MOVER_WCU,
            wcu_each: 0.0,
            scanned: Duration::ZERO,
            has_come_on: false,
            moved: 0,
            uncounted: 0,
            reshard: None,
            has_waited: false,
            has_tried_again: false,
            place,
            looked: (ServerTime(0), now),
        }
    }

    /// Takes note of DynamoDB's time.
    pub(super) fn looks_at(&mut self, server: ServerTime, now: Moment) {
        self.looked = (server, now);
    }

    /// Takes note of how far what runs is.
    pub(super) fn finds(&mut self, metadata: &CollectionMetadata, job: &Job, waits: Waits) {
        let now = self.now();
        let since = match metadata.phase {
            // It has closed in this call, which tells how long it has run.
            Phase::Stable if self.reshard.is_some() => return,
            // What is left is to clear up.
            Phase::Stable => metadata.last_updated_secs,
            Phase::Forward { .. } | Phase::Move { .. } => job.started_secs,
        };
        self.reshard = Some(ReshardSlice {
            items_moved: 0,
            age_secs: now.0.saturating_sub(since),
            progress: metadata.reshard().map(|reshard| job.progress(&reshard, waits, now)),
            unmovable: job.unmovable.clone(),
        });
    }

    /// DynamoDB's time at the last look.
    pub(super) fn now(&self) -> ServerTime {
        self.looked.0
    }

    /// How these shards are shared out. The call goes through each as fast as that says.
    pub(super) fn share(
        &mut self,
        settings: &Settings,
        work: Work,
        job: &Job,
        shards: &[ShardId],
    ) -> Share {
        let left = shards.iter().filter(|shard| !job.done.contains(shard)).count();
        let share = work.share(settings, self.mover_wcu.max(LEAST_MOVER_WCU), left);
        self.wcu_each = share.wcu_each;
        share
    }

    /// The job with what a round has done, and the claims that go on. A part with more items that cannot be moved
    /// than the job has room for ends in front of the first of those.
    pub(super) fn with_parts(&mut self, job: &Job, parts: &mut [Part], now: Moment) -> Job {
        let (looked, then) = self.looked;
        let now = looked.plus(now.boot.saturating_sub(then.boot));
        let mut next = job.clone();
        next.items_moved += self.uncounted;
        for part in parts {
            if next.done.contains(&part.shard) {
                continue;
            }
            let noted = part.unmovable.iter().take_while(|Unmovable { sort, why, .. }| {
                next.note_unmovable(part.shard, sort, why)
            });
            let noted = noted.count();
            if noted < part.unmovable.len() {
                let Unmovable { before, sort, why } = part.unmovable.swap_remove(noted);
                part.unmovable.truncate(noted);
                (part.after, part.is_done) = (before, false);
                let sort = sort.to_string();
                let why = format!(
                    "the scan stops in front of the item with sort key {sort:?}, since {MAX_UNMOVABLE} others cannot \
                     be moved either: {why}"
                );
                self.failed.add(part.shard, Error::new(Code::UnmovableItem, why));
            }
            let Part { shard, after, is_done, span, .. } = part;
            if *is_done {
                next.note(*shard, None, None);
                continue;
            }
            if after.as_ref() > next.under_way.get(shard) {
                next.note(*shard, after.clone(), span.clone());
            }
            if next.claims.get(shard).is_some_and(|claim| claim.worker == self.worker.id) {
                next.renew(self.worker, *shard, whole(self.paces.lock().rate(*shard)), now);
            }
        }
        next
    }
}

fn whole(rate: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let rate = rate.round().clamp(0.0, f64::from(u32::MAX)) as u32;
    rate
}

/// The shards that a call has met trouble with that does not pass, such as an item that is damaged:
/// it leaves them alone, and goes on with the others.
#[derive(Debug, Default)]
pub(super) struct FailedShards {
    shards: BTreeSet<ShardId>,
    first: Option<Error>,
}

impl FailedShards {
    /// What was met first, if anything was.
    pub(super) fn error(&self) -> Option<Error> {
        self.first.clone()
    }

    pub(super) fn shards(&self) -> &BTreeSet<ShardId> {
        &self.shards
    }

    pub(super) fn add(&mut self, shard: ShardId, error: Error) {
        self.shards.insert(shard);
        self.first.get_or_insert_with(|| error.of_shards(vec![shard]));
    }
}

/// An item that DynamoDB rejects at its new home.
pub(super) struct Unmovable {
    /// The last sort key before it that is done with.
    pub(super) before: Option<SortKey>,
    pub(super) sort: SortKey,
    pub(super) why: String,
}

/// How far a round has come in one shard.
pub(super) struct Part {
    pub(super) shard: ShardId,
    /// The last sort key that is done with, if there are more items in the shard.
    pub(super) after: Option<SortKey>,
    /// Whether it has come to the end of the shard.
    pub(super) is_done: bool,
    /// The first and the last sort key of the shard, if it began with that and has several pages.
    pub(super) span: Option<[SortKey; 2]>,
    /// How many items it has moved.
    pub(super) moved: u64,
    /// The items up to `after` that cannot be moved.
    pub(super) unmovable: Vec<Unmovable>,
    /// Why it did not go on, if it was not the end of the round.
    pub(super) stopped: Option<Stopped>,
}

impl Part {
    /// Whether there is something to note.
    pub(super) fn has_come_on(&self, job: &Job) -> bool {
        self.is_done || self.after.as_ref() != job.under_way.get(&self.shard)
    }
}
