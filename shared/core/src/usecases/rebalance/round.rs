//! One round of a scan: pages of the sources, what is done with their items, and a checkpoint.

use std::collections::BTreeSet;
use std::time::Duration;

use dynashard_keys::{ItemKey, PhysicalKey, SortKey};
use futures_util::future::{join, join_all};
use futures_util::stream;
use futures_util::stream::StreamExt;

use crate::decide::pace::{Units, most_of_reads};
use crate::decide::turn::Source;
use crate::decide::work::Work;
use crate::model::epochs::Interval;
use crate::model::error::Error;
use crate::model::fields::Fields;
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::model::reshard::Job;
use crate::model::version::Generation;
use crate::ports::{Consistency, ShardPage, ShardQuery, SortRange};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::rebalance::paced_requests::{At, Carried, PacedRequests, Stopped, kilobytes};
use crate::usecases::rebalance::rebalancer::{RESERVE, StepOutcome, save_job};
use crate::usecases::rebalance::slice_state::{Part, SliceState, Unmovable};
use crate::usecases::retry::within;
use crate::usecases::settle::BothHomes;

/// How many items of one source shard are on their way at once.
const ITEMS_AT_ONCE: usize = 16;

/// The most items that are read at once, so that no answer is large: whoever else reads and writes in
/// the partition may have to wait for it.
const PAGE: u32 = 32;

/// The most items of a page behind one with which nothing was to be done: what has moved is markers. One page takes a tenth of what a
/// partition reads in a second at most, as DynamoDB answers 1 MB at a time.
const MAX_PAGE: u32 = 500;

/// The least items of a page.
const LEAST_PAGE: u32 = 8;

/// For how long a round begins with items. It ends with a checkpoint when what has begun is over, which is
/// sooner than a claim lapses.
const ROUND: Duration = Duration::from_secs(2);

/// How often a checkpoint is written anew because another call has written its own meanwhile.
const CHECKPOINT_ATTEMPTS: u32 = 8;

/// Moves the items of a reshard, or removes its markers, in rounds.
#[derive(Clone, Copy)]
pub(super) struct Mover<'a> {
    pub(super) directory: &'a Directory,
    pub(super) seen: &'a Known,
    pub(super) job: &'a Job,
    pub(super) work: Work,
}

