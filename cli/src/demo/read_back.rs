//! Reads everything back, and compares it with what was offered.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_aws::{DynamoItemStore, DynamoRecordStore};
use dynashard_core::ports::{Consistency, ItemStore, ReadRecords, ShardQuery, SortRange};
use dynashard_core::query::MAX_LIMIT;
use dynashard_core::{CollectionMetadata, TableSchema};
use dynashard_keys::{PartitionKey, Placement};
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use super::DemoError;
use super::flights::{Airport, Flight};
use super::load::Run;
use super::target::{Page, Target};
use super::view::View;
use crate::clock::Stopwatch;

/// Differences that are shown of each collection.
const SHOWN_DIFFERENCES: usize = 5;

/// How often a page is asked for, and how long the pause between is.
const MOST_ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// What reading everything back brought.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ReadBack {
    /// Whether items of a collection were being moved when it began.
    pub(super) while_moving: bool,
    /// How long it took.
    pub(super) secs: f64,
    /// Pages that were read.
    pub(super) pages: u64,
    /// Items that DynamoDB read for them, as the API reports them; an endpoint does not tell.
    pub(super) items_read: Option<u64>,
    /// Pages that were asked for again, because the target said that it could not answer now.
    pub(super) retried: u64,
    /// What is not as it was offered, the first few of each collection.
    pub(super) differences: Vec<String>,
}

impl ReadBack {
    /// Reads everything back and compares it.
    pub(super) async fn of(
        run: &Run<'_>,
        flights: &[usize],
        view: &mut View,
    ) -> Result<Self, DemoError> {
        let watch = Stopwatch::start();
        let mut read = Self { while_moving: !run.watched.is_stable(), ..Self::default() };
        view.reading(flights.iter().sum());
        for (airport, flights) in run.airports.iter().zip(flights) {
            read.collection(run.target, airport, *flights, view).await?;
        }
        read.secs = watch.elapsed().as_secs_f64();
        Ok(read)
    }

    /// Reads a collection page by page, in order, and compares it with an airport's first flights.
    async fn collection(
        &mut self,
        target: &Target,
        airport: &Airport,
        flights: usize,
        view: &mut View,
    ) -> Result<(), DemoError> {
        let mut comparison = Comparison::new((0..flights).map(|number| airport.flight(number)));
        let mut start = None;
        loop {
            let page = self.page(target, &airport.code, start.as_ref()).await?;
            self.pages += 1;
            if let Some(items_read) = page.items_read {
                *self.items_read.get_or_insert(0) += items_read;
            }
            for item in &page.items {
                comparison.came_back(item);
            }
            view.read(page.items.len());
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        self.note(&airport.code, comparison.end());
        Ok(())
    }

    /// One page. A machine at its limit may not answer in time, and the target asks to be asked again.
    async fn page(
        &mut self,
        target: &Target,
        airport: &str,
        start: Option<&Value>,
    ) -> Result<Page, DemoError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match target.page(airport, start).await {
                Err(DemoError::Http(error)) if error.is_busy() && attempts < MOST_ATTEMPTS => {
                    self.retried += 1;
                    sleep(PAUSE).await;
                }
                page => return page,
            }
        }
    }

    fn note(&mut self, code: &str, differences: Vec<String>) {
        let hidden = differences.len().saturating_sub(SHOWN_DIFFERENCES);
        let shown = differences.into_iter().take(SHOWN_DIFFERENCES);
        self.differences.extend(shown.map(|difference| format!("{code}: {difference}")));
        if hidden > 0 {
            self.differences.push(format!("{code}: and {hidden} more"));
        }
    }
}

/// Compares items as they come back with the flights that are expected, both by sort key.
struct Comparison<I: Iterator<Item = Flight>> {
    expected: std::iter::Peekable<I>,
    differences: Vec<String>,
}

impl<I: Iterator<Item = Flight>> Comparison<I> {
    fn new(expected: I) -> Self {
        Self { expected: expected.peekable(), differences: Vec::new() }
    }

    fn came_back(&mut self, item: &Value) {
        let sk = item["sk"].as_str().unwrap_or_default();
        while let Some(missing) = self.expected.next_if(|flight| flight.sk.as_str() < sk) {
            self.differences.push(format!("{} did not come back", missing.sk));
        }
        match self.expected.next_if(|flight| flight.sk == sk) {
            Some(flight) if item.as_object() == Some(&flight.item) => {}
            Some(_) => self.differences.push(format!("{sk} came back changed")),
            None => {
                self.differences
                    .push(format!("{sk} came back twice, out of order, or was never written"));
            }
        }
    }

    fn end(mut self) -> Vec<String> {
        let missing = self.expected.map(|flight| format!("{} did not come back", flight.sk));
        self.differences.extend(missing);
        self.differences
    }
}

/// Counts the live items of each shard, by asking DynamoDB itself and not the API. The markers that
/// moved items leave do not count.
pub(super) async fn count_shards(
    items: &DynamoItemStore,
    metadata: &DynamoRecordStore,
    schema: &TableSchema,
    partition: &PartitionKey,
) -> Result<BTreeMap<u32, u64>, DemoError> {
    let collection =
        metadata.get::<CollectionMetadata>(partition).await.map_err(DemoError::Store)?.value;
    let cold = || CollectionMetadata::cold(partition.clone(), Placement::default());
    let collection = collection.unwrap_or_else(cold);
    let mut counts = BTreeMap::new();
    for shard in collection.placement.shards(collection.widest()) {
        let mut query = ShardQuery {
            partition: partition.at(shard, collection.placement, schema.separator),
            range: SortRange::All,
            ascending: true,
            after: None,
            limit: MAX_LIMIT,
            fields: None,
            consistency: Consistency::Strong,
            replica: None,
        };
        let mut live = 0;
        loop {
            let page = items.query(&query).await.map_err(DemoError::Store)?;
            let found = page.items.iter().filter(|(_, item)| item.is_live()).count();
            live += u64::try_from(found).unwrap_or(0);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        counts.insert(shard.get(), live);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flight(sk: &str) -> Flight {
        let item = json!({ "sk": sk, "dest": "ORD" }).as_object().cloned().unwrap_or_default();
        Flight { sk: sk.to_owned(), item }
    }

    fn differences(came_back: &[Value]) -> Vec<String> {
        let mut comparison = Comparison::new(["a", "b", "c"].into_iter().map(flight));
        for item in came_back {
            comparison.came_back(item);
        }
        comparison.end()
    }

    #[test]
    fn every_kind_of_difference_is_found_and_spoils_no_other() {
        let item = |sk: &str| json!({ "sk": sk, "dest": "ORD" });
        assert_eq!(differences(&[item("a"), item("b"), item("c")]), [""; 0]);
        assert_eq!(differences(&[item("a"), item("c")]), ["b did not come back"]);
        assert_eq!(differences(&[item("a"), item("b")]), ["c did not come back"]);
        let twice = differences(&[item("a"), item("a"), item("b"), item("c")]);
        assert_eq!(twice, ["a came back twice, out of order, or was never written"]);
        let changed = differences(&[item("a"), json!({ "sk": "b", "dest": "MIA" }), item("c")]);
        assert_eq!(changed, ["b came back changed"]);
        let swapped = differences(&[item("b"), item("a"), item("c")]);
        assert_eq!(
            swapped,
            ["a did not come back", "a came back twice, out of order, or was never written"]
        );
    }
}
