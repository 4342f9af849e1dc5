//! What clients ask for: the face of the modules `read`, `query`, `batch` and `collection`. It meters what comes in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::{ItemKey, PartitionKey, ShardId};
use futures_util::future::join_all;

use crate::model::error::{Code, Error};
use crate::model::fields::Fields;
use crate::model::index::SecondaryIndex;
use crate::model::item::{StoredItem, quoted};
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::model::policy::Access;
use crate::model::reshard::Job;
use crate::ports::{Consistency, IndexStore, NativeGot, NativeRead};
use crate::usecases::batch::{BatchGot, BatchRead, MAX_BATCH_GETS, refuse_duplicates};
use crate::usecases::collection::{Activity, activity, collection};
use crate::usecases::cost::Cost;
use crate::usecases::counter::{CounterValue, sum};
use crate::usecases::directory::Directory;
use crate::usecases::index;
use crate::usecases::index::{IndexPage, KnownIndexes};
use crate::usecases::item_cache::{ItemCache, Shown};
use crate::usecases::meter::{Granted, Incoming};
use crate::usecases::query::cursor::Cursor;
use crate::usecases::query::{PageBudget, Query, QueryPage, read_page};
use crate::usecases::read::Lookup;
use crate::usecases::read_native::native_get;
use crate::usecases::watch::{Beside, REPORTING_TIME, Telemetry, Watch};
use crate::usecases::write::Fate;

/// Reads items and collections.
pub struct Reader {
    directory: Arc<Directory>,
    watch: Watch,
    indexes: KnownIndexes,
    cache: Option<ItemCache>,
}

/// One item, and what finding it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Got {
    /// The item.
    pub item: StoredItem,
    /// The items that were read and paid for, markers included.
    pub items_read: u64,
    /// The read units that DynamoDB reported. A shard that does not have the item takes some, too.
    pub consumed_rcu: f64,
    /// The write units that it reported for moving the item, which a strongly consistent read found
    /// before the mover did.
    pub consumed_wcu: f64,
    /// How long ago the item was so, at most, where items are kept for reads such as this one. `None` of an item as it is now, or
    /// where none are kept.
    pub age: Option<Duration>,
}

impl Reader {
    /// A reader over these stores.
    pub fn new(directory: impl Into<Arc<Directory>>) -> Self {
        let directory = directory.into();
        let watch = Watch::new(None, directory.settings().partition);
        let cache = directory.settings().item_cache.map(ItemCache::new);
        Self { directory, watch, indexes: KnownIndexes::default(), cache }
    }

