//! Reads a table page by page, at a bounded rate.

use std::num::NonZeroU32;
use std::sync::Arc;

use dynashard_aws_operator::{Operator, ScanPage, ScanSegment};
use dynashard_core::{AttributeValue, Attributes, TableSchema};
use dynashard_keys::SortKey;
use parking_lot::Mutex;

use futures_util::stream::{self, Stream};

use super::Failure;
use super::budget::Budget;
use super::patience::Patience;
use crate::clock::Stopwatch;

/// How much a page takes at most, in read units: 1 MB, eventually consistent.
const MOST_PAGE_RCU: f64 = 128.0;

/// A table whose segments are scanned with one budget.
#[derive(Debug, Clone)]
pub(super) struct TableScan {
    operator: Operator,
    table: String,
    rate: ReadRate,
}

/// A segment, and the key behind which it begins: none for all of it.
pub(super) type Begin = (ScanSegment, Option<Attributes>);

/// All segments of a table that is divided into so many, from their beginnings.
pub(super) fn all_segments(of: u32) -> impl Iterator<Item = Begin> {
    (0..of).map(move |number| (ScanSegment { number, of }, None))
}

/// A key as the attributes that a table has for it.
pub(super) fn key_attributes(
    partition: String,
    sort: &SortKey,
    schema: &TableSchema,
) -> Attributes {
    let sort = AttributeValue::from(sort);
    let partition = AttributeValue::String(partition);
    let names = [&schema.partition_key_name, &schema.sort_key_name].map(String::clone);
    names.into_iter().zip([partition, sort]).collect()
}

/// How many read units a second a command may consume, on average: pages that are read at once are paid for afterwards.
/// Without a meter they are read as fast as they are answered.
#[derive(Debug, Clone)]
pub(super) struct ReadRate(Option<Arc<Mutex<Meter>>>);

#[derive(Debug)]
struct Meter {
    clock: Stopwatch,
    budget: Budget,
    /// What a page is expected to take, in read units: as much as the last one.
    page_rcu: f64,
}

impl ReadRate {
    pub(super) fn new(read_units: Option<NonZeroU32>) -> Self {
        Self(read_units.map(|read_units| {
            let clock = Stopwatch::start();
            let budget = Budget::new(read_units.get(), clock.elapsed());
            Arc::new(Mutex::new(Meter { clock, budget, page_rcu: MOST_PAGE_RCU }))
        }))
    }

    /// Waits until the next page is paid for, and says what it is expected to take.
    pub(super) async fn wait(&self) -> f64 {
        let Some(meter) = &self.0 else { return 0.0 };
        let (expected, wait) = {
            let mut meter = meter.lock();
            let (expected, now) = (meter.page_rcu, meter.clock.elapsed());
            (expected, meter.budget.take(expected, now))
        };
        tokio::time::sleep(wait).await;
        expected
    }

    /// Takes note of what a page took.
    pub(super) fn paid(&self, expected: f64, consumed: f64) {
        let Some(meter) = &self.0 else { return };
        let mut meter = meter.lock();
        meter.budget.correct(expected, consumed);
        meter.page_rcu = consumed;
    }
}

impl TableScan {
    /// The table, to be read at this rate, or as fast as it answers.
    pub(super) fn new(operator: &Operator, table: &str, rate: ReadRate) -> Self {
        Self { operator: operator.clone(), table: table.to_owned(), rate }
    }

    /// This scan, where about so many bytes of each segment are known.
    pub(super) fn with_segments_of(self, bytes: f64) -> Self {
        if let Some(meter) = &self.rate.0 {
            meter.lock().page_rcu = (bytes / 8_192.0).clamp(1.0, MOST_PAGE_RCU);
        }
        self
    }

    /// The pages of segments side by side, each segment from its beginning to its end. Each has a page in memory.
    pub(super) fn pages(
        &self,
        begins: Vec<Begin>,
        is_strong: bool,
    ) -> impl Stream<Item = Result<(ScanSegment, ScanPage), Failure>> + Unpin + '_ {
        let segments = begins.into_iter().map(|(segment, after)| {
            let next = move |after: Option<Option<Attributes>>| async move {
                let Some(after) = after else { return Ok(None) };
                let page = self.page(segment, after.as_ref(), is_strong).await?;
                let next = page.next.clone().map(Some);
                Ok(Some(((segment, page), next)))
            };
            Box::pin(stream::try_unfold(Some(after), next))
        });
        stream::select_all(segments)
    }

    /// The next page of a segment, when it is paid for.
    async fn page(
        &self,
        segment: ScanSegment,
        after: Option<&Attributes>,
        is_strong: bool,
    ) -> Result<ScanPage, Failure> {
        // Patience is for refusals: a wait for the budget may be as long as it takes.
        let expected = self.rate.wait().await;
        // `patiently` takes a closure, whose future the compiler does not see to be `Send`.
        let mut patience = Patience::begin();
        let page = loop {
            match ScanPage::read(&self.operator, &self.table, segment, after, is_strong).await {
                Ok(page) => break page,
                Err(error) => patience.bear(error).await?,
            }
        };
        self.rate.paid(expected, page.consumed_rcu);
        Ok(page)
    }
}
