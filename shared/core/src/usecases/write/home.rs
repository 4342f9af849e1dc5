//! Where an item is written to, and what lies there.

use std::future::Future;

use dynashard_keys::{ItemKey, PhysicalKey, ShardId};

use crate::model::error::{Code, Error};
use crate::model::item::StoredItem;
use crate::ports::{Consistency, StoreError};
use crate::usecases::directory::Known;
use crate::usecases::retry::{refusal, within};
use crate::usecases::settle::{BothHomes, OldHome, Settling, Unsettled};
use crate::usecases::write::operation::{Interrupted, LEAST_WRITE_TIME, Operation};
use crate::usecases::write::send::out_of_time;

/// How far an item that moves is settled before it is written at its new home (protocol: "Steps", "write").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettledUntil {
    /// Until a marker lies at the old home. No late request can put an item there any more.
    Marked,
    /// In `move`, until nothing is live at the old home. What a late request puts there afterwards stays
    /// hidden behind the item that is written. In `forward` as [`Self::Marked`].
    Emptied,
}

/// The shard that the item is written to. One that a reshard moves is settled there first, so
/// that its write is the only thing left to happen to it.
pub(super) async fn shard_to_write(
    operation: &mut Operation<'_>,
    until: SettledUntil,
    known: &Known,
) -> Result<ShardId, Interrupted> {
    let Some((homes, new)) = homes_of(operation, known) else {
        let metadata = &known.metadata;
        let draw = operation.context.directory.context().entropy().next_u64();
        return Ok(metadata.placement.place(operation.key, metadata.layout().writable, draw));
    };
    let mut settling = Settling::new(operation.context.items(), &homes, known);
    // A stable collection's writes need not carry this with them.
    let is_enough =
        until == SettledUntil::Emptied && new_home_in_move(operation.key, known).is_some();
    let old = &homes.old.partition;
    if !is_enough {
        // It writes to the old home, unless it has done so already.
        operation.turn(old, None).await?;
    }
    let sent = operation.context.clock().now().boot;
    let settled = in_time(
        operation,
        Box::pin(async {
            if is_enough { settling.settle_live().await.map(drop) } else { settling.settle().await }
        }),
    );
    let settled = settled.await;
    if let (false, Ok(Some(settled))) = (is_enough, &settled) {
        let refusal = settled.as_ref().err().and_then(Unsettled::failure);
        if refusal.is_some() || settling.consumed_wcu() > 0.0 {
            operation.was_answered(old, refusal, sent);
        }
    }
    after_settling(operation, settled, &settling, known).await?;
    Ok(new)
}

/// What the old home of the item holds once it is settled, if it was live there.
pub(super) async fn settle_if_live(
    operation: &mut Operation<'_>,
    homes: &BothHomes,
    known: &Known,
) -> Result<OldHome, Interrupted> {
    let mut settling = Settling::new(operation.context.items(), homes, known);
    let settled = in_time(operation, Box::pin(settling.settle_live())).await;
    after_settling(operation, settled, &settling, known).await
}

/// The item as it lies at its home, or at its new one: what is found at the old home alone is
/// moved before it is returned (protocol: "Steps", "get").
pub(super) async fn find_item(
    operation: &mut Operation<'_>,
    known: &Known,
) -> Result<Option<StoredItem>, Interrupted> {
    let Some((homes, _)) = homes_of(operation, known) else {
        let home = known.metadata.placement.home(operation.key, known.metadata.layout().writable);
        let Some(home) = home else { return Ok(None) };
        let home = operation.at(home, known);
        return Ok(read_home(operation, &home, known).await?.filter(StoredItem::is_live));
    };
    let found = read_home(operation, &homes.new, known).await?.filter(StoredItem::is_live);
    if found.is_some() {
        return Ok(found);
    }
    // The transaction that brought it may be visible at its old home alone: that it is missing is
    // only believed of a read that no transaction is under way for.
    match read_homes(operation, &homes, known).await?.map(|item| item.filter(StoredItem::is_live)) {
        [None, Some(seen)] => {
            let mut settling = Settling::new(operation.context.items(), &homes, known);
            let settled = in_time(operation, Box::pin(settling.bring_observed(seen))).await;
            after_settling(operation, settled, &settling, known).await.map(Some)
        }
        [at_new, _] => Ok(at_new),
    }
}

