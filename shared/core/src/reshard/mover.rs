use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, ShardId, SortKey};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};

use crate::directory::Known;
use crate::item::stored_bytes;
use crate::metadata::Reshard;
use crate::ports::{
    Action, Clock, Condition, Consistency, Entropy, Expected, ItemStore, MetadataStore, ShardPage,
    ShardQuery, SortRange, StoreError, Write,
};
use crate::rebalance::{Carried, RESERVE, Rebalancer};
use crate::reshard::{Brought, Homes, Job, Unsettled, bring, give_way};
use crate::retry::{Attempts, Backoff, refusal, within};
use crate::{Code, Deadline, Error, Fields, StoredItem};

/// How many source shards are worked on at once. Each is a partition of its own, so that together
/// they carry more than one could.
const SOURCES_AT_ONCE: usize = 8;

/// How many items of one source shard are on their way at once.
const ITEMS_AT_ONCE: usize = 16;

/// The most items that a round takes from one source.
const MAX_PART: f64 = 200.0;

/// The most items that are read at once. A page of all that a round takes would keep the partition,
/// and whoever else reads and writes there, waiting for the time that its size takes.
const PAGE: u32 = 32;

/// How long the moves of one round of pages should take. It ends with a checkpoint, which costs a
/// write and a pause: with rounds of half a second the slowest hundredth of the foreground took half
/// as long again (`cargo bench -p dynashard-cli --bench reshard -- foreground`).
const ROUND_SECS: f64 = 2.0;

/// The least items of a round, so that its checkpoint costs little beside them.
const LEAST_ROUND: f64 = 64.0;

/// What it takes to move an item of up to 1 KB: two writes in a transaction, each at twice the
/// price.
const MOVE_WCU: f64 = 4.0;

/// What it takes to remove a marker, unless its keys are long.
const REMOVAL_WCU: f64 = 1.0;

