use std::fmt;

use dynashard_keys::{ShardCount, SortKey};

use super::Query;
use super::cursor::Cursor;
use crate::StoredItem;
use crate::cost::Cost;

/// A page of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryPage {
    /// At most as many items as the limit. There may be fewer, none even, and a cursor all the same.
    pub items: Vec<(SortKey, StoredItem)>,
    /// Resumes the query; `None` at its end.
    pub cursor: Option<String>,
    /// The shards of the layout that was read.
    pub shards: ShardCount,
    /// The items that were read and paid for: markers, repetitions, and what was thrown away for the
    /// lease included. Of a page that was begun again, those since then.
    pub items_read: u64,
    /// The read units that DynamoDB reported for them.
    pub consumed_rcu: f64,
}

/// How large the body of a page may grow.
#[derive(Clone, Copy)]
pub struct PageBudget<'a> {
    /// The most bytes of all items together. A single item is returned however large it is.
    pub max_bytes: usize,
    /// What an item takes in the body, in bytes.
    pub measure: &'a (dyn Fn(&SortKey, &StoredItem) -> usize + Sync),
}

impl PageBudget<'_> {
    /// No limit but the number of items.
    pub const UNLIMITED: PageBudget<'static> =
        PageBudget { max_bytes: usize::MAX, measure: &|_, _| 0 };
}

impl fmt::Debug for PageBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageBudget").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// The items of a page as they are taken in, within limit and budget, and what reading them cost.
pub(super) struct Page<'a> {
    items: Vec<(SortKey, StoredItem)>,
    limit: usize,
    bytes: usize,
    budget: PageBudget<'a>,
    cost: Cost,
}

impl<'a> Page<'a> {
    pub(super) fn new(limit: u32, budget: PageBudget<'a>) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { items: Vec::new(), limit, bytes: 0, budget, cost: Cost::default() }
    }

    /// The items so far.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.limit
    }

    /// Whether there is room for as many items as there are at most.
    pub(super) fn is_half_full(&self) -> bool {
        self.room() <= self.limit / 2
    }

    /// How many more items there is room for, if they are as large as those that are there.
    pub(super) fn room(&self) -> usize {
        let by_count = self.limit.saturating_sub(self.items.len());
        let mean_bytes = self.bytes / self.items.len().max(1);
        let bytes_left = self.budget.max_bytes.saturating_sub(self.bytes);
        // The one that does not fit has to be read to know it.
        bytes_left.checked_div(mean_bytes).map_or(by_count, |fit| by_count.min(fit + 1))
    }

    /// What the item takes of the budget, if it still fits. The first one does in any case.
    pub(super) fn admits(&self, key: &SortKey, item: &StoredItem) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        let bytes = (self.budget.measure)(key, item);
        let fits = self.bytes.saturating_add(bytes) <= self.budget.max_bytes;
        (fits || self.items.is_empty()).then_some(bytes)
    }

    /// Takes in an item of so many bytes.
    pub(super) fn push(&mut self, key: SortKey, item: StoredItem, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push((key, item));
    }

    /// Counts what was read for it.
    pub(super) fn pay(&mut self, cost: Cost) {
        self.cost += cost;
    }

    pub(super) fn finish(
        self,
        cursor: Option<Cursor>,
        query: &Query,
        shards: ShardCount,
    ) -> QueryPage {
        let Cost { items_read, consumed_rcu } = self.cost;
        let cursor = cursor.map(|cursor| cursor.encode(query));
        QueryPage { items: self.items, cursor, shards, items_read, consumed_rcu }
    }
}
