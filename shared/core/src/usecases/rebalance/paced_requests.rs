//! Moves one item after another, or removes their markers, at a pace.

use std::pin::pin;
use std::time::Duration;

use dynashard_keys::{PhysicalKey, ShardId, SortKey};
use parking_lot::Mutex;

use crate::decide::pace::{Paces, Units};
use crate::model::error::{Code, Error};
use crate::model::guard::{Action, Condition, Expected, Write};
use crate::model::item::{StoredItem, stored_bytes};
use crate::model::lease::Deadline;
use crate::model::schema::TableSchema;
use crate::model::version::Generation;
use crate::ports::{Consistency, StoreError};
use crate::usecases::directory::{Directory, Known};
use crate::usecases::retry::{Attempts, Backoff, refusal, within};
use crate::usecases::settle::{BothHomes, Brought, Settling, Unsettled};

/// How long an item pauses that was refused. Shorter than a client's write does: the pace already
/// says how fast to go, and of an overloaded partition a move needs two units at once.
const REFUSED: Backoff =
    Backoff { base: Duration::from_millis(25), cap: Duration::from_millis(200) };

/// The write units of a move of this item: it is written at one home and replaced at the other,
/// each at twice the price.
fn move_units(homes: &BothHomes, item: &StoredItem, schema: &TableSchema) -> Units {
    let [old, new] = [&homes.old, &homes.new].map(|at| 2.0 * kilobytes(at, item, schema));
    Units { at_source: old, in_all: old + new }
}

/// What one write of an item here is charged as: its size in units of a kilobyte.
pub(super) fn kilobytes(at: &PhysicalKey, item: &StoredItem, schema: &TableSchema) -> f64 {
    f64::from(u32::try_from(stored_bytes(at, item, schema).div_ceil(1_024)).unwrap_or(u32::MAX))
}

/// Where a call goes through items: what all its requests share.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) seen: &'a Known,
    /// The shard.
    pub(super) shard: ShardId,
    pub(super) paces: &'a Mutex<Paces>,
    /// When the round ends, on the boot clock: nothing begins then.
    pub(super) ends: Duration,
    pub(super) deadline: Deadline,
}

impl At<'_> {}

/// The requests that one item or one page takes: each waits for the mover's pace, and is made until the
/// deadline if it is refused.
pub(super) struct PacedRequests<'a> {
    directory: &'a Directory,
    at: At<'a>,
    attempts: Attempts<'a>,
}

impl<'a> PacedRequests<'a> {
    pub(super) fn new(directory: &'a Directory, at: At<'a>) -> Self {
        let attempts = directory.attempts(at.deadline).pausing(REFUSED);
        Self { directory, at, attempts }
    }

    /// Settles an item that is to leave its shard.
    pub(super) async fn move_item(
        mut self,
        homes: &BothHomes,
        item: StoredItem,
    ) -> Result<Carried, Stopped> {
        let mut item = Some(item);
        let mut gives_way = false;
        let at_item = |stopped: Stopped| stopped.at_item(&homes.old.sort);
        loop {
            let Some(found) = item.take().filter(StoredItem::is_live) else {
                return Ok(Carried::Through);
            };
            // Each transaction is paid for, those that are cancelled too.
            let units = move_units(homes, &found, &self.directory.settings().schema);
            self.wait_for_turn(units).await?;
            let known = self.renewed().await?;
            let mut settling = Settling::new(self.directory.context().items(), homes, &known);
            let moving = async {
                if gives_way {
                    settling.give_way((found.version, found.generation)).await?;
                    return Ok(Brought::Arrived);
                }
                settling.bring(found.clone()).await
            };
            match self.within(moving).await {
                Some(Ok(Brought::Arrived)) => return Ok(Carried::Through),
                Some(Ok(Brought::Occupied)) => {
                    gives_way = true;
                    item = Some(found);
                    continue;
                }
                Some(Err(Unsettled::Unmovable(why))) => {
                    return Ok(Carried::Unmovable(homes.old.sort.clone(), why));
                }
                // A client was faster.
                Some(Err(Unsettled::Changed)) => {
                    let why = "what lies at an item's homes kept changing while it was moved";
                    let changed = self.attempts.pause(Error::new(Code::Contended, why));
                    changed.await.map_err(|_| Stopped::OutOfTime)?;
                }
                Some(Err(Unsettled::Behind)) => {
                    self.directory.forget(&self.at.seen.metadata.partition);
                    self.attempts.refresh().await.map_err(|error| at_item(error.into()))?;
                    // Under the same metadata an item from the future is a damage that
                    // `refresh` gives up on.
                    item = Some(found);
                    continue;
                }
                // Of unknown outcome: what lies there now tells.
                Some(Err(Unsettled::Failed(StoreError::OutcomeUnknown(why)))) => {
                    self.pause(Units::NONE, StoreError::Unavailable(why)).await.map_err(at_item)?;
                }
                Some(Err(Unsettled::Failed(error))) => {
                    let is_throttled = matches!(error, StoreError::Throttled(_));
                    self.pause(units, error).await.map_err(at_item)?;
                    if is_throttled {
                        // Nothing happened, and the next attempt finds out if something has since.
                        item = Some(found);
                        continue;
                    }
                }
                None => return Err(Stopped::OutOfTime),
            }
            let read =
                || self.directory.context().items().get(&homes.old, None, Consistency::Strong);
            item = self.made(read).await.map_err(at_item)?.value;
            gives_way = false;
        }
    }

