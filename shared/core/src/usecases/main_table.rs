//! What is asked of the main table as a whole: whose it is, and whether fewer shards can hold its collections.

use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::pinned::Owner;
use crate::model::policy::fits_one_shard;
use crate::ports::StoreError;
use crate::usecases::context::Context;
use crate::usecases::retry::refusal;

/// Refuses a main table that belongs to another stack than this one, whose id is pinned, if it is. Who `claims` takes one
/// that belongs to nobody.
pub(crate) async fn compare_owner(
    context: &Context,
    stack_id: Option<&str>,
    claims: bool,
    deadline: Deadline,
) -> Result<(), Error> {
    let metadata_table = context.record_store().table();
    let of_stack = |own: &str| Owner {
        stack_id: own.to_owned(),
        metadata_table: metadata_table.to_owned(),
        is_of_this_table: true,
    };
    let mut attempts = context.attempts(deadline);
    loop {
        let why = "the owner of the main table could not be read in time";
        match (attempts.make(|| context.items().owner(), why).await?, stack_id) {
            (Some(owner), Some(own)) if owner.stack_id == own => {
                let says = of_stack(own);
                if claims && owner != says {
                    // Tables that were restored have other names than they say. Whoever may not correct that goes on.
                    drop(context.items().claim(&says).await);
                }
                return Ok(());
            }
            (Some(owner), _) => return Err(belongs_to(&owner, metadata_table)),
            (None, Some(own)) if claims => match context.items().claim(&of_stack(own)).await {
                Ok(()) => return Ok(()),
                // The next read shows whose it is.
                Err(StoreError::ConditionFailed { .. } | StoreError::OutcomeUnknown(_)) => {
                    let why = "the main table could not be claimed in time";
                    attempts.pause(Error::new(Code::Unavailable, why)).await?;
                }
                Err(error) => attempts.pause(refusal(error)?).await?,
            },
            (None, _) => return Ok(()),
        }
    }
}

/// Whether fewer shards can hold the items of any collection, of which nobody knows the size.
pub(crate) async fn fit_one_shard(context: &Context, deadline: Deadline) -> Result<bool, Error> {
    Ok(fits_one_shard(locally_indexed_bytes(context, deadline).await?))
}

/// Whether the table has local secondary indexes.
pub(crate) async fn has_local_indexes(
    context: &Context,
    deadline: Deadline,
) -> Result<bool, Error> {
    Ok(locally_indexed_bytes(context, deadline).await?.is_some())
}

async fn locally_indexed_bytes(
    context: &Context,
    deadline: Deadline,
) -> Result<Option<u64>, Error> {
    let why = "the size of the main table could not be read in time";
    context.attempts(deadline).make(|| context.items().locally_indexed_bytes(), why).await
}

fn belongs_to(owner: &Owner, own_table: &str) -> Error {
    let what = if owner.metadata_table == own_table {
        "it was emptied or made anew: restore both tables, as they were in one second. Items"
    } else {
        "this is another one: its items"
    };
    let why = format!(
        "the main table belongs to the stack with the metadata table {:?}, and {what} would not be found, and writes would hide them",
        owner.metadata_table
    );
    Error::new(Code::SettingsMismatch, why)
}
