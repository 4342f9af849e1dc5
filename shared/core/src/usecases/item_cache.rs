//! Keeps what gets have found for others that need not be strong, so that a popular item is read once in a while however many ask for it.
//!
//! What is kept was found under a lease as any get finds it, and shows a state that the item was in. So it needs no lease of its own,
//! and no change of a shard count makes it wrong: it only grows older.

use std::future::Future;
use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use dynashard_keys::ItemKey;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::model::error::{Code, Error};
use crate::model::item::{AttributeValue, Attributes, StoredItem};
use crate::model::lease::{Deadline, Lease, Moment};
use crate::model::settings::ItemCacheLimits;
use crate::ports::Clock;
use crate::usecases::cost::Cost;
use crate::usecases::read::NOT_IN_TIME;
use crate::usecases::retry::within;

/// The items of one environment that others may be shown.
pub(crate) struct ItemCache {
    kept: Cache<ItemKey, Arc<Seen>, Weight>,
    term: Duration,
}

/// What a get was shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    /// The item, if there was one.
    pub(crate) item: Option<StoredItem>,
    /// What this get took: nothing, if it was shown what another had found.
    pub(crate) cost: Cost,
    /// How long ago the item was so, at most.
    pub(crate) age: Duration,
}

impl ItemCache {
    /// An empty one.
    pub(crate) fn new(limits: ItemCacheLimits) -> Self {
        let items = usize::try_from(limits.bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        // In one piece: an item of the largest size is to fit a small cache, and one environment seldom has several threads.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(items)
            .weight_capacity(limits.bytes)
            .build()
            .expect("both capacities are set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { kept: Cache::with_options(options, Weight, hashes, lifecycle), term: limits.term }
    }

    /// What `read` finds of an item, or what it has found lately. All who ask meanwhile wait for the one who reads, and share what
    /// comes of it, an error too: where a partition throttles, each of them would be refused as well.
    ///
    /// Whoever reads may be dropped, or have less time than others. Then the next one reads in its place.
    pub(crate) async fn get<F>(
        &self,
        key: &ItemKey,
        clock: &dyn Clock,
        deadline: Deadline,
        read: impl FnOnce() -> F,
    ) -> Result<Shown, Error>
    where
        F: Future<Output = Result<(Option<StoredItem>, Cost), Error>>,
    {
        let began = clock.now();
        loop {
            let looking = self.kept.get_value_or_guard_async(key);
            let guard = match within(clock, deadline, looking).await {
                None => return Err(Error::new(Code::Unavailable, NOT_IN_TIME)),
                Some(Ok(seen)) if seen.since.age(began) < self.term => {
                    return seen.show(Cost::default(), clock.now());
                }
                Some(Ok(old)) => {
                    self.forget(key, &old);
                    continue;
                }
                Some(Err(guard)) => guard,
            };
            let before = clock.now();
            let (found, cost) = match read().await {
                Ok((item, cost)) => (Ok(item), cost),
                Err(error) if ran_out_of_time(&error) => return Err(error),
                Err(error) => (Err(error), Cost::default()),
            };
            let answered = clock.now();
            let since = Lease::new(before, answered.server_secs, self.term);
            let seen = Arc::new(Seen { bytes: entry_bytes(key, &found), since, found });
            // Nobody else takes the place of a key that is being read.
            let _ = guard.insert(Arc::clone(&seen));
            if seen.found.is_err() {
                self.forget(key, &seen);
            }
            return seen.show(cost, answered);
        }
    }

    /// Drops what is kept of a key, unless it is another thing by now.
    fn forget(&self, key: &ItemKey, seen: &Arc<Seen>) {
        self.kept.remove_if(key, |kept| Arc::ptr_eq(kept, seen));
    }
}

/// What was found of an item, and from when on that counts.
#[derive(Debug)]
struct Seen {
    since: Lease,
    found: Result<Option<StoredItem>, Error>,
    /// What it takes of the memory, about.
    bytes: u64,
}

impl Seen {
    fn show(&self, cost: Cost, now: Moment) -> Result<Shown, Error> {
        let item = self.found.clone()?;
        Ok(Shown { item, cost, age: self.since.age(now) })
    }
}

/// Whether an error says only that whoever read had no more time.
fn ran_out_of_time(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::DeadlineExceeded) && !error.is_fault()
}

/// Entries weigh what they take of the memory.
#[derive(Clone)]
struct Weight;

impl Weighter<ItemKey, Arc<Seen>> for Weight {
    fn weight(&self, _: &ItemKey, seen: &Arc<Seen>) -> u64 {
        seen.bytes
    }
}

fn entry_bytes(key: &ItemKey, found: &Result<Option<StoredItem>, Error>) -> u64 {
    let item = found.as_ref().ok().and_then(Option::as_ref);
    let key = key.partition.as_str().len() + key.sort.to_string().len();
    let bytes = ENTRY_BYTES + key + item.map_or(0, |item| map_bytes(&item.attributes));
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What an entry takes beside the texts of its key and its attributes: in the cache's own lists, and as an allocation.
const ENTRY_BYTES: usize = size_of::<ItemKey>() + size_of::<Seen>() + 128;

/// How many entries a node of a map or a set has room for, and how many it holds at least (the standard library's `BTreeMap`). The
/// first node is allocated whole.
const NODE_ROOM: usize = 11;
const NODE_LEAST: usize = 5;

/// What a name or a value takes as an allocation, beside its bytes.
const ALLOCATION_BYTES: usize = 16;

/// What an item takes that is neither large nor small, from which the cache reckons how many there will be.
const USUAL_BYTES: u64 = 2_048;

fn map_bytes(attributes: &Attributes) -> usize {
    let entry = size_of::<String>() + size_of::<AttributeValue>();
    let texts = attributes
        .iter()
        .map(|(name, value)| 2 * ALLOCATION_BYTES + name.len() + heap_bytes(value));
    nodes_bytes(attributes.len(), entry) + texts.sum::<usize>()
}

/// What the nodes of a map or a set take that has so many entries of such a size.
fn nodes_bytes(entries: usize, entry: usize) -> usize {
    entries.div_ceil(NODE_LEAST) * (NODE_ROOM * entry + 2 * ALLOCATION_BYTES)
}

/// What a value takes beyond its own size.
fn heap_bytes(value: &AttributeValue) -> usize {
    let of_members = |count: usize| count * (size_of::<AttributeValue>() + ALLOCATION_BYTES);
    let of_set = |count| nodes_bytes(count, size_of::<AttributeValue>()) + count * ALLOCATION_BYTES;
    match value {
        AttributeValue::List(values) => {
            of_members(values.len()) + values.iter().map(heap_bytes).sum::<usize>()
        }
        AttributeValue::Map(entries) => map_bytes(entries),
        AttributeValue::StringSet(set) => of_set(set.len()) + value.stored_bytes(),
        AttributeValue::NumberSet(set) => of_set(set.len()) + value.stored_bytes(),
        AttributeValue::BinarySet(set) => of_set(set.len()) + value.stored_bytes(),
        _ => value.stored_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was counted by its entry alone, so that items of small maps took five times the memory that the cache may have.
    #[test]
    fn regression_a_small_map_was_counted_without_the_room_of_its_node() {
        let map = Attributes::from([("x".to_owned(), AttributeValue::Bool(true))]);
        let node = 11 * (size_of::<String>() + size_of::<AttributeValue>());
        assert!(map_bytes(&map) > node);
        let maps = AttributeValue::List(vec![AttributeValue::Map(map); 100]);
        assert!(heap_bytes(&maps) > 100 * node);
    }
}
