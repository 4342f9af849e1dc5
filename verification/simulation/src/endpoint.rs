//! The ports of the use cases, as requests that travel over the simulated network.

use std::time::Duration;

use async_trait::async_trait;
use dynashard_core::ports::{
    Adjusted, BatchPage, Change, CollectionCatalog, Consistency, Dated, ItemStore, List, ListPage,
    Listed, Metered, Record, RecordKey, RecordStore, ShardPage, ShardQuery, StoreError, Transfer,
    Transferred, Write,
};
use dynashard_core::{
    Addition, Adjustment, Fields, Group, Lease, Ledger, LedgerKind, Owner, StoredItem,
};
use dynashard_keys::{PartitionKey, PhysicalKey};

use crate::environment::START_SECS;
use crate::kernel::Kernel;
use crate::network::{Endpoint, Execute, Kind};
use crate::scenario::Mutation;
use crate::tables::Tables;

/// An executed-at-once request.
pub(crate) fn at_once<T>(
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

    async fn adjust(
        &self,
        adjustments: &[Adjustment],
        lease: Lease,
    ) -> Result<Adjusted, StoreError> {
        let name = || format!("adjust {adjustments:?}");
        let within = self.terms().visible_within;
        let mut adjustments = adjustments.to_vec();
        if self.terms().broken == Some(Mutation::UncheckedRoom) {
            for adjustment in &mut adjustments {
                adjustment.change.at_least.clear();
            }
        }
        let execute = at_once(move |tables, kernel, now| {
            let visible = Self::visibility(kernel, now, within);
            tables.adjust(&adjustments, visible, now)
        });
        Ok(self.call(name, Kind::Write(Some(lease)), execute).await?.value)
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
        let lag = match query.replica {
            None => self.lag(query.consistency),
            Some(_) => self.lag_of_read_replica(),
        };
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

    async fn owner(&self) -> Result<Option<Owner>, StoreError> {
        let get = at_once(move |tables, _, _| Ok(tables.owner.clone()));
        Ok(self.call(|| "get the owner".to_owned(), Kind::Read, get).await?.value)
    }

    async fn claim(&self, owner: &Owner) -> Result<(), StoreError> {
        let owner = owner.clone();
        let claim = at_once(move |tables, _, _| tables.claim(&owner));
        self.call(|| "claim the main table".to_owned(), Kind::Write(None), claim).await?;
        Ok(())
    }

    // The simulated table has no index.
    async fn takes_date(&self, date_secs: u64) -> Result<bool, StoreError> {
        let window = self.terms().executed_within;
        let name = || format!("a write dated {date_secs}");
        let take = at_once(move |_, _, now| {
            let now = Duration::from_secs(START_SECS) + now;
            Ok(now <= Duration::from_secs(date_secs) + window)
        });
        self.call(name, Kind::Write(None), take).await.map(|answer| answer.value)
    }

    async fn locally_indexed_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}

#[async_trait]
impl RecordStore for Endpoint {
    fn table(&self) -> &'static str {
        "metadata"
    }

    async fn read(&self, key: &RecordKey) -> Result<Dated<Option<Record>>, StoreError> {
        let name = || format!("read {key}");
        let key = key.clone();
        let read = at_once(move |tables, _, now| Ok(tables.record(&key, now)));
        self.call(name, Kind::Read, read).await
    }

    async fn commit(&self, changes: &[Change]) -> Result<Dated<()>, StoreError> {
        let name = || format!("commit {changes:?}");
        let within = self.terms().visible_within;
        let changes = changes.to_vec();
        let commit = at_once(move |tables, kernel, now| {
            // Only what enlists a collection is read in two steps, and so seen in part.
            let enlists =
                changes.len() > 1 && changes.iter().any(|change| change.key.is_of_directory());
            let visible = if enlists { Self::visibility(kernel, now, within) } else { [now; 2] };
            let changes_metadata = |change: &Change| matches!(change.key, RecordKey::Collection(_));
            let indexed_at =
                if changes.iter().any(changes_metadata) { now + index_lag(kernel) } else { now };
            tables.commit(&changes, visible, indexed_at, now)
        });
        self.call(name, Kind::Write(None), commit).await
    }

    async fn add(
        &self,
        partition: &PartitionKey,
        kind: LedgerKind,
        addition: &Addition,
    ) -> Result<Dated<Ledger>, StoreError> {
        let name = || format!("add to the {kind:?} of {partition}");
        let (partition, addition) = (partition.clone(), addition.clone());
        let add = at_once(move |tables, _, _| Ok(tables.records.add(&partition, kind, &addition)));
        self.call(name, Kind::Write(None), add).await
    }

    async fn raise(&self, groups: &[Group]) -> Result<Dated<()>, StoreError> {
        let groups = groups.to_vec();
        let name = || {
            let names = groups.iter().map(Group::to_string).collect::<Vec<_>>();
            format!("raise the counts of {}", names.join(" and "))
        };
        let raise = {
            let groups = groups.clone();
            at_once(move |tables, _, _| tables.records.raise(&groups))
        };
        self.call(name, Kind::Write(None), raise).await
    }

    async fn list(&self, list: List, after: Option<&str>) -> Result<ListPage<Listed>, StoreError> {
        let name = || format!("query the list {list:?} after {after:?}");
        let after = after.map(str::to_owned);
        let query = at_once(move |tables, kernel, now| {
            let most = kernel.draw(|random| random.index(3)) + 1;
            Ok(tables.list(list, after.as_deref(), most, now))
        });
        Ok(self.call(name, Kind::Read, query).await?.value)
    }
}

#[async_trait]
impl CollectionCatalog for Endpoint {
    async fn collections(&self, after: Option<&str>) -> Result<ListPage<PartitionKey>, StoreError> {
        let name = || format!("scan the metadata after {after:?}");
        let after = after.map(str::to_owned);
        let scan = at_once(move |tables, kernel, now| {
            let most = kernel.draw(|random| random.index(3)) + 1;
            Ok(tables.collections(after.as_deref(), most, now))
        });
        Ok(self.call(name, Kind::Read, scan).await?.value)
    }
}

/// How long the index takes to show a change.
fn index_lag(kernel: &Kernel) -> Duration {
    kernel.draw(|random| random.any_scale(Duration::from_secs(2)))
}
