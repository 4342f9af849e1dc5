//! Where an item is written to, and what lies there.

use std::future::Future;

use dynashard_keys::{ItemKey, PhysicalKey, ShardId};

use crate::directory::Known;
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore, StoreError};
use crate::reshard::{Homes, Unsettled, settle};
use crate::retry::{Attempts, refusal, within};
use crate::write::Writer;
use crate::write::send::{LEAST_WRITE_TIME, out_of_time};
use crate::{Code, Deadline, Error, StoredItem};

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// The shard that an item is written to. One that a reshard moves is settled there first, so
    /// that its write is the only thing left to happen to it. `None` to begin again: nothing that a
    /// client could see has happened.
    pub(super) async fn settled_shard(
        &self,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<ShardId>, Error> {
        let Some((homes, new)) = self.homes(key, known) else {
            let metadata = &known.metadata;
            let draw = self.directory.entropy().next_u64();
            return Ok(Some(metadata.placement.place(key, metadata.layout().writable, draw)));
        };
        // A stable collection's writes need not carry this with them.
        let settling = Box::pin(settle(&self.items, &homes, known));
        let settled = self.settled(settling, key, known, deadline, attempts).await?;
        Ok(settled.map(|()| new))
    }

    /// A strong read of an item where [`Self::settled_shard`] says it is, or `None` to begin again.
    ///
    /// The transaction that brought it may be visible at its old home alone: that it is missing is
    /// only believed of a read that no transaction is under way for.
    pub(super) async fn read_settled(
        &self,
        key: &ItemKey,
        shard: ShardId,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Option<StoredItem>>, Error> {
        let home = key.at(shard, self.directory.settings().schema.separator);
        let found = self.read_home(&home, known, key, deadline, attempts).await?;
        let is_live = |found: &Option<StoredItem>| found.as_ref().is_some_and(StoredItem::is_live);
        match (found, self.homes(key, known)) {
            (Some(found), Some((homes, _))) if !is_live(&found) => {
                let both = self.read_homes(&homes, known, key, deadline, attempts).await?;
                Ok(both.map(|[new, _]| new))
            }
            (found, _) => Ok(found),
        }
    }

    /// Both homes of an item that a reshard moves, and the shard that is its new one.
    pub(super) fn homes(&self, key: &ItemKey, known: &Known) -> Option<(Homes, ShardId)> {
        let (old, new) = known.metadata.reshard()?.homes(key)?;
        let separator = self.directory.settings().schema.separator;
        Some((Homes { old: key.at(old, separator), new: key.at(new, separator) }, new))
    }

    /// What came of settling an item, or `None` to begin again.
    pub(super) async fn settled<T>(
        &self,
        settling: impl Future<Output = Result<T, Unsettled>>,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<T>, Error> {
        let slot = self.slot(deadline).await?;
        let begin_by = deadline.earlier_by(LEAST_WRITE_TIME);
        let settled = within(self.clock(), begin_by, settling).await;
        drop(slot);
        let refusal = match settled {
            Some(Ok(settled)) if known.lease.is_live(self.clock().now()) => {
                return Ok(Some(settled));
            }
            Some(Ok(_)) => {
                Error::new(Code::Unavailable, "the item could not be settled within a lease")
            }
            Some(Err(Unsettled::Behind)) => {
                self.directory.forget(&key.partition);
                attempts.refresh().await?;
                return Ok(None);
            }
            Some(Err(Unsettled::Changed)) => {
                Error::new(Code::Contended, "the item was being moved by another operation")
            }
            // Whatever becomes of it is conditional on what was seen, and no client's doing.
            Some(Err(Unsettled::Failed(StoreError::OutcomeUnknown(why)))) => {
                Error::new(Code::Unavailable, why)
            }
            Some(Err(Unsettled::Failed(error))) => refusal(error)?,
            None => return Err(out_of_time()),
        };
        attempts.pause(refusal).await?;
        Ok(None)
    }

    /// A strong read of an item's home, or `None` to begin again.
    pub(super) async fn read_home(
        &self,
        physical: &PhysicalKey,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Option<StoredItem>>, Error> {
        let read = async { Ok([self.items.get(physical, None, Consistency::Strong).await?.value]) };
        let found = self.read(read, known, key, deadline, attempts).await?;
        Ok(found.map(|[item]| item))
    }

    /// What lies at the new home and at the old one at one moment, or `None` to begin again.
    pub(super) async fn read_homes(
        &self,
        homes: &Homes,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<[Option<StoredItem>; 2]>, Error> {
        let both = self.items.get_both([&homes.new, &homes.old], None);
        self.read(async { Ok(both.await?.value) }, known, key, deadline, attempts).await
    }

    /// What a strong read found, or `None` to begin again.
    async fn read<const N: usize>(
        &self,
        read: impl Future<Output = Result<[Option<StoredItem>; N], StoreError>>,
        known: &Known,
        key: &ItemKey,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<[Option<StoredItem>; N]>, Error> {
        let slot = self.slot(deadline).await?;
        // The turn may have come late in the lease, or after it.
        let renewed = self.directory.find(&key.partition, deadline).await?;
        let Some(known) = renewed.filter(|renewed| renewed.metadata == known.metadata) else {
            return Ok(None);
        };
        let answer = within(self.clock(), deadline, read).await;
        drop(slot);
        match answer {
            Some(Ok(found)) => {
                if found.iter().flatten().any(|i| i.generation > known.metadata.generation) {
                    self.directory.forget(&key.partition);
                    attempts.refresh().await?;
                    return Ok(None);
                }
                if !known.lease.is_live(self.clock().now()) {
                    // What was read after the lease is thrown away (protocol: "Lease").
                    let why = "the item could not be read within a metadata lease";
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                    return Ok(None);
                }
                Ok(Some(found))
            }
            Some(Err(error)) => {
                attempts.pause(refusal(error)?).await?;
                Ok(None)
            }
            None => Err(Error::new(Code::Unavailable, "the item could not be read in time")),
        }
    }
}

/// The new home of an item that moves, where `move` is in hand: a put without precondition, of an
/// item that cannot expire, goes there whatever lies at the old home (protocol: "Without precondition, in `move`").
pub(super) fn blind_home(key: &ItemKey, known: &Known) -> Option<ShardId> {
    let reshard = known.metadata.reshard().filter(|reshard| reshard.puts_skip_old_home)?;
    reshard.homes(key).map(|(_, new)| new)
}
