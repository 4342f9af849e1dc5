//! A put, and one attempt of it.

use std::pin::pin;
use std::sync::Arc;

use crate::model::error::Error;
use crate::model::guard::{Action, Expected};
use crate::model::item::{NewItem, StoredItem, item_bytes};
use crate::model::lease::Deadline;
use crate::model::version::{Generation, Version};
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::home::{SettledUntil, new_home_in_move, shard_to_write};
use crate::usecases::write::look::send_put;
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::precondition::{
    Precondition, Written, expected, precondition_failed, refuse_random,
};
use crate::usecases::write::send::Sent;
use crate::usecases::write::slow_start::SlowStart;

/// Stores an item under this version.
pub(crate) async fn put(
    context: &WriteContext,
    item: &NewItem,
    version: Version,
    precondition: Precondition,
    start: Option<&SlowStart>,
    deadline: Deadline,
) -> Result<Written, Error> {
    let mut operation = Operation::arriving(context, item.key(), Some(put_units(item)), deadline);
    operation.start = start;
    // The attempts share the item. Only its generation may differ from one to the next.
    let mut item = Arc::new(StoredItem {
        attributes: item.attributes().clone(),
        generation: Generation::default(),
        version,
        forwarded: false,
    });
    let mut tried_new_home = false;
    let aside = Arc::clone(&operation.aside);
    let result = {
        let attempts = pin!(async {
            loop {
                match try_put(&mut operation, &mut item, precondition, &mut tried_new_home).await {
                    Ok(written) => return Ok(written),
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

/// One attempt of a put: finds the shard of the item, and sends one guarded write there.
///
/// `tried_new_home` is whether a put with `If-Match` found nothing at the new home of its item. Then
/// the old home is asked.
async fn try_put(
    operation: &mut Operation<'_>,
    item: &mut Arc<StoredItem>,
    precondition: Precondition,
    tried_new_home: &mut bool,
) -> Result<Written, Interrupted> {
    let known = operation.context.directory.find_for(operation.key, operation.deadline).await?;
    if precondition != Precondition::None {
        refuse_random(known.metadata.placement, "If-Match and If-None-Match need")?;
    }
    let expected = expected(precondition)?;
    // What an item hides at its old home would show again when it expires.
    let may_expire = item.may_expire(&operation.context.directory.lease().ttl_attributes());
    let until = if may_expire { SettledUntil::Marked } else { SettledUntil::Emptied };
    let new_home =
        new_home_in_move(operation.key, &known).filter(|_| until == SettledUntil::Emptied);
    let asks_new_home_first = match precondition {
        Precondition::None => true,
        Precondition::Absent | Precondition::Never => false,
        // New wins: what holds there holds, whatever lies at the old home.
        Precondition::Exists | Precondition::Version(_) => !*tried_new_home,
    };
    let first = new_home.filter(|_| asks_new_home_first);
    let shard = match first {
        Some(shard) => shard,
        None => shard_to_write(operation, until, &known).await?,
    };
    Arc::make_mut(item).generation = known.metadata.generation;
    let version = item.version;
    let write = operation.guarded(shard, Action::Put(Arc::clone(item)), expected, &known);
    match send_put(operation, &write, shard, &known, version).await? {
        Sent::Done => Ok(Written::new(shard, version, operation.consumed_wcu)),
        Sent::Unexpected { version: Some(found) }
            if found == version && expected == Expected::Absent =>
        {
            Ok(Written { was_there: true, ..Written::new(shard, version, operation.consumed_wcu) })
        }
        Sent::Unexpected { version: None } if first.is_some() => {
            *tried_new_home = true;
            Err(Interrupted::BeginAgain)
        }
        Sent::Unexpected { .. } => Err(precondition_failed().into()),
    }
}

/// The write units that a put asks for: one for each kilobyte.
fn put_units(item: &NewItem) -> f64 {
    let kilobytes = item_bytes(item.attributes()).div_ceil(1_024).max(1);
    f64::from(u32::try_from(kilobytes).unwrap_or(u32::MAX))
}
