use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, ShardCount};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::directory::{Directory, Known, refusal};
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore};
use crate::query::FAN_OUT;
use crate::retry::{Attempts, within};
use crate::write::layout;
use crate::{Code, CollectionMetadata, Deadline, Error, Layout, StoredItem};

/// Reads items and collections.
pub struct Reader<I, M, C, E> {
    items: I,
    directory: Directory<M, C, E>,
}

impl<I: ItemStore, M: MetadataStore, C: Clock, E: Entropy> Reader<I, M, C, E> {
    /// A reader over these stores.
    pub fn new(items: I, directory: Directory<M, C, E>) -> Self {
        Self { items, directory }
    }

    /// What the reader knows about collections.
    pub fn directory(&self) -> &Directory<M, C, E> {
        &self.directory
    }

    /// Reads one item. A calculated placement asks one shard; a random one asks all of them.
    pub async fn get(
        &self,
        key: &ItemKey,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<StoredItem, Error> {
        let not_found = || Error::new(Code::ItemNotFound, "there is no such item");
        let mut attempts = Attempts::new(self.clock(), self.directory.entropy(), deadline);
        loop {
            let known =
                self.directory.find(&key.partition, deadline).await?.ok_or_else(not_found)?;
            let Layout { readable, .. } = layout(&known)?;
            let requests = self
                .possible_homes(key, &known, readable)
                .map(|home| self.get_at(home, consistency, deadline))
                .collect::<Vec<_>>();
            let found = stream::iter(requests).buffered(FAN_OUT).try_collect::<Vec<_>>().await?;
            if found.iter().flatten().any(|item| item.generation > known.metadata.generation) {
                self.directory.forget(&key.partition);
                attempts.refresh().await?;
                continue;
            }
            if !known.lease.is_live(self.clock().now()) {
                let why = "the item could not be read within a metadata lease";
                attempts.pause(Error::new(Code::Unavailable, why)).await?;
                continue;
            }
            return found.into_iter().flatten().find(StoredItem::is_live).ok_or_else(not_found);
        }
    }

    /// The metadata of a collection.
    pub async fn collection(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<CollectionMetadata, Error> {
        let Some(known) = self.directory.find(partition, deadline).await? else {
            let why = "no item was ever written under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        };
        Ok(CollectionMetadata::clone(&known.metadata))
    }

    pub(crate) fn items(&self) -> &I {
        &self.items
    }

    pub(crate) fn clock(&self) -> &C {
        self.directory.clock()
    }

    /// Where an item may be: its home, or every shard of a random collection.
    pub(crate) fn possible_homes(
        &self,
        key: &ItemKey,
        known: &Known,
        count: ShardCount,
    ) -> impl Iterator<Item = PhysicalKey> {
        let separator = self.directory.settings().schema.separator;
        let placement = known.metadata.placement;
        let home = placement.home(key, count);
        let key = key.clone();
        placement
            .shards(count)
            .filter(move |shard| home.is_none_or(|home| *shard == home))
            .map(move |shard| key.at(shard, separator))
    }

    async fn get_at(
        &self,
        key: PhysicalKey,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<Option<StoredItem>, Error> {
        let mut attempts = Attempts::new(self.clock(), self.directory.entropy(), deadline);
        loop {
            match within(self.clock(), deadline, self.items.get(&key, consistency)).await {
                Some(Ok(item)) => return Ok(item),
                Some(Err(error)) => attempts.pause(refusal(error)?).await?,
                None => {
                    let why = "the item could not be read in time";
                    return Err(Error::new(Code::Unavailable, why));
                }
            }
        }
    }
}
