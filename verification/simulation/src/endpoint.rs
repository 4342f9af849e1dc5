//! The ports of the use cases, as requests that travel over the simulated network.

use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    BatchPage, CollectionsPage, Consistency, Dated, ItemStore, MetadataStore, Metered, ShardPage,
    ShardQuery, StoreError, Transfer, Transferred, Write,
};
use dynashard_core::{
    Addition, CollectionMetadata, DecisionHistory, DecisionsPage, DirectoryItem, Fields, Grant,
    Job, Ledger, LedgerKind, Owner, StoredItem,
};
use dynashard_keys::{PartitionKey, PhysicalKey};

use crate::kernel::Kernel;
use crate::network::{Endpoint, Execute, Kind};
use crate::scenario::Mutation;
use crate::tables::Tables;

/// An executed-at-once request.
fn at_once<T>(
    mut execute: impl FnMut(&mut Tables, &Kernel, Duration) -> Result<T, StoreError> + Send,
) -> impl Execute<T> {
    move |tables: &mut Tables, kernel: &Kernel, now: Duration| Some(execute(tables, kernel, now))
}

#[async_trait]
impl ItemStore for Endpoint {
    async fn get(
        &self,
        key: &PhysicalKey,
        _: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<Metered<Option<StoredItem>>, StoreError> {
        let name = || format!("get {key:?} {consistency:?}");
        let key = key.clone();
        let lag = self.lag(consistency);
        let get = at_once(move |tables, _, now| Ok(tables.get(&key, now.saturating_sub(lag))));
        let value = self.call(name, Kind::Read, get).await?.value;
        Ok(Metered { value, consumed_rcu: 1.0 })
    }

    async fn write(&self, write: &Write) -> Result<f64, StoreError> {
        let name = || format!("write {:?} {:?} {:?}", write.key, write.action, write.condition);
        let lease = Some(write.lease);
        let write = write.clone();
        let retries = self.terms().broken == Some(Mutation::StoreRetries);
        let execute = at_once(move |tables, kernel, now| {
            let first = tables.write(&write, now);
            let again = retries && kernel.draw(|random| random.chance(200_000));
            if again { tables.write(&write, now) } else { first }
        });
        self.call(name, Kind::Write(lease), execute).await.map(|answer| answer.value)
    }

    async fn get_both(
        &self,
        keys: [&PhysicalKey; 2],
        _: Option<&Fields>,
    ) -> Result<Metered<[Option<StoredItem>; 2]>, StoreError> {
        let name = || format!("get both {keys:?}");
        let keys = keys.map(PhysicalKey::clone);
        let get = at_once(move |tables, _, now| tables.get_both(&keys, now));
        let value = self.call(name, Kind::TransactRead, get).await?.value;
        Ok(Metered { value, consumed_rcu: 4.0 })
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<Transferred, StoreError> {
        let name = || format!("transfer {transfer:?}");
        let lease = Some(transfer.lease);
        let within = self.terms().visible_within;
        let transfer = transfer.clone();
        let execute = at_once(move |tables, kernel, now| {
            let visible = Self::visibility(kernel, now, within);
            tables.transfer(&transfer, visible, now)
        });
        Ok(self.call(name, Kind::Write(lease), execute).await?.value)
    }

    async fn batch_get(
        &self,
        keys: &[PhysicalKey],
        _: Option<&Fields>,
        consistency: Consistency,
    ) -> Result<BatchPage, StoreError> {
        let name = || format!("batch get {keys:?} {consistency:?}");
        let keys = keys.to_vec();
        let lag = self.lag(consistency);
        let execute = at_once(move |tables, kernel, now| {
            let processed = kernel.draw(|random| {
                if random.chance(200_000) { random.index(keys.len()) + 1 } else { keys.len() }
            });
            tables.batch_get(&keys, processed, now.saturating_sub(lag))
        });
        Ok(self.call(name, Kind::Read, execute).await?.value)
    }

    /// A page is not a snapshot: it may be read in two parts, at two moments.
    async fn query(&self, query: &ShardQuery) -> Result<ShardPage, StoreError> {
        let name = || format!("query {query:?}");
        let query = query.clone();
        let lag = self.lag(query.consistency);
        let mut read: Option<ShardPage> = None;
        let execute =
            move |tables: &mut Tables, kernel: &Kernel, now: Duration| {
                let most = kernel.draw(|random| {
                    if random.chance(500_000) { random.index(4) + 1 } else { usize::MAX }
                });
                let (query, first) = match read.take() {
                    None => (query.clone(), None),
                    Some(first) => {
                        let rest = query
                            .limit
                            .saturating_sub(u32::try_from(first.items.len()).unwrap_or(0));
                        if rest == 0 || first.next.is_none() {
                            return Some(Ok(first));
                        }
                        (
                            ShardQuery { after: first.next.clone(), limit: rest, ..query.clone() },
                            Some(first),
                        )
                    }
                };
                let page = match tables.query(&query, most, now.saturating_sub(lag)) {
                    Ok(page) => page,
                    Err(error) => return Some(Err(error)),
                };
                match first {
                    None if kernel.draw(|random| random.chance(300_000)) => {
                        read = Some(page);
                        None
                    }
                    None => Some(Ok(page)),
                    Some(mut whole) => {
                        whole.items.extend(page.items);
                        whole.items_read += page.items_read;
                        whole.next = page.next;
                        Some(Ok(whole))
                    }
                }
            };
        Ok(self.call(name, Kind::Read, execute).await?.value)
    }
}

#[async_trait]
impl MetadataStore for Endpoint {
    async fn get(
        &self,
        partition: &PartitionKey,
    ) -> Result<Dated<Option<CollectionMetadata>>, StoreError> {
        let name = || format!("get metadata {partition}");
        let partition = partition.clone();
        let get = at_once(move |tables, _, now| Ok(tables.metadata_of(&partition, now)));
        self.call(name, Kind::Read, get).await
    }

    async fn directory(&self) -> Result<Dated<Option<DirectoryItem>>, StoreError> {
        let get = at_once(move |tables, _, now| Ok(tables.directory(now)));
        self.call(|| "get the directory".to_owned(), Kind::Read, get).await
    }

    async fn save_directory(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
    ) -> Result<Dated<()>, StoreError> {
        let name = || format!("save the directory with {:?}", next.pinned);
        let change = (seen.rev, next.clone());
        let save = at_once(move |tables, _, now| tables.save_directory(change.clone(), now));
        self.call(name, Kind::Write(None), save).await
    }

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        let get = at_once(move |tables, _, _| Ok(tables.owner.clone()));
        Ok(self.call(|| "get the owner".to_owned(), Kind::Read, get).await?.value)
    }

    async fn claim(&self, stack_id: &str) -> Result<(), StoreError> {
        let stack_id = stack_id.to_owned();
        let claim = at_once(move |tables, _, _| tables.claim(&stack_id));
        self.call(|| "claim the main table".to_owned(), Kind::Write(None), claim).await?;
        Ok(())
    }

    // The simulated table has no index.
    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn enlist(
        &self,
        seen: &DirectoryItem,
        next: &DirectoryItem,
        metadata: &CollectionMetadata,
        job: Option<&Job>,
    ) -> Result<Dated<()>, StoreError> {
        let name = || format!("enlist {metadata:?}");
        let within = self.terms().visible_within;
        let (seen, next) = (seen.rev, next.clone());
        let (metadata, job) = (metadata.clone(), job.cloned());
        let enlist = at_once(move |tables, kernel, now| {
            let visible = Self::visibility(kernel, now, within);
            let listed = (seen, next.clone());
            tables.enlist(listed, &metadata, job.as_ref(), visible, now + index_lag(kernel), now)
        });
        self.call(name, Kind::Write(None), enlist).await
    }

    async fn count_enlisting(&self, grant: &Grant, hash: u64) -> Result<(), StoreError> {
        let name = || format!("count {hash} to {grant:?}");
        let grant = grant.clone();
        let count = at_once(move |tables, _, _| tables.count_enlisting(&grant, hash));
        self.call(name, Kind::Write(None), count).await?;
        Ok(())
    }

    async fn update(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
    ) -> Result<Dated<()>, StoreError> {
        let name = || format!("update metadata to {next:?}");
        let (seen, next) = (seen.clone(), next.clone());
        let update = at_once(move |tables, kernel, now| {
            tables.update(&seen, &next, now + index_lag(kernel), now)
        });
        self.call(name, Kind::Write(None), update).await
    }

    async fn job(&self, partition: &PartitionKey) -> Result<Dated<Option<Job>>, StoreError> {
        let name = || format!("get job {partition}");
        let partition = partition.clone();
        let get = at_once(move |tables, _, now| Ok(tables.job_of(&partition, now)));
        self.call(name, Kind::Read, get).await
    }

    async fn begin(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: Option<&Job>,
        job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let name = || format!("begin {next:?}");
        let (seen, next) = (seen.clone(), next.clone());
        let (seen_job, job) = (seen_job.cloned(), job.clone());
        let begin = at_once(move |tables, kernel, now| {
            let indexed_at = now + index_lag(kernel);
            tables.begin(&seen, &next, seen_job.as_ref(), &job, indexed_at, now)
        });
        self.call(name, Kind::Write(None), begin).await
    }

    async fn save_job(&self, seen: &Job, next: &Job) -> Result<Dated<()>, StoreError> {
        let name = || format!("save job {next:?}");
        let (seen, next) = (seen.clone(), next.clone());
        let save = at_once(move |tables, _, now| tables.save_job(&seen, &next, now));
        self.call(name, Kind::Write(None), save).await
    }

    async fn call_lane(
        &self,
        partition: &PartitionKey,
        lane: u32,
        _call: u64,
    ) -> Result<(), StoreError> {
        let name = || format!("call lane {lane} of {partition:?}");
        let partition = partition.clone();
        let call = at_once(move |tables, _, _| {
            tables.call_lane(&partition, lane);
            Ok(())
        });
        self.call(name, Kind::Write(None), call).await.map(|dated| dated.value)
    }

    async fn remove_lane(&self, partition: &PartitionKey, lane: u32) -> Result<(), StoreError> {
        let name = || format!("remove lane {lane} of {partition:?}");
        let partition = partition.clone();
        let remove = at_once(move |tables, _, _| {
            tables.remove_lane(&partition, lane);
            Ok(())
        });
        self.call(name, Kind::Write(None), remove).await.map(|dated| dated.value)
    }

    async fn finish(
        &self,
        seen: &CollectionMetadata,
        next: &CollectionMetadata,
        seen_job: &Job,
    ) -> Result<Dated<()>, StoreError> {
        let name = || format!("finish {next:?}");
        let (seen, next, seen_job) = (seen.clone(), next.clone(), seen_job.clone());
        let finish = at_once(move |tables, kernel, now| {
            let indexed_at = now + index_lag(kernel);
            tables.finish(&seen, &next, &seen_job, indexed_at, now)
        });
        self.call(name, Kind::Write(None), finish).await
    }

    async fn resharding(&self, after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        let name = || format!("query the index after {after:?}");
        let after = after.map(str::to_owned);
        let query = at_once(move |tables, kernel, now| {
            let most = kernel.draw(|random| random.index(3)) + 1;
            Ok(tables.resharding(after.as_deref(), most, now))
        });
        Ok(self.call(name, Kind::Read, query).await?.value)
    }

    async fn grown(&self, _after: Option<&str>) -> Result<CollectionsPage, StoreError> {
        Ok(CollectionsPage::default())
    }

    async fn ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
    ) -> Result<Dated<Ledger>, StoreError> {
        let name = || format!("get the {kind:?} of {partition}");
        let key = (partition.clone(), kind);
        let get =
            at_once(move |tables, _, _| Ok(tables.ledgers.get(&key).cloned().unwrap_or_default()));
        self.call(name, Kind::Read, get).await
    }

