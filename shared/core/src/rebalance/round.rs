use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynashard_keys::{ItemKey, PhysicalKey, ShardId, SortKey};
use futures_util::future::{join, join_all};
use futures_util::stream::{self, StreamExt};

use crate::directory::Known;
use crate::metadata::Reshard;
use crate::ports::{
    Clock, Consistency, Entropy, ItemStore, MetadataStore, ShardPage, ShardQuery, SortRange,
};
use crate::rebalance::mover::{PacedRequests, Stopped};
use crate::rebalance::rebalancer::{RESERVE, Rebalancer, StepOutcome};
use crate::reshard::{Homes, Job};
use crate::retry::within;
use crate::{Deadline, Error, Fields, Generation, StoredItem};

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

    fn add(&mut self, shard: ShardId, error: Error) {
        self.shards.insert(shard);
        self.first.get_or_insert_with(|| error.of_shards(vec![shard]));
    }
}

/// How many source shards are worked on at once. Each is a partition of its own, so that together
/// they carry more than one could.
const SOURCES_AT_ONCE: usize = 8;

/// How many items of one source shard are on their way at once.
const ITEMS_AT_ONCE: usize = 16;

/// The most items that are read at once, so that no answer is large: whoever else reads and writes in
/// the partition may have to wait for it.
const PAGE: u32 = 32;

/// The same where nothing was to be done with the last page: what has moved is markers.
const MAX_PAGE: u32 = 200;

/// The least items of a page.
const LEAST_PAGE: u32 = 8;

/// What it takes to move an item of up to 1 KB: two writes in a transaction, each at twice the
/// price.
const LEAST_MOVE_WCU: f64 = 4.0;

/// What it takes to remove a marker, unless its keys are long.
const LEAST_REMOVAL_WCU: f64 = 1.0;

/// How long a round takes. It ends with a checkpoint, which costs a write and a pause, and is shorter
/// than another rebalancer watches whether somebody is at work.
const ROUND: Duration = Duration::from_secs(2);

