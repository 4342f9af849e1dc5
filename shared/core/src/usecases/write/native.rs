//! Writes in DynamoDB's own words, in every phase of their collection (protocol: "Updates in place").

use std::pin::pin;
use std::sync::Arc;

use dynashard_keys::{ItemKey, ShardId};

use crate::model::error::{Code, Error, Kind};
use crate::model::guard::{Action, Expected};
use crate::model::item::StoredItem;
use crate::model::lease::{Deadline, Lease};
use crate::model::version::Generation;
use crate::ports::{NativeGuard, NativeKind, NativeSent, NativeTerms, NativeWrite, Required};
use crate::usecases::directory::Known;
use crate::usecases::read::is_marker_of;
use crate::usecases::read_native::terms_at_home;
use crate::usecases::retry::refusal;
use crate::usecases::settle::OldHome;
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::delete::moved_meanwhile;
use crate::usecases::write::home::{
    SettledUntil, find_item, homes_of, new_home_in_move, read_home, read_homes, settle_if_live,
    shard_to_write,
};
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::precondition::refuse_random;

/// What the attempts of a write have shown.
#[derive(Debug, Default)]
struct Shown {
    /// No item was live at the new home, so the old one is asked.
    is_not_at_new_home: bool,
    /// Another write came between the look at an item and its delete. A marker makes sure that the next attempt needs nothing to
    /// stay as it was.
    is_overtaken: bool,
}