    async fn add_to_ledger(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let name = || format!("add to the {kind:?} of {partition}");
        let (key, addition) = ((partition.clone(), kind), addition.clone());
        let add = at_once(move |tables, _, _| {
            let ledger = tables.ledgers.entry(key.clone()).or_default();
            ledger.apply(&addition);
            Ok(ledger.clone())
        });
        self.call(name, Kind::Write(None), add).await
    }

    async fn decisions(&self, partition: &PartitionKey) -> Result<DecisionHistory, StoreError> {
        let name = || format!("get the decisions about {partition}");
        let key = partition.clone();
        let get = at_once(move |tables, _, _| {
            Ok(tables.decisions.get(&key).cloned().unwrap_or_default())
        });
        Ok(self.call(name, Kind::Read, get).await?.value)
    }

    async fn save_decisions(
        &self,
        partition: &PartitionKey,
        seen: &DecisionHistory,
        next: &DecisionHistory,
    ) -> Result<(), StoreError> {
        let name = || format!("save the decisions about {partition}");
        let (key, seen, next) = (partition.clone(), seen.rev, next.clone());
        let save = at_once(move |tables, _, _| {
            let history = tables.decisions.entry(key.clone()).or_default();
            if history.rev != seen {
                return Err(StoreError::ConditionFailed { existing: None });
            }
            history.clone_from(&next);
            Ok(())
        });
        self.call(name, Kind::Write(None), save).await.map(|dated| dated.value)
    }

    async fn all_decisions(&self, _after: Option<&str>) -> Result<DecisionsPage, StoreError> {
        Ok(DecisionsPage::default())
    }
}

/// How long the index takes to show a change.
fn index_lag(kernel: &Kernel) -> Duration {
    kernel.draw(|random| random.any_scale(Duration::from_secs(2)))
}