/// The least write units of a round, so that its checkpoint costs little beside them.
const LEAST_ROUND_WCU: f64 = 64.0;

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
    /// One round of the scan: a part of each of several sources, and a checkpoint when all items of
    /// them are settled (protocol: "Steps", "mover").
    pub(super) async fn move_on(
        &self,
        seen: &Known,
        job: &Job,
        failed: &mut FailedShards,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let Some(reshard) = seen.metadata.reshard() else {
            return Ok(StepOutcome::Retry);
        };
        self.round(seen, job, Work::Move(reshard), failed, deadline).await
    }

    /// One round of the removal of markers, in the same way (protocol: "in the background").
    pub(super) async fn remove_markers(
        &self,
        seen: &Known,
        job: &Job,
        failed: &mut FailedShards,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        self.round(seen, job, Work::RemoveMarkers(job.generation), failed, deadline).await
    }

    async fn round(
        &self,
        seen: &Known,
        job: &Job,
        work: Work,
        failed: &mut FailedShards,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let but_for = &failed.shards;
        let shards = match work {
            Work::Move(reshard) => job.next_sources(reshard.sources(), SOURCES_AT_ONCE, but_for),
            Work::RemoveMarkers(_) => {
                job.next_sources(job.marked_shards(), SOURCES_AT_ONCE, but_for)
            }
        };
        if shards.is_empty()
            && let Some(error) = failed.error()
        {
            return Err(error);
        }
        let budget = Budget {
            units: (self.pace().rate() * ROUND.as_secs_f64()).max(LEAST_ROUND_WCU),
            parts: f64::from(u32::try_from(shards.len().max(1)).unwrap_or(u32::MAX)),
            is_untouched: true,
        };
        let budget = Mutex::new(budget);
        let until = deadline.earlier_by(RESERVE);
        let parts = shards
            .into_iter()
            .map(|(shard, after)| self.part_of(seen, shard, after, &budget, work, until));
        let parts = join_all(parts.collect::<Vec<_>>()).await;
        self.checkpoint(job, parts, failed, deadline).await
    }

    /// The part of a round that goes through one shard from `after` on: page by page, each of which is
    /// done with before the next is read, until the time or the write units of the round are used up.
    async fn part_of(
        &self,
        seen: &Known,
        shard: ShardId,
        after: Option<SortKey>,
        budget: &Mutex<Budget>,
        work: Work,
        until: Deadline,
    ) -> Part {
        let clock = self.directory.clock();
        let ends = clock.now().boot + ROUND;
        let mut part = Part { shard, after, is_done: false, span: None, moved: 0, stopped: None };
        let least = match work {
            Work::Move(_) => LEAST_MOVE_WCU,
            Work::RemoveMarkers(_) => LEAST_REMOVAL_WCU,
        };
        let mut size = PAGE;
        loop {
            let affordable = lock(budget).share() / least;
            // Where there was nothing to do there will be little.
            let size_now = if size > PAGE { size } else { size.min(items_for(affordable)) };
            let after = part.after.as_ref();
            let page = match self.page(seen, shard, after, size_now, work, until).await {
                Ok(page) => page,
                Err(stopped) => return Part { stopped: Some(stopped), ..part },
            };
            let span = self.span(seen, &part, &page, until);
            let Due { tasks, behind, cut } = self.due(seen, work, &part, page.items, budget);
            size = if tasks.is_empty() { (size * 2).min(MAX_PAGE) } else { PAGE };
            let tasks = tasks.into_iter().map(|task| self.carry_through(seen, task, until));
            let (done, span) = join(all_of(tasks.collect::<Vec<_>>()), span).await;
            match done {
                Ok(moved) if matches!(work, Work::Move(_)) => part.moved += moved,
                Ok(_) => {}
                Err(stopped) => return Part { stopped: Some(stopped), ..part },
            }
            part.span = part.span.or(span);
            part.after = if cut { behind } else { page.next };
            part.is_done = !cut && part.after.is_none();
            let is_used_up = lock(budget).units < least;
            if part.is_done || cut || is_used_up || clock.now().boot >= ends {
                return part;
            }
        }
    }

    /// What is to be done with these items, as far as the budget suffices.
    fn due(
        &self,
        seen: &Known,
        work: Work,
        part: &Part,
        items: Vec<(SortKey, StoredItem)>,
        budget: &Mutex<Budget>,
    ) -> Due {
        let mut due = Due { tasks: Vec::new(), behind: part.after.clone(), cut: false };
        for (sort, item) in items {
            let behind = Some(sort.clone());
            if let Some((task, takes)) = self.task(seen, work, part.shard, sort, item) {
                if !lock(budget).spend(takes) {
                    return Due { cut: true, ..due };
                }
                due.tasks.push(task);
            }
            due.behind = behind;
        }
        due
    }

    /// What is to be done with one item, if anything is, and the write units that it takes.
    fn task(
        &self,
        seen: &Known,
        work: Work,
        shard: ShardId,
        sort: SortKey,
        item: StoredItem,
    ) -> Option<(Task, f64)> {
        let separator = self.directory.settings().schema.separator;
        let key = ItemKey::new(seen.metadata.partition.clone(), sort);
        let here = key.at(shard, separator);
        match work {
            Work::Move(reshard) => (item.is_live() && reshard.leaves(&key, shard)).then(|| {
                let homes = Homes { old: here, new: key.at(reshard.new_home(&key), separator) };
                let units = self.move_units(&homes, &item);
                (Task::Move { homes, item }, units)
            }),
            Work::RemoveMarkers(generation) => (!item.is_live() && item.generation <= generation)
                .then(|| {
                    let units = self.kilobytes(&here, &item);
                    (Task::RemoveMarker { key: here, generation, units }, units)
                }),
        }
    }

    async fn carry_through(
        &self,
        seen: &Known,
        task: Task,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        match task {
            Task::Move { homes, item } => self.move_item(seen, homes, item, deadline).await,
            Task::RemoveMarker { key, generation, units } => {
                self.remove_marker(seen, generation, key, units, deadline).await
            }
        }
    }

    /// Notes how far a round has come in each shard.
    async fn checkpoint(
        &self,
        job: &Job,
        parts: Vec<Part>,
        failed: &mut FailedShards,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let mut next = job.clone();
        let mut in_time = true;
        for Part { shard, after, is_done, span, moved, stopped } in parts {
            if is_done || after.is_some() {
                next.note(shard, after, span);
            }
            next.items_moved += moved;
            match stopped {
                None => {}
                Some(Stopped::OutOfTime) => in_time = false,
                Some(Stopped::MetadataChanged) => return Ok(StepOutcome::Retry),
                Some(Stopped::Failed(error)) => failed.add(shard, error),
            }
        }
        if next == *job {
            return Ok(if in_time { StepOutcome::Retry } else { StepOutcome::OutOfTime });
        }
        let mut outcome = self.save(job, next.clone(), deadline).await?;
        if outcome == StepOutcome::Lost
            && let (Some(noted), _) = self.directory.job(&job.partition, deadline).await?
            && noted.then != job.then
            && *job == (Job { rev: job.rev, then: job.then, ..noted.clone() })
        {
            // It was an operator who has written into the job, and no other mover.
            let next = Job { then: noted.then, ..next };
            outcome = self.save(&noted, next, deadline).await?;
        }
        match outcome {
            StepOutcome::Noted { .. } if !in_time => Ok(StepOutcome::OutOfTime),
            outcome => Ok(outcome),
        }
    }

    async fn page(
        &self,
        seen: &Known,
        shard: ShardId,
        after: Option<&SortKey>,
        limit: u32,
        work: Work,
        deadline: Deadline,
    ) -> Result<ShardPage, Stopped> {
        let query = ShardQuery {
            after: after.cloned(),
            limit,
            fields: match work {
                Work::Move(_) => None,
                Work::RemoveMarkers(_) => Some(Fields::none()),
            },
            ..self.keys_of(seen, shard)
        };
        PacedRequests::new(self, seen, deadline).made(|| self.items.query(&query)).await
    }

    /// The first and the last sort key of the shard, if this is its first page and there are more of
    /// them. It is for reports alone: trouble with it is nobody's.
    fn span<'a>(
        &'a self,
        seen: &'a Known,
        part: &Part,
        page: &ShardPage,
        deadline: Deadline,
    ) -> impl Future<Output = Option<[SortKey; 2]>> + use<'a, I, M, C, E> {
        let is_asked_for = part.after.is_none() && page.next.is_some();
        let first = page.items.first().filter(|_| is_asked_for).map(|(sort, _)| sort.clone());
        let shard = part.shard;
        async move {
            let first = first?;
            let query = ShardQuery {
                ascending: false,
                limit: 1,
                consistency: Consistency::Eventual,
                ..self.keys_of(seen, shard)
            };
            let ends = within(self.directory.clock(), deadline, self.items.query(&query)).await;
            let (last, _) = ends?.ok()?.items.into_iter().next()?;
            Some([first, last])
        }
    }

    /// A page of a shard from its start, without what its items hold.
    fn keys_of(&self, seen: &Known, shard: ShardId) -> ShardQuery {
        let separator = self.directory.settings().schema.separator;
        ShardQuery {
            partition: seen.metadata.partition.at(shard, separator),
            range: SortRange::All,
            ascending: true,
            after: None,
            limit: PAGE,
            fields: Some(Fields::none()),
            consistency: Consistency::Strong,
        }
    }
}

