//! Reads a table from its beginning to its end, in several segments side by side, at a bounded rate.

use std::cell::{Cell, RefCell};

use dynashard_aws::{Operator, ScanPage, ScanSegment};
use dynashard_core::Attributes;
use futures_util::future::try_join_all;

use super::super::Failure;
use super::super::patience::patiently;
use super::budget::Budget;
use crate::clock::Stopwatch;

/// How much a page takes at most, in read units: 1 MB, eventually consistent.
const MOST_PAGE_RCU: f64 = 128.0;

/// Where a segment is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Position {
    Start,
    /// Behind this key.
    After(Attributes),
    End,
}

/// A table that is read as a whole.
pub(super) struct Source<'a> {
    operator: &'a Operator,
    table: &'a str,
    is_strong: bool,
    clock: Stopwatch,
    budget: RefCell<Budget>,
    /// What a page is expected to take, in read units: as much as the last one.
    page_rcu: Cell<f64>,
}

impl<'a> Source<'a> {
    /// The table, of which about `bytes` are known, to be read with so many read units a second.
    pub(super) fn new(
        operator: &'a Operator,
        table: &'a str,
        (bytes, segments): (u64, u32),
        read_units: u32,
        is_strong: bool,
    ) -> Self {
        let clock = Stopwatch::start();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let of_segment = bytes as f64 / f64::from(segments) / 8_192.0;
        let consistency = if is_strong { 2.0 } else { 1.0 };
        Self {
            operator,
            table,
            is_strong,
            clock,
            budget: RefCell::new(Budget::new(read_units, clock.elapsed())),
            page_rcu: Cell::new(of_segment.clamp(1.0, MOST_PAGE_RCU) * consistency),
        }
    }

    /// Reads on from these positions, one for each segment, to the end of all, and hands on each page with
    /// the number of its segment. Each segment has a page in memory.
    pub(super) async fn read(
        &self,
        positions: &[Position],
        on_page: impl AsyncFn(usize, &ScanPage) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let of = u32::try_from(positions.len()).unwrap_or(u32::MAX);
        let on_page = &on_page;
        let lanes = positions.iter().zip(0_u32..).filter_map(|(position, number)| {
            let mut after = match position {
                Position::Start => None,
                Position::After(key) => Some(key.clone()),
                Position::End => return None,
            };
            Some(async move {
                let segment = ScanSegment { number, of };
                loop {
                    let page = self.page(segment, after.as_ref()).await?;
                    on_page(number as usize, &page).await?;
                    after = page.next;
                    if after.is_none() {
                        return Ok(());
                    }
                }
            })
        });
        try_join_all(lanes).await.map(drop)
    }

    async fn page(
        &self,
        segment: ScanSegment,
        after: Option<&Attributes>,
    ) -> Result<ScanPage, Failure> {
        // Patience is for refusals: a wait for the budget may be as long as it takes.
        let expected = self.page_rcu.get();
        let wait = self.budget.borrow_mut().take(expected, self.clock.elapsed());
        tokio::time::sleep(wait).await;
        let page = patiently(async || {
            self.operator.scan(self.table, segment, after, None, self.is_strong).await
        });
        let page = page.await?;
        self.budget.borrow_mut().correct(expected, page.consumed_rcu);
        self.page_rcu.set(page.consumed_rcu);
        Ok(page)
    }
}
