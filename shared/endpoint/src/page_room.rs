//! How much pages of several shards hold at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::evaluation::MAX_PAGE_BYTES;

/// What pages of several shards may hold at once: each reads from all of its shards what it returns of some, and nothing else bounds how
/// many of them are read side by side.
pub(crate) struct PageRoom {
    /// A permit for each kilobyte of items.
    kilobytes: Semaphore,
    /// What an item of the last page took, on average.
    item_bytes: AtomicUsize,
}

/// How many kilobytes of items they hold together, about.
const MOST: u32 = 256 << 10;

/// What an item is taken to take before a page was read.
const UNKNOWN_ITEM_BYTES: usize = 16 << 10;

impl PageRoom {
    /// Waits until a page may be read that asks so many shards for so many items each.
    pub(crate) async fn for_page(&self, shards: usize, each: usize) -> SemaphorePermit<'_> {
        let kilobytes = expected(shards, each, self.item_bytes.load(Ordering::Relaxed)) >> 10;
        let kilobytes = u32::try_from(kilobytes).unwrap_or(u32::MAX).clamp(1, MOST);
        self.kilobytes.acquire_many(kilobytes).await.expect("it is never closed")
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
    #[test]
    fn regression_any_number_of_pages_of_large_items_was_read_side_by_side() {
        let room = PageRoom::default();
        assert_eq!(expected(16, 14, 1_000), 224_000);
        room.learn(300_000);
        let pages = (0..4).map(|_| room.for_page(64, 5).now_or_never());
        let pages = pages.collect::<Option<Vec<_>>>().expect("there is room for 256 MB");
        assert!(room.for_page(64, 5).now_or_never().is_none(), "the fifth waits");
        drop(pages);
        assert!(room.for_page(100_000, 5).now_or_never().is_some(), "one always goes on");
    }
}
