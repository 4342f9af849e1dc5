use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dynashard_keys::PartitionKey;
use lru::LruCache;

use crate::{CollectionMetadata, Growth};

/// The collections of which is remembered what was said in dry-run mode.
const REMEMBERED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Who is told of what happens beside the answers to requests.
pub trait Telemetry: Send + Sync {
    /// A throttled writer began the growth of a collection, or in dry-run mode would have. Of the
    /// latter an environment tells once for each state of a collection.
    fn writer_growth(&self, partition: &PartitionKey, growth: Growth);
}

/// What writers tell of growths, and to whom.
pub(crate) struct WriterGrowths {
    telemetry: Option<Arc<dyn Telemetry>>,
    /// The revision of each collection that dry-run mode has spoken of. Every throttled write
    /// decides anew, and the decision stays the same until somebody changes the collection.
    told: Mutex<LruCache<PartitionKey, u64>>,
}

impl WriterGrowths {
    pub(crate) fn new(telemetry: Option<Arc<dyn Telemetry>>) -> Self {
        Self { telemetry, told: Mutex::new(LruCache::new(REMEMBERED_COLLECTIONS)) }
    }

    pub(crate) fn tell(&self, seen: &CollectionMetadata, growth: Growth) {
        let Some(telemetry) = &self.telemetry else { return };
        let is_news = match growth {
            Growth::Begun { .. } => true,
            Growth::WouldBegin { .. } => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                told.put(seen.partition.clone(), seen.rev) != Some(seen.rev)
            }
            Growth::Refused(_) | Growth::Overtaken => false,
        };
        if is_news {
            telemetry.writer_growth(&seen.partition, growth);
        }
    }
}