/// How long an item pauses that was refused. Shorter than a client's write does: the pace already
/// says how fast to go, and of an overloaded partition a move needs two units at once.
const REFUSED: Backoff =
    Backoff { base: Duration::from_millis(25), cap: Duration::from_millis(200) };

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
    /// One round of the scan: a part of each of several sources, and a checkpoint when all items of
    /// them are settled (protocol: "Steps", "mover").
    pub(crate) async fn move_on(
        &self,
        seen: &Known,
        job: &Job,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
        let Some(reshard) = seen.metadata.reshard() else {
            return Ok(Carried::Again);
        };
        let sources = job.next_sources(reshard.sources(), SOURCES_AT_ONCE);
        let limit = self.part_limit(sources.len(), MOVE_WCU);
        let until = deadline.earlier_by(RESERVE);
        let parts = sources.into_iter().map(|(shard, after)| {
            self.part_of(seen, shard, after, limit, Work::Move(reshard), until)
        });
        let parts = join_all(parts.collect::<Vec<_>>()).await;
        self.checkpoint(job, parts, deadline).await
    }

    /// One round of the removal of markers, in the same way (protocol: "in the background").
    pub(crate) async fn remove_markers(
        &self,
        seen: &Known,
        job: &Job,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
        let shards = job.next_sources(job.marked_shards(), SOURCES_AT_ONCE);
        let limit = self.part_limit(shards.len(), REMOVAL_WCU);
        let until = deadline.earlier_by(RESERVE);
        let parts = shards.into_iter().map(|(shard, after)| {
            self.part_of(seen, shard, after, limit, Work::RemoveMarkers(job), until)
        });
        let parts = join_all(parts.collect::<Vec<_>>()).await;
        self.checkpoint(job, parts, deadline).await
    }

    /// The part of a round that goes through one shard: up to `limit` items behind `after`, page by
    /// page, each of which is done with before the next is read. Where the time runs out the
    /// part ends with the last page that was done.
    async fn part_of(
        &self,
        seen: &Known,
        shard: ShardId,
        mut after: Option<SortKey>,
        limit: u32,
        work: Work<'_>,
        until: Deadline,
    ) -> Result<PartDone, Stopped> {
        let fields = match work {
            Work::Move(_) => None,
            // What an item holds is nothing to it.
            Work::RemoveMarkers(_) => Some(Fields::none()),
        };
        let (mut left, mut moved) = (limit, 0);
        let mut span = None;
        loop {
            let page = async {
                let page =
                    self.page(seen, shard, after.as_ref(), left.min(PAGE), fields.as_ref(), until);
                let page = page.await?;
                let span = self.span(seen, shard, after.as_ref(), &page, until).await?;
                let read = u32::try_from(page.items.len()).unwrap_or(u32::MAX).max(1);
                let next = page.next.clone();
                let moved_now = match work {
                    Work::Move(reshard) => {
                        self.move_page(seen, reshard, shard, page, until).await?
                    }
                    Work::RemoveMarkers(job) => {
                        self.remove_markers_of(seen, job, shard, page, until).await?;
                        0
                    }
                };
                Ok((read, next, span, moved_now))
            };
            match page.await {
                Ok((read, next, found, moved_now)) => {
                    moved += moved_now;
                    span = span.or(found);
                    left = left.saturating_sub(read);
                    after = next;
                    if after.is_none() || left == 0 {
                        return Ok(PartDone { shard, last: after, span, moved });
                    }
                }
                Err(Stopped::OutOfTime) if left < limit => {
                    return Ok(PartDone { shard, last: after, span, moved });
                }
                Err(stopped) => return Err(stopped),
            }
        }
    }

    /// Notes how far a round has come in each shard whose page was done to its end.
    async fn checkpoint(
        &self,
        job: &Job,
        parts: Vec<Result<PartDone, Stopped>>,
        deadline: Deadline,
    ) -> Result<Carried, Error> {
        let mut next = job.clone();
        let mut in_time = true;
        let mut failed = None;
        for part in parts {
            match part {
                Ok(PartDone { shard, last, span, moved }) => {
                    next.note(shard, last, span);
                    next.items_moved += moved;
                }
                Err(Stopped::OutOfTime) => in_time = false,
                Err(Stopped::MetadataChanged) => return Ok(Carried::Again),
                Err(Stopped::Failed(error)) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            // One shard's trouble is not another's: what was done need not be done again.
            if next != *job {
                self.save(job, next, deadline).await?;
            }
            return Err(error);
        }
        if !in_time && next == *job {
            return Ok(Carried::OutOfTime);
        }
        let mut carried = self.save(job, next.clone(), deadline).await?;
        if carried == Carried::Elsewhere
            && let (Some(noted), _) = self.directory.job(&job.partition, deadline).await?
            && noted.then != job.then
            && *job == (Job { rev: job.rev, then: job.then, ..noted.clone() })
        {
            // It was an operator who has written into the job, and no other mover.
            let next = Job { then: noted.then, ..next };
            carried = self.save(&noted, next, deadline).await?;
        }
        match carried {
            Carried::Noted { .. } if !in_time => Ok(Carried::OutOfTime),
            carried => Ok(carried),
        }
    }

    /// How many items to take from each of `shards` shards in one round.
    fn part_limit(&self, shards: usize, item_wcu: f64) -> u32 {
        let shards = f64::from(u32::try_from(shards.max(1)).unwrap_or(u32::MAX));
        let items = (self.pace().rate() * ROUND_SECS / item_wcu).max(LEAST_ROUND) / shards;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let limit = items.ceil().clamp(8.0, MAX_PART) as u32;
        limit
    }

    async fn page(
        &self,
        seen: &Known,
        shard: ShardId,
        after: Option<&SortKey>,
        limit: u32,
        fields: Option<&Fields>,
        deadline: Deadline,
    ) -> Result<ShardPage, Stopped> {
        let partition = &seen.metadata.partition;
        let query = ShardQuery {
            partition: partition.at(shard, self.directory.settings().schema.separator),
            range: SortRange::All,
            ascending: true,
            after: after.cloned(),
            limit,
            fields: fields.cloned(),
            consistency: Consistency::Strong,
        };
        self.query(&query, deadline).await.map_err(|stopped| stopped.in_shard(shard))
    }

    /// The first and the last sort key of a shard whose first page this is, if there are more of them.
    /// A page that goes on behind another tells nothing.
    async fn span(
        &self,
        seen: &Known,
        shard: ShardId,
        after: Option<&SortKey>,
        page: &ShardPage,
        deadline: Deadline,
    ) -> Result<Option<[SortKey; 2]>, Stopped> {
        let Some((first, _)) =
            page.items.first().filter(|_| after.is_none() && page.next.is_some())
        else {
            return Ok(None);
        };
        let query = ShardQuery {
            partition: seen
                .metadata
                .partition
                .at(shard, self.directory.settings().schema.separator),
            range: SortRange::All,
            ascending: false,
            after: None,
            limit: 1,
            fields: Some(Fields::none()),
            consistency: Consistency::Eventual,
        };
        let ends = self.query(&query, deadline).await?;
        Ok(ends.items.into_iter().next().map(|(last, _)| [first.clone(), last]))
    }

    async fn query(&self, query: &ShardQuery, deadline: Deadline) -> Result<ShardPage, Stopped> {
        let mut attempts = self.attempts(deadline);
        loop {
            match within(self.directory.clock(), deadline, self.items.query(query)).await {
                Some(Ok(page)) => return Ok(page),
                Some(Err(error)) => self.pause(&mut attempts, 0.0, error).await?,
                None => return Err(Stopped::OutOfTime),
            }
        }
    }

    /// Settles each item of a page that is to leave its shard, and waits for all. Returns how many
    /// there were.
    async fn move_page(
        &self,
        seen: &Known,
        reshard: Reshard,
        shard: ShardId,
        page: ShardPage,
        deadline: Deadline,
    ) -> Result<u64, Stopped> {
        let partition = &seen.metadata.partition;
        let separator = self.directory.settings().schema.separator;
        let leaving = page.items.into_iter().filter_map(|(sort, item)| {
            let key = ItemKey::new(partition.clone(), sort);
            let leaves = item.is_live() && reshard.leaves(&key, shard);
            leaves.then(|| {
                let new = key.at(reshard.new_home(&key), separator);
                (Homes { old: key.at(shard, separator), new }, item)
            })
        });
        let moves = leaving.map(|(homes, item)| async move {
            let sort = homes.old.sort.clone();
            let moved = self.move_item(seen, homes, item, deadline).await;
            moved.map_err(|stopped| stopped.at_item(shard, &sort))
        });
        let moves = moves.collect::<Vec<_>>();
        all_of(moves).await
    }

    async fn move_item(
        &self,
        seen: &Known,
        homes: Homes,
        item: StoredItem,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        let clock = self.directory.clock();
        let mut attempts = self.attempts(deadline);
        let mut item = Some(item);
        let mut gives_way = false;
        loop {
            let Some(found) = item.take().filter(StoredItem::is_live) else {
                return Ok(());
            };
            // Each transaction is paid for, those that are cancelled too.
            let units = self.move_units(&homes, &found);
            self.wait_for_turn(units, deadline).await?;
            let known = self.renewed(seen, deadline).await?;
            let moving = async {
                if gives_way {
                    let version = (found.version, found.generation);
                    give_way(&self.items, &homes, version, &known).await?;
                    return Ok(Brought::Arrived);
                }
                bring(&self.items, &homes, found.clone(), &known).await
            };
            match within(clock, deadline, moving).await {
                Some(Ok(Brought::Arrived)) => return Ok(()),
                Some(Ok(Brought::Occupied)) => {
                    gives_way = true;
                    item = Some(found);
                    continue;
                }
                // A client was faster, most likely. But what is in the way at the new home may stay.
                Some(Err(Unsettled::Changed)) => {
                    let why = "what lies at an item's homes kept changing while it was moved";
                    let changed = attempts.pause(Error::new(Code::Contended, why));
                    changed.await.map_err(|_| Stopped::OutOfTime)?;
                }
                Some(Err(Unsettled::Behind)) => {
                    self.directory.forget(&seen.metadata.partition);
                    attempts.refresh().await?;
                    // Under the same metadata an item from the future is a damage that
                    // `refresh` gives up on.
                    item = Some(found);
                    continue;
                }
                // Of unknown outcome: what lies there now tells.
                Some(Err(Unsettled::Failed(StoreError::OutcomeUnknown(why)))) => {
                    self.pause(&mut attempts, 0.0, StoreError::Unavailable(why)).await?;
                }
                Some(Err(Unsettled::Failed(error))) => {
                    let is_throttled = matches!(error, StoreError::Throttled(_));
                    self.pause(&mut attempts, units, error).await?;
                    if is_throttled {
                        // Nothing happened, and the next attempt finds out if something has since.
                        item = Some(found);
                        continue;
                    }
                }
                None => return Err(Stopped::OutOfTime),
            }
            item = self.read_again(&homes, &mut attempts, deadline).await?;
            gives_way = false;
        }
    }

    async fn read_again(
        &self,
        homes: &Homes,
        attempts: &mut Attempts<'_, C, E>,
        deadline: Deadline,
    ) -> Result<Option<StoredItem>, Stopped> {
        loop {
            let read = self.items.get(&homes.old, None, Consistency::Strong);
            match within(self.directory.clock(), deadline, read).await {
                Some(Ok(read)) => return Ok(read.value),
                Some(Err(error)) => self.pause(attempts, 0.0, error).await?,
                None => return Err(Stopped::OutOfTime),
            }
        }
    }

    async fn remove_markers_of(
        &self,
        seen: &Known,
        job: &Job,
        shard: ShardId,
        page: ShardPage,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        let items = page.items.into_iter();
        let markers =
            items.filter(|(_, item)| !item.is_live() && item.generation <= job.generation);
        let removals = markers.map(|(sort, marker)| {
            let key = ItemKey::new(seen.metadata.partition.clone(), sort);
            self.remove_marker(seen, job, (key, marker), shard, deadline)
        });
        all_of(removals.collect::<Vec<_>>()).await.map(drop)
    }

    async fn remove_marker(
        &self,
        seen: &Known,
        job: &Job,
        (key, marker): (ItemKey, StoredItem),
        shard: ShardId,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        let key = key.at(shard, self.directory.settings().schema.separator);
        let units = self.kilobytes(&key, &marker);
        let mut attempts = self.attempts(deadline);
        loop {
            self.wait_for_turn(units, deadline).await?;
            let known = self.renewed(seen, deadline).await?;
            let write = Write {
                key: key.clone(),
                action: Action::Delete,
                condition: Condition { generation: job.generation, expected: Expected::Marker },
                lease: known.lease,
            };
            match within(self.directory.clock(), deadline, self.items.write(&write)).await {
                // Where the condition fails there is no marker any more, or one of a later reshard.
                Some(Ok(()) | Err(StoreError::ConditionFailed { .. })) => return Ok(()),
                Some(Err(StoreError::OutcomeUnknown(why))) => {
                    self.pause(&mut attempts, 0.0, StoreError::Unavailable(why)).await?;
                }
                Some(Err(error)) => self.pause(&mut attempts, units, error).await?,
                None => return Err(Stopped::OutOfTime),
            }
        }
    }

    /// The write units of a move of this item: it is written at one home and replaced at the other,
    /// each at twice the price.
    fn move_units(&self, homes: &Homes, item: &StoredItem) -> f64 {
        2.0 * (self.kilobytes(&homes.old, item) + self.kilobytes(&homes.new, item))
    }

    /// What one write of an item here is charged as: its size in units of a kilobyte.
    fn kilobytes(&self, at: &PhysicalKey, item: &StoredItem) -> f64 {
        let bytes = stored_bytes(at, item, &self.directory.settings().schema);
        f64::from(u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX))
    }

    /// Waits until the mover may spend so many write units.
    async fn wait_for_turn(&self, units: f64, deadline: Deadline) -> Result<(), Stopped> {
        let clock = self.directory.clock();
        let now = clock.now();
        let wait = self.pace().spend_within(units, now.boot, deadline.remaining(now));
        let wait = wait.ok_or(Stopped::OutOfTime)?;
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
        Ok(())
    }

    /// Metadata under a live lease that says what was seen.
    async fn renewed(&self, seen: &Known, deadline: Deadline) -> Result<Known, Stopped> {
        let partition: &PartitionKey = &seen.metadata.partition;
        let known = pin!(self.directory.find(partition, deadline)).await?;
        known.filter(|known| known.metadata == seen.metadata).ok_or(Stopped::MetadataChanged)
    }

    /// Pauses after the refusal of what `units` were spent on; a throttle slows the mover down.
    async fn pause(
        &self,
        attempts: &mut Attempts<'_, C, E>,
        units: f64,
        error: StoreError,
    ) -> Result<(), Stopped> {
        if let StoreError::Throttled(_) = &error {
            let now = self.directory.clock().now();
            self.pace().throttled(units, now.boot);
        }
        match attempts.pause(refusal(error)?).await {
            Ok(()) => Ok(()),
            // The next slice goes on.
            Err(_) => Err(Stopped::OutOfTime),
        }
    }

    fn attempts(&self, deadline: Deadline) -> Attempts<'_, C, E> {
        let (clock, entropy) = (self.directory.clock(), self.directory.entropy());
        Attempts::new(clock, entropy, deadline).pausing(REFUSED)
    }
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

