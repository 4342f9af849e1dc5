//! Deletes: of an item whose shard is known, and of one that may be in any.

use std::sync::atomic::{AtomicBool, Ordering};

use dynashard_keys::{ItemKey, ShardId};
use futures_util::stream::{self, StreamExt};

use crate::directory::Known;
use crate::fan_out::FAN_OUT;
use crate::ports::{Action, Clock, Entropy, Expected, ItemStore, MetadataStore};
use crate::read::is_marker_of;
use crate::reshard::{OldHome, settle_live};
use crate::retry::Attempts;
use crate::write::home::blind_home;
use crate::write::send::Step;
use crate::write::{Precondition, Writer, expected, precondition_failed, refuse_random};
use crate::{Code, Deadline, Error, Kind, StoredItem};

/// What a delete is to delete.
enum Target {
    /// There is no item.
    Nothing,
    /// The item in this shard, if it is as expected.
    Item(ShardId, Expected),
}

/// What became of the removal of an item that may be in any shard.
enum Everywhere {
    Deleted,
    /// Items may have passed from a shard not yet visited to one that was: begin again.
    LayoutChanged,
}

/// What the removal of an item from one shard came upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InShard {
    /// Nothing, or nothing any more.
    Nothing,
    /// A marker of the running reshard.
    Marker,
    LayoutChanged,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// Removes an item. That there was none is success, unless the precondition asks for one.
    pub async fn delete(
        &self,
        key: &ItemKey,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut attempts = self.attempts(deadline);
        // Whether another write came between the look at an item and its delete: then a marker makes
        // sure that the next attempt needs nothing to stay as it was.
        let mut overtaken = false;
        loop {
            let Some(known) = self.directory.find(&key.partition, deadline).await? else {
                return match precondition {
                    Precondition::None | Precondition::Absent => Ok(()),
                    Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
                        Err(precondition_failed())
                    }
                };
            };
            if !known.metadata.placement.is_calculated() {
                if precondition != Precondition::None {
                    refuse_random(known.metadata.placement, "If-Match needs")?;
                }
                return self.delete_wherever_it_is(key, known, deadline).await;
            }
            let expected = expected(precondition)?;
            let blind = precondition == Precondition::None;
            let target = if blind && !overtaken {
                self.target_of_delete(key, &known, deadline, &mut attempts).await?
            } else {
                let shard = self.settled_shard(key, &known, deadline, &mut attempts).await?;
                shard.map(|shard| Target::Item(shard, expected))
            };
            let (shard, expected) = match target {
                None => continue,
                Some(Target::Nothing) => return Ok(()),
                Some(Target::Item(shard, expected)) => (shard, expected),
            };
            let write = self.guarded(key, shard, Action::Delete, expected, &known);
            match self.send(&write, shard, key, deadline, &mut attempts).await? {
                Step::Done => return Ok(()),
                Step::Unexpected if blind => overtaken = true,
                Step::Unexpected => return Err(precondition_failed()),
                Step::Again => {}
            }
        }
    }

    /// What a delete without precondition is to delete, or `None` to begin again.
    ///
    /// In `move` no marker is put where nothing lies at the old home: a queue's deletes would write
    /// to the hot partition as often as its puts did. The item is deleted as it was seen beside that
    /// instead. So whatever a late request puts at the old home meanwhile has shown to nobody, hidden
    /// all the time by what is deleted (protocol: "Without precondition, in `move`").
    async fn target_of_delete(
        &self,
        key: &ItemKey,
        known: &Known,
        deadline: Deadline,
        attempts: &mut Attempts<'_, C, E>,
    ) -> Result<Option<Target>, Error> {
        let (Some((homes, _)), Some(new)) = (self.homes(key, known), blind_home(key, known)) else {
            let shard = self.settled_shard(key, known, deadline, attempts).await?;
            return Ok(shard.map(|shard| Target::Item(shard, Expected::Any)));
        };
        let settling = Box::pin(settle_live(&self.items, &homes, known));
        match self.settled(settling, key, known, deadline, attempts).await? {
            None => return Ok(None),
            Some(OldHome::Marker) => return Ok(Some(Target::Item(new, Expected::Any))),
            Some(OldHome::Nothing) => {}
        }
        let both = self.read_homes(&homes, known, key, deadline, attempts).await?;
        let Some([at_new, at_old]) = both else {
            return Ok(None);
        };
        if at_old.is_some_and(|item| item.is_live() || is_marker_of(&item, known)) {
            let why = "the item was being moved by another operation";
            attempts.pause(Error::new(Code::Contended, why)).await?;
            return Ok(None);
        }
        Ok(Some(match at_new.filter(StoredItem::is_live) {
            Some(item) => Target::Item(new, Expected::Version(item.version)),
            None => Target::Nothing,
        }))
    }

    /// Removes an item of a random collection from wherever it is: only its write knew the shard.
    ///
    /// Once a part of it is done, or may be, no refusal of the rest means that nothing happened.
    async fn delete_wherever_it_is(
        &self,
        key: &ItemKey,
        mut known: Known,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let removed = AtomicBool::new(false);
        let unless_removed = |error: Error| match error.kind() {
            Kind::Throttled | Kind::Unavailable if removed.load(Ordering::Relaxed) => {
                Error::new(Code::OutcomeUnknown, error.message())
            }
            _ => error,
        };
        loop {
            let deleted = self.delete_everywhere(key, &known, &removed, deadline).await;
            if let Everywhere::Deleted = deleted.map_err(unless_removed)? {
                return Ok(());
            }
            let found = self.directory.find(&key.partition, deadline).await;
            let Some(changed) = found.map_err(unless_removed)? else {
                return Ok(());
            };
            known = changed;
        }
    }

    /// The same under one layout.
    ///
    /// While a shrinking collection is drained an item may change its shard, but only from those
    /// that are drained, so these are visited first (protocol: "Random shrinking").
    async fn delete_everywhere(
        &self,
        key: &ItemKey,
        known: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<Everywhere, Error> {
        let metadata = &known.metadata;
        let Some(reshard) = metadata.reshard() else {
            let shards = metadata.placement.shards(metadata.layout().readable);
            return Ok(
                match self.delete_from(key, shards, None, known, removed, deadline).await? {
                    Some(_) => Everywhere::Deleted,
                    None => Everywhere::LayoutChanged,
                },
            );
        };
        let drained =
            self.delete_from(key, reshard.sources(), None, known, removed, deadline).await?;
        let Some(found_marker) = drained else {
            return Ok(Everywhere::LayoutChanged);
        };
        // The other half of the transaction that left the marker may not be visible yet.
        let arrived = found_marker.then(|| reshard.new_home(key));
        let kept = self
            .delete_from(key, reshard.destinations(), arrived, known, removed, deadline)
            .await?;
        Ok(if kept.is_some() { Everywhere::Deleted } else { Everywhere::LayoutChanged })
    }

    /// Removes an item from each of these shards, from `certain` without a look whether it is there.
    /// Returns whether one of them held a marker of the running reshard, or `None` where the layout
    /// changed.
    async fn delete_from(
        &self,
        key: &ItemKey,
        shards: impl Iterator<Item = ShardId>,
        certain: Option<ShardId>,
        known: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<Option<bool>, Error> {
        let deletes = shards
            .map(|shard| async move {
                self.delete_in(key, shard, certain == Some(shard), known, removed, deadline).await
            })
            .collect::<Vec<_>>();
        // A failure ends none of the others: whether it did something is to be known of each.
        let found = stream::iter(deletes).buffer_unordered(FAN_OUT).collect::<Vec<_>>().await;
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        if found.contains(&InShard::LayoutChanged) {
            return Ok(None);
        }
        Ok(Some(found.contains(&InShard::Marker)))
    }

    async fn delete_in(
        &self,
        key: &ItemKey,
        shard: ShardId,
        certain: bool,
        began_with: &Known,
        removed: &AtomicBool,
        deadline: Deadline,
    ) -> Result<InShard, Error> {
        let mut attempts = self.attempts(deadline);
        loop {
            let known = self.directory.find(&key.partition, deadline).await?;
            let Some(known) = known.filter(|known| known.metadata == began_with.metadata) else {
                return Ok(InShard::LayoutChanged);
            };
            let physical = key.at(shard, self.directory.settings().schema.separator);
            if !certain {
                // A read costs a half of what a delete of nothing does, and nearly every shard
                // holds nothing.
                match self.read_home(&physical, &known, key, deadline, &mut attempts).await? {
                    None => continue,
                    Some(None) => return Ok(InShard::Nothing),
                    Some(Some(item)) if item.is_live() => {}
                    Some(Some(marker)) if marker.generation < known.metadata.generation => {
                        return Ok(InShard::Nothing);
                    }
                    Some(Some(_)) => return Ok(InShard::Marker),
                }
            }
            let expected = if certain { Expected::Any } else { Expected::Live };
            let write = self.guarded(key, shard, Action::Delete, expected, &known);
            let sent = self.send(&write, shard, key, deadline, &mut attempts).await;
            if matches!(&sent, Err(error) if error.kind() == Kind::OutcomeUnknown) {
                removed.store(true, Ordering::Relaxed);
            }
            match sent? {
                Step::Done => {
                    removed.store(true, Ordering::Relaxed);
                    return Ok(InShard::Nothing);
                }
                Step::Unexpected | Step::Again => {}
            }
        }
    }
}
