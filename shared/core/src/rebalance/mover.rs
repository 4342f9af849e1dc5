use std::pin::pin;
use std::time::Duration;

use dynashard_keys::{PartitionKey, PhysicalKey, SortKey};

use crate::directory::Known;
use crate::item::stored_bytes;
use crate::ports::{
    Action, Clock, Condition, Consistency, Entropy, Expected, ItemStore, MetadataStore, StoreError,
    Write,
};
use crate::rebalance::rebalancer::Rebalancer;
use crate::reshard::{Brought, Homes, Unsettled, bring, give_way};
use crate::retry::{Attempts, Backoff, refusal, within};
use crate::{Code, Deadline, Error, Generation, StoredItem};

/// How long an item pauses that was refused. Shorter than a client's write does: the pace already
/// says how fast to go, and of an overloaded partition a move needs two units at once.
const REFUSED: Backoff =
    Backoff { base: Duration::from_millis(25), cap: Duration::from_millis(200) };

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Rebalancer<I, M, C, E> {
    /// Settles an item that is to leave its shard.
    pub(super) async fn move_item(
        &self,
        seen: &Known,
        homes: Homes,
        item: StoredItem,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        let clock = self.directory.clock();
        let mut attempts = self.attempts(deadline);
        let sort = &homes.old.sort;
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
                // A client was faster.
                Some(Err(Unsettled::Changed)) => {
                    let why = "what lies at an item's homes kept changing while it was moved";
                    let changed = attempts.pause(Error::new(Code::Contended, why));
                    changed.await.map_err(|_| Stopped::OutOfTime)?;
                }
                Some(Err(Unsettled::Behind)) => {
                    self.directory.forget(&seen.metadata.partition);
                    let again = attempts.refresh().await.map_err(Stopped::from);
                    again.map_err(|stopped| stopped.at_item(sort))?;
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
                    let again = self.pause(&mut attempts, units, error).await;
                    again.map_err(|stopped| stopped.at_item(sort))?;
                    if is_throttled {
                        // Nothing happened, and the next attempt finds out if something has since.
                        item = Some(found);
                        continue;
                    }
                }
                None => return Err(Stopped::OutOfTime),
            }
            let read = self.read_again(&homes, &mut attempts, deadline).await;
            item = read.map_err(|stopped| stopped.at_item(sort))?;
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

    /// Removes a marker that the reshard of this job, or one before it, has left.
    pub(super) async fn remove_marker(
        &self,
        seen: &Known,
        generation: Generation,
        key: PhysicalKey,
        units: f64,
        deadline: Deadline,
    ) -> Result<(), Stopped> {
        let mut attempts = self.attempts(deadline);
        loop {
            self.wait_for_turn(units, deadline).await?;
            let known = self.renewed(seen, deadline).await?;
            let write = Write {
                key: key.clone(),
                action: Action::Delete,
                condition: Condition { generation, expected: Expected::Marker },
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
    pub(super) fn move_units(&self, homes: &Homes, item: &StoredItem) -> f64 {
        2.0 * (self.kilobytes(&homes.old, item) + self.kilobytes(&homes.new, item))
    }

    /// What one write of an item here is charged as: its size in units of a kilobyte.
    pub(super) fn kilobytes(&self, at: &PhysicalKey, item: &StoredItem) -> f64 {
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
    pub(super) async fn pause(
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

    pub(super) fn attempts(&self, deadline: Deadline) -> Attempts<'_, C, E> {
        let (clock, entropy) = (self.directory.clock(), self.directory.entropy());
        Attempts::new(clock, entropy, deadline).pausing(REFUSED)
    }
}

/// Why a part was not done to its end.
#[derive(Debug)]
pub(super) enum Stopped {
    OutOfTime,
    MetadataChanged,
    Failed(Error),
}

impl Stopped {
    /// The same with the item that it happened to.
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