    /// Removes a marker that the reshard of this job, or one before it, has left.
    pub(super) async fn remove_marker(
        mut self,
        generation: Generation,
        key: PhysicalKey,
        units: Units,
    ) -> Result<(), Stopped> {
        loop {
            self.wait_for_turn(units).await?;
            let known = self.renewed().await?;
            let write = Write {
                key: key.clone(),
                action: Action::Delete,
                condition: Condition { generation, expected: Expected::Marker },
                lease: known.lease,
            };
            match self.within(self.directory.context().items().write(&write)).await {
                // Where the condition fails there is no marker any more, or one of a later reshard.
                Some(Ok(_) | Err(StoreError::ConditionFailed { .. })) => return Ok(()),
                Some(Err(StoreError::OutcomeUnknown(why))) => {
                    self.pause(Units::NONE, StoreError::Unavailable(why)).await?;
                }
                Some(Err(error)) => self.pause(units, error).await?,
                None => return Err(Stopped::OutOfTime),
            }
        }
    }

    /// The answer to a read, which is not paced.
    pub(super) async fn made<T, F>(&mut self, read: impl Fn() -> F) -> Result<T, Stopped>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match self.within(read()).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => self.pause(Units::NONE, error).await?,
                None => return Err(Stopped::OutOfTime),
            }
        }
    }

    async fn within<F: Future>(&self, request: F) -> Option<F::Output> {
        within(self.directory.clock(), self.at.deadline, request).await
    }

    /// Waits until the mover may spend so many write units.
    async fn wait_for_turn(&self, units: Units) -> Result<(), Stopped> {
        // All shards come last: what they take together is to keep to its bound at every moment.
        for spend in [Paces::spend_at, Paces::spend_in_all] {
            let clock = self.directory.clock();
            let now = clock.now();
            let in_slice = self.at.deadline.remaining(now);
            let in_round = self.at.ends.saturating_sub(now.boot);
            let left = in_slice.min(in_round);
            let wait = spend(&mut self.at.paces.lock(), self.at.shard, units, now.boot, left);
            let Some(wait) = wait else {
                if in_slice <= in_round {
                    return Err(Stopped::OutOfTime);
                }
                clock.sleep(in_round).await;
                return Err(Stopped::NotYet);
            };
            if !wait.is_zero() {
                clock.sleep(wait).await;
            }
        }
        Ok(())
    }

    /// Metadata under a live lease that says what was seen.
    async fn renewed(&self) -> Result<Known, Stopped> {
        let seen = &self.at.seen.metadata;
        let directory = &self.directory;
        let known = pin!(directory.find(&seen.partition, self.at.deadline)).await?;
        if known.metadata == *seen { Ok(known) } else { Err(Stopped::MetadataChanged) }
    }

    /// Pauses after the refusal of what `units` were spent on; a throttle slows the mover down.
    async fn pause(&mut self, units: Units, error: StoreError) -> Result<(), Stopped> {
        if let StoreError::Throttled(_) = &error {
            let now = self.directory.now();
            self.at.paces.lock().throttled(self.at.shard, units, now.boot);
        }
        // The next slice goes on, or the next round.
        self.attempts.pause(refusal(error)?).await.map_err(|_| Stopped::OutOfTime)?;
        let now = self.directory.now();
        if now.boot >= self.at.ends { Err(Stopped::NotYet) } else { Ok(()) }
    }
}

/// What became of an item that was not left for later.
pub(super) enum Carried {
    Through,
    /// DynamoDB rejects the item with this sort key at its new home, for this reason.
    Unmovable(SortKey, String),
}

/// Why a part was not done to its end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The pace, or refusals, kept it from being done in this round.
    NotYet,
    OutOfTime,
    Failed(Error),
    MetadataChanged,
}

impl Stopped {
    /// The one that says more about what comes next.
    pub(super) fn max(self, other: Self) -> Self {
        let weight = |stopped: &Self| match stopped {
            Self::NotYet => 0,
            Self::OutOfTime => 1,
            Self::Failed(_) => 2,
            Self::MetadataChanged => 3,
        };
        if weight(&other) > weight(&self) { other } else { self }
    }

    /// This reason to stop with the item that it happened to.
    fn at_item(self, sort: &SortKey) -> Self {
        let Self::Failed(error) = self else {
            return self;
        };
        let what = format!("the item with sort key {:?}: {}", sort.to_string(), error.message());
        Self::Failed(Error::new(error.code(), what))
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
