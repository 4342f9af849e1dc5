use dynashard_keys::{ItemKey, PartitionKey, PhysicalKey, ShardCount, ShardId};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::directory::{Directory, Known, refusal};
use crate::ports::{Clock, Consistency, Entropy, ItemStore, MetadataStore};
use crate::query::FAN_OUT;
use crate::retry::{Attempts, within};
use crate::{Code, CollectionMetadata, Deadline, Error, Job, Reshard, StoredItem};

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
    ///
    /// While a reshard moves items the read is strongly consistent, whatever was asked for.
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
            let found = match known.metadata.reshard() {
                None => self.get_resting(key, &known, consistency, deadline).await?,
                Some(reshard) => self.get_moving(key, reshard, &known, deadline).await?,
            };
            if found.iter().any(|item| item.generation > known.metadata.generation) {
                self.directory.forget(&key.partition);
                attempts.refresh().await?;
                continue;
            }
            if !known.lease.is_live(self.clock().now()) {
                let why = "the item could not be read within a metadata lease";
                attempts.pause(Error::new(Code::Unavailable, why)).await?;
                continue;
            }
            return found.into_iter().find(StoredItem::is_live).ok_or_else(not_found);
        }
    }

    /// What lies in each place where the item may be.
    async fn get_resting(
        &self,
        key: &ItemKey,
        known: &Known,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<Vec<StoredItem>, Error> {
        let readable = known.metadata.layout().readable;
        let homes = self.possible_homes(key, known, readable).collect::<Vec<_>>();
        self.get_at_each(homes, consistency, deadline).await
    }

    /// What lies where a reshard may have brought the item, the place that counts first (protocol:
    /// "Steps", "get").
    async fn get_moving(
        &self,
        key: &ItemKey,
        reshard: Reshard,
        known: &Known,
        deadline: Deadline,
    ) -> Result<Vec<StoredItem>, Error> {
        let at = |shard| self.at(key, shard);
        if !known.metadata.placement.is_calculated() {
            return self.get_drained(key, reshard, known, deadline).await;
        }
        let Some((old, new)) = reshard.homes(key) else {
            let home = vec![at(reshard.new_home(key))];
            return self.get_at_each(home, Consistency::Strong, deadline).await;
        };
        let found = self.get_at(at(new), Consistency::Strong, deadline).await?;
        if let Some(item) = found.filter(|item| settles_it(item, known)) {
            return Ok(vec![item]);
        }
        self.get_both(at(new), at(old), deadline).await
    }

    /// The same in a random collection that shrinks: the drained shards first, since items leave
    /// them and never come back.
    async fn get_drained(
        &self,
        key: &ItemKey,
        reshard: Reshard,
        known: &Known,
        deadline: Deadline,
    ) -> Result<Vec<StoredItem>, Error> {
        let at = |shard| self.at(key, shard);
        let mut marked_at = None;
        let mut found = Vec::new();
        for shards in
            [reshard.sources().collect::<Vec<_>>(), reshard.destinations().collect::<Vec<_>>()]
        {
            let requests = shards.into_iter().map(|shard| async move {
                let item = self.get_at(at(shard), Consistency::Strong, deadline).await?;
                Ok::<_, Error>((shard, item))
            });
            let requests = requests.collect::<Vec<_>>();
            let wave = stream::iter(requests).buffered(FAN_OUT).try_collect::<Vec<_>>().await?;
            for (shard, item) in wave {
                if item.as_ref().is_some_and(|item| is_marker_of(item, known)) {
                    marked_at = Some(shard);
                }
                found.extend(item);
            }
        }
        if !found.iter().any(|item| settles_it(item, known))
            && let Some(old) = marked_at
        {
            return self.get_both(at(reshard.new_home(key)), at(old), deadline).await;
        }
        Ok(found)
    }

    /// Both homes as they were at one moment: two plain reads could miss an item that moves between
    /// them.
    pub(crate) async fn get_both(
        &self,
        new: PhysicalKey,
        old: PhysicalKey,
        deadline: Deadline,
    ) -> Result<Vec<StoredItem>, Error> {
        let found = self.get_pair(new, old, deadline).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The same, each in its place.
    pub(crate) async fn get_pair(
        &self,
        one: PhysicalKey,
        other: PhysicalKey,
        deadline: Deadline,
    ) -> Result<[Option<StoredItem>; 2], Error> {
        let mut attempts = Attempts::new(self.clock(), self.directory.entropy(), deadline);
        loop {
            match within(self.clock(), deadline, self.items.get_both([&one, &other])).await {
                Some(Ok(found)) => return Ok(found),
                Some(Err(error)) => attempts.pause(refusal(error)?).await?,
                None => return Err(not_in_time()),
            }
        }
    }

    /// The metadata of a collection, and the job of the reshard that runs.
    pub async fn collection(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(CollectionMetadata, Option<Job>), Error> {
        let Some(known) = self.directory.find(partition, deadline).await? else {
            let why = "no item was ever written under this partition key";
            return Err(Error::new(Code::CollectionNotFound, why));
        };
        let job = match known.metadata.reshard() {
            Some(_) => self.directory.job(partition, deadline).await?.0,
            None => None,
        };
        let job = job.filter(|job| job.generation == known.metadata.generation);
        Ok((CollectionMetadata::clone(&known.metadata), job))
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

    /// Where an item lies in a shard.
    pub(crate) fn at(&self, key: &ItemKey, shard: ShardId) -> PhysicalKey {
        key.at(shard, self.directory.settings().schema.separator)
    }

    async fn get_at_each(
        &self,
        homes: Vec<PhysicalKey>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<Vec<StoredItem>, Error> {
        let requests = homes.into_iter().map(|home| self.get_at(home, consistency, deadline));
        let requests = requests.collect::<Vec<_>>();
        let found = stream::iter(requests).buffered(FAN_OUT).try_collect::<Vec<_>>().await?;
        Ok(found.into_iter().flatten().collect())
    }

    pub(crate) async fn get_at(
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
                None => return Err(not_in_time()),
            }
        }
    }
}

/// Whether an item answers a read without a look at its other home: it is live, or shows that the
/// metadata is out of date.
fn settles_it(item: &StoredItem, known: &Known) -> bool {
    item.is_live() || item.generation > known.metadata.generation
}

/// Whether this is the marker of an item that the running reshard has moved.
pub(crate) fn is_marker_of(item: &StoredItem, known: &Known) -> bool {
    !item.is_live() && item.generation == known.metadata.generation
}

fn not_in_time() -> Error {
    Error::new(Code::Unavailable, "the item could not be read in time")
}