impl Mover<'_> {
    /// One round of a scan: a part of each source that the call has claimed, and a checkpoint when all items
    /// of them are settled (protocol: "Steps", "mover"), or all markers removed (protocol: "in the
    /// background").
    pub(super) async fn round(
        &self,
        sources: Vec<Source>,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let began = self.directory.now();
        let noted = sources.iter().map(|source| (source.shard, source.wcu));
        let paces = &state.paces;
        state.paces.lock().take_up(noted, state.wcu_each, self.work.at_source(), began.boot);
        let until = deadline.earlier_by(RESERVE);
        let ends = began.boot + ROUND;
        let parts = sources.into_iter().map(|Source { shard, after, .. }| {
            self.part_of(At { seen: self.seen, shard, paces, ends, deadline: until }, after)
        });
        let parts = join_all(parts.collect::<Vec<_>>()).await;
        self.checkpoint(parts, state, deadline).await
    }

    /// The part of a round that goes through one shard from `after` on: page by page, each of which is
    /// done with before the next is read, until the round ends.
    async fn part_of(&self, at: At<'_>, after: Option<SortKey>) -> Part {
        let clock = self.directory.clock();
        let shard = at.shard;
        let mut part = Part {
            shard,
            after,
            is_done: false,
            span: None,
            moved: 0,
            unmovable: Vec::new(),
            stopped: None,
        };
        let mut size = PAGE;
        let reads = most_of_reads(self.directory.settings().partition);
        loop {
            let began = clock.now().boot;
            let left = at.ends.saturating_sub(clock.now().boot).as_secs_f64();
            let affordable =
                items_for(at.paces.lock().rate(shard) * left / self.work.least().at_source);
            // Where there was nothing to do there will be little.
            let size_now = if size > PAGE { size } else { size.min(affordable) };
            let page = match self.page(at, part.after.as_ref(), size_now).await {
                Ok(page) => page,
                Err(stopped) => return Part { stopped: Some(stopped), ..part },
            };
            let consumed_rcu = page.consumed_rcu;
            let span = self.span(at, &part, &page);
            let tasks = self.tasks(at, part.after.clone(), page.items);
            size = if tasks.is_empty() { (size * 2).min(MAX_PAGE) } else { PAGE };
            let (befores, tasks) = tasks.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
            let tasks = tasks.into_iter().map(|task| self.carry_through(at, task));
            let (ended, span) = join(all_of(tasks.collect::<Vec<_>>()), span).await;
            if matches!(self.work, Work::Move(_)) {
                part.moved += ended.done;
            }
            part.span = part.span.or(span);
            let first_left = ended.stopped.as_ref().map_or(befores.len(), |(first, _)| *first);
            part.unmovable.extend(
                ended
                    .unmovable
                    .into_iter()
                    .filter(|(n, ..)| *n < first_left)
                    .map(|(n, sort, why)| Unmovable { before: befores[n].clone(), sort, why }),
            );
            if let Some((first, stopped)) = ended.stopped {
                part.after = befores.into_iter().nth(first).flatten();
                return Part { stopped: Some(stopped), ..part };
            }
            part.after = page.next;
            part.is_done = part.after.is_none();
            if part.is_done || clock.now().boot >= at.ends {
                return part;
            }
            // Where there is nothing to do, reading is what takes from the partition.
            let reading = Duration::try_from_secs_f64(consumed_rcu / reads).unwrap_or_default();
            let wait = (began + reading).min(at.ends).saturating_sub(clock.now().boot);
            if !wait.is_zero() {
                clock.sleep(wait).await;
            }
        }
    }

    /// What is to be done with these items, each with the last sort key before it that is done with.
    fn tasks(
        &self,
        at: At<'_>,
        after: Option<SortKey>,
        items: Vec<(SortKey, StoredItem)>,
    ) -> Vec<(Option<SortKey>, Task)> {
        let mut tasks = Vec::new();
        let mut before = after;
        for (sort, item) in items {
            let this = Some(sort.clone());
            if let Some(task) = self.task(at, sort, item) {
                tasks.push((before, task));
            }
            before = this;
        }
        tasks
    }

    /// What is to be done with one item, if anything is.
    fn task(
        &self,
        At { seen, shard, .. }: At<'_>,
        sort: SortKey,
        item: StoredItem,
    ) -> Option<Task> {
        let separator = self.directory.settings().schema.separator;
        let key = ItemKey::new(seen.metadata.partition.clone(), sort);
        let placement = seen.metadata.placement;
        let here = key.at(shard, placement, separator);
        match self.work {
            Work::Move(reshard) => (item.is_live() && reshard.leaves(&key, shard)).then(|| {
                let homes = BothHomes {
                    old: here,
                    new: key.at(reshard.new_home(&key), placement, separator),
                };
                Task::Move { homes, item }
            }),
            Work::RemoveMarkers(generation) => (!item.is_live() && item.generation <= generation)
                .then(|| {
                    let kilobytes = kilobytes(&here, &item, &self.directory.settings().schema);
                    let units = Units { at_source: kilobytes, in_all: kilobytes };
                    Task::RemoveMarker { key: here, generation, units }
                }),
        }
    }

    async fn carry_through(&self, at: At<'_>, task: Task) -> Result<Carried, Stopped> {
        match task {
            Task::Move { homes, item } => {
                PacedRequests::new(self.directory, at).move_item(&homes, item).await
            }
            Task::RemoveMarker { key, generation, units } => {
                let requests = PacedRequests::new(self.directory, at);
                requests.remove_marker(generation, key, units).await.map(|()| Carried::Through)
            }
        }
    }

    /// Tries again to move what could not be moved, and takes out of the job what needs no move any more: the
    /// item was moved, replaced or deleted.
    pub(super) async fn try_again(
        &self,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let began = self.directory.now();
        state.share(self.directory.settings(), self.work, self.job, &[]);
        let shards = self.job.unmovable.keys().map(|(shard, _)| *shard).collect::<BTreeSet<_>>();
        let shards = shards.into_iter().map(|shard| (shard, None));
        state.paces.lock().take_up(shards, state.wcu_each, self.work.at_source(), began.boot);
        let (paces, until, ends) = (&state.paces, deadline.earlier_by(RESERVE), began.boot + ROUND);
        let attempts = self.job.unmovable.keys().map(|(shard, sort)| async move {
            let at = At { seen: self.seen, shard: *shard, paces, ends, deadline: until };
            ((*shard, sort.clone()), self.try_item_again(at, sort).await)
        });
        let attempts = attempts.collect::<Vec<_>>();
        let mut ended = stream::iter(attempts).buffer_unordered(ITEMS_AT_ONCE);
        let mut next = self.job.clone();
        while let Some((item, outcome)) = ended.next().await {
            match outcome {
                Ok(Carried::Through) => drop(next.unmovable.remove(&item)),
                Ok(Carried::Unmovable(sort, why)) => drop(next.note_unmovable(item.0, &sort, &why)),
                // The next call tries it again.
                Err(_) => {}
            }
        }
        drop(ended);
        if next == *self.job {
            return Ok(StepOutcome::Retry);
        }
        save_job(self.directory, self.job, next, deadline).await
    }

    async fn try_item_again(&self, at: At<'_>, sort: &SortKey) -> Result<Carried, Stopped> {
        let metadata = &at.seen.metadata;
        let key = ItemKey::new(metadata.partition.clone(), sort.clone());
        let separator = self.directory.settings().schema.separator;
        let here = key.at(at.shard, metadata.placement, separator);
        let read = || self.directory.context().items().get(&here, None, Consistency::Strong);
        let found = PacedRequests::new(self.directory, at).made(read).await?.value;
        match found.and_then(|item| self.task(at, sort.clone(), item)) {
            Some(task) => self.carry_through(at, task).await,
            None => Ok(Carried::Through),
        }
    }

    /// Notes how far a round has come in each shard, beside what others have noted meanwhile.
    async fn checkpoint(
        &self,
        mut parts: Vec<Part>,
        state: &mut SliceState<'_>,
        deadline: Deadline,
    ) -> Result<StepOutcome, Error> {
        let moved = parts.iter().map(|part| part.moved).sum::<u64>();
        state.moved += moved;
        let mut in_time = true;
        for part in &parts {
            match &part.stopped {
                None | Some(Stopped::NotYet) => {}
                Some(Stopped::OutOfTime) => in_time = false,
                Some(Stopped::MetadataChanged) => {
                    // The next job may be that of another reshard.
                    state.uncounted = 0;
                    return Ok(StepOutcome::Retry);
                }
                Some(Stopped::Failed(error)) => state.failed.add(part.shard, error.clone()),
            }
        }
        state.uncounted += moved;
        let ended = if in_time { StepOutcome::Retry } else { StepOutcome::OutOfTime };
        let has_come_on = parts.iter().any(|part| part.has_come_on(self.job));
        let is_over = parts.iter().all(|part| state.failed.shards().contains(&part.shard));
        if is_over && !has_come_on {
            return Ok(ended);
        }
        state.has_come_on |= has_come_on;
        let mut seen = self.job.clone();
        for _ in 0..CHECKPOINT_ATTEMPTS {
            let now = self.directory.now();
            let next = state.with_parts(&seen, &mut parts, now);
            if save_job(self.directory, &seen, next, deadline).await? != StepOutcome::Lost {
                state.uncounted = 0;
                return Ok(ended);
            }
            let (Some(noted), _) =
                self.directory.records().job(&self.job.partition, deadline).await?
            else {
                return Ok(StepOutcome::Retry);
            };
            // What was found out in another scan says nothing of this one.
            if (noted.generation, noted.scan) != (self.job.generation, self.job.scan) {
                state.uncounted = 0;
                return Ok(StepOutcome::Retry);
            }
            seen = noted;
        }
        Ok(ended)
    }

    async fn page(
        &self,
        at: At<'_>,
        after: Option<&SortKey>,
        limit: u32,
    ) -> Result<ShardPage, Stopped> {
        let query = ShardQuery {
            // The interval begins behind a key that belongs to another epoch.
            after: after.or(self.interval().after.as_ref()).cloned(),
            limit,
            fields: match self.work {
                Work::Move(_) => None,
                Work::RemoveMarkers(_) => Some(Fields::none()),
            },
            ..self.keys_of(at)
        };
        PacedRequests::new(self.directory, at)
            .made(|| self.directory.context().items().query(&query))
            .await
    }

    /// The first and the last sort key of the shard, if this is its first page and there are more of
    /// them. It is for reports alone: trouble with it is nobody's.
    fn span<'a>(
        &'a self,
        at: At<'a>,
        part: &Part,
        page: &ShardPage,
    ) -> impl Future<Output = Option<[SortKey; 2]>> + use<'a> {
        let is_asked_for = part.after.is_none() && page.next.is_some();
        let first = page.items.first().filter(|_| is_asked_for).map(|(sort, _)| sort.clone());
        async move {
            let first = first?;
            let query = ShardQuery {
                ascending: false,
                limit: 1,
                consistency: Consistency::Eventual,
                ..self.keys_of(at)
            };
            let ends = within(
                self.directory.clock(),
                at.deadline,
                self.directory.context().items().query(&query),
            )
            .await;
            let (last, _) = ends?.ok()?.items.into_iter().next()?;
            Some([first, last])
        }
    }

    /// The sort keys that it goes through.
    fn interval(&self) -> &Interval {
        match self.work {
            Work::Move(_) => &self.job.within,
            Work::RemoveMarkers(_) => &self.job.marked_within,
        }
    }

    /// A page of a shard from its start, without what its items hold.
    fn keys_of(&self, At { seen, shard, .. }: At<'_>) -> ShardQuery {
        let separator = self.directory.settings().schema.separator;
        ShardQuery {
            partition: seen.metadata.partition.at(shard, seen.metadata.placement, separator),
            range: SortRange::All.within(self.interval()).unwrap_or_default(),
            ascending: true,
            after: None,
            limit: PAGE,
            fields: Some(Fields::none()),
            consistency: Consistency::Strong,
            replica: None,
        }
    }
}

