use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dynashard_keys::{PartitionKey, ShardId};
use lru::LruCache;
use xxhash_rust::xxh64::Xxh64;

use crate::directory::Directory;
use crate::growth::policy::{Growth, NoGrowth, ScalingMode};
use crate::ports::{Clock, Entropy, MetadataStore};
use crate::{Code, CollectionMetadata, Deadline, Error, Throttle};

/// Is told of what throttled writers do beside answering their requests.
pub trait Telemetry: Send + Sync {
    /// A throttled writer began the growth of a collection, or would have in dry-run mode, or if the
    /// operator let the collection grow. An environment reports what it has not begun once for each
    /// state of a collection.
    fn writer_growth(&self, partition: &PartitionKey, growth: Growth);

    /// The growth of a collection that a throttled writer asked for could not be begun. An environment
    /// reports it once for each state of a collection and code.
    fn writer_growth_failed(&self, partition: &PartitionKey, error: &Error);
}

/// The growths that the throttled writers of one environment begin.
pub(crate) struct WriterGrowths {
    telemetry: Option<Arc<dyn Telemetry>>,
    backoff_seed: u64,
    /// The collections whose growth is being begun.
    under_way: Mutex<HashSet<PartitionKey>>,
    /// Every throttled write decides anew, and in dry-run mode the decision stays the same until
    /// somebody changes the collection.
    reported: LastReports<()>,
    /// By code, so that a passing failure does not hide a lasting one.
    reported_failures: LastReports<Code>,
}

impl WriterGrowths {
    pub(crate) fn new(backoff_seed: u64) -> Self {
        Self {
            telemetry: None,
            backoff_seed,
            under_way: Mutex::default(),
            reported: LastReports::new(),
            reported_failures: LastReports::new(),
        }
    }

    /// Reports to `telemetry`.
    pub(crate) fn report_to(&mut self, telemetry: Arc<dyn Telemetry>) {
        self.telemetry = Some(telemetry);
    }

    /// The writer's rule of "Choosing the right number of shards for your large-scale Amazon DynamoDB
    /// table": a throttle of the collection's own partition begins its growth, if it may grow now.
    pub(crate) async fn after_throttle<M: MetadataStore, C: Clock, E: Entropy>(
        &self,
        directory: &Directory<M, C, E>,
        partition: &PartitionKey,
        shard: ShardId,
        throttle: &Throttle,
        deadline: Deadline,
    ) {
        let scaling = directory.settings().scaling;
        if !scaling.writers || scaling.mode == ScalingMode::Off || !throttle.is_of_a_partition() {
            return;
        }
        let Some(_turn) = self.turn(partition) else {
            return;
        };
        let Some(known) = directory.cached(partition) else {
            // The writer's next attempt reads it, and asks again if it is throttled again.
            return;
        };
        let seen = &known.metadata;
        let pause = scaling.cooldown + self.backoff(partition, seen.last_updated_secs);
        match directory.begin_growth(seen, &[shard], pause, deadline).await {
            Ok(growth) => self.report(seen, growth),
            Err(error) => self.report_failure(seen, &error),
        }
    }

    /// Reports a growth that had not been begun when nothing was left to wait for: the metadata table is slow,
    /// or does not answer.
    pub(crate) fn was_cut_off<M: MetadataStore, C: Clock, E: Entropy>(
        &self,
        directory: &Directory<M, C, E>,
        partition: &PartitionKey,
    ) {
        let why = "it was not begun by the time that the write was answered";
        if let Some(known) = directory.cached(partition) {
            self.report_failure(&known.metadata, &Error::new(Code::DeadlineExceeded, why));
        }
    }

    /// The right to begin the growth of a collection. `None` if another write of this environment has it:
    /// nobody waits for that.
    fn turn<'a>(&'a self, partition: &'a PartitionKey) -> Option<Turn<'a>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if !under_way.insert(partition.clone()) {
            return None;
        }
        Some(Turn { under_way: &self.under_way, partition })
    }

    /// Between one and ten seconds, as that article has it, and the same whenever this environment asks
    /// about the same change.
    fn backoff(&self, partition: &PartitionKey, last_updated_secs: u64) -> Duration {
        let mut hasher = Xxh64::new(self.backoff_seed);
        hasher.update(partition.as_str().as_bytes());
        hasher.update(&last_updated_secs.to_be_bytes());
        Duration::from_secs(1) + Duration::from_millis(hasher.digest() % 9_001)
    }

    fn report(&self, seen: &CollectionMetadata, growth: Growth) {
        let Some(telemetry) = &self.telemetry else { return };
        let is_news = match growth {
            Growth::Begun { .. } => true,
            Growth::WouldBegin { .. } | Growth::Refused(NoGrowth::NotAllowed) => {
                self.reported.is_news(seen, ())
            }
            Growth::Refused(_) | Growth::Overtaken => false,
        };
        if is_news {
            telemetry.writer_growth(&seen.partition, growth);
        }
    }

    fn report_failure(&self, seen: &CollectionMetadata, error: &Error) {
        let Some(telemetry) = &self.telemetry else { return };
        if self.reported_failures.is_news(seen, error.code()) {
            telemetry.writer_growth_failed(&seen.partition, error);
        }
    }
}

/// See [`WriterGrowths::turn`]. It ends when it is dropped.
struct Turn<'a> {
    under_way: &'a Mutex<HashSet<PartitionKey>>,
    partition: &'a PartitionKey,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(self.partition);
    }
}

/// The last report of each collection: the revision that it was about, and what it said.
struct LastReports<T>(Mutex<LruCache<PartitionKey, (u64, T)>>);

/// The collections whose last report one environment remembers.
const REMEMBERED_COLLECTIONS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

impl<T: PartialEq> LastReports<T> {
    fn new() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED_COLLECTIONS)))
    }

    fn is_news(&self, seen: &CollectionMetadata, report: T) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let report = (seen.rev, report);
        if last.get(&seen.partition) == Some(&report) {
            return false;
        }
        last.put(seen.partition.clone(), report);
        true
    }
}