/// Both homes of an item that a reshard moves, and the shard that is its new one.
pub(super) fn homes_of(operation: &Operation<'_>, known: &Known) -> Option<(BothHomes, ShardId)> {
    let (old, new) = known.metadata.reshard()?.homes(operation.key)?;
    Some((BothHomes { old: operation.at(old, known), new: operation.at(new, known) }, new))
}

/// A strong read of an item's home.
pub(super) async fn read_home(
    operation: &mut Operation<'_>,
    home: &PhysicalKey,
    known: &Known,
) -> Result<Option<StoredItem>, Interrupted> {
    let get = operation.context.items().get(home, None, Consistency::Strong);
    let [found] = strong_read(operation, async { Ok([get.await?.value]) }, known).await?;
    Ok(found)
}

/// What lies at the new home and at the old one at one moment.
pub(super) async fn read_homes(
    operation: &mut Operation<'_>,
    homes: &BothHomes,
    known: &Known,
) -> Result<[Option<StoredItem>; 2], Interrupted> {
    let both = operation.context.items().get_both([&homes.new, &homes.old], None);
    strong_read(operation, async { Ok(both.await?.value) }, known).await
}

/// The result of settling an item, if it comes while a write may still begin.
async fn in_time<T>(
    operation: &Operation<'_>,
    settling: impl Future<Output = Result<T, Unsettled>>,
) -> Result<Option<Result<T, Unsettled>>, Error> {
    let slot = operation.slot().await?;
    let begin_by = operation.deadline.earlier_by(LEAST_WRITE_TIME);
    let settled = within(operation.context.clock(), begin_by, settling).await;
    drop(slot);
    Ok(settled)
}

/// What came of settling an item.
async fn after_settling<T>(
    operation: &mut Operation<'_>,
    settled: Result<Option<Result<T, Unsettled>>, Error>,
    settling: &Settling<'_>,
    known: &Known,
) -> Result<T, Interrupted> {
    operation.consumed_wcu += settling.consumed_wcu();
    let refusal = match settled? {
        Some(Ok(settled)) if known.lease.is_live(operation.context.clock().now()) => {
            return Ok(settled);
        }
        Some(Ok(_)) => {
            Error::new(Code::Unavailable, "the item could not be settled within a lease")
        }
        Some(Err(unsettled)) => match unsettled.refusal()? {
            Some(refusal) => refusal,
            None => return Err(operation.begin_again_fresh().await),
        },
        None => return Err(out_of_time().into()),
    };
    // An item that moves is waited for as the mover waits: it moves once. Before `move`, and where the old home holds nothing
    // or a marker, the same look is made for each write, and none is worth that patience.
    if settling.found_live() && new_home_in_move(operation.key, known).is_some() {
        operation.attempts.wait_as_for_a_move();
    }
    Err(operation.begin_again_after(refusal).await)
}

/// What a strong read found.
async fn strong_read<const N: usize>(
    operation: &mut Operation<'_>,
    read: impl Future<Output = Result<[Option<StoredItem>; N], StoreError>>,
    known: &Known,
) -> Result<[Option<StoredItem>; N], Interrupted> {
    let slot = operation.slot().await?;
    let (directory, clock) = (&operation.context.directory, operation.context.clock());
    // The turn may have come late in the lease, or after it.
    let renewed = directory.find_for(operation.key, operation.deadline).await?;
    if renewed.metadata != known.metadata {
        return Err(Interrupted::BeginAgain);
    }
    let known = renewed;
    let answer = within(clock, operation.deadline, read).await;
    drop(slot);
    match answer {
        Some(Ok(found)) => {
            let generation = known.metadata.generation;
            if found.iter().flatten().any(|item| item.generation > generation) {
                return Err(operation.begin_again_fresh().await);
            }
            if !known.lease.is_live(clock.now()) {
                // What was read after the lease is thrown away (protocol: "Lease").
                let why = "the item could not be read within a metadata lease";
                return Err(operation.begin_again_after(Error::new(Code::Unavailable, why)).await);
            }
            Ok(found)
        }
        Some(Err(error)) => Err(operation.begin_again_after(refusal(error)?).await),
        None => Err(Error::new(Code::Unavailable, "the item could not be read in time").into()),
    }
}

/// The new home of an item that moves, where `move` is in hand: from then on an item may be written
/// there without a marker at the old home (protocol: "Writes in `move`").
pub(super) fn new_home_in_move(key: &ItemKey, known: &Known) -> Option<ShardId> {
    let reshard = known.metadata.reshard().filter(|reshard| reshard.is_in_move)?;
    reshard.homes(key).map(|(_, new)| new)
}