/// Carries out a write that asks for so many write units, and returns what its client is answered.
pub(crate) async fn native<W: NativeWrite>(
    context: &WriteContext,
    key: &ItemKey,
    write: &W,
    units: f64,
    deadline: Deadline,
) -> Result<W::Answer, Error> {
    let _begun = context.held.begin(write.writes_of_request());
    let mut operation = Operation::arriving(context, key, Some(units), deadline);
    operation.writes_of_request = write.writes_of_request();
    operation.is_to_be_held = true;
    let mut shown = Shown::default();
    let aside = Arc::clone(&operation.aside);
    let result = {
        let attempts = pin!(async {
            loop {
                match try_native(&mut operation, write, &mut shown).await {
                    Ok(answer) => return Ok(answer),
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

/// What a request on an item is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// A batch of reads, each for itself.
    Reads,
    /// A transaction, which is to see or to change all of its items at one moment.
    Transaction,
}

/// What a request on this item carries. An item that a reshard moves is brought to its new home first. For a transaction a marker
/// is left at the old one, so that nothing happens there any more.
pub(crate) async fn terms_of_item(
    context: &WriteContext,
    key: &ItemKey,
    among: Among,
    deadline: Deadline,
) -> Result<NativeTerms, Error> {
    let mut operation = Operation::new(context, key, deadline);
    loop {
        let known = context.directory.find_for(key, deadline).await?;
        let mut terms = terms_at_home(&context.directory, key, &known)?;
        if !known.metadata.needs_rebalancing() {
            return Ok(terms);
        }
        let settled = match among {
            Among::Reads => find_item(&mut operation, &known).await.map(drop),
            Among::Transaction => settle_for_transaction(&mut operation, &known).await,
        };
        match settled {
            Ok(()) => return Ok(terms),
            Err(Interrupted::BeginAgain) => {}
            // It is read where it lies.
            Err(Interrupted::Failed(error))
                if among == Among::Reads && error.code() == Code::UnmovableItem =>
            {
                let Some((homes, _)) = homes_of(&operation, &known) else { return Err(error) };
                terms.partition = homes.old.partition;
                return Ok(terms);
            }
            Err(Interrupted::Failed(error)) => return Err(error),
        }
    }
}

/// Has all that happens to an item happen at its home, where no marker of an earlier reshard lies.
async fn settle_for_transaction(
    operation: &mut Operation<'_>,
    known: &Known,
) -> Result<(), Interrupted> {
    let shard = shard_to_write(operation, SettledUntil::Marked, known).await?;
    let home = operation.at(shard, known);
    match read_home(operation, &home, known).await? {
        Some(marker) if !marker.is_live() => remove_marker(operation, shard, known).await,
        _ => Ok(()),
    }
}

async fn try_native<W: NativeWrite>(
    operation: &mut Operation<'_>,
    write: &W,
    shown: &mut Shown,
) -> Result<W::Answer, Interrupted> {
    let directory = &operation.context.directory;
    let known = directory.find_for(operation.key, operation.deadline).await?;
    refuse_random(known.metadata.placement, "A request in DynamoDB's own words needs")?;
    let (shard, required) = place(operation, write, shown, &known).await?;
    // No marker lies where nothing was ever resharded, so nothing is asked that DynamoDB would not be asked without dynashard.
    let was_resharded = known.metadata.generation != Generation::default();
    let required = if was_resharded { required } else { Required::Anything };
    let version = operation.context.draw_version();
    let partition = operation.at(shard, &known).partition;
    let terms = |lease| NativeTerms {
        partition: partition.clone(),
        generation: known.metadata.generation,
        lease,
        is_moving: known.metadata.reshard().is_some(),
    };
    let send = |lease: Option<Lease>| {
        let terms = terms(lease.unwrap_or(known.lease));
        async move {
            let sent = write.send(&terms, NativeGuard { required, version }).await?;
            Ok((sent, terms.lease))
        }
    };
    let at = (shard, Some(&known));
    let answered = operation.request(&partition, at, operation.deadline, send).await?;
    let now = operation.context.clock().now();
    let in_lease = answered.as_ref().is_ok_and(|(_, lease)| lease.is_live(now));
    let (answer, existing) = match answered.map(|(sent, _)| sent) {
        Ok(NativeSent::Done { answer, consumed_wcu }) => {
            operation.was_done(consumed_wcu, in_lease, &known).await?;
            return Ok(answer);
        }
        Ok(NativeSent::Invalid(answer)) => return Ok(answer),
        Ok(NativeSent::Refused { answer, existing }) => (answer, existing),
        Err(error) => return Err(operation.begin_again_after(refusal(error)?).await),
    };
    if existing.is_some_and(|existing| existing.generation > known.metadata.generation) {
        return Err(operation.begin_again_fresh().await);
    }
    if !in_lease {
        return Err(operation.begin_again_within_a_lease().await);
    }
    let live = existing.filter(|existing| !existing.is_marker);
    let is_as_required = match required {
        Required::Anything => true,
        Required::NoMarker => existing.is_none_or(|existing| !existing.is_marker),
        Required::Live => live.is_some(),
        Required::Version(seen) => live.is_some_and(|item| item.version == seen),
        Required::Nothing => existing.is_none(),
    };
    if is_as_required {
        return Ok(answer);
    }
    match required {
        Required::Live => shown.is_not_at_new_home = true,
        Required::Nothing if live.is_none() => remove_marker(operation, shard, &known).await?,
        Required::NoMarker => remove_marker(operation, shard, &known).await?,
        _ => shown.is_overtaken = true,
    }
    Err(Interrupted::BeginAgain)
}

/// Where a write goes, and what it requires there. An item that a reshard moves is settled first, as far as the write needs it.
async fn place<W: NativeWrite>(
    operation: &mut Operation<'_>,
    write: &W,
    shown: &Shown,
    known: &Known,
) -> Result<(ShardId, Required), Interrupted> {
    let kind = write.kind();
    // What an item hides at its old home would show again when it expires.
    let may_expire = write.may_expire(&operation.context.directory.lease().ttl_attributes());
    let until = if may_expire || kind == NativeKind::Delete {
        SettledUntil::Marked
    } else {
        SettledUntil::Emptied
    };
    let new_home = new_home_in_move(operation.key, known);
    match (kind, new_home) {
        (NativeKind::Delete, Some(new)) if !shown.is_overtaken => {
            return place_of_delete(operation, new, known).await;
        }
        (NativeKind::Replace, Some(new)) if until == SettledUntil::Emptied => {
            return Ok((new, Required::Anything));
        }
        // New wins: what holds there holds, whatever lies at the old home.
        (NativeKind::Depend, Some(new))
            if until == SettledUntil::Emptied && !shown.is_not_at_new_home =>
        {
            return Ok((new, Required::Live));
        }
        _ => {}
    }
    let required =
        if kind == NativeKind::Replace { Required::Anything } else { Required::NoMarker };
    Ok((shard_to_write(operation, until, known).await?, required))
}

/// Where a delete goes in `move`. No marker is put where nothing lies at the old home: the item is deleted as it was seen beside
/// that instead (protocol: "Writes in `move`").
async fn place_of_delete(
    operation: &mut Operation<'_>,
    new: ShardId,
    known: &Known,
) -> Result<(ShardId, Required), Interrupted> {
    let Some((homes, _)) = homes_of(operation, known) else { return Err(Interrupted::BeginAgain) };
    if settle_if_live(operation, &homes, known).await? == OldHome::Marker {
        return Ok((new, Required::NoMarker));
    }
    let [at_new, at_old] = read_homes(operation, &homes, known).await?;
    if at_old.is_some_and(|item| item.is_live() || is_marker_of(&item, known)) {
        return Err(operation.begin_again_after(moved_meanwhile()).await);
    }
    let required = match at_new.filter(StoredItem::is_live) {
        Some(item) => Required::Version(item.version),
        None => Required::Nothing,
    };
    Ok((new, required))
}

/// Takes away a marker that an earlier reshard has left where an item is written now, so that a condition is judged of nothing.
/// No marker of the running one lies there: it leaves them at old homes alone.
async fn remove_marker(
    operation: &mut Operation<'_>,
    shard: ShardId,
    known: &Known,
) -> Result<(), Interrupted> {
    let write = operation.guarded(shard, Action::Delete, Expected::Marker, known);
    match operation.send(&write, shard, known, operation.deadline).await {
        // The client's own request is not sent yet, and this step may be repeated.
        Err(Interrupted::Failed(error)) if error.kind() == Kind::OutcomeUnknown => {
            Err(operation.begin_again_after(Error::new(Code::Unavailable, error.message())).await)
        }
        sent => sent.map(drop),
    }
}
