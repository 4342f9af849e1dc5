//! Metadata items.

use dynashard_core::ports::{Clock, MetadataStore, StoreError};
use dynashard_core::{CollectionMetadata, Generation, HistoryEntry, MAX_HISTORY_ENTRIES, Phase};
use dynashard_keys::{PartitionKey, Placement, ShardCount};

use super::{Fixture, partition};

/// How far a server's clock may be from the test's, in seconds.
const CLOCK_SKEW_SECS: u64 = 120;

/// Absence is an answer and no error.
pub async fn a_collection_that_was_not_created_is_none(fixture: &impl Fixture) {
    assert_eq!(get(&partition("metadata absent"), fixture).await, None);
}

/// Every placement in every phase, with the extremes of every field.
pub async fn every_state_is_read_back(fixture: &impl Fixture) {
    let (from, to) = (ShardCount::ONE, count(8));
    for placement in [Placement::Xxh64, Placement::Jump, Placement::Random] {
        for phase in [Phase::Stable, Phase::Forward { from, to }, Phase::Move { from, to }] {
            for number_of_shards in [ShardCount::ONE, count(ShardCount::MAX)] {
                let partition = partition(&format!("{placement} {phase:?} {number_of_shards}"));
                let entry =
                    |at_secs: u64| HistoryEntry { at_secs, count: count(1 << (at_secs % 9)) };
                let entries = u64::try_from(MAX_HISTORY_ENTRIES).expect("a small number");
                let metadata = CollectionMetadata {
                    partition: partition.clone(),
                    number_of_shards,
                    last_updated_secs: 1_356_998_400,
                    // As text 10 comes before 9.
                    shard_history: (1..=entries).map(entry).collect(),
                    generation: Generation::new(u64::MAX),
                    phase,
                    placement,
                    rev: u64::MAX - 1,
                    min_shards: count(4),
                };
                create(&metadata, fixture).await.expect("created");
                assert_eq!(get(&partition, fixture).await, Some(metadata));
            }
        }
    }
}

/// The second creation is refused, and changes nothing.
pub async fn a_collection_is_created_once(fixture: &impl Fixture) {
    let partition = partition("created once");
    let first = CollectionMetadata::first_write(partition.clone(), Placement::Xxh64, 1);
    let second = CollectionMetadata::pre_sharded(partition.clone(), Placement::Random, count(7), 2);
    assert_eq!(create(&first, fixture).await, Ok(()));
    let refused = Err(StoreError::ConditionFailed { existing: None });
    assert_eq!(create(&second, fixture).await, refused);
    assert_eq!(get(&partition, fixture).await, Some(first));
}

/// A store whose server tells the time passes it on: leases are counted by it.
pub async fn answers_carry_the_servers_time(fixture: &impl Fixture) {
    let partition = partition("dated");
    let metadata = CollectionMetadata::first_write(partition.clone(), Placement::Xxh64, 1);
    let created = fixture.metadata().create(&metadata).await.expect("created").server_secs;
    let read = fixture.metadata().get(&partition).await.expect("a strong read").server_secs;
    let now = fixture.clock().now().epoch_secs();
    for server_secs in [created, read] {
        let server_secs = server_secs.expect("a Date header");
        assert!(server_secs.abs_diff(now) <= CLOCK_SKEW_SECS, "{server_secs} at {now}");
    }
}

async fn create(metadata: &CollectionMetadata, fixture: &impl Fixture) -> Result<(), StoreError> {
    fixture.metadata().create(metadata).await.map(|dated| dated.value)
}

async fn get(partition: &PartitionKey, fixture: &impl Fixture) -> Option<CollectionMetadata> {
    fixture.metadata().get(partition).await.expect("a strong read").value
}

fn count(count: u32) -> ShardCount {
    ShardCount::new(count).expect("a shard count")
}
