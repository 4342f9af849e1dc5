//! Whose the main table is, and whether fewer shards can hold its collections.

use crate::model::error::{Code, Error};
use crate::model::lease::Deadline;
use crate::model::pinned::{Owner, Pinned};
use crate::model::policy::fits_one_shard;
use crate::ports::StoreError;
use crate::usecases::directory::leased::Directory;
use crate::usecases::retry::refusal;

impl Directory {
    /// Refuses a main table that belongs to another stack. A function that pins claims one that belongs to nobody.
    pub(super) async fn compare_owner(
        &self,
        pinned: Option<&Pinned>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let stack_id = pinned.and_then(|pinned| pinned.stack_id.as_deref());
        let mut attempts = self.attempts(deadline);
        loop {
            let read = || self.records().owner();
            let why = "the owner of the main table could not be read in time";
            match (attempts.make(read, why).await?, stack_id) {
                (Some(owner), Some(own)) if owner.stack_id == own => return Ok(()),
                (Some(owner), _) => return Err(belongs_to(&owner)),
                (None, Some(own)) if self.pins => match self.records().claim(own).await {
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
    pub(crate) async fn fit_one_shard(&self, deadline: Deadline) -> Result<bool, Error> {
        let why = "the size of the main table could not be read in time";
        let read = || self.records().locally_indexed_bytes();
        Ok(fits_one_shard(self.attempts(deadline).make(read, why).await?))
    }

    /// An id that no other stack has.
    pub(super) fn drawn_id(&self) -> String {
        format!("{:016x}{:016x}", self.entropy().next_u64(), self.entropy().next_u64())
    }
}

fn belongs_to(owner: &Owner) -> Error {
    let why = format!(
        "the main table belongs to the stack with the metadata table {:?}, and this is another one: its items would not be \
         found, and writes would hide them",
        owner.metadata_table
    );
    Error::new(Code::SettingsMismatch, why)
}
