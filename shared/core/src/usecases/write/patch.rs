//! Patches: a strong read, and a put on condition of the version that was read.

use std::pin::pin;
use std::sync::Arc;

use dynashard_keys::ItemKey;

use crate::model::error::{Code, Error};
use crate::model::guard::{Action, Condition, Expected};
use crate::model::item::{Attributes, NewItem, StoredItem, take_key};
use crate::model::lease::Deadline;
use crate::model::merge_patch::merge_patch;
use crate::usecases::write::context::WriteContext;
use crate::usecases::write::home::{SettledUntil, find_item, new_home_in_move, shard_to_write};
use crate::usecases::write::look::send_put;
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::precondition::{
    Precondition, Written, expected, precondition_failed, refuse_random,
};
use crate::usecases::write::send::Sent;

/// Merges `patch` into an item (RFC 7396).
pub(crate) async fn patch(
    context: &WriteContext,
    key: &ItemKey,
    mut patch: Attributes,
    precondition: Precondition,
    deadline: Deadline,
) -> Result<Written, Error> {
    take_key(key, &mut patch, &context.directory.settings().schema)?;
    let mut operation = Operation::arriving(context, key, None, deadline);
    let aside = Arc::clone(&operation.aside);
    let result = {
        let attempts = pin!(async {
            loop {
                match try_patch(&mut operation, &patch, precondition).await {
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

async fn try_patch(
    operation: &mut Operation<'_>,
    patch: &Attributes,
    precondition: Precondition,
) -> Result<Written, Interrupted> {
    let directory = &operation.context.directory;
    let known = directory.find_for(operation.key, operation.deadline).await?;
    refuse_random(known.metadata.placement, "PATCH needs")?;
    let expected = expected(precondition)?;
    let in_move = new_home_in_move(operation.key, &known);
    let shard = match in_move {
        Some(shard) => shard,
        None => shard_to_write(operation, SettledUntil::Marked, &known).await?,
    };
    let existing = find_item(operation, &known).await?;
    let existing = existing.ok_or_else(|| nothing_to_patch(precondition))?;
    let found = Condition { generation: known.metadata.generation, expected };
    if !found.holds(Some(&existing)) {
        return Err(precondition_failed().into());
    }

    let unchanged = Expected::Version(existing.version);
    let mut attributes = existing.attributes;
    merge_patch(&mut attributes, patch.clone());
    let item = NewItem::new(operation.key.clone(), attributes, &directory.settings().schema)?;
    let version = operation.context.draw_version();
    let item = Arc::new(StoredItem {
        attributes: item.into_attributes(),
        generation: known.metadata.generation,
        version,
        forwarded: false,
    });
    if in_move.is_some() && item.may_expire(&directory.lease().ttl_attributes()) {
        shard_to_write(operation, SettledUntil::Marked, &known).await?;
    }
    let write = operation.guarded(shard, Action::Put(item), unchanged, &known);
    match send_put(operation, &write, shard, &known, version).await? {
        Sent::Done => Ok(Written::new(shard, version, operation.consumed_wcu)),
        Sent::Unexpected { .. } if matches!(precondition, Precondition::Version(_)) => {
            Err(precondition_failed().into())
        }
        Sent::Unexpected { .. } => {
            let why = "other writes to the item came between its read and its write";
            Err(operation.begin_again_after(Error::new(Code::Contended, why)).await)
        }
    }
}

/// A failed `If-Match` comes before a missing item (RFC 9110, 13.2.2).
fn nothing_to_patch(precondition: Precondition) -> Error {
    match precondition {
        Precondition::None | Precondition::Absent => {
            Error::new(Code::ItemNotFound, "the item does not exist")
        }
        Precondition::Exists | Precondition::Version(_) | Precondition::Never => {
            precondition_failed()
        }
    }
}