/// The size of a page that has about so many items.
fn items_for(items: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let items = items.ceil().clamp(f64::from(LEAST_PAGE), f64::from(MAX_PAGE)) as u32;
    items
}

/// Does what is to be done with the items of a page, and returns how many there were. What has begun
/// comes to its end when the time has run out for the rest: else a slice too short for a whole page
/// would get nowhere.
async fn all_of(items: Vec<impl Future<Output = Result<(), Stopped>>>) -> Result<u64, Stopped> {
    let count = items.len();
    let mut side_by_side = stream::iter(items).buffer_unordered(ITEMS_AT_ONCE);
    let mut in_time = true;
    while let Some(done) = side_by_side.next().await {
        match done {
            Ok(()) => {}
            Err(Stopped::OutOfTime) => in_time = false,
            Err(stopped) => return Err(stopped),
        }
    }
    if !in_time {
        return Err(Stopped::OutOfTime);
    }
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The write units that a round has left for its parts.
struct Budget {
    units: f64,
    parts: f64,
    is_untouched: bool,
}

impl Budget {
    /// Takes these units, if they are there. What comes first in a round gets them in any case, or an
    /// item that is larger would never move.
    fn spend(&mut self, units: f64) -> bool {
        if units > self.units && !self.is_untouched {
            return false;
        }
        self.units -= units;
        self.is_untouched = false;
        true
    }

    /// What there is for each part.
    fn share(&self) -> f64 {
        self.units.max(0.0) / self.parts
    }
}

fn lock(budget: &Mutex<Budget>) -> MutexGuard<'_, Budget> {
    // Nothing panics while the lock is held.
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a round does with what it finds.
#[derive(Debug, Clone, Copy)]
enum Work {
    Move(Reshard),
    /// Of this generation and those before it.
    RemoveMarkers(Generation),
}

/// What is to be done with one item.
enum Task {
    Move { homes: Homes, item: StoredItem },
    RemoveMarker { key: PhysicalKey, generation: Generation, units: f64 },
}

/// What is to be done with a page.
struct Due {
    tasks: Vec<Task>,
    /// The last sort key of what it covers.
    behind: Option<SortKey>,
    /// Whether the budget did not suffice for all of the page.
    cut: bool,
}

/// How far a round has come in one shard.
struct Part {
    shard: ShardId,
    /// The last sort key that is done with, if there are more items in the shard.
    after: Option<SortKey>,
    /// Whether it has come to the end of the shard.
    is_done: bool,
    /// The first and the last sort key of the shard, if it began with that and has several pages.
    span: Option<[SortKey; 2]>,
    /// How many items it has moved.
    moved: u64,
    /// Why it did not go on, if it was not the end of the round.
    stopped: Option<Stopped>,
}