    /// Reports to `telemetry` what cannot be written into the ledgers.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.watch.report_to(telemetry);
        self
    }

    /// The metadata that the reader works with.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Reads one item. A calculated placement asks one shard; a random one asks all of them.
    ///
    /// While a reshard moves items both homes are read strongly, whatever was asked for. A read that is to be
    /// strongly consistent also moves what it finds at the old home alone (invariant I31). Another one may be shown what was read for
    /// others, where the settings have an `item_cache`.
    pub async fn get(
        &self,
        key: &ItemKey,
        fields: Option<&Fields>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<Got, Error> {
        let cache = self.cache.as_ref().filter(|_| consistency == Consistency::Eventual);
        let (item, cost, age) = match cache {
            None => {
                let (item, cost) = self.look_up(key, fields, consistency, deadline).await?;
                (item, cost, None)
            }
            Some(cache) => {
                // What others are to be shown is the whole item. The future is large, and most are shown what is kept.
                let read = || Box::pin(self.look_up(key, None, consistency, deadline));
                let shown = cache.get(key, self.directory.clock(), deadline, read).await?;
                let Shown { item, cost, age } = shown;
                let item = item.map(|item| match fields {
                    Some(fields) => fields.project(item),
                    None => item,
                });
                (item, cost, Some(age))
            }
        };
        let absent = || Error::new(Code::ItemNotFound, "the item does not exist");
        let (item, Cost { items_read, consumed_rcu, consumed_wcu }) =
            (item.ok_or_else(absent)?, cost);
        Ok(Got { item, items_read, consumed_rcu, consumed_wcu, age })
    }

    /// Looks for an item in the tables.
    async fn look_up(
        &self,
        key: &ItemKey,
        fields: Option<&Fields>,
        consistency: Consistency,
        deadline: Deadline,
    ) -> Result<(Option<StoredItem>, Cost), Error> {
        let lookup = Lookup::new(&self.directory, key, fields, consistency, deadline);
        let lookup = Lookup { is_spread: true, ..lookup };
        self.arrived(&key.partition, Some(key), Access::Get);
        let looked_up = lookup.find().await;
        let granted = looked_up.as_ref().map(|(_, cost)| Granted::to_one(cost.consumed_rcu));
        self.answered(&key.partition, Some(key), Access::Get, granted).await;
        looked_up
    }

    /// Reads one item in DynamoDB's own words.
    pub(crate) async fn native<R: NativeRead>(
        &self,
        key: &ItemKey,
        read: &R,
        deadline: Deadline,
    ) -> Result<NativeGot<R::Answer>, Error> {
        self.arrived(&key.partition, Some(key), Access::Get);
        let got = native_get(&self.directory, key, read, deadline).await;
        let granted = match &got {
            Ok(NativeGot::Read { consumed_rcu, .. }) => Ok(Granted::to_one(*consumed_rcu)),
            Ok(NativeGot::Invalid(_)) => Ok(Granted::to_one(0.0)),
            Err(error) => Err(error),
        };
        self.answered(&key.partition, Some(key), Access::Get, granted).await;
        got
    }

    /// Reads items by their keys, as many as fit `budget`. What DynamoDB leaves unprocessed is asked
    /// for again until the deadline.
    pub async fn batch_get(
        &self,
        keys: Vec<ItemKey>,
        fields: Option<&Fields>,
        consistency: Consistency,
        budget: PageBudget<'_, ItemKey>,
        deadline: Deadline,
    ) -> Result<BatchGot, Error> {
        if keys.len() > MAX_BATCH_GETS {
            let why =
                format!("the batch has {} keys; at most {MAX_BATCH_GETS} are allowed", keys.len());
            return Err(Error::new(Code::BadParameter, why));
        }
        refuse_duplicates(keys.iter())?;
        for key in &keys {
            self.arrived(&key.partition, Some(key), Access::Get);
        }
        let directory = &self.directory;
        let mut keys_of = BTreeMap::<_, u32>::new();
        for key in &keys {
            *keys_of.entry(key.partition.clone()).or_default() += 1;
        }
        let batch = BatchRead { directory, fields, consistency, deadline };
        let (got, refused) = batch.get(keys, budget).await;
        for (key, _) in &got.unprocessed {
            if let Some(read) = keys_of.get_mut(&key.partition) {
                *read = read.saturating_sub(1);
            }
        }
        // DynamoDB says of a batch only what it took as a whole.
        let read = keys_of.values().map(|read| f64::from(*read)).sum::<f64>();
        let answered = async |partition| {
            let operations = f64::from(keys_of[partition]);
            if operations > 0.0 {
                let granted = Granted { operations, units: got.consumed_rcu * operations / read };
                self.answered(partition, None, Access::Get, Ok(granted)).await;
            }
            let throttled = got.unprocessed.iter().filter(|(_, code)| *code == Code::Throttled);
            let throttled = throttled.map(|(key, _)| key).filter(|key| key.partition == *partition);
            let throttled = throttled.collect::<Vec<_>>();
            if !throttled.is_empty() {
                self.answered(partition, throttled, Access::Get, Err(&refused)).await;
            }
        };
        // Side by side, as an answer is held for one report's time at most.
        join_all(keys_of.keys().map(answered)).await;
        Ok(got)
    }

    /// Reads one page. A collection that was never written is an empty page with one shard.
    pub async fn query(
        &self,
        query: &Query,
        budget: PageBudget<'_>,
        deadline: Deadline,
    ) -> Result<QueryPage, Error> {
        let sort_keys = self.directory.settings().schema.sort_key_type;
        query.check(sort_keys)?;
        let cursor = query.cursor.as_deref().map(|text| Cursor::decode(text, query, sort_keys));
        let cursor = cursor.transpose()?.or_else(|| query.start.clone().map(Cursor::Watermark));
        self.arrived(&query.partition, None, Access::Query);
        // It is large, and most callers hold it in a future of their own.
        let page = read_page(&self.directory, query, cursor.as_ref(), budget, deadline);
        let page = Box::pin(page).await;
        let granted = page.as_ref().map(|page| Granted::to_one(page.consumed_rcu));
        self.answered(&query.partition, None, Access::Query, granted).await;
        page
    }

    /// The index of this name, if it can be queried.
    pub async fn index(
        &self,
        name: &str,
        deadline: Deadline,
    ) -> Result<Arc<SecondaryIndex>, Error> {
        let none = || {
            let why = format!("the table has no index {}", quoted(name));
            Error::new(Code::IndexNotFound, why)
        };
        loop {
            if let Some(index) = self.indexes.get(name, self.directory.now()) {
                let index = index.ok_or_else(none)?;
                index.attributes()?;
                return Ok(index);
            }
            let store = self.index_store()?;
            let mut attempts = self.directory.attempts(deadline);
            let why = "DynamoDB did not describe the indexes in time";
            let indexes = attempts.make(|| store.indexes(), why).await?;
            self.indexes.learn(indexes, self.directory.now());
        }
    }

    /// The index of this name, if it is write-sharded, and the stack has such indexes.
    pub async fn write_sharded_index(
        &self,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<SecondaryIndex>>, Error> {
        let lease = self.directory.lease().hold(deadline).await?;
        if lease.index_shards().is_none() {
            return Ok(None);
        }
        match self.index(name, deadline).await {
            Ok(index) => Ok(Some(index).filter(|index| index.is_write_sharded())),
            Err(error) => match error.code() {
                Code::IndexNotFound | Code::IndexNotReady | Code::IndexNotSupported => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Reads one page of an index. `query` names the value of the index's partition key in place of a collection, and has the
    /// conditions on the index's sort key. Its page is in order, whatever the strategy.
    pub async fn query_index(
        &self,
        index: &Arc<SecondaryIndex>,
        query: &Query,
        budget: PageBudget<'_, ItemKey>,
        deadline: Deadline,
    ) -> Result<IndexPage, Error> {
        let store = self.index_store()?;
        // Reads of a global index load the index, and not the collection's partitions.
        let metered = index.is_local.then_some(&query.partition);
        if let Some(partition) = metered {
            self.arrived(partition, None, Access::Query);
        }
        let page = index::read_page(&self.directory, store, index, query, budget, deadline);
        let page = Box::pin(page).await;
        if let Some(partition) = metered {
            let granted = page.as_ref().map(|page| Granted::to_one(page.consumed_rcu));
            self.answered(partition, None, Access::Query, granted).await;
        }
        // It may be for what has become of the index.
        let is_of_another =
            |error: &Error| matches!(error.code(), Code::RequestRejected | Code::CorruptData);
        if page.as_ref().is_err_and(is_of_another) {
            self.indexes.forget();
            self.index(&index.name, deadline).await?;
        }
        page
    }

    fn index_store(&self) -> Result<&dyn IndexStore, Error> {
        let indexes = self.directory.context().world().indexes.as_deref();
        indexes.ok_or_else(|| {
            Error::new(Code::IndexNotFound, "the table's indexes are not known here")
        })
    }

    /// What a counter comes to, by strongly consistent reads of its cells, one after the other: adds that go on meanwhile may count.
    pub async fn counter(&self, key: &ItemKey, deadline: Deadline) -> Result<CounterValue, Error> {
        sum(&self.directory, key, deadline).await
    }

    /// The metadata of a collection, and the job of a running reshard, as they are now: a client that has
    /// just asked for another count is to see it.
    pub async fn collection(
        &self,
        partition: &PartitionKey,
        deadline: Deadline,
    ) -> Result<(CollectionMetadata, Option<Job>), Error> {
        collection(&self.directory, partition, deadline).await
    }

    /// What a collection is asked for, and what was last decided about it: two requests, or three of a
    /// collection that nothing throttles. It takes a second at most.
    pub async fn activity(&self, metadata: &CollectionMetadata, deadline: Deadline) -> Activity {
        activity(&self.directory, metadata, deadline).await
    }

    /// Takes note of a read that somebody else has sent as a part of a batch or a transaction: of so many read units, and what came of
    /// it.
    pub async fn took_part(&self, key: &ItemKey, units: f64, fate: Fate) {
        self.arrived(&key.partition, Some(key), Access::Get);
        let granted = match fate {
            Fate::Done => Ok(Granted::to_one(units)),
            Fate::Refused => return,
            Fate::Cancelled => return self.watch.meter.refused(key, self.directory.now()),
            Fate::Throttled(throttle) => Err(Error::throttled(throttle)),
        };
        let granted = granted.as_ref().map(|granted| *granted);
        self.answered(&key.partition, Some(key), Access::Get, granted).await;
    }

    /// Takes note of a read that comes in.
    fn arrived(&self, partition: &PartitionKey, item: Option<&ItemKey>, access: Access) {
        let incoming = Incoming { partition, item, access, units: None, beside: None };
        self.watch.meter.arrived(incoming, self.directory.now());
    }

    /// Takes note of what came of it, and adds to the ledgers what is due. Only a moment is spent on that. `items` are
    /// those that were asked for by their keys.
    async fn answered(
        &self,
        partition: &PartitionKey,
        items: impl IntoIterator<Item = &ItemKey>,
        access: Access,
        granted: Result<Granted, &Error>,
    ) {
        let (watch, directory) = (&self.watch, &self.directory);
        let now = directory.now();
        let beside = Beside::until(Deadline::after(now, REPORTING_TIME));
        match granted {
            Ok(granted) => watch.meter.granted(partition, access, granted, now),
            Err(error) => {
                let Some(throttle) = error.throttle() else { return };
                for item in items {
                    watch.meter.refused(item, now);
                }
                let shard = error.shards().first().copied().unwrap_or(ShardId::new(0));
                Box::pin(
                    watch.after_throttle(directory, partition, access, shard, throttle, beside),
                )
                .await;
                return;
            }
        }
        if let Some(addition) = watch.load_due(directory, partition) {
            Box::pin(watch.report_load(directory, partition, addition, beside)).await;
        }
    }
}
