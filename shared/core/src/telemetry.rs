use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_keys::PartitionKey;
use lru::LruCache;

use crate::{Code, CollectionMetadata, Error, Growth};

/// The collections of which is remembered what was said.
const REMEMBERED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Who is told of what happens beside the answers to requests.
pub trait Telemetry: Send + Sync {
    /// A throttled writer began the growth of a collection, or in dry-run mode would have. Of the
    /// latter an environment tells once for each state of a collection.
    fn writer_growth(&self, partition: &PartitionKey, growth: Growth);

    /// The growth of a collection that a throttled writer asked for could not be begun. An environment
    /// tells of it once for each state of a collection and code.
    fn writer_growth_failed(&self, partition: &PartitionKey, error: &Error);
}

/// What writers tell of growths, and to whom.
pub(crate) struct WriterGrowths {
    telemetry: Option<Arc<dyn Telemetry>>,
    /// The revision of each collection that dry-run mode has spoken of. Every throttled write
    /// decides anew, and the decision stays the same until somebody changes the collection.
    told: Told<()>,
    /// The same of growths that failed, and why. What passes must not hide what does not.
    told_failed: Told<Code>,
}

/// What was last spoken of, by collection: its revision, and what was said.
struct Told<T>(Mutex<LruCache<PartitionKey, (u64, T)>>);

impl<T: PartialEq> Told<T> {
    fn new() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED_COLLECTIONS)))
    }

    fn is_news(&self, seen: &CollectionMetadata, what: T) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.get(&seen.partition);
        let is_news = last.is_none_or(|last| last.0 != seen.rev || last.1 != what);
        if is_news {
            told.put(seen.partition.clone(), (seen.rev, what));
        }
        is_news
    }
}

impl WriterGrowths {
    pub(crate) fn new(telemetry: Option<Arc<dyn Telemetry>>) -> Self {
        Self { telemetry, told: Told::new(), told_failed: Told::new() }
    }

    pub(crate) fn tell(&self, seen: &CollectionMetadata, growth: Growth) {
        let Some(telemetry) = &self.telemetry else { return };
        let is_news = match growth {
            Growth::Begun { .. } => true,
            Growth::WouldBegin { .. } => self.told.is_news(seen, ()),
            Growth::Refused(_) | Growth::Overtaken => false,
        };
        if is_news {
            telemetry.writer_growth(&seen.partition, growth);
        }
    }

    pub(crate) fn tell_failed(&self, seen: &CollectionMetadata, error: &Error) {
        let Some(telemetry) = &self.telemetry else { return };
        if self.told_failed.is_news(seen, error.code()) {
            telemetry.writer_growth_failed(&seen.partition, error);
        }
    }
}