/// What a round does with the items of a page.
#[derive(Clone, Copy)]
enum Work<'a> {
    Move(Reshard),
    RemoveMarkers(&'a Job),
}

/// The part of a round in one shard, whose items are all done with.
#[derive(Debug)]
struct PartDone {
    shard: ShardId,
    /// The last sort key of it, if there are more items in the shard.
    last: Option<SortKey>,
    /// The first and the last sort key of the shard, if it began with that and has several pages.
    span: Option<[SortKey; 2]>,
    /// How many items it has moved.
    moved: u64,
}

/// Why a part was not done to its end.
#[derive(Debug)]
enum Stopped {
    OutOfTime,
    MetadataChanged,
    Failed(Error),
}

impl Stopped {
    /// The same with the item that it happened to.
    fn at_item(self, shard: ShardId, sort: &SortKey) -> Self {
        let Self::Failed(error) = self else {
            return self;
        };
        let what = format!("the item with sort key {:?}: {}", sort.to_string(), error.message());
        Self::Failed(Error::new(error.code(), what).of_shards(vec![shard]))
    }

    fn in_shard(self, shard: ShardId) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.of_shards(vec![shard])),
            stopped => stopped,
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        match error.code() {
            // Metadata that passing trouble kept from being read was asked for until the end.
            Code::DeadlineExceeded | Code::Unavailable | Code::Throttled | Code::Contended => {
                Self::OutOfTime
            }
            _ => Self::Failed(error),
        }
    }
}
