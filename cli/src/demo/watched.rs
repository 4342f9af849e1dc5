//! The collections of a run, as their metadata and jobs tell them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dynashard_aws::DynamoRecordStore;
use dynashard_core::ports::{ReadRecords, StoreError};
use dynashard_core::{CollectionMetadata, Generation, Job};
use dynashard_keys::PartitionKey;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::history::Collection;

/// How often the collections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks at collections again and again, beside the load. Dropping it ends that.
///
/// It asks DynamoDB and not the API, whose answer may be as old as a lease: too old to say when a
/// phase began.
pub(super) struct Watched {
    latest: watch::Receiver<Vec<Collection>>,
    requests: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl Watched {
    /// Begins to look at these collections.
    pub(super) fn start(store: DynamoRecordStore, partitions: Vec<PartitionKey>) -> Self {
        let (sender, latest) = watch::channel(vec![Collection::COLD; partitions.len()]);
        let requests = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&requests);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut seen = vec![Moved::default(); partitions.len()];
            let mut looking = interval(LOOK_EVERY);
            looking.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                looking.tick().await;
                for (key, (partition, moved)) in partitions.iter().zip(&mut seen).enumerate() {
                    // Not there yet, or not to be read now: it is looked at again soon.
                    if let Ok(Some(collection)) = look(&store, partition, moved, &counted).await {
                        sender.send_modify(|collections| collections[key] = collection);
                    }
                }
            }
        });
        Self { latest, requests, _task: task }
    }

    /// The collections when they were last seen, in their order.
    pub(super) fn collections(&self) -> Vec<Collection> {
        self.latest.borrow().clone()
    }

    /// Whether no change of a count runs.
    pub(super) fn is_stable(&self) -> bool {
        self.latest.borrow().iter().all(|collection| collection.change().is_none())
    }

    /// The requests that the looking has cost so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn look(
    store: &DynamoRecordStore,
    partition: &PartitionKey,
    moved: &mut Moved,
    requests: &AtomicU64,
) -> Result<Option<Collection>, StoreError> {
    requests.fetch_add(1, Ordering::Relaxed);
    let Some(metadata) = store.get::<CollectionMetadata>(partition).await?.value else {
        return Ok(None);
    };
    let CollectionMetadata { number_of_shards, phase, generation, .. } = metadata;
    if metadata.reshard().is_some() {
        requests.fetch_add(1, Ordering::Relaxed);
        let job = store.get::<Job>(partition).await?.value;
        if let Some(job) = job.filter(|job| job.generation == generation) {
            moved.note(generation, job.items_moved);
        }
    }
    Ok(Some(Collection { shards: number_of_shards.get(), phase, moved: moved.in_all() }))
}

/// The items that the reshards of one collection have moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moved {
    /// By those before the latest.
    before: u64,
    /// By the latest.
    latest: Option<(Generation, u64)>,
}

impl Moved {
    fn note(&mut self, generation: Generation, items: u64) {
        if let Some((before, moved)) = self.latest.replace((generation, items))
            && before != generation
        {
            self.before += moved;
        }
    }

    fn in_all(&self) -> u64 {
        self.before + self.latest.map_or(0, |(_, items)| items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_reshard_has_moved_is_added_up() {
        let mut moved = Moved::default();
        assert_eq!(moved.in_all(), 0);
        for (generation, items, in_all) in
            [(2, 0, 0), (2, 40, 40), (2, 90, 90), (4, 0, 90), (4, 7, 97)]
        {
            moved.note(Generation::new(generation), items);
            assert_eq!(moved.in_all(), in_all);
        }
    }
}
