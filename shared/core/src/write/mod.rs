//! Puts, patches and deletes.
//!
//! An operation finds where its item is to be written ([`home`]), which settles one that a reshard
//! moves, and sends one guarded write there ([`send`]).

mod delete;
mod home;
mod send;

use std::sync::Arc;

use async_lock::Semaphore;
use dynashard_keys::{ItemKey, Placement, ShardId};

use crate::directory::{Directory, Known};
use crate::growth::{Telemetry, WriterGrowths};
use crate::item::take_key;
use crate::ports::{Action, Clock, Condition, Entropy, Expected, ItemStore, MetadataStore};
use crate::write::home::blind_home;
use crate::write::send::Step;
use crate::{Attributes, Code, Deadline, Error, NewItem, StoredItem, Version, merge_patch};

/// Puts, patches and deletes single items.
///
/// Every write is one guarded request to the item's home (protocol: "The guard on every write").
/// What DynamoDB definitely refused is sent again, with full jitter, until the deadline; a write
/// whose fate is unknown never is.
pub struct Writer<I, M, C, E> {
    items: I,
    directory: Directory<M, C, E>,
    growths: WriterGrowths,
    /// Held by each request of a write while it is under way, and not while it waits to be tried
    /// again.
    slots: Semaphore,
}

/// How many requests of one environment's writes are under way at once, reads of what is to be
/// written included. `BatchWriteItem` cannot carry the guard, so a batch is single writes side by
/// side.
const REQUESTS_IN_FLIGHT: usize = 64;

/// What the client asked about the item that is there (RFC 9110, 13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// `If-None-Match: *`: there is no item.
    Absent,
    /// `If-Match: *`: there is an item.
    Exists,
    /// `If-Match: "<etag>"`: there is this version of it.
    Version(Version),
    /// `If-Match` with entity tags that no item ever had. It is refused where the others are checked:
    /// a request that is wrong for another reason is told that one.
    Never,
}