/// The size of a page that has about so many items.
fn items_for(items: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let items = items.ceil().clamp(f64::from(LEAST_PAGE), f64::from(MAX_PAGE)) as u32;
    items
}

/// What became of the items of a page.
struct Ended {
    /// How many are done.
    done: u64,
    /// Those that cannot be moved.
    unmovable: Vec<(usize, SortKey, String)>,
    /// The first that is neither, and why one of those that are neither is not.
    stopped: Option<(usize, Stopped)>,
}

/// Does what is to be done with the items of a page. What has begun comes to its end when the time has run
/// out for the rest: else a slice too short for a whole page would get nowhere.
async fn all_of(items: Vec<impl Future<Output = Result<Carried, Stopped>>>) -> Ended {
    let numbered = (0..).zip(items).map(|(n, item)| async move { (n, item.await) });
    let mut side_by_side =
        stream::iter(numbered.collect::<Vec<_>>()).buffer_unordered(ITEMS_AT_ONCE);
    let mut ended = Ended { done: 0, unmovable: Vec::new(), stopped: None };
    while let Some((n, outcome)) = side_by_side.next().await {
        let stopped = match outcome {
            Ok(Carried::Through) => {
                ended.done += 1;
                continue;
            }
            Ok(Carried::Unmovable(sort, why)) => {
                ended.unmovable.push((n, sort, why));
                continue;
            }
            Err(stopped) => stopped,
        };
        let is_over = matches!(stopped, Stopped::MetadataChanged);
        ended.stopped = Some(match ended.stopped.take() {
            None => (n, stopped),
            Some((first, before)) => (first.min(n), before.max(stopped)),
        });
        if is_over {
            break;
        }
    }
    ended.unmovable.sort_by_key(|(n, ..)| *n);
    ended
}

/// What is to be done with one item.
enum Task {
    Move { homes: BothHomes, item: StoredItem },
    RemoveMarker { key: PhysicalKey, generation: Generation, units: Units },
}
