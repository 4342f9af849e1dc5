//! Reads a table page by page, at a bounded rate.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_aws::{Operator, ScanPage, ScanSegment};
use dynashard_core::Attributes;

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
    meter: Option<Arc<Mutex<Meter>>>,
}

#[derive(Debug)]
struct Meter {
    clock: Stopwatch,
    budget: Budget,
    /// What a page is expected to take, in read units: as much as the last one.
    page_rcu: f64,
}

impl TableScan {
    /// The table, to be read with so many read units a second, or as fast as it answers.
    pub(super) fn new(operator: &Operator, table: &str, read_units: Option<NonZeroU32>) -> Self {
        let meter = read_units.map(|read_units| {
            let clock = Stopwatch::start();
            let budget = Budget::new(read_units.get(), clock.elapsed());
            Arc::new(Mutex::new(Meter { clock, budget, page_rcu: MOST_PAGE_RCU }))
        });
        Self { operator: operator.clone(), table: table.to_owned(), meter }
    }

    /// The same, where about so many bytes of each segment are known.
    pub(super) fn with_segments_of(self, bytes: f64) -> Self {
        if let Some(meter) = &self.meter {
            let page_rcu = (bytes / 8_192.0).clamp(1.0, MOST_PAGE_RCU);
            meter.lock().unwrap_or_else(PoisonError::into_inner).page_rcu = page_rcu;
        }
        self
    }

    /// The next page of a segment, when it is paid for.
    pub(super) async fn page(
        &self,
        segment: ScanSegment,
        after: Option<&Attributes>,
        is_strong: bool,
    ) -> Result<ScanPage, Failure> {
        let meter =
            || self.meter.as_ref().map(|m| m.lock().unwrap_or_else(PoisonError::into_inner));
        // Patience is for refusals: a wait for the budget may be as long as it takes.
        let charge = meter().map(|mut meter| {
            let (expected, now) = (meter.page_rcu, meter.clock.elapsed());
            (expected, meter.budget.take(expected, now))
        });
        if let Some((_, wait)) = charge {
            tokio::time::sleep(wait).await;
        }
        // `patiently` takes a closure, whose future the compiler does not see to be `Send`.
        let mut patience = Patience::begin();
        let page = loop {
            match self.operator.scan(&self.table, segment, after, is_strong).await {
                Ok(page) => break page,
                Err(error) => patience.bear(error).await?,
            }
        };
        if let (Some(mut meter), Some((expected, _))) = (meter(), charge) {
            meter.budget.correct(expected, page.consumed_rcu);
            meter.page_rcu = page.consumed_rcu;
        }
        Ok(page)
    }
}
