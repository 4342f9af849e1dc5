use std::sync::Arc;

use dynashard_keys::ItemKey;

use crate::directory::Known;
use crate::ports::{Action, Clock, Entropy, ItemStore, MetadataStore};
use crate::write::home::blind_home;
use crate::write::operation::{Interrupted, Operation};
use crate::write::send::Sent;
use crate::write::writer::{
    Precondition, Writer, Written, expected, precondition_failed, refuse_random,
};
use crate::{Deadline, Error, Generation, NewItem, StoredItem};

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Writer<I, M, C, E> {
    /// Stores an item in place of what is there.
    pub async fn put(
        &self,
        item: &NewItem,
        precondition: Precondition,
        deadline: Deadline,
    ) -> Result<Written, Error> {
        let mut operation = Operation::new(self, item.key(), deadline);
        // The attempts share the item. Only its generation may differ from one to the next.
        let mut item = Arc::new(StoredItem {
            attributes: item.attributes().clone(),
            generation: Generation::default(),
            version: self.draw_version(),
            forwarded: false,
        });
        loop {
            match operation.try_put(&mut item, precondition).await {
                Ok(written) => return Ok(written),
                Err(Interrupted::BeginAgain) => {}
                Err(Interrupted::Failed(error)) => return Err(error),
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
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Operation<'_, I, M, C, E> {
    async fn try_put(
        &mut self,
        item: &mut Arc<StoredItem>,
        precondition: Precondition,
    ) -> Result<Written, Interrupted> {
        let writer = self.writer;
        let known = writer.collection_to_put_into(self.key, precondition, self.deadline).await?;
        let expected = expected(precondition)?;
        // What an item hides at its old home would show again when it expires.
        let ttl_attribute = writer.directory.settings().ttl_attribute.as_deref();
        let goes_past = precondition == Precondition::None && !item.may_expire(ttl_attribute);
        let new_home = if goes_past { blind_home(self.key, &known) } else { None };
        let shard = match new_home {
            Some(shard) => shard,
            None => self.settled_shard(&known).await?,
        };
        Arc::make_mut(item).generation = known.metadata.generation;
        let version = item.version;
        let write = self.guarded(shard, Action::Put(Arc::clone(item)), expected, &known);
        match self.send_put(&write, shard, version).await? {
            Sent::Done => Ok(Written { shard, version, consumed_wcu: self.consumed_wcu }),
            Sent::Unexpected => Err(precondition_failed().into()),
        }
    }
}
