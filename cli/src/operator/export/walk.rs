//! The items of collections, each collection once and in order.

use std::collections::HashSet;

use dynashard_aws::OsEntropy;
use dynashard_core::ports::{CollectionCatalog, Consistency, Entropy};
use dynashard_core::query::{MAX_LIMIT, MAX_PAGE_BYTES, PageBudget, Query};
use dynashard_core::{AttributeValue, Attributes, Reader, StoredItem};
use dynashard_keys::{PartitionKey, PhysicalPartitionKey, SortKey};
use futures_util::TryStreamExt;
use xxhash_rust::xxh64::xxh64;

use crate::operator::connect::{Connection, deadline};
use crate::operator::patience::{ask_patiently, patiently};
use crate::operator::scan::{ReadRate, TableScan, all_segments, key_attributes};
use crate::operator::{Failure, Stopped};
use crate::signals::TerminationSignals;

/// How far a walk has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Those that were read to their end.
    pub(super) collections: u64,
    pub(super) items: u64,
    /// The one that is being read, and its last sort key.
    pub(super) present: Option<(PartitionKey, Option<SortKey>)>,
    /// Keys in the table that are not those of collections.
    pub(super) foreign: u64,
    /// Items in the table that are cells of counters.
    pub(super) cells: u64,
    pub(super) consumed_rcu: f64,
}

/// Reads collections.
pub(super) struct Walk<'a> {
    pub(super) connection: &'a Connection,
    pub(super) reader: Reader,
    /// These collections, or all where none is named.
    pub(super) partitions: &'a [PartitionKey],
    pub(super) consistency: Consistency,
    /// Of the scan and of the queries together.
    pub(super) rate: ReadRate,
    pub(super) signals: &'a mut TerminationSignals,
    pub(super) progress: &'a mut Progress,
}

/// Is given each item with its key, and how far the walk has come before it.
pub(super) type Take<'a> = dyn FnMut(Attributes, &Progress) -> Result<(), Failure> + 'a;

impl Walk<'_> {
    /// Goes through the collections, and gives each item to `take`.
    pub(super) async fn run(&mut self, take: &mut Take<'_>) -> Result<(), Stopped> {
        if self.partitions.is_empty() {
            return self.all(take).await;
        }
        for partition in once_each(self.partitions) {
            self.collection(partition, take).await?;
        }
        Ok(())
    }

    /// Finds the collections by a scan, and reads each when its first item or marker shows. A hash of 16 bytes of each
    /// is kept. Items of a collection that is resharded meanwhile may all go to where the scan has been, so those are added that
    /// have metadata at its end.
    async fn all(&mut self, take: &mut Take<'_>) -> Result<(), Stopped> {
        let seeds = [OsEntropy.next_u64(), OsEntropy.next_u64()];
        let hash =
            |partition: &PartitionKey| seeds.map(|seed| xxh64(partition.as_str().as_bytes(), seed));
        let mut seen = HashSet::new();
        let is_strong = self.consistency == Consistency::Strong;
        let schema = self.connection.schema();
        let scan = TableScan::new(
            &self.connection.place.operator,
            &self.connection.place.main_table,
            self.rate.clone(),
        );
        let mut pages = scan.pages(all_segments(1).collect(), is_strong);
        loop {
            let page = tokio::select! {
                page = pages.try_next() => page?,
                () = self.signals.received() => return Err(Stopped::Interrupted),
            };
            let Some((_, page)) = page else { break };
            self.progress.consumed_rcu += page.consumed_rcu;
            self.progress.cells += u64::try_from(page.cells.len()).unwrap_or(u64::MAX);
            for item in &page.items {
                let Some(AttributeValue::String(text)) = item.get(&schema.partition_key_name)
                else {
                    continue;
                };
                let Ok((partition, _)) = PhysicalPartitionKey::parse(text, schema.separator) else {
                    self.progress.foreign += 1;
                    continue;
                };
                if seen.insert(hash(&partition)) {
                    self.some_of(&partition, take).await?;
                }
            }
        }
        let sharded = tokio::select! {
            sharded = sharded(self.connection) => sharded?,
            () = self.signals.received() => return Err(Stopped::Interrupted),
        };
        for partition in sharded {
            if seen.insert(hash(&partition)) {
                self.some_of(&partition, take).await?;
            }
        }
        Ok(())
    }

    /// Reads a collection that may be empty, and does not count then.
    async fn some_of(
        &mut self,
        partition: &PartitionKey,
        take: &mut Take<'_>,
    ) -> Result<(), Stopped> {
        let Progress { collections, items, .. } = *self.progress;
        self.collection(partition, take).await?;
        if self.progress.items == items {
            self.progress.collections = collections;
        }
        Ok(())
    }

    async fn collection(
        &mut self,
        partition: &PartitionKey,
        take: &mut Take<'_>,
    ) -> Result<(), Stopped> {
        let mut query = Query {
            limit: MAX_LIMIT,
            consistency: self.consistency,
            ..Query::all(partition.clone())
        };
        self.progress.present = Some((partition.clone(), None));
        let schema = self.connection.schema();
        let measure = |_: &SortKey, item: &StoredItem| {
            let values = item.attributes.iter();
            values.map(|(name, value)| name.len() + value.stored_bytes()).sum()
        };
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
        loop {
            let paid = async {
                let expected = self.rate.wait().await;
                // A page gives up after seconds, and whoever began again would pay for everything again.
                let ask = async || {
                    let by = deadline(self.reader.directory());
                    Box::pin(self.reader.query(&query, budget, by)).await
                };
                let page = ask_patiently(ask).await?;
                self.rate.paid(expected, page.consumed_rcu);
                Ok::<_, Failure>(page)
            };
            let page = tokio::select! {
                page = paid => page?,
                () = self.signals.received() => return Err(Stopped::Interrupted),
            };
            self.progress.consumed_rcu += page.consumed_rcu;
            for (sort, item) in page.items {
                let mut attributes = item.attributes;
                attributes.extend(key_attributes(partition.to_string(), &sort, schema));
                take(attributes, self.progress)?;
                self.progress.items += 1;
                self.progress.present = Some((partition.clone(), Some(sort)));
            }
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                self.progress.collections += 1;
                self.progress.present = None;
                return Ok(());
            }
        }
    }
}

/// The collections that have metadata.
async fn sharded(connection: &Connection) -> Result<Vec<PartitionKey>, Failure> {
    let (catalog, mut found, mut after) = (connection.catalog(), Vec::new(), None);
    loop {
        let page = patiently(async || catalog.collections(after.as_deref()).await).await?;
        found.extend(page.entries);
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Each in the order in which it is named first.
fn once_each(partitions: &[PartitionKey]) -> impl Iterator<Item = &PartitionKey> {
    let mut seen = HashSet::new();
    partitions.iter().filter(move |partition| seen.insert(*partition))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A collection that was named twice was written twice.
    #[test]
    fn regression_a_collection_was_written_as_often_as_it_was_named() {
        let keys = ["b", "a", "b", "b"].map(|name| PartitionKey::new(name).expect("a key"));
        let names = once_each(&keys).map(PartitionKey::as_str).collect::<Vec<_>>();
        assert_eq!(names, ["b", "a"]);
    }
}
