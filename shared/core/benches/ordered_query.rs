//! What a page of an ordered query takes beside DynamoDB's time: the stores are in memory and answer
//! at once, so most of it is the merge of the shards.

use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dynashard_core::ports::{Clock, World};
use dynashard_core::query::{PageBudget, Query};
use dynashard_core::{
    Attributes, CollectionMetadata, Deadline, Directory, Generation, Reader, Settings, StoredItem,
    Version,
};
use dynashard_keys::{ItemKey, PartitionKey, Placement, ShardCount, SortKey};
use dynashard_testkit::{ManualClock, MemoryStore, SeededEntropy, block_on};

const ITEMS: u32 = 2_000;

/// A collection in so many shards.
fn collection(shards: u32) -> (MemoryStore, ManualClock) {
    let (clock, settings) = (ManualClock::new(), Settings::default());
    let memory = MemoryStore::new(clock.clone(), settings.schema.clone());
    let (partition, placement) = (partition(), Placement::Xxh64);
    let count = ShardCount::new(shards).expect("a count");
    let now_secs = clock.now().epoch_secs();
    let metadata = CollectionMetadata::stable(partition.clone(), placement, count, now_secs);
    memory.place_metadata(metadata);
    for number in 0..ITEMS {
        let sort =
            SortKey::string(format!("2013-01-01T10:00:00Z#{number:06}")).expect("a sort key");
        let key = ItemKey::new(partition.clone(), sort);
        let shard = placement.home(&key, count).expect("it is calculated");
        let item = StoredItem {
            attributes: Attributes::new(),
            generation: Generation::new(1),
            version: Version::new(u64::from(number)),
            forwarded: false,
        };
        memory.place(&key.at(shard, Placement::Xxh64, settings.schema.separator), item);
    }
    (memory, clock)
}

fn partition() -> PartitionKey {
    PartitionKey::new("EWR").expect("a partition key")
}

fn ordered_query(criterion: &mut Criterion) {
    for (shards, limit) in [(8, 100), (64, 100), (64, 1_000)] {
        let (memory, clock) = collection(shards);
        let query = Query { limit, ..Query::all(partition()) };
        let mut group = criterion.benchmark_group("ordered_query");
        group.throughput(Throughput::Elements(u64::from(limit)));
        group.bench_function(format!("{shards}_shards/{limit}_items"), |bencher| {
            let reader = || {
                let entropy = SeededEntropy::new(1);
                let settings = Settings::default();
                let directory = Directory::new(
                    World::new(memory.clone(), memory.clone(), clock.clone(), entropy),
                    settings,
                );
                Reader::new(directory)
            };
            let page = |reader: Reader| {
                let deadline = Deadline::after(clock.now(), Duration::from_secs(20));
                let page = block_on(reader.query(&query, PageBudget::UNLIMITED, deadline));
                assert_eq!(page.expect("a page").items.len(), limit as usize);
            };
            bencher.iter_batched(reader, page, BatchSize::SmallInput);
        });
        group.finish();
    }
}

criterion_group!(benches, ordered_query);
criterion_main!(benches);
