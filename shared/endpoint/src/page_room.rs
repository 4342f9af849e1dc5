//! How much pages of several shards, and batches of reads, hold at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::evaluation::MAX_PAGE_BYTES;
use crate::refusal::Refusal;

/// What pages of several shards, and batches of reads, may hold at once: a page reads from all of its shards what it returns of some,
/// and nothing else bounds how many are read side by side.
pub(crate) struct PageRoom {
    /// A permit for each kilobyte of items.
    kilobytes: Semaphore,
    /// What an item of the last page took, on average.
    item_bytes: AtomicUsize,
}

/// What the answer to a batch has at most (DynamoDB API: `BatchGetItem`).
const MAX_BATCH_BYTES: usize = 16 << 20;

/// How many kilobytes of items they hold together, about.
const MOST: u32 = 256 << 10;

/// What an item is taken to take before a page was read.
const UNKNOWN_ITEM_BYTES: usize = 16 << 10;

impl PageRoom {
    /// Waits for so long until a page may be read that asks so many shards for so many items each.
    pub(crate) async fn for_page(
        &self,
        shards: usize,
        each: usize,
        patience: Duration,
    ) -> Result<SemaphorePermit<'_>, Refusal> {
        self.acquire(expected(shards, each, self.item_bytes.load(Ordering::Relaxed)), patience)
            .await
    }

    /// Waits for so long until so many items may be read by their keys.
    pub(crate) async fn for_items(
        &self,
        items: usize,
        patience: Duration,
    ) -> Result<SemaphorePermit<'_>, Refusal> {
        let bytes = items * self.item_bytes.load(Ordering::Relaxed);
        self.acquire(bytes.min(MAX_BATCH_BYTES), patience).await
    }

    async fn acquire(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Result<SemaphorePermit<'_>, Refusal> {
        let kilobytes = bytes >> 10;
        let kilobytes = u32::try_from(kilobytes).unwrap_or(u32::MAX).clamp(1, MOST);
        match timeout(patience, self.kilobytes.acquire_many(kilobytes)).await {
            Ok(permit) => Ok(permit.expect("it is never closed")),
            Err(_) => Err(Refusal::unavailable(
                "dynashard: pages and batches have taken all memory that there is for them; ask again",
            )),
        }
    }

    /// How many items make a page, if they are as large as those of the last one.
    pub(crate) fn fitting(&self) -> usize {
        MAX_PAGE_BYTES / self.item_bytes.load(Ordering::Relaxed).max(1) + 1
    }

    /// Takes note of an answer that held so many items.
    pub(crate) fn learn_of_answer(&self, body: &[u8], items: usize) {
        if let Some(mean) = body.len().checked_div(items) {
            self.learn(mean.max(1));
        }
    }

    /// Takes note of what an item of a page has taken, on average.
    pub(crate) fn learn(&self, item_bytes: usize) {
        self.item_bytes.store(item_bytes, Ordering::Relaxed);
    }
}

impl Default for PageRoom {
    fn default() -> Self {
        let item_bytes = AtomicUsize::new(UNKNOWN_ITEM_BYTES);
        Self { kilobytes: Semaphore::new(MOST as usize), item_bytes }
    }
}

/// The bytes that such a page reads at first. An answer has a megabyte at most.
fn expected(shards: usize, each: usize, item_bytes: usize) -> usize {
    shards * (each * item_bytes).min(MAX_PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// A few queries of 64 shards with large items took gigabytes.
    #[tokio::test]
    async fn regression_any_number_of_pages_of_large_items_was_read_side_by_side() {
        const PATIENCE: Duration = Duration::from_mins(1);
        let room = PageRoom::default();
        assert_eq!(expected(16, 14, 1_000), 224_000);
        room.learn(300_000);
        assert_eq!(room.fitting(), 4);
        let pages = (0..4).map(|_| room.for_page(64, 5, PATIENCE).now_or_never());
        let pages = pages.collect::<Option<Vec<_>>>().expect("there is room for 256 MB");
        let fifth = room.for_page(64, 5, Duration::ZERO);
        assert!(fifth.await.is_err(), "the fifth waits as long as it may");
        drop(pages);
        let one = room.for_page(100_000, 5, PATIENCE).now_or_never();
        assert!(one.is_some_and(|page| page.is_ok()), "one always goes on");
    }
}
