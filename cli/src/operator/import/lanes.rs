//! Which lane a row goes by: that of its physical partition key, as far as placement tells.

use dynashard_core::Writer;
use std::collections::HashMap;
use std::time::Duration;

use dynashard_core::Deadline;
use dynashard_keys::{ItemKey, PartitionKey, PhysicalPartitionKey, Placement, ShardCount, ShardId};

/// What is remembered of the layouts of collections. A lane is only good for even loads: where a row is
/// written the writer decides, by metadata that is never older than a lease.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    layouts: HashMap<PartitionKey, (Placement, ShardCount)>,
}

/// So many collections are remembered.
const MOST: usize = 100_000;

/// For how long a row waits for the metadata of its collection. After that it goes by the first shard's
/// lane, and its write waits.
const PATIENCE: Duration = Duration::from_millis(500);

impl Lanes {
    /// The lane of a row, if the layout of its collection is remembered.
    pub(super) fn known(&self, key: &ItemKey, writer: &Writer) -> Option<PhysicalPartitionKey> {
        let (placement, count) = *self.layouts.get(&key.partition)?;
        let shard = placement.home(key, count).unwrap_or(placement.first());
        let separator = writer.directory().settings().schema.separator;
        Some(key.partition.at(shard, placement, separator))
    }

    /// The lane of a row.
    pub(super) async fn of(&mut self, key: &ItemKey, writer: &Writer) -> PhysicalPartitionKey {
        if let Some(known) = self.known(key, writer) {
            return known;
        }
        if self.layouts.len() >= MOST {
            self.layouts.clear();
        }
        let directory = writer.directory();
        let deadline = Deadline::after(directory.now(), PATIENCE);
        let placement = directory.settings().placement;
        let layout = match directory.find(&key.partition, deadline).await {
            Ok(known) => (known.metadata.placement, known.metadata.layout().writable),
            Err(_) => (placement, ShardCount::ONE),
        };
        self.layouts.insert(key.partition.clone(), layout);
        let separator = directory.settings().schema.separator;
        self.known(key, writer)
            .unwrap_or_else(|| key.partition.at(placement.first(), placement, separator))
    }

    /// Takes note of the shard in which a row was written: if it is another than that of its lane, the
    /// collection has changed.
    pub(super) fn was_written(&mut self, key: &ItemKey, shard: ShardId) {
        if let Some((placement, count)) = self.layouts.get(&key.partition)
            && placement.home(key, *count).is_some_and(|home| home != shard)
        {
            self.layouts.remove(&key.partition);
        }
    }
}
