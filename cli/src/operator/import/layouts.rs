//! Which lane a row goes by: that of its physical partition key, as far as placement tells.

use std::collections::HashMap;
use std::time::Duration;

use dynashard_core::Deadline;
use dynashard_keys::{ItemKey, PartitionKey, PhysicalPartitionKey, Placement, ShardCount, ShardId};

use crate::operator::connect::TableWriter;

/// What is remembered of the layouts of collections. A lane is only good for even loads: where a row is
/// written the writer decides, by metadata that is never older than a lease.
#[derive(Debug, Default)]
pub(super) struct Layouts(HashMap<PartitionKey, (Placement, ShardCount)>);

/// So many collections are remembered.
const MOST: usize = 100_000;

/// For how long a row waits for the metadata of its collection. After that it goes by the first shard's
/// lane, and its write waits.
const PATIENCE: Duration = Duration::from_millis(500);

impl Layouts {
    /// The lane of a row, by what is remembered of its collection.
    pub(super) fn known(&self, key: &ItemKey, writer: &TableWriter) -> PhysicalPartitionKey {
        let settings = writer.directory().settings();
        let (placement, count) = match self.0.get(&key.partition) {
            Some(layout) => *layout,
            None => (settings.placement, ShardCount::ONE),
        };
        let shard = placement.home(key, count).unwrap_or(placement.first());
        key.partition.at(shard, placement, settings.schema.separator)
    }

    /// The lane of a row.
    pub(super) async fn of(&mut self, key: &ItemKey, writer: &TableWriter) -> PhysicalPartitionKey {
        if !self.0.contains_key(&key.partition) {
            self.look(&key.partition, writer).await;
        }
        self.known(key, writer)
    }

    /// Whether a row was written in another shard than that of its lane: its collection has changed.
    pub(super) fn is_outdated(&self, key: &ItemKey, shard: ShardId) -> bool {
        let layout = self.0.get(&key.partition);
        let home = layout.and_then(|(placement, count)| placement.home(key, *count));
        home.is_some_and(|home| home != shard)
    }

    /// Looks at the layout of a collection, and returns whether it is another one than before.
    pub(super) async fn look(&mut self, partition: &PartitionKey, writer: &TableWriter) -> bool {
        let directory = writer.directory();
        let deadline = Deadline::after(directory.now(), PATIENCE);
        let layout = match directory.find(partition, deadline).await {
            Ok(known) => (known.metadata.placement, known.metadata.layout().writable),
            Err(_) => (directory.settings().placement, ShardCount::ONE),
        };
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(partition.clone(), layout) != Some(layout)
    }
}
