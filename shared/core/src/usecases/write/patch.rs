//! Patches: a strong read, and a put on condition of the version that was read.

use std::pin::pin;
use std::sync::Arc;

use dynashard_keys::ItemKey;

use crate::model::error::{Code, Error};
use crate::model::guard::{Action, Condition, Expected};
use crate::model::item::{Attributes, NewItem, StoredItem, take_key};
use crate::model::lease::Deadline;
use crate::model::merge_patch::merge_patch;
use crate::usecases::write::home::{Settled, new_home_in_move};
use crate::usecases::write::operation::{Interrupted, Operation};
use crate::usecases::write::send::Sent;
use crate::usecases::write::writer::{
    Precondition, Writer, Written, expected, precondition_failed, refuse_random,
};

impl Writer {
    /// Merges `patch` into an item (RFC 7396): a strong read, and a write on condition that the
    /// version read is still there.
    pub async fn patch(
        &self,
        key: &ItemKey,
        mut patch: Attributes,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        take_key(key, &mut patch, &self.directory.settings().schema)?;
        let mut operation = Operation::arriving(self, key, None, deadline);
        let aside = Arc::clone(&operation.aside);
        let result = {
            let attempts = pin!(async {
                loop {
                    match operation.try_patch(&patch, precondition).await {
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
}

impl Operation<'_> {
    async fn try_patch(
        &mut self,
        patch: &Attributes,
        precondition: Precondition,
    ) -> Result<Written, Interrupted> {
        let directory = &self.writer.directory;
        let known = directory.find(&self.key.partition, self.deadline).await?;
        refuse_random(known.metadata.placement, "PATCH needs")?;
        let expected = expected(precondition)?;
        let in_move = new_home_in_move(self.key, &known);
        let shard = match in_move {
            Some(shard) => shard,
            None => self.settled_shard(Settled::Marked, &known).await?,
        };
        let existing = self.find_item(&known).await?;
        let existing = existing.ok_or_else(|| nothing_to_patch(precondition))?;
        let found = Condition { generation: known.metadata.generation, expected };
        if !found.holds(Some(&existing)) {
            return Err(precondition_failed().into());
        }

        let unchanged = Expected::Version(existing.version);
        let mut attributes = existing.attributes;
        merge_patch(&mut attributes, patch.clone());
        let item = NewItem::new(self.key.clone(), attributes, &directory.settings().schema)?;
        let version = self.writer.draw_version();
        let item = Arc::new(StoredItem {
            attributes: item.into_attributes(),
            generation: known.metadata.generation,
            version,
            forwarded: false,
        });
        if in_move.is_some() && item.may_expire(&directory.lease().ttl_attributes()) {
            self.settled_shard(Settled::Marked, &known).await?;
        }
        let write = self.guarded(shard, Action::Put(item), unchanged, &known);
        match self.send_put(&write, shard, version).await? {
            Sent::Done => Ok(Written::new(shard, version, self.consumed_wcu)),
            Sent::Unexpected { .. } if matches!(precondition, Precondition::Version(_)) => {
                Err(precondition_failed().into())
            }
            Sent::Unexpected { .. } => {
                let why = "other writes to the item came between its read and its write";
                Err(self.begin_again_after(Error::new(Code::Contended, why)).await)
            }
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
