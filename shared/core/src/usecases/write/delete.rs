//! Deletes: of an item whose shard is known, and of one that may be in any.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dynashard_keys::{ItemKey, ShardId};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::model::error::{Code, Error, Kind};
use crate::model::guard::{Action, Expected};
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::model::version::Version;
use crate::usecases::directory::Known;
use crate::usecases::fan_out::FAN_OUT;
use crate::usecases::read::is_marker_of;
use crate::usecases::settle::OldHome;
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::home::{
    SettledUntil, homes_of, new_home_in_move, read_home, read_homes, settle_if_live, shard_to_write,
};
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::precondition::{
    Precondition, expected, precondition_failed, refuse_random,
};
use crate::usecases::write::send::Sent;
use crate::usecases::write::slow_start::SlowStart;

/// A delete that is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deleted {
    /// The write units that DynamoDB reported for the delete and for what had to be settled before it.
    /// It reports none for requests that it refuses or whose answers are lost.
    pub consumed_wcu: f64,
}

/// What a delete is to delete.
enum Target {
    /// There is no item.
    Nothing,
    /// The item in this shard, if it is as expected.
    Item(ShardId, Expected),
    /// The item that lies at its old home, in this shard, and cannot be moved.
    Unmovable(ShardId, Version),
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

/// Removes an item. That there was none is success, unless the precondition asks for one.
pub(crate) async fn delete(
    context: &WriteContext,
    key: &ItemKey,
    precondition: Precondition,
    start: Option<&SlowStart>,
    deadline: Deadline,
) -> Result<Deleted, Error> {
    let mut operation = Operation::arriving(context, key, None, deadline);
    operation.start = start;
    let mut overtaken = false;
    let aside = Arc::clone(&operation.aside);
    let result = {
        let attempts = pin!(async {
            loop {
                match try_delete(&mut operation, precondition, &mut overtaken).await {
                    Ok(()) => return Ok(Deleted { consumed_wcu: operation.consumed_wcu }),
                    Err(Interrupted::BeginAgain) => {}
                    Err(Interrupted::Failed(error)) => return Err(error),
                }
            }
        });
        aside.beside(attempts).await
    };
    operation.end(result.as_ref().err()).await;
    result
}

/// One attempt of a delete.
///
/// `overtaken` is whether another write came between the look at an item and its delete: then a
/// marker makes sure that the next attempt needs nothing to stay as it was.
async fn try_delete(
    operation: &mut Operation<'_>,
    precondition: Precondition,
    overtaken: &mut bool,
) -> Result<(), Interrupted> {
    let directory = &operation.context.directory;
    let known = directory.find_for(operation.key, operation.deadline).await?;
    if !known.metadata.placement.is_calculated() {
        if precondition != Precondition::None {
            refuse_random(known.metadata.placement, "If-Match needs")?;
        }
        return Ok(delete_wherever_it_is(operation, known).await?);
    }
    let expected = expected(precondition)?;
    let target = if *overtaken {
        let settled = shard_to_write(operation, SettledUntil::Marked, &known).await;
        settled.map(|shard| Target::Item(shard, expected))
    } else {
        target_of_delete(operation, expected, &known).await
    };
    let target = match target {
        Err(Interrupted::Failed(error)) if error.code() == Code::UnmovableItem => {
            target_at_old_home(operation, expected, &known).await?
        }
        target => target?,
    };
    let (shard, as_seen) = match target {
        Target::Nothing => return Ok(()),
        Target::Item(shard, as_seen) => (shard, as_seen),
        Target::Unmovable(shard, version) => {
            return delete_at_old_home(operation, shard, version, &known).await;
        }
    };
    let write = operation.guarded(shard, Action::Delete, as_seen, &known);
    match operation.send(&write, shard, &known, operation.deadline).await? {
        Sent::Done => Ok(()),
        Sent::Unexpected { .. } if as_seen != expected => {
            *overtaken = true;
            Err(Interrupted::BeginAgain)
        }
        Sent::Unexpected { .. } => Err(precondition_failed().into()),
    }
}

/// What a delete is to delete.
///
/// In `move` no marker is put where nothing lies at the old home: a queue's deletes would write
/// to the hot partition as often as its puts did. The item is deleted as it was seen beside that
/// instead. So whatever a late request puts at the old home meanwhile has shown to nobody, hidden
/// all the time by what is deleted (protocol: "Writes in `move`").
async fn target_of_delete(
    operation: &mut Operation<'_>,
    expected: Expected,
    known: &Known,
) -> Result<Target, Interrupted> {
    let in_move = (homes_of(operation, known), new_home_in_move(operation.key, known));
    let (Some((homes, _)), Some(new)) = in_move else {
        return Ok(Target::Item(
            shard_to_write(operation, SettledUntil::Marked, known).await?,
            expected,
        ));
    };
    if settle_if_live(operation, &homes, known).await? == OldHome::Marker {
        return Ok(Target::Item(new, expected));
    }
    let [at_new, at_old] = read_homes(operation, &homes, known).await?;
    if at_old.is_some_and(|item| item.is_live() || is_marker_of(&item, known)) {
        return Err(operation.begin_again_after(moved_meanwhile()).await);
    }
    match at_new.filter(StoredItem::is_live) {
        found if !expected.holds(found.as_ref()) => Err(precondition_failed().into()),
        Some(item) => Ok(Target::Item(new, Expected::Version(item.version))),
        None => Ok(Target::Nothing),
    }
}

/// What a delete is to delete of an item that cannot be moved.
async fn target_at_old_home(
    operation: &mut Operation<'_>,
    expected: Expected,
    known: &Known,
) -> Result<Target, Interrupted> {
    let homes = homes_of(operation, known).zip(known.metadata.reshard());
    let Some(((homes, _), reshard)) = homes else { return Err(Interrupted::BeginAgain) };
    let both = read_homes(operation, &homes, known).await?;
    let ([None, Some(item)], Some((old, _))) =
        (both.map(|item| item.filter(StoredItem::is_live)), reshard.homes(operation.key))
    else {
        return Err(operation.begin_again_after(moved_meanwhile()).await);
    };
    if !expected.holds(Some(&item)) {
        return Err(precondition_failed().into());
    }
    Ok(Target::Unmovable(old, item.version))
}

/// Puts a marker in place of an item that cannot be moved. A put may have gone past it since it was read beside
/// an empty new home: that put then comes after this delete.
async fn delete_at_old_home(
    operation: &mut Operation<'_>,
    old: ShardId,
    version: Version,
    known: &Known,
) -> Result<(), Interrupted> {
    let own = operation.context.draw_version();
    let marker = StoredItem::marker_of_delete(known.metadata.generation, own);
    let marker = Action::Put(marker.into());
    let write = operation.guarded(old, marker, Expected::Version(version), known);
    match operation.send(&write, old, known, operation.deadline).await? {
        Sent::Done => Ok(()),
        // It was moved after all, or deleted.
        Sent::Unexpected { .. } => Err(operation.begin_again_after(moved_meanwhile()).await),
    }
}

/// Removes an item of a random collection from wherever it is: only its write knew the shard.
///
/// Once a part of it is done, or may be, no refusal of the rest means that nothing happened.
async fn delete_wherever_it_is(
    operation: &mut Operation<'_>,
    mut known: Known,
) -> Result<(), Error> {
    let removed = AtomicBool::new(false);
    let unless_removed = |error: Error| {
        if removed.load(Ordering::Relaxed) { error.of_the_rest() } else { error }
    };
    loop {
        let deleted = delete_everywhere(operation, &known, &removed).await;
        if let Everywhere::Deleted = deleted.map_err(unless_removed)? {
            return Ok(());
        }
        let found = operation.context.directory.find_for(operation.key, operation.deadline).await;
        known = found.map_err(unless_removed)?;
    }
}

/// Removes an item of a random collection under one layout.
///
/// While a shrinking collection is drained an item may change its shard, but only from those
/// that are drained, so these are visited first (protocol: "Random shrinking").
async fn delete_everywhere(
    operation: &mut Operation<'_>,
    known: &Known,
    removed: &AtomicBool,
) -> Result<Everywhere, Error> {
    let metadata = &known.metadata;
    let Some(reshard) = metadata.reshard() else {
        let shards = metadata.placement.shards(metadata.layout().readable);
        return Ok(match delete_from(operation, shards, None, known, removed).await? {
            Some(_) => Everywhere::Deleted,
            None => Everywhere::LayoutChanged,
        });
    };
    let drained = delete_from(operation, reshard.sources(), None, known, removed).await?;
    let Some(found_marker) = drained else {
        return Ok(Everywhere::LayoutChanged);
    };
    // The other half of the transaction that left the marker may not be visible yet.
    let arrived = found_marker.then(|| reshard.new_home(operation.key));
    let kept = delete_from(operation, reshard.destinations(), arrived, known, removed).await?;
    Ok(if kept.is_some() { Everywhere::Deleted } else { Everywhere::LayoutChanged })
}

/// Removes an item from each of these shards, from `certain` without a look whether it is there.
/// Returns whether one of them held a marker of the running reshard, or `None` where the layout
/// changed.
async fn delete_from(
    operation: &mut Operation<'_>,
    mut shards: impl Iterator<Item = ShardId>,
    certain: Option<ShardId>,
    known: &Known,
    removed: &AtomicBool,
) -> Result<Option<bool>, Error> {
    // As long as a write waits whose item moves: another part of the delete may be done.
    let deadline = operation.deadline.of_settling();
    let (mut under_way, mut found) = (FuturesUnordered::new(), Vec::new());
    let mut next = shards.next();
    while next.is_some() || !under_way.is_empty() {
        // Who has a part under way waits for no turn of another, so that somebody always goes on.
        let turn = match next.filter(|_| under_way.len() < FAN_OUT) {
            None => None,
            Some(_) if under_way.is_empty() => Some(operation.context.parts.acquire().await),
            Some(_) => operation.context.parts.try_acquire(),
        };
        if let (Some(turn), Some(shard)) = (turn, next) {
            let mut part = Operation::new(operation.context, operation.key, deadline);
            part.aside = Arc::clone(&operation.aside);
            let part = delete_in(part, shard, certain == Some(shard), known, removed);
            under_way.push(async move {
                let _turn = turn;
                part.await
            });
            next = shards.next();
            continue;
        }
        // A failure ends none of the others: whether it did something is to be known of each.
        found.extend(under_way.next().await);
    }
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    operation.consumed_wcu += found.iter().map(|(_, consumed_wcu)| consumed_wcu).sum::<f64>();
    let holds = |wanted| found.iter().any(|(in_shard, _)| *in_shard == wanted);
    if holds(InShard::LayoutChanged) {
        return Ok(None);
    }
    Ok(Some(holds(InShard::Marker)))
}

/// The part of a delete in one shard, and the write units that DynamoDB reported for it.
async fn delete_in(
    mut operation: Operation<'_>,
    shard: ShardId,
    certain: bool,
    began_with: &Known,
    removed: &AtomicBool,
) -> Result<(InShard, f64), Error> {
    loop {
        match try_delete_in(&mut operation, shard, certain, began_with, removed).await {
            Ok(in_shard) => return Ok((in_shard, operation.consumed_wcu)),
            Err(Interrupted::BeginAgain) => {}
            Err(Interrupted::Failed(error)) => return Err(error),
        }
    }
}

async fn try_delete_in(
    operation: &mut Operation<'_>,
    shard: ShardId,
    certain: bool,
    began_with: &Known,
    removed: &AtomicBool,
) -> Result<InShard, Interrupted> {
    let directory = &operation.context.directory;
    let known = directory.find_for(operation.key, operation.deadline).await?;
    if known.metadata != began_with.metadata {
        return Ok(InShard::LayoutChanged);
    }
    if !certain {
        // A read costs a half of what a delete of nothing does, and nearly every shard
        // holds nothing.
        let home = operation.at(shard, &known);
        match read_home(operation, &home, &known).await? {
            None => return Ok(InShard::Nothing),
            Some(item) if item.is_live() => {}
            Some(marker) if marker.generation < known.metadata.generation => {
                return Ok(InShard::Nothing);
            }
            Some(_) => return Ok(InShard::Marker),
        }
    }
    let expected = if certain { Expected::Any } else { Expected::Live };
    let write = operation.guarded(shard, Action::Delete, expected, &known);
    let sent = operation.send(&write, shard, &known, operation.deadline).await;
    let may_be_done = match &sent {
        Ok(Sent::Done) => true,
        Err(Interrupted::Failed(error)) => error.kind() == Kind::OutcomeUnknown,
        _ => false,
    };
    if may_be_done {
        removed.store(true, Ordering::Relaxed);
    }
    match sent? {
        Sent::Done => Ok(InShard::Nothing),
        Sent::Unexpected { .. } => Err(Interrupted::BeginAgain),
    }
}

pub(super) fn moved_meanwhile() -> Error {
    Error::new(Code::Contended, "the item was being moved by another operation")
}
