//! A page of a collection, and how large it may grow.

use std::fmt;
use std::sync::Arc;

use dynashard_keys::{ShardCount, SortKey};

use crate::model::epochs::Interval;
use crate::model::item::StoredItem;
use crate::model::lease::Deadline;
use crate::model::metadata::CollectionMetadata;
use crate::ports::ShardPage;
use crate::usecases::cost::Cost;
use crate::usecases::directory::{Directory, Known};
use crate::usecases::query::cursor::Cursor;
use crate::usecases::query::{NoPage, Query, renewed};

/// What the items of a page take at most, in bytes. So its body stays below 5 MB with a cursor that holds a sort key of
/// 1,024 bytes for each of 256 shards, and its answer below the 6 MB of Lambda's.
pub const MAX_PAGE_BYTES: usize = 4_600_000;

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

/// How large the body of an answer may grow.
pub struct PageBudget<'a, K = SortKey> {
    /// The most bytes of all items together. A single item is returned however large it is.
    pub max_bytes: usize,
    /// What an item takes in the body, in bytes.
    pub measure: &'a (dyn Fn(&K, &StoredItem) -> usize + Sync),
}

impl<K: 'static> PageBudget<'_, K> {
    /// No limit but the number of items.
    pub const UNLIMITED: PageBudget<'static, K> =
        PageBudget { max_bytes: usize::MAX, measure: &|_, _| 0 };
}

impl<K> PageBudget<'_, K> {
    /// Whether an item of so many bytes fits beside those that are there already.
    pub(crate) fn fits(&self, bytes: usize, more: usize) -> bool {
        bytes.saturating_add(more) <= self.max_bytes
    }
}

// Derived, these would ask the same of the keys.
impl<K> Clone for PageBudget<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for PageBudget<'_, K> {}

impl<K> fmt::Debug for PageBudget<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageBudget").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// A page of a query while it is read.
pub(super) struct PageRead<'a> {
    pub(super) query: &'a Query,
    pub(super) deadline: Deadline,
    /// Renewed, under the same layout, when its lease ends. Of a collection with several epochs what holds of the one that is read.
    pub(super) known: Known,
    /// The metadata of all epochs.
    whole: Arc<CollectionMetadata>,
    /// The sort keys of the epoch.
    within: Interval,
    pub(super) page: Page<'a>,
}

impl<'a> PageRead<'a> {
    pub(super) fn new(
        query: &'a Query,
        budget: PageBudget<'a>,
        known: Known,
        deadline: Deadline,
    ) -> Self {
        let whole = Arc::clone(&known.metadata);
        let (within, page) = (Interval::default(), Page::new(query.limit, budget));
        Self { query, deadline, known, whole, within, page }
    }

    /// This page, while it is read of one epoch, which has these sort keys, by this query of it.
    pub(super) fn of_epoch(
        self,
        epoch: Option<usize>,
        within: &Interval,
        query: &'a Query,
    ) -> Self {
        let metadata = Arc::new(self.whole.of_epoch(epoch));
        let known = Known { metadata, ..self.known };
        Self { query, known, within: within.clone(), ..self }
    }

    /// Metadata that may still be acted on and says what it has said, or a reason to begin again.
    pub(super) async fn renewed(&self, directory: &Directory) -> Result<Known, NoPage> {
        let whole = Known { metadata: Arc::clone(&self.whole), ..self.known.clone() };
        let fresh = renewed(directory, &whole, self.deadline).await?;
        Ok(Known { lease: fresh.lease, ..self.known.clone() })
    }

    /// What an answer of a shard has of the sort keys that are read: a boundary belongs to one epoch alone. One that ends there has
    /// come to the end of the epoch, and has not covered the boundary.
    pub(super) fn admit(&self, mut page: ShardPage) -> ShardPage {
        if !self.within.is_all() {
            page.items.retain(|(sort, _)| self.within.contains(sort));
            page.next = page.next.filter(|next| self.within.contains(next));
        }
        page
    }

    pub(super) fn finish(self, query: &Query, cursor: Option<Cursor>) -> QueryPage {
        let Cost { items_read, consumed_rcu, .. } = self.page.cost;
        let cursor = cursor.map(|cursor| cursor.encode(query));
        let shards = self.whole.widest();
        QueryPage { items: self.page.items, cursor, shards, items_read, consumed_rcu }
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

    /// The sort key of the last item so far.
    pub(super) fn last(&self) -> Option<&SortKey> {
        self.items.last().map(|(sort, _)| sort)
    }

    /// The items so far.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// What they take in the body, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How large the body may grow.
    pub(super) fn budget(&self) -> PageBudget<'a> {
        self.budget
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

    /// Whether an item that takes so many bytes still fits. The first one does in any case.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        !self.is_full() && (self.items.is_empty() || self.budget.fits(self.bytes, bytes))
    }

    /// Takes in an item of so many bytes.
    pub(super) fn push(&mut self, key: SortKey, item: StoredItem, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push((key, item));
    }

    #[cfg(test)]
    pub(super) fn into_items(self) -> Vec<(SortKey, StoredItem)> {
        self.items
    }

    /// Counts what was read for it.
    pub(super) fn pay(&mut self, cost: Cost) {
        self.cost += cost;
    }
}
