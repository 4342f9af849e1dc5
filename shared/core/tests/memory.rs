//! How much memory a batch takes. A binary of its own, as the peak is that of the process.

use std::time::Duration;

use dynashard_core::ports::{Clock, World};
use dynashard_core::{BatchOperation, CollectionMetadata, Deadline, Directory, Settings, Writer};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use dynashard_testkit::{Faulty, ManualClock, MemoryStore, SeededEntropy, block_on};

/// Every part of every delete was made at once: 1.5 GB for a thousand, with the SDK's futures.
#[test]
fn regression_a_batch_of_deletes_took_a_part_of_memory_for_each_shard() {
    const DELETES: usize = 150;
    const MOST_KILOBYTES: u64 = 16 * 1_024;
    let clock = ManualClock::new();
    let settings = Settings { placement: Placement::Random, ..Settings::default() };
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let partition = PartitionKey::new("log").expect("a partition key");
    let count = ShardCount::new(64).expect("a count");
    memory.place_metadata(CollectionMetadata::stable(
        partition.clone(),
        Placement::Random,
        count,
        0,
    ));
    let store = Faulty::new(memory);
    store.delay(&clock, Duration::from_millis(1));
    let directory = Directory::new(
        World::new(store.clone(), store.clone(), clock.clone(), SeededEntropy::new(1)),
        settings,
    );
    let deletes = (0..DELETES).map(|n| {
        let sort = SortKey::string(n.to_string()).expect("a sort key");
        BatchOperation::Delete(ItemKey::new(partition.clone(), sort))
    });
    let deletes = deletes.collect();
    let writer = Writer::new(directory);
    let deadline = Deadline::after(clock.now(), Duration::from_secs(20));
    let before = peak_kilobytes();
    let written = block_on(writer.batch(deletes, deadline)).expect("a batch");
    assert_eq!(written.written, DELETES);
    let taken = peak_kilobytes() - before;
    assert!(taken <= MOST_KILOBYTES, "{taken} KB");
}

/// The most memory that this process has had, in kilobytes.
fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}