/// Where a write landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The item's shard.
    pub shard: ShardId,
    /// The version that the write gave it.
    pub version: Version,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// A writer over these stores.
    pub fn new(items: I, directory: Directory<M, C, E>) -> Self {
        let growths = WriterGrowths::new(directory.entropy().next_u64());
        Self { items, directory, growths, slots: Semaphore::new(REQUESTS_IN_FLIGHT) }
    }

    /// Reports to `telemetry` what this writer does about throttles.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.growths.report_to(telemetry);
        self
    }

    /// What the writer knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Stores an item in place of what is there.
    pub async fn put(
        &self,
        item: &NewItem,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        let key = item.key();
        let version = self.draw_version();
        let mut attempts = self.attempts(deadline);
        loop {
            let known = self.collection_to_put_into(key, precondition, deadline).await?;
            let expected = expected(precondition)?;
            // What an item hides at its old home would show again when it expires.
            let goes_past = precondition == Precondition::None && !self.may_expire(item);
            let new_home = if goes_past { blind_home(key, &known) } else { None };
            let shard = match new_home {
                Some(shard) => shard,
                None => match self.settled_shard(key, &known, deadline, &mut attempts).await? {
                    Some(shard) => shard,
                    None => continue,
                },
            };
            let item = StoredItem {
                attributes: item.attributes().clone(),
                generation: known.metadata.generation,
                version,
                forwarded: false,
            };
            let write = self.guarded(key, shard, Action::Put(item), expected, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(Written { shard, version }),
                Step::Unexpected => return Err(precondition_failed()),
                Step::Again => {}
            }
        }
    }

    /// The collection of a put. One that the put could not write to is not created: a refused put
    /// leaves nothing behind.
    async fn collection_to_put_into(
        &self,
        key: &ItemKey,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Known, Error> {
        let preconditions = "If-Match and If-None-Match need";
        match precondition {
            Precondition::None => {
                return self.directory.find_or_create(&key.partition, deadline).await;
            }
            Precondition::Absent => {}
            Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
                let known = self.directory.find(&key.partition, deadline).await?;
                let known = known.ok_or_else(precondition_failed)?;
                refuse_random(known.metadata.placement, preconditions)?;
                return Ok(known);
            }
        }
        if self.directory.find(&key.partition, deadline).await?.is_none() {
            refuse_random(self.directory.settings().placement, preconditions)?;
        }
        let known = self.directory.find_or_create(&key.partition, deadline).await?;
        refuse_random(known.metadata.placement, preconditions)?;
        Ok(known)
    }

    /// Merges `patch` into an item (RFC 7396): a strong read, and a write on condition that the
    /// version read is still there.
    pub async fn patch(
        &self,
        key: &ItemKey,
        mut patch: Attributes,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        take_key(key, &mut patch)?;
        let mut attempts = self.attempts(deadline);
        loop {
            let Some(known) = self.directory.find(&key.partition, deadline).await? else {
                return Err(nothing_to_patch(precondition));
            };
            refuse_random(known.metadata.placement, "PATCH needs")?;
            let expected = expected(precondition)?;
            let Some(shard) = self.settled_shard(key, &known, deadline, &mut attempts).await?
            else {
                continue;
            };
            let Some(existing) =
                self.read_settled(key, shard, &known, deadline, &mut attempts).await?
            else {
                continue;
            };
            let Some(existing) = existing.filter(StoredItem::is_live) else {
                return Err(nothing_to_patch(precondition));
            };
            let found = Condition { generation: known.metadata.generation, expected };
            if !found.holds(Some(&existing)) {
                return Err(precondition_failed());
            }

            let seen = existing.version;
            let mut attributes = existing.attributes;
            merge_patch(&mut attributes, patch.clone());
            let item = NewItem::new(key.clone(), attributes, &self.directory.settings().schema)?;
            let version = self.draw_version();
            let item = StoredItem {
                attributes: item.attributes().clone(),
                generation: known.metadata.generation,
                version,
                forwarded: false,
            };
            let unchanged = Expected::Version(seen);
            let write = self.guarded(key, shard, Action::Put(item), unchanged, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(Written { shard, version }),
                Step::Unexpected if matches!(precondition, Precondition::Version(_)) => {
                    return Err(precondition_failed());
                }
                Step::Unexpected => {
                    let why = "other writes to the item came between its read and its write";
                    attempts.pause(Error::new(Code::Contended, why)).await?;
                }
                Step::Again => {}
            }
        }
    }

    /// Whether DynamoDB may delete the item by itself.
    fn may_expire(&self, item: &NewItem) -> bool {
        let name = self.directory.settings().ttl_attribute.as_ref();
        name.is_some_and(|name| item.attributes().contains_key(name))
    }

    fn draw_version(&self) -> Version {
        Version::new(self.directory.entropy().next_u64())
    }

    pub(crate) fn clock(&self) -> &C {
        self.directory.clock()
    }
}

fn refuse_random(placement: Placement, what_needs: &str) -> Result<(), Error> {
    if placement.is_calculated() {
        return Ok(());
    }
    Err(Error::new(
        Code::NotForPlacement,
        format!("{what_needs} to know an item's shard, and the collection's placement is random"),
    ))
}

fn expected(precondition: Precondition) -> Result<Expected, Error> {
    match precondition {
        Precondition::None => Ok(Expected::Any),
        Precondition::Absent => Ok(Expected::Absent),
        Precondition::Exists => Ok(Expected::Live),
        Precondition::Version(version) => Ok(Expected::Version(version)),
        Precondition::Never => Err(precondition_failed()),
    }
}

fn precondition_failed() -> Error {
    Error::new(Code::PreconditionFailed, "the item is not what If-Match or If-None-Match asks for")
}

/// A failed `If-Match` comes before a missing item (RFC 9110, 13.2.2).
fn nothing_to_patch(precondition: Precondition) -> Error {
    match precondition {
        Precondition::None | Precondition::Absent => {
            Error::new(Code::ItemNotFound, "there is no such item")
        }
        Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
            precondition_failed()
        }
    }
}
